"""Disks that are watched, full or broken: the system's calls are replaced, the files are real."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from pocketmq.storage import disk

# The calls that need room on disk, as far as the store makes them.
_NEED_ROOM = ("pwrite", "ftruncate", "mkdir")


class Syncs:
    """Takes note of what is brought to disk, instead of doing it."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, int]] = []

    def data_of(self, path: Path) -> int:
        """How often the data of a file was synced."""
        return self._seen.count(("data", path.stat().st_ino))

    def names_in(self, path: Path) -> int:
        """How often the names in a folder were synced."""
        return self._seen.count(("names", path.stat().st_ino))

    def __len__(self) -> int:
        return len(self._seen)

    def clear(self) -> None:
        self._seen.clear()

    def note(self, kind: str, descriptor: int) -> None:
        self._seen.append((kind, os.fstat(descriptor).st_ino))


@contextmanager
def watched_syncs() -> Iterator[Syncs]:
    """Every sync is counted and none is done."""
    syncs = Syncs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_fdatasync", lambda descriptor: syncs.note("data", descriptor))
        patch.setattr(os, "fsync", lambda descriptor: syncs.note("names", descriptor))
        yield syncs


@contextmanager
def full_disk(*calls: str) -> Iterator[None]:
    """There is no room left: these calls fail, by default all that need some."""
    with pytest.MonkeyPatch.context() as patch:
        for name in calls or _NEED_ROOM:
            patch.setattr(os, name, _failing(errno.ENOSPC))
        yield


@contextmanager
def broken_disk() -> Iterator[None]:
    """Nothing can be brought to disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_fdatasync", _failing(errno.EIO))
        yield


@contextmanager
def tiny_writes(most: int) -> Iterator[None]:
    """The system writes only so many bytes at a time, as it may."""
    pwrite = os.pwrite

    def write_some(descriptor: int, data: bytes | memoryview, position: int) -> int:
        return pwrite(descriptor, data[:most], position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", write_some)
        yield


def _failing(number: int) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail
