from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

import numpy as np
import pytest
from fixtures import captured_frames
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.columns import RecordColumns, body_crcs, record_starts, size_chain, sound_records
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hashes import body_crc, index_key_hash, java_hash, tags_code
from pocketmq.protocol.message import MAGIC_V1, MAGIC_V2
from pocketmq.protocol.properties import decode_properties
from pocketmq.protocol.spans import Ints, Spans


@dataclass(frozen=True)
class Record:
    """A record written field by field, so that columns are judged by the layout and not by our own encoder."""

    queue_id: int = 3
    flag: int = 0
    queue_offset: int = 7
    physical_offset: int = 1024
    sys_flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    born_host: bytes = bytes.fromhex("0a000001 0000c350")
    store_timestamp: int = 1_700_000_000_123
    store_host: bytes = bytes.fromhex("0a000002 00002a9f")
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body: bytes = b"hi"
    topic: bytes = b"T"
    properties: bytes = b"TAGS\x01A\x02"

    def encode(self) -> bytes:
        v2 = len(self.topic) > 127
        sys_flag = self.sys_flag | 0x10 * (len(self.born_host) == 20) | 0x20 * (len(self.store_host) == 20)
        parts = (
            struct.pack(">iii", MAGIC_V2 if v2 else MAGIC_V1, body_crc(self.body), self.queue_id),
            struct.pack(">iqqiq", self.flag, self.queue_offset, self.physical_offset, sys_flag, self.born_timestamp),
            self.born_host,
            struct.pack(">q", self.store_timestamp),
            self.store_host,
            struct.pack(">iqi", self.reconsume_times, self.prepared_transaction_offset, len(self.body)),
            self.body,
            struct.pack(">h" if v2 else ">b", len(self.topic)),
            self.topic,
            struct.pack(">h", len(self.properties)),
            self.properties,
        )
        rest = b"".join(parts)
        return struct.pack(">i", 4 + len(rest)) + rest


KNOWN_BYTES = (
    "00000065daa320a758932aac0000000300000000000000000000000700000000000004000000000000000"
    "18bcfe568000a0000010000c3500000018bcfe5687b0a00000200002a9f000000000000000000000000"
    "000000026869015400075441475301" + "4102"
)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
property_texts = st.lists(
    st.tuples(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", ""]),
        st.sampled_from(["\x01", "", "\x01\x01"]),
        st.sampled_from(["", "x", "k1 k2", " k1  k2 ", "标签", "k𝄞 标签", "Tag", "k" * 140]),
        st.sampled_from(["\x02", "\x02\x02", ""]),
    )
).map(lambda pairs: "".join(map("".join, pairs)).encode())
records = st.builds(
    Record,
    queue_id=int32s,
    flag=int32s,
    queue_offset=int64s,
    physical_offset=int64s,
    sys_flag=int32s.map(lambda bits: bits & ~0x30),
    born_timestamp=int64s,
    born_host=hosts,
    store_timestamp=int64s,
    store_host=hosts,
    reconsume_times=int32s,
    prepared_transaction_offset=int64s,
    body=st.binary(max_size=60),
    topic=st.sampled_from([b"T", "主题".encode()]) | st.binary(max_size=60) | st.binary(min_size=126, max_size=129),
    properties=property_texts,
)
# Many records take other ways than few, and one topic another than several.
runs = st.lists(records, max_size=6) | st.builds(
    lambda rows, times: rows * times, st.lists(records, max_size=4), st.sampled_from([1, 30, 100])
)


def run_of(rows: list[Record]) -> bytes:
    return b"".join(row.encode() for row in rows)


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def rows_of(columns: RecordColumns) -> list[Record]:
    """Read every column and turn the rows back into records."""
    fields = (
        columns.queue_id.tolist(),
        columns.flag.tolist(),
        columns.queue_offset.tolist(),
        columns.physical_offset.tolist(),
        (columns.sys_flag & ~0x30).tolist(),
        columns.born_timestamp.tolist(),
        columns.born_hosts.tolist(),
        columns.store_timestamp.tolist(),
        columns.store_hosts.tolist(),
        columns.reconsume_times.tolist(),
        columns.prepared_transaction_offset.tolist(),
        columns.bodies.tolist(),
        columns.topics.tolist(),
        columns.properties.tolist(),
    )
    return [Record(*row) for row in zip(*fields, strict=True)]


def pulled_bodies() -> list[bytes]:
    """What real brokers answered to pulls: bodies that hold records."""
    return [frame.body for frame in captured_frames() if frame.is_response and frame.request_code == 11 and frame.body]


