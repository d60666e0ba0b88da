"""One end of a connection, driven with plain calls: no network, no clock."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from talking import ROUTE, Outcome, ask, ignore, leave, reply_to

from pocketmq.protocol.codes import CommandFlag, Encoding, Language, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.framing import MAX_FRAME, encode_frame
from pocketmq.protocol.headers.clients import ConsumerGroupRequest
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest
from pocketmq.remoting import channel as channel_module
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import CongestedError, ConnectionLostError, RequestTimeoutError

ACCEPTED = {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}


class Watched(Channel):
    """A channel that counts what it tells its shim."""

    woken = eased = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_asleep = True

    def _wake(self) -> None:
        self.woken += 1

    def _eased(self) -> None:
        self.eased += 1


def a_channel(**limits: int) -> Channel:
    return Channel(("10.0.0.1", 10911), **limits)


def question(opaque: int = 1, flag: int = 0, **fields: Any) -> Command:
    return Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=opaque, flag=flag, **fields)


# --- what it looks like


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 10911), "10.0.0.1:10911"), (("broker-a", 1), "broker-a:1"), (("::1", 9876), "[::1]:9876")],
)
def test_a_channel_is_named_after_the_other_end(address: tuple[str, int], name: str) -> None:
    assert Channel(address).name == name


def test_the_repr_tells_what_is_owed_what_waits_and_who_waits() -> None:
    channel = a_channel()
    ask(channel, [])
    channel.promised(5)
    assert repr(channel) == f"<Channel 10.0.0.1:10911 5 unanswered, {channel.outgoing} outgoing, 1 pending>"
    channel.end("it was time")
    assert repr(channel) == "<Channel 10.0.0.1:10911 closed, 0 pending>"


# --- requests of ours


def test_a_request_carries_its_header_and_body_in_the_encoding_of_the_channel() -> None:
    channel = a_channel()
    for encoding in Encoding:
        channel.encoding = int(encoding)
        opaque = channel.begin(ROUTE, GetRouteInfoRequest("T"), b"body", done=ignore)
        (request,) = leave(channel)
        assert (request.code, request.ext_fields, bytes(request.body)) == (ROUTE, {"topic": "T"}, b"body")
        assert (request.opaque, request.flag, request.encoding) == (opaque, 0, encoding)
        assert request.language == Language.PYTHON


def test_a_notification_wants_no_answer() -> None:
    channel = a_channel()
    channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupRequest("G"))
    (request,) = leave(channel)
    assert request.is_oneway
    assert request.ext_fields == {"consumerGroup": "G"}
    assert "0 pending" in repr(channel)


def test_all_that_waits_leaves_in_one_piece_and_in_order() -> None:
    channel = a_channel()
    first = ask(channel, [], body=b"one")
    channel.notify(ROUTE, body=b"two")
    channel.send_answer(question(99), question(99).reply(0, body=b"three"))
    assert [bytes(command.body) for command in leave(channel)] == [b"one", b"two", b"three"]
    assert channel.take_outbox() == b""
    assert first == 1


def test_bytes_are_outgoing_until_the_system_has_them() -> None:
    channel = a_channel()
    ask(channel, [], body=bytes(1000))
    size = channel.outgoing
    data = channel.take_outbox()
    assert len(data) == size == channel.outgoing
    channel.sent(300)
    assert channel.outgoing == size - 300
    channel.sent(size - 300)
    assert channel.outgoing == 0


@given(st.permutations(range(12)))
def test_answers_in_any_order_reach_the_right_waiter(order: list[int]) -> None:
    channel = a_channel()
    outcomes: list[list[Outcome]] = [[] for _ in order]
    opaques = [ask(channel, outcome) for outcome in outcomes]
    for index in order:
        channel.answered(reply_to(opaques[index]))
    assert outcomes == [[reply_to(opaque)] for opaque in opaques]
    assert "0 pending" in repr(channel)


def test_an_answer_nobody_waits_for_is_dropped() -> None:
    channel, outcomes = a_channel(), list[Outcome]()
    opaque = ask(channel, outcomes)
    channel.answered(reply_to(opaque + 1))
    assert outcomes == []
    channel.answered(reply_to(opaque))
    channel.answered(reply_to(opaque))
    assert outcomes == [reply_to(opaque)]


def test_a_withdrawn_request_has_no_outcome() -> None:
    channel, outcomes = a_channel(), list[Outcome]()
    opaque = ask(channel, outcomes, deadline=1.0)
    channel.withdraw(opaque)
    channel.withdraw(opaque)
    channel.expire(2.0)
    channel.answered(reply_to(opaque))
    channel.end("it was time")
    assert outcomes == []


def test_requests_time_out_one_by_one() -> None:
    channel, outcomes = a_channel(), list[Outcome]()
    late, soon, never = (ask(channel, outcomes, deadline) for deadline in (20.0, 10.0, math.inf))
    assert channel.earliest_deadline() == 10.0
    channel.expire(9.9)
    assert outcomes == []
    channel.expire(10.0)
    assert [str(outcome) for outcome in outcomes] == ["10.0.0.1:10911 did not answer request 105 in time"]
    assert isinstance(outcomes[0], RequestTimeoutError)
    assert channel.earliest_deadline() == 20.0
    channel.expire(1e9)
    assert len(outcomes) == 2
    assert channel.earliest_deadline() == math.inf
    for opaque in (late, soon, never):
        channel.answered(reply_to(opaque))
    assert outcomes[2:] == [reply_to(never)]


def test_whoever_is_told_may_ask_again_at_once() -> None:
    channel, outcomes = a_channel(), list[Outcome]()

    def again(outcome: Outcome) -> None:
        outcomes.append(outcome)
        ask(channel, outcomes, deadline=5.0)

    channel.begin(ROUTE, done=again, deadline=1.0)
    channel.expire(1.0)
    assert [type(outcome) for outcome in outcomes] == [RequestTimeoutError]
    assert channel.earliest_deadline() == 5.0


def test_what_goes_wrong_with_one_outcome_does_not_keep_the_others_from_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel, outcomes = a_channel(), list[Outcome]()

    def fail(outcome: Outcome) -> None:
        raise ValueError("no")

    for done in (fail, outcomes.append):
        channel.begin(ROUTE, done=done)
    channel.end("it was time")
    assert len(outcomes) == 1
    assert "the outcome of a request could not be handled" in caplog.text


@pytest.mark.parametrize("body", [bytes(MAX_FRAME), bytes(MAX_FRAME - 4)], ids=["larger", "just too large"])
def test_a_request_that_cannot_be_encoded_leaves_no_trace(body: bytes) -> None:
    channel, outcomes = a_channel(), list[Outcome]()
    with pytest.raises(LocalProtocolError):
        ask(channel, outcomes, body=body)
    channel.end("it was time")
    assert (channel.take_outbox(), channel.outgoing, outcomes) == (b"", 0, [])


# --- the end


def test_the_end_is_told_to_everyone_with_its_reason_and_its_cause() -> None:
    channel, outcomes, cause = a_channel(), list[Outcome](), OSError("pulled the plug")
    opaques = [ask(channel, outcomes) for _ in range(3)]
    channel.end("the plug was pulled", cause)
    assert [str(outcome) for outcome in outcomes] == [
        "10.0.0.1:10911: the plug was pulled before it answered request 105"
    ] * 3
    for outcome in outcomes:
        assert isinstance(outcome, ConnectionLostError)
        assert outcome.__cause__ is cause
    channel.end("another reason")
    channel.answered(reply_to(opaques[0]))
    assert len(outcomes) == 3


def test_after_the_end_nothing_is_sent() -> None:
    channel = a_channel()
    ask(channel, [])
    channel.end("it was time")
    with pytest.raises(ConnectionLostError, match=r"10\.0\.0\.1:10911 has ended"):
        ask(channel, [])
    with pytest.raises(ConnectionLostError):
        channel.notify(ROUTE)
    channel.send_answer(question(), question().reply(0))
    assert channel.take_outbox() == b""
    assert "0 pending" in repr(channel)


def test_a_waiter_that_asks_again_at_the_end_is_refused() -> None:
    channel, refusals = a_channel(), list[str]()

    def again(outcome: Outcome) -> None:
        with pytest.raises(ConnectionLostError) as info:
            ask(channel, [])
        refusals.append(str(info.value))

    channel.begin(ROUTE, done=again)
    channel.end("it was time")
    assert refusals == ["the connection to 10.0.0.1:10911 has ended: it was time"]


# --- a peer that does not read


def test_a_request_to_a_congested_peer_is_refused_and_forgotten() -> None:
    channel, outcomes = a_channel(max_outgoing=1000), list[Outcome]()
    ask(channel, outcomes, body=bytes(1000))
    size = channel.outgoing
    with pytest.raises(CongestedError, match="does not read what it is sent"):
        ask(channel, outcomes)
    with pytest.raises(CongestedError):
        channel.notify(ROUTE)
    assert channel.outgoing == size
    assert "1 pending" in repr(channel)
    leave(channel)
    ask(channel, outcomes)
    assert "2 pending" in repr(channel)


def test_answers_to_a_congested_peer_shrink() -> None:
    channel = a_channel(max_outgoing=1000)
    for opaque in (1, 2):
        channel.send_answer(question(opaque), question(opaque).reply(0, body=bytes(2000)))
    first, second = leave(channel)
    assert (first.code, len(first.body)) == (0, 2000)
    assert (second.code, second.opaque, second.body) == (ResponseCode.SYSTEM_BUSY, 2, b"")
    assert second.remark == "you do not read your answers; ask again later"


def test_a_peer_that_asks_without_taking_its_answers_is_owed_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_FRAME", 500)
    channel, most = a_channel(max_outgoing=1000), 2 * 1000 + 500
    answers = 0
    while not channel.owes_too_much:
        assert channel.outgoing <= most
        channel.send_answer(question(), question().reply(0))
        answers += 1
    assert channel.outgoing > most
    assert answers < 50
    leave(channel)
    assert not channel.owes_too_much


def test_requests_of_ours_are_never_owed() -> None:
    channel = a_channel(max_outgoing=0)
    ask(channel, [], body=bytes(MAX_FRAME - 1000))  # as much as can ever wait on their account
    with pytest.raises(CongestedError):
        ask(channel, [])
    assert channel.is_congested
    assert not channel.owes_too_much


# --- requests of the other end


def test_a_request_that_wants_no_answer_gets_none() -> None:
    channel = a_channel()
    notification = question(flag=CommandFlag.ONEWAY)
    channel.send_answer(notification, notification.reply(0))
    assert channel.take_outbox() == b""


def test_an_answer_that_fits_no_frame_gives_way_to_one_that_does(caplog: pytest.LogCaptureFixture) -> None:
    channel = a_channel()
    channel.send_answer(question(5), question(5).reply(0, body=bytes(MAX_FRAME)))
    (answer,) = leave(channel)
    assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 5)
    assert answer.remark == "the answer does not fit into a frame"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_promises_are_counted_until_they_are_kept() -> None:
    channel, owed = a_channel(max_unanswered=5000), list[bool]()
    for cost in (3000, 2000, 1):
        channel.promised(cost)
        owed.append(channel.owes_too_much)
    for cost in (1, 3000, 2000):
        channel.settled(cost)
        owed.append(channel.owes_too_much)
    assert owed == [False, False, True, False, False, False]
    assert repr(channel).startswith("<Channel 10.0.0.1:10911 0 unanswered")


def test_the_shim_is_told_when_there_is_something_to_send_and_when_there_is_room() -> None:
    channel = Watched(("10.0.0.1", 10911))
    ask(channel, [])
    channel.send_answer(question(), question().reply(0))
    assert (channel.woken, channel.eased) == (2, 0)
    leave(channel)
    channel.promised(1)
    channel.settled(1)
    channel.end("it was time")
    assert (channel.woken, channel.eased) == (2, 3)


# --- all of it together, against a model


class AnyConversation(RuleBasedStateMachine):
    """Whatever happens on a channel, each request has one outcome, or none if it was withdrawn."""

    @initialize()
    def start(self) -> None:
        self.channel = a_channel(max_outgoing=400)
        self.now = 0.0
        self.deadlines: dict[int, float] = {}  # of those that wait
        self.expected: dict[int, type[object]] = {}
        self.outcomes: dict[int, list[Outcome]] = {}
        self.outgoing = 0

    def open(self) -> bool:
        return not self.channel.closed

    @rule(timeout=st.floats(0.0, 10.0) | st.just(math.inf), body=st.binary(max_size=300))
    def begin(self, timeout: float, body: bytes) -> None:
        outcomes: list[Outcome] = []
        deadline = self.now + timeout
        try:
            opaque = ask(self.channel, outcomes, deadline, body)
        except ConnectionLostError:
            assert self.channel.closed
        except CongestedError:
            assert self.outgoing > 400
        else:
            assert opaque not in self.deadlines
            self.deadlines[opaque], self.outcomes[opaque] = deadline, outcomes
            self.outgoing += len(encode_frame(Command(ROUTE, body=body, opaque=opaque)))

    @rule(opaque=st.integers(0, 30))
    def answer(self, opaque: int) -> None:
        if self.deadlines.pop(opaque, None) is not None:
            self.expected[opaque] = Command
        self.channel.answered(reply_to(opaque))

    @rule(opaque=st.integers(0, 30))
    def withdraw(self, opaque: int) -> None:
        self.deadlines.pop(opaque, None)
        self.channel.withdraw(opaque)

    @rule(step=st.floats(0.0, 5.0))
    def wait(self, step: float) -> None:
        self.now += step
        for opaque in [opaque for opaque, deadline in self.deadlines.items() if deadline <= self.now]:
            del self.deadlines[opaque]
            self.expected[opaque] = RequestTimeoutError
        self.channel.expire(self.now)

    @precondition(open)
    @rule()
    def leave(self) -> None:
        leave(self.channel)
        self.outgoing = 0

    @rule()
    def end(self) -> None:
        self.expected.update(dict.fromkeys(self.deadlines, ConnectionLostError))
        self.deadlines.clear()
        self.channel.end("it was time")

    @invariant()
    def outcomes_are_as_expected(self) -> None:
        told = {opaque: [type(outcome) for outcome in outcomes] for opaque, outcomes in self.outcomes.items()}
        assert {opaque: kinds for opaque, kinds in told.items() if kinds} == {
            opaque: [kind] for opaque, kind in self.expected.items()
        }

    @invariant()
    def the_channel_knows_who_waits_and_until_when(self) -> None:
        assert f"{len(self.deadlines)} pending" in repr(self.channel)
        assert self.channel.earliest_deadline() == min(self.deadlines.values(), default=math.inf)
        assert self.channel.outgoing == self.outgoing


TestAnyConversation = AnyConversation.TestCase
