"""One connection as a trio server sees it: who is there, and how the outbox leaves.

The answers of a burst are sent by the connection's own task, in one `send_all` unless they are large. What comes up
outside of a burst, such as the answer to a held pull, is sent by a task made for it; whoever sends takes along all that
is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import trio

from pocketmq.protocol.command import Buffer, Command
from pocketmq.protocol.negotiation import accept
from pocketmq.remoting.channel import Channel, Outcome

logger = logging.getLogger("pocketmq.remoting")

_PIECE: Final = 256 * 1024  # a peer that takes this much at a time is not idle, however slow it is


class Peer(Channel):
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
        super().__init__(address, max_unanswered=max_unanswered, max_outgoing=max_outgoing)
        self.last_active = trio.current_time()
        self._stream = stream
        self._capabilities = capabilities
        self._start_soon = start_soon
        self._is_asleep = True
        self._in_burst = False
        self._sending = False
        self._relief: trio.Event | None = None

    async def request(
        self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"", *, timeout: float
    ) -> Command:
        """Send the peer a request and wait for its answer; raises a `RemotingError` if there is none."""
        known = trio.Event()
        outcome = Outcome(known.set)
        deadline = trio.current_time() + timeout
        opaque = self.begin(code, header, body, done=outcome.set, deadline=deadline)
        try:
            with trio.move_on_at(deadline):
                await known.wait()
        finally:
            self.expire(trio.current_time())
            self.withdraw(opaque)
        return outcome.result()

    def _accept(self, offer: str, response: Command) -> Command:
        self.speaks_pocketmq = True
        return response._replace(ext_fields={**response.ext_fields, **accept(offer, self._capabilities)})

    # --- for the session ---

    def begin_burst(self) -> None:
        """Until `flush`, keep everything in the outbox."""
        self._in_burst = True
        self._is_asleep = False

    async def flush(self) -> None:
        """Send what is in the outbox; return when the connection may be read again."""
        self._in_burst = False
        if self._outbox and not self._sending:
            await self._send()
        self._is_asleep = not self._sending
        while (self.owes_too_much or self.is_congested) and not self.closed:
            await self._relieved()

    async def drain(self) -> None:
        """Return when nothing is owed and nothing waits to be sent."""
        await self.flush()
        while (self._unanswered or self.outgoing) and not self.closed:
            await self._relieved()

    # --- inside ---

    def _wake(self) -> None:
        self._is_asleep = False
        self._sending = True
        self._start_soon(self._send_out_of_band)

    async def _send_out_of_band(self) -> None:
        try:
            await self._send()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.end("the connection broke", error)  # its own task notices by itself
        except Exception as error:  # this task is the server's: nothing may leave it
            logger.exception("sending to %s failed", self.name)
            self.end("what was to be sent could not be", error)

    async def _send(self) -> None:
        self._sending = True
        try:
            while self._outbox:
                data = memoryview(self.take_outbox())
                for start in range(0, len(data), _PIECE):
                    piece = data[start : start + _PIECE]
                    await self._stream.send_all(piece)
                    self.last_active = trio.current_time()
                    self.sent(len(piece))
        finally:
            self._sending = False
            self._is_asleep = not self._in_burst

    async def _relieved(self) -> None:
        self._relief = trio.Event()
        await self._relief.wait()

    def _eased(self) -> None:
        if self._relief is not None:
            self._relief.set()
            self._relief = None
