"""The trio server: read a burst, call the handlers, send the burst's answers at once.

A connection is one task. It takes whatever the kernel has, cuts it into commands, and calls a handler for each, in
order and without waiting; then the answers leave in one write. Answers that come later, and requests to the peer, use
the same outbox (`peer.py`). There is no task, channel or timer for a single request: one sweep over all connections
looks after the deadlines.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import trio

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.remoting.channel import MAX_OUTGOING, MAX_UNANSWERED, RECEIVE_SIZE, host_port
from pocketmq.remoting.handlers import Dispatcher, Service
from pocketmq.remoting.peer import Peer
from pocketmq.remoting.session import Session
from pocketmq.remoting.tls import Tls, accept_stream

logger = logging.getLogger("pocketmq.remoting")

_SWEEP_INTERVAL: Final = 1.0
_SWEEP_AT_ONCE: Final = 1000  # connections, about a millisecond; then the others get their turn
_QUIET: Final = 1.0  # seconds without a byte after which a peer is taken to send no more
_LARGEST_REFUSED: Final = 6 * 1024 * 1024  # the largest message and its header; so many bytes for each refusal
_REFUSED: Final = ""  # under this name, which is no address, the connections above the limits are counted


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits of a server. The defaults are RocketMQ's where it has them, and generous where it has none."""

    max_connections: int = 50_000
    """Connections in all."""

    max_connections_per_address: int = 20_000
    """Connections from one address: behind a gateway thousands of clients may share one."""

    max_refusals: int = 64
    """Connections above the limits that are told so at the same time; any more are closed without a word."""

    idle_timeout: float = 120.0
    """Seconds without a byte in either direction after which a connection is closed."""

    half_frame_timeout: float = 30.0
    """Seconds a frame may take to arrive, besides what its size needs on a slow line."""

    refusal_timeout: float = 5.0
    """Seconds a connection above the limits gets to send the request that is answered with SYSTEM_BUSY."""

    max_unanswered: int = MAX_UNANSWERED
    """Bytes of requests with answers still to come at which a connection is no longer read."""

    max_outgoing: int = MAX_OUTGOING
    """Bytes waiting to be sent at which answers give way to SYSTEM_BUSY."""

    tls: Tls | None = None
    """The certificate and mode, if TLS is to be spoken."""


