"""From records to the entries of queues and index: which have one, and what it says.

A message that comes alone is looked at as text and numbers, many of them as columns; `burst.py` does this for what
is appended, `recovery.py` for what is found in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hash_columns import hash_texts
from pocketmq.protocol.hashes import tags_code
from pocketmq.protocol.spans import Ints, Mask
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC, Delays, deliver_timestamp

_TRANSACTION_MASK = int(MessageFlag.TRANSACTION_MASK)
# Half messages, and their roll-backs, which have this bit too, have no place in a queue.
NO_QUEUE_ENTRY = int(MessageFlag.TRANSACTION_PREPARED)
# A pair without a value does not exist, and the last of two with one name counts, as everywhere.
_find_tags = re.compile("\x02TAGS\x01([^\x02]+)").findall
_find_levels = re.compile("\x02DELAY\x01([^\x02]+)").findall

# Tags repeat. Long ones may not, and would take room.
_LONGEST_REMEMBERED = 64
_remembered_code = lru_cache(maxsize=4096)(tags_code)

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


def entry_tag(topic: str, properties: str, store_timestamp: int, delays: Delays) -> int:
    """What its queue keeps of the tag of one message; in the schedule topic the time at which it is due instead."""
    if not properties.isascii():
        # What has no form in UTF-8 is stored as something else.
        properties = properties.encode("utf-8", "replace").decode()
    tags = _find_tags("\x02" + properties)
    tag = tags[-1] if tags else ""
    code = _remembered_code(tag) if len(tag) <= _LONGEST_REMEMBERED else tags_code(tag)
    if topic == SCHEDULE_TOPIC and (levels := _find_levels("\x02" + properties)):
        return scheduled_code(levels[-1], code, delays, store_timestamp)
    return code


def entry_tags(columns: RecordColumns, store_timestamps: Ints, delays: Delays) -> Ints:
    """The same for many messages."""
    codes = columns.tags_code()
    scheduled = np.flatnonzero(columns.topics.equal(SCHEDULE_TOPIC.encode()))
    if len(scheduled):
        levels = columns.property_column(b"DELAY")[scheduled].tolist()
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
