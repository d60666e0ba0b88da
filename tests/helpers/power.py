"""A loss of power, played: what was not brought to disk may be lost, page by page and name by name.

While `Power` watches a folder, the calls that bring bytes to disk only note down what they would have made durable:
`fdatasync` the bytes of a file, `fsync` of a folder the names in it. At a cut the folder is built anew somewhere else:

    pages     of 4 KiB that changed since: old or new, each for itself; so is the length
    names     that came, went or moved since: as they were or as they are, each for itself

This is more than a file system with a journal would lose, and no less. Before a cut pages and names may get to disk by
themselves, in any order: `write_back`. A `fuse` ends the process inside of a call: before it syncs for the n-th time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from pocketmq.storage import disk

PAGE = 4096

# Never opened here: closing any descriptor of it would give up the lock of the store.
_LOCK = "lock"


class PowerCut(BaseException):
    """The process ended inside of a call. Nothing may catch it on its way out."""


class Place(NamedTuple):
    """Where a file or folder is: the folder, by its number, and the name in it."""

    folder: int
    name: str


class Power:
    """The disk below one folder: what is on it for good, next to what programs see."""

    def __init__(self, root: Path) -> None:
        self._begin(root)

    def _begin(self, root: Path) -> None:
        """Take all that is there now as being on disk."""
        self.root = root
        self.fuse: int | None = None
        # By inode. Each is kept open, so that its number is not given to another file and its bytes stay.
        self._open: dict[int, int] = {}
        self._data: dict[int, bytes] = {}
        self._places: dict[int, Place] = self._look()
        for inode in self._places:
            if not self._is_folder(inode):
                self._data[inode] = self._current(inode)

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take note of what is synced, instead of syncing it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "_fdatasync", self._sync)
            patch.setattr(os, "fsync", self._sync)
            yield

    def _sync(self, descriptor: int) -> None:
        status, path = os.fstat(descriptor), Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(self.root):
            return
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise PowerCut
        if stat.S_ISDIR(status.st_mode):
            self._sync_folder(status.st_ino)
        elif path.name != _LOCK:
            self._keep_open(status.st_ino, f"/proc/self/fd/{descriptor}")
            self._data[status.st_ino] = self._current(status.st_ino)

    def _sync_folder(self, folder: int) -> None:
        """What is in the folder stays there; what has left it is where it went to, or gone."""
        current = self._look()
        for inode in self._known(current):
            before, now = self._places.get(inode), current.get(inode)
            if before != now and folder in (before and before.folder, now and now.folder):
                self._settle(inode, now)

    def _settle(self, inode: int, place: Place | None) -> None:
        if place is None:
            del self._places[inode]
        else:
            self._places[inode] = place

    def write_back(self, random: Random) -> None:
        """Let the system bring some of what it holds to disk, as it does whenever it likes."""
        often, current = random.random(), self._look()
        for inode in self._known(current):
            place = self._places.get(inode), current.get(inode)
            if place[0] != place[1] and random.random() < often:
                self._settle(inode, place[1])
            if inode in current and not self._is_folder(inode):
                self._data[inode] = self._mixed(inode, random, often)

    def fail(self, root: Path, random: Random) -> None:
        """Lose what may be lost. What is left is in a new folder, which is the one that is watched from now on."""
        often, current = random.random(), self._look()
        taken: dict[Place, int] = {}
        for inode in self._known(current):
            before, now = self._places.get(inode), current.get(inode)
            is_new = before != now and random.random() < often
            place = now if is_new else before
            # Where two have one name, the later one took it from the earlier.
            if place is not None and (is_new or place not in taken):
                taken[place] = inode
        self._build(root, os.stat(self.root).st_ino, taken, random, often)
        self.close()
        self._begin(root)

    def _build(self, path: Path, folder: int, taken: dict[Place, int], random: Random, often: float) -> None:
        path.mkdir()
        for place, inode in sorted(taken.items()):
            if place.folder == folder:
                if self._is_folder(inode):
                    self._build(path / place.name, inode, taken, random, often)
                else:
                    _write_sparse(path / place.name, self._mixed(inode, random, often))

    def _mixed(self, inode: int, random: Random, often: float) -> bytes:
        """What may be on disk of a file: some of its pages old and some new, as many of these as `often` says."""
        old, new = self._data.get(inode, b""), self._current(inode)
        if old == new:
            return old
        length = len(new) if random.random() < often else len(old)
        pages = (
            source[start : start + PAGE].ljust(PAGE, b"\0")
            for start in range(0, length, PAGE)
            for source in (new if random.random() < often else old,)
        )
        return b"".join(pages)[:length]

    # The folder as programs see it.

    def _look(self) -> dict[int, Place]:
        """Where everything is below the root, by inode."""
        places: dict[int, Place] = {}
        self._look_into(self.root, os.stat(self.root).st_ino, places)
        return places

    def _look_into(self, path: Path, folder: int, places: dict[int, Place]) -> None:
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            if entry.name != _LOCK:
                places[entry.inode()] = Place(folder, entry.name)
                self._keep_open(entry.inode(), entry.path)
                if entry.is_dir():
                    self._look_into(Path(entry.path), entry.inode(), places)

    def _known(self, current: dict[int, Place]) -> list[int]:
        """All that is there or was there, in the order in which it was first seen: the same in every run."""
        return [inode for inode in self._open if inode in self._places or inode in current]

    def _keep_open(self, inode: int, path: str) -> None:
        if inode not in self._open:
            self._open[inode] = os.open(path, os.O_RDONLY)

    def _is_folder(self, inode: int) -> bool:
        return stat.S_ISDIR(os.fstat(self._open[inode]).st_mode)

    def _current(self, inode: int) -> bytes:
        descriptor = self._open[inode]
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _write_sparse(path: Path, data: bytes) -> None:
    """Write a file with holes instead of pages of zeros."""
    with path.open("wb") as file:
        file.truncate(len(data))
        for start in range(0, len(data), PAGE):
            page = data[start : start + PAGE]
            if page.strip(b"\0"):
                file.seek(start)
                file.write(page)
