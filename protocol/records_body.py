"""The two request bodies that carry many messages, as columns.

SEND_RECORDS (between PocketMQ's client and broker): the sizes of the records as int32, then the records, laid out
just as they are stored but for the fields that the broker fills in, which are zero.

SEND_BATCH_MESSAGE (RocketMQ's own): items back to back, laid out as `batch.py` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import HEAD, SMALLEST_RECORD, RecordColumns, record_starts, require
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.message import MAGIC_V1
from pocketmq.protocol.spans import (
    Bytes,
    BytesLike,
    Ints,
    Mask,
    Spans,
    as_bytes,
    offsets_of,
    read_at,
    read_lengths,
)

_REFUSED_FLAGS = int(MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6 | MessageFlag.TRANSACTION_MASK)

# The bits of the first fields of a record that only the broker fills in.
_BROKER_FIELDS = np.zeros(1, HEAD)
_BROKER_FIELDS[["queue_offset", "physical_offset", "prepared_transaction_offset"]] = -1
_BROKER_FIELDS[["born_host", "store_timestamp", "store_host"]] = -1

_SMALLEST_ITEM = 22


def pack_records_body(run: Bytes, lengths: Ints) -> bytes:
    """The body of SEND_RECORDS for a run from `encode_records`."""
    return b"".join((lengths.astype(">i4").data, run.data))


def unpack_records_body(body: BytesLike, count: int, topic: bytes, queue_id: int) -> RecordColumns:
    """The records of a SEND_RECORDS request for that topic and queue.

    Raises `RemoteProtocolError`, which names the first bad record, unless all may be stored as they are.
    """
    data = as_bytes(body)
    sizes = _declared_sizes(data, count)
    columns = RecordColumns(data, 4 * count + offsets_of(sizes)[:-1])
    for good, otherwise in _checks(columns, sizes, topic, queue_id):
        require(good, columns.starts, otherwise)
    return columns


def _checks(columns: RecordColumns, sizes: Ints, topic: bytes, queue_id: int) -> Iterator[tuple[Mask, str]]:
    """Which records pass each check, and what is wrong with one that does not."""
    yield columns.total_size == sizes, "its size is not the declared one"
    yield columns.magic == MAGIC_V1, "it is not of version 1"
    yield columns.sys_flag & _REFUSED_FLAGS == 0, "its hosts are not IPv4 or it is part of a transaction"
    filled_in = columns.heads.view(np.uint64).reshape(len(columns), -1) & _BROKER_FIELDS.view(np.uint64)
    if np.count_nonzero(filled_in):
        yield np.logical_not(filled_in).all(axis=1), "a field that the broker fills in is not zero"
    yield columns.queue_id == queue_id, f"its queue is not {queue_id}"
    if columns.topic != topic:
        yield columns.topics.equal(topic), f"its topic is not {topic!r}"
    yield columns.property_column(b"UNIQ_KEY").present, "it has no UNIQ_KEY"
    yield _on_time(columns), "it asks for a later delivery"
    yield columns.crc_matches(), "its body does not have its CRC"


def _declared_sizes(data: Bytes, count: int) -> Ints:
    """The sizes in front of the records; together they fill the body."""
    if not 0 < count <= len(data) // (4 + SMALLEST_RECORD):
        raise RemoteProtocolError(f"a body of {len(data)} bytes cannot hold {count} records")
    sizes = data[: 4 * count].view(">i4").astype(np.int64)
    if sizes.sum() != len(data) - 4 * count:
        raise RemoteProtocolError(f"the records take {len(data) - 4 * count} bytes, not {sizes.sum()} as declared")
    return sizes


def _on_time(columns: RecordColumns) -> Mask:
    """Which records have no property that asks for a later delivery."""
    properties = columns.property_columns
    on_time = np.ones(len(columns), np.bool_)
    for pairs in (properties.find(b"DELAY"), properties.find_heads(b"TIMER_")):
        on_time[properties.rows[pairs]] = False
    return on_time


@dataclass(frozen=True, slots=True, eq=False)
class BatchColumns:
    """The messages of a batch; `encode_records` makes stored records of them."""

    flag: NDArray[np.int32]
    bodies: Spans
    properties: Spans


def batch_columns(body: BytesLike) -> BatchColumns:
    """The items of a SEND_BATCH_MESSAGE request; `RemoteProtocolError` names the first bad one."""
    data = as_bytes(body)
    starts = record_starts(data, _SMALLEST_ITEM)
    body_start = starts + 20
    body_end = body_start + read_lengths(data, ">i4", starts + 16)
    properties_start = body_end + 2
    properties_end = properties_start + read_lengths(data, ">i2", body_end)
    good = properties_end == starts + read_at(data, ">i4", starts)
    require(good, starts, "its lengths do not agree with its size")
    return BatchColumns(
        read_at(data, ">i4", starts + 12),
        Spans(data, body_start, body_end),
        Spans(data, properties_start, properties_end),
    )
