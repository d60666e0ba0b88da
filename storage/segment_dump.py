"""Lines about the store's large files, for `storage/dump.py`: commit log segments, consume queues, index files.

Nothing in a file is believed: it may be cut short, overwritten, or of another size than the settings say. A file may
be a gigabyte of which little was ever written, so what looks beyond the place where the data seems to end looks only
where the disk holds data. Lines are made in functions of their own: no view of a mapping may be alive in a generator
that somebody stops reading.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RecordView, decode_record
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC
from pocketmq.storage.index_file import IndexHeader
from pocketmq.storage.layout import (
    BLANK,
    FILLER_SIZE,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    segment_offset,
)
from pocketmq.storage.mapped_file import next_data
from pocketmq.storage.settings import StoreSettings

Data = mmap.mmap | bytes

"""The topic of delayed messages: its queues hold the time of delivery where others hold the hash of the tag."""

_PREVIEW: Final = 40  # characters of a body
_ROWS_AT_ONCE: Final = 4096
_CHUNK: Final = 1 << 16

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BLANK_MAGIC: Final = MAGIC_BLANK.to_bytes(4, "big", signed=True)
_RECORD_MAGIC: Final = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]  # version 2 differs in the last byte only


@contextmanager
def mapped(path: Path) -> Iterator[tuple[Data, int]]:
    """The bytes of a file, and where the disk stops holding any: beyond there are only zeros."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b"", 0
            return
        end = 0
        while (extent := next_data(file.fileno(), end)) is not None:
            end = extent[1]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data, end


