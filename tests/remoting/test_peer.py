"""How a server's outbox leaves, and what a server asks of its peers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from serving import RawClient, Wire

from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.headers.clients import ConsumerGroupRequest
from pocketmq.remoting.errors import CongestedError, ConnectionLostError, RequestTimeoutError
from pocketmq.remoting.peer import Peer

REQUEST = Command(RequestCode.HEART_BEAT, opaque=1)
OFFERING = REQUEST._replace(ext_fields={"PMQ_SER": "2"})
NOTICE = int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
INFO = int(RequestCode.GET_CONSUMER_RUNNING_INFO)


class Bench:
    """A peer on a stream in memory, and the client at the other end."""

    def __init__(self, nursery: trio.Nursery, *, lockstep: bool = False, **limits: int) -> None:
        pair = trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()
        self.wire, self.client = Wire(pair[0]), RawClient(pair[1])
        self.peer = Peer(
            self.wire,
            ("10.0.0.1", 5555),
            capabilities="records,bulk",
            max_unanswered=limits.get("max_unanswered", 10_000),
            max_outgoing=limits.get("max_outgoing", 10_000),
            start_soon=nursery.start_soon,
        )

    def answer(self, opaque: int, size: int = 0) -> None:
        request = REQUEST._replace(opaque=opaque)
        self.peer.send_answer(request, request.reply(0, body=bytes(size)))

    @property
    def sends(self) -> list[list[int]]:
        """The numbers of the answers, write by write."""
        return [[command.opaque for command in FrameDecoder().feed(data)] for data in self.wire.sends]


Finished = Callable[[], bool]


def watch(nursery: trio.Nursery, call: Callable[[], Awaitable[None]]) -> Finished:
    """Start a call and say whether it has returned."""
    done = trio.Event()

    async def run() -> None:
        await call()
        done.set()

    nursery.start_soon(run)
    return done.is_set


# --- the outbox


@pytest.mark.trio
async def test_the_answers_of_a_burst_leave_in_one_write() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.peer.begin_burst()
        for opaque in range(5):
            bench.answer(opaque)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.sends == []
        await bench.peer.flush()
        assert bench.sends == [[0, 1, 2, 3, 4]]
        assert bench.peer.outgoing == 0


@pytest.mark.trio
async def test_outside_of_a_burst_what_comes_up_together_leaves_together() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.answer(1)
        bench.answer(2)
        await trio.testing.wait_all_tasks_blocked()
        bench.answer(3)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.sends == [[1, 2], [3]]
        assert nursery.child_tasks == frozenset()


@pytest.mark.trio
async def test_what_comes_up_during_a_write_leaves_in_the_next_one() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, lockstep=True)
        bench.answer(1)
        await trio.testing.wait_all_tasks_blocked()
        bench.peer.begin_burst()
        bench.answer(2)
        await bench.peer.flush()  # someone is sending already: no need to wait, and no second write at the same time
        bench.answer(3)
        assert bench.sends == [[1]]
        received = await bench.client.receive_many(3)
        assert [command.opaque for command in received] == [1, 2, 3]
        assert bench.sends == [[1], [2, 3]]


@pytest.mark.trio
async def test_sending_counts_as_activity(autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        began = bench.peer.last_active
        await trio.sleep(50)
        bench.answer(1)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.peer.last_active == began + 50


@pytest.mark.trio
async def test_a_write_that_breaks_ends_the_peer_and_nothing_else() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        await bench.client.stream.aclose()
        bench.answer(1)
        await trio.testing.wait_all_tasks_blocked()
        assert repr(bench.peer) == "<Peer 10.0.0.1:5555 closed, 0 pending>"
        bench.answer(2)
        assert len(bench.wire.sends) == 1


@pytest.mark.trio
async def test_a_write_that_breaks_within_a_burst_tells_its_caller() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        await bench.client.stream.aclose()
        bench.peer.begin_burst()
        bench.answer(1)
        with pytest.raises(trio.BrokenResourceError):
            await bench.peer.flush()


# --- limits


@pytest.mark.trio
async def test_above_the_limit_answers_give_way_to_busy() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, lockstep=True, max_outgoing=500)
        for opaque in range(4):
            bench.answer(opaque, size=300)
        answers = await bench.client.receive_many(4)
        assert [(answer.opaque, answer.code) for answer in answers] == [(0, 0), (1, 0), (2, 2), (3, 2)]
        assert answers[2].remark == "you do not read your answers; ask again later"
        await trio.testing.wait_all_tasks_blocked()
        bench.answer(4)
        assert (await bench.client.receive()).code == ResponseCode.SUCCESS


@pytest.mark.trio
async def test_above_the_limit_requests_of_ours_are_refused() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, lockstep=True, max_outgoing=500)
        bench.answer(1, size=600)
        with pytest.raises(CongestedError, match=r"10\.0\.0\.1:5555 does not read"):
            bench.peer.notify(NOTICE)
        with pytest.raises(CongestedError):
            await bench.peer.request(INFO, timeout=3)
        await bench.client.receive()
        await trio.testing.wait_all_tasks_blocked()
        bench.peer.notify(NOTICE)
        assert (await bench.client.receive()).code == NOTICE


@pytest.mark.trio
async def test_a_flush_waits_until_less_is_owed() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, max_unanswered=1000)
        bench.peer.promised(600)
        bench.peer.promised(600)
        finished = watch(nursery, bench.peer.flush)
        await trio.testing.wait_all_tasks_blocked()
        assert not finished()
        bench.peer.settled(600)
        await trio.testing.wait_all_tasks_blocked()
        assert finished()


@pytest.mark.trio
async def test_a_flush_waits_until_less_is_waiting_to_be_sent() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, lockstep=True, max_outgoing=1000)
        bench.answer(1, size=2000)
        finished = watch(nursery, bench.peer.flush)
        await trio.testing.wait_all_tasks_blocked()
        assert not finished()
        await bench.client.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert finished()


@pytest.mark.trio
@pytest.mark.parametrize("name", ["flush", "drain"])
async def test_nobody_waits_for_a_peer_that_has_gone(name: str) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, max_unanswered=1000)
        bench.peer.promised(2000)
        finished = watch(nursery, getattr(bench.peer, name))
        await trio.testing.wait_all_tasks_blocked()
        assert not finished()
        bench.peer.end("it has gone")
        await trio.testing.wait_all_tasks_blocked()
        assert finished()


@pytest.mark.trio
async def test_a_drain_lasts_until_nothing_is_owed_and_all_has_left() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, lockstep=True)
        bench.peer.promised(10)
        bench.peer.promised(10)
        finished = watch(nursery, bench.peer.drain)
        await trio.testing.wait_all_tasks_blocked()
        for opaque in (1, 2):
            bench.peer.settled(10)
            bench.answer(opaque, size=50)
        await trio.testing.wait_all_tasks_blocked()
        assert not finished()
        answers = await bench.client.receive_many(2)
        await trio.testing.wait_all_tasks_blocked()
        assert finished()
        assert [(answer.code, answer.body) for answer in answers] == [(0, bytes(50))] * 2


# --- requests to the peer


@pytest.mark.trio
async def test_a_notice_asks_for_no_answer() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.peer.notify(NOTICE, ConsumerGroupRequest("group"), b"body")
        notice = await bench.client.receive()
        assert (notice.code, notice.flag, notice.body) == (NOTICE, 2, b"body")
        assert notice.ext_fields == {"consumerGroup": "group"}
        assert "0 pending" in repr(bench.peer)


@pytest.mark.trio
async def test_answers_find_the_requests_they_belong_to() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bodies: dict[int, bytes] = {}

        async def ask(number: int) -> None:
            answer = await bench.peer.request(INFO, body=b"%d" % number, timeout=3)
            bodies[number] = bytes(answer.body)

        for number in range(3):
            nursery.start_soon(ask, number)
        for request in reversed(await bench.client.receive_many(3)):
            assert request.flag == 0
            bench.peer.answered(request.reply(0, body=b"to " + bytes(request.body)))
        bench.peer.answered(Command(0, opaque=12345, flag=1))  # nobody waits for this one
        await trio.testing.wait_all_tasks_blocked()
        assert bodies == {0: b"to 0", 1: b"to 1", 2: b"to 2"}
        assert "0 pending" in repr(bench.peer)


@pytest.mark.trio
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_requests_are_written_in_the_encoding_of_the_peer(encoding: Encoding) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.peer.encoding = encoding
        bench.peer.notify(NOTICE)
        assert (await bench.client.receive()).encoding == encoding


@pytest.mark.trio
async def test_a_request_without_an_answer_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"10\.0\.0\.1:5555 did not answer request 307 in time"):
            await bench.peer.request(INFO, timeout=3)
        assert trio.current_time() == began + 3
        late = await bench.client.receive()
        bench.peer.answered(late.reply(0))
        assert "0 pending" in repr(bench.peer)


@pytest.mark.trio
async def test_a_request_ends_with_its_connection() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        nursery.start_soon(end_when_blocked, bench.peer)
        with pytest.raises(ConnectionLostError, match="it has gone before it answered request 307"):
            await bench.peer.request(INFO, timeout=math.inf)
        with pytest.raises(ConnectionLostError, match="has ended"):
            bench.peer.notify(NOTICE)


@pytest.mark.trio
async def test_a_stream_that_fails_in_an_unknown_way_ends_its_own_connection_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(data: bytes) -> None:
        raise ZeroDivisionError

    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        monkeypatch.setattr(bench.peer._stream, "send_all", fail)
        bench.peer.notify(NOTICE)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.peer.closed
    (record,) = caplog.records
    assert record.getMessage().startswith("sending to ")


async def end_when_blocked(peer: Peer) -> None:
    await trio.testing.wait_all_tasks_blocked()
    peer.end("it has gone")


@pytest.mark.trio
async def test_a_request_that_is_cancelled_is_forgotten() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        with trio.CancelScope() as scope:
            scope.cancel()
            await bench.peer.request(INFO, timeout=3)
        assert scope.cancelled_caught
        assert "0 pending" in repr(bench.peer)


@pytest.mark.trio
async def test_whoever_fails_to_handle_an_outcome_keeps_it_from_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        told: list[Any] = []

        def fail(outcome: Any) -> None:
            raise ZeroDivisionError

        for done in (fail, told.append) * 3:
            bench.peer.begin(INFO, done=done, deadline=100 - len(told))
        bench.peer.answered(Command(0, opaque=1, flag=1))
        bench.peer.answered(Command(0, opaque=2, flag=1))
        bench.peer.expire(100)
        assert [type(outcome) for outcome in told] == [Command, RequestTimeoutError, RequestTimeoutError]
        assert len(caplog.records) == 3


# --- the offer


@pytest.mark.trio
async def test_a_request_with_an_offer_is_answered_with_what_is_accepted_and_what_is_on_offer() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        for request in (OFFERING, REQUEST):
            bench.peer.send_answer(request, request.reply(0, {"own": "field"}))
        answers = await bench.client.receive_many(2)
        assert [answer.ext_fields for answer in answers] == [
            {"own": "field", "PMQ_SER": "2", "PMQ_CAP": "records,bulk"},
            {"own": "field"},
        ]
        assert bench.peer.speaks_pocketmq


@pytest.mark.trio
async def test_an_offer_is_answered_even_with_a_refusal() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.peer.send_answer(OFFERING, OFFERING.reply(ResponseCode.NO_PERMISSION, remark="no"))
        answer = await bench.client.receive()
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "no")
        assert answer.ext_fields == {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}


@pytest.mark.trio
@pytest.mark.parametrize(("offer", "accepted"), [("2", "2"), ("1,2", "2"), ("0", "0"), ("7", "0"), ("", "0")])
async def test_msgpack_is_accepted_if_it_is_among_what_is_offered(offer: str, accepted: str) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        request = Command(RequestCode.HEART_BEAT, {"PMQ_SER": offer})
        bench.peer.send_answer(request, request.reply(0))
        assert (await bench.client.receive()).ext_fields["PMQ_SER"] == accepted


@pytest.mark.trio
async def test_a_peer_that_offers_nothing_is_told_of_nothing() -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        for opaque in range(3):
            bench.answer(opaque)
        bench.peer.notify(NOTICE)
        received = await bench.client.receive_many(4)
        assert [command.ext_fields for command in received] == [{}] * 4
        assert b"PMQ" not in b"".join(map(encode_frame, received))
        assert not bench.peer.speaks_pocketmq
