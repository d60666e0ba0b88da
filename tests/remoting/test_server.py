"""The server as a whole: on real sockets, and through memory where the clock matters."""

from __future__ import annotations

import logging
import os
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import trio
import trio.testing
from serving import Holding, RawClient, Serving, StubService, echo, eventually, serving, serving_memory

from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import encode_frame
from pocketmq.protocol.headers.clients import ConsumerGroupRequest
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import Refusal
from pocketmq.remoting.handlers import Answer, Request
from pocketmq.remoting.server import Server, ServerOptions

ECHO = int(RequestCode.GET_ALL_TOPIC_CONFIG)
HOLD = int(RequestCode.GET_BROKER_CONFIG)
LARGE = int(RequestCode.GET_BROKER_RUNTIME_INFO)
REFUSE = int(RequestCode.UPDATE_BROKER_CONFIG)
FAIL = int(RequestCode.GET_ALL_CONSUMER_OFFSET)
OFFSET = int(RequestCode.GET_MAX_OFFSET)
NOTICE = int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
INFO = int(RequestCode.GET_CONSUMER_RUNNING_INFO)
UNKNOWN = 9999


def asking(opaque: int, code: int = ECHO, **changes: Any) -> Command:
    return Command(code, opaque=opaque, body=b"%d" % opaque)._replace(**changes)


def numbers(commands: list[Command]) -> list[int]:
    return [command.opaque for command in commands]


def refuse(request: Request[Any]) -> Answer:
    raise Refusal(ResponseCode.NO_PERMISSION, "not you")


def fail(request: Request[Any]) -> Answer:
    raise ZeroDivisionError


def large(request: Request[Any]) -> Answer:
    return request.reply(body=bytes(8 * 1024))


HANDLERS = {ECHO: echo, REFUSE: refuse, FAIL: fail, LARGE: large, OFFSET: echo}


async def elapsed(call: Callable[[], Awaitable[object]]) -> float:
    """The seconds that a call takes."""
    began = trio.current_time()
    await call()
    return trio.current_time() - began


async def until_broken(call: Callable[[], Awaitable[None]]) -> None:
    """Do something as long as the server lets us."""
    with suppress(trio.BrokenResourceError):
        await call()


async def settle() -> None:
    """Let every task do what it can, and the system deliver what is under way."""
    await trio.testing.wait_all_tasks_blocked(0.01)


# --- conversations


@pytest.mark.trio
async def test_the_answers_of_a_burst_leave_in_one_write() -> None:
    async with serving(HANDLERS) as served, await served.connect() as client:
        for burst in range(3):
            await client.send(*(asking(opaque) for opaque in range(100)))
            assert numbers(await client.receive_many(100)) == list(range(100))
            assert len(served.wires[0].sends) == burst + 1


@pytest.mark.trio
async def test_every_request_gets_the_answer_it_deserves() -> None:
    async with serving(HANDLERS) as served, await served.connect() as client:
        await client.send(*(asking(code, code) for code in (ECHO, REFUSE, UNKNOWN, FAIL, OFFSET)))
        answers = await client.receive_many(5)
        assert [(answer.opaque, answer.code, answer.remark) for answer in answers] == [
            (ECHO, 0, None),
            (REFUSE, 16, "not you"),
            (UNKNOWN, 3, " request type 9999 not supported"),
            (FAIL, 1, "internal error (ZeroDivisionError); the server's log has the details"),
            (OFFSET, 1, "header field 'topic' is missing"),
        ]


@pytest.mark.trio
async def test_oneway_requests_are_never_answered() -> None:
    async with serving(HANDLERS) as served, await served.connect() as client:
        oneway = [asking(code, code, flag=2) for code in (ECHO, REFUSE, UNKNOWN, FAIL, OFFSET)]
        await client.send(*oneway, asking(7), *oneway)
        await client.send(asking(8))
        assert numbers(await client.receive_many(2)) == [7, 8]


