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

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hashes import body_crc, java_hash_bytes
from pocketmq.protocol.message import MAGIC_V1, MAGIC_V2
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.spans import Bytes, BytesLike, Ints, Mask, Spans, as_bytes, read_at, read_clipped

SMALLEST_RECORD = 91

_IPV6_EXTRA = 12
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

    total_size: NDArray[np.int32]
    magic: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    born_host_end: Ints
    store_host_end: Ints
    bodies: Spans
    topics: Spans
    properties: Spans
    sound: Mask

    @classmethod
    def of(cls, data: Bytes, starts: Ints) -> _Shape:
        """Follow the lengths in every record; all starts must be readable.

        A wrong length leads anywhere. Such a place is moved into the buffer, read, and found out at the end: in
        a sound record no length is negative and all add up to a size that the buffer holds, so none was moved.
        """
        total_size = read_at(data, ">i4", starts)
        magic = read_at(data, ">i4", starts + 4)
        sys_flag = read_at(data, ">i4", starts + 36)
        v2 = magic == MAGIC_V2

        born_host_end = starts + 56 + _IPV6_EXTRA * (sys_flag & MessageFlag.BORN_HOST_V6 != 0)
        store_host_end = born_host_end + 16 + _IPV6_EXTRA * (sys_flag & MessageFlag.STORE_HOST_V6 != 0)
        body_start = store_host_end + 16
        body_end = body_start + read_clipped(data, ">i4", body_start - 4)
        # In v2 the length of the topic takes two bytes, in v1 only the first of these two.
        topic_start = body_end + 1 + v2
        topic_end = topic_start + (read_clipped(data, ">i2", body_end) >> np.where(v2, 0, 8))
        properties_start = topic_end + 2
        properties_end = properties_start + read_clipped(data, ">i2", topic_end)

        sound = v2 | (magic == MAGIC_V1)
        sound &= (body_start <= body_end) & (topic_start <= topic_end) & (properties_start <= properties_end)
        sound &= (properties_end == starts + total_size) & (properties_end <= len(data))
        return cls(
            total_size,
            magic,
            sys_flag,
            born_host_end,
            store_host_end,
            Spans(data, body_start, body_end),
            Spans(data, topic_start, topic_end),
            Spans(data, properties_start, properties_end),
            sound,
        )


def _int32(anchor: str, offset: int) -> cached_property[NDArray[np.int32]]:
    """A column of int32 fields, `offset` bytes after the anchor."""
    return cached_property(lambda self: read_at(self.data, ">i4", getattr(self, anchor) + offset))


def _int64(anchor: str, offset: int) -> cached_property[NDArray[np.int64]]:
    return cached_property(lambda self: read_at(self.data, ">i8", getattr(self, anchor) + offset))


class RecordColumns:
    """The records that begin at `starts`, by default the whole of the buffer, as columns; row i is record i.

    Raises `RemoteProtocolError`, which names the first bad record, unless all are whole and their lengths agree.
    What the fields say is not checked. The buffer is not copied: it must not change while the columns are in use.
    """

    def __init__(self, buffer: BytesLike, starts: Ints | None = None) -> None:
        self.data = as_bytes(buffer)
        self.starts = record_starts(self.data) if starts is None else starts
        require(_readable(self.data, self.starts), self.starts, "it is not inside the buffer")
        shape = _Shape.of(self.data, self.starts)
        require(shape.sound, self.starts, "its magic is unknown or its lengths do not agree with its size")
        self.total_size = shape.total_size
        self.magic = shape.magic
        self.sys_flag = shape.sys_flag
        self.bodies = shape.bodies
        self.topics = shape.topics
        self.properties = shape.properties
        self._born_host_end = shape.born_host_end
        self._store_host_end = shape.store_host_end

    def __len__(self) -> int:
        return len(self.starts)

    crc = _int32("starts", 8)
    queue_id = _int32("starts", 12)
    flag = _int32("starts", 16)
    queue_offset = _int64("starts", 20)
    physical_offset = _int64("starts", 28)
    born_timestamp = _int64("starts", 40)
    store_timestamp = _int64("_born_host_end", 0)
    reconsume_times = _int32("_store_host_end", 0)
    prepared_transaction_offset = _int64("_store_host_end", 4)

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
        return self.property_columns.column(name)

    def tags_code(self) -> Ints:
        """What a consume queue keeps of the tags: their hash, 0 without any."""
        tags = self.property_column(b"TAGS")
        return java_hash_bytes(tags.data, tags.starts, tags.ends).astype(np.int64)

    def index_keys(self) -> tuple[Ints, Spans]:
        """The keys for the index, each with its row: of every record its unique key, then its KEYS in order."""
        unique = self.property_column(b"UNIQ_KEY")
        unique_rows = np.flatnonzero(unique.present)
        key_rows, keys = self.property_column(b"KEYS").split(b" ")
        rows = np.concatenate((unique_rows, key_rows))
        order = np.argsort(rows, kind="stable")
        return rows[order], unique[unique_rows].followed_by(keys)[order]

    def crc_matches(self) -> Mask:
        """Which bodies have the CRC that their record names."""
        return np.equal(body_crcs(self.bodies), self.crc)


def body_crcs(bodies: Spans) -> NDArray[np.int32]:
    """The CRC of every body, as records hold it."""
    return np.fromiter(map(body_crc, bodies.views()), np.int32, len(bodies))


def require(good: Mask, starts: Ints, otherwise: str) -> None:
    """Raise `RemoteProtocolError` with the text `otherwise` for the first record that is not good."""
    if not good.all():
        row = np.argmin(good)
        raise RemoteProtocolError(f"record {row} at byte {starts[row]}: {otherwise}")
