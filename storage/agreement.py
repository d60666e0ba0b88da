"""Whether entries of a queue lead to their records: those that have their topic, queue, number, place and size."""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import HEAD, SMALLEST_RECORD, RecordColumns, sound_records
from pocketmq.protocol.message import MAGIC_V1, MAX_TOPIC_BYTES_V1
from pocketmq.protocol.spans import Bytes, Ints, Mask, at_every_byte
from pocketmq.storage.consume_queue import Entries

_Words = NDArray[np.uint32]


def _words(values: NDArray[Any]) -> _Words:
    """What values are made of, as they lie in memory, 4 bytes at a time; a row for each value."""
    return values.view(np.uint32).reshape(len(values), -1)


def _word(number: int) -> int:
    """What a number of the log is, taken as it lies there."""
    return int.from_bytes(struct.pack(">i", number), sys.byteorder)


def _place(field: str) -> int:
    """Which word of a record a field of its head begins with."""
    return int(HEAD.fields[field][1]) // 4 if HEAD.fields else 0


_SIZE: Final = _place("total_size")
_MAGIC: Final = _place("magic")
_QUEUE_ID: Final = _place("queue_id")
_QUEUE_OFFSET: Final = _place("queue_offset")
_PHYSICAL_OFFSET: Final = _place("physical_offset")
_SYS_FLAG: Final = _place("sys_flag")

_MAGIC_WORD: Final = _word(MAGIC_V1)
_IPV6_HOSTS_WORD: Final = _word(int(MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6))


def all_agree(
    data: Bytes, places: Ints, entries: Entries, sizes: Ints, numbers: Ints, topic: bytes, queue: int
) -> bool:
    """Whether all entries lead to their records, which are of version 1 and have IPv4 hosts, as nearly all have.

    `places` are where the records begin in `data`, in which all of these must lie. What is compared are words as they
    lie in queue and log.
    """
    if len(topic) > MAX_TOPIC_BYTES_V1 or int(sizes.min()) < SMALLEST_RECORD or int((places + sizes).max()) > len(data):
        return False
    heads = at_every_byte(data, f"V{HEAD.itemsize}")[places]
    head, entry, number = _words(heads), _words(entries), _words(numbers.astype(">i8"))
    differs = head[:, _SYS_FLAG] & _IPV6_HOSTS_WORD
    for place, expected in (
        (_SIZE, entry[:, 2]),
        (_MAGIC, _MAGIC_WORD),
        (_QUEUE_ID, _word(queue)),
        (_QUEUE_OFFSET, number[:, 0]),
        (_QUEUE_OFFSET + 1, number[:, 1]),
        (_PHYSICAL_OFFSET, entry[:, 0]),
        (_PHYSICAL_OFFSET + 1, entry[:, 1]),
    ):
        differs |= head[:, place] ^ expected
    if differs.any():
        return False
    topic_field = bytes([len(topic)]) + topic
    body_lengths = heads.view(HEAD)["body_length"].astype(np.int64)
    properties_lengths = sizes - body_lengths - (HEAD.itemsize + len(topic_field) + 2)
    if int(body_lengths.min()) < 0 or int(properties_lengths.min()) < 0:
        return False
    topics_at = places + body_lengths + HEAD.itemsize
    if at_every_byte(data, f"V{len(topic_field)}")[topics_at].tobytes() != topic_field * len(places):
        return False
    return bool((at_every_byte(data, ">i2")[topics_at + len(topic_field)] == properties_lengths).all())


def which_agree(data: Bytes, places: Ints, offsets: Ints, sizes: Ints, numbers: Ints, topic: bytes, queue: int) -> Mask:
    """Which entries lead to their records, whatever these are."""
    rows = np.flatnonzero(places + sizes <= len(data))
    rows = rows[sound_records(data, places[rows])]
    columns = RecordColumns(data, places[rows])
    agree = (columns.total_size == sizes[rows]) & (columns.physical_offset == offsets[rows])
    agree &= (columns.queue_id == queue) & (columns.queue_offset == numbers[rows])
    good = np.zeros(len(places), np.bool_)
    good[rows] = agree & columns.topics.equal(topic)
    return good