class Server:
    """Serves one service on any number of listeners. `serve` runs it; `shutdown` lets it finish and ends it."""

    def __init__(self, service: Service, options: ServerOptions | None = None) -> None:
        self._service = service
        self._options = options or ServerOptions()
        self._dispatch = Dispatcher(service.handlers)
        self._sessions: set[Session] = set()
        self._brief: set[trio.CancelScope] = set()
        self._places: Counter[str] = Counter()
        self._total = 0
        self._accepting = trio.CancelScope()
        self._deadline = math.inf

    def __repr__(self) -> str:
        return f"<Server {len(self._sessions)} connections{', stopping' if self._is_stopping else ''}>"

    async def serve(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `shutdown`, or until cancelled, which closes every connection at once."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep)
            async with trio.open_nursery() as self._tasks:
                task_status.started()
                with self._accepting:
                    await trio.serve_listeners(self._connected, list(listeners), handler_nursery=self._tasks)
            nursery.cancel_scope.cancel()

    def shutdown(self, grace: float = 10.0) -> None:
        """Accept nothing more and finish what was accepted, within `grace` seconds; then `serve` returns."""
        self._deadline = trio.current_time() + grace
        self._accepting.cancel()
        for session in self._sessions:
            session.finish()
        for scope in self._brief:
            scope.cancel()

    @property
    def _is_stopping(self) -> bool:
        return self._deadline < math.inf

    async def _connected(self, socket_stream: trio.SocketStream) -> None:
        """The life of one connection; nothing that happens in it takes the server down."""
        address = _address(socket_stream)
        try:
            async with socket_stream:
                with self._place(address[0]) as refusal:
                    if refusal is None:
                        await self._converse(socket_stream, address)
                    else:
                        await self._refuse(socket_stream, address, refusal)
        except RemoteProtocolError as error:
            logger.warning("closed the connection from %s: %s", host_port(address), error)
        except (trio.BrokenResourceError, trio.TooSlowError, OSError) as error:
            logger.debug("the connection from %s ended: %r", host_port(address), error)
        except Exception:
            logger.exception("the connection from %s failed", host_port(address))

    @contextmanager
    def _place(self, host: str) -> Iterator[str | None]:
        """Count a connection while it lives; the value is the reason for which it is one too many."""
        refusal = self._fullness(host)
        counter = _REFUSED if refusal else host
        self._places[counter] += 1
        self._total += refusal is None
        try:
            yield refusal
        finally:
            self._total -= refusal is None
            self._places[counter] -= 1
            if not self._places[counter]:
                del self._places[counter]

    def _fullness(self, host: str) -> str | None:
        options = self._options
        if self._total >= options.max_connections:
            return f"the limit of {options.max_connections} connections is reached"
        if self._places[host] >= options.max_connections_per_address:
            return f"the limit of {options.max_connections_per_address} connections from {host} is reached"
        return None

    @contextmanager
    def _briefly(self, seconds: float) -> Iterator[None]:
        """For what is no conversation, or none yet: it gets so many seconds, and none once the server stops."""
        with trio.fail_after(seconds) as scope:
            if self._is_stopping:
                scope.cancel()
            self._brief.add(scope)
            try:
                yield
            finally:
                self._brief.remove(scope)

    async def _converse(self, socket_stream: trio.SocketStream, address: tuple[str, int]) -> None:
        with self._briefly(self._options.idle_timeout):
            stream = await accept_stream(socket_stream, self._options.tls)
        peer = Peer(
            stream,
            address,
            capabilities=self._service.capabilities,
            max_unanswered=self._options.max_unanswered,
            max_outgoing=self._options.max_outgoing,
            start_soon=self._tasks.start_soon,
        )
        session = Session(stream, peer, self._dispatch, self._service)
        self._sessions.add(session)
        if self._is_stopping:
            session.finish()
        try:
            await session.run()
        finally:
            self._sessions.remove(session)
        if self._is_stopping:
            with trio.move_on_at(self._deadline):
                await _part(socket_stream)

    async def _refuse(self, socket_stream: trio.SocketStream, address: tuple[str, int], reason: str) -> None:
        """Tell a connection above the limits why it is closed, by answering its first requests."""
        logger.warning("refused the connection from %s: %s", host_port(address), reason)
        if self._places[_REFUSED] > self._options.max_refusals:
            return
        with self._briefly(self._options.refusal_timeout):
            stream = await accept_stream(socket_stream, self._options.tls)
            decoder = FrameDecoder(max_frame=_LARGEST_REFUSED)
            answers: list[bytes] = []
            while not answers and (data := await stream.receive_some(RECEIVE_SIZE)):
                answers = [
                    encode_frame(request.reply(ResponseCode.SYSTEM_BUSY, remark=reason))
                    for request in decoder.feed(bytes(data))
                    if not request.is_oneway and not request.is_response
                ]
            await stream.send_all(b"".join(answers))
            await _part(socket_stream)

    async def _sweep(self) -> None:
        """Close what is overdue; after `shutdown`, close everything when the time is up."""
        options = self._options
        while True:
            await trio.sleep(_SWEEP_INTERVAL)
            now = trio.current_time()
            for number, session in enumerate(list(self._sessions), 1):
                if not number % _SWEEP_AT_ONCE:
                    await trio.lowlevel.checkpoint()
                session.peer.expire(now)
                reason = session.overdue(now, options.idle_timeout, options.half_frame_timeout)
                if now >= self._deadline:
                    reason = "the server stops, and its answers were not taken in time"
                if reason is not None:
                    logger.info("closed the connection from %s: %s", session.peer.name, reason)
                    session.abort()


async def _part(stream: trio.SocketStream) -> None:
    """Let the last answers arrive: closing while requests are unread would reset the connection under them."""
    await stream.send_eof()
    while True:
        with trio.move_on_after(_QUIET) as patience:
            if not await stream.receive_some(RECEIVE_SIZE):
                return
        if patience.cancelled_caught:
            return


def _address(stream: trio.SocketStream) -> tuple[str, int]:
    """The peer's address, with an IPv4 address in its own form however it was accepted."""
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:  # gone already
        return "unknown", 0
    return host.removeprefix("::ffff:"), port