def printable(text: str) -> str:
    """The text on one line, with escapes for what a terminal would not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def iso_time(timestamp_ms: int) -> str:
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms, which is no time"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_zero(data: Data, start: int, end: int) -> bool:
    return not any(data[at : min(at + _CHUNK, end)].strip(b"\0") for at in range(start, end, _CHUNK))


def _describe_rest(data: Data, position: int, end: int) -> str:
    """A remark on what should be unused. RocketMQ leaves old bytes there when it cuts off what a crash has damaged."""
    return "" if _is_zero(data, position, end) else ", not all of them zero"


# The commit log.


def commit_log_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    """A line for each record; one for what is none, and then it goes on with the next one that is."""
    with mapped(path) as (data, end):
        segment = _Segment(data, end, segment_offset(path.name) or 0)
        position: int | None = 0
        while position is not None and position < len(data):
            found = segment.look_at(position)
            if found.size:
                yield f"{segment.start + position} {found.text}"
                position += found.size
            else:
                following = segment.next_sound(position + 1)
                yield f"{segment.start + position} {segment.describe_gap(position, found.text, following)}"
                position = following


def commit_log_summary(path: Path, settings: StoreSettings) -> str:
    """How many records there are and where they end, going by their sizes alone."""
    with mapped(path) as (data, _):
        position = records = 0
        while len(data) - position >= BLANK.size:
            size, magic = BLANK.unpack_from(data, position)
            if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK) or not 0 < size <= len(data) - position:
                break
            position += size
            records += magic != MAGIC_BLANK
        stop = "" if _is_zero(data, position, position + BLANK.size) else ", then something that is no record"
        return f"{records} records, {position} of {len(data)} bytes used{stop}"


class _Found(NamedTuple):
    """What lies somewhere in a segment: its size, 0 if it is not sound; and what can be said about it."""

    size: int
    text: str


class _Segment(NamedTuple):
    """A segment of the log; positions count from its first byte, which is at `start` of the log."""

    data: Data
    end: int
    start: int

    def look_at(self, position: int) -> _Found:
        left = len(self.data) - position
        if left < BLANK.size:
            return _Found(0, f"only {left} bytes are left")
        size, magic = BLANK.unpack_from(self.data, position)
        if magic == MAGIC_BLANK:
            if size != left:
                return _Found(0, f"blank record of {size} bytes where {left} are left")
            return _Found(size, f"blank record of {size} bytes, to the end of the segment")
        try:
            record = decode_record(memoryview(self.data), position)
        except RemoteProtocolError as error:
            return _Found(0, str(error).partition(": ")[2])  # in front of it is the position in the file
        if record.physical_offset != self.start + position:
            return _Found(0, f"it says that it lies at {record.physical_offset}")
        if not record.crc_ok():
            return _Found(0, f"the CRC of its body is not {record.crc:#010x}")
        return _Found(size, _describe_record(record))

    def next_sound(self, position: int) -> int | None:
        """The next place with a sound record; or else with the blank record, behind which there are none."""
        for magic in _RECORD_MAGIC, _BLANK_MAGIC:
            at = self.data.find(magic, position + 4, self.end)
            while at >= 0:
                if self.look_at(at - 4).size:
                    return at - 4
                at = self.data.find(magic, at + 1, self.end)
        return None

    def describe_gap(self, position: int, problem: str, following: int | None) -> str:
        is_empty = _is_zero(self.data, position, position + BLANK.size)
        if following is not None:
            what = "zeros instead of a record" if is_empty else f"no sound record: {problem}"
            return f"{what}; the next sound one is at {self.start + following}"
        if not is_empty:
            return f"no sound record: {problem}; nor is there one behind it"
        left = f"{len(self.data) - position} bytes are left"
        return f"end of the data, {left}{_describe_rest(self.data, position, self.end)}"


def _describe_record(record: RecordView) -> str:
    return (
        f"record of {record.size} bytes: {printable(record.topic)} queue {record.queue_id} offset "
        f"{record.queue_offset}, stored {iso_time(record.store_timestamp)}, tags {printable(record.tags or '-')}, "
        f"keys {printable(' '.join(record.keys) or '-')}, body of {_describe_body(record)}"
    )


def _describe_body(record: RecordView) -> str:
    length = f"{len(record.body)} bytes"
    if record.sys_flag & MessageFlag.COMPRESSED:
        return f"{length}, compressed"
    # Four bytes a character at most: none that is shown was cut apart.
    text = str(record.body[: 4 * _PREVIEW], "utf-8", "backslashreplace")
    return length + (f": {printable(text[:_PREVIEW])}" if text else "") + ("..." if len(text) > _PREVIEW else "")


# The consume queue.


def consume_queue_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    """A line for each entry, and one for the place where they end."""
    first = (segment_offset(path.name) or 0) // QUEUE_ENTRY_SIZE
    is_delayed = path.parent.parent.name == SCHEDULE_TOPIC
    with mapped(path) as (data, end):
        used = 0
        for physical_offset, size, tags_code in _queue_entries(data):
            yield f"{first + used} {_describe_entry(physical_offset, size, tags_code, is_delayed)}"
            used += 1
        capacity = len(data) // QUEUE_ENTRY_SIZE
        if used < capacity:
            rest = _describe_rest(data, used * QUEUE_ENTRY_SIZE, end)
            yield f"{first + used} end of the entries, {capacity - used} are left{rest}"


def consume_queue_summary(path: Path, settings: StoreSettings) -> str:
    with mapped(path) as (data, _):
        used = sum(1 for _ in _queue_entries(data))
        return f"{used} of {len(data) // QUEUE_ENTRY_SIZE} entries used"


def _queue_entries(data: Data) -> Iterator[tuple[int, int, int]]:
    """The entries in front of the first one that is none: RocketMQ, too, takes that for the end of the queue."""
    for entry in _rows(data, QUEUE_ENTRY, 0, len(data)):
        if entry[0] < 0 or entry[1] <= 0:
            return
        yield entry


def _rows(data: Data, row: np.dtype[Any], start: int, end: int) -> Iterator[Any]:
    """The rows that lie whole between two places of a file, as tuples."""
    end -= (end - start) % row.itemsize
    step = row.itemsize * _ROWS_AT_ONCE
    for at in range(start, end, step):
        yield from np.frombuffer(data[at : min(at + step, end)], row).tolist()


def _describe_entry(physical_offset: int, size: int, tags_code: int, is_delayed: bool) -> str:
    if size == FILLER_SIZE:
        return "filler, no message"
    meaning = f"deliver at {iso_time(tags_code)}" if is_delayed else f"tags code {tags_code}"
    return f"record at {physical_offset}, {size} bytes, {meaning}"


# The index.


def index_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    """The header, the number of slots in use, and a line for each entry."""
    with mapped(path) as (data, end):
        header = _index_header(data)
        if header is None:
            yield f"no header: only {len(data)} bytes"
            return
        yield f"first record at {header.begin_physical}, stored {iso_time(header.begin_timestamp)}"
        yield f"last record at {header.end_physical}, stored {iso_time(header.end_timestamp)}"
        used = _slots_used(data, settings)
        yield f"{used} of {settings.max_hash_slot_num} slots are used, {header.slots_used} by the header"
        yield f"the next entry is number {header.next_entry}, there is room below {settings.max_index_num}"
        entries_start = INDEX_HEADER.size + settings.max_hash_slot_num * INDEX_SLOT.itemsize
        entries_end = entries_start + header.next_entry * INDEX_ENTRY.itemsize
        rows = _rows(data, INDEX_ENTRY, entries_start + INDEX_ENTRY.itemsize, min(entries_end, end))
        number = 1
        for key_hash, physical_offset, seconds, previous in rows:
            time = iso_time(header.begin_timestamp + 1000 * seconds)
            yield f"{number} hash {key_hash}, record at {physical_offset}, stored {time}, previous {previous}"
            number += 1
        if number < header.next_entry:
            yield f"{number} end of the data, before the entries are complete"


def index_summary(path: Path, settings: StoreSettings) -> str:
    with mapped(path) as (data, _):
        header = _index_header(data)
        if header is None:
            return "no header"
        return f"{max(header.next_entry - 1, 0)} of {settings.max_index_num - 1} entries used"


def _index_header(data: Data) -> IndexHeader | None:
    return IndexHeader(*INDEX_HEADER.unpack_from(data)) if len(data) >= INDEX_HEADER.size else None


def _slots_used(data: Data, settings: StoreSettings) -> int:
    end = INDEX_HEADER.size + settings.max_hash_slot_num * INDEX_SLOT.itemsize
    end = min(end, len(data) - len(data) % INDEX_SLOT.itemsize)
    return int(np.count_nonzero(np.frombuffer(data[INDEX_HEADER.size : end], INDEX_SLOT)))
