"""From records to the entries of queues and index: which have one, and what it says.

A message that comes alone is looked at as text and numbers, many of them as columns; `burst.py` does this for what
is appended, `recovery.py` for what is found in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hashes import hash_texts
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.spans import Ints, Mask
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC, Delays, deliver_timestamp

_TRANSACTION_MASK = int(MessageFlag.TRANSACTION_MASK)
# Half messages, and their roll-backs, which have this bit too, have no place in a queue.
NO_QUEUE_ENTRY = int(MessageFlag.TRANSACTION_PREPARED)
# The properties that queues and index are interested in. The last of two with one name counts, as everywhere.
find_wanted = re.compile("\x02(TAGS|KEYS|UNIQ_KEY|DELAY)\x01([^\x02]+)").findall

_Flags = TypeVar("_Flags", int, NDArray[np.int32])


def has_queue_entry(sys_flag: _Flags) -> Any:
    """Whether messages have a place in their queue: half messages and their roll-backs do not."""
    return sys_flag & NO_QUEUE_ENTRY == 0


def is_indexed(sys_flag: _Flags) -> Any:
    """Whether the keys of messages are in the index: all but those of a roll-back."""
    return sys_flag & _TRANSACTION_MASK != _TRANSACTION_MASK


def scheduled_code(level: str, tags_code: int, delays: Delays, store_timestamp: int) -> int:
    """What a queue of the schedule topic keeps instead of the tag: when the message is due."""
    number = int(level[:18]) if level.isdecimal() else 0  # thousands of digits would be an error
    return deliver_timestamp(delays, number, store_timestamp) if number > 0 else tags_code


def entry_tags(columns: RecordColumns, delays: Delays) -> Ints:
    """What queues keep of the tags; in the schedule topic the time at which a message is due instead."""
    scheduled = np.flatnonzero(columns.topics.equal(SCHEDULE_TOPIC.encode()))
    return tags_or_times(columns.property_columns, scheduled, columns.store_timestamp, delays)


def tags_or_times(properties: PropertyColumns, scheduled: Ints, store_timestamps: Ints, delays: Delays) -> Ints:
    """The same, where it is known already which rows are in the schedule topic."""
    codes = properties.tags_code()
    if len(scheduled):
        levels = properties.column(b"DELAY")[scheduled].tolist()
        times = store_timestamps[scheduled].tolist()
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
