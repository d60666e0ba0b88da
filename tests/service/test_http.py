"""The HTTP server: on a real socket, and through memory where the clock matters."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from serving import MemoryWires

from pocketmq.service.http import (
    MAX_CONNECTIONS,
    MAX_HEAD,
    Page,
    Pages,
    Request,
    encode_page,
    parse_request,
    serve_http,
)

GET = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
HELLO = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n"
    b"Connection: close\r\n\r\nhello\n"
)


def hello(request: Request) -> Page:
    return Page.of(200, "hello")


async def later(request: Request) -> Page:
    await trio.lowlevel.checkpoint()
    return Page(200, repr(request).encode(), "application/json")


def fail(request: Request) -> Page:
    raise ZeroDivisionError("a secret")


async def fail_later(request: Request) -> Page:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.checkpoint)
        raise TimeoutError("a secret")


def large(request: Request) -> Page:
    return Page(200, bytes(10_000_000))


async def stuck(request: Request) -> Page:
    await trio.sleep_forever()
    raise AssertionError


def unheard_of(request: Request) -> Page:
    return Page.of(299, "")


PAGES: Pages = {
    "/hello": hello,
    "/later": later,
    "/fail": fail,
    "/fail-later": fail_later,
    "/large": large,
    "/stuck": stuck,
    "/unheard-of": unheard_of,
}


@asynccontextmanager
async def serving_memory(pages: Pages = PAGES) -> AsyncIterator[MemoryWires]:
    """The server, reached through memory, for the length of a block."""
    wires = MemoryWires()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, [cast(trio.SocketListener, wires)], pages))
        yield wires
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving_socket() -> AsyncIterator[trio.SocketStream]:
    """A connection to the server, and whether it is still there at the end of the block."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    connect = partial(trio.open_tcp_stream, *listener.socket.getsockname())
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_http, [listener], PAGES))
            async with await connect() as stream:
                yield stream
            async with await connect() as stream:
                await stream.send_all(GET)
                assert await rest(stream) == HELLO
            nursery.cancel_scope.cancel()


async def rest(stream: trio.abc.ReceiveStream) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join([bytes(data) async for data in stream])


async def ask(wires: MemoryWires, *parts: bytes) -> bytes:
    """The answer to a request that comes in so many parts."""
    async with wires.connect() as client:
        for part in parts:
            await client.send_bytes(part)
            await trio.testing.wait_all_tasks_blocked()
        return await rest(client.stream)


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"\r\nConnection: close\r\n" in answer
    return int(answer[9:12])


# --- requests and answers, as bytes


def test_a_request_is_a_method_a_path_and_headers() -> None:
    received = b"GET /metrics?name=x HTTP/1.1\r\nHost:  local \r\nACCEPT: a\r\naccept:\tb\r\nEmpty:\r\n\r\nno body"
    headers = {"host": "local", "accept": "a, b", "empty": ""}
    assert parse_request(received) == Request("GET", "/metrics", headers)


def test_lines_may_end_as_people_type_them() -> None:
    assert parse_request(b"GET /hello HTTP/1.0\nHost: x\n\n") == Request("GET", "/hello", {"host": "x"})


BROKEN = [
    b"GET",
    b"GET /hello HTTP/1.1\r\n",
    b"\r\n\r\n",
    b"GET /hello\r\n\r\n",
    b"GET  /hello HTTP/1.1\r\n\r\n",
    b"GET /hello HTTP/2.0\r\n\r\n",
    b"GET /hello HTTP/1.1 \r\n\r\n",
    b"GET /h\xc3\xa9llo HTTP/1.1\r\n\r\n",
    b"G(T /hello HTTP/1.1\r\n\r\n",
    b" GET /hello HTTP/1.1\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost\r\n\r\n",
    b"GET /hello HTTP/1.1\r\n: x\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost: a\rb\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\0\0\0\x08\0\0\0\x04{{{{",
]


