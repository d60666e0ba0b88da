"""Batch bodies: several messages for one queue in the body of one send.

Each item is: total size i32, magic i32 and CRC i32 (both zero and never looked at), flag i32, body length i32,
body, properties length i16, properties. The broker stores every item as a record of its own, except in the inner
batches of 5.x, where the whole batch is the body of a single record that consumers take apart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.command import Buffer, check_buffer
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.message import RecordView, decode_record, encode_record
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES

_HEAD = struct.Struct(">iiiii")
_PROPERTIES_LENGTH = struct.Struct(">h")
_SMALLEST = _HEAD.size + _PROPERTIES_LENGTH.size

# What an item does not inherit from the record around it: it is neither a batch nor compressed.
_OUTER_BITS = int(
    MessageFlag.NEED_UNWRAP | MessageFlag.INNER_BATCH | MessageFlag.COMPRESSED | MessageFlag.COMPRESSION_MASK
)


class BatchItem(NamedTuple):
    """One message of a batch."""

    body: Buffer
    properties_text: str = ""
    flag: int = 0


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """The body of a batch send."""
    return b"".join(part for item in items for part in _encode_item(item))


def _encode_item(item: BatchItem) -> tuple[Buffer, ...]:
    check_buffer(item.body)
    properties = item.properties_text.encode("utf-8", "replace")
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise LocalProtocolError(f"properties of {len(properties)} bytes are too long")
    size = _SMALLEST + len(item.body) + len(properties)
    try:
        head = _HEAD.pack(size, 0, 0, item.flag, len(item.body))
    except struct.error as error:
        raise LocalProtocolError(f"a number is too large for its field in the batch: {error}") from error
    return head, item.body, _PROPERTIES_LENGTH.pack(len(properties)), properties


def decode_batch(body: Buffer) -> list[BatchItem]:
    """The messages of a batch, whose lengths must add up to the length of the body."""
    view = memoryview(body)
    items = []
    offset = 0
    while offset < len(view):
        item, offset = _decode_item(view, offset)
        items.append(item)
    return items


def _decode_item(view: memoryview, offset: int) -> tuple[BatchItem, int]:
    """The item at an offset, and the offset behind it."""
    available = len(view) - offset
    if available < _SMALLEST:
        raise _bad_item(offset, f"only {available} bytes are left")
    size, _, _, flag, body_length = _HEAD.unpack_from(view, offset)
    if size > available:
        raise _bad_item(offset, f"only {available} of {size} bytes are left")
    end = offset + size
    body_start = offset + _HEAD.size
    body_end = body_start + body_length
    properties_start = body_end + _PROPERTIES_LENGTH.size
    if body_length < 0 or properties_start > end:
        raise _bad_item(offset, f"a body of {body_length} bytes does not fit into {size}")
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(view, body_end)
    if properties_start + properties_length != end:
        raise _bad_item(offset, f"properties of {properties_length} bytes do not end where the item does")
    properties_text = str(view[properties_start:end], "utf-8", "replace")
    return BatchItem(bytes(view[body_start:body_end]), properties_text, flag), end


def _bad_item(offset: int, problem: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"batch item at offset {offset}: {problem}")


def expand_inner_batch(outer: RecordView, limit: int) -> Iterator[RecordView]:
    """The messages inside a record that is an inner batch, each as a record at its own queue offset.

    The batch may be compressed as a whole; it may inflate to `limit` bytes.
    """
    template = outer.to_record()._replace(sys_flag=outer.sys_flag & ~_OUTER_BITS, reconsume_times=0)
    for number, item in enumerate(decode_batch(outer.decompressed_body(limit))):
        record = template._replace(**item._asdict(), queue_offset=outer.queue_offset + number)
        try:
            yield decode_record(encode_record(record))
        except LocalProtocolError as error:
            raise RemoteProtocolError(f"item {number} of an inner batch cannot stand alone: {error}") from error
