"""Columns -> a run of stored records, and the fields that a broker fills in afterwards.

The records are of version 1 with IPv4 hosts (the layout stands in `message.py`). What only the broker knows -
offsets, store time, hosts - is zero in a run just encoded, and `patch_records` writes it into all records at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import SMALLEST_RECORD, body_crcs
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.message import MAGIC_V1, MAX_TOPIC_BYTES_V1
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.spans import Bytes, BytesLike, Ints, Spans, as_bytes, offsets_of, write_at

_LARGEST_RECORD = 2**31 - 1
_IPV6_HOSTS = MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6


def encode_records(
    topic: bytes,
    queue_id: int,
    bodies: Spans,
    properties: Spans,
    *,
    born_timestamp: ArrayLike,
    flag: ArrayLike = 0,
    sys_flag: ArrayLike = 0,
    reconsume_times: ArrayLike = 0,
) -> tuple[Bytes, Ints]:
    """One record for each body, back to back, and their lengths. A field is one number for all or for each."""
    lengths = _record_lengths(topic, bodies, properties)
    if np.any(np.bitwise_and(sys_flag, _IPV6_HOSTS)):
        raise LocalProtocolError("records with IPv6 hosts cannot be encoded as columns")

    offsets = offsets_of(lengths)
    starts = offsets[:-1]
    run = np.zeros(offsets[-1], np.uint8)
    write_at(run, ">i4", starts, lengths)
    write_at(run, ">i4", starts + 4, MAGIC_V1)
    write_at(run, ">i4", starts + 8, body_crcs(bodies))
    write_at(run, ">i4", starts + 12, _fitting("queue id", queue_id, np.int32))
    write_at(run, ">i4", starts + 16, _fitting("flag", flag, np.int32))
    write_at(run, ">i4", starts + 36, _fitting("sys flag", sys_flag, np.int32))
    write_at(run, ">i8", starts + 40, _fitting("born timestamp", born_timestamp, np.int64))
    write_at(run, ">i4", starts + 72, _fitting("reconsume times", reconsume_times, np.int32))
    write_at(run, ">i4", starts + 84, bodies.lengths)
    bodies.copy_to(run, starts + 88)
    topic_at = starts + 88 + bodies.lengths
    write_at(run, f"V{1 + len(topic)}", topic_at, np.void(bytes([len(topic)]) + topic))
    properties_at = topic_at + 1 + len(topic)
    write_at(run, ">i2", properties_at, properties.lengths)
    properties.copy_to(run, properties_at + 2)
    return run, lengths


def patch_records(
    buffer: BytesLike,
    starts: Ints,
    *,
    queue_offset: ArrayLike,
    physical_offset: ArrayLike,
    store_timestamp: ArrayLike,
    born_host: bytes,
    store_host: bytes,
) -> None:
    """Fill in what the broker knows, in a writable buffer with version 1 records and IPv4 hosts at `starts`.

    A host is given as its address, 4 bytes, and its port as int32. The time and the physical offset come last: if the
    buffer is a file and the process ends on the way, no record without them is taken for a good one.
    """
    data = as_bytes(buffer)
    write_at(data, ">i8", starts + 20, queue_offset)
    write_at(data, "V8", starts + 48, np.void(born_host))
    write_at(data, "V8", starts + 64, np.void(store_host))
    write_at(data, ">i8", starts + 56, store_timestamp)
    write_at(data, ">i8", starts + 28, physical_offset)


def _record_lengths(topic: bytes, bodies: Spans, properties: Spans) -> Ints:
    """The sizes of the records, once all their parts are found to fit."""
    if len(topic) > MAX_TOPIC_BYTES_V1:
        raise LocalProtocolError(
            f"topic of {len(topic)} bytes; a record of version 1 holds at most {MAX_TOPIC_BYTES_V1}"
        )
    if len(bodies) != len(properties):
        raise LocalProtocolError(f"{len(bodies)} bodies but {len(properties)} properties")
    if (excess := properties.lengths > MAX_PROPERTIES_BYTES).any():
        raise LocalProtocolError(f"properties of message {excess.argmax()} exceed {MAX_PROPERTIES_BYTES} bytes")
    lengths = SMALLEST_RECORD + len(topic) + bodies.lengths + properties.lengths
    if (excess := lengths > _LARGEST_RECORD).any():
        raise LocalProtocolError(f"message {excess.argmax()} is too large for a record")
    return lengths


def _fitting(name: str, values: ArrayLike, dtype: type[np.signedinteger]) -> NDArray[np.signedinteger]:
    """The values as numbers of that type; numpy alone would wrap the ones that do not fit."""
    numbers, limits = np.asarray(values), np.iinfo(dtype)
    if np.any((numbers < limits.min) | (numbers > limits.max)):
        raise LocalProtocolError(f"{name} does not fit into {limits.bits} bits")
    return numbers.astype(dtype)
