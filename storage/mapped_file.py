"""One file of the store, of fixed length and mapped whole.

A file has its full length at once, since RocketMQ refuses any other, but takes no room on disk for what nobody wrote.
Writing through the mapping where the disk has no page yet would need room at that moment, and without any the system
kills the process. So zeros are written first, with `pwrite`, which can fail like any other call: a byte may be
written through the mapping only if it lies below `prepared`.

What the system takes for a page there can be large: it asks for room for all of the piece of the file that it keeps
together in memory, and where a disk has smaller blocks than a page, a page can be there in part. So pieces of the
largest size that there is are prepared as a whole, and in part is not at all.

**Lifetime.** `data` and `view`, and every view made of them, keep the mapping alive, even when the file is closed or
deleted here: memory is given back when the last of them is gone, and until then it reads as it did. So a reader needs
no permission and a deletion waits for nobody.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pocketmq.protocol.spans import Bytes
from pocketmq.storage.disk import full_disk_named, sync_data, write_all
from pocketmq.storage.errors import DiskFullError, StoreUnusableError

# What Linux keeps together at most: a huge page. ext4 does so since 6.16, for files that were read before.
PIECE = 2 << 20

# What is written at once Linux keeps together, too. The first write to a page after a flush costs the more, the larger
# that is, and zeros cost the less: this is between the two.
_ZEROS = memoryview(bytes(64 << 10))


class MappedFile:
    """A mapped file. One thread writes; `prepare` and `sync` may be called from another."""

    def __init__(self, path: Path, size: int, setting: str, *, create: bool = False, prepared: int = 0) -> None:
        """Open the file, or create it. `setting` is the one that governs its size, for errors to name."""
        self.path = path
        self.size = size
        self.prepared = prepared
        self._setting = setting
        self._preparing = threading.Lock()
        self._descriptor = -1
        with full_disk_named(path, setting):
            self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
            if create:
                os.ftruncate(self._descriptor, size)
        require_size(path, os.fstat(self._descriptor).st_size, size, setting)
        self._mapping = mmap.mmap(self._descriptor, size)
        self.view = memoryview(self._mapping)
        self.data: Bytes = np.frombuffer(self._mapping, np.uint8)

    def prepare(self, end: int, *, at_least: int = 0) -> None:
        """Make sure that the bytes below `end` may be written, and if any are missing, `at_least` so many more.

        Raises `DiskFullError`; what could be prepared stays so.
        """
        if end <= self.prepared:
            return
        # Who comes second waits for the first: zeros written late would fall on data.
        with self._preparing:
            goal = min(-(-max(end, self.prepared + at_least) // PIECE) * PIECE, self.size)
            try:
                self._write_zeros(goal)
            except DiskFullError:
                if self.prepared < end:
                    raise

    def _write_zeros(self, goal: int) -> None:
        written = self.prepared
        while written < goal:
            with full_disk_named(self.path, self._setting):
                written += os.pwrite(self._descriptor, _ZEROS[: goal - written], written)
            whole = written if written == self.size else written // PIECE * PIECE
            self.prepared = max(self.prepared, whole)

    def clear(self, start: int) -> None:
        """Write zeros over all data from `start` on, and bring them to disk. Only while nobody else uses the file."""
        for begin, end in self.stretches(start):
            for position in range(begin, end, len(_ZEROS)):
                self.overwrite(position, _ZEROS[: end - position])
        self.sync()

    def overwrite(self, position: int, data: bytes | memoryview) -> None:
        """Write bytes past the mapping, where pages may be missing. Raises `DiskFullError`."""
        with full_disk_named(self.path, self._setting):
            write_all(self._descriptor, data, position)

    def stretches(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """Where the file takes room on disk, from `start` on; all else is zeros."""
        while (stretch := next_data(self._descriptor, start)) is not None:
            yield stretch
            start = stretch[1]

    def is_hole(self, position: int) -> bool:
        """Whether the file takes no room there. On a full tmpfs even reading such a place ends the process."""
        stretch = next(self.stretches(position), None)
        return stretch is None or stretch[0] > position

    def find(self, pattern: bytes, start: int) -> Iterator[int]:
        """Where a pattern occurs, from `start` on; holes are not read."""
        for begin, end in self.stretches(start):
            found = self._mapping.find(pattern, begin, end)
            while found >= 0:
                yield found
                found = self._mapping.find(pattern, found + 1, end)

    def is_zero(self) -> bool:
        """Whether there is nothing but zeros in the file."""
        return not any(self.data[begin:end].any() for begin, end in self.stretches())

    def sync(self) -> None:
        """Return when all that was written is on disk."""
        sync_data(self._descriptor)

    def close(self) -> None:
        """Give up the descriptor. Views stay valid, those of readers and our own."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close

    def delete(self) -> None:
        """Take the file out of its folder; it is gone when nobody uses it any more."""
        self.path.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<MappedFile {self.path.name} of {self.size} bytes, prepared to {self.prepared}>"


def next_data(descriptor: int, position: int) -> tuple[int, int] | None:
    """The next stretch of a file, from `position` on, that takes room on disk; None if only a hole is left."""
    try:
        start = os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None
    return start, os.lseek(descriptor, start, os.SEEK_HOLE)


def require_size(path: Path, actual: int, expected: int, setting: str) -> None:
    """Refuse a file of another size than the settings say: names and offsets would not fit together."""
    if actual != expected:
        raise StoreUnusableError(
            path,
            f"the file has {actual} bytes, not {expected} as {setting} says",
            f"set {setting} as it was when the store was written, or move the file away",
        )
