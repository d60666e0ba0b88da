"""A client's connection on a plain socket, without an event loop: for scripts, notebooks and Spark executors.

    with connect_blocking("127.0.0.1", 9876) as connection:
        answer = connection.request(code, header, timeout=3.0)

        first, second = (connection.submit(code, header, timeout=3.0) for header in headers)   # both are under way
        answers = first.wait(), second.wait()

Bytes move, in both directions, only while a call into the connection lasts. So a server that sends much while we send
much never meets a client that does not read; and what the server asks of its client is answered at the next call.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from pocketmq.protocol.codes import CommandFlag
from pocketmq.protocol.command import Buffer, Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.remoting.channel import ClientChannel
from pocketmq.remoting.errors import (
    ConnectError,
    ConnectionLostError,
    RemotingError,
    RequestTimeoutError,
    connect_error,
    in_plain_words,
)
from pocketmq.remoting.handlers import Dispatcher, Handler

_RECEIVE_SIZE: Final = 256 * 1024
_RESPONSE: Final = int(CommandFlag.RESPONSE)
_NO_HANDLERS: Final[Mapping[int, Handler]] = {}
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CATCH_UP: Final = 0.5  # seconds to read what had come in time when it is asked for after its time
_LONGEST_WAIT: Final = 3600.0  # the system counts milliseconds in 32 bits; who waits longer waits again


class Ticket:
    """A request that is under way."""

    def __init__(self, connection: BlockingConnection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._outcome: Command | RemotingError | None = None

    def wait(self) -> Command:
        """The answer, whatever its code; raises a `RemotingError` if there is none."""
        no_longer = max(self._deadline, time.monotonic()) + _CATCH_UP
        while self._outcome is None:
            self._connection.pump(self._deadline)
            if time.monotonic() >= no_longer:  # the server never stops talking, but not about this
                self._connection.expire(self._deadline)
        if isinstance(self._outcome, Command):
            return self._outcome
        raise self._outcome

    def _set(self, outcome: Command | RemotingError) -> None:
        self._outcome = outcome


class BlockingConnection(ClientChannel):
    """One connection to a server, for one thread at a time. `handlers` serve what the server asks of its client."""

    def __init__(
        self,
        sock: socket.socket,
        address: tuple[str, int],
        *,
        handlers: Mapping[int, Handler] = _NO_HANDLERS,
        offer: bool = True,
    ) -> None:
        super().__init__(address, offer=offer)
        sock.setblocking(False)
        self._socket = sock
        self._dispatch = Dispatcher(handlers)
        self._decoder = FrameDecoder()
        self._unsent = memoryview(b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def request(
        self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"", *, timeout: float
    ) -> Command:
        """Send a request and wait for its answer, whatever its code; raises a `RemotingError` if there is none."""
        return self.submit(code, header, body, timeout=timeout).wait()

    def submit(self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"", *, timeout: float) -> Ticket:
        """Send a request without waiting for its answer, so that several are under way at once."""
        deadline = time.monotonic() + timeout
        while self.is_congested and not self.closed:
            if time.monotonic() >= deadline:
                raise RequestTimeoutError(f"{self.name} did not take request {code} within {timeout:g} s")
            self.pump(deadline)
        ticket = Ticket(self, deadline)
        self.begin(code, header, body, done=ticket._set, deadline=deadline)
        self._guard(self._send)
        return ticket

    def notify(self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"") -> None:
        super().notify(code, header, body)
        self._guard(self._send)

    def pump(self, deadline: float) -> None:
        """Wait until bytes can be moved, and move them; at the deadline, tell those whose time is up."""
        if self.closed:
            raise ConnectionLostError(f"the connection to {self.name} is closed")
        self._guard(self._exchange, deadline)

    def close(self, grace: float = 3.0) -> None:
        """End the connection, once what was sent has left or that many seconds have passed."""
        deadline = time.monotonic() + grace
        while self.outgoing and not self.closed and time.monotonic() < deadline:
            self.pump(deadline)
        self.end("the connection was closed")
        self._socket.close()

    # --- inside ---

    def _guard(self, move: Callable[..., None], *arguments: float) -> None:
        """Move bytes; what goes wrong with them ends the connection, and whoever waits is told why."""
        try:
            move(*arguments)
        except EOFError as error:
            within = " within a frame" if self._decoder.pending else ""
            self._abandon(f"the server closed the connection{within}", error)
        except OSError as error:
            self._abandon(f"the connection broke ({in_plain_words(error)})", error)
        except RemoteProtocolError as error:
            self._abandon(f"the server's bytes make no sense ({error})", error)
        except BaseException as error:  # such as the user's Ctrl-C, which may come between two parts of a frame
            self._abandon(f"the connection was given up ({type(error).__name__})", error)
            raise

    def _abandon(self, reason: str, cause: BaseException) -> None:
        self.end(reason, cause)
        self._socket.close()

    def _exchange(self, deadline: float) -> None:
        self._send()
        if self._wait(deadline):
            self._receive()
            self._send()  # what was answered on the way need not wait for the next call
        elif time.monotonic() >= deadline:
            self.expire(deadline)

    def _send(self) -> None:
        """Send what the system takes without waiting."""
        while self._unsent or self._outbox:
            if not self._unsent:
                self._unsent = memoryview(self.take_outbox())
            try:
                size = self._socket.send(self._unsent)
            except _NOT_NOW:
                return
            self._unsent = self._unsent[size:]
            self.sent(size)

    def _wait(self, deadline: float) -> bool:
        """Wait until the socket is ready for what we want of it."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        timeout = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT)
        return _ready(self._socket, bool(self._unsent), timeout)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_SIZE)
        except _NOT_NOW:
            return
        if not data:
            raise EOFError
        for command in self._decoder.feed(data):
            if command.flag & _RESPONSE:
                self.answered(command)
            else:
                self._dispatch(command, self)
        if self.owes_too_much:  # only the caller could change that, and not while this call lasts
            raise ConnectionAbortedError("it asks for more than is answered")


def _ready(sock: socket.socket, to_send: bool, timeout: float) -> bool:
    """Wait until the socket can be read, or written if there is something to send."""
    if not hasattr(select, "poll"):  # Windows
        return any(select.select([sock], [sock] if to_send else [], [], timeout))
    poll = select.poll()
    poll.register(sock, select.POLLIN | (select.POLLOUT if to_send else 0))
    return bool(poll.poll(timeout * 1000))


def connect_blocking(
    host: str,
    port: int,
    *,
    timeout: float = 3.0,
    tls: ssl.SSLContext | None = None,
    handlers: Mapping[int, Handler] = _NO_HANDLERS,
    offer: bool = True,
) -> BlockingConnection:
    """A connection to a server, with TLS if there is a context for it; raises `ConnectError`."""
    try:
        sock = socket.create_connection((host, port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=host)
            return BlockingConnection(sock, (host, port), handlers=handlers, offer=offer)
        except BaseException:
            sock.close()
            raise
    except TimeoutError as error:
        raise ConnectError(f"no connection to {host}:{port} within {timeout:g} s; is the address right?") from error
    except (OSError, UnicodeError) as error:
        raise connect_error(host, port, error, tls=tls is not None) from error
