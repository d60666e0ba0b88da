"""Servers for the tests of clients: one that says what a test tells it to, and the real one, each in a thread."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

import trio
import trustme
from serving import StubService

from pocketmq.protocol.codes import CommandFlag
from pocketmq.protocol.command import NO_FIELDS, Buffer, Command
from pocketmq.protocol.fields import encode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.remoting.handlers import Handler
from pocketmq.remoting.server import Server, ServerOptions
from pocketmq.remoting.tls import Tls

PATIENCE = 30.0
"""Seconds after which something that must happen has not happened; nothing that works takes that long."""

GARBAGE = bytes.fromhex("00000010 09000004 deadbeef deadbeef deadbeef")  # a frame of an encoding nobody knows


class Address(NamedTuple):
    host: str
    port: int


def question(code: int, header: tuple[Any, ...] | None = None, *, opaque: int = 7, flag: int = 0) -> Command:
    """A request from a server to its client."""
    return Command(code, NO_FIELDS if header is None else encode_header(header), opaque=opaque, flag=flag)


def oneway(code: int, header: tuple[Any, ...] | None = None) -> Command:
    """A request from a server to its client that wants no answer."""
    return question(code, header, flag=CommandFlag.ONEWAY)


class Conversation:
    """A scripted server's end of one connection."""

    def __init__(self, sock: socket.socket, test_ends: threading.Event) -> None:
        sock.settimeout(PATIENCE)
        self._socket = sock
        self._test_ends = test_ends
        self._decoder = FrameDecoder()
        self._commands: deque[Command] = deque()

    def read(self) -> Command:
        """The next command of the client; EOFError once it has gone."""
        while not self._commands:
            data = self._socket.recv(256 * 1024)
            if not data:
                raise EOFError
            self._commands.extend(self._decoder.feed(data))
        return self._commands.popleft()

    def send(self, *what: Command | bytes) -> None:
        """Send commands and plain bytes, all in one piece."""
        self._socket.sendall(b"".join(item if isinstance(item, bytes) else encode_frame(item) for item in what))

    def send_beneath_tls(self, data: bytes) -> None:
        """Send bytes that TLS has not seen."""
        socket.socket.sendall(self._socket, data)

    def answer(self, request: Command, ext_fields: Mapping[str, str] = NO_FIELDS, body: Buffer = b"") -> None:
        self.send(request.reply(0, ext_fields, body))

    def serve(self) -> None:
        """Answer every request with its own body, like a RocketMQ that has never heard of PocketMQ."""
        while True:
            request = self.read()
            self.answer(request, body=request.body)

    def fall_silent(self) -> None:
        """Read nothing and say nothing until the test is over."""
        self._test_ends.wait(PATIENCE)

    def reset(self) -> None:
        """End the connection the hard way."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


Script = Callable[[Conversation], None]


@contextmanager
def scripted_server(script: Script, *, tls: ssl.SSLContext | None = None, receive_buffer: int = 0) -> Iterator[Address]:
    """Run the script for each connection, in a thread; what fails in it fails the test when the block ends.

    A script that wants more of a client than there is ends without a word: the client has gone.
    """
    failures: list[BaseException] = []
    threads: list[threading.Thread] = []
    stopping = threading.Event()

    def converse(sock: socket.socket) -> None:
        try:
            with tls.wrap_socket(sock, server_side=True) if tls else sock as stream:
                script(Conversation(stream, stopping))
        except (EOFError, ConnectionError, ssl.SSLError):
            pass
        except BaseException as error:
            failures.append(error)

    def accept() -> None:
        while True:
            sock, peer = listener.accept()
            if peer == farewell.getsockname():
                sock.close()
                return
            threads.append(threading.Thread(target=converse, args=(sock,), daemon=True))
            threads[-1].start()

    # Connections are accepted in order: when this one comes, all others have been.
    farewell = socket.socket()
    farewell.bind(("127.0.0.1", 0))
    with farewell, socket.create_server(("127.0.0.1", 0)) as listener:
        if receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        address = Address(*listener.getsockname())
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield address
        finally:
            stopping.set()
            farewell.connect(address)
            acceptor.join(PATIENCE)  # then there are no more threads to come
            for thread in threads:
                thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in (acceptor, *threads))
    for failure in failures:
        raise failure


@contextmanager
def real_server(handlers: Mapping[int, Handler], *, tls: ssl.SSLContext | None = None) -> Iterator[Address]:
    """The trio server with these handlers."""
    started: SimpleQueue[tuple[Address, Callable[[], None]]] = SimpleQueue()

    async def serve() -> None:
        server = Server(StubService(handlers), ServerOptions(tls=Tls(tls) if tls else None))
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            address = Address(*listeners[0].socket.getsockname())
            started.put((address, lambda: token.run_sync_soon(scope.cancel)))
            await server.serve(listeners)

    thread = threading.Thread(target=trio.run, args=(serve,), daemon=True)
    thread.start()
    address, stop = started.get(timeout=PATIENCE)
    try:
        yield address
    finally:
        stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def open_descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/dev/fd"))


def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of a server at 127.0.0.1, and that of a client who trusts its certificate."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client
