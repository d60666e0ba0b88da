"""One index file: a hash table from keys to records.

    header      40 bytes: time and offset of the first and last message, slots in use, number of the next entry
    slots       4 bytes each: the number of the newest entry whose hash falls here, 0 for none
    entries     20 bytes each: hash, physical offset, seconds since the file's first message, the entry before
                it in the same slot

Entries are only ever added, so all that a crash can hurt are slots and the header. The header is therefore kept in
memory and written only after the entries it counts are on disk: whatever it says can be relied on, entries behind it
are void, and the slots are made anew from the entries before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.spans import Ints
from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.layout import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, index_file_size
from pocketmq.storage.mapped_file import MappedFile

FILE_SIZE_SETTING = "maxHashSlotNum and maxIndexNum"

_LEAST_AHEAD = 1 << 20
_MAX_INT32 = 2**31 - 1
_UNFINISHED = 2**63 - 1  # the end of a file whose header tells nothing yet
_unpack_entry = struct.Struct(">iqii").unpack_from


class IndexHeader(NamedTuple):
    """The first 40 bytes. `next_entry` is where the next one goes: the first entry is number 1."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical: int = 0
    end_physical: int = 0
    slots_used: int = 0
    next_entry: int = 1


class IndexFile:
    """An index file that is open. One thread inserts and queries; another one may `sync`."""

    def __init__(self, path: Path, slots: int, entries: int, *, after: IndexHeader | None = None) -> None:
        """Open a file, or create one if `after` is given: the header of the file before it, or an empty one."""
        self.name = path.name
        self._slot_count = slots
        self._capacity = entries
        self._entries_at = INDEX_HEADER.size + INDEX_SLOT.itemsize * slots
        size = index_file_size(slots, entries)
        if after is None:
            self._file = MappedFile(path, size, FILE_SIZE_SETTING)
            header = IndexHeader(*INDEX_HEADER.unpack_from(self._file.view))
            # 4.9.7 can leave a 0, and damage anything.
            self.header = header._replace(next_entry=min(max(header.next_entry, 1), entries))
        else:
            self._file = MappedFile(path, size, FILE_SIZE_SETTING, create=True)
            try:
                self._file.prepare(self._entries_at)
            except DiskFullError:
                self._file.delete()  # the next attempt has another name
                raise
            time, offset = after.end_timestamp, after.end_physical
            self.header = IndexHeader(time, time, offset, offset)
            # After a crash RocketMQ deletes the files that end behind its checkpoint. One without a header it would
            # take for an empty one, and add to it.
            self._file.overwrite(0, INDEX_HEADER.pack(*self.header._replace(end_timestamp=_UNFINISHED)))
        self._changed = after is not None
        self._slots = np.frombuffer(self._file.data, INDEX_SLOT, slots, INDEX_HEADER.size)
        self._entries = np.frombuffer(self._file.data, INDEX_ENTRY, entries, self._entries_at)

    @property
    def room(self) -> int:
        """How many entries still fit."""
        return self._capacity - self.header.next_entry

    def make_writable(self) -> None:
        """See to it that all pages up to the next entry exist; RocketMQ leaves holes. Raises `DiskFullError`."""
        end = self._entry_at(self.header.next_entry)
        start, stop = next(self._file.stretches(), (0, 0))
        if start > 0 or stop < end:
            self._file.overwrite(0, self._file.view[:end])
        self._file.prepared = end

    def prepare(self, entries: int) -> None:
        """Make sure that so many more entries can be written. Raises `DiskFullError`."""
        last = min(self.header.next_entry + entries, self._capacity)
        self._file.prepare(self._entry_at(last), at_least=_LEAST_AHEAD)

    def _entry_at(self, number: int) -> int:
        return self._entries_at + INDEX_ENTRY.itemsize * number

    def insert(self, hashes: Ints, physical_offsets: Ints, timestamps: Ints) -> None:
        """Add entries in this order; there must be room for them. Raises `DiskFullError`, with nothing changed."""
        self.prepare(len(hashes))
        header, first = self.header, self.header.next_entry
        slots = hashes % self._slot_count
        # Entries of one slot next to each other, in the order of insertion: each but the first follows its neighbour.
        order = np.argsort(slots, kind="stable")
        grouped = slots[order]
        numbers = order + first
        is_head = np.empty(len(order), np.bool_)
        is_head[0] = True
        np.not_equal(grouped[1:], grouped[:-1], out=is_head[1:])
        heads = np.flatnonzero(is_head)
        before = self._newest_in(grouped[heads])
        previous = np.empty(len(order), np.int64)
        previous[order[1:]] = numbers[:-1]
        previous[order[heads]] = before

        entries = self._entries[first : first + len(order)]
        entries["key_hash"] = hashes
        entries["physical_offset"] = physical_offsets
        entries["seconds"] = self._seconds(timestamps)
        entries["previous"] = previous
        # The last entry of a slot stands in front of the first of the next.
        lasts = np.append(heads[1:], len(order)) - 1
        self._slots[grouped[lasts]] = numbers[lasts]

        if first == 1:
            header = header._replace(begin_timestamp=int(timestamps[0]), begin_physical=int(physical_offsets[0]))
        self.header = header._replace(
            end_timestamp=int(timestamps[-1]),
            end_physical=int(physical_offsets[-1]),
            slots_used=header.slots_used + int(np.count_nonzero(before == 0)),
            next_entry=first + len(order),
        )
        self._changed = True  # last: another thread may be about to write the header, and must not think that it has

    def _newest_in(self, slots: Ints) -> Ints:
        """The newest entry in each of these slots; what is no entry is none."""
        numbers: Ints = self._slots[slots].astype(np.int64)
        numbers[(numbers < 0) | (numbers >= self.header.next_entry)] = 0
        return numbers

    def _seconds(self, timestamps: Ints) -> Ints:
        """The time of entries as the file keeps it. The first entry of all is dated before the file has a beginning."""
        begin = np.full(len(timestamps), self.header.begin_timestamp)
        if self.header.next_entry == 1:
            begin[1:] = timestamps[0]
        seconds: Ints = np.clip((timestamps - begin) // 1000, 0, _MAX_INT32)
        seconds[begin <= 0] = 0
        return seconds

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """The physical offsets filed under a hash and between two times, newest first."""
        number = int(self._newest_in(np.array([key_hash % self._slot_count]))[0])
        while number > 0:
            found_hash, physical_offset, seconds, previous = _unpack_entry(self._file.view, self._entry_at(number))
            moment = self.header.begin_timestamp + self._milliseconds(number, seconds)
            # A time is kept to the second and may be almost one too early; who asks looks at the record anyway.
            if seconds < 0 or moment + 999 < begin_ms:
                return
            if found_hash == key_hash and moment <= end_ms:
                yield physical_offset
            number = previous if previous < number else 0

    def _milliseconds(self, number: int, seconds: int) -> int:
        """How long after the first message of the file another one was stored, to the second.

        The first entry tells something else: the time since the last message of the file before.
        """
        return seconds * 1000 if number > 1 else 0

    def covers(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the file may hold messages of that time."""
        header = self.header
        return header.next_entry > 1 and header.begin_timestamp <= end_ms and header.end_timestamp >= begin_ms

    def starts_at_or_after(self, physical_offset: int) -> bool:
        """Whether there is nothing in the file about records in front of an offset.

        So it is with a file whose header was never written: then that of the file before may not be the last, either.
        """
        return self.header.next_entry == 1 or self.header.begin_physical >= physical_offset

    def cut(self, physical_offset: int) -> bool:
        """Drop the entries of records from `physical_offset` on, and what else cannot be; make the slots anew.

        Returns whether entries in front of that offset had to go, or may be missing.
        """
        kept, is_damaged = self._sound_part(physical_offset)
        self._keep(kept)
        return is_damaged

    def is_damaged(self, physical_offset: int) -> bool:
        """Whether `cut` would have to drop entries in front of that offset."""
        return self._sound_part(physical_offset)[1]

    def _sound_part(self, physical_offset: int) -> tuple[int, bool]:
        """How many entries in front of that offset can be right, and whether damage follows them."""
        entries = self._entries[1 : self.header.next_entry]
        offsets = entries["physical_offset"].astype(np.int64)
        good = (entries["key_hash"] >= 0) & (entries["seconds"] >= 0)
        good &= (entries["previous"] >= 0) & (entries["previous"] <= np.arange(len(entries)))
        good &= offsets >= np.append(self.header.begin_physical, offsets[:-1])
        bad = _first(~good)
        kept = min(bad, _first(offsets >= physical_offset))
        return kept, kept == bad < len(entries)

    def _keep(self, count: int) -> None:
        """Keep the first entries and no others."""
        header, entries = self.header, self._entries[1 : count + 1]
        slots, _ = _chains(entries["key_hash"].astype(np.int64), self._slot_count)
        if count and count < header.next_entry - 1:
            latest = header.begin_timestamp + self._milliseconds(count, int(entries["seconds"][-1])) + 999
            header = header._replace(
                end_physical=int(entries["physical_offset"][-1]), end_timestamp=min(header.end_timestamp, latest)
            )
        self.header = header._replace(next_entry=count + 1, slots_used=int(np.count_nonzero(slots)))
        # The header goes first: it never counts what is not there.
        self._write_header(self.header)
        self._file.clear(self._entry_at(count + 1))
        self._file.overwrite(INDEX_HEADER.size, slots.astype(INDEX_SLOT).tobytes())
        self._changed = True
        self.make_writable()

    def check(self) -> tuple[Ints, Ints, str | None]:
        """Hash and physical offset of all entries, and what is wrong with the way to them, if anything is."""
        entries = self._entries[1 : self.header.next_entry]
        hashes: Ints = entries["key_hash"].astype(np.int64)
        offsets: Ints = entries["physical_offset"].astype(np.int64)
        slots, previous = _chains(hashes, self._slot_count)
        if not np.array_equal(self._newest_in(np.arange(self._slot_count)), slots):
            return hashes, offsets, "some slots do not lead to their newest entry"
        if not np.array_equal(entries["previous"], previous):
            return hashes, offsets, "some entries do not lead to the one before"
        if self.header.slots_used != np.count_nonzero(slots):
            return hashes, offsets, f"{self.header.slots_used} slots should be in use, not {np.count_nonzero(slots)}"
        return hashes, offsets, None

    def sync(self) -> None:
        """Bring the entries to disk, and then the header that counts them."""
        if self._changed:
            self._changed = False
            try:
                header = self.header
                self._file.sync()
                self._write_header(header)
            except BaseException:
                self._changed = True
                raise

    def _write_header(self, header: IndexHeader) -> None:
        self._file.overwrite(0, INDEX_HEADER.pack(*header))
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        self._file.delete()

    def __repr__(self) -> str:
        return f"<IndexFile {self.name}: {self.header.next_entry - 1} entries>"


def _chains(hashes: Ints, slot_count: int) -> tuple[Ints, Ints]:
    """What a table and the entries of these hashes hold: the newest entry of each slot, the one before each entry."""
    slots = hashes % slot_count
    newest = np.zeros(slot_count, np.int64)
    # Where a slot is assigned more than once, the last time counts: that is the newest entry.
    newest[slots] = np.arange(1, len(slots) + 1)
    order = np.argsort(slots, kind="stable")
    grouped = slots[order]
    previous = np.zeros(len(slots), np.int64)
    follows = np.flatnonzero(grouped[1:] == grouped[:-1])
    previous[order[follows + 1]] = order[follows] + 1
    return newest, previous


def _first(mask: NDArray[np.bool_]) -> int:
    """The first place where a mask is true; its length if there is none."""
    return int(np.argmax(mask)) if mask.any() else len(mask)
