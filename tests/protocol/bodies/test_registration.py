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
    RegisteredTopics,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
    TopicQueues,
)
from pocketmq.protocol.codes import VERSION, version_ordinal
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import FrameDecoder
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


# --- what a NameServer keeps of it


def kept(body: RegisterBrokerBody) -> RegisteredTopics:
    """The same, of a body that was read whole."""
    wrapper = body.topic_config_serialize_wrapper
    version = wrapper.data_version
    queues = {
        name: TopicQueues(topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
        for name, topic in wrapper.topic_config_table.items()
    }
    known = DataVersion(counter=version.counter, state_version=version.state_version, timestamp=version.timestamp)
    return RegisteredTopics(known, queues, body.filter_server_list)


def document(table: str, rest: str = "") -> bytes:
    return f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{table}{rest}}}}}'.encode()


def read_table(table: str) -> dict[str, TopicQueues]:
    return dict(RegisteredTopics.decode(document(table), V5).topics)


def test_of_every_captured_registration_the_same_is_kept() -> None:
    seen = 0
    for frame in captured_frames():
        if frame.code == 103 and not frame.is_response:
            (command,) = FrameDecoder().feed(frame.frame)
            decoded = RegisteredTopics.decode(command.body, command.version)
            assert decoded == kept(RegisterBrokerBody.decode(command.body, command.version))
            assert decoded.topics
            seen += 1
    assert seen >= 9


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (BODY.to_json(), V4),
        (zlib.compress(blocks(*TOPICS)), V4),
        (zlib.compress(blocks(*TOPICS, mappings=[b'{"topic":"S"}'])), V5),
        (BODY.topic_config_serialize_wrapper.to_json(), BEFORE_3_0_11),
    ],
    ids=["JSON", "blocks", "blocks since 5.0", "topics alone"],
)
def test_in_each_encoding_the_same_is_kept(data: bytes, version: int) -> None:
    decoded = RegisteredTopics.decode(memoryview(data), version)
    assert decoded == kept(RegisterBrokerBody.decode(data, version))
    assert decoded.topics == {"T": TopicQueues(4, 8, 6, 0), "M": TopicQueues(16, 16, 6, 0)}
    assert decoded.data_version == DataVersion(counter=3, timestamp=1_700_000_000_000)
    assert decoded.filter_servers == (() if version == BEFORE_3_0_11 else ("10.0.0.1:1",))


INT32 = st.integers(0, 2**31 - 1)
NUMBERS = st.sampled_from([4, 8]) | INT32
BODIES = st.builds(
    lambda topics, version, filter_servers: RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            topic_config_table={topic.topic_name: topic for topic in topics}, data_version=version
        ),
        filter_server_list=filter_servers,
    ),
    st.lists(
        st.builds(
            TopicConfig,
            topic_name=st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=8),
            read_queue_nums=NUMBERS,
            write_queue_nums=NUMBERS,
            perm=NUMBERS,
            topic_sys_flag=NUMBERS,
            attributes=st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
            order=st.booleans(),
            mapping_detail=st.none(),
            extra=st.just({}),
        ),
        max_size=8,
    ),
    st.builds(
        DataVersion,
        counter=INT32,
        state_version=st.none() | INT32,
        timestamp=st.integers(0, 2**63 - 1),
        extra=st.dictionaries(st.sampled_from(["x", "y"]), INT32),
    ),
    st.lists(st.text(max_size=8), max_size=2).map(tuple),
)


@given(BODIES)
def test_of_any_body_in_json_the_same_is_kept(body: RegisterBrokerBody) -> None:
    assert RegisteredTopics.decode(body.to_json(), V5) == kept(body)
    alone = RegisteredTopics.decode(body.topic_config_serialize_wrapper.to_json(), BEFORE_3_0_11)
    assert alone == kept(body)._replace(filter_servers=())


@given(BODIES, st.sampled_from([V4, V5]))
def test_of_any_body_in_blocks_the_same_is_kept_but_for_the_flags_they_lack(
    body: RegisterBrokerBody, version: int
) -> None:
    wrapper = body.topic_config_serialize_wrapper
    data = blocks(
        *(
            f"{name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} SINGLE_TAG "
            f"{'' if topic.attributes is None else json.dumps(topic.attributes)}".encode()
            for name, topic in wrapper.topic_config_table.items()
        ),
        data_version=wrapper.data_version.to_json(),
        filter_servers=json.dumps(body.filter_server_list).encode(),
        mappings=[] if version == V5 else None,
    )
    whole = kept(body)
    without_flags = {name: queues._replace(topic_sys_flag=0) for name, queues in whole.topics.items()}
    assert RegisteredTopics.decode(zlib.compress(data), version) == whole._replace(topics=without_flags)


def test_numbers_may_be_written_as_text() -> None:
    table = '{"A":{"readQueueNums":"4","writeQueueNums":4.0,"perm":"+6","topicSysFlag":"00"},"B":{"perm":"4"}}'
    assert read_table(table) == {"A": TopicQueues(4, 4, 6, 0), "B": TopicQueues(16, 16, 4, 0)}


def test_what_is_missing_or_null_has_rocketmqs_default() -> None:
    nothing = TopicQueues(16, 16, 6, 0)
    nulls = '{"readQueueNums":null,"writeQueueNums":null,"perm":null,"topicSysFlag":null}'
    assert read_table(f'{{"A":{{}},"B":{nulls},"C":{{"topicSysFlag":3}},"D":{nulls}}}') == {
        "A": nothing,
        "B": nothing,
        "C": nothing._replace(topic_sys_flag=3),
        "D": nothing,
    }


