"""The message record: its bytes, what is read of it and when, and what becomes of damaged ones."""

from __future__ import annotations

import contextlib
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator

import lz4.frame
import pytest
import zstandard
from fixtures import captured_frames, vectors
from fuzz_targets import check_numbers, check_texts
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol import message
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.hashes import body_crc
from pocketmq.protocol.ids import Host
from pocketmq.protocol.message import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MessageRecord,
    RecordView,
    decode_record,
    encode_record,
    iter_records,
)
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES, decode_properties
from pocketmq.protocol.requests import REQUESTS, Content

KNOWN = MessageRecord(
    topic="TopicTest",
    body=b"hello",
    queue_id=1,
    born_timestamp=1_700_000_000_000,
    born_host=("127.0.0.1", 54321),
    store_timestamp=1_700_000_000_005,
    store_host=("127.0.0.1", 10911),
    queue_offset=5,
    physical_offset=1024,
    properties_text="TAGS\x01TagA\x02",
)
KNOWN_BYTES = bytes.fromhex(
    "00000073 daa320a7 3610a686 00000001 00000000 0000000000000005 0000000000000400 00000000 0000018bcfe56800"
    "7f000001 0000d431 0000018bcfe56805 7f000001 00002a9f 00000000 0000000000000000 00000005 68656c6c6f"
    "09 546f70696354657374 000a 54414753 01 54616741 02"
)
LONG = KNOWN._replace(topic="t" * 128)
SIX = KNOWN._replace(born_host=("2001:db8::1", 54321), store_host=("2001:db8::2", 10911))

V4, V6 = ("10.0.0.1", 10911), ("2001:db8::7", 10911)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
ports = st.integers(0, 0xFFFF)
hosts: st.SearchStrategy[Host] = st.tuples(st.ip_addresses(v=4).map(str), ports) | st.tuples(
    # An IPv4 address in the clothes of an IPv6 one becomes plain IPv4, as in Java.
    st.ip_addresses(v=6).filter(lambda ip: ip.version == 6 and not ip.ipv4_mapped).map(str),
    ports,
)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
records = st.builds(
    MessageRecord,
    topic=texts | st.sampled_from(["t" * 127, "t" * 128, "é" * 64, "标" * 43]),
    body=st.binary(max_size=60),
    queue_id=int32s,
    born_timestamp=int64s,
    born_host=hosts,
    store_timestamp=int64s,
    store_host=hosts,
    flag=int32s,
    queue_offset=int64s,
    physical_offset=int64s,
    sys_flag=int32s,
    reconsume_times=int32s,
    prepared_transaction_offset=int64s,
    properties_text=texts,
)


def stored_bodies() -> list[bytes]:
    """What real brokers sent as stored messages."""
    bodies = []
    for frame in captured_frames():
        row = REQUESTS.get(frame.request_code)
        kind = row and (row.response_body if frame.is_response else row.request_body)
        if kind is Content.STORED and frame.body:
            bodies.append(frame.body)
    return bodies


