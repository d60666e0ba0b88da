"""File systems of our own, to fill up and to cut the power of. For root on Linux only; `why_not` says what is missing.

Whatever happens, none is left behind: what is mounted here is unmounted where the `with` ends.
"""

from __future__ import annotations

import fcntl
import gc
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from system import missing, run

_TOOLS = ("mkfs.ext4", "mount", "umount")
_MIB = 1 << 20

# linux/fs/ext4: ext4 stops writing at once, and the journal is not written either. Like the power going away.
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NOLOGFLUSH = struct.pack("i", 2)


@cache
def why_not() -> str | None:
    """Why nothing can be mounted here; None if it can."""
    if not sys.platform.startswith("linux"):
        return "file systems are mounted on Linux only"
    if os.geteuid() != 0:
        return "only root may mount file systems"
    if absent := missing(_TOOLS):
        return f"there is no {' and no '.join(absent)}"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "disk"
        try:
            with tmpfs(place, _MIB):
                pass
            with Ext4(Path(folder) / "image", 8 * _MIB).mounted(place):
                pass
        except subprocess.CalledProcessError as error:
            return f"file systems cannot be mounted here: {error.stderr.partition(chr(10))[0]}"
    return None


class Ext4:
    """An ext4 file system in a file, which outlives being mounted. Small ones have blocks of 1 KiB unless told."""

    def __init__(self, image: Path, size: int, block_size: int | None = None) -> None:
        self._image = image
        with image.open("wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", *(["-b", str(block_size)] if block_size else []), str(image))

    @contextmanager
    def mounted(self, place: Path) -> Iterator[Path]:
        with _mounted(place, "-o", "loop", str(self._image)):
            yield place


@contextmanager
def tmpfs(place: Path, size: int) -> Iterator[Path]:
    """A file system in memory."""
    with _mounted(place, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        yield place


def cut_power(place: Path) -> None:
    """Nothing that is written to an ext4 file system reaches its disk any more, not even what was written before."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _NOLOGFLUSH)
    finally:
        os.close(descriptor)


class Filler:
    """A file that takes the room on a disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "filler"
        self._path.touch()

    def fill(self, leave: int = 0) -> None:
        """Take all that is left, to the last block, and give back a little."""
        with self._path.open("r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            for step in (_MIB, 64 * 1024, 4096, 1024):
                try:
                    while True:
                        size += file.write(b"\xff" * step)
                except OSError:
                    os.fsync(file.fileno())  # also makes room: what was only reserved is given back
            file.truncate(max(size - leave, 0))
            os.fsync(file.fileno())

    def empty(self) -> None:
        os.truncate(self._path, 0)


@contextmanager
def _mounted(place: Path, *arguments: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    run("mount", *arguments, str(place))
    try:
        yield
    finally:
        gc.collect()  # a mapping that nobody uses any more would keep the disk busy
        try:
            run("umount", str(place))
        except subprocess.CalledProcessError:
            run("umount", "--lazy", str(place))
            raise
