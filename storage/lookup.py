"""Finding single messages: by their place in the log, by time, by key."""

from __future__ import annotations

from enum import Enum

from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hashes import index_key_hash
from pocketmq.protocol.message import RecordView, decode_record
from pocketmq.protocol.properties import Property
from pocketmq.storage.commit_log import CommitLog
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.index import Index
from pocketmq.storage.layout import FILLER_SIZE


class Boundary(Enum):
    """Which message a moment stands for: the first one from then on, or the last one up to then."""

    LOWER = "lower"
    UPPER = "upper"


class IndexType(Enum):
    """What a message is looked up by; the values are RocketMQ's."""

    KEY = "K"
    UNIQUE_KEY = "U"
    TAG = "T"


def record_at(log: CommitLog, physical_offset: int, limit: int) -> RecordView | None:
    """The record that begins at an offset in front of `limit`; None if there is no sound one that says so itself."""
    found = log.file_at(physical_offset) if 0 <= physical_offset < limit else None
    if found is None:
        return None
    file, place = found
    try:
        record = decode_record(file.view, place)
    except RemoteProtocolError:
        return None
    return record if record.physical_offset == physical_offset else None


def time_of(log: CommitLog, queue: ConsumeQueue, number: int) -> int | None:
    """When a message of a queue was stored; None if it is not there any more."""
    entries = queue.entries(number, number + 1)
    if not len(entries) or entries["size"][0] == FILLER_SIZE:
        return None
    record = record_at(log, int(entries["physical_offset"][0]), log.end)
    return None if record is None else record.store_timestamp


def offset_by_time(log: CommitLog, queue: ConsumeQueue, moment_ms: int, boundary: Boundary) -> int:
    """The queue offset for a moment, between the queue's minimum and its end.

    LOWER: the first message stored then or later, the end if all are older. UPPER: the last one stored then or
    before, the minimum if all are newer. Of several with one time the first or the last, likewise.
    """
    low, high = queue.correct_min_offset(log.min_offset), queue.readable
    least = low
    while low < high:
        middle = (low + high) // 2
        number, time = _nearest(log, queue, middle, low)
        if time is None or time < moment_ms or (boundary is Boundary.UPPER and time == moment_ms):
            low = middle + 1
        else:
            high = number
    return low if boundary is Boundary.LOWER else _nearest(log, queue, low - 1, least)[0]


def _nearest(log: CommitLog, queue: ConsumeQueue, number: int, low: int) -> tuple[int, int | None]:
    """The last message that can be read, from `number` back to `low`, and its time."""
    for candidate in range(number, low - 1, -1):
        time = time_of(log, queue, candidate)
        if time is not None:
            return candidate, time
    return low, None


def find_by_key(
    log: CommitLog,
    index: Index,
    topic: str,
    key: str,
    most: int,
    begin_ms: int,
    end_ms: int,
    index_type: IndexType,
    places: range,
) -> list[RecordView]:
    """Messages with a key, at certain places and stored between two moments: the newest `most`, oldest first."""
    text = f"{topic}#T#{key}" if index_type is IndexType.TAG else f"{topic}#{key}"
    found: list[RecordView] = []
    for physical_offset in index.find(index_key_hash(text), begin_ms, end_ms):
        if len(found) >= most:
            break
        record = record_at(log, physical_offset, places.stop) if physical_offset in places else None
        if record is not None and begin_ms <= record.store_timestamp <= end_ms and _has(record, topic, key, index_type):
            found.append(record)
    return sorted(found, key=lambda record: record.physical_offset)


def _has(record: RecordView, topic: str, key: str, index_type: IndexType) -> bool:
    """Whether a record really is what its hash promised."""
    if record.topic != topic:
        return False
    if index_type is IndexType.TAG:
        return record.tags == key
    is_unique = record.properties.get(Property.UNIQ_KEY) == key
    return is_unique if index_type is IndexType.UNIQUE_KEY else is_unique or key in record.keys


def earliest_time(log: CommitLog) -> int:
    """When the oldest message was stored; -1 without any."""
    record = record_at(log, log.min_offset, log.end)
    return -1 if record is None else record.store_timestamp