def test_the_test_writes_the_known_record() -> None:
    assert Record().encode() == bytes.fromhex(KNOWN_BYTES)


# --- where records begin


@given(runs)
def test_starts_follow_the_sizes(rows: list[Record]) -> None:
    sizes = [len(row.encode()) for row in rows]
    assert record_starts(run_of(rows)).tolist() == [sum(sizes[:i]) for i in range(len(rows))]


@pytest.mark.parametrize("size", [0, 90, 102, -1, -(2**31), 2**31 - 1])
def test_an_impossible_size_is_named_with_its_place(size: int) -> None:
    run = Record().encode() + struct.pack(">i", size) + Record().encode()[4:]
    with pytest.raises(RemoteProtocolError, match="record 1 at byte 101"):
        record_starts(run)


def test_a_chain_stops_where_it_breaks_and_says_where() -> None:
    starts, end = size_chain(run_of([Record(), Record()]) + b"\0\0\0\x08\xcb\xd4\x31\x94")
    assert starts.tolist() == [0, 101]
    assert end == 202


@pytest.mark.parametrize("cut", [*range(1, 101), 102, 150, 201])
def test_a_run_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        RecordColumns(run_of([Record(), Record()])[:cut])


# --- columns


@given(runs)
def test_columns_hold_what_the_records_hold(rows: list[Record]) -> None:
    columns = RecordColumns(run_of(rows))
    assert len(columns) == len(rows)
    assert rows_of(columns) == rows
    assert columns.total_size.tolist() == [len(row.encode()) for row in rows]
    assert columns.crc.tolist() == [body_crc(row.body) for row in rows]
    assert columns.magic.tolist() == [MAGIC_V2 if len(row.topic) > 127 else MAGIC_V1 for row in rows]


@given(runs, st.data())
def test_columns_of_chosen_starts_are_those_rows(rows: list[Record], data: st.DataObject) -> None:
    run = run_of(rows)
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows)))) if rows else st.just([]))
    columns = RecordColumns(run, record_starts(run)[np.array(chosen, np.intp)])
    assert rows_of(columns) == [rows[i] for i in chosen]


@given(runs)
def test_properties_are_those_of_the_plain_reader(rows: list[Record]) -> None:
    columns = RecordColumns(run_of(rows))
    expected = [decode_properties(row.properties.decode()) for row in rows]
    for name in ("TAGS", "KEYS", "UNIQ_KEY", "a", "missing"):
        values = [properties.get(name, "").encode() for properties in expected]
        assert columns.property_column(name.encode()).tolist() == values
    assert columns.tags_code().tolist() == [tags_code(properties.get("TAGS")) for properties in expected]


def index_texts(record: Record) -> list[str]:
    """What RocketMQ 5.5.0 files a record under."""
    properties = decode_properties(record.properties.decode())
    topic = record.topic.decode("utf-8", "replace")
    keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
    if tag := properties.get("TAGS"):
        keys.append(f"T#{tag}")
    return [f"{topic}#{key}" for key in keys if key]


@given(runs)
def test_index_hashes_are_those_of_topic_and_key_in_order(rows: list[Record]) -> None:
    columns = RecordColumns(run_of(rows))
    expected = [(row, index_key_hash(text)) for row, record in enumerate(rows) for text in index_texts(record)]
    numbers, hashes = columns.index_hashes()
    assert list(zip(numbers.tolist(), hashes.tolist(), strict=True)) == expected
    assert hashes.dtype == np.dtype(np.int64)


def test_a_known_record_is_indexed_under_its_keys_and_its_tag() -> None:
    record = Record(topic=b"TopicTest", properties=b"TAGS\x01A\x02KEYS\x01order-1 \x02UNIQ_KEY\x01u")
    texts = ["TopicTest#u", "TopicTest#order-1", "TopicTest#T#A"]
    numbers, hashes = RecordColumns(run_of([Record(properties=b""), record])).index_hashes()
    assert numbers.tolist() == [1, 1, 1]
    assert hashes.tolist() == [index_key_hash(text) for text in texts]
    assert hashes.tolist()[1] == 1829193424


def test_the_hash_that_has_no_opposite_is_indexed_as_zero() -> None:
    assert java_hash("T#ajvakuzm") == -(2**31)
    assert RecordColumns(Record(properties=b"UNIQ_KEY\x01ajvakuzm").encode()).index_hashes()[1].tolist() == [0]


