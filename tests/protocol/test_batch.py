"""Batch bodies: their bytes, their damage, and the inner batches that consumers take apart."""

from __future__ import annotations

import contextlib
import struct
import zlib
from array import array
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard
from fixtures import captured_frames, vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.batch import BatchItem, decode_batch, encode_batch, expand_inner_batch
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.message import MessageRecord, RecordView, decode_record, encode_record
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES, decode_properties, encode_properties
from pocketmq.protocol.records_body import batch_columns

KNOWN = BatchItem(b"hello", "TAGS\x01TagA\x02")
KNOWN_BYTES = bytes.fromhex(
    "00000025 00000000 00000000 00000000 00000005 68656c6c6f 000a 54414753 01 54616741 02",
)
ITEMS = [KNOWN, BatchItem(b"", "", -1), BatchItem(b"\xff\x00", "KEYS\x01标签\x02", 7)]

items = st.builds(
    BatchItem,
    body=st.binary(max_size=40),
    properties_text=st.text(st.characters(codec="utf-8"), max_size=20),
    flag=st.integers(-(2**31), 2**31 - 1),
)


# --- bytes


def test_the_known_item_has_the_known_bytes() -> None:
    assert encode_batch([KNOWN]) == KNOWN_BYTES
    assert decode_batch(KNOWN_BYTES) == [KNOWN]


def test_a_batch_is_its_items_back_to_back() -> None:
    assert encode_batch(ITEMS) == b"".join(encode_batch([item]) for item in ITEMS)
    assert encode_batch([]) == b""
    assert decode_batch(b"") == []


@pytest.mark.parametrize("case", vectors("ids", "batch"))
def test_batches_are_those_of_java(case: dict[str, Any]) -> None:
    batch = [
        BatchItem(bytes.fromhex(message["body"]), encode_properties(dict(message["props"])), message["flag"])
        for message in case["messages"]
    ]
    assert encode_batch(batch).hex() == (case.get("expect_5") or case["expect"])["hex"]
    for expect in (case[key] for key in ("expect", "expect_4", "expect_5") if key in case):
        decoded = decode_batch(bytes.fromhex(expect["hex"]))
        assert [(item.body, item.flag) for item in decoded] == [(item.body, item.flag) for item in batch]
        assert [decode_properties(item.properties_text) for item in decoded] == [
            dict(message["props"]) for message in case["messages"]
        ]


def captured_batches() -> list[bytes]:
    return [frame.body for frame in captured_frames() if frame.code == 320 and not frame.is_response]


def test_captured_batches_come_back_byte_for_byte() -> None:
    bodies = captured_batches()
    assert len(bodies) >= 8
    for body in bodies:
        batch = decode_batch(body)
        assert len(batch) > 1
        assert encode_batch(batch) == body


@given(st.lists(items, max_size=5))
def test_every_batch_comes_back(batch: list[BatchItem]) -> None:
    body = encode_batch(batch)
    assert decode_batch(body) == decode_batch(memoryview(body)) == batch
    assert len(body) == sum(22 + len(item.body) + len(item.properties_text.encode()) for item in batch)


def test_items_do_not_depend_on_the_body_they_came_in() -> None:
    body = bytearray(KNOWN_BYTES)
    batch = decode_batch(memoryview(body))
    body[:] = bytes(len(body))
    assert batch == [KNOWN]


def test_magic_and_crc_are_written_as_zero_and_never_looked_at() -> None:
    assert KNOWN_BYTES[4:12] == bytes(8)
    assert decode_batch(KNOWN_BYTES[:4] + b"\xff" * 8 + KNOWN_BYTES[12:]) == [KNOWN]


