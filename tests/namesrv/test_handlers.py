"""The table of handlers as a whole: what it serves, and that nothing a peer sends makes one of them fail."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registering import FOUR, V4_9_7, V5_5_0, Desk, Form, asking, caller, registration, registration_body

from pocketmq.namesrv.handlers import handlers_for
from pocketmq.protocol.codes import Encoding, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fields import codec
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.requests import REQUESTS, Role

CODES = sorted(handlers_for(Desk().state))

GOOD: dict[str, Any] = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "c",
    "cluster": "c",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
    "topic": "T",
    "namespace": "n",
    "key": "k",
    "value": "v",
}
TEXTS = ("", "x", "-1", "1.0", "9223372036854775808", "true", "a,b", "a:b;c=d", "\n", "\0", "é", "😀", "x" * 70_000)
BODIES = (
    b"",
    b"\0",
    b"\xff" * 100,
    b"garbage",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b"{}",
    b"{" * 1000,
    b"[" * 100_000,
    b'{"queueDatas":7}',
    b'{"queueDatas":[{"brokerName":{}}]}',
    b'{"counter":"x"}',
    b'{"topicConfigSerializeWrapper":7}',
    b"a=b\n=\nlistenPort",
    zlib.compress(b"{}"),
    zlib.compress(bytes(1_000_000)),
    registration_body({"T": FOUR}),
    registration_body({"T": FOUR}, form=Form.COMPRESSED),
    registration_body({"T": FOUR}, form=Form.COMPRESSED, version=V5_5_0),
    registration_body({"T": FOUR}, form=Form.ALONE),
)


def desk() -> Desk:
    made = Desk(order_message_enable=True, support_acting_master=True)
    made.register(registration(), registration("broker-b", "10.0.0.2:1", id=3, enableActingMaster="true"))
    made.state.key_values.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    return made


def check(answer: Command, caplog: pytest.LogCaptureFixture) -> None:
    """It is an answer, with a short reason if it is a refusal, and nothing went wrong inside."""
    assert not [record for record in caplog.records if record.name != "pocketmq.namesrv"], caplog.text
    assert answer.code in (0, 1, 16, 17, 22)
    assert answer.code == 0 or answer.remark
    assert "internal error" not in (answer.remark or "")
    assert len(answer.remark or "") < 3000
    (received,) = FrameDecoder().feed(encode_frame(answer))
    assert received == answer


# --- what is served


def test_every_request_of_a_nameserver_has_a_handler_and_no_other_has() -> None:
    assert {code for code, row in REQUESTS.items() if Role.NAMESRV in row.served_by} == set(CODES)


def test_what_is_served_is_counted_by_name() -> None:
    made = Desk()
    made.register(registration(), registration())
    made.ask(asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))
    made.ask(asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="nowhere"))
    made.ask(asking(RequestCode.UNREGISTER_BROKER))  # which cannot be read, and so is not served
    assert made.state.served == {"REGISTER_BROKER": 2, "GET_ROUTEINFO_BY_TOPIC": 2}


def test_other_requests_are_not_supported() -> None:
    answer = Desk().ask(asking(RequestCode.SEND_MESSAGE))
    assert (answer.code, answer.remark) == (3, " request type 10 not supported")


# --- what a peer may send


@pytest.mark.parametrize("code", CODES)
def test_a_good_request_succeeds(code: int, caplog: pytest.LogCaptureFixture) -> None:
    made = desk()
    made.state.key_values.put("n", "k", "v")
    body = b'{"queueDatas":[]}' if code == RequestCode.REGISTER_TOPIC_IN_NAMESRV else b""
    if code == RequestCode.QUERY_DATA_VERSION:
        body = b'{"counter":1}'
    answer = made.ask(asking(code, body, **GOOD))
    assert answer.code == 0, answer.remark
    check(answer, caplog)


@pytest.mark.parametrize("code", CODES)
def test_a_request_without_fields_is_answered(code: int, caplog: pytest.LogCaptureFixture) -> None:
    answer = desk().ask(asking(code))
    check(answer, caplog)
    required = [field.wire for field in codec(REQUESTS[code].request).fields if field.required]
    if required:
        assert (answer.code, answer.remark) == (1, f"header field {required[0]!r} is missing")


@pytest.mark.parametrize("code", CODES)
def test_a_request_with_a_field_missing_is_told_which(code: int, caplog: pytest.LogCaptureFixture) -> None:
    for field in codec(REQUESTS[code].request).fields:
        if field.required:
            fields = {name: text for name, text in GOOD.items() if name != field.wire}
            answer = desk().ask(asking(code, **fields))
            check(answer, caplog)
            assert answer.remark == f"header field {field.wire!r} is missing"


@pytest.mark.parametrize("code", CODES)
def test_any_text_in_a_field_is_answered(code: int, caplog: pytest.LogCaptureFixture) -> None:
    for field in codec(REQUESTS[code].request).fields:
        for text in TEXTS:
            check(desk().ask(asking(code, **(GOOD | {field.wire: text}))), caplog)


@pytest.mark.parametrize("code", CODES)
def test_any_body_is_answered(code: int, caplog: pytest.LogCaptureFixture) -> None:
    made = desk()
    for body in BODIES:
        for version in (0, 36, V4_9_7, V5_5_0, 2**31 - 1, -1):
            check(made.ask(asking(code, body, version=version, **GOOD)), caplog)


@pytest.mark.parametrize("code", CODES)
def test_a_body_that_is_too_large_is_answered(code: int, caplog: pytest.LogCaptureFixture) -> None:
    check(desk().ask(asking(code, b"x" * (8 * 1024 * 1024), **GOOD)), caplog)


REQUEST = st.builds(
    lambda code, fields, body, version, encoding: Command(code, fields, body, 1, 0, None, 0, version, encoding),
    st.sampled_from(CODES),
    st.dictionaries(
        st.sampled_from(sorted({*GOOD, "bodyCrc32", "PMQ_ADDRS", "compressed", "__ZONE_NAME", "PMQ_SER"})),
        st.sampled_from([*GOOD.values(), *TEXTS]),
    ).map(lambda fields: GOOD | fields),
    st.sampled_from(BODIES) | st.binary(max_size=40),
    st.sampled_from([0, 36, V4_9_7, V5_5_0]),
    st.sampled_from(Encoding),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(REQUEST, max_size=20), st.data())
def test_after_any_requests_the_tables_agree_and_go_with_their_brokers(
    caplog: pytest.LogCaptureFixture, requests: list[Command], data: Any
) -> None:
    made = Desk()
    channels = [caller(f"10.0.0.{number}") for number in range(3)]
    for command in requests:
        check(made.ask(command, data.draw(st.sampled_from(channels))), caplog)
        made.clock.now += data.draw(st.sampled_from([0, 1, 50]))
    routes = made.state.routes
    for brokers in routes.topics.values():
        assert brokers
        assert brokers.keys() <= routes.brokers.keys()
    assert all(broker.members for broker in routes.brokers.values())
    for topic in routes.topics:
        check(made.ask(asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)), caplog)
    for channel in channels:
        routes.lost(channel)
    assert (routes.brokers, routes.topics) == ({}, {})
