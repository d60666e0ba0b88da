"""One consume queue: for each message of a queue 20 bytes that say where its record lies.

Entry n stands at byte 20·n of the queue's row of files, so that a queue offset is a place. New entries are collected
in memory (the tail) and written in stretches, with `pwrite`: nothing is mapped, so ten thousand queues take neither
ten thousand descriptors nor a page of memory each. A crash loses the tail and no more than that: recovery makes it
again from the commit log.

    min_offset ...... base ............ readable ............ end
    |     in files    | in the tail, to be written | not yet published |
    |       readers may see this       |

One thread appends, publishes and reads. `write_out` is for another one; a lock keeps the two from looking at the tail
while it moves to the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.columns import SMALLEST_RECORD
from pocketmq.protocol.hashes import java_hash
from pocketmq.protocol.spans import Ints
from pocketmq.storage.layout import FILLER, FILLER_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE, pack_queue_entry
from pocketmq.storage.queue_files import QueueFiles

Entries = NDArray[np.void]

# How many messages in front of it a single record can make believe are lost.
_MOST_MISSING: Final = 300_000

_Offset = TypeVar("_Offset", int, Ints)


class ConsumeQueue:
    """The entries of one queue of one topic."""

    __slots__ = (
        "_lock",
        "_min_known_for",
        "_tail",
        "base",
        "end",
        "files",
        "index_prefix_hash",
        "max_physical",
        "min_offset",
        "queue_id",
        "readable",
        "topic",
    )

    def __init__(self, topic: str, queue_id: int, folder: Path, file_size: int, lock: threading.Lock) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = QueueFiles(folder, file_size)
        self.index_prefix_hash = java_hash(f"{topic}#") & 0xFFFFFFFF  # of what all keys begin with in the index
        self.min_offset = 0
        self.base = 0
        self.readable = 0
        self.end = 0
        self.max_physical = 0  # where the record of the last entry ends
        self._tail = bytearray()
        self._lock = lock
        self._min_known_for = 0  # the beginning of the log for which `min_offset` was looked up

    @property
    def entries_per_file(self) -> int:
        return self.files.file_size // QUEUE_ENTRY_SIZE

    # Appending.

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add the entry of the next message."""
        self._tail += pack_queue_entry(physical_offset, size, tags_code)
        self.end += 1
        self.max_physical = physical_offset + size

    def extend(self, physical_offsets: Ints, sizes: Ints, tags_codes: Ints) -> None:
        """Add the entries of the next messages."""
        entries = np.empty(len(physical_offsets), QUEUE_ENTRY)
        entries["physical_offset"] = physical_offsets
        entries["size"] = sizes
        entries["tags_code"] = tags_codes
        self._tail += entries.tobytes()
        self.end += len(entries)
        self.max_physical = int(physical_offsets[-1] + sizes[-1])

    def fill(self, end: int) -> None:
        """Add slots without a message, so that the next entry gets the number `end`."""
        if not self.end and not self.files.offsets:
            # A queue that begins late has files from there on, and fillers only where the first one begins.
            self.base = self.readable = self.end = end - end % self.entries_per_file
            self.min_offset = end
        self._tail += FILLER * (end - self.end)
        self.end = end

    def put(self, queue_offsets: Ints, physical_offsets: Ints, sizes: Ints, tags_codes: Ints) -> Ints:
        """Add the entries of records found in the log, with fillers for those that are missing in between.

        Returns the rows of the records that cannot be where they say, which get no entry.
        """
        numbers = np.arange(self.end, self.end + len(queue_offsets))
        if np.array_equal(queue_offsets, numbers):
            self.extend(physical_offsets, sizes, tags_codes)
            return np.empty(0, np.int64)
        missing = queue_offsets - self.end
        possible = (missing >= 0) & (missing <= self._room_before(physical_offsets))
        rows = longest_ascent(queue_offsets, np.flatnonzero(possible))
        taken = [np.empty(0, np.int64)]
        for run in np.split(rows, np.flatnonzero(np.diff(queue_offsets[rows]) != 1) + 1):
            if len(run) > 1 or (len(run) and self._may_hold(int(queue_offsets[run[0]]), int(physical_offsets[run[0]]))):
                if queue_offsets[run[0]] > self.end:
                    self.fill(int(queue_offsets[run[0]]))
                self.extend(physical_offsets[run], sizes[run], tags_codes[run])
                taken.append(run)
        return np.setdiff1d(np.arange(len(queue_offsets)), np.concatenate(taken))

    def _may_hold(self, queue_offset: int, physical_offset: int) -> bool:
        """Whether to believe a record that stands alone: one far off is damage rather than the last of so many."""
        missing = queue_offset - self.end
        return missing <= self._room_before(physical_offset) and (missing <= _MOST_MISSING or not self.end)

    def _room_before(self, physical_offset: _Offset) -> _Offset:
        """How many messages the log may have lost since the last one of the queue."""
        return (physical_offset - self.max_physical) // SMALLEST_RECORD

    # Reading.

    def entries(self, start: int, end: int) -> Entries:
        """The entries from `start` to `end`, as far as there are any."""
        start, end = max(start, self.first_slot), min(end, self.end)
        if end <= start:
            return np.empty(0, QUEUE_ENTRY)
        with self._lock:
            base = self.base
            tail = bytes(self._tail[max(start - base, 0) * QUEUE_ENTRY_SIZE : max(end - base, 0) * QUEUE_ENTRY_SIZE])
        if start < base:
            stored = self.files.read(start * QUEUE_ENTRY_SIZE, (min(end, base) - start) * QUEUE_ENTRY_SIZE)
            tail = stored + tail if tail else stored
        return np.frombuffer(tail, QUEUE_ENTRY)

    @property
    def first_slot(self) -> int:
        """The first number that the files have a place for."""
        return self.files.offsets[0] // QUEUE_ENTRY_SIZE if self.files.offsets else self.base

    def first_at_or_after(self, physical_offset: int) -> int:
        """The number of the first message whose record begins at `physical_offset` or later; `end` if there is none."""
        low, high = self.first_slot, self.end
        while low < high:
            middle = (low + high) // 2
            last = self._last_message(low, middle + 1)
            # Zeros stand where a loss of power took entries that were not on disk yet: these were newer than others.
            if last is None or (last[2] > 0 and last[1] < physical_offset):
                low = middle + 1
            else:
                high = last[0]
        return low

    def _last_message(self, low: int, high: int) -> tuple[int, int, int] | None:
        """Number, physical offset and size of the last entry from `low` to `high` that is no filler."""
        step = 16
        while high > low:
            start = max(low, high - step)
            entries = self.entries(start, high)
            messages = np.flatnonzero(entries["size"] != FILLER_SIZE)
            if len(messages):
                last = int(messages[-1])
                return start + last, int(entries["physical_offset"][last]), int(entries["size"][last])
            high, step = start, step * 8
        return None

    def correct_min_offset(self, log_min_offset: int) -> int:
        """The queue begins with its first message that the log still has; without any, behind its last."""
        if log_min_offset > self._min_known_for:
            self.min_offset = max(self.min_offset, self.first_at_or_after(log_min_offset))
            self._min_known_for = log_min_offset
        return self.min_offset

    # Files.

    def load(self) -> None:
        """Find the files and how far they are filled: up to the first place that holds no entry.

        Like RocketMQ's own start, this looks at the last three files only, unless they turn out to be empty.
        """
        self.files.load()
        offsets = self.files.offsets
        for file in offsets[-3:]:
            entries = np.frombuffer(self._whole_entries(file), QUEUE_ENTRY)
            good = (entries["size"] > 0) & (entries["physical_offset"] >= 0)
            count = len(good) if good.all() else int(np.argmin(good))
            self.adopt((file + count * QUEUE_ENTRY_SIZE) // QUEUE_ENTRY_SIZE)
            if count < self.entries_per_file:
                break

    def load_to(self, end: int) -> bool:
        """Find the files and take them as filled up to `end`; False if they cannot be."""
        self.files.load()
        if end and self.files.read((end - 1) * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE) == bytes(QUEUE_ENTRY_SIZE):
            return False
        self.adopt(end)
        return True

    def _whole_entries(self, file: int) -> bytes:
        data = self.files.read_data(file)
        return data[: len(data) // QUEUE_ENTRY_SIZE * QUEUE_ENTRY_SIZE]

    def adopt(self, end: int) -> None:
        """Take the files as they are up to this number, and nothing behind it."""
        self.base = self.readable = self.end = end
        self._tail.clear()
        last = self._last_message(self.first_slot, end)
        self.max_physical = last[1] + last[2] if last else 0
        self._min_known_for = -1
        self.min_offset = self.first_slot

    def cut(self) -> None:
        """Zero what the files hold behind `end`: it would come back to life at the next start."""
        self.files.cut(self.end * QUEUE_ENTRY_SIZE)

    def write_out(self) -> None:
        """Write the readable part of the tail to the files. Raises `DiskFullError`, and keeps what was not written."""
        while True:
            with self._lock:
                base = self.base
                count = min(self.readable - base, self.entries_per_file - base % self.entries_per_file)
                chunk = bytes(self._tail[: max(count, 0) * QUEUE_ENTRY_SIZE])
            if not chunk:
                return
            self.files.write(base * QUEUE_ENTRY_SIZE, chunk)
            with self._lock:
                del self._tail[: len(chunk)]
                self.base = base + count

    def delete_files_before(self, log_min_offset: int) -> int:
        """Delete the files that lead to nothing but deleted records, never the last; returns how many went."""
        deleted = 0
        while len(self.files.offsets) > 1:
            last_slot = self.files.offsets[1] // QUEUE_ENTRY_SIZE
            if last_slot > self.end:
                break
            last = self._last_message(self.first_slot, last_slot)
            if last is not None and last[1] >= log_min_offset:
                break
            self.files.delete_first()
            deleted += 1
        return deleted

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic!r} {self.queue_id}: {self.min_offset} to {self.end}>"


def longest_ascent(numbers: Ints, rows: Ints) -> Ints:
    """As many of the rows as have ascending numbers: one that is damaged must not make all behind it look old."""
    lowest: list[int] = []  # the lowest number that an ascent of so many rows ends with,
    places: list[int] = []  # and where in `rows` it is
    before = np.full(len(rows), -1)
    for place, number in enumerate(numbers[rows].tolist()):
        length = bisect_left(lowest, number)
        if lowest[length : length + 1] != [number]:
            before[place] = places[length - 1] if length else -1
            lowest[length : length + 1] = [number]
            places[length : length + 1] = [place]
    ascent = []
    place = places[-1] if places else -1
    while place >= 0:
        ascent.append(place)
        place = int(before[place])
    return rows[ascent[::-1]]
