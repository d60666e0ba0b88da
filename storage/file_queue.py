"""A row of files under one offset: each is named by the offset of its first byte, and all have one size.

The names need not begin at 0, for old files are deleted, and they may have a gap where a file was lost: what is there
is served under its own offsets, and nothing is ever renumbered.
"""

from __future__ import annotations

import errno
import threading
import time
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

from pocketmq.storage.disk import make_folder, sync_folder
from pocketmq.storage.layout import segment_name, segment_offset
from pocketmq.storage.mapped_file import MappedFile, require_size


def list_segments(folder: Path, file_size: int, setting: str, *, rebuilt: bool = False) -> list[int]:
    """The offsets of the segments in a folder, in order; other files are passed over.

    An empty last file is what an interrupted creation leaves and is deleted, and so is every empty one of files that
    can be rebuilt. Any other wrong size is refused.
    """
    sizes = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        offset = segment_offset(entry.name)
        if offset is not None and entry.is_file():
            sizes[offset] = entry.stat().st_size
    offsets = sorted(sizes)
    for offset in [offset for offset in offsets if not sizes[offset] and (rebuilt or offset == offsets[-1])]:
        (folder / segment_name(offset)).unlink()
        offsets.remove(offset)
    for offset in offsets:
        require_size(folder / segment_name(offset), sizes[offset], file_size, setting)
    return offsets


class FileQueue:
    """The mapped files of a folder, opened when they are first asked for.

    Any thread may look up files while another one adds or deletes some: `offsets` is only ever replaced whole.
    """

    def __init__(self, folder: Path, file_size: int, setting: str) -> None:
        self.folder = folder
        self.file_size = file_size
        self.offsets = tuple(list_segments(folder, file_size, setting))
        self._setting = setting
        self._changing = threading.Lock()
        self._open: dict[int, MappedFile] = {}

    def gaps(self) -> list[tuple[int, int]]:
        """The offsets between two files that belong to no file."""
        size = self.file_size
        return [(before + size, after) for before, after in pairwise(self.offsets) if after != before + size]

    def at(self, offset: int) -> MappedFile:
        """The file that begins at this offset. Raises `FileNotFoundError` if it was deleted meanwhile."""
        file = self._open.get(offset)
        if file is None:
            with self._changing:
                if offset not in self.offsets:
                    raise FileNotFoundError(errno.ENOENT, "it was deleted", str(self.path_of(offset)))
                file = self._open.get(offset)
                if file is None:
                    file = self._open[offset] = MappedFile(self.path_of(offset), self.file_size, self._setting)
        return file

    def start_of(self, offset: int) -> int | None:
        """Where the file begins that holds this offset; None if there is none."""
        offsets = self.offsets
        place = bisect_right(offsets, offset) - 1
        if place < 0 or offset >= offsets[place] + self.file_size:
            return None
        return offsets[place]

    def path_of(self, offset: int) -> Path:
        return self.folder / segment_name(offset)

    def create(self, offset: int) -> MappedFile:
        """A new file, its name and length on disk for good; it joins the row with `add`."""
        make_folder(self.folder)
        file = MappedFile(self.path_of(offset), self.file_size, self._setting, create=True)
        file.sync()
        sync_folder(self.folder)
        return file

    def add(self, offset: int, file: MappedFile) -> None:
        with self._changing:
            self._open[offset] = file
            self.offsets = (*self.offsets, offset)

    def delete(self, offset: int) -> None:
        """Delete one file; who has a view of it keeps it."""
        self._remove(offset)
        self.path_of(offset).unlink(missing_ok=True)

    def move(self, offset: int, folder: Path) -> None:
        """Move one file out of the row, to a folder where nobody looks for it."""
        self._remove(offset)
        make_folder(folder)
        self.path_of(offset).rename(folder / f"{segment_name(offset)}-{time.time_ns()}")

    def _remove(self, offset: int) -> None:
        with self._changing:
            self.offsets = tuple(other for other in self.offsets if other != offset)
            self._open.pop(offset, None)

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