def with_byte(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


# --- bytes


def test_the_known_message_has_the_known_bytes() -> None:
    assert len(KNOWN_BYTES) == 115
    assert encode_record(KNOWN) == KNOWN_BYTES
    assert decode_record(KNOWN_BYTES).to_record() == KNOWN


def test_a_topic_of_more_than_127_bytes_makes_version_2() -> None:
    assert decode_record(encode_record(KNOWN._replace(topic="t" * 127))).magic == MAGIC_V1
    record = encode_record(LONG)
    assert record[4:8] == bytes.fromhex("daa320ab")
    assert record[88 + 5 :].startswith(b"\x00\x80" + b"t" * 128 + b"\x00\x0a")
    assert decode_record(record).to_record() == LONG


def test_the_length_of_a_topic_is_counted_in_bytes() -> None:
    assert decode_record(encode_record(KNOWN._replace(topic="标" * 42))).magic == MAGIC_V1
    assert decode_record(encode_record(KNOWN._replace(topic="标" * 43))).magic == MAGIC_V2


def test_version_2_may_carry_a_short_topic() -> None:
    short = bytearray(KNOWN_BYTES)
    short[93:94] = b"\x00\x09"
    struct.pack_into(">ii", short, 0, 116, MAGIC_V2)
    assert decode_record(bytes(short)).to_record() == KNOWN


@pytest.mark.parametrize(
    ("born_host", "store_host", "bits", "size"),
    [(V4, V4, 0x00, 115), (V6, V4, 0x10, 127), (V4, V6, 0x20, 127), (V6, V6, 0x30, 139)],
)
def test_a_host_is_of_either_family_and_the_sys_flag_says_which(
    born_host: Host, store_host: Host, bits: int, size: int
) -> None:
    # The bits follow from the hosts, whatever the caller says about them.
    for claimed in (0x00, 0x30):
        record = KNOWN._replace(born_host=born_host, store_host=store_host, sys_flag=0x4 | claimed)
        view = decode_record(encode_record(record))
        assert (view.sys_flag, view.size) == (0x4 | bits, size)
        assert (view.born_host, view.store_host) == (born_host, store_host)
        assert view.to_record() == record._replace(sys_flag=0x4 | bits)


def test_an_ipv6_host_lies_where_the_layout_says() -> None:
    record = encode_record(SIX)
    assert record[48:68] == bytes.fromhex("20010db8000000000000000000000001 0000d431")
    assert record[76:96] == bytes.fromhex("20010db8000000000000000000000002 00002a9f")


def test_the_smallest_record_has_91_bytes() -> None:
    nothing = KNOWN._replace(topic="", body=b"", properties_text="")
    assert len(encode_record(nothing)) == 91
    assert decode_record(encode_record(nothing)).to_record() == nothing


@given(records)
def test_every_record_comes_back(record: MessageRecord) -> None:
    encoded = encode_record(record)
    view = decode_record(encoded)
    assert view.to_record() == record._replace(sys_flag=view.sys_flag)
    assert view.sys_flag & ~0x30 == record.sys_flag & ~0x30
    assert view.size == len(encoded)
    assert view.crc_ok()
    assert encode_record(view.to_record()) == encoded


def test_captured_messages_come_back_byte_for_byte() -> None:
    bodies = stored_bodies()
    views = [view for body in bodies for view in iter_records(body)]
    assert len(bodies) > 40
    assert len(views) > 70
    assert all(view.magic == MAGIC_V1 and view.crc_ok() for view in views)
    assert [b"".join(encode_record(view.to_record()) for view in iter_records(body)) for body in bodies] == bodies


def test_text_that_is_not_utf_8_reads_as_in_java() -> None:
    damaged = KNOWN_BYTES.replace(b"Topic", b"To\xffic").replace(b"TagA", b"Ta\xffA")
    assert decode_record(damaged).topic == "To\ufffdicTest"
    assert decode_record(damaged).tags == "Ta\ufffdA"
    assert b"T?A\x02" in encode_record(KNOWN._replace(properties_text="TAGS\x01T\ud83dA\x02"))


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "t" * 32768},
        {"properties_text": "p" * (MAX_PROPERTIES_BYTES + 1)},
        {"properties_text": "标" * (MAX_PROPERTIES_BYTES // 3 + 1)},
        {"queue_id": 1 << 31},
        {"flag": -(1 << 31) - 1},
        {"queue_offset": 1 << 63},
        {"born_timestamp": -(1 << 63) - 1},
        {"born_host": ("localhost", 1)},
        {"store_host": ("127.0.0.1", 65536)},
        {"store_host": ("127.0.0.1", -1)},
    ],
)
def test_what_a_record_cannot_hold_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_record(KNOWN._replace(**change))  # type: ignore[arg-type]


def test_the_longest_topic_and_properties_fit() -> None:
    longest = KNOWN._replace(topic="t" * 32767, properties_text="p" * MAX_PROPERTIES_BYTES)
    assert decode_record(encode_record(longest)).to_record() == longest


# --- laziness


def test_numbers_are_read_at_once() -> None:
    buffer = bytearray(KNOWN_BYTES)
    view = decode_record(memoryview(buffer))
    buffer[:88] = bytes(88)
    assert (view.size, view.magic, view.crc, view.queue_id, view.flag) == (115, MAGIC_V1, 0x3610A686, 1, 0)
    assert (view.queue_offset, view.physical_offset, view.sys_flag) == (5, 1024, 0)
    assert (view.born_timestamp, view.store_timestamp) == (1_700_000_000_000, 1_700_000_000_005)
    assert (view.reconsume_times, view.prepared_transaction_offset) == (0, 0)