@pytest.mark.trio
async def test_one_connection_may_mix_all_encodings() -> None:
    async with serving(HANDLERS) as served, await served.connect() as client:
        encodings = [*Encoding] * 3
        await client.send(*(asking(n, encoding=encoding) for n, encoding in enumerate(encodings)))
        answers = await client.receive_many(9)
        assert [(answer.opaque, answer.encoding) for answer in answers] == list(enumerate(encodings))
        (peer,) = served.service.peers
        peer.notify(NOTICE)
        assert (await client.receive()).encoding == encodings[-1]


@pytest.mark.trio
async def test_the_server_asks_and_tells_its_clients_on_their_connection() -> None:
    hold = Holding()
    async with serving({HOLD: hold}) as served, await served.connect() as client, trio.open_nursery() as nursery:
        await client.send(asking(1, HOLD), asking(2, HOLD))
        await eventually(lambda: len(hold.held) == 2)
        (peer,) = served.service.peers
        answers: dict[bytes, bytes] = {}

        async def ask(body: bytes) -> None:
            answers[body] = bytes((await peer.request(INFO, body=body, timeout=5)).body)

        peer.notify(NOTICE, ConsumerGroupRequest("group"))
        nursery.start_soon(ask, b"a")
        nursery.start_soon(ask, b"b")
        notice, first, second = await client.receive_many(3)
        assert (notice.code, notice.flag, notice.ext_fields) == (NOTICE, 2, {"consumerGroup": "group"})
        assert {first.opaque, second.opaque} & {1, 2}  # the same numbers as in the other direction
        await client.send(second.reply(0, body=bytes(second.body)), first.reply(0, body=bytes(first.body)))
        await eventually(lambda: len(answers) == 2)
        assert answers == {b"a": b"a", b"b": b"b"}
        hold.release(b"at last")
        assert [(answer.opaque, answer.body) for answer in await client.receive_many(2)] == [
            (1, b"at last"),
            (2, b"at last"),
        ]


@pytest.mark.trio
async def test_who_offers_msgpack_learns_what_the_server_offers_and_nobody_else_does() -> None:
    async with serving(HANDLERS) as served, await served.connect() as ours, await served.connect() as theirs:
        answer = await ours.request(asking(1, ext_fields={"PMQ_SER": "2"}))
        assert answer.ext_fields == {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}
        assert (await ours.request(asking(2, encoding=Encoding.MSGPACK))).ext_fields == {}
        for code in HANDLERS:
            assert "PMQ" not in repr(await theirs.request(asking(1, code)))


@pytest.mark.trio
async def test_a_request_as_large_as_a_frame_may_be_comes_back() -> None:
    async with serving(HANDLERS) as served, await served.connect() as client, trio.open_nursery() as nursery:
        body = random.Random(1).randbytes(16 * 1024 * 1024 - 200)
        nursery.start_soon(client.send, asking(1, body=body))
        assert (await client.receive()).body == body


@pytest.mark.trio
async def test_many_connections_are_served_at_once() -> None:
    async with serving(HANDLERS) as served:

        async def converse(number: int) -> None:
            async with await served.connect() as client:
                for opaque in range(20):
                    body = b"%d of %d" % (opaque, number)
                    assert (await client.request(asking(opaque, body=body))).body == body

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(converse, number)
        await eventually(lambda: served.service.gone == 50)
        assert served.service.peers == []


# --- what a peer can cost


@pytest.mark.trio
async def test_a_peer_that_reads_nothing_costs_no_more_than_its_limits() -> None:
    handled: list[int] = []

    def answer(request: Request[Any]) -> Answer:
        handled.append(request.command.opaque)
        return large(request)

    options = ServerOptions(max_outgoing=256 * 1024)
    async with serving({LARGE: answer, ECHO: echo}, options) as served, trio.open_nursery() as nursery:
        stuck, other = await served.connect(), await served.connect()

        async def send() -> None:
            for opaque in range(100_000):
                await stuck.send(asking(opaque, LARGE, body=bytes(1000)))

        nursery.start_soon(send)
        last = -1
        while len(handled) != last:  # until nothing moves any more: the system's own buffers are full
            last = len(handled)
            for opaque in range(20):
                assert (await other.request(asking(opaque))).opaque == opaque
            await trio.sleep(0.1)
        assert 0 < len(handled) < 50_000
        assert 8 * 1024 <= max(peer.outgoing for peer in served.service.peers) < 400 * 1024
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_connection_goes_on_when_what_it_is_owed_is_settled() -> None:
    hold = Holding()
    options = ServerOptions(max_unanswered=20_000)
    async with serving({HOLD: hold, ECHO: echo}, options) as served:
        greedy, other = await served.connect(), await served.connect()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for opaque in range(2000):
                    await greedy.send(asking(opaque, HOLD, body=bytes(1000)))
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(send)
            await settle()
            most = len(hold.held)
            assert most * 2000 <= 20_000 + 256 * 1024 + 2000  # the limit, and what one read may bring
            assert (await other.request(asking(1))).opaque == 1
            received: list[Command] = []
            while len(received) < 2000:
                count = len(hold.held)
                hold.release()
                received += await greedy.receive_many(count)
                await settle()
            assert numbers(received) == list(range(2000))


