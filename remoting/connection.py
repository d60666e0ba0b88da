"""A client's connection on AnyIO, so for asyncio and trio alike.

Any number of requests may be under way at once. One task reads and wakes whoever waits for what has arrived; one task
writes, and takes along whatever has gathered meanwhile; one task sleeps until the next request is overdue. There is no
task, channel or cancel scope for a single request.

A connection that breaks tells everyone who waits at once, with the reason, and stays broken: whether and when to make
a new one is for its owner to decide.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

from pocketmq.protocol.command import Buffer, Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.remoting.channel import RECEIVE_SIZE, Outcome
from pocketmq.remoting.client_channel import NO_HANDLERS, ClientChannel
from pocketmq.remoting.errors import RequestTimeoutError, check_port, connect_error
from pocketmq.remoting.handlers import Handler

# OSError: what TLS objects to.
_BREAKS: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RemoteProtocolError)


class Connection(ClientChannel):
    """One connection to a server. `run` is its life; everything else may be called while that goes on."""

    def __init__(
        self,
        stream: ByteStream,
        address: tuple[str, int],
        *,
        handlers: Mapping[int, Handler] = NO_HANDLERS,
        offer: bool = True,
    ) -> None:
        super().__init__(address, handlers=handlers, offer=offer)
        self._stream = stream
        # Asking AnyIO for an event each time means asking it each time which event loop this is.
        self._new_event: type[anyio.Event] = type(anyio.Event())
        self._writer_wakes = anyio.Event()
        self._relief: anyio.Event | None = None
        self._next_overdue = math.inf
        self._until_overdue = anyio.CancelScope()
        self._life = anyio.CancelScope()

    async def request(
        self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"", *, timeout: float
    ) -> Command:
        """Send a request and wait for its answer, whatever its code; raises a `RemotingError` if there is none."""
        deadline = anyio.current_time() + timeout
        if self.is_congested:
            await self._uncongested(code, timeout)
        known = self._new_event()
        outcome = Outcome(known.set)
        opaque = self.begin(code, header, body, done=outcome.set, deadline=deadline)
        try:
            await known.wait()
        finally:
            self.withdraw(opaque)
        return outcome.result()

    async def run(self) -> None:
        """Read and write until the server goes, breaks the protocol, or `close` is called; then close the stream."""
        try:
            async with self._stream:
                with self._life:
                    async with anyio.create_task_group() as tasks:
                        for loop in (self._read, self._write, self._watch_deadlines):
                            tasks.start_soon(self._guard, loop)
        finally:
            self.end("the connection was closed")

    async def flush(self) -> None:
        """Return when all that was sent has been taken over by the system, or the connection has ended."""
        while self.outgoing and not self.closed:
            await self._relieved()

    def close(self) -> None:
        """End the connection now; what has not left yet is dropped (see `flush`)."""
        self._life.cancel()

    # --- inside ---

    async def _guard(self, loop: Callable[[], Awaitable[None]]) -> None:
        """One of the tasks; whatever ends it ends the connection."""
        try:
            await loop()
        except anyio.EndOfStream as error:
            self.closed_by_server(error)
        except _BREAKS as error:
            self.broke(error)
        finally:
            self._life.cancel()

    async def _read(self) -> None:
        while True:
            self.received(await self._stream.receive(RECEIVE_SIZE))
            while self.owes_too_much:
                await self._relieved()

    async def _write(self) -> None:
        while True:
            if not self._outbox:
                self._writer_wakes = self._new_event()
                self._is_asleep = True
                await self._writer_wakes.wait()
            data = self.take_outbox()
            await self._stream.send(data)
            self.sent(len(data))

    async def _watch_deadlines(self) -> None:
        while True:
            self._next_overdue = self.earliest_deadline()
            with anyio.CancelScope(deadline=self._next_overdue) as self._until_overdue:
                await anyio.sleep_forever()
            self.expire(anyio.current_time())

    async def _uncongested(self, code: int, timeout: float) -> None:
        with anyio.move_on_after(timeout):
            while self.is_congested and not self.closed:
                await self._relieved()
            return
        raise RequestTimeoutError(f"{self.name} did not take request {code} within {timeout:g} s")

    def _expecting(self, opaque: int, deadline: float) -> None:
        super()._expecting(opaque, deadline)
        if deadline < self._next_overdue:
            self._next_overdue = self._until_overdue.deadline = deadline

    def _wake(self) -> None:
        self._is_asleep = False
        self._writer_wakes.set()

    async def _relieved(self) -> None:
        if self._relief is None:
            self._relief = self._new_event()
        await self._relief.wait()

    def _eased(self) -> None:
        if self._relief is not None:
            self._relief.set()
            self._relief = None


async def connect(host: str, port: int, *, timeout: float, tls: ssl.SSLContext | None = None) -> ByteStream:
    """A stream to a server, with TLS if there is a context for it; raises `ConnectError`."""
    check_port(host, port)
    try:
        with anyio.fail_after(timeout):
            if tls is None:
                return await anyio.connect_tcp(host, port)
            return await anyio.connect_tcp(host, port, ssl_context=tls, tls_standard_compatible=False)
    except (OSError, UnicodeError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise connect_error(host, port, error, timeout=timeout, tls=tls is not None) from error


@asynccontextmanager
async def open_connection(
    host: str,
    port: int,
    *,
    timeout: float = 3.0,
    tls: ssl.SSLContext | None = None,
    handlers: Mapping[int, Handler] = NO_HANDLERS,
    offer: bool = True,
) -> AsyncIterator[Connection]:
    """A connection for the length of a block; what was sent in the block has left when it ends."""
    failure: BaseException | None = None
    async with await connect(host, port, timeout=timeout, tls=tls) as stream:
        connection = Connection(stream, (host, port), handlers=handlers, offer=offer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            try:
                yield connection
                with anyio.move_on_after(timeout):
                    await connection.flush()
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # kept from the task group, which would wrap it in a group
                failure = error
            connection.close()
    if failure is not None:
        raise failure
