"""Signing requests, and recognising the signatures of every client."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures import captured_frames, vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.acl import sign, signature_content, signed_fields, verify
from pocketmq.protocol.framing import FrameDecoder

REQUESTS = vectors("acl", "request")

fields_strategy = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5)


def expectations(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [case[key] for key in ("expect", "expect_4", "expect_5") if key in case]


def body_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["body"] or "")


def test_the_signature_is_that_of_java() -> None:
    for case in vectors("acl", "sign"):
        if case["algorithm"] == "HmacSHA1":
            assert sign(case["secret"], {}, bytes.fromhex(case["data"])) == case["expect"]["signature"]


def test_requests_are_signed_as_by_java() -> None:
    for case in REQUESTS:
        fields = signed_fields(case["access"], case["secret"], case["fields"] or {}, body_of(case), case["token"])
        for expect in expectations(case):
            assert fields == expect["fields"]
            assert signature_content(fields, body_of(case)).hex() == expect["content"]


def test_whatever_a_java_server_accepts_is_accepted() -> None:
    for case in REQUESTS:
        for expect in expectations(case):
            if expect["server"]["accepts"]:
                assert verify(case["secret"], expect["fields"], body_of(case))


def test_a_header_class_is_signed_as_by_java() -> None:
    (case,) = vectors("acl", "header")
    expect = case["expect"]
    assert signature_content(expect["fields"], b"hi").hex() == expect["content"]
    assert verify("12345678", expect["fields"], b"hi")


@pytest.mark.parametrize(
    ("fields", "body", "signature"),
    [
        ({"topic": "TopicTest", "AccessKey": "rocketmq2"}, b"", "GeeGoP9mRvDhoVp4PD5omX0prgE="),
        (
            {"a": "PG", "b": "TopicTest", "e": "0", "AccessKey": "rocketmq2"},
            b"hello",
            "6+wOR23boFnBCMxTiFYndx/kULU=",
        ),
    ],
)
def test_known_requests_have_known_signatures(fields: dict[str, str], body: bytes, signature: str) -> None:
    assert sign("12345678", fields, body) == sign("12345678", fields, memoryview(body)) == signature
    assert verify("12345678", fields | {"Signature": signature}, body)


def test_requests_that_clients_were_seen_to_sign_verify() -> None:
    signers = set()
    for frame in captured_frames():
        (command,) = FrameDecoder().feed(frame.frame)
        fields = command.ext_fields
        if "Signature" in fields:
            signers.add(frame.client)
            assert verify("12345678", fields, command.body)
            assert not verify("12345679", fields, command.body)
            assert not verify("12345678", fields, bytes(command.body) + b"!")
    assert signers == {
        "go-2.1.2",
        "java-4.9.7",
        "java-4.9.7-bin",
        "java-5.5.0",
        "java-5.5.0-bin",
        "node-ali-ons-3.12.0",
    }


def test_values_are_taken_in_the_order_of_their_names() -> None:
    fields = {"b": "3", "_": "2", "B": "1", "Signature": "never"}
    assert signature_content(fields, b"!") == b"123!"


def test_any_change_is_noticed() -> None:
    fields = signed_fields("key", "secret", {"topic": "T", "queueId": "1"}, b"body", "token")
    assert verify("secret", fields, b"body")
    assert not verify("other", fields, b"body")
    assert not verify("secret", fields, b"bodY")
    assert not verify("secret", fields | {"topic": "U"}, b"body")
    assert not verify("secret", fields | {"SecurityToken": "other"}, b"body")
    assert not verify("secret", fields | {"AccessKey": "admin"}, b"body")


@pytest.mark.parametrize("signature", ["", "?", "é", "\ud83d", "A" * 1000])
def test_a_signature_that_is_none_is_refused(signature: str) -> None:
    assert not verify("secret", {"topic": "T", "Signature": signature})


def test_an_unsigned_request_is_refused() -> None:
    assert not verify("secret", {"topic": "T"})


def test_go_may_leave_its_token_out_of_the_signature() -> None:
    fields = {"topic": "T", "AccessKey": "key"}
    signed = fields | {"SecurityToken": "token", "Signature": sign("secret", fields)}
    assert verify("secret", signed)


@pytest.mark.parametrize("token", [{}, {"SecurityToken": "token"}])
def test_the_unique_key_query_may_be_left_out_of_the_signature(token: dict[str, str]) -> None:
    fields = {"topic": "T", "AccessKey": "key"}
    covered = fields | {"_UNIQUE_KEY_QUERY": "true"}
    without = covered | token | {"Signature": sign("secret", fields)}
    including = covered | token | {"Signature": sign("secret", covered)}
    assert verify("secret", without)
    assert verify("secret", including)
    assert not verify("other", without)


def test_a_lone_surrogate_is_signed_as_a_question_mark() -> None:
    assert signature_content({"a": "x\ud83dy"}) == b"x?y"
    assert sign("\udc00", {"a": "1"}) == sign("?", {"a": "1"})


@given(fields_strategy, st.binary(max_size=20), st.text(), st.none() | st.text())
def test_what_is_signed_verifies(fields: dict[str, str], body: bytes, secret: str, token: str | None) -> None:
    signed = signed_fields("key", secret, fields, body, token)
    assert verify(secret, signed, body)


@given(fields_strategy, st.binary(max_size=20))
def test_garbage_does_not_verify(fields: dict[str, str], body: bytes) -> None:
    assert not verify("secret", fields, body)