def test_the_body_is_a_view_and_not_a_copy() -> None:
    buffer = bytearray(KNOWN_BYTES)
    body = decode_record(memoryview(buffer)).body
    buffer[88:93] = b"HELLO"
    assert bytes(body) == b"HELLO"
    assert body.obj is buffer


def test_the_content_does_not_depend_on_the_buffer() -> None:
    buffer = bytearray(KNOWN_BYTES)
    record = decode_record(memoryview(buffer)).to_record()
    buffer[:] = bytes(len(buffer))
    assert record == KNOWN


def test_properties_are_parsed_on_first_use_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def count(text: str) -> dict[str, str]:
        parsed.append(text)
        return decode_properties(text)

    monkeypatch.setattr(message, "decode_properties", count)
    view = decode_record(KNOWN_BYTES)
    assert bytes(view.body) == b"hello"
    assert view.topic == "TopicTest"
    assert parsed == []
    assert view.tags == "TagA"
    assert view.keys == []
    assert view.message_id == view.offset_id
    assert view.properties is view.properties
    assert parsed == ["TAGS\x01TagA\x02"]


def test_a_port_that_is_none_matters_only_to_who_asks_for_the_host() -> None:
    view = decode_record(with_byte(KNOWN_BYTES, 52, 0x80))
    assert bytes(view.body) == b"hello"
    assert view.store_host == ("127.0.0.1", 10911)
    with pytest.raises(RemoteProtocolError, match="not a port"):
        _ = view.born_host


# --- what is read of it


def test_the_id_that_consumers_show_is_the_producers_or_else_the_offset_id() -> None:
    view = decode_record(KNOWN_BYTES)
    assert view.message_id == view.offset_id == "7F00000100002A9F0000000000000400"
    own = decode_record(encode_record(KNOWN._replace(properties_text="UNIQ_KEY\x01abCD\x02")))
    assert own.message_id == "abCD"
    assert own.offset_id == view.offset_id


def test_an_offset_id_with_an_ipv6_host_is_longer() -> None:
    assert decode_record(encode_record(SIX)).offset_id == "20010DB800000000000000000000000200002A9F0000000000000400"


def test_tags_and_keys_are_properties() -> None:
    view = decode_record(encode_record(KNOWN._replace(properties_text="KEYS\x01k1 k2\x02TAGS\x01a\x02TAGS\x01b")))
    assert view.tags == "b"
    assert view.keys == ["k1", "k2"]
    assert decode_record(encode_record(KNOWN._replace(properties_text=""))).tags is None


@pytest.mark.parametrize("case", vectors("ids", "keys"))
def test_keys_are_split_as_by_javas_index_builder(case: dict[str, dict[str, list[str]]]) -> None:
    view = decode_record(encode_record(KNOWN._replace(properties_text=f"KEYS\x01{case['expect']['text']}\x02")))
    # The index passes over empty keys; ours are gone already.
    assert view.keys == [key for key in case["expect"]["split"] if key]


def test_a_changed_body_no_longer_has_its_crc() -> None:
    assert decode_record(KNOWN_BYTES).crc_ok()
    assert not decode_record(with_byte(KNOWN_BYTES, 88, 0x69)).crc_ok()
    assert decode_record(KNOWN_BYTES).crc == body_crc(b"hello") == 907060870


