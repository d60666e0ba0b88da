"""A client's connection on a plain socket, without an event loop: for scripts, notebooks and Spark executors.

    with connect_blocking("127.0.0.1", 9876) as connection:
        answer = connection.request(code, header, timeout=3.0)

        first, second = (connection.submit(code, header, timeout=3.0) for header in headers)   # both are under way
        answers = first.wait(), second.wait()

Bytes move, in both directions, only while a call into the connection lasts. So a server that sends much while we send
much never meets a client that does not read; and what the server asks of its client is answered at the next call.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from pocketmq.protocol.command import Buffer, Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.remoting.channel import RECEIVE_SIZE, Outcome
from pocketmq.remoting.client_channel import NO_HANDLERS, ClientChannel
from pocketmq.remoting.errors import RequestTimeoutError, check_port, connect_error
from pocketmq.remoting.handlers import Handler

_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CATCH_UP: Final = 0.5  # seconds to read what had come in time when it is asked for after its time
_FORGOTTEN: Final = 60.0  # seconds after its time at which a request is given up for which nobody waits
_LONGEST_WAIT: Final = 3600.0  # the system counts milliseconds in 32 bits; who waits longer waits again


class Ticket:
    """A request that is under way."""

    def __init__(self, connection: BlockingConnection, outcome: Outcome, deadline: float) -> None:
        self._connection = connection
        self._outcome = outcome
        self._deadline = deadline

    def wait(self) -> Command:
        """The answer, whatever its code; raises a `RemotingError` if there is none."""
        no_longer = max(self._deadline, time.monotonic()) + _CATCH_UP
        while not self._outcome.is_known:
            self._connection.pump(self._deadline)
            if time.monotonic() >= no_longer:  # the server never stops talking, but not about this
                self._connection.expire(self._deadline)
        return self._outcome.result()


class BlockingConnection(ClientChannel):
    """One connection to a server, for one thread at a time."""

    def __init__(
        self,
        sock: socket.socket,
        address: tuple[str, int],
        *,
        handlers: Mapping[int, Handler] = NO_HANDLERS,
        offer: bool = True,
    ) -> None:
        super().__init__(address, handlers=handlers, offer=offer)
        sock.setblocking(False)
        self._socket = sock
        self._unsent = memoryview(b"")
        self._next_overdue = math.inf

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
        outcome = Outcome(_nobody_sleeps)
        self.begin(code, header, body, done=outcome.set, deadline=deadline)
        self._guard(self._send)
        return Ticket(self, outcome, deadline)

    def notify(self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"") -> None:
        if self.is_congested and not self.closed:
            self.pump(time.monotonic())  # perhaps the server waits to be read
        super().notify(code, header, body)
        self._guard(self._send)

    def pump(self, deadline: float) -> None:
        """Wait until bytes can be moved, and move them; at the deadline, tell those whose time is up."""
        self.check_open()
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
            self.closed_by_server(error)
        except (OSError, RemoteProtocolError) as error:
            self.broke(error)
        except BaseException as error:  # such as the user's Ctrl-C, which may come between two parts of a frame
            self.end(f"the connection was given up ({type(error).__name__})", error)
            raise
        finally:
            if self.closed:
                self._socket.close()

    def _exchange(self, deadline: float) -> None:
        self._send()
        patience = 0.0
        if self._wait(deadline):
            self._receive()
            self._send()  # what was answered on the way need not wait for the next call
            patience = _FORGOTTEN  # more may have come in time and not be read yet
        overdue = time.monotonic() - patience
        if overdue >= self._next_overdue:
            self.expire(overdue)
            self._next_overdue = self.earliest_deadline()

    def _expecting(self, opaque: int, deadline: float) -> None:
        super()._expecting(opaque, deadline)
        self._next_overdue = min(self._next_overdue, deadline)

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
            data = self._socket.recv(RECEIVE_SIZE)
        except _NOT_NOW:
            return
        if not data:
            raise EOFError
        self.received(data)
        if self.owes_too_much:  # only the caller could change that, and not while this call lasts
            raise ConnectionAbortedError("it asks for more than is answered")


def _nobody_sleeps() -> None:
    """Who waits for an outcome looks for it after every exchange."""


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
    handlers: Mapping[int, Handler] = NO_HANDLERS,
    offer: bool = True,
) -> BlockingConnection:
    """A connection to a server, with TLS if there is a context for it; raises `ConnectError`."""
    check_port(host, port)
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
    except (OSError, UnicodeError) as error:
        raise connect_error(host, port, error, timeout=timeout, tls=tls is not None) from error
