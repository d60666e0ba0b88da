"""What the two ends of a connection agree to speak."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from fixtures import captured_frames

from pocketmq.protocol.codes import Encoding
from pocketmq.protocol.command import NO_FIELDS
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.protocol.negotiation import REFUSAL_REMEMBERED, Negotiation, Refusals, accept

JSON, MSGPACK = int(Encoding.JSON), int(Encoding.MSGPACK)
ACCEPTED = {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}


def ask(negotiation: Negotiation, opaque: int, fields: Mapping[str, str] = NO_FIELDS) -> Mapping[str, str]:
    """Send a request; what fields it has."""
    sent = negotiation.request_fields(fields)
    negotiation.sent(opaque)
    return sent


def offered() -> Negotiation:
    """A client that has made its offer in request 5."""
    negotiation = Negotiation()
    ask(negotiation, 5)
    return negotiation


# --- the server


@pytest.mark.parametrize(
    ("offer", "accepted"),
    [("2", "2"), ("1,2", "2"), ("2,0", "2"), ("", "0"), ("0", "0"), ("1", "0"), ("22", "0"), ("7,,8", "0"), ("x", "0")],
)
def test_a_server_accepts_msgpack_if_it_is_among_what_is_offered(offer: str, accepted: str) -> None:
    assert accept(offer, "records,bulk") == {"PMQ_SER": accepted, "PMQ_CAP": "records,bulk"}


# --- the client


def test_the_first_request_and_no_other_carries_the_offer() -> None:
    negotiation = Negotiation()
    assert ask(negotiation, 5, {"topic": "T"}) == {"topic": "T", "PMQ_SER": "2"}
    assert ask(negotiation, 6, {"topic": "T"}) == {"topic": "T"}


def test_a_request_that_was_never_sent_carried_no_offer() -> None:
    negotiation = Negotiation()
    negotiation.request_fields({"topic": "too large for a frame"})
    assert ask(negotiation, 6, {"topic": "T"}) == {"topic": "T", "PMQ_SER": "2"}


def test_the_fields_of_the_caller_are_not_changed() -> None:
    fields = {"topic": "T"}
    Negotiation().request_fields(fields)
    assert fields == {"topic": "T"}


def test_an_accepted_offer_is_used_from_then_on() -> None:
    negotiation = offered()
    assert negotiation.encoding == JSON
    negotiation.response(5, ACCEPTED, JSON)
    assert negotiation.encoding == MSGPACK
    assert negotiation.is_accepted
    assert negotiation.capabilities == {"records", "bulk"}
    assert not negotiation.is_settled


def test_a_first_answer_in_msgpack_settles_the_matter() -> None:
    negotiation = offered()
    settled = []
    for opaque, fields, encoding in [
        (5, ACCEPTED, JSON),
        (4, {}, JSON),  # to a request that was under way
        (6, {}, MSGPACK),
    ]:
        negotiation.response(opaque, fields, encoding)
        settled.append(negotiation.is_settled)
    assert settled == [False, False, True]
    assert negotiation.encoding == MSGPACK


def test_a_peer_that_says_nothing_is_spoken_to_in_json() -> None:
    negotiation = offered()
    negotiation.response(5, {"topic": "T"}, JSON)
    assert negotiation.is_settled
    assert not negotiation.is_accepted
    assert negotiation.encoding == JSON
    assert negotiation.capabilities == frozenset()


def test_a_server_of_ours_may_refuse_msgpack_and_still_have_capabilities() -> None:
    negotiation = offered()
    negotiation.response(5, accept("1", "durable"), JSON)
    assert negotiation.is_settled
    assert negotiation.is_accepted
    assert negotiation.encoding == JSON
    assert negotiation.capabilities == {"durable"}


def test_no_capabilities_are_an_empty_set() -> None:
    negotiation = offered()
    negotiation.response(5, accept("2", ""), JSON)
    assert negotiation.capabilities == frozenset()


def test_only_the_answer_to_the_offer_counts() -> None:
    negotiation = offered()
    negotiation.response(6, ACCEPTED, JSON)
    assert negotiation.encoding == JSON
    assert not negotiation.is_settled
    negotiation.response(5, ACCEPTED, JSON)
    negotiation.response(5, {}, JSON)  # the number may come again, the question was answered
    assert negotiation.encoding == MSGPACK
    assert negotiation.capabilities == {"records", "bulk"}


def test_without_an_offer_everything_is_settled() -> None:
    negotiation = Negotiation(offer=False)
    assert negotiation.is_settled
    assert ask(negotiation, 5, {"topic": "T"}) == {"topic": "T"}
    negotiation.response(5, ACCEPTED, JSON)
    assert negotiation.encoding == JSON


def test_real_servers_ignored_the_offer() -> None:
    asked, answers = set(), 0
    for frame in captured_frames():
        (command,) = FrameDecoder().feed(frame.frame)
        if "PMQ_SER" in command.ext_fields:
            asked.add(frame.exchange)
        elif frame.exchange in asked:
            negotiation = Negotiation()
            ask(negotiation, command.opaque)
            negotiation.response(command.opaque, command.ext_fields, command.encoding)
            assert negotiation.is_settled
            assert not negotiation.is_accepted
            answers += 1
    assert answers == len(asked) == 2


# --- peers that break


def test_a_connection_that_is_lost_in_its_first_exchange_in_msgpack_broke_on_it() -> None:
    negotiation = offered()
    broke = [negotiation.broke_on_msgpack]
    negotiation.response(5, ACCEPTED, JSON)
    ask(negotiation, 6)
    broke.append(negotiation.broke_on_msgpack)
    negotiation.response(6, {}, MSGPACK)
    broke.append(negotiation.broke_on_msgpack)
    assert broke == [False, True, False]


def test_a_connection_that_is_lost_before_msgpack_was_used_did_not_break_on_it() -> None:
    negotiation = offered()
    ask(negotiation, 6)
    negotiation.response(5, ACCEPTED, JSON)
    assert not negotiation.broke_on_msgpack


def test_a_connection_that_speaks_json_did_not_break_on_msgpack() -> None:
    negotiation = offered()
    negotiation.response(5, {}, JSON)
    ask(negotiation, 6)
    assert not negotiation.broke_on_msgpack


def test_a_refusal_is_remembered_for_ten_minutes() -> None:
    refusals = Refusals()
    assert REFUSAL_REMEMBERED == 600
    assert not refusals.covers("a:10911", 0.0)
    refusals.remember("a:10911", 1000.0)
    assert refusals.covers("a:10911", 1000.0)
    assert refusals.covers("a:10911", 1599.9)
    assert not refusals.covers("a:10911", 1600.0)
    assert not refusals.covers("b:10911", 1000.0)


def test_a_refusal_may_be_renewed_and_old_ones_are_forgotten() -> None:
    refusals = Refusals()
    refusals.remember("a:10911", 0.0)
    refusals.remember("a:10911", 300.0)
    assert refusals.covers("a:10911", 899.0)
    refusals.remember("b:10911", 900.0)
    assert not refusals.covers("a:10911", 300.0)  # asked about the past: it is not there any more
    assert refusals.covers("b:10911", 901.0)