@pytest.mark.parametrize("received", BROKEN)
def test_what_is_no_request_is_answered_with_400(received: bytes) -> None:
    answer = parse_request(received)
    assert isinstance(answer, Page)
    assert answer.status == 400


def test_a_head_may_be_as_long_as_the_limit_and_no_longer() -> None:
    start, end = b"GET /hello HTTP/1.1\r\nHost: ", b"\r\n\r\n"
    fits = start + b"x" * (MAX_HEAD - len(start + end)) + end
    assert isinstance(parse_request(fits), Request)
    answer = parse_request(b"GET /" + fits[:-5])
    assert isinstance(answer, Page)
    assert answer.status == 431


@given(
    st.binary()
    | st.lists(st.sampled_from([b"GET ", b"/", b" HTTP/1.1", b"\r\n", b"\n", b"a: b", b"\xff"])).map(b"".join)
)
def test_garbage_is_answered(received: bytes) -> None:
    answer = parse_request(received)
    assert isinstance(answer, Request) or (answer.status == 400 and encode_page(answer))


def test_a_text_of_a_page_may_hold_any_character() -> None:
    assert Page.of(200, "é\udc80").body == "é?\n".encode()


# --- conversations


@pytest.mark.trio
async def test_a_page_is_answered_and_the_connection_closed() -> None:
    async with serving_socket() as stream:
        await stream.send_all(GET)
        assert await rest(stream) == HELLO


