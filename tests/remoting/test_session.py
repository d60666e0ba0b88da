"""The life of one connection: bursts in, answers out, and every way in which it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from serving import Holding, RawClient, StubService, Wire, echo

from pocketmq.protocol.codes import Encoding, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.remoting.handlers import Dispatcher, Handler, Request
from pocketmq.remoting.peer import Peer
from pocketmq.remoting.session import Session

ECHO = int(RequestCode.GET_ALL_TOPIC_CONFIG)
HOLD = int(RequestCode.GET_BROKER_CONFIG)
LARGE = int(RequestCode.GET_BROKER_RUNTIME_INFO)
INFO = int(RequestCode.GET_CONSUMER_RUNNING_INFO)


def asking(opaque: int, code: int = ECHO, **changes: Any) -> Command:
    return Command(code, opaque=opaque, body=b"%d" % opaque)._replace(**changes)


def numbers(commands: list[Command]) -> list[int]:
    return [command.opaque for command in commands]


class Bench:
    """A session on streams in memory."""

    def __init__(
        self,
        nursery: trio.Nursery,
        handlers: Mapping[int, Handler],
        *,
        lockstep: bool = False,
        wire: Callable[[trio.abc.HalfCloseableStream], Wire] = Wire,
        max_unanswered: int = 1_000_000,
        max_outgoing: int = 1_000_000,
    ) -> None:
        pair = trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()
        self.wire, self.client = wire(pair[0]), RawClient(pair[1])
        self.service = StubService(handlers)
        self.peer = Peer(
            self.wire,
            ("10.0.0.1", 5555),
            capabilities="",
            max_unanswered=max_unanswered,
            max_outgoing=max_outgoing,
            start_soon=nursery.start_soon,
        )
        self.session = Session(self.wire, self.peer, Dispatcher(handlers), self.service)
        self.ended = trio.Event()

    async def run(self) -> None:
        try:
            await self.session.run()
        finally:
            await self.wire.aclose()
            self.ended.set()

    @property
    def sends(self) -> list[list[int]]:
        """The numbers of the answers, write by write."""
        return [numbers(list(FrameDecoder().feed(data))) for data in self.wire.sends]


@asynccontextmanager
async def running(handlers: Mapping[int, Handler], **options: Any) -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, handlers, **options)
        nursery.start_soon(bench.run)
        yield bench
        nursery.cancel_scope.cancel()


# --- bursts


@pytest.mark.trio
async def test_the_answers_of_a_burst_leave_in_one_write() -> None:
    async with running({ECHO: echo}) as bench:
        await bench.client.send(*map(asking, range(100)))
        answers = await bench.client.receive_many(100)
        assert [(answer.opaque, bytes(answer.body)) for answer in answers] == [(n, b"%d" % n) for n in range(100)]
        assert bench.sends == [list(range(100))]
        assert bench.service.bursts == 1


@pytest.mark.trio
async def test_requests_in_pieces_are_answered_as_they_become_whole() -> None:
    stream = b"".join(encode_frame(asking(opaque)) for opaque in range(3))
    async with running({ECHO: echo}) as bench:
        for start in range(0, len(stream), 7):
            await bench.client.send_bytes(stream[start : start + 7])
            await trio.testing.wait_all_tasks_blocked()
        assert numbers(await bench.client.receive_many(3)) == [0, 1, 2]
        assert bench.sends == [[0], [1], [2]]


@pytest.mark.trio
async def test_a_held_request_does_not_hold_up_those_behind_it() -> None:
    hold = Holding()
    async with running({ECHO: echo, HOLD: hold}) as bench:
        await bench.client.send(asking(1, HOLD), asking(2), asking(3, HOLD), asking(4))
        assert numbers(await bench.client.receive_many(2)) == [2, 4]
        await bench.client.send(asking(5))
        assert numbers([await bench.client.receive()]) == [5]
        hold.held.reverse()
        hold.release(b"at last")
        assert numbers(await bench.client.receive_many(2)) == [3, 1]
        assert bench.sends == [[2, 4], [5], [3, 1]]


@pytest.mark.trio
async def test_large_answers_do_not_pile_up_until_the_end_of_a_burst() -> None:
    async with running({LARGE: lambda request: request.reply(body=bytes(400_000))}) as bench:
        await bench.client.send(*(asking(opaque, LARGE) for opaque in range(7)))
        assert numbers(await bench.client.receive_many(7)) == list(range(7))
        assert max(map(len, bench.wire.sends)) == 256 * 1024  # so that one who reads slowly is seen to read
        assert bench.service.bursts == 3  # told in front of every write: it may have to make the answers true


@pytest.mark.trio
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_every_request_is_answered_in_its_own_encoding(encoding: Encoding) -> None:
    async with running({ECHO: echo}) as bench:
        kinds = [encoding, *Encoding, encoding]
        await bench.client.send(*(asking(n, encoding=kind) for n, kind in enumerate(kinds)))
        assert [answer.encoding for answer in await bench.client.receive_many(len(kinds))] == kinds


@pytest.mark.trio
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_the_peer_is_asked_in_the_encoding_of_its_latest_request(encoding: Encoding) -> None:
    async with running({ECHO: echo}) as bench:
        bench.peer.notify(INFO)
        assert (await bench.client.receive()).encoding == Encoding.JSON
        await bench.client.send(asking(1, encoding=Encoding.MSGPACK), asking(2, encoding=encoding))
        await bench.client.send(Command(0, opaque=99, flag=1, encoding=Encoding.MSGPACK))  # an answer does not count
        await bench.client.receive_many(2)
        bench.peer.notify(INFO)
        assert (await bench.client.receive()).encoding == encoding


@pytest.mark.trio
async def test_both_sides_number_their_requests_on_their_own() -> None:
    hold = Holding()
    async with running({HOLD: hold}) as bench, trio.open_nursery() as nursery:
        outcome: list[Command] = []

        async def ask() -> None:
            outcome.append(await bench.peer.request(INFO, timeout=3))

        nursery.start_soon(ask)
        request = await bench.client.receive()
        await bench.client.send(asking(request.opaque, HOLD), request.reply(0, body=b"of the client"))
        await trio.testing.wait_all_tasks_blocked()
        assert [(answer.opaque, bytes(answer.body)) for answer in outcome] == [(request.opaque, b"of the client")]
        hold.release(b"of the server")
        answer = await bench.client.receive()
        assert (answer.opaque, answer.body, answer.is_response) == (request.opaque, b"of the server", True)


# --- limits


@pytest.mark.trio
async def test_a_connection_that_is_owed_too_much_is_not_read_until_that_is_settled() -> None:
    hold = Holding()
    async with running({HOLD: hold}, max_unanswered=5000) as bench:
        for turn in range(4):
            await bench.client.send(*(asking(10 * turn + n, HOLD) for n in range(3)))
            await trio.testing.wait_all_tasks_blocked()
        assert len(hold.held) == 6  # the second burst went above the limit; of the third nothing was read
        hold.release()
        await trio.testing.wait_all_tasks_blocked()
        assert len(hold.held) == 6
        hold.release()
        assert numbers(await bench.client.receive_many(12)) == [10 * turn + n for turn in range(4) for n in range(3)]


@pytest.mark.trio
async def test_a_peer_that_reads_nothing_is_not_read_either() -> None:
    handled: list[int] = []

    def answer(request: Request[Any]) -> Command:
        handled.append(request.command.opaque)
        return request.reply(body=bytes(1000))

    async with running({LARGE: answer}, lockstep=True, max_outgoing=5000) as bench, trio.open_nursery() as nursery:

        async def send() -> None:
            for turn in range(10):
                await bench.client.send(*(asking(10 * turn + n, LARGE) for n in range(10)))

        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        assert handled == list(range(10))
        assert 5000 < bench.peer.outgoing < 5000 + 1200 + 10 * 200  # the limit, an answer above it, and short refusals
        answers = await bench.client.receive_many(100)
        assert numbers(answers) == handled == list(range(100))
        assert [answer.code for answer in answers[:10]] == [0] * 5 + [2] * 5


@pytest.mark.trio
async def test_later_answers_to_a_peer_that_reads_nothing_give_way_to_busy() -> None:
    hold = Holding()
    async with running({HOLD: hold}, lockstep=True, max_outgoing=5000) as bench:
        await bench.client.send(*(asking(n, HOLD) for n in range(20)))
        await trio.testing.wait_all_tasks_blocked()
        hold.release(bytes(1000))
        assert bench.peer.outgoing < 5000 + 1200 + 20 * 200
        answers = await bench.client.receive_many(20)
        assert [answer.code for answer in answers] == [0] * 5 + [2] * 15


# --- when it is overdue


@pytest.mark.trio
async def test_a_silent_connection_is_overdue_after_the_idle_timeout(mock_clock: trio.testing.MockClock) -> None:
    async with running({ECHO: echo}) as bench:
        began = trio.current_time()
        mock_clock.jump(100)
        await bench.client.request(asking(1))
        mock_clock.jump(119)
        assert bench.session.overdue(trio.current_time(), 120, 30) is None
        mock_clock.jump(1)
        assert bench.session.overdue(trio.current_time(), 120, 30) == "nothing was heard or sent for 120 s"
        assert trio.current_time() == began + 220


@pytest.mark.trio
async def test_a_frame_that_does_not_become_whole_is_overdue(mock_clock: trio.testing.MockClock) -> None:
    async with running({ECHO: echo}) as bench:
        frame = encode_frame(asking(1))
        await bench.client.send_bytes(frame + frame[:5])
        for byte in frame[5:34]:
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(1)
            assert bench.session.overdue(trio.current_time(), 120, 30) is None
            await bench.client.send_bytes(bytes([byte]))
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(2)
        reason = bench.session.overdue(trio.current_time(), 120, 30)
        assert reason is not None
        assert reason.startswith("a frame was not complete after 30.0")


@pytest.mark.trio
async def test_a_large_frame_gets_the_time_that_it_takes_on_a_slow_line(mock_clock: trio.testing.MockClock) -> None:
    async with running({ECHO: echo}) as bench:
        frame = encode_frame(asking(1, body=bytes(8 * 1024 * 1024)))
        for start in range(0, len(frame), 128 * 1024):
            await bench.client.send_bytes(frame[start : start + 128 * 1024])
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(1)
            assert bench.session.overdue(trio.current_time(), 120, 30) is None
        assert (await bench.client.receive()).opaque == 1
        mock_clock.jump(60)
        assert bench.session.overdue(trio.current_time(), 120, 30) is None


@pytest.mark.trio
async def test_a_peer_that_reads_slowly_is_not_idle(mock_clock: trio.testing.MockClock) -> None:
    answer = lambda request: request.reply(body=bytes(4 * 1024 * 1024))  # noqa: E731
    async with running({LARGE: answer}, lockstep=True) as bench:
        await bench.client.send(asking(1, LARGE))
        received = 0
        while received < 4 * 1024 * 1024:
            received += len(await bench.client.stream.receive_some(256 * 1024))
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(50)
            assert bench.session.overdue(trio.current_time(), 120, 30) is None


# --- how it ends


async def end_of_stream(bench: Bench) -> None:
    await bench.client.stream.aclose()


async def garbage(bench: Bench) -> None:
    await bench.client.send_bytes(b"\xff" * 8)


async def finish(bench: Bench) -> None:
    bench.session.finish()


async def abort(bench: Bench) -> None:
    bench.session.abort()


@pytest.mark.trio
@pytest.mark.parametrize("end", [end_of_stream, garbage, finish, abort])
@pytest.mark.parametrize("partial", [b"", b"\0\0\0\x30"])
async def test_however_it_ends_the_service_is_told_once_and_nobody_is_left_waiting(
    end: Callable[[Bench], Any], partial: bytes
) -> None:
    outcomes: list[Any] = []
    async with running({HOLD: Holding()}) as bench:
        bench.peer.begin(INFO, done=outcomes.append)
        await bench.client.send_bytes(partial)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.service.peers == [bench.peer]
        await end(bench)
        await bench.ended.wait()
        assert (bench.service.peers, bench.service.gone) == ([], 1)
        assert bench.peer.closed
        assert len(outcomes) == 1


@pytest.mark.trio
@pytest.mark.parametrize(
    ("start", "seen"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\n", "HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", "ffffffff ffffffff"),
        (b"\0\0\0\x08\x07\0\0\x04abcd", "unknown header encoding 7"),
        (b"\0\0\0\x08\0\0\0\x04abcd", "header is no JSON"),
    ],
)
async def test_bytes_that_make_no_sense_end_it_with_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, start: bytes, seen: str
) -> None:
    async with running({ECHO: echo}) as bench:
        await bench.client.send_bytes(start)
        assert await bench.client.rest() == []
        (record,) = caplog.records
        assert record.getMessage().startswith("closed the connection from 10.0.0.1:5555: ")
        assert seen in record.getMessage()


@pytest.mark.trio
async def test_what_was_asked_in_front_of_garbage_is_answered() -> None:
    async with running({ECHO: echo}) as bench:
        await bench.client.send_bytes(encode_frame(asking(1)) + encode_frame(asking(2)) + b"\xff" * 8)
        assert numbers(await bench.client.rest()) == [1, 2]
        assert bench.service.bursts == 1


@pytest.mark.trio
async def test_a_peer_that_goes_while_it_is_answered_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    async with running({LARGE: lambda request: request.reply(body=bytes(1000))}, lockstep=True) as bench:
        await bench.client.send(asking(1, LARGE))
        await trio.testing.wait_all_tasks_blocked()
        await bench.client.stream.aclose()
        await bench.ended.wait()
        assert caplog.records == []


@pytest.mark.trio
async def test_an_abort_does_not_wait_for_a_peer_that_reads_nothing() -> None:
    async with running({LARGE: lambda request: request.reply(body=bytes(1000))}, lockstep=True) as bench:
        await bench.client.send(asking(1, LARGE))
        await trio.testing.wait_all_tasks_blocked()
        bench.session.abort()
        await bench.ended.wait()
        assert bench.peer.closed


# --- how it is finished


@pytest.mark.trio
async def test_what_is_owed_is_sent_before_it_is_finished() -> None:
    hold = Holding()
    async with running({HOLD: hold}) as bench:
        await bench.client.send(asking(1, HOLD), asking(2, HOLD), asking(3, HOLD))
        await trio.testing.wait_all_tasks_blocked()
        bench.session.finish()
        await trio.testing.wait_all_tasks_blocked()
        assert not bench.ended.is_set()
        await bench.client.send(asking(4, HOLD))
        await trio.testing.wait_all_tasks_blocked()
        assert len(hold.held) == 3
        hold.release(b"at last")
        answers = await bench.client.rest()
        assert [(answer.opaque, answer.code, bytes(answer.body)) for answer in answers] == [
            (opaque, 0, b"at last") for opaque in (1, 2, 3)
        ]


@pytest.mark.trio
async def test_a_write_that_is_under_way_is_completed_before_it_is_finished() -> None:
    async with running({ECHO: echo}, lockstep=True) as bench:
        await bench.client.send(*map(asking, range(50)))
        await trio.testing.wait_all_tasks_blocked()
        bench.session.finish()
        assert numbers(await bench.client.rest()) == list(range(50))


@pytest.mark.trio
async def test_what_arrives_at_that_very_moment_is_still_answered() -> None:
    class Late(Wire):
        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            data = await super().receive_some(max_bytes)
            bench.session.finish()
            return data

    async with running({ECHO: echo}, wire=Late) as bench:
        await bench.client.send(asking(1), asking(2))
        assert numbers(await bench.client.rest()) == [1, 2]


@pytest.mark.trio
async def test_it_may_be_finished_before_it_has_begun() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, {ECHO: echo})
        await bench.client.send(asking(1))
        bench.session.finish()
        await bench.run()
        assert await bench.client.rest() == []
        assert bench.service.gone == 1
