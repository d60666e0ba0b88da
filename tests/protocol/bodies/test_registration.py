"""The topics of a broker, in the three encodings in which brokers send them."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from typing import Any

import pytest
from fixtures import captured_frames
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
)
from pocketmq.protocol.codes import VERSION, version_ordinal
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hashes import body_crc

V4, V5, BEFORE_3_0_11 = VERSION, version_ordinal(5, 0, 0), 36

TOPIC = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8, perm=6)
MULTI = TopicConfig(topic_name="M", topic_filter_type=TopicFilterType.MULTI_TAG, attributes={"queue.type": "Simple CQ"})
BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        topic_config_table={"T": TOPIC, "M": MULTI}, data_version=DataVersion(counter=3, timestamp=1_700_000_000_000)
    ),
    filter_server_list=("10.0.0.1:1",),
)
TOPICS = b"T 4 8 6 SINGLE_TAG", b'M 16 16 6 MULTI_TAG {"queue.type":"Simple CQ"}'


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def blocks(
    *topics: bytes,
    data_version: bytes = b'{"counter":3,"timestamp":1700000000000}',
    filter_servers: bytes = b'["10.0.0.1:1"]',
    mappings: list[bytes] | None = None,
) -> bytes:
    """What a broker compresses."""
    parts = [block(data_version), struct.pack(">i", len(topics)), *map(block, topics), block(filter_servers)]
    if mappings is not None:
        parts += [struct.pack(">i", len(mappings)), *map(block, mappings)]
    return b"".join(parts)


def decode_blocks(data: bytes, version: int = V4) -> RegisterBrokerBody:
    return RegisterBrokerBody.decode(zlib.compress(data, 9), version)


# --- the three encodings


def test_json_is_the_usual_one() -> None:
    assert RegisterBrokerBody.decode(BODY.to_json(), V4) == BODY
    assert RegisterBrokerBody.decode(memoryview(BODY.to_json()), V5) == BODY


def test_the_exact_document_of_4_x_is_written() -> None:
    one = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(topic_config_table={"T": TOPIC})
    )
    assert one.to_json() == (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"timestamp":0},'
        b'"topicConfigTable":{"T":{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"T","topicSysFlag":0,"writeQueueNums":8}}}}'
    )


def test_blocks_are_read_as_the_same_body() -> None:
    assert decode_blocks(blocks(*TOPICS)) == BODY


def test_whatever_the_level_of_compression() -> None:
    for level in (0, 1, 6, 9):
        assert RegisterBrokerBody.decode(zlib.compress(blocks(*TOPICS), level), V4) == BODY


def test_since_5_0_the_mappings_of_static_topics_follow() -> None:
    body = decode_blocks(blocks(*TOPICS, mappings=[b'{"topic":"S","bname":"b"}']), V5)
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.topic_queue_mapping_info_map == {"S": {"topic": "S", "bname": "b"}}
    assert wrapper.topic_config_table == {"T": TOPIC, "M": MULTI}
    assert decode_blocks(blocks(*TOPICS, mappings=[]), V5).topic_config_serialize_wrapper.topic_config_table


def test_the_version_of_the_header_decides_whether_mappings_follow() -> None:
    with pytest.raises(RemoteProtocolError, match="4 bytes too many"):
        decode_blocks(blocks(*TOPICS, mappings=[]), V5 - 1)
    with pytest.raises(RemoteProtocolError, match="no block of 4 bytes"):
        decode_blocks(blocks(*TOPICS), V5)


@pytest.mark.parametrize("text", [b"T 4 8 6 SINGLE_TAG", b"T 4 8 6 SINGLE_TAG "], ids=["before 5.0", "null attributes"])
def test_a_topic_may_have_no_attributes(text: bytes) -> None:
    table = decode_blocks(blocks(text)).topic_config_serialize_wrapper.topic_config_table
    assert table == {"T": TOPIC}


def test_very_old_brokers_send_the_topics_alone() -> None:
    alone = BODY.topic_config_serialize_wrapper.to_json()
    decoded = RegisterBrokerBody.decode(alone, BEFORE_3_0_11)
    assert decoded.topic_config_serialize_wrapper == BODY.topic_config_serialize_wrapper
    assert decoded.filter_server_list == ()
    assert RegisterBrokerBody.decode(BODY.to_json(), BEFORE_3_0_11 + 1) == BODY


def test_captured_bodies_have_the_crc_of_their_header() -> None:
    seen = 0
    for frame in captured_frames():
        if frame.code == 103 and not frame.is_response and frame.encoding == 0:
            fields = json.loads(frame.frame[8 : -len(frame.body)])["extFields"]
            assert body_crc(frame.body) == int(fields["bodyCrc32"])
            seen += 1
    assert seen >= 9


# --- damage


def test_a_bomb_is_refused() -> None:
    bomb = zlib.compress(bytes((16 << 20) + 1), 1)
    assert len(bomb) < 1 << 18
    with pytest.raises(RemoteProtocolError, match="more than 16777216 bytes"):
        RegisterBrokerBody.decode(bomb, V4)


def test_a_block_that_would_take_long_to_read_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="no block of 300001 bytes"):
        decode_blocks(blocks(data_version=b"[" + b"[]," * 99_999 + b"[]]"))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no block of 4 bytes at 0"),
        (b"\0\0\0", "no block of 4 bytes at 0"),
        (struct.pack(">i", -1), "no block of -1 bytes at 4"),
        (struct.pack(">i", 2**31 - 1) + b"{}", "no block of 2147483647 bytes at 4"),
        (block(b"{}") + struct.pack(">i", 2**31 - 1), "2147483647 blocks in a row: 100000 are read"),
        (block(b"{}") + struct.pack(">i", -1), "-1 blocks in a row"),
        (block(b"{}") + struct.pack(">i", 1), "no block of 4 bytes at 10"),
        (blocks(*TOPICS) + b"\0", "1 bytes too many"),
        (blocks(b"T 4 8 6"), r"not a topic: b'T 4 8 6'"),
        (blocks(b"T x 8 6 SINGLE_TAG"), 'readQueueNums: expected an integer, got "x"'),
        (blocks(b"T 4 8 6 SOME_TAG"), "topicFilterType: expected one of SINGLE_TAG, MULTI_TAG"),
        (blocks(b"T 4 8 6 SINGLE_TAG {"), "unreadable JSON"),
        (blocks(data_version=b"[]"), "dataVersion: expected an object, got an array"),
        (blocks(data_version=b"?"), "unreadable JSON"),
        (blocks(filter_servers=b"{}"), "filterServerList: expected an array, got an object"),
    ],
)
def test_wrong_blocks_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode_blocks(data)


@pytest.mark.parametrize("mapping", [b"[]", b"{}", b"1", b"null", b'"topic"'])
def test_a_mapping_without_a_topic_is_refused(mapping: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="expected objects with topic"):
        decode_blocks(blocks(mappings=[mapping]), V5)


@pytest.mark.parametrize("data", [b"", b"x", b"x\xda", b"\x78\x9c garbage", b"[]", b"null", b"\0\0\0\2{}"])
@pytest.mark.parametrize("version", [BEFORE_3_0_11, V4, V5])
def test_what_is_no_body_in_any_encoding_is_refused(data: bytes, version: int) -> None:
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode(data, version)


def test_no_cut_of_the_blocks_is_a_body() -> None:
    whole = blocks(*TOPICS, mappings=[b'{"topic":"S"}'])
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decode_blocks(whole[:length], V5)


@given(
    position=st.integers(min_value=0),
    junk=st.binary(max_size=4),
    cut=st.integers(0, 4),
    version=st.sampled_from([V4, V5]),
)
def test_damaged_blocks_give_another_body_or_a_remote_protocol_error(
    position: int, junk: bytes, cut: int, version: int
) -> None:
    data: Any = blocks(*TOPICS, mappings=[b'{"topic":"S"}'] if version == V5 else None)
    start = position % len(data)
    with contextlib.suppress(RemoteProtocolError):
        assert decode_blocks(data[:start] + junk + data[start + cut :], version).to_json()
