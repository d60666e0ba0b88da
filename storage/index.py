"""The index: a row of index files, each named by the moment of its creation, the last one open for more.

Messages are found by their unique key, by each of their keys and by their tag. What the index gives are candidates:
different texts can have one hash, so whoever asks compares the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pocketmq.protocol.spans import Ints
from pocketmq.storage.disk import make_folder, sync_folder
from pocketmq.storage.index_file import IndexFile, IndexHeader
from pocketmq.storage.layout import index_name, is_index_name

_AHEAD = 50_000  # entries, a MiB

Keys: TypeAlias = Ints
"""What is to be filed, in three rows: the hashes of keys, and physical offset and store time of each one's message."""

NO_KEYS: Keys = np.empty((3, 0), np.int64)


class Index:
    """The index files of a store, oldest first."""

    def __init__(self, folder: Path, slots: int, entries: int, now_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._slots = slots
        self._entries = entries
        self._now_ms = now_ms
        self.files = [IndexFile(path, slots, entries) for path in self._paths() if path.stat().st_size]

    def _paths(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if is_index_name(path.name))

    def make_writable(self) -> None:
        """To be called before anything is inserted. Raises `DiskFullError`."""
        for path in self._paths():
            if not path.stat().st_size:
                path.unlink()  # what an interrupted creation leaves
        if self.files and self.files[-1].room:
            self.files[-1].make_writable()

    @property
    def end_physical(self) -> int:
        """Where the last record begins that is in the index; -1 with none."""
        filled = [file.header.end_physical for file in self.files if file.header.next_entry > 1]
        return filled[-1] if filled else -1

    @property
    def full_timestamp(self) -> int:
        """The time of the last message in a file that is full: what the checkpoint tells of the index."""
        full = [file.header.end_timestamp for file in self.files if not file.room]
        return full[-1] if full else 0

    def insert(self, keys: Keys) -> int:
        """Add entries in this order; returns how many of them one file has taken.

        Raises `DiskFullError`, with nothing changed.
        """
        file = self._with_room()
        taken = min(len(keys[0]), file.room)
        file.insert(*keys[:, :taken])
        return taken

    def prepare_ahead(self) -> None:
        """Get pages ready for what is to come. Blocks on the disk; raises `DiskFullError`."""
        # Not a full one that was only opened: what was written to it before counts as not prepared.
        if self.files and self.files[-1].room:
            self.files[-1].prepare(_AHEAD)

    def _with_room(self) -> IndexFile:
        """The last file, or a new one if it is full."""
        if self.files and self.files[-1].room:
            return self.files[-1]
        before = self.files[-1].header if self.files else IndexHeader()
        name = index_name(self._now_ms())
        while self.files and name <= self.files[-1].name:
            name = f"{int(self.files[-1].name) + 1:017d}"
        make_folder(self._folder)
        self.files.append(IndexFile(self._folder / name, self._slots, self._entries, after=before))
        return self.files[-1]

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """The physical offsets filed under a hash and between two times, newest first, each once."""
        seen = set()
        for file in reversed(list(self.files)):  # the oldest may be deleted meanwhile
            if file.covers(begin_ms, end_ms):
                for physical_offset in file.find(key_hash, begin_ms, end_ms):
                    if physical_offset not in seen:
                        seen.add(physical_offset)
                        yield physical_offset
            if file.header.next_entry > 1 and file.header.begin_timestamp < begin_ms:
                return

    def last_before(self, physical_offset: int) -> IndexFile | None:
        """The last file that says anything of records in front of an offset."""
        files = [file for file in self.files if not file.starts_at_or_after(physical_offset)]
        return files[-1] if files else None

    def cut(self, physical_offset: int) -> bool:
        """Drop what was said of records from `physical_offset` on, and files that say nothing else.

        Returns whether anything of the records before may be missing.
        """
        while self.files and self.files[-1].starts_at_or_after(physical_offset):
            self.files.pop().delete()
        return bool(self.files) and self.files[-1].cut(physical_offset)

    def delete_first(self, count: int) -> None:
        for file in self.files[:count]:
            file.delete()
        del self.files[:count]

    def sync(self) -> None:
        """Bring all that was added to disk."""
        for file in list(self.files):
            file.sync()
        if self.files:
            sync_folder(self._folder)

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files.clear()
