"""The files of one consume queue, read and written in stretches of bytes; nothing is mapped or kept open.

A file has its full length from the start and is sparse, like all files of the store. Which of them have changed since
they were last brought to disk is remembered here.
"""

from __future__ import annotations

import os
from pathlib import Path

from pocketmq.storage.disk import full_disk_named, sync_data, sync_folder, write_all
from pocketmq.storage.file_queue import list_segments
from pocketmq.storage.layout import PAGE, segment_name
from pocketmq.storage.mapped_file import next_data

FILE_SIZE_SETTING = "mappedFileSizeConsumeQueue"


class QueueFiles:
    """The row of files in a folder; `offsets` are where they begin, in bytes."""

    __slots__ = ("_new_names", "_unsynced", "file_size", "folder", "offsets", "unsynced_bytes")

    def __init__(self, folder: Path, file_size: int) -> None:
        self.folder = folder
        self.file_size = file_size
        self.offsets: list[int] = []
        self.unsynced_bytes = 0
        self._unsynced: set[int] = set()
        self._new_names = False

    def load(self) -> None:
        """Find the files that are there."""
        self.offsets = list_segments(self.folder, self.file_size, FILE_SIZE_SETTING, rebuilt=True)

    def read(self, position: int, length: int) -> bytes:
        """Bytes from as many files as it takes; zeros, which are no entry, where a file is missing."""
        parts = []
        while length:
            place = position % self.file_size
            step = min(length, self.file_size - place)
            parts.append(self._read(position - place, place, step))
            position, length = position + step, length - step
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read(self, file: int, place: int, length: int) -> bytes:
        try:
            descriptor = os.open(self._path(file), os.O_RDONLY)
        except FileNotFoundError:
            return bytes(length)
        try:
            return os.pread(descriptor, length, place).ljust(length, b"\0")
        finally:
            os.close(descriptor)

    def read_data(self, file: int, place: int = 0) -> bytes:
        """A file from `place` to where it stops taking room on disk: behind that are only zeros."""
        descriptor = os.open(self._path(file), os.O_RDONLY)
        try:
            end = place
            while (extent := next_data(descriptor, end)) is not None:
                end = extent[1]
            return os.pread(descriptor, end - place, place)
        finally:
            os.close(descriptor)

    def write(self, position: int, data: bytes) -> None:
        """Write bytes that lie in one file. Raises `DiskFullError`; then the same may be written again."""
        place = position % self.file_size
        file = position - place
        is_new = not self.offsets or file > self.offsets[-1]
        with full_disk_named(self._path(file), FILE_SIZE_SETTING):
            if is_new:
                self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path(file), os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if is_new:
                    os.ftruncate(descriptor, self.file_size)
                    self.offsets.append(file)
                # One that is written from its beginning again may owe its name to a process that came to an end.
                self._new_names |= place == 0 or is_new
                self._unsynced.add(file)
                write_all(descriptor, data, place)
            finally:
                os.close(descriptor)
        self.unsynced_bytes += len(data)

    def sync(self) -> set[Path]:
        """Bring the files to disk; returns the folders above that have new names in them, for the caller to sync."""
        unsynced, self._unsynced = self._unsynced, set()
        self.unsynced_bytes = 0
        for file in unsynced:
            descriptor = os.open(self._path(file), os.O_RDWR)
            try:
                sync_data(descriptor)
            finally:
                os.close(descriptor)
        if not self._new_names:
            return set()
        self._new_names = False
        sync_folder(self.folder)
        return {self.folder.parent, self.folder.parent.parent}

    @property
    def unsynced_pages(self) -> int:
        return self.unsynced_bytes // PAGE

    @property
    def is_synced(self) -> bool:
        return not self._unsynced

    def cut(self, position: int) -> None:
        """Zero what stands from `position` on, and delete the files that lie wholly behind it."""
        while self.offsets and self.offsets[-1] >= position:
            self._path(self.offsets.pop()).unlink()
        if self.offsets and position < self.offsets[-1] + self.file_size:
            place = position - self.offsets[-1]
            stale = len(self.read_data(self.offsets[-1], place).rstrip(b"\0"))
            if stale:
                self.write(position, bytes(stale))

    def delete_first(self) -> None:
        self._path(self.offsets[0]).unlink(missing_ok=True)
        self._unsynced.discard(self.offsets[0])
        del self.offsets[0]

    def _path(self, file: int) -> Path:
        return self.folder / segment_name(file)