@pytest.mark.parametrize(
    ("sys_flag", "compress"),
    [
        (0x000, bytes),
        (0x001, zlib.compress),
        (0x301, zlib.compress),
        (0x101, lz4.frame.compress),
        (0x201, zstandard.compress),
    ],
)
def test_a_body_is_decompressed_as_its_sys_flag_says(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    body = b"say it again, " * 100
    view = decode_record(encode_record(KNOWN._replace(body=compress(body), sys_flag=sys_flag)))
    assert view.body == compress(body)
    assert view.decompressed_body(len(body)) == body
    if sys_flag:
        with pytest.raises(RemoteProtocolError, match="more than 1399 bytes"):
            view.decompressed_body(len(body) - 1)


def test_a_body_that_only_claims_to_be_compressed_is_an_error_when_it_is_asked_for() -> None:
    view = decode_record(encode_record(KNOWN._replace(sys_flag=0x1)))
    assert bytes(view.body) == b"hello"
    with pytest.raises(RemoteProtocolError, match="damaged"):
        view.decompressed_body(100)


def test_captured_bodies_of_every_kind_of_compression_are_read() -> None:
    compressed = [view for body in stored_bodies() for view in iter_records(body) if view.sys_flag & 0x1]
    assert {view.sys_flag & 0x700 for view in compressed} == {0x000, 0x100, 0x200, 0x300}
    for view in compressed:
        assert len(view.decompressed_body(1 << 20)) > 4096 > len(view.body)


def test_a_view_shows_where_it_belongs() -> None:
    assert repr(decode_record(KNOWN_BYTES)) == "<RecordView 'TopicTest' queue 1 offset 5, 115 bytes>"


# --- runs


def test_a_record_is_found_at_its_offset_whatever_follows() -> None:
    view = decode_record(b"?" * 7 + KNOWN_BYTES + b"!", 7)
    assert (view.start, view.to_record()) == (7, KNOWN)


@given(st.lists(records, max_size=4))
def test_a_run_is_read_record_by_record(rows: list[MessageRecord]) -> None:
    parts = [encode_record(row) for row in rows]
    views = list(iter_records(b"".join(parts)))
    assert [encode_record(view.to_record()) for view in views] == parts
    assert [view.start for view in views] == [sum(map(len, parts[:i])) for i in range(len(parts))]


@given(st.lists(records, max_size=4))
def test_columns_and_views_read_the_same(rows: list[MessageRecord]) -> None:
    run = b"".join(map(encode_record, rows))
    assert_columns_agree(run)


def test_columns_and_views_read_the_same_of_captured_messages() -> None:
    for body in stored_bodies():
        assert_columns_agree(body)


def assert_columns_agree(run: bytes) -> None:
    columns, views = RecordColumns(run), list(iter_records(run))
    assert columns.starts.tolist() == [view.start for view in views]
    check_numbers(views, columns)
    check_texts(views, columns)


def test_a_run_is_read_up_to_the_first_bad_record_which_is_named() -> None:
    views = iter_records(KNOWN_BYTES + encode_record(SIX) + b"\0" * 8)
    assert [view.size for view in (next(views), next(views))] == [115, 139]
    with pytest.raises(RemoteProtocolError, match="record at offset 254: only 8 bytes are left"):
        next(views)


def test_nothing_is_an_empty_run() -> None:
    assert list(iter_records(b"")) == []


# --- damage


def assert_inside(view: RecordView, data: bytes) -> None:
    """The parts of a record, put together, are the record and nothing else."""
    assert 91 <= view.size <= len(data) - view.start
    topic_and_properties = len(view.topic.encode()), len(view.properties_text.encode())
    length_of_topic = 1 if view.magic == MAGIC_V1 else 2
    hosts = (20 if view.sys_flag & 0x10 else 8) + (20 if view.sys_flag & 0x20 else 8)
    if b"\xef\xbf\xbd" not in view.topic.encode() + view.properties_text.encode():
        assert view.size == 74 + hosts + len(view.body) + length_of_topic + sum(topic_and_properties)
    with contextlib.suppress(RemoteProtocolError):
        assert len(view.message_id) > 0


def lengths_of(record: MessageRecord) -> Iterator[int]:
    """Where the bytes lie that decide over the shape of a record."""
    encoded = encode_record(record)
    hosts = 12 * ((encoded[39] >> 4 & 1) + (encoded[39] >> 5))
    body_end = 88 + hosts + len(record.body)
    topic_length = 1 if len(record.topic) <= 127 else 2
    yield from range(8)  # size and magic
    yield from range(36, 40)  # the bits of the hosts
    yield from range(84 + hosts, 88 + hosts)
    yield from range(body_end, body_end + topic_length)
    yield from range(body_end + topic_length + len(record.topic), body_end + topic_length + len(record.topic) + 2)


@pytest.mark.parametrize("record", [KNOWN, LONG, SIX, KNOWN._replace(body=b"", properties_text="")])
def test_no_cut_of_a_record_is_a_record(record: MessageRecord) -> None:
    encoded = encode_record(record)
    for length in range(len(encoded)):
        with pytest.raises(RemoteProtocolError, match="record at offset 0"):
            decode_record(encoded[:length])


@pytest.mark.parametrize("record", [KNOWN, LONG, SIX, KNOWN._replace(body=b"", properties_text="")])
@pytest.mark.parametrize("tail", [b"", bytes(40), b"\xff" * 400])
def test_a_changed_length_gives_an_error_or_a_record_inside_its_bytes(record: MessageRecord, tail: bytes) -> None:
    encoded = encode_record(record) + tail
    refused = 0
    for position in lengths_of(record):
        for value in range(256):
            damaged = with_byte(encoded, position, value)
            try:
                view = decode_record(damaged)
            except RemoteProtocolError:
                refused += 1
            else:
                assert_inside(view, damaged)
    assert refused > 2000


def test_no_change_of_size_magic_or_lengths_alone_goes_unnoticed() -> None:
    for position in {*lengths_of(KNOWN)} - {36, 37, 38, 39}:
        for value in {*range(256)} - {KNOWN_BYTES[position]}:
            with pytest.raises(RemoteProtocolError):
                decode_record(with_byte(KNOWN_BYTES, position, value))


@given(st.binary(max_size=300), st.sampled_from([0, 5, 1000]))
def test_garbage_gives_a_remote_protocol_error(data: bytes, offset: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(data, offset)


@given(st.data())
def test_garbage_behind_a_good_beginning_gives_a_remote_protocol_error_or_a_record(data: st.DataObject) -> None:
    tail = data.draw(st.binary(min_size=83, max_size=200))
    magic = data.draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
    garbage = bytearray(struct.pack(">ii", len(tail) + 8, magic) + tail)
    struct.pack_into(">i", garbage, 84, data.draw(st.integers(-2, len(tail))))
    with contextlib.suppress(RemoteProtocolError):
        assert_inside(decode_record(bytes(garbage)), bytes(garbage))


def test_the_filler_of_a_commit_log_is_no_message() -> None:
    filler = struct.pack(">ii", 200, MAGIC_BLANK) + bytes(192)
    with pytest.raises(RemoteProtocolError, match="filler of a commit log 0xcbd43194"):
        decode_record(filler)
    with pytest.raises(RemoteProtocolError, match="offset 115: filler"):
        list(iter_records(KNOWN_BYTES + filler))


def test_an_unknown_magic_number_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown magic number 0xdaa320a8"):
        decode_record(with_byte(KNOWN_BYTES, 7, 0xA8))


@pytest.mark.parametrize(
    ("offset", "form", "value", "problem"),
    [
        (0, ">i", 116, "only 115 of 116 bytes are left"),
        (0, ">i", 90, "a body of 5 bytes does not fit into 90"),
        (0, ">i", 114, "properties of 10 bytes do not end where the record does"),
        (0, ">i", -1, "a body of 5 bytes does not fit into -1"),
        (84, ">i", -1, "a body of -1 bytes"),
        (84, ">i", 2**31 - 1, "a body of 2147483647 bytes"),
        (93, ">b", -1, "a topic of -1 bytes"),
        (93, ">b", 127, "a topic of 127 bytes"),
        (103, ">h", -10, "properties of -10 bytes"),
        (103, ">h", 9, "properties of 9 bytes"),
    ],
)
def test_a_wrong_number_is_named(offset: int, form: str, value: int, problem: str) -> None:
    damaged = bytearray(KNOWN_BYTES)
    struct.pack_into(form, damaged, offset, value)
    with pytest.raises(RemoteProtocolError, match=problem):
        decode_record(bytes(damaged))


def test_a_view_of_something_else_than_bytes_is_no_body() -> None:
    with pytest.raises(LocalProtocolError, match="a body is bytes; this is a view of 'i'"):
        encode_record(KNOWN._replace(body=memoryview(array("i", [1, 2]))))
