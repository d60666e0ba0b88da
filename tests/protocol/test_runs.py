from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.columns import RecordColumns, record_starts
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.message import MAGIC_V1
from pocketmq.protocol.runs import encode_records, patch_records
from pocketmq.protocol.spans import Bytes, Ints, Spans

# The record that RocketMQ itself reads back: body `hi`, topic `T`, TAGS=A.
KNOWN_RECORD = bytes.fromhex(
    "00000065 daa320a7 58932aac 00000003 00000000 0000000000000007 0000000000000400 00000000"
    "0000018bcfe56800 0a000001 0000c350 0000018bcfe5687b 0a000002 00002a9f 00000000"
    "0000000000000000 00000002 6869 01 54 0007 54414753 01 41 02"
)
BORN_HOST = bytes.fromhex("0a000001 0000c350")
STORE_HOST = bytes.fromhex("0a000002 00002a9f")

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


def encode(bodies: list[bytes], properties: list[bytes], topic: bytes = b"T") -> tuple[Bytes, Ints]:
    return encode_records(topic, 3, Spans.of(bodies), Spans.of(properties), born_timestamp=1_700_000_000_000)


def test_an_encoded_and_patched_record_has_the_known_bytes() -> None:
    run, lengths = encode([b"hi"], [b"TAGS\x01A\x02"])
    assert lengths.tolist() == [101]
    patch_records(
        run,
        np.array([0]),
        queue_offset=7,
        physical_offset=1024,
        store_timestamp=1_700_000_000_123,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
    )
    assert run.tobytes() == KNOWN_RECORD


messages = st.lists(
    st.tuples(
        st.binary(max_size=100),
        st.binary(max_size=40),
        int32s,
        int64s,
        int32s.map(lambda x: x & ~0x30),
        int32s,
    ),
    max_size=10,
)


@given(messages, st.binary(max_size=127), int32s)
def test_what_is_encoded_is_read_back(
    rows: list[tuple[bytes, bytes, int, int, int, int]], topic: bytes, queue_id: int
) -> None:
    bodies, properties = [row[0] for row in rows], [row[1] for row in rows]
    flag, born, sys_flag, times = (np.array([row[i] for row in rows], np.int64) for i in (2, 3, 4, 5))
    run, lengths = encode_records(
        topic,
        queue_id,
        Spans.of(bodies),
        Spans.of(properties),
        born_timestamp=born,
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=times,
    )
    columns = RecordColumns(run)
    assert columns.total_size.tolist() == lengths.tolist()
    assert columns.bodies.tolist() == bodies
    assert columns.properties.tolist() == properties
    assert columns.topics.tolist() == [topic] * len(rows)
    assert columns.queue_id.tolist() == [queue_id] * len(rows)
    assert columns.flag.tolist() == flag.tolist()
    assert columns.born_timestamp.tolist() == born.tolist()
    assert columns.sys_flag.tolist() == sys_flag.tolist()
    assert columns.reconsume_times.tolist() == times.tolist()
    assert columns.crc_matches().all()
    assert (columns.magic == MAGIC_V1).all()


def test_what_the_broker_fills_in_is_zero_until_it_is_patched() -> None:
    run, _ = encode([b"a", b"bcd", b""], [b"", b"x", b"yz"])
    columns = RecordColumns(run)
    assert not columns.queue_offset.any()
    assert not columns.physical_offset.any()
    assert not columns.store_timestamp.any()
    assert not columns.prepared_transaction_offset.any()
    assert columns.born_hosts.tolist() == columns.store_hosts.tolist() == [bytes(8)] * 3


def test_patching_changes_the_fields_of_the_broker_and_nothing_else() -> None:
    run, _ = encode([b"a", b"bcd", b""], [b"", b"x", b"yz"])
    buffer = bytearray(run.tobytes())
    starts = record_starts(buffer)
    patch_records(
        buffer,
        starts[1:],
        queue_offset=np.array([5, 6]),
        physical_offset=1000 + starts[1:],
        store_timestamp=9,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
    )
    before, after = RecordColumns(run), RecordColumns(bytes(buffer))
    assert after.queue_offset.tolist() == [0, 5, 6]
    assert after.physical_offset.tolist() == [0, *(1000 + starts[1:]).tolist()]
    assert after.store_timestamp.tolist() == [0, 9, 9]
    assert after.born_hosts.tolist() == [bytes(8), BORN_HOST, BORN_HOST]
    assert after.store_hosts.tolist() == [bytes(8), STORE_HOST, STORE_HOST]
    zero = bytes(8)
    patch_records(buffer, starts, queue_offset=0, physical_offset=0, store_timestamp=0, born_host=zero, store_host=zero)
    assert buffer == before.data.tobytes()


def test_no_messages_are_an_empty_run() -> None:
    run, lengths = encode([], [])
    assert len(run) == len(lengths) == 0


def test_limits_are_met_exactly() -> None:
    run, _ = encode([b""], [bytes(32_767)], topic=bytes(127))
    assert RecordColumns(run).properties.lengths.tolist() == [32_767]


def test_a_longer_topic_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="topic of 128 bytes"):
        encode([b""], [b""], topic=bytes(128))


def test_longer_properties_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="properties of message 1 exceed 32767 bytes"):
        encode([b"", b""], [b"", bytes(32_768)])


def test_a_body_that_overflows_the_size_field_is_refused() -> None:
    huge = Spans(np.zeros(0, np.uint8), np.array([0]), np.array([2**31]))
    with pytest.raises(LocalProtocolError, match="message 0 is too large"):
        encode_records(b"T", 0, huge, Spans.of([b""]), born_timestamp=0)


def test_bodies_without_properties_of_their_own_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="2 bodies but 1 properties"):
        encode([b"", b""], [b""])


def test_ipv6_flags_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="IPv6"):
        encode_records(b"T", 0, Spans.of([b""]), Spans.of([b""]), born_timestamp=0, sys_flag=0x10)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63, 2**70])
def test_a_number_that_does_not_fit_is_refused_by_its_name(value: int) -> None:
    with pytest.raises(LocalProtocolError, match="queue id does not fit"):
        encode_records(b"T", value, Spans.of([b""]), Spans.of([b""]), born_timestamp=0)
