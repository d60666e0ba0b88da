"""The life of one connection of a server: read a burst, handle it, send its answers, until one side has had enough."""

from __future__ import annotations

import logging
from typing import Final

import trio

from pocketmq.protocol.codes import CommandFlag
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.remoting.channel import RECEIVE_SIZE
from pocketmq.remoting.handlers import Dispatcher, Service
from pocketmq.remoting.peer import Peer

logger = logging.getLogger("pocketmq.remoting")

_FLUSH_SIZE: Final = 1024 * 1024  # a burst of small requests may ask for much: no more than this piles up
_RESPONSE: Final = int(CommandFlag.RESPONSE)
_SLOWEST: Final = 128 * 1024  # bytes a second: a large frame gets the time that it takes at this rate


class Session:
    """One connection. `run` is its task; the server tells it to stop."""

    def __init__(self, stream: trio.abc.Stream, peer: Peer, dispatch: Dispatcher, service: Service) -> None:
        self.peer = peer
        self._stream = stream
        self._dispatch = dispatch
        self._service = service
        self._decoder = FrameDecoder()
        self._frame_began: float | None = None
        self._living = trio.CancelScope()
        self._receiving = trio.CancelScope()
        self._in_receive = False
        self._finishing = False
        self._unhandled = b""

    async def run(self) -> None:
        """Serve the peer until it goes, until it breaks the protocol, or until `finish` or `abort` is called."""
        self._service.opened(self.peer)
        try:
            with self._living:
                with self._receiving:
                    await self._receive_bursts()
                if self._finishing:
                    await self._handle(self._unhandled)
                    await self.peer.drain()
        except RemoteProtocolError as error:
            logger.warning("closed the connection from %s: %s", self.peer.name, error)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("the connection from %s broke", self.peer.name)
        finally:
            self.peer.end("the connection ended")
            self._service.closed(self.peer)

    def finish(self) -> None:
        """Read no more, send what is owed, and end."""
        self._finishing = True
        if self._in_receive:  # anywhere else, a write might be cut in two
            self._receiving.cancel()

    def abort(self) -> None:
        """End now."""
        self._living.cancel()

    def overdue(self, now: float, idle_timeout: float, half_frame_timeout: float) -> str | None:
        """Why the connection is to be closed, if it is."""
        if now - self.peer.last_active >= idle_timeout:
            return f"nothing was heard or sent for {idle_timeout:g} s"
        if self._frame_began is not None:
            allowed = half_frame_timeout + self._decoder.pending / _SLOWEST
            if now - self._frame_began >= allowed:
                return f"a frame was not complete after {allowed:g} s"
        return None

    async def _receive_bursts(self) -> None:
        while not self._finishing:
            data = await self._receive()
            if not data:
                self._decoder.check_end()
                return
            await self._handle(data)

    async def _receive(self) -> bytes:
        self._in_receive = True
        data = bytes(await self._stream.receive_some(RECEIVE_SIZE))
        self._in_receive = False
        if self._finishing:  # it arrived as the receiving was cancelled; in that scope no answer could leave
            self._unhandled, data = data, b""
        return data

    async def _handle(self, data: bytes) -> None:
        """Handle everything that arrived together, then let its answers go."""
        peer, dispatch = self.peer, self._dispatch
        peer.last_active = trio.current_time()
        peer.begin_burst()
        try:
            for command in self._decoder.feed(data):
                self._frame_began = None
                if command.flag & _RESPONSE:
                    peer.answered(command)
                    continue
                peer.encoding = command.encoding
                dispatch(command, peer)
                if peer.outgoing > _FLUSH_SIZE:
                    await self._end_burst()
                    peer.begin_burst()
        finally:
            await self._end_burst()
        if self._frame_began is None and self._decoder.pending:
            self._frame_began = trio.current_time()

    async def _end_burst(self) -> None:
        self._service.burst_ended()
        await self.peer.flush()
