"""Index files in plain Python, entry by entry, as the specification of the format has it."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.storage.index_file import IndexHeader
from pocketmq.storage.layout import INDEX_HEADER, index_file_size

# Hash, physical offset and time of an entry.
Row = tuple[int, int, int]

EMPTY = IndexHeader()


class PlainIndexFile:
    """One file; `after` is the header of the file before it."""

    def __init__(self, slots: int, capacity: int, rows: Iterable[Row] = (), after: IndexHeader = EMPTY) -> None:
        self.begin_time = self.end_time = after.end_timestamp
        self.begin_offset = self.end_offset = after.end_physical
        self.slots = [0] * slots
        self.capacity = capacity
        self.used = 0
        self.entries = [(0, 0, 0, 0)]
        for row in rows:
            self.insert(row)

    def insert(self, row: Row) -> None:
        key_hash, offset, time = row
        number, slot = len(self.entries), key_hash % len(self.slots)
        assert number < self.capacity
        old = self.slots[slot]
        seconds = (time - self.begin_time) // 1000
        if self.begin_time <= 0 or seconds < 0:
            seconds = 0
        self.entries.append((key_hash, offset, min(seconds, 2**31 - 1), old))
        self.slots[slot] = number
        if number == 1:
            self.begin_offset, self.begin_time = offset, time
        if old == 0:
            self.used += 1
        self.end_offset, self.end_time = offset, time

    @property
    def header(self) -> IndexHeader:
        return IndexHeader(
            self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.used, len(self.entries)
        )

    def to_bytes(self) -> bytes:
        slots = b"".join(slot.to_bytes(4, "big") for slot in self.slots)
        entries = b"".join(
            field.to_bytes(size, "big")
            for entry in self.entries
            for field, size in zip(entry, (4, 8, 4, 4), strict=True)
        )
        data = INDEX_HEADER.pack(*self.header) + slots + entries
        return data.ljust(index_file_size(len(self.slots), self.capacity), b"\0")

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> list[int]:
        """All entries of a hash whose time, as far as the file knows it, may lie between two moments; newest first."""
        found = []
        for number in range(len(self.entries) - 1, 0, -1):
            entry_hash, offset, seconds, _ = self.entries[number]
            # The first entry is dated from the file before; its time is that of the header.
            time = self.begin_time + (1000 * seconds if number > 1 else 0)
            if entry_hash == key_hash and time + 999 >= begin_ms and time <= end_ms:
                found.append(offset)
        return found


def plain_index(slots: int, capacity: int, rows: Iterable[Row]) -> list[PlainIndexFile]:
    """As many files as these rows take."""
    files: list[PlainIndexFile] = []
    for row in rows:
        if not files or len(files[-1].entries) >= capacity:
            files.append(PlainIndexFile(slots, capacity, (), files[-1].header if files else EMPTY))
        files[-1].insert(row)
    return files
