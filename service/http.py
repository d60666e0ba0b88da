"""A very small HTTP server, for whoever asks how a program fares: GET and HEAD, one request per connection.

It is no more than that on purpose: a request has no body, an answer is whole when it is sent, and everything a peer can
do is bounded by one of the limits below.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import trio

logger = logging.getLogger("pocketmq.service")

MAX_CONNECTIONS: Final = 64
"""Connections at once; any more are closed."""

MAX_HEAD: Final = 8192
"""Bytes of a request's first line and headers."""

_HEAD_TIMEOUT: Final = 5.0
_SEND_TIMEOUT: Final = 10.0
_LINGER: Final = 1.0  # seconds for the peer to read the answer and close; closing before it did might reset that

_METHODS: Final = ("GET", "HEAD")


class Request(NamedTuple):
    """What was asked for, without a query; the names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class Page(NamedTuple):
    """What is answered."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def of(cls, status: int, text: str) -> Page:
        """A line of text."""
        return cls(status, f"{text}\n".encode(errors="replace"))


Pages = Mapping[str, Callable[[Request], Page | Awaitable[Page]]]
"""What makes the page of each path, at once or with `await`."""


async def serve_http(
    listeners: Sequence[trio.SocketListener],
    pages: Pages,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve these pages until cancelled, which closes every connection at once."""
    places = trio.CapacityLimiter(MAX_CONNECTIONS)

    async def connected(stream: trio.SocketStream) -> None:
        """The life of one connection; nothing that happens in it takes the server down."""
        try:
            async with stream:
                if places.available_tokens:
                    async with places:
                        await _converse(stream, pages)
                else:
                    logger.warning("closed an HTTP connection: there are %d already", MAX_CONNECTIONS)
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            logger.debug("an HTTP connection ended: %r", error)
        except Exception:
            logger.exception("an HTTP connection failed")

    task_status.started()
    await trio.serve_listeners(connected, list(listeners))


async def _converse(stream: trio.SocketStream, pages: Pages) -> None:
    try:
        with trio.fail_after(_HEAD_TIMEOUT):
            received = await _receive_head(stream)
    except trio.TooSlowError:
        answer = encode_page(Page.of(408, f"the request took more than {_HEAD_TIMEOUT:g} seconds to arrive"))
    else:
        if not received:  # whoever looks whether the port is open
            return
        answer = await _answer(received, pages)
    with trio.fail_after(_SEND_TIMEOUT):
        await stream.send_all(answer)
        await stream.send_eof()
    with trio.move_on_after(_LINGER):
        while await stream.receive_some(MAX_HEAD):
            pass


async def _receive_head(stream: trio.SocketStream) -> bytes:
    """What comes until the head is complete, is too long, or the peer ends it."""
    received = b""
    while len(received) < MAX_HEAD and not _HEAD_END.search(received):
        data = await stream.receive_some(MAX_HEAD - len(received))
        if not data:
            break
        received += data
    return received


async def _answer(received: bytes, pages: Pages) -> bytes:
    request = parse_request(received)
    if isinstance(request, Page):
        return encode_page(request)
    return encode_page(await _make_page(request, pages), with_body=request.method != "HEAD")


async def _make_page(request: Request, pages: Pages) -> Page:
    make = pages.get(request.path)
    if make is None:
        return Page.of(404, "there is no such page")
    if request.method not in _METHODS:
        return Page.of(405, f"the methods are {' and '.join(_METHODS)}")
    try:
        page = make(request)
        return page if isinstance(page, Page) else await page
    except Exception:
        logger.exception("the page %s failed", request.path)
        return Page.of(500, "internal error; the program's log has the details")


# --- bytes <-> values

# A line may end without CR, as RFC 9112 allows: people type requests into netcat.
_LINE_END: Final = re.compile(r"\r?\n")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE: Final = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/1\.[0-9]")
_HEADER: Final = re.compile(rf"({_TOKEN}):([\t\x20-\x7e\x80-\xff]*)")


def parse_request(received: bytes) -> Request | Page:
    """What is asked for by a head, or what is answered instead."""
    head, *ended = _HEAD_END.split(received, maxsplit=1)
    if not ended and len(received) >= MAX_HEAD:
        return Page.of(431, f"the head of a request has at most {MAX_HEAD} bytes")
    first, *lines = _LINE_END.split(head.decode("latin-1"))
    request = _REQUEST_LINE.fullmatch(first)
    if not ended or request is None:
        return Page.of(400, "this is no HTTP/1 request")
    headers: dict[str, str] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            return Page.of(400, "a header has the form NAME: VALUE, on one line")
        name, value = header[1].lower(), header[2].strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(request[1], request[2].partition("?")[0], headers)


def encode_page(page: Page, *, with_body: bool = True) -> bytes:
    """The bytes of an answer; for HEAD without the body that the headers speak of."""
    status = HTTPStatus(page.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append(f"Allow: {', '.join(_METHODS)}")
    head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
    return head.encode("latin-1") + (page.body if with_body else b"")
