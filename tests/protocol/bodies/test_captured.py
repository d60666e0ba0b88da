"""Every body that RocketMQ and its clients were seen to send, read as the class of its request code."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
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

WIRE = Path(__file__).parents[2] / "fixtures" / "wire"

REQUEST_BODIES: dict[int, type[Body]] = {
    34: bodies.HeartbeatData,
    41: bodies.LockBatchRequest,
    42: bodies.LockBatchRequest,
    46: bodies.CheckClientRequest,
    103: bodies.RegisterBrokerBody,
    200: bodies.SubscriptionGroupConfig,
    220: bodies.ResetOffsetBody,
    322: bodies.DataVersion,
    400: bodies.QueryAssignmentRequest,
    401: bodies.SetMessageRequestModeRequest,
}
RESPONSE_BODIES: dict[int, type[Body]] = {
    21: bodies.TopicConfigSerializeWrapper,
    28: bodies.KVTable,
    38: bodies.ConsumerIdList,
    41: bodies.LockBatchResponse,
    43: bodies.ConsumerOffsetTable,
    45: bodies.DelayOffsetTable,
    103: bodies.KVTable,
    105: bodies.TopicRouteData,
    106: bodies.ClusterInfo,
    201: bodies.SubscriptionGroupWrapper,
    202: bodies.TopicStatsTable,
    203: bodies.ConsumerConnection,
    204: bodies.ProducerConnection,
    206: bodies.TopicList,
    208: bodies.ConsumeStats,
    221: bodies.GetConsumerStatusBody,
    222: bodies.ResetOffsetBody,
    223: bodies.GetConsumerStatusBody,
    224: bodies.TopicList,
    300: bodies.GroupList,
    303: bodies.ConsumeTimeSpan,
    304: bodies.TopicList,
    305: bodies.TopicList,
    307: bodies.ConsumerRunningInfo,
    309: bodies.ConsumeMessageDirectlyResult,
    311: bodies.TopicList,
    315: bodies.BrokerStatsData,
    317: bodies.ConsumeStatsList,
    321: bodies.QueryConsumeQueueResponse,
    322: bodies.DataVersion,
    328: bodies.ProducerTable,
    343: bodies.TopicList,
    345: bodies.QuerySubscriptionResponse,
    351: bodies.TopicConfig,
    352: bodies.SubscriptionGroupConfig,
    400: bodies.QueryAssignmentResponse,
    402: bodies.MessageRequestModeTable,
    901: bodies.BrokerMemberGroupResponse,
}
CONFIG_TEXTS = {("request", 25), ("response", 26), ("request", 318), ("response", 319)}
MESSAGES = {("request", code) for code in (10, 39, 309, 310, 320, 324, 325, 326)} | {
    ("response", code) for code in (11, 12, 33, 361, 200050)
}

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
    role: str
    code: int  # of the request, also for a response
    version: int
    body: bytes


def captured(path: Path) -> Iterator[Captured]:
    """The bodies in one file; answers only if they are positive."""
    codes: dict[int, int] = {}
    with gzip.open(path, "rt") as lines:
        for line in map(json.loads, lines):
            frame = bytes.fromhex(line["hex"])
            split = 8 + int.from_bytes(frame[5:8])
            header, body = frame[8:split], frame[split:]
            if line["role"] == "request":
                codes[line["x"]] = line["code"]
            elif line["code"] != 0:
                continue
            if body:
                version = json.loads(header)["version"] if line["type"] == 0 else int.from_bytes(header[3:5])
                yield Captured(line["role"], codes[line["x"]], version, body)


FILES = sorted(WIRE.glob("*.jsonl.gz"))
ALL = [(path.name.removesuffix(".jsonl.gz"), item) for path in FILES for item in captured(path)]


def body_type(item: Captured) -> type[Body]:
    return (REQUEST_BODIES if item.role == "request" else RESPONSE_BODIES)[item.code]


JSON = [
    pytest.param(item, id=f"{name}-{item.role}-{number}")
    for number, (name, item) in enumerate(ALL)
    if (item.role, item.code) not in CONFIG_TEXTS | MESSAGES and item.body[:1] == b"{"
]
DECODERS: list[tuple[Callable[[bytes], Body], bytes]] = [
    (body_type(item).from_json, item.body)
    for _, item in ALL
    if (item.role, item.code) not in CONFIG_TEXTS | MESSAGES and item.body[:1] == b"{"
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


@pytest.mark.parametrize("item", JSON)
def test_a_body_has_no_unknown_member_and_is_written_as_it_was_read(item: Captured) -> None:
    body = body_type(item).from_json(item.body)
    assert list(unknown_members(body)) == []
    again = body.to_json()
    assert type(body).from_json(again) == body
    assert added(plain(fastjson.loads(item.body)), plain(fastjson.loads(again))) <= ADDED


def test_every_captured_body_belongs_to_a_class_or_is_known_not_to_be_json() -> None:
    for name, item in ALL:
        if (item.role, item.code) not in CONFIG_TEXTS | MESSAGES:
            assert body_type(item), name


def test_members_are_written_in_the_order_that_java_writes_them() -> None:
    for item in (item for name, item in ALL if name == "201-GET_ALL_SUBSCRIPTIONGROUP_CONFIG" and item.version > 413):
        assert bodies.SubscriptionGroupWrapper.from_json(item.body).to_json() == item.body


def test_configuration_is_written_as_it_was_read() -> None:
    texts = [item.body for _, item in ALL if (item.role, item.code) in CONFIG_TEXTS]
    assert len(texts) == 8
    for text in texts:
        assert write_config_text(parse_config_text(text)) == text


def test_register_bodies_are_read_in_every_encoding() -> None:
    registered = [
        RegisterBrokerBody.decode(item.body, item.version)
        for _, item in ALL
        if (item.role, item.code) == ("request", 103)
    ]
    assert len(registered) == 9
    for body in registered:
        assert (
            "TBW102" in body.topic_config_serialize_wrapper.topic_config_table
            or len(body.topic_config_serialize_wrapper.topic_config_table) == 1
        )
        assert list(unknown_members(body)) == []


@given(
    choice=st.sampled_from(DECODERS),
    position=st.integers(min_value=0),
    junk=st.binary(max_size=3) | st.sampled_from([b"null", b"{", b"[", b'"', b":", b"-1", b"1e9", b"true"]),
    cut=st.integers(0, 8),
)
def test_damaged_bodies_give_a_remote_protocol_error_or_another_body(
    choice: tuple[Callable[[bytes], Body], bytes], position: int, junk: bytes, cut: int
) -> None:
    decode, data = choice
    start = position % len(data)
    with contextlib.suppress(RemoteProtocolError):
        decode(data[:start] + junk + data[start + cut :]).to_json()
