"""Every body that RocketMQ and its clients were seen to send, read as the class of its request code."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from fixtures import captured_frames
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol import bodies, fastjson
from pocketmq.protocol.bodies import (
    Body,
    MessageQueue,
    RegisterBrokerBody,
    parse_config_text,
    write_config_text,
)
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fastjson import ObjectKey
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.protocol.requests import REQUESTS, BodyType, Content

# What writing adds to what was read: members that only newer versions or other clients have, at their defaults.
ADDED = {
    "classFilterMode",
    "consumeMessageOrderly",
    "consumeTimeoutMinute",
    "consumerDataSet",
    "dropped",
    "enableActingMaster",
    "expressionType",
    "groupSysFlag",
    "heartbeatFingerprint",
    "onlyThisBroker",
    "topicSynFlag",
    "withoutSub",
}


class Captured(NamedTuple):
    """One body and what it is."""

    name: str
    version: int
    type: BodyType
    body: bytes


def captured() -> Iterator[Captured]:
    """The bodies that were seen; of answers only if they are positive."""
    for frame in captured_frames():
        if frame.body and not (frame.is_response and frame.code):
            row = REQUESTS[frame.request_code]
            (command,) = FrameDecoder().feed(frame.frame)
            name, kind = ("response", row.response_body) if frame.is_response else ("request", row.request_body)
            yield Captured(f"{row.code}-{row.code.name}-{name}", command.version, kind, frame.body)


ALL = list(captured())
JSON: list[tuple[str, type[Body], bytes]] = [
    (item.name, item.type, item.body) for item in ALL if isinstance(item.type, type) and item.body[:1] == b"{"
]


def unknown_members(value: Any) -> Iterator[str]:
    if isinstance(value, Body):
        yield from (f"{type(value).__name__}.{name}" for name in value.extra)
        value = [getattr(value, member.name) for member in dataclasses.fields(value) if member.name != "extra"]
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str | int | float | bytes | None | MessageQueue):
        for item in value:
            yield from unknown_members(item)


def plain(value: Any, name: Any = None) -> Any:
    """A document in which only what matters differs: no null members, sets sorted, integer keys as text."""
    if isinstance(value, dict):
        return {
            tuple(sorted(key)) if isinstance(key, ObjectKey) else str(key): plain(item, key)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return sorted(map(int, items) if name == "codeSet" else items) if name in ("tagsSet", "codeSet") else items
    return value


def added(before: Any, after: Any) -> set[str]:
    """Members that are only in the second document; anything else that differs fails."""
    if isinstance(before, dict):
        assert before.keys() <= after.keys()
        names = {name for name in after if name not in before}
        return names.union(*(added(before[name], after[name]) for name in before))
    if isinstance(before, list):
        assert len(before) == len(after)
        return set().union(*map(added, before, after))
    assert before == after
    return set()


@pytest.mark.parametrize(("kind", "data"), [pytest.param(*case, id=name) for name, *case in JSON])
def test_a_body_has_no_unknown_member_and_is_written_as_it_was_read(kind: type[Body], data: bytes) -> None:
    body = kind.from_json(data)
    assert list(unknown_members(body)) == []
    again = body.to_json()
    assert kind.from_json(again) == body
    assert added(plain(fastjson.loads(data)), plain(fastjson.loads(again))) <= ADDED


def test_every_captured_body_has_its_place_in_the_table_of_requests() -> None:
    assert len(ALL) > 300
    assert [item.name for item in ALL if item.type is None] == []
    assert len(JSON) > 200


def test_members_are_written_in_the_order_that_java_writes_them() -> None:
    written = [item.body for item in ALL if item.type is bodies.SubscriptionGroupWrapper and item.version > 413]
    assert len(written) > 1
    for data in written:
        assert bodies.SubscriptionGroupWrapper.from_json(data).to_json() == data


def test_configuration_is_written_as_it_was_read() -> None:
    texts = [item.body for item in ALL if item.type is Content.CONFIG]
    assert len(texts) == 8
    for text in texts:
        assert write_config_text(parse_config_text(text)) == text


def test_register_bodies_are_read_in_every_encoding() -> None:
    registered = [RegisterBrokerBody.decode(item.body, item.version) for item in ALL if item.type is RegisterBrokerBody]
    assert len(registered) == 9
    for body in registered:
        assert (
            "TBW102" in body.topic_config_serialize_wrapper.topic_config_table
            or len(body.topic_config_serialize_wrapper.topic_config_table) == 1
        )
        assert list(unknown_members(body)) == []


@given(
    choice=st.sampled_from(JSON),
    position=st.integers(min_value=0),
    junk=st.binary(max_size=3) | st.sampled_from([b"null", b"{", b"[", b'"', b":", b"-1", b"1e9", b"true"]),
    cut=st.integers(0, 8),
)
def test_damaged_bodies_give_a_remote_protocol_error_or_another_body(
    choice: tuple[str, type[Body], bytes], position: int, junk: bytes, cut: int
) -> None:
    _, kind, data = choice
    start = position % len(data)
    with contextlib.suppress(RemoteProtocolError):
        assert kind.from_json(data[:start] + junk + data[start + cut :]).to_json()
