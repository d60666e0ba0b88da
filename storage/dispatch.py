"""From records to the entries of queues and index.

A message that is appended alone gives its entries as plain numbers, many of them (a batch, a recovered stretch of
the log) as columns. Either way they are collected in a `Burst` and reach the index together, in one vectorised step:
that costs a fraction of as many single ones. Readers see a message only after that.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hashes import hash_texts, index_key_hash, tags_code
from pocketmq.protocol.message import MessageRecord
from pocketmq.protocol.spans import Ints, Mask
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC, Delays, deliver_timestamp
from pocketmq.storage.key_hashes import TO_BE_HASHED

_TRANSACTION_MASK = int(MessageFlag.TRANSACTION_MASK)
_TRANSACTION_PREPARED = int(MessageFlag.TRANSACTION_PREPARED)
# Tags that a queue remembers the hashes of. Few topics use more; who sends more pays with a little time.
_REMEMBERED_TAGS = 1024

# The properties that queues and index are interested in. The last of two with one name counts, as everywhere.
_find_wanted = re.compile("\x02(TAGS|KEYS|UNIQ_KEY|DELAY)\x01([^\x02]+)").findall

_Flags = TypeVar("_Flags", int, NDArray[np.int32])


def has_queue_entry(sys_flag: _Flags) -> Any:
    """Whether messages have a place in their queue: half messages and their roll-backs do not."""
    return sys_flag & _TRANSACTION_PREPARED == 0


def is_indexed(sys_flag: _Flags) -> Any:
    """Whether the keys of messages are in the index: all but those of a roll-back."""
    return sys_flag & _TRANSACTION_MASK != _TRANSACTION_MASK


def _hash_tag(queue: ConsumeQueue, tag: str) -> tuple[int, int]:
    """What the queue keeps of a tag that it does not remember, and where the index files it."""
    if len(queue.tags) >= _REMEMBERED_TAGS:
        queue.tags.clear()
    hashes = queue.tags[tag] = tags_code(tag), index_key_hash(f"{queue.index_prefix}T#{tag}")
    return hashes


class Burst:
    """What was appended since the last time that anything was published."""

    __slots__ = ("end", "last", "queues", "rows", "texts", "timestamp")

    def __init__(self) -> None:
        self.last = 0  # where the last record begins
        self.end = 0  # and where it ends: nothing that lies before is in a later burst
        self.timestamp = 0
        self.queues: dict[ConsumeQueue, int] = {}  # how far each queue can be read once this is published
        self.rows = array("q")  # hash, physical offset and time of each index entry
        self.texts: list[str] = []  # for the entries whose hash is TO_BE_HASHED, in order

    def __bool__(self) -> bool:
        return self.end > 0

    def note_end(self, last: int, end: int, timestamp: int) -> None:
        self.last, self.end, self.timestamp = last, end, timestamp

    def add_columns(self, hashes: Ints, physical_offsets: Ints, timestamp: int) -> None:
        """Add index entries of many messages."""
        rows = np.empty((len(hashes), 3), np.int64)
        rows[:, 0] = hashes
        rows[:, 1] = physical_offsets
        rows[:, 2] = timestamp
        self.rows.frombytes(rows.data.cast("B"))

    def join(self, other: Burst) -> None:
        """Take over what the next burst holds."""
        self.note_end(other.last, other.end, other.timestamp)
        self.queues.update(other.queues)
        self.rows.extend(other.rows)
        self.texts.extend(other.texts)

    def forget(self, topic: str) -> None:
        """Leave out a topic that was deleted. Its index entries lead nowhere then, like those in the index."""
        self.queues = {queue: end for queue, end in self.queues.items() if queue.topic != topic}


def note(
    burst: Burst,
    queue: ConsumeQueue,
    record: MessageRecord,
    physical_offset: int,
    size: int,
    store_timestamp: int,
    delays: Delays,
    index: bool,
) -> None:
    """Enter a message that was appended alone: into its queue, and with its keys into the burst."""
    unique = tag = keys = level = ""
    for name, value in _find_wanted("\x02" + record.properties_text):
        if name == "UNIQ_KEY":
            unique = value
        elif name == "TAGS":
            tag = value
        elif name == "KEYS":
            keys = value
        else:
            level = value
    tags_code, tag_hash = (queue.tags.get(tag) or _hash_tag(queue, tag)) if tag else (0, 0)
    sys_flag = record.sys_flag
    if not sys_flag & _TRANSACTION_PREPARED:
        if level and queue.topic == SCHEDULE_TOPIC:
            tags_code = scheduled_code(level, tags_code, delays, store_timestamp)
        queue.append(physical_offset, size, tags_code)
        burst.queues[queue] = queue.end
    if index and sys_flag & _TRANSACTION_MASK != _TRANSACTION_MASK:
        rows = burst.rows
        if unique:
            burst.texts.append(queue.index_prefix + unique)
            rows.extend((TO_BE_HASHED, physical_offset, store_timestamp))
        if keys:
            for key in keys.split(" "):
                if key:
                    burst.texts.append(queue.index_prefix + key)
                    rows.extend((TO_BE_HASHED, physical_offset, store_timestamp))
        if tag:
            rows.extend((tag_hash, physical_offset, store_timestamp))
    burst.last, burst.end, burst.timestamp = physical_offset, physical_offset + size, store_timestamp


def scheduled_code(level: str, tags_code: int, delays: Delays, store_timestamp: int) -> int:
    """What a queue of the schedule topic keeps instead of the tag: when the message is due."""
    if level.isdecimal() and int(level) > 0:
        return deliver_timestamp(delays, int(level), store_timestamp)
    return tags_code


def entry_tags(columns: RecordColumns, delays: Delays) -> Ints:
    """What queues keep of the tags; in the schedule topic the time at which a message is due instead."""
    codes = columns.tags_code()
    scheduled = np.flatnonzero(columns.topics.equal(SCHEDULE_TOPIC.encode()))
    if len(scheduled):
        levels = columns.property_column(b"DELAY")[scheduled].tolist()
        times = columns.store_timestamp[scheduled].tolist()
        for row, level, time in zip(scheduled.tolist(), levels, times, strict=True):
            codes[row] = scheduled_code(level.decode("utf-8", "replace"), int(codes[row]), delays, time)
    return codes


def rows_by_queue(columns: RecordColumns, rows: Ints) -> Iterator[tuple[bytes, int, Ints]]:
    """Topic, queue and rows of each queue that has any of these rows; the rows of one stay in order."""
    names = hash_texts(columns.topics[rows]).codes.astype(np.int64) << 32
    names |= columns.queue_id[rows].astype(np.int64) & 0xFFFFFFFF
    order = np.argsort(names, kind="stable")
    bounds = np.flatnonzero(np.diff(names[order])) + 1
    for group in np.split(rows[order], bounds) if len(rows) else ():
        yield from _by_topic(columns, group)


def _by_topic(columns: RecordColumns, rows: Ints) -> Iterator[tuple[bytes, int, Ints]]:
    """Rows with one hash of the topic, by topic: nearly always one."""
    queue_id = int(columns.queue_id[rows[0]])
    while len(rows):
        topic = columns.topics[rows[:1]].tolist()[0]
        same: Mask = columns.topics[rows].equal(topic)
        yield topic, queue_id, rows[same]
        rows = rows[~same]