@pytest.mark.parametrize(
    "item",
    [
        BatchItem(b"", "p" * (MAX_PROPERTIES_BYTES + 1)),
        BatchItem(b"", "标" * (MAX_PROPERTIES_BYTES // 3 + 1)),
        BatchItem(b"", "", 1 << 31),
        BatchItem(b"", "", -(1 << 31) - 1),
    ],
)
def test_what_an_item_cannot_hold_is_refused(item: BatchItem) -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch([KNOWN, item])


def test_the_longest_properties_fit() -> None:
    longest = BatchItem(b"", "p" * MAX_PROPERTIES_BYTES)
    assert decode_batch(encode_batch([longest])) == [longest]


# --- damage


@pytest.mark.parametrize(
    ("offset", "form", "value", "problem"),
    [
        (0, ">i", 38, "only 37 of 38 bytes are left"),
        (0, ">i", 36, "properties of 10 bytes do not end where the item does"),
        (0, ">i", 0, "a body of 5 bytes does not fit into 0"),
        (0, ">i", -1, "a body of 5 bytes does not fit into -1"),
        (16, ">i", -1, "a body of -1 bytes"),
        (16, ">i", 2**31 - 1, "a body of 2147483647 bytes"),
        (25, ">h", -1, "properties of -1 bytes"),
        (25, ">h", 9, "properties of 9 bytes"),
    ],
)
def test_a_wrong_number_is_named_with_its_place(offset: int, form: str, value: int, problem: str) -> None:
    body = bytearray(encode_batch([ITEMS[1], KNOWN]))
    struct.pack_into(form, body, 22 + offset, value)
    with pytest.raises(RemoteProtocolError, match=f"batch item at offset 22: {problem}"):
        decode_batch(bytes(body))


def test_a_cut_batch_is_refused_unless_it_is_cut_between_items() -> None:
    body = encode_batch(ITEMS)
    ends = {len(encode_batch(ITEMS[:count])): ITEMS[:count] for count in range(4)}
    for length in range(len(body) + 1):
        if length in ends:
            assert decode_batch(body[:length]) == ends[length]
        else:
            with pytest.raises(RemoteProtocolError):
                decode_batch(body[:length])


def test_every_damaged_byte_gives_an_error_or_items_that_fill_the_body() -> None:
    body = encode_batch(ITEMS)
    for position in range(len(body)):
        for flip in (0xFF, *(1 << bit for bit in range(8))):
            damaged = body[:position] + bytes([body[position] ^ flip]) + body[position + 1 :]
            assert_read_alike(damaged)


@given(st.binary(max_size=100))
def test_garbage_gives_a_remote_protocol_error_or_nothing_unusual(data: bytes) -> None:
    assert_read_alike(data)
    assert_read_alike(struct.pack(">i", len(data) + 4) + data)


def assert_read_alike(body: bytes) -> None:
    """Both readers refuse a body, or both find the same in it."""
    try:
        batch = decode_batch(body)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            batch_columns(body)
    else:
        columns = batch_columns(body)
        assert columns.flag.tolist() == [item.flag for item in batch]
        assert columns.bodies.tolist() == [item.body for item in batch]
        texts = [str(text, "utf-8", "replace") for text in columns.properties.tolist()]
        assert texts == [item.properties_text for item in batch]
        assert len(body) == 22 * len(batch) + sum(columns.bodies.lengths) + sum(columns.properties.lengths)


def test_captured_batches_are_read_alike() -> None:
    for body in captured_batches():
        assert_read_alike(body)


@given(st.lists(items, max_size=5))
def test_every_batch_is_read_alike(batch: list[BatchItem]) -> None:
    assert_read_alike(encode_batch(batch))


# --- inner batches


def outer(body: bytes, sys_flag: int = 0xC0, **fields: Any) -> RecordView:
    """A record that holds a batch."""
    record = MessageRecord(
        topic="T",
        body=body,
        queue_id=3,
        born_timestamp=1,
        born_host=("10.0.0.1", 1),
        store_timestamp=2,
        store_host=("2001:db8::1", 2),
        queue_offset=100,
        physical_offset=4096,
        sys_flag=sys_flag,
        reconsume_times=2,
        properties_text="INNER_NUM\x013\x02",
    )
    return decode_record(encode_record(record._replace(**fields)))


@pytest.mark.parametrize(
    ("sys_flag", "compress"),
    [
        (0x0C0, bytes),
        (0x0C1, zlib.compress),
        (0x3C1, zlib.compress),
        (0x1C1, lz4.frame.compress),
        (0x2C1, zstandard.compress),
    ],
)
def test_an_inner_batch_is_taken_apart_into_records(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    around = outer(compress(encode_batch(ITEMS)), sys_flag | 0x2)
    inner = list(expand_inner_batch(around, 1000))
    assert [(bytes(record.body), record.properties_text, record.flag) for record in inner] == ITEMS
    assert [record.queue_offset for record in inner] == [100, 101, 102]
    for record in inner:
        assert record.crc_ok()
        assert record.sys_flag == 0x22  # neither a batch nor compressed; the rest is kept
        assert (record.topic, record.queue_id, record.physical_offset) == ("T", 3, 4096)
        assert (record.born_timestamp, record.store_timestamp, record.reconsume_times) == (1, 2, 0)
        assert (record.born_host, record.store_host) == (around.born_host, around.store_host)
        assert record.decompressed_body(0) == bytes(record.body)


def test_an_empty_inner_batch_holds_no_message() -> None:
    assert list(expand_inner_batch(outer(b""), 0)) == []


def test_a_compressed_batch_may_not_inflate_beyond_the_limit() -> None:
    body = encode_batch(ITEMS)
    around = outer(zlib.compress(body), 0xC1)
    assert len(list(expand_inner_batch(around, len(body)))) == 3
    with pytest.raises(RemoteProtocolError, match="more than"):
        list(expand_inner_batch(around, len(body) - 1))


@pytest.mark.parametrize(
    ("body", "sys_flag", "problem"),
    [
        (KNOWN_BYTES[:-1], 0xC0, "batch item at offset 0"),
        (KNOWN_BYTES + b"\0", 0xC0, "batch item at offset 37"),
        (KNOWN_BYTES, 0xC1, "damaged"),
        (zlib.compress(KNOWN_BYTES[:-1]), 0xC1, "batch item at offset 0"),
    ],
)
def test_a_body_that_is_no_batch_is_refused(body: bytes, sys_flag: int, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        list(expand_inner_batch(outer(body, sys_flag), 1000))


def test_an_item_without_a_queue_offset_left_for_it_is_refused() -> None:
    inner = expand_inner_batch(outer(encode_batch(ITEMS), queue_offset=2**63 - 2), 1000)
    assert [next(inner).queue_offset, next(inner).queue_offset] == [2**63 - 2, 2**63 - 1]
    with pytest.raises(RemoteProtocolError, match="item 2 of an inner batch cannot stand alone"):
        next(inner)


@given(st.data())
def test_a_damaged_inner_batch_gives_only_a_remote_protocol_error(data: st.DataObject) -> None:
    body = bytearray(encode_batch(ITEMS))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        assert all(record.crc_ok() for record in expand_inner_batch(outer(bytes(body)), 1000))


def test_a_view_of_something_else_than_bytes_is_no_body() -> None:
    with pytest.raises(LocalProtocolError, match="a body is bytes; this is a view of 'i'"):
        encode_batch([KNOWN._replace(body=memoryview(array("i", [1, 2])))])
