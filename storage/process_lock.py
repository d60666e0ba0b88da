"""One process at a time: the file `lock`; and whether the last one stopped in order: the file `abort`.

The lock is a POSIX record lock on the first byte of the file, as RocketMQ's is, so that each keeps the other out. Such
a lock belongs to the process, which has two consequences:

- it does not keep a process out a second time, so the locks that are held here are written down here;
- it is gone as soon as the process closes any descriptor of the file, so no other code may even open it.

It ends with the process, however that ends. What is left of a process that crashed is `abort`, which is there while
the store may be written: who finds it has to look for what was lost. That it is there is all that counts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from pocketmq.storage import disk
from pocketmq.storage.errors import DiskFullError, StoreLockedError, StoreUnusableError

_REFUSED: Final = {errno.EACCES, errno.EAGAIN}  # POSIX lets systems choose

_guard: Final = threading.Lock()
_held: Final[set[tuple[int, int]]] = set()  # device and inode of every file that is locked in this process


class StoreLock:
    """The lock of one store, held from `acquire` until `release` or the end of the process; any thread may call."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    def __repr__(self) -> str:
        return f"<StoreLock {str(self._path)!r} {'released' if self._descriptor is None else 'held'}>"

    @classmethod
    def acquire(cls, path: Path) -> StoreLock:
        """Take the lock without waiting for it; `StoreLockedError` if the store is in use."""
        with _guard:
            if path.exists() and _identity(path.stat()) in _held:
                raise StoreLockedError(f"{path}: this process has the store open already; close it there first")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _lock(descriptor, path)
            except BaseException:
                os.close(descriptor)
                raise
            _held.add(_identity(os.fstat(descriptor)))
        return cls(path, descriptor)

    def release(self) -> None:
        """Let others have the store; a second call does nothing."""
        with _guard:
            if self._descriptor is None:
                return
            _held.discard(_identity(os.fstat(self._descriptor)))
            os.close(self._descriptor)
            self._descriptor = None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno in _REFUSED:
            raise StoreLockedError(
                f"{path}: another process has the store open; stop that broker or choose another storePathRootDir"
            ) from None
        raise StoreUnusableError(
            path, f"cannot be locked: {error.strerror}", "choose a storePathRootDir on a disk that has locks"
        ) from error
    with disk.full_disk_named(path, "storePathRootDir"):
        os.pwrite(descriptor, b"lock", 0)
    disk.sync_data(descriptor)


def was_running(path: Path) -> bool:
    """Whether the last process that wrote to the store did not stop in order."""
    return path.exists()


def mark_running(path: Path) -> None:
    """Return when the mark, with our process id in it, is on disk; the text of an older one goes to `abort.bak`.

    The older mark is copied, not renamed: at no moment may a store that has crashed look like one that has not. On a
    full disk the texts are left out: what has to be there is the mark.
    """
    if path.exists():
        with suppress(DiskFullError):
            _write(path.with_name(f"{path.name}.bak"), path.read_bytes())
    with suppress(DiskFullError):
        _write(path, str(os.getpid()).encode())
    if not path.exists():
        raise DiskFullError(path, disk.free_bytes(path), "storePathRootDir")
    disk.sync_folder(path.parent)


def mark_stopped(path: Path) -> None:
    """Return when the mark is gone from the disk."""
    path.unlink(missing_ok=True)
    disk.sync_folder(path.parent)


def _write(path: Path, raw: bytes) -> None:
    with disk.full_disk_named(path, "storePathRootDir"), path.open("wb", buffering=0) as file:
        file.write(raw)
        disk.sync_data(file.fileno())
