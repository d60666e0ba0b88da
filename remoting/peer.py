"""One connection as a server sees it: who is there, what waits to be sent, what is still owed.

A peer is used in the trio thread only. Whatever is to be sent goes through its outbox, and one `send_all` takes all
that is there, so the answers of a burst leave together. Two numbers bound what a connection can cost:

- *unanswered*: bytes of requests whose answers were promised for later. Above the limit the connection is not read.
- *outgoing*: bytes that wait to be sent. Above the limit an answer is replaced by a short SYSTEM_BUSY; requests are
  not read anyway while a burst's answers wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import trio

from pocketmq.protocol.codes import CommandFlag, Encoding, ResponseCode
from pocketmq.protocol.command import NO_FIELDS, Buffer, Command
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.fields import encode_header
from pocketmq.protocol.framing import encode_head
from pocketmq.protocol.negotiation import OFFER, accept
from pocketmq.protocol.pending import PendingRequests
from pocketmq.remoting.errors import CongestedError, ConnectionLostError, RequestTimeoutError

logger = logging.getLogger("pocketmq.remoting")

_ONEWAY: Final = int(CommandFlag.ONEWAY)


@dataclass(slots=True)
class _Waiter:
    """Someone who waits for the peer's answer to a request of ours."""

    done: trio.Event
    response: Command | None = None


class Peer:
    """The other end of one connection."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: tuple[str, int],
        *,
        capabilities: str,
        max_unanswered: int,
        max_outgoing: int,
        start_soon: Callable[[Callable[[], Any]], None],
    ) -> None:
        self.address = address
        self.encoding = int(Encoding.JSON)
        self.speaks_pocketmq = False
        self.closed = False
        self.last_active = trio.current_time()
        self._stream = stream
        self._capabilities = capabilities
        self._start_soon = start_soon
        self._max_unanswered = max_unanswered
        self._max_outgoing = max_outgoing
        self._outbox: list[Buffer] = []
        self._outgoing = 0
        self._unanswered = 0
        self._in_burst = False
        self._sending = False
        self._eased: trio.Event | None = None
        self._pending: PendingRequests[_Waiter] = PendingRequests()

    @property
    def name(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._unanswered} unanswered, {self._outgoing} outgoing"
        return f"<Peer {self.name} {state}>"

    # --- for services ---

    def notify(self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"") -> None:
        """Send the peer a request that wants no answer; `CongestedError` if it does not read what it is sent."""
        self._send_request(self._pending.next_opaque(), code, header, body, _ONEWAY)

    async def request(
        self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"", *, timeout: float
    ) -> Command:
        """Send the peer a request and wait for its answer."""
        opaque = self._pending.next_opaque()
        waiter = _Waiter(trio.Event())
        self._send_request(opaque, code, header, body, 0)
        self._pending.add(opaque, waiter)
        try:
            with trio.move_on_after(timeout):
                await waiter.done.wait()
        finally:
            self._pending.pop(opaque)
        if waiter.response is not None:
            return waiter.response
        if self.closed:
            raise ConnectionLostError(f"{self.name} went away before it answered request {code}")
        raise RequestTimeoutError(f"{self.name} did not answer request {code} within {timeout:g} s")

    # --- for handlers and their promises ---

    def send_answer(self, request: Command, response: Command) -> None:
        """Put the answer to a request into the outbox, if anyone is there who wants it."""
        if request.is_oneway or self.closed:
            return
        if OFFER in request.ext_fields:
            self.speaks_pocketmq = True
            accepted = accept(request.ext_fields[OFFER], self._capabilities)
            response = response._replace(ext_fields={**response.ext_fields, **accepted})
        if self._outgoing > self._max_outgoing:
            response = request.reply(ResponseCode.SYSTEM_BUSY, remark="you do not read your answers; ask again later")
        try:
            self._put(response)
        except LocalProtocolError as error:
            logger.error("the answer to request %s of %s cannot be sent: %s", request.code, self, error)
            self._put(request.reply(ResponseCode.SYSTEM_ERROR, remark="the answer does not fit into a frame"))

    def promised(self, cost: int) -> None:
        self._unanswered += cost

    def settled(self, cost: int) -> None:
        self._unanswered -= cost
        self._ease()

    # --- for the server ---

    def answered(self, response: Command) -> None:
        """The peer's answer to a request of ours; one nobody waits for is dropped."""
        waiter = self._pending.pop(response.opaque)
        if waiter is not None:
            waiter.response = response
            waiter.done.set()

    def begin_burst(self) -> None:
        """Until `flush`, keep everything in the outbox."""
        self._in_burst = True

    @property
    def outgoing(self) -> int:
        return self._outgoing

    @property
    def settled_and_sent(self) -> bool:
        return not self._unanswered and not self._outgoing

    async def flush(self) -> None:
        """Send what is in the outbox; return when the connection may be read again."""
        self._in_burst = False
        if self._outbox and not self._sending:
            await self._send()
        while self._unanswered > self._max_unanswered or self._outgoing > self._max_outgoing:
            self._eased = trio.Event()
            await self._eased.wait()

    async def drain(self) -> None:
        """Return when nothing is owed and nothing waits to be sent."""
        self._in_burst = False
        self._max_unanswered = self._max_outgoing = 0
        await self.flush()

    def close(self) -> None:
        """The connection has ended: nothing is sent any more, and nobody waits for an answer."""
        self.closed = True
        self._outbox.clear()
        for waiter in self._pending.clear():
            waiter.done.set()

    # --- inside ---

    def _send_request(self, opaque: int, code: int, header: tuple[Any, ...] | None, body: Buffer, flag: int) -> None:
        if self.closed:
            raise ConnectionLostError(f"{self.name} has gone")
        if self._outgoing > self._max_outgoing:
            raise CongestedError(f"{self.name} does not read what it is sent")
        ext_fields = NO_FIELDS if header is None else encode_header(header)
        self._put(Command(code, ext_fields, body, opaque, flag, encoding=self.encoding))

    def _put(self, command: Command) -> None:
        head = encode_head(command)
        self._outbox.append(head)
        self._outgoing += len(head)
        if command.body:
            self._outbox.append(command.body)
            self._outgoing += len(command.body)
        if not self._in_burst and not self._sending:
            self._sending = True
            self._start_soon(self._send_out_of_band)

    async def _send_out_of_band(self) -> None:
        """Send what came up outside of a burst; the connection's own task notices if it is broken."""
        try:
            await self._send()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.close()

    async def _send(self) -> None:
        self._sending = True
        try:
            while self._outbox:
                data = b"".join(self._outbox)
                self._outbox.clear()
                await self._stream.send_all(data)
                self._outgoing -= len(data)
                self.last_active = trio.current_time()
                self._ease()
        finally:
            self._sending = False

    def _ease(self) -> None:
        if self._eased is not None:
            self._eased.set()
            self._eased = None