@pytest.mark.parametrize("data", [b"{}", b'{"topicConfigSerializeWrapper":{}}', b'{"filterServerList":null}'])
def test_a_body_may_have_no_topics(data: bytes) -> None:
    assert RegisteredTopics.decode(data, V5) == RegisteredTopics(DataVersion(), {}, ())


def test_topics_that_are_null_or_a_reference_are_left_out() -> None:
    assert read_table('{"A":null,"B":{"perm":4},"C":{"$ref":"$.x"}}') == {"B": TopicQueues(16, 16, 4, 0)}
    assert read_table("null") == {}


def test_the_largest_numbers_are_those_of_java() -> None:
    table = '{"A":{"readQueueNums":2147483647,"writeQueueNums":0,"perm":0,"topicSysFlag":2147483647}}'
    assert read_table(table) == {"A": TopicQueues(2**31 - 1, 0, 0, 2**31 - 1)}


@pytest.mark.parametrize("member", ["readQueueNums", "writeQueueNums", "perm", "topicSysFlag"])
@pytest.mark.parametrize(
    ("number", "problem"),
    [
        ("-1", "numbers of a topic are from 0 to 2147483647"),
        ('"-1"', "numbers of a topic are from 0 to 2147483647"),
        ("2147483648", "numbers of a topic are from 0 to 2147483647"),
        ("9223372036854775808", "expected a 64-bit integer"),
        ("1e300", "expected a 64-bit integer"),
        ("4.5", "expected an integer"),
        ('""', "expected an integer"),
        ('"four"', "expected an integer"),
        ('" 4"', "expected an integer"),
        ("true", "expected an integer"),
        ("[]", "expected an integer, got an array"),
        ("{}", "expected an integer, got an object"),
    ],
)
def test_what_is_no_such_number_is_refused(member: str, number: str, problem: str) -> None:
    numbers = {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicSysFlag": "0", member: number}
    topic = "{" + ",".join(f'"{name}":{value}' for name, value in numbers.items()) + "}"
    for table in (f'{{"A":{topic}}}', f'{{"A":{{"{member}":{number}}}}}'):
        with pytest.raises(RemoteProtocolError, match=problem):
            read_table(table)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'"T"',
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":"x"}',
        b'{"filterServerList":{}}',
        b'{"filterServerList":[[]]}',
        *map(document, ("[]", '"T"', "1", "true", '{"A":[]}', '{"A":"T"}', '{"A":1}', '{"A":false}')),
        *map(document, ("{1:{}}", '{{"topic":"A"}:{}}', '{"A":{},1:{"perm":4}}')),
        document("{}", ',"dataVersion":[]'),
        document("{}", ',"dataVersion":{"counter":"x"}'),
        document("{}")[:-1],
    ],
)
def test_what_a_nameserver_cannot_read_is_a_remote_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        RegisteredTopics.decode(data, V5)


def test_the_error_says_where() -> None:
    with pytest.raises(RemoteProtocolError, match=r"^topicConfigTable\[A\]\.perm: expected an integer, got \"x\"$"):
        read_table('{"A":{"perm":"x"}}')
    with pytest.raises(RemoteProtocolError, match=r"^topicConfigTable: expected names of topics$"):
        read_table("{1:{}}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**33) | st.floats(allow_nan=False) | st.sampled_from(["4", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["perm", "readQueueNums", "counter"]), inner, max_size=2)
    ),
    max_leaves=4,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "filterServerList": JSON,
        "topicConfigSerializeWrapper": JSON
        | st.fixed_dictionaries(
            {}, optional={"dataVersion": JSON, "topicConfigTable": JSON | st.dictionaries(st.text(max_size=2), JSON)}
        ),
    },
)


@given(NEARLY)
def test_what_is_nearly_a_body_is_kept_or_a_remote_protocol_error(value: Any) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decoded = RegisteredTopics.decode(json.dumps(value).encode(), V5)
        assert all(type(name) is str for name in decoded.topics)
        assert all(number in range(1 << 31) for queues in decoded.topics.values() for number in queues)
        assert not decoded.data_version.extra


# --- what a hostile broker may send it


def test_members_that_nobody_knows_are_not_kept() -> None:
    data = document("{}", ',"dataVersion":{"counter":1,"large":"' + "x" * 1000 + '"}')
    assert RegisteredTopics.decode(data, V5).data_version == DataVersion(counter=1)


def test_more_topics_than_a_broker_has_are_not_read() -> None:
    with pytest.raises(RemoteProtocolError, match="100001 topics: 100000 are read"):
        read_table("{" + ",".join(f'"{number}":null' for number in range(100_001)) + "}")


def test_attributes_and_mappings_that_would_take_long_to_read_are_not() -> None:
    slow = b'{"topic":"A",0:[' + b"[]," * 10_000 + b"[]]}"  # a kilobyte, compressed, holds hundreds of these
    data = blocks(b"A 4 4 6 SINGLE_TAG " + slow[:-1], mappings=[slow[:-1]])
    assert RegisteredTopics.decode(zlib.compress(data), V5).topics == {"A": TopicQueues(4, 4, 6, 0)}
    with pytest.raises(RemoteProtocolError, match="unreadable JSON"):
        decode_blocks(data, V5)


def test_however_many_kinds_of_topics_there_are_each_has_its_numbers() -> None:
    numbers = {f"T{count}": count % 500 for count in range(1000)}
    table = {
        name: {"readQueueNums": n, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0} for name, n in numbers.items()
    }
    assert read_table(json.dumps(table)) == {name: TopicQueues(n, 4, 6, 0) for name, n in numbers.items()}
