"""A run of stored records -> numpy columns, without decoding one record after the other.

Ingest, recovery, dispatch and the readers of pulled bodies all handle thousands of records at once. Here a record
is a row, and a column is read for all rows in one step, when it is asked for. The layout stands in `message.py`.

Lengths come from outside and may lead anywhere, so `RecordColumns` follows those of every record when it is made:
one that exists holds sound records only, and whatever is read of them lies inside the buffer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hash_columns import Codes, extended, hash_texts
from pocketmq.protocol.hashes import CRC_MASK, crc32, java_hash
from pocketmq.protocol.message import MAGIC_V1, MAGIC_V2
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.spans import Bytes, BytesLike, Ints, Mask, Spans, as_bytes, at_every_byte, read_at, read_lengths

_Number = TypeVar("_Number", np.int32, np.int64)

SMALLEST_RECORD = 91

# The first 88 bytes of a record with IPv4 hosts. Up to the born host those of all records are the same.
HEAD = np.dtype(
    [
        ("total_size", ">i4"),
        ("magic", ">i4"),
        ("crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
        ("born_host", ">i8"),
        ("store_timestamp", ">i8"),
        ("store_host", ">i8"),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_length", ">i4"),
    ]
)

# Where the hosts end, by the two bits of the sys flag that say which of them are of IPv6.
_BORN_HOST_END = np.array([56, 68, 56, 68])
_STORE_HOST_END = np.array([72, 84, 84, 96])

_size_at = struct.Struct(">i").unpack_from


def size_chain(buffer: BytesLike, smallest: int = SMALLEST_RECORD) -> tuple[Ints, int]:
    """Follow the sizes that records begin with, from byte 0 on.

    Returns the starts of the records that fit into the buffer, and where the chain ended: at the end of the
    buffer, or at the first place with a size below `smallest` or beyond the buffer.
    """
    view = as_bytes(buffer).data
    starts: list[int] = []
    position, last = 0, len(view) - smallest
    while position <= last:
        (size,) = _size_at(view, position)
        if size < smallest or size > len(view) - position:
            break
        starts.append(position)
        position += size
    return np.array(starts, np.int64), position


def record_starts(buffer: BytesLike, smallest: int = SMALLEST_RECORD) -> Ints:
    """Where the records of a contiguous run begin. Only their sizes are checked."""
    data = as_bytes(buffer)
    starts, end = size_chain(data, smallest)
    if end != len(data):
        raise RemoteProtocolError(f"record {len(starts)} at byte {end}: its size is impossible or the run is cut short")
    return starts


def sound_records(buffer: BytesLike, starts: Ints) -> Mask:
    """Which places hold a whole record whose lengths agree; of these `RecordColumns` can be made."""
    data = as_bytes(buffer)
    sound = _readable(data, starts)
    sound[sound] = _Shape.of(data, starts[sound]).sound
    return sound


def _readable(data: Bytes, starts: Ints) -> Mask:
    """Which starts leave room for the smallest record."""
    return (starts >= 0) & (starts <= len(data) - SMALLEST_RECORD)


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Where the parts of each record lie. Of a record that is not sound the parts are meaningless."""

    heads: NDArray[np.void]
    total_size: NDArray[np.int32]
    magic: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    bodies: Spans
    topics: Spans
    properties: Spans
    sound: Mask

    @classmethod
    def of(cls, data: Bytes, starts: Ints) -> _Shape:
        """Follow the lengths in every record; all starts must be readable.

        A wrong length leads anywhere behind it. What is read there is found out at the end: the lengths of a sound
        record add up to its size, and the buffer holds that.
        """
        heads = at_every_byte(data, f"V{HEAD.itemsize}")[starts].view(HEAD)
        total_size = heads["total_size"].astype(np.int32)
        magic = heads["magic"].astype(np.int32)
        sys_flag = heads["sys_flag"].astype(np.int32)

        body_start = starts + _STORE_HOST_END[sys_flag >> 4 & 3] + 16
        body_end = body_start + read_lengths(data, ">i4", body_start - 4)
        topic_start = body_end + 1
        topic_length = read_lengths(data, "i1", body_end)
        sound = magic == MAGIC_V1
        if np.count_nonzero(sound) < len(sound):
            # In version 2 the length of the topic takes two bytes.
            v2 = (magic == MAGIC_V2).nonzero()[0]
            topic_start[v2] += 1
            topic_length[v2] = read_lengths(data, ">i2", body_end[v2])
            sound[v2] = True
        topic_end = topic_start + topic_length
        properties_start = topic_end + 2
        properties_end = properties_start + read_lengths(data, ">i2", topic_end)

        sound &= properties_end == starts + total_size
        sound &= properties_end <= len(data)
        return cls(
            heads,
            total_size,
            magic,
            sys_flag,
            Spans(data, body_start, body_end),
            Spans(data, topic_start, topic_end),
            Spans(data, properties_start, properties_end),
            sound,
        )


def _head(name: str, dtype: type[_Number]) -> cached_property[NDArray[_Number]]:
    """A column of fields that have the same place in all records."""
    return cached_property(lambda self: self.heads[name].astype(dtype))


def _int32(anchor: str, offset: int) -> cached_property[NDArray[np.int32]]:
    """A column of int32 fields, `offset` bytes after the anchor."""
    return cached_property(lambda self: read_at(self.data, ">i4", getattr(self, anchor) + offset))


def _int64(anchor: str, offset: int) -> cached_property[NDArray[np.int64]]:
    return cached_property(lambda self: read_at(self.data, ">i8", getattr(self, anchor) + offset))


class RecordColumns:
    """The records that begin at `starts`, by default the whole of the buffer, as columns; row i is record i.

    Raises `RemoteProtocolError`, which names the first bad record, unless all are whole and their lengths agree.
    What the fields say is not checked. Most of the buffer is not copied: it must not change while they are in use.
    """

    def __init__(self, buffer: BytesLike, starts: Ints | None = None) -> None:
        self.data = as_bytes(buffer)
        self.starts = record_starts(self.data) if starts is None else starts
        require(_readable(self.data, self.starts), self.starts, "it is not inside the buffer")
        shape = _Shape.of(self.data, self.starts)
        require(shape.sound, self.starts, "its magic is unknown or its lengths do not agree with its size")
        self.heads = shape.heads
        self.total_size = shape.total_size
        self.magic = shape.magic
        self.sys_flag = shape.sys_flag
        self.bodies = shape.bodies
        self.topics = shape.topics
        self.properties = shape.properties
        self._property_values: dict[bytes, Spans] = {}

    def __len__(self) -> int:
        return len(self.starts)

    crc = _head("crc", np.int32)
    queue_id = _head("queue_id", np.int32)
    flag = _head("flag", np.int32)
    queue_offset = _head("queue_offset", np.int64)
    physical_offset = _head("physical_offset", np.int64)
    born_timestamp = _head("born_timestamp", np.int64)
    store_timestamp = _int64("_born_host_end", 0)
    reconsume_times = _int32("_store_host_end", 0)
    prepared_transaction_offset = _int64("_store_host_end", 4)

    @property
    def _born_host_end(self) -> Ints:
        ends: Ints = self.starts + _BORN_HOST_END[self.sys_flag >> 4 & 3]
        return ends

    @property
    def _store_host_end(self) -> Ints:
        ends: Ints = self.starts + _STORE_HOST_END[self.sys_flag >> 4 & 3]
        return ends

    @property
    def born_hosts(self) -> Spans:
        """Address, 4 or 16 bytes, and port as int32."""
        return Spans(self.data, self.starts + 48, self._born_host_end)

    @property
    def store_hosts(self) -> Spans:
        """Address, 4 or 16 bytes, and port as int32."""
        return Spans(self.data, self._born_host_end + 8, self._store_host_end)

    @cached_property
    def property_columns(self) -> PropertyColumns:
        return PropertyColumns.parse(self.properties)

    def property_column(self, name: bytes) -> Spans:
        """The value of one property in every record; empty where it is absent, for no value is empty."""
        if name not in self._property_values:
            self._property_values[name] = self.property_columns.column(name)
        return self._property_values[name]

    @cached_property
    def topic(self) -> bytes | None:
        """The topic that all records have; None if they differ."""
        return self.topics.common()

    def tags_code(self) -> Ints:
        """What a consume queue keeps of the tags: their hash, 0 without any."""
        return self.property_columns.tags_code()

    def index_hashes(self) -> tuple[Ints, Ints]:
        """What the index files each record under, with its row; see `PropertyColumns`."""
        return self.property_columns.index_hashes(self._index_prefixes())

    def _index_prefixes(self) -> Codes:
        """The hashes of `topic#`."""
        if self.topic is None:
            return extended(hash_texts(self.topics).codes, "#")
        prefix = self.topic.decode("utf-8", "replace") + "#"
        return np.full(len(self), java_hash(prefix) & 0xFFFFFFFF, np.uint32)

    def crc_matches(self) -> Mask:
        """Which bodies have the CRC that their record names."""
        return np.equal(body_crcs(self.bodies), self.crc)


def body_crcs(bodies: Spans) -> NDArray[np.int32]:
    """The CRC of every body, as records hold it."""
    crcs = np.fromiter(map(crc32, bodies.each()), np.uint32, len(bodies))
    return (crcs & CRC_MASK).view(np.int32)


def require(good: Mask, starts: Ints, otherwise: str) -> None:
    """Raise `RemoteProtocolError` with the text `otherwise` for the first record that is not good."""
    if np.count_nonzero(good) < len(good):
        row = np.argmin(good)
        raise RemoteProtocolError(f"record {row} at byte {starts[row]}: {otherwise}")
