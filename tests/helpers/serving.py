"""A server to test, and a client that sends exactly the bytes it is told to.

`serving` listens on a real socket. `serving_memory` does the same without the system in between, so that a test may own
the clock: with real sockets a jumping clock might jump while bytes are under way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import trio
import trio.testing

from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.handlers import Handler, Later, Request, Service
from pocketmq.remoting.peer import Peer
from pocketmq.remoting.server import Server, ServerOptions


class StubService(Service):
    """The given handlers, and a memory of what else the server told it."""

    def __init__(self, handlers: Mapping[int, Handler], capabilities: str = "records,bulk") -> None:
        self.handlers = handlers
        self.capabilities = capabilities
        self.peers: list[Peer] = []
        self.gone = 0
        self.bursts = 0

    def opened(self, channel: Channel) -> None:
        assert isinstance(channel, Peer)
        self.peers.append(channel)

    def closed(self, channel: Channel) -> None:
        assert isinstance(channel, Peer)
        self.peers.remove(channel)
        self.gone += 1

    def burst_ended(self) -> None:
        self.bursts += 1


def echo(request: Request[Any]) -> Command:
    """Answer with the body that came."""
    return request.reply(body=bytes(request.command.body))


class Holding:
    """A handler that answers nothing until it is told to."""

    def __init__(self) -> None:
        self.held: list[Later] = []

    def __call__(self, request: Request[Any]) -> Later:
        later = request.later()
        self.held.append(later)
        return later

    def release(self, body: bytes = b"") -> None:
        """Answer all that is held."""
        held, self.held = self.held, []
        for later in held:
            later.answer(later.request.reply(body=body))


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when something has come true that the system or another task is about to bring about."""
    while not condition():  # noqa: ASYNC110 - what is waited for is not ours to announce
        await trio.sleep(0.002)


class RawClient:
    """One end of a connection, without any behaviour of its own."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder()
        self._arrived: deque[Command] = deque()

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, *commands: Command) -> None:
        """Send commands as one burst."""
        await self.send_bytes(b"".join(map(encode_frame, commands)))

    async def send_bytes(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive(self) -> Command:
        """The next command."""
        while not self._arrived:
            data = await self.stream.receive_some(256 * 1024)
            assert data, "the server has closed the connection"
            self._arrived.extend(self._decoder.feed(bytes(data)))
        return self._arrived.popleft()

    async def receive_many(self, count: int) -> list[Command]:
        return [await self.receive() for _ in range(count)]

    async def request(self, command: Command) -> Command:
        await self.send(command)
        return await self.receive()

    async def rest(self) -> list[Command]:
        """All that still comes until the server closes the connection."""
        try:
            while data := await self.stream.receive_some(256 * 1024):
                self._arrived.extend(self._decoder.feed(bytes(data)))
        except trio.BrokenResourceError:
            pass  # a reset: the server did not read all that it was sent
        commands = list(self._arrived)
        self._arrived.clear()
        return commands


@dataclass(frozen=True, slots=True)
class _FakeSocket:
    host: str

    def getpeername(self) -> tuple[str, int]:
        return self.host, 4321


class Wire(trio.abc.HalfCloseableStream):
    """The server's end of a connection, which notes what is sent through it, write by write."""

    def __init__(self, inner: trio.abc.HalfCloseableStream, host: str = "127.0.0.1") -> None:
        self.sends: list[bytes] = []
        self.socket: Any = inner.socket if isinstance(inner, trio.SocketStream) else _FakeSocket(host)
        self._inner = inner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.sends.append(bytes(data))
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


class SocketWires(trio.abc.Listener[Wire]):
    """A listener whose connections note what is sent through them."""

    def __init__(self, inner: trio.SocketListener) -> None:
        self.wires: list[Wire] = []
        self._inner = inner

    async def accept(self) -> Wire:
        self.wires.append(Wire(await self._inner.accept()))
        return self.wires[-1]

    async def aclose(self) -> None:
        await self._inner.aclose()


class MemoryWires(trio.abc.Listener[Wire]):
    """A listener without sockets. A `lockstep` connection holds nothing: who sends waits until all of it is read."""

    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self._send, self._receive = trio.open_memory_channel[Wire](math.inf)

    def connect(self, host: str = "127.0.0.1", *, lockstep: bool = False) -> RawClient:
        pair = trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()
        self.wires.append(Wire(pair[0], host))
        self._send.send_nowait(self.wires[-1])
        return RawClient(pair[1])

    async def accept(self) -> Wire:
        return await self._receive.receive()

    async def aclose(self) -> None:
        self._receive.close()
        self._send.close()
        await trio.lowlevel.checkpoint()


@dataclass(slots=True)
class Serving:
    """A running server and how to reach it."""

    server: Server
    service: StubService
    listener: SocketWires
    port: int
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stopped: trio.Event = field(default_factory=trio.Event)
    streams: list[trio.SocketStream] = field(default_factory=list)

    @property
    def wires(self) -> list[Wire]:
        return self.listener.wires

    async def connect(self) -> RawClient:
        """A client, which is closed at the end of the block at the latest."""
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return RawClient(self.streams[-1])

    async def connect_narrowly(self) -> RawClient:
        """A client for which the system takes in only very little that it has not read."""
        sock = trio.socket.socket()
        self.streams.append(trio.SocketStream(sock))
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 1)  # as little as the system allows
        await sock.connect(("127.0.0.1", self.port))
        return RawClient(self.streams[-1])


@dataclass(slots=True)
class ServingMemory:
    """A running server that is reached through memory."""

    server: Server
    service: StubService
    listener: MemoryWires
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stopped: trio.Event = field(default_factory=trio.Event)

    @property
    def wires(self) -> list[Wire]:
        return self.listener.wires

    def connect(self, host: str = "127.0.0.1", *, lockstep: bool = False) -> RawClient:
        return self.listener.connect(host, lockstep=lockstep)


@asynccontextmanager
async def serving(
    service: StubService | Mapping[int, Handler], options: ServerOptions | None = None, *, timeout: float = 30.0
) -> AsyncIterator[Serving]:
    """A server on a port of this machine, for the length of a block; then it is cut off."""
    service = service if isinstance(service, StubService) else StubService(service)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with trio.fail_after(timeout):
        served = Serving(Server(service, options), service, SocketWires(listener), port)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(_serve, served))
            try:
                yield served
            finally:
                for stream in served.streams:
                    stream.socket.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving_memory(
    service: StubService | Mapping[int, Handler], options: ServerOptions | None = None
) -> AsyncIterator[ServingMemory]:
    """A server that is reached through memory, for the length of a block."""
    service = service if isinstance(service, StubService) else StubService(service)
    served = ServingMemory(Server(service, options), service, MemoryWires())
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(_serve, served))
        yield served
        nursery.cancel_scope.cancel()


async def _serve(served: Serving | ServingMemory, *, task_status: trio.TaskStatus[None]) -> None:
    listeners = [cast(trio.SocketListener, served.listener)]
    try:
        with served.scope:
            await served.server.serve(listeners, task_status=task_status)
    finally:
        served.stopped.set()