@pytest.mark.trio
async def test_promises_to_one_peer_do_not_hold_up_another() -> None:
    hold = Holding()
    async with serving({HOLD: hold, ECHO: echo}, ServerOptions(max_unanswered=1)) as served:
        held, other = await served.connect(), await served.connect()
        await held.send(asking(1, HOLD))
        await eventually(lambda: len(hold.held) == 1)
        await held.send(asking(2))
        assert (await other.request(asking(3))).opaque == 3
        hold.release()
        assert numbers(await held.receive_many(2)) == [1, 2]


# --- time


@pytest.mark.trio
async def test_an_idle_connection_is_closed_after_two_minutes(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        assert 120 <= await elapsed(client.rest) <= 122
        (record,) = caplog.records
        assert record.getMessage() == "closed the connection from 127.0.0.1:4321: nothing was heard or sent for 120 s"


@pytest.mark.trio
async def test_a_connection_lives_while_bytes_move_in_either_direction(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        await client.send(asking(1))
        await client.receive()
        (peer,) = served.service.peers
        for _ in range(3):
            await trio.sleep(100)
            peer.notify(NOTICE)
            await trio.sleep(100)
            await client.send(asking(2, flag=2))
        await client.receive_many(3)
        assert 119 <= await elapsed(client.rest) <= 122


@pytest.mark.trio
@pytest.mark.parametrize("pause", [0, 1, 10])
async def test_half_a_frame_is_waited_for_no_longer_than_half_a_minute(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, pause: float
) -> None:
    caplog.set_level(logging.INFO)
    async with serving_memory(HANDLERS) as served, trio.open_nursery() as nursery:
        client = served.connect()

        async def drip() -> None:
            for byte in encode_frame(asking(1))[:40]:
                await client.send_bytes(bytes([byte]))
                await trio.sleep(pause)

        nursery.start_soon(until_broken, drip)
        assert 30 <= await elapsed(client.rest) <= 32
        assert "a frame was not complete after 30" in caplog.text


@pytest.mark.trio
async def test_a_frame_that_is_whole_in_time_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        frame = encode_frame(asking(1))
        for turn in range(5):
            await client.send_bytes(frame[:10])
            await trio.sleep(28)
            await client.send_bytes(frame[10:])
            assert (await client.receive()).opaque == 1, turn


@pytest.mark.trio
async def test_a_request_to_a_client_that_does_not_answer_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    outcomes: list[Any] = []
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        await client.request(asking(1))
        (peer,) = served.service.peers
        peer.begin(INFO, done=outcomes.append, deadline=trio.current_time() + 5)
        await trio.sleep(4)
        assert outcomes == []
        await trio.sleep(3)
        assert [str(outcome) for outcome in outcomes] == ["127.0.0.1:4321 did not answer request 307 in time"]


@pytest.mark.trio
async def test_who_fails_to_handle_a_timeout_does_not_end_the_server(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        await client.request(asking(1))
        (peer,) = served.service.peers
        peer.begin(INFO, done=lambda outcome: 1 // 0, deadline=trio.current_time() + 5)  # type: ignore[arg-type]
        await trio.sleep(10)
        assert (await client.receive()).code == INFO
        assert (await client.request(asking(2))).opaque == 2


# --- too many connections


@pytest.mark.trio
async def test_connections_above_the_limit_are_told_so() -> None:
    async with serving(HANDLERS, ServerOptions(max_connections=2)) as served:
        first, second, third = await served.connect(), await served.connect(), await served.connect()
        await first.request(asking(1))
        await second.request(asking(1))
        encodings = list(Encoding)
        await third.send(
            asking(9, flag=2),
            asking(8, flag=1),
            *(asking(n, UNKNOWN, encoding=encoding) for n, encoding in enumerate(encodings)),
        )
        answers = await third.rest()
        assert [(answer.opaque, answer.encoding) for answer in answers] == list(enumerate(encodings))
        assert {answer.code for answer in answers} == {ResponseCode.SYSTEM_BUSY}
        assert {answer.remark for answer in answers} == {"the limit of 2 connections is reached"}
        await first.stream.aclose()
        await eventually(lambda: len(served.service.peers) == 1)
        fourth = await served.connect()
        assert (await fourth.request(asking(1))).code == ResponseCode.SUCCESS
        assert len(served.service.peers) == 2


@pytest.mark.trio
async def test_the_refusal_arrives_even_if_the_client_sends_more_than_is_read() -> None:
    async with serving(HANDLERS, ServerOptions(max_connections=0)) as served:
        client = await served.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, *(asking(n, body=bytes(1000)) for n in range(2000)))
            answers = await client.rest()
        assert 0 < len(answers) < 2000
        assert {answer.code for answer in answers} == {ResponseCode.SYSTEM_BUSY}


@pytest.mark.trio
async def test_the_refusal_of_a_large_message_is_typed_too() -> None:
    async with serving(HANDLERS, ServerOptions(max_connections=0)) as served:
        client = await served.connect()
        await client.send(asking(1, body=bytes(4 * 1024 * 1024)))
        (answer,) = await client.rest()
        assert (answer.opaque, answer.code) == (1, ResponseCode.SYSTEM_BUSY)


@pytest.mark.trio
async def test_one_address_cannot_take_all_places() -> None:
    async with serving_memory(HANDLERS, ServerOptions(max_connections=4, max_connections_per_address=2)) as served:
        greedy = [served.connect("10.0.0.1") for _ in range(3)]
        answers = [await client.request(asking(1)) for client in greedy]
        assert [answer.code for answer in answers] == [0, 0, 2]
        assert answers[2].remark == "the limit of 2 connections from 10.0.0.1 is reached"
        same = served.connect("::ffff:10.0.0.1")  # the same address, as a socket for both families shows it
        assert (await same.request(asking(1))).code == ResponseCode.SYSTEM_BUSY
        assert (await served.connect("10.0.0.2").request(asking(1))).code == ResponseCode.SUCCESS


@pytest.mark.trio
async def test_refused_connections_are_few_and_short(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    options = ServerOptions(max_connections=1, max_refusals=2, refusal_timeout=5)
    async with serving_memory(HANDLERS, options) as served:
        await served.connect().request(asking(1))
        silent, oneway, third = (served.connect() for _ in range(3))
        await oneway.send(asking(1, flag=2))
        assert await elapsed(third.rest) == 0
        assert await elapsed(silent.rest) == 5
        assert await elapsed(oneway.rest) == 0
        assert (await served.connect().request(asking(1))).code == ResponseCode.SYSTEM_BUSY
        assert [record.getMessage() for record in caplog.records] == [
            "refused the connection from 127.0.0.1:4321: the limit of 1 connections is reached"
        ] * 4


# --- the end


async def serve_a_moment(served: Serving) -> None:
    async with await served.connect() as client:
        assert (await client.request(asking(1))).opaque == 1


@pytest.mark.trio
async def test_a_server_without_connections_stops_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with serving_memory(HANDLERS) as served:
        served.server.shutdown()
        assert await elapsed(served.stopped.wait) == 0
        assert repr(served.server) == "<Server 0 connections, stopping>"


@pytest.mark.trio
async def test_a_server_may_be_stopped_before_it_serves() -> None:
    server = Server(StubService(HANDLERS))
    server.shutdown()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    await server.serve(listeners)
    assert listeners[0].socket.fileno() == -1


@pytest.mark.trio
async def test_what_was_accepted_is_answered_before_the_server_stops() -> None:
    hold = Holding()
    async with serving({HOLD: hold, ECHO: echo}) as served:
        first, second, idle = await served.connect(), await served.connect(), await served.connect()
        await first.send(asking(1, HOLD), asking(2), asking(3, HOLD))
        await second.send(asking(4, HOLD))
        await idle.request(asking(5))
        await eventually(lambda: len(hold.held) == 3)
        served.server.shutdown()
        assert await idle.rest() == []
        await idle.stream.aclose()
        with pytest.raises(OSError, match=r"all attempts to connect .* failed"):
            await served.connect()
        assert not served.stopped.is_set()
        hold.release(b"at last")
        assert [(answer.opaque, answer.code) for answer in await first.rest()] == [(2, 0), (1, 0), (3, 0)]
        assert [(answer.opaque, answer.body) for answer in await second.rest()] == [(4, b"at last")]
        await first.stream.aclose()
        await second.stream.aclose()
        await served.stopped.wait()


@pytest.mark.trio
async def test_the_last_answers_arrive_although_more_requests_are_under_way() -> None:
    hold = Holding()
    async with serving({HOLD: hold}) as served:
        client = await served.connect_narrowly()
        await client.send(asking(1, HOLD))
        await eventually(lambda: len(hold.held) == 1)
        served.server.shutdown()
        await client.send(*(asking(n) for n in range(100)))  # nobody reads these any more
        hold.release(bytes(12 * 1024))  # the server's system takes all of it, ours does not
        await settle()
        assert [(answer.opaque, len(answer.body)) for answer in await client.rest()] == [(1, 12 * 1024)]
        await client.stream.aclose()
        await served.stopped.wait()


@pytest.mark.trio
async def test_a_client_that_stays_delays_the_end_by_no_more_than_a_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving_memory(HANDLERS) as served:
        clients = [served.connect() for _ in range(3)]
        for client in clients:
            await client.request(asking(1))
        served.server.shutdown(grace=60)
        assert await elapsed(served.stopped.wait) == 1


@pytest.mark.trio
async def test_a_client_that_goes_on_sending_delays_the_end_until_the_grace_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving_memory(HANDLERS) as served, trio.open_nursery() as nursery:
        client = served.connect()
        await client.request(asking(1))

        async def go_on() -> None:
            while True:
                await client.send(asking(2))
                await trio.sleep(0.5)

        nursery.start_soon(until_broken, go_on)
        served.server.shutdown(grace=7)
        assert await elapsed(served.stopped.wait) == 7


@pytest.mark.trio
async def test_after_the_grace_those_who_do_not_read_and_those_who_wait_are_cut_off(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving_memory({HOLD: Holding(), LARGE: large}) as served:
        waiting, reading_nothing = served.connect(), served.connect(lockstep=True)
        await waiting.send(asking(1, HOLD))
        await reading_nothing.send(asking(1, LARGE))
        await trio.testing.wait_all_tasks_blocked()
        served.server.shutdown(grace=10)
        assert 10 <= await elapsed(served.stopped.wait) <= 11
        assert await waiting.rest() == []
        assert [record.getMessage() for record in caplog.records] == [
            "closed the connection from 127.0.0.1:4321: the server stops, and its answers were not taken in time"
        ] * 2


@pytest.mark.trio
async def test_a_connection_that_was_just_accepted_does_not_keep_the_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving_memory(HANDLERS, ServerOptions(max_connections=1)) as served:
        await served.connect().request(asking(1))
        served.connect()  # one too many: it waits to be told so
        await trio.testing.wait_all_tasks_blocked()
        late = served.connect()
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        served.server.shutdown(grace=60)
        assert await elapsed(served.stopped.wait) <= 1
        assert await late.rest() == []


@pytest.mark.trio
@pytest.mark.parametrize("turns", range(6))
async def test_at_whatever_moment_of_its_life_a_connection_is_stopped_it_ends(
    autojump_clock: trio.testing.MockClock, turns: int
) -> None:
    async with serving_memory(HANDLERS) as served:
        client = served.connect()
        await client.send(asking(1))
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        served.server.shutdown(grace=60)
        assert await elapsed(served.stopped.wait) <= 1
        assert numbers(await client.rest()) in ([], [1])


@pytest.mark.trio
async def test_cancelling_the_server_closes_everything_at_once() -> None:
    async with serving({HOLD: Holding(), ECHO: echo}) as served:
        clients = [await served.connect() for _ in range(3)]
        for client in clients:
            await client.send(asking(1, HOLD))
        await eventually(lambda: len(served.service.peers) == 3)
        served.scope.cancel()
        await served.stopped.wait()
        assert (served.service.peers, served.service.gone) == ([], 3)
        assert [await client.rest() for client in clients] == [[], [], []]


# --- nothing takes the server down


class Failing(StubService):
    """A service that fails where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__(HANDLERS)
        self.where = where

    def _fail(self, where: str) -> None:
        if self.where == where:
            self.where = "nowhere"
            raise ZeroDivisionError(where)

    def opened(self, channel: Channel) -> None:
        super().opened(channel)
        self._fail("opened")

    def closed(self, channel: Channel) -> None:
        super().closed(channel)
        self._fail("closed")

    def burst_ended(self) -> None:
        super().burst_ended()
        self._fail("burst_ended")


@pytest.mark.trio
@pytest.mark.parametrize("where", ["opened", "closed", "burst_ended"])
async def test_a_failure_of_the_service_ends_one_connection(caplog: pytest.LogCaptureFixture, where: str) -> None:
    async with serving(Failing(where)) as served:
        async with await served.connect() as client:
            await client.send(asking(1))
            await settle()
        await eventually(lambda: caplog.records != [])
        (record,) = caplog.records
        assert record.getMessage().startswith("the connection from 127.0.0.1:")
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == where
        await serve_a_moment(served)


FOREIGN = {
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n": "HTTP",
    b"POST /metrics HTTP/1.1\r\n\r\n": "HTTP",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "HTTP/2 (gRPC)",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500): "TLS",
    b"SSH-2.0-OpenSSH_9.6\r\n": "SSH",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n": "the PROXY protocol",
    random.Random(7).randbytes(64): "frame lengths out of range",
}
SHORT = {b"GET /": "HTTP", b"\x16\x03\x01": "TLS", b"SSH-2": "SSH", b"PING\r\n": "frame lengths out of range"}


@pytest.mark.trio
@pytest.mark.parametrize(("start", "seen"), FOREIGN.items(), ids=FOREIGN.values())
async def test_whoever_speaks_another_protocol_is_named_in_one_line_and_closed(
    caplog: pytest.LogCaptureFixture, start: bytes, seen: str
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(HANDLERS) as served, await served.connect() as client:
        await client.send_bytes(start)
        assert await client.rest() == []
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert seen in record.getMessage()
        await serve_a_moment(served)


@pytest.mark.trio
@pytest.mark.parametrize(("start", "seen"), SHORT.items(), ids=SHORT.values())
async def test_so_is_whoever_goes_after_a_few_bytes_of_it(
    caplog: pytest.LogCaptureFixture, start: bytes, seen: str
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(HANDLERS) as served:
        async with await served.connect() as client:
            await client.send_bytes(start)
        await eventually(lambda: caplog.records != [])
        (record,) = caplog.records
        assert seen in record.getMessage()


@pytest.mark.trio
async def test_a_late_answer_that_is_no_answer_ends_one_connection_at_most(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    async with serving(HANDLERS | {HOLD: holding}) as served, await served.connect() as client:
        await client.send(asking(1, HOLD))
        await eventually(lambda: len(holding.held) == 1)
        (later,) = holding.held
        later.answer(later.request.reply(body=cast(bytes, "text")))
        answer = await client.receive()
        assert (answer.opaque, answer.code) == (1, ResponseCode.SYSTEM_ERROR)
        (record,) = caplog.records
        assert "a body is bytes; this is a str" in record.getMessage()
        await serve_a_moment(served)


def reset(client: RawClient) -> None:
    """Close a connection by resetting it."""
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.stream.socket.close()


async def go_silently(client: RawClient) -> None:
    await client.send_bytes(b"")


async def go_with_a_reset(client: RawClient) -> None:
    await client.send(asking(1))
    reset(client)


async def go_before_the_answers(client: RawClient) -> None:
    await client.send(*(asking(n, LARGE) for n in range(50)))


async def go_with_a_reset_amid_the_answers(client: RawClient) -> None:
    await client.send(*(asking(n, LARGE) for n in range(1000)))
    await client.receive()
    reset(client)


async def go_with_promises_open(client: RawClient) -> None:
    await client.send(*(asking(n, HOLD) for n in range(10)))
    await settle()


async def go_with_half_a_frame(client: RawClient) -> None:
    await client.send_bytes(encode_frame(asking(1)) + b"\0\0\x10\0\0\0\0\x50{")


async def go_with_garbage(client: RawClient) -> None:
    await client.send_bytes(encode_frame(asking(1)) + random.Random(3).randbytes(100))
    await client.rest()


async def go_with_a_broken_header(client: RawClient) -> None:
    await client.send_bytes(b"\0\0\0\x08\0\0\0\x04{{{{")
    await client.rest()


async def go_after_a_half_close(client: RawClient) -> None:
    await client.send(asking(1), asking(2, HOLD))
    assert isinstance(client.stream, trio.SocketStream)
    await client.stream.send_eof()
    assert numbers(await client.rest()) == [1]


ENDINGS = [
    go_silently,
    go_with_a_reset,
    go_before_the_answers,
    go_with_a_reset_amid_the_answers,
    go_with_promises_open,
    go_with_half_a_frame,
    go_with_garbage,
    go_with_a_broken_header,
    go_after_a_half_close,
]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.trio
async def test_nothing_is_left_behind_however_connections_end(caplog: pytest.LogCaptureFixture) -> None:
    hold = Holding()
    handlers = HANDLERS | {HOLD: hold}
    async with serving(handlers, ServerOptions(max_connections=20)) as served:
        await serve_a_moment(served)
        await settle()
        files, tasks = open_files(), trio.lowlevel.current_statistics().tasks_living

        async def connect_and_go(end: Callable[[RawClient], Awaitable[None]]) -> None:
            async with await served.connect() as client:
                await end(client)

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for end in ENDINGS:
                    nursery.start_soon(connect_and_go, end)
            await settle()
        await eventually(lambda: served.service.gone == 1 + 10 * len(ENDINGS))
        hold.release()
        await settle()
        assert (open_files(), trio.lowlevel.current_statistics().tasks_living) == (files, tasks)
        assert repr(served.server) == "<Server 0 connections>"
        assert served.service.peers == []
        assert {record.levelno for record in caplog.records} == {logging.WARNING}  # of garbage; no failure of ours

        clients = [await served.connect() for _ in range(20)]
        assert {(await client.request(asking(1))).code for client in clients} == {ResponseCode.SUCCESS}
        for client in clients:
            await client.stream.aclose()


@pytest.mark.trio
async def test_random_bytes_end_a_connection_and_nothing_else() -> None:
    chance = random.Random(11)
    frame = encode_frame(asking(1, body=bytes(50)))
    async with serving(HANDLERS) as served, await served.connect() as beside:
        for turn in range(200):
            damaged = bytearray(frame * 3)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            async with await served.connect() as client:
                await client.send_bytes(bytes(damaged) if turn % 2 else chance.randbytes(chance.randint(1, 300)))
            assert (await beside.request(asking(turn))).opaque == turn
        await eventually(lambda: served.service.gone == 200)
        assert len(served.service.peers) == 1


@pytest.mark.trio
async def test_a_peer_that_is_gone_can_be_answered_and_told_without_harm() -> None:
    hold = Holding()
    async with serving({HOLD: hold, ECHO: echo}) as served:
        async with await served.connect() as client:
            await client.send(asking(1, HOLD))
            await eventually(lambda: len(hold.held) == 1)
            (peer,) = served.service.peers
            reset(client)
            peer.notify(NOTICE)  # before the server has noticed
            hold.release(bytes(100_000))
        await eventually(lambda: served.service.peers == [])
        assert peer.closed
        await serve_a_moment(served)
