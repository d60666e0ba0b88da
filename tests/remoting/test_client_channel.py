"""What a client may speak, learnt from what it hears: plain calls, no network."""

from __future__ import annotations

import pytest
from talking import JSON, MSGPACK, ROUTE, Outcome, ask, ignore, leave, reply_to

from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import encode_frame
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest
from pocketmq.remoting.client_channel import NO_HANDLERS, ClientChannel
from pocketmq.remoting.errors import ConnectionLostError, RequestTimeoutError

ACCEPTED = {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}


def a_client(*, offer: bool = True) -> ClientChannel:
    return ClientChannel(("10.0.0.1", 10911), handlers=NO_HANDLERS, offer=offer)


def test_what_is_received_goes_to_whom_it_concerns() -> None:
    client, outcomes = a_client(), list[Outcome]()
    answer, question = reply_to(ask(client, outcomes)), Command(40, {"consumerGroup": "g"}, opaque=7)
    leave(client)
    client.received(encode_frame(answer) + encode_frame(question))
    assert outcomes == [answer]
    (refusal,) = leave(client)
    assert (refusal.opaque, refusal.code, refusal.remark) == (7, 3, " request type 40 not supported")


def test_what_makes_no_sense_is_an_error_once_the_rest_was_handed_on() -> None:
    client, outcomes = a_client(), list[Outcome]()
    answer = reply_to(ask(client, outcomes))
    with pytest.raises(RemoteProtocolError, match="out of range"):  # after a frame of ours it is no other protocol
        client.received(encode_frame(answer) + b"HTTP/1.1 400 Bad Request")
    assert outcomes == [answer]


@pytest.mark.parametrize(
    ("arrived", "reason"),
    [(b"", "the server closed the connection before"), (b"half", "the server closed the connection within a frame")],
)
def test_the_end_of_the_stream_is_told_apart_from_an_end_amid_a_frame(arrived: bytes, reason: str) -> None:
    client, outcomes = a_client(), list[Outcome]()
    ask(client, outcomes)
    client.received(arrived)
    client.closed_by_server(EOFError())
    (outcome,) = outcomes
    assert isinstance(outcome, ConnectionLostError)
    assert reason in str(outcome)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (ConnectionResetError(104, "x"), r"the connection broke \(Connection reset by peer\)"),
        (RemoteProtocolError("frame lengths out of range"), r"bytes make no sense \(frame lengths out of range\)"),
    ],
)
def test_a_break_names_its_reason_also_to_those_who_come_later(cause: Exception, reason: str) -> None:
    client, outcomes = a_client(), list[Outcome]()
    ask(client, outcomes)
    client.broke(cause)
    (outcome,) = outcomes
    assert isinstance(outcome, ConnectionLostError)
    assert outcome.__cause__ is cause
    with pytest.raises(ConnectionLostError, match=reason):
        ask(client, outcomes)


# --- the offer


def first_exchange(client: ClientChannel, ext_fields: dict[str, str]) -> Command:
    """The client's first request, and the server's answer to it."""
    opaque = ask(client, [])
    (request,) = leave(client)
    client.answered(reply_to(opaque, ext_fields))
    return request


def test_the_offer_is_in_the_first_request_only() -> None:
    client = a_client()
    for _ in range(3):
        client.begin(ROUTE, GetRouteInfoRequest("T"), done=ignore)
    fields = [request.ext_fields for request in leave(client)]
    assert fields == [{"topic": "T", "PMQ_SER": "2"}, {"topic": "T"}, {"topic": "T"}]


def test_a_notification_carries_no_offer_because_nobody_would_answer_it() -> None:
    client = a_client()
    client.notify(ROUTE)
    (notification,) = leave(client)
    assert notification.ext_fields == {}
    assert first_exchange(client, ACCEPTED).ext_fields == {"PMQ_SER": "2"}
    assert client.encoding == MSGPACK


def test_msgpack_is_used_once_it_was_accepted() -> None:
    client = a_client()
    assert first_exchange(client, ACCEPTED).encoding == JSON
    assert client.speaks_pocketmq
    assert client.negotiation.capabilities == {"records", "bulk"}
    ask(client, [])
    client.notify(ROUTE)
    assert [request.encoding for request in leave(client)] == [MSGPACK, MSGPACK]


def test_until_the_offer_is_answered_everything_is_json() -> None:
    client = a_client()
    for _ in range(3):
        ask(client, [])
    client.answered(reply_to(2, ACCEPTED))  # this is not the request with the offer
    ask(client, [])
    assert {request.encoding for request in leave(client)} == {JSON}


@pytest.mark.parametrize("fields", [{}, {"brokerVersion": "513"}, {"PMQ_CAP": "records"}])
def test_a_rocketmq_is_spoken_to_in_json(fields: dict[str, str]) -> None:
    client = a_client()
    first_exchange(client, fields)
    ask(client, [])
    (request,) = leave(client)
    assert request.encoding == JSON
    assert not client.speaks_pocketmq


def test_without_an_offer_nothing_is_learnt() -> None:
    client = a_client(offer=False)
    assert first_exchange(client, ACCEPTED).ext_fields == {}
    assert (client.encoding, client.speaks_pocketmq) == (JSON, False)


def test_an_offer_counts_even_if_its_answer_comes_too_late() -> None:
    client, outcomes = a_client(), list[Outcome]()
    opaque = ask(client, outcomes, deadline=1.0)
    client.expire(1.0)
    client.answered(reply_to(opaque, ACCEPTED))
    assert [type(outcome) for outcome in outcomes] == [RequestTimeoutError]
    assert client.encoding == MSGPACK


def test_an_answer_in_json_to_a_request_in_msgpack_is_an_answer() -> None:
    client, outcomes = a_client(), list[Outcome]()
    first_exchange(client, ACCEPTED)
    opaque = ask(client, outcomes)
    client.answered(reply_to(opaque, encoding=JSON))
    assert outcomes == [reply_to(opaque)]
    assert client.encoding == MSGPACK


def test_a_connection_that_ends_in_its_first_exchange_in_msgpack_broke_on_it() -> None:
    client = a_client()
    first_exchange(client, ACCEPTED)
    assert not client.negotiation.broke_on_msgpack
    ask(client, [])
    client.end("the server closed the connection")
    assert client.negotiation.broke_on_msgpack


def test_a_connection_that_has_seen_an_answer_in_msgpack_did_not_break_on_it() -> None:
    client = a_client()
    first_exchange(client, ACCEPTED)
    client.answered(reply_to(ask(client, []), encoding=MSGPACK))
    ask(client, [])
    client.end("the server closed the connection")
    assert not client.negotiation.broke_on_msgpack