@pytest.mark.trio
async def test_an_answer_arrives_though_more_was_sent_than_was_read() -> None:
    async with serving_socket() as stream:
        await stream.send_all(b"POST /hello HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000))
        assert status(await rest(stream)) == 405


@pytest.mark.trio
async def test_a_head_that_is_far_too_long_is_told_so() -> None:
    async with serving_socket() as stream:
        await stream.send_all(b"GET /" + b"x" * 100_000)
        assert status(await rest(stream)) == 431


@pytest.mark.trio
async def test_a_head_may_come_byte_by_byte() -> None:
    async with serving_memory() as wires:
        assert await ask(wires, *(GET[n : n + 1] for n in range(len(GET)))) == HELLO


@pytest.mark.trio
async def test_a_page_may_take_its_time_and_say_what_it_is() -> None:
    async with serving_memory() as wires:
        answer = await ask(wires, b"GET /later?now HTTP/1.1\r\nA: b\r\n\r\n")
        assert b"\r\nContent-Type: application/json\r\n" in answer
        assert answer.endswith(b"\r\n\r\nRequest(method='GET', path='/later', headers={'a': 'b'})")


@pytest.mark.trio
async def test_head_is_answered_as_get_is_but_for_the_body() -> None:
    async with serving_memory() as wires:
        assert await ask(wires, GET.replace(b"GET", b"HEAD")) == HELLO.removesuffix(b"hello\n")
        missing = await ask(wires, b"HEAD /other HTTP/1.1\r\n\r\n")
        assert status(missing) == 404
        assert missing.endswith(b"\r\n\r\n")


@pytest.mark.trio
@pytest.mark.parametrize("path", [b"/", b"/hell", b"/hello/", b"/HELLO", b"*", b"http://localhost/hello"])
async def test_other_paths_are_not_found(path: bytes) -> None:
    async with serving_memory() as wires:
        assert status(await ask(wires, b"GET %s HTTP/1.1\r\n\r\n" % path)) == 404


@pytest.mark.trio
@pytest.mark.parametrize("method", [b"POST", b"OPTIONS", b"get", b"BREW"])
async def test_other_methods_are_told_which_there_are(method: bytes) -> None:
    async with serving_memory() as wires:
        answer = await ask(wires, GET.replace(b"GET", method))
        assert status(answer) == 405
        assert b"\r\nAllow: GET, HEAD\r\n" in answer


@pytest.mark.trio
@pytest.mark.parametrize("path", ["/fail", "/fail-later"])
async def test_a_page_that_fails_is_logged_and_tells_the_peer_nothing(
    caplog: pytest.LogCaptureFixture, path: str
) -> None:
    async with serving_memory() as wires:
        answer = await ask(wires, b"GET %s HTTP/1.1\r\n\r\n" % path.encode())
        assert status(answer) == 500
        assert answer.endswith(b"\r\n\r\ninternal error; the program's log has the details\n")
        (record,) = caplog.records
        assert (record.getMessage(), record.levelno) == (f"the page {path} failed", logging.ERROR)
        assert record.exc_info is not None
        assert await ask(wires, GET) == HELLO


@pytest.mark.trio
async def test_a_page_with_a_status_that_is_none_costs_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async with serving_memory() as wires:
        assert await ask(wires, b"GET /unheard-of HTTP/1.1\r\n\r\n") == b""
        assert [record.getMessage() for record in caplog.records] == ["an HTTP connection failed"]
        assert await ask(wires, GET) == HELLO


@pytest.mark.trio
async def test_whoever_only_looks_whether_the_port_is_open_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with serving_socket() as stream:
        await stream.send_eof()
        assert await rest(stream) == b""
    assert caplog.records == []


@pytest.mark.trio
async def test_whoever_ends_a_request_early_is_told_that_it_is_none() -> None:
    async with serving_socket() as stream:
        await stream.send_all(GET[:-2])
        await stream.send_eof()
        assert status(await rest(stream)) == 400


@pytest.mark.trio
async def test_a_peer_that_is_gone_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with serving_memory() as wires:
        for request in (b"GET", GET, b"GET /large HTTP/1.1\r\n\r\n", b"GET /later HTTP/1.1\r\n\r\n"):
            async with wires.connect() as client:
                await client.send_bytes(request)
        assert await ask(wires, GET) == HELLO
    assert caplog.records == []


# --- what a peer can cost


@pytest.mark.trio
async def test_a_request_that_does_not_arrive_in_time_is_told_so(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory() as wires, wires.connect() as client:
        await client.send_bytes(GET[:-1])
        began = trio.current_time()
        assert status(bytes(await client.stream.receive_some())) == 408
        assert trio.current_time() - began == pytest.approx(5.0)


@pytest.mark.trio
async def test_an_answer_that_is_not_taken_in_time_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory() as wires, wires.connect(lockstep=True) as client:
        await client.send_bytes(GET)
        began = trio.current_time()
        assert await client.stream.receive_some(5) == b"HTTP/"
        with pytest.raises(trio.BrokenResourceError):
            await client.send_bytes(b"x")  # which waits until it is read
        assert trio.current_time() - began == pytest.approx(10.0)


@pytest.mark.trio
async def test_a_peer_that_does_not_close_is_closed_soon(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory() as wires, wires.connect() as client:
        await client.send_bytes(GET)
        assert await rest(client.stream) == HELLO
        began = trio.current_time()
        with suppress(trio.BrokenResourceError):
            while trio.current_time() < began + 30:
                await client.send_bytes(b"x")
                await trio.sleep(0.1)
        assert trio.current_time() - began == pytest.approx(1.0, abs=0.2)


@pytest.mark.trio
async def test_more_connections_than_there_are_places_are_closed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_memory() as wires:
        clients = [wires.connect() for _ in range(MAX_CONNECTIONS)]
        await trio.testing.wait_all_tasks_blocked()
        async with wires.connect() as client:
            assert await rest(client.stream) == b""
        (record,) = caplog.records
        assert record.getMessage() == "closed an HTTP connection: there are 64 already"
        for waiting in clients:
            await waiting.send_bytes(GET)
            assert await rest(waiting.stream) == HELLO
            await waiting.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(wires, GET) == HELLO


@pytest.mark.trio
async def test_cancellation_closes_everything_at_once(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    async with serving_memory() as wires:
        clients = [wires.connect(lockstep=True) for _ in range(4)]
        await clients[1].send_bytes(b"GET")
        await clients[2].send_bytes(GET)
        await clients[3].send_bytes(b"GET /stuck HTTP/1.1\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked()
    for client in clients:
        await rest(client.stream)
    assert trio.current_time() == began
