"""How bytes get to disk: every call that makes something durable, or asks how much room there is, is made here.

`fdatasync` brings a file's data and its length to disk, but not its name: that takes an `fsync` of the folder. Pages
that were changed through a mapping count as the file's data. `mmap.flush` is never used: it holds the interpreter
still while the disk works.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pocketmq.storage.errors import DiskFullError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}

# Elsewhere than on Linux the stronger call has to do.
_fdatasync = getattr(os, "fdatasync", os.fsync)


def sync_data(descriptor: int) -> None:
    """Return when the data of a file and its length are on disk."""
    _fdatasync(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Write all of it: the system may take only a part at a time, and does when room runs out."""
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], position + written)


def sync_folder(path: Path) -> None:
    """Return when the names in a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, for good. Raises `DiskFullError`."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with full_disk_named(path, "storePathRootDir"):
        path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def free_bytes(path: Path) -> int:
    """The bytes that an ordinary user may still write on the disk of a path, or where its folder is to be."""
    while not path.exists():
        path = path.parent
    usage = os.statvfs(path)
    return usage.f_bavail * usage.f_frsize


@contextmanager
def full_disk_named(path: Path, setting: str) -> Iterator[None]:
    """Turn the system's "no space left" into a `DiskFullError` that says where, and what to change."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFullError(path, free_bytes(path.parent), setting) from error
        raise
