"""The message record: what a commit log stores and what a pull brings, byte for byte the same.

     0 total size i32   20 queue offset i64      48 born host            76 prepared transaction offset i64
     4 magic i32        28 physical offset i64   56 store timestamp i64  84 body length i32, body
     8 body CRC i32     36 sys flag i32          64 store host           .. topic length i8 (v2: i16), topic
    12 queue id i32     40 born timestamp i64    72 reconsume times i32  .. properties length i16, properties
    16 flag i32

A host is its IP and an i32 port. The offsets are those of IPv4 hosts; a bit of the sys flag marks an IPv6
one, which is 12 bytes longer and moves all that follows. Version 2 is for topics that version 1 has no room
for: old readers do not know it, so shorter topics never use it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.command import Buffer, check_buffer
from pocketmq.protocol.compression import decompress
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.hashes import CRC_MASK, body_crc, crc32
from pocketmq.protocol.ids import Host, encode_offset_id, pack_host, unpack_host
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES, Property, decode_properties

# Magic numbers as the signed integers that they are in the record.
MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
MAGIC_BLANK: Final = 0xCBD43194 - (1 << 32)

# The lengths of topics are signed as well.
MAX_TOPIC_BYTES_V1: Final = 127
MAX_TOPIC_BYTES_V2: Final = 32767

_SYS_FLAG_LAST_BYTE = 39
_BORN_HOST_V6 = int(MessageFlag.BORN_HOST_V6)
_STORE_HOST_V6 = int(MessageFlag.STORE_HOST_V6)
_HOSTS_V6 = _BORN_HOST_V6 | _STORE_HOST_V6


def _fixed_part(hosts_v6: int) -> struct.Struct:
    """Everything up to and including the body length."""
    born, store = (20 if hosts_v6 & bit else 8 for bit in (_BORN_HOST_V6, _STORE_HOST_V6))
    return struct.Struct(f">iiiiiqqiq{born}sq{store}siqi")


_FIXED_PARTS = {hosts_v6: _fixed_part(hosts_v6) for hosts_v6 in (0, _BORN_HOST_V6, _STORE_HOST_V6, _HOSTS_V6)}
_TOPIC_LENGTHS = {MAGIC_V1: struct.Struct(">b"), MAGIC_V2: struct.Struct(">h")}
_PROPERTIES_LENGTH = struct.Struct(">h")
_pack_length = _PROPERTIES_LENGTH.pack


class MessageRecord(NamedTuple):
    """The content of a record; a tuple because those are quickly made, and every message stored takes one."""

    topic: str
    body: Buffer
    queue_id: int
    born_timestamp: int
    born_host: Host
    store_timestamp: int
    store_host: Host
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    properties_text: str = ""


def encode_record(record: MessageRecord) -> bytes:
    """The bytes of a record. CRC, lengths, version and the IPv6 bits of the sys flag follow from the content."""
    return encode_record_at(record, record.queue_offset, record.physical_offset, record.store_timestamp)


def encode_record_at(record: MessageRecord, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes:
    """The bytes of a record with these three values, which only the store knows, instead of its own."""
    topic, body, queue_id, born_timestamp, born, _, store, flag, _, _, sys_flag, reconsumed, prepared, text = record
    if type(body) is not bytes:
        check_buffer(body)
    properties = text.encode("utf-8", "replace")
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise LocalProtocolError(f"properties of {len(properties)} bytes are too long")
    pack, size, magic, topic_field, hosts_v6, born_host, store_host = _frame_of(topic, born, store)
    try:
        fixed = pack(
            size + len(body) + len(properties),
            magic,
            crc32(body) & CRC_MASK,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag & ~_HOSTS_V6 | hosts_v6,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsumed,
            prepared,
            len(body),
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number is too large for its field in the record: {error}") from error
    return b"".join((fixed, body, topic_field, _pack_length(len(properties)), properties))


@lru_cache(maxsize=4096)
def _frame_of(topic: str, born: Host, store: Host) -> tuple[Callable[..., bytes], int, int, bytes, int, bytes, bytes]:
    """What follows from topic and hosts: how the fixed part is packed, the size of a record without body and
    properties, the magic, the topic with its length, the IPv6 bits and both hosts."""
    name = topic.encode("utf-8", "replace")
    if len(name) > MAX_TOPIC_BYTES_V2:
        raise LocalProtocolError(f"a topic of {len(name)} bytes is too long")
    magic = MAGIC_V1 if len(name) <= MAX_TOPIC_BYTES_V1 else MAGIC_V2
    topic_field = _TOPIC_LENGTHS[magic].pack(len(name)) + name
    born_host, store_host = pack_host(born), pack_host(store)
    hosts_v6 = (len(born_host) == 20 and _BORN_HOST_V6) | (len(store_host) == 20 and _STORE_HOST_V6)
    fixed_part = _FIXED_PARTS[hosts_v6]
    size = fixed_part.size + len(topic_field) + _PROPERTIES_LENGTH.size
    return fixed_part.pack, size, magic, topic_field, hosts_v6, born_host, store_host


@dataclass(slots=True, eq=False, repr=False)
class RecordView:
    """A record where it lies in a buffer, which it keeps alive. Made by `decode_record`, never changed.

    The numbers are at hand: reading them all costs no more than finding the lengths among them. Text, hosts and
    properties are decoded when they are asked for.
    """

    _buffer: memoryview
    start: int
    # Where the parts of variable length begin in the buffer.
    _body_start: int
    _topic_start: int
    _properties_start: int
    # The fixed part, in the order of the record.
    size: int
    magic: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    _born_host: bytes
    store_timestamp: int
    _store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    _body_length: int
    _properties: Mapping[str, str] | None = None

    @property
    def body(self) -> memoryview:
        """The body as it is stored, possibly compressed; not a copy."""
        return self._buffer[self._body_start : self._body_start + self._body_length]

    @property
    def topic(self) -> str:
        topic_end = self._properties_start - _PROPERTIES_LENGTH.size
        return str(self._buffer[self._topic_start : topic_end], "utf-8", "replace")

    @property
    def properties_text(self) -> str:
        return str(self._buffer[self._properties_start : self.start + self.size], "utf-8", "replace")

    @property
    def properties(self) -> Mapping[str, str]:
        if self._properties is None:
            self._properties = decode_properties(self.properties_text)
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(Property.TAGS)

    @property
    def keys(self) -> list[str]:
        return [key for key in self.properties.get(Property.KEYS, "").split(" ") if key]

    @property
    def born_host(self) -> Host:
        return unpack_host(self._born_host)

    @property
    def store_host(self) -> Host:
        return unpack_host(self._store_host)

    @property
    def offset_id(self) -> str:
        return encode_offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The id that consumers show: the producer's if it gave one."""
        return self.properties.get(Property.UNIQ_KEY) or self.offset_id

    def crc_ok(self) -> bool:
        return body_crc(self.body) == self.crc

    def decompressed_body(self, limit: int) -> bytes:
        """The body as its producer gave it; one that inflates to more than `limit` bytes is refused."""
        return decompress(self.body, self.sys_flag, limit)

    def to_record(self) -> MessageRecord:
        """The content, independent of the buffer."""
        return MessageRecord(
            topic=self.topic,
            body=bytes(self.body),
            queue_id=self.queue_id,
            born_timestamp=self.born_timestamp,
            born_host=self.born_host,
            store_timestamp=self.store_timestamp,
            store_host=self.store_host,
            flag=self.flag,
            queue_offset=self.queue_offset,
            physical_offset=self.physical_offset,
            sys_flag=self.sys_flag,
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
            properties_text=self.properties_text,
        )

    def __repr__(self) -> str:
        return f"<RecordView {self.topic!r} queue {self.queue_id} offset {self.queue_offset}, {self.size} bytes>"


