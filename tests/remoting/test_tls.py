"""Which connections are TLS, which are not, and what those cost that never say."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
from typing import Any, cast

import pytest
import trio
import trio.testing
import trustme
from serving import Holding, RawClient, Serving, SocketWires, StubService, Wire, echo, eventually, serving

from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import encode_frame
from pocketmq.remoting.server import Server, ServerOptions
from pocketmq.remoting.tls import Tls, TlsMode

ECHO = int(RequestCode.GET_ALL_TOPIC_CONFIG)
HOLD = int(RequestCode.GET_BROKER_CONFIG)

CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(authority: trustme.CA) -> ssl.SSLContext:
    """What the server has."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def trust(authority: trustme.CA) -> ssl.SSLContext:
    """What a client has."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def asking(opaque: int, code: int = ECHO, **changes: Any) -> Command:
    return Command(code, opaque=opaque, body=b"%d" % opaque)._replace(**changes)


async def connect_tls(served: Serving, trust: ssl.SSLContext) -> RawClient:
    plain = await served.connect()
    return RawClient(trio.SSLStream(plain.stream, trust, server_hostname="localhost", https_compatible=True))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- the three modes


@pytest.mark.trio
async def test_permissive_serves_both_kinds_on_one_port(certificate: ssl.SSLContext, trust: ssl.SSLContext) -> None:
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate))) as served:
        plain, secure = await served.connect(), await connect_tls(served, trust)
        for opaque in range(3):
            for client in (plain, secure):
                answer = await client.request(asking(opaque))
                assert (answer.opaque, bytes(answer.body)) == (opaque, b"%d" % opaque)
        (peer, _) = served.service.peers
        assert peer.address[0] == "127.0.0.1"


@pytest.mark.trio
@pytest.mark.parametrize(("start", "seen"), [(encode_frame(asking(2)), "not TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")])
async def test_enforcing_serves_tls_only(
    certificate: ssl.SSLContext, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture, start: bytes, seen: str
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate, TlsMode.ENFORCING))) as served:
        plain, secure = await served.connect(), await connect_tls(served, trust)
        assert (await secure.request(asking(1))).opaque == 1
        await plain.send_bytes(start)
        assert await plain.rest() == []
        await eventually(lambda: caplog.records != [])
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith("closed the connection from 127.0.0.1:")
        assert record.getMessage().endswith(f"this is {seen}, and this server speaks nothing but TLS")
        assert (await secure.request(asking(3))).opaque == 3


@pytest.mark.trio
@pytest.mark.parametrize("with_certificate", [True, False])
async def test_disabled_serves_plain_connections_only(
    certificate: ssl.SSLContext, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture, with_certificate: bool
) -> None:
    caplog.set_level(logging.INFO)
    options = ServerOptions(tls=Tls(certificate, TlsMode.DISABLED) if with_certificate else None)
    async with serving({ECHO: echo}, options) as served:
        plain, secure = await served.connect(), await connect_tls(served, trust)
        with pytest.raises(trio.BrokenResourceError):
            await secure.send(asking(1))
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "this is TLS" in record.getMessage()
        assert (await plain.request(asking(2))).opaque == 2


# --- conversations


@pytest.mark.trio
async def test_a_conversation_is_the_same_under_tls(certificate: ssl.SSLContext, trust: ssl.SSLContext) -> None:
    hold = Holding()
    options = ServerOptions(tls=Tls(certificate, TlsMode.ENFORCING))
    async with serving({ECHO: echo, HOLD: hold}, options) as served, trio.open_nursery() as nursery:
        client = await connect_tls(served, trust)
        await client.send(asking(1, HOLD), *(asking(n, encoding=Encoding(n % 3)) for n in range(2, 50)))
        answers = await client.receive_many(48)
        assert [(answer.opaque, answer.encoding) for answer in answers] == [(n, n % 3) for n in range(2, 50)]
        body = bytes(range(256)) * 16 * 1024
        nursery.start_soon(client.send, asking(50, body=body))
        assert (await client.receive()).body == body
        hold.release(b"at last")
        assert (await client.receive()).body == b"at last"


@pytest.mark.trio
async def test_the_answers_of_a_burst_leave_in_one_write(certificate: ssl.SSLContext, trust: ssl.SSLContext) -> None:
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate))) as served:
        client = await connect_tls(served, trust)
        await client.request(asking(1))
        (wire,) = served.wires
        before = len(wire.sends)
        await client.send(*map(asking, range(100)))
        await client.receive_many(100)
        assert len(wire.sends) == before + 1


@pytest.mark.trio
async def test_what_is_owed_under_tls_is_sent_before_the_server_stops(
    certificate: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    hold = Holding()
    async with serving({HOLD: hold}, ServerOptions(tls=Tls(certificate))) as served:
        client = await connect_tls(served, trust)
        await client.send(asking(1, HOLD), asking(2, HOLD))
        await eventually(lambda: len(hold.held) == 2)
        served.server.shutdown()
        await trio.testing.wait_all_tasks_blocked(0.01)
        hold.release(bytes(1000))
        assert [(answer.opaque, answer.code) for answer in await client.rest()] == [(1, 0), (2, 0)]
        await trio.aclose_forcefully(client.stream)
        await served.stopped.wait()


# --- those who never get that far


@pytest.mark.trio
@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
@pytest.mark.parametrize("start", [b"", b"\x16", b"\x16\x03\x01\x00\x02\x01\x00", CLIENT_HELLO])
async def test_a_handshake_is_waited_for_no_longer_than_for_any_other_byte(
    certificate: ssl.SSLContext, caplog: pytest.LogCaptureFixture, mode: TlsMode, start: bytes
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate, mode), idle_timeout=0.2)) as served:
        await trio.testing.wait_all_tasks_blocked(0.01)
        files, tasks = open_files(), trio.lowlevel.current_statistics().tasks_living
        clients = [await served.connect() for _ in range(10)]
        for client in clients:
            await client.send_bytes(start)
        for client in clients:
            assert await client.rest() == []
            await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (open_files(), trio.lowlevel.current_statistics().tasks_living) == (files, tasks)
        assert served.service.gone == 0
        assert caplog.records == []


@pytest.mark.trio
@pytest.mark.parametrize(
    "start",
    [b"\x16" + bytes(100), CLIENT_HELLO + b"\xff" * 600, b"\x16GET / HTTP/1.1\r\n\r\n"],
)
async def test_a_handshake_that_is_none_ends_its_connection_only(
    certificate: ssl.SSLContext, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture, start: bytes
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate))) as served:
        beside = await connect_tls(served, trust)
        await beside.request(asking(1))
        client = await served.connect()
        await client.send_bytes(start)
        while await client.stream.receive_some(1000):
            pass  # an alert, if anything
        assert (await beside.request(asking(2))).opaque == 2
        (record,) = caplog.records
        assert "the TLS handshake failed: " in record.getMessage()


@pytest.mark.trio
async def test_a_client_that_does_not_trust_the_server_goes_without_harm(
    certificate: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate))) as served:
        suspicious = await connect_tls(served, ssl.create_default_context())
        with pytest.raises(trio.BrokenResourceError) as caught:
            await suspicious.send(asking(1))
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        assert (await (await connect_tls(served, trust)).request(asking(1))).opaque == 1


@pytest.mark.trio
@pytest.mark.parametrize("start", [b"", CLIENT_HELLO])
@pytest.mark.parametrize("linger", [(0, 0), (1, 0)])  # the second one resets the connection
async def test_a_client_that_goes_before_or_amid_the_handshake_is_no_news(
    certificate: ssl.SSLContext, caplog: pytest.LogCaptureFixture, start: bytes, linger: tuple[int, int]
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate, TlsMode.ENFORCING))) as served:
        client = await served.connect()
        await client.send_bytes(start)
        served.streams[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", *linger))
        await trio.testing.wait_all_tasks_blocked(0.01)
        await client.stream.aclose()
        await eventually(lambda: served.wires[0].socket.fileno() == -1)
        await trio.testing.wait_all_tasks_blocked()
        assert caplog.records == []


@pytest.mark.trio
async def test_those_who_say_nothing_do_not_keep_the_server_from_stopping(certificate: ssl.SSLContext) -> None:
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate))) as served:
        clients = [await served.connect() for _ in range(5)]
        await clients[0].send_bytes(CLIENT_HELLO)
        await trio.testing.wait_all_tasks_blocked(0.01)
        began = trio.current_time()
        served.server.shutdown(grace=60)
        await served.stopped.wait()
        assert trio.current_time() - began < 5


@pytest.mark.trio
async def test_nor_does_one_who_comes_at_that_very_moment(certificate: ssl.SSLContext) -> None:
    class Last(SocketWires):
        async def accept(self) -> Wire:
            wire = await super().accept()
            server.shutdown(grace=60)
            return wire

    server = Server(StubService({}), ServerOptions(tls=Tls(certificate)))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1]):
        with trio.fail_after(5):
            await server.serve([cast(trio.SocketListener, Last(listener))])


# --- too many connections


@pytest.mark.trio
async def test_a_refusal_is_told_in_the_way_of_the_connection(
    certificate: ssl.SSLContext, trust: ssl.SSLContext
) -> None:
    async with serving({ECHO: echo}, ServerOptions(tls=Tls(certificate), max_connections=0)) as served:
        for client in (await served.connect(), await connect_tls(served, trust)):
            answer = await client.request(asking(1))
            assert (answer.opaque, answer.code) == (1, ResponseCode.SYSTEM_BUSY)


@pytest.mark.trio
async def test_those_above_the_limits_who_say_nothing_are_few_and_short(certificate: ssl.SSLContext) -> None:
    options = ServerOptions(tls=Tls(certificate), max_connections=1, max_refusals=2, refusal_timeout=0.5)
    async with serving({ECHO: echo}, options) as served:
        await (await served.connect()).request(asking(1))
        began = trio.current_time()
        clients = [await served.connect() for _ in range(10)]
        for client in clients[2:]:
            assert await client.rest() == []
        assert trio.current_time() - began < 0.5
        for client in clients[:2]:
            assert await client.rest() == []
        assert 0.5 <= trio.current_time() - began < 5


@pytest.mark.parametrize("size", [0, 70_000, 16 * 1024 * 1024 - 200])
def test_a_plain_frame_never_looks_like_a_handshake(size: int) -> None:
    assert encode_frame(asking(1, body=bytes(size)))[:1] == b"\0"