@given(runs)
def test_the_topic_is_the_one_that_all_have(rows: list[Record]) -> None:
    topics = {row.topic for row in rows}
    assert RecordColumns(run_of(rows)).topic == (topics.pop() if len(topics) == 1 else None)


def test_codes_may_be_changed_without_harm() -> None:
    columns = RecordColumns(Record().encode())
    codes = columns.tags_code()
    codes[0] = 0
    assert columns.tags_code().tolist() == [tags_code("A")]


def test_columns_have_native_integers_of_their_own_width() -> None:
    columns = RecordColumns(Record().encode())
    assert columns.queue_id.dtype == np.dtype(np.int32)
    assert columns.queue_offset.dtype == columns.tags_code().dtype == np.dtype(np.int64)


def test_a_crc_that_does_not_match_is_found() -> None:
    run = bytearray(run_of([Record(), Record(), Record()]))
    run[101 + 88] ^= 1
    assert RecordColumns(run).crc_matches().tolist() == [True, False, True]


@given(st.sampled_from([1, 100]), st.lists(st.binary(max_size=2) | st.just(bytes(1100)), min_size=1, max_size=3))
def test_crcs_of_few_and_many_bodies_of_any_lengths_are_those_of_each(times: int, bodies: list[bytes]) -> None:
    assert body_crcs(Spans.of(bodies * times)).tolist() == [body_crc(body) for body in bodies] * times


def test_the_crc_of_an_empty_body_is_zero() -> None:
    assert body_crcs(Spans.of([b"", b"hi"])).tolist() == [0, 0x58932AAC]


# --- damage


def test_every_damaged_byte_gives_another_reading_or_a_refusal() -> None:
    run = run_of([Record(), Record(born_host=bytes(20), topic=b"t" * 130), Record(body=b"", properties=b"")])
    starts = record_starts(run)
    for position in range(len(run)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF, run[position] ^ 0x10, run[position] ^ 0x04):
            damaged = run[:position] + bytes([value]) + run[position + 1 :]
            sound = sound_records(damaged, starts)
            assert np.count_nonzero(~sound) <= 1
            assert len(rows_of(RecordColumns(damaged, starts[sound]))) == np.count_nonzero(sound)
            try:
                columns = RecordColumns(damaged)
            except RemoteProtocolError:
                continue
            assert sum(columns.total_size.tolist()) == len(run)
            assert b"".join(map(bytes, spans_of_records(columns).views())) == damaged


def spans_of_records(columns: RecordColumns) -> Spans:
    return Spans(columns.data, columns.starts, columns.starts + columns.total_size)


@given(st.binary(max_size=400), st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 400), max_size=8))
def test_garbage_gives_a_refusal_and_nothing_else(data: bytes, starts: list[int]) -> None:
    sound = sound_records(data, ints(*starts))
    if sound.all():
        rows_of(RecordColumns(data, ints(*starts)))
    else:
        with pytest.raises(RemoteProtocolError, match=f"record {sound.tolist().index(False)} at byte"):
            RecordColumns(data, ints(*starts))


@given(st.binary(min_size=91, max_size=200), st.sampled_from([MAGIC_V1, MAGIC_V2]), st.integers(-3, 120))
def test_garbage_behind_a_good_beginning_gives_a_refusal_and_nothing_else(
    tail: bytes, magic: int, body_length: int
) -> None:
    data = bytearray(tail)
    struct.pack_into(">ii", data, 0, len(data), magic)
    struct.pack_into(">i", data, 84, body_length)
    try:
        columns = RecordColumns(data)
    except RemoteProtocolError:
        assert not sound_records(data, ints(0)).any()
    else:
        (row,) = rows_of(columns)
        assert len(b"".join(part for part in astuple(row) if isinstance(part, bytes))) <= len(data)


@pytest.mark.parametrize("start", [-1, -101, 1, 102, 2**62, -(2**63)])
def test_a_start_without_a_record_is_refused(start: int) -> None:
    run = run_of([Record(), Record()])
    with pytest.raises(RemoteProtocolError, match=f"record 1 at byte {start}"):
        RecordColumns(run, ints(0, start))
    assert sound_records(run, ints(0, start, 101)).tolist() == [True, False, True]


# --- real records


def test_pulled_bodies_are_read_like_the_layout_says() -> None:
    bodies = pulled_bodies()
    assert len(bodies) > 10
    for body in bodies:
        columns = RecordColumns(body)
        assert run_of(rows_of(columns)) == body
        assert columns.crc_matches().all()