def decode_record(buffer: Buffer, offset: int = 0) -> RecordView:
    """The record that begins at `offset`, once its parts are known to fill it exactly; more may follow."""
    view = memoryview(buffer)
    available = len(view) - offset
    # Either host may be longer than in the shortest fixed part, whose end is beyond the flag that says so.
    if available < _FIXED_PARTS[0].size:
        raise _bad_record(offset, f"only {available} bytes are left")
    fixed_part = _FIXED_PARTS[view[offset + _SYS_FLAG_LAST_BYTE] & _HOSTS_V6]
    if available < fixed_part.size:
        raise _bad_record(offset, f"only {available} bytes are left")
    fixed = fixed_part.unpack_from(view, offset)
    size, magic, body_length = fixed[0], fixed[1], fixed[-1]

    topic_length_field = _TOPIC_LENGTHS.get(magic)
    if topic_length_field is None:
        what = "filler of a commit log" if magic == MAGIC_BLANK else "unknown magic number"
        raise _bad_record(offset, f"{what} {magic & 0xFFFFFFFF:#x}")
    if size > available:
        raise _bad_record(offset, f"only {available} of {size} bytes are left")

    end = offset + size
    body_start = offset + fixed_part.size
    topic_start = body_start + body_length + topic_length_field.size
    if body_length < 0 or topic_start > end:
        raise _bad_record(offset, f"a body of {body_length} bytes does not fit into {size}")
    (topic_length,) = topic_length_field.unpack_from(view, body_start + body_length)
    properties_start = topic_start + topic_length + _PROPERTIES_LENGTH.size
    if topic_length < 0 or properties_start > end:
        raise _bad_record(offset, f"a topic of {topic_length} bytes does not fit into {size}")
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(view, properties_start - _PROPERTIES_LENGTH.size)
    if properties_start + properties_length != end:
        raise _bad_record(offset, f"properties of {properties_length} bytes do not end where the record does")
    return RecordView(view, offset, body_start, topic_start, properties_start, *fixed)


def iter_records(buffer: Buffer) -> Iterator[RecordView]:
    """The records that fill a buffer, as in the body of a pull response."""
    view = memoryview(buffer)
    offset = 0
    while offset < len(view):
        record = decode_record(view, offset)
        yield record
        offset += record.size


def _bad_record(offset: int, problem: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"record at offset {offset}: {problem}")
