"""The file `checkpoint`: how far everything is known to be on disk, for the next start to begin there.

It is one page, of which the first 48 bytes are used: six integers in the order of `Checkpoint`. They lie within one
sector and are written at once, in place: a loss of power leaves the old ones or the new ones. The rest of the page is
kept as it is. There is no checksum, and none is needed: zeros only make the next start read more.
"""

from __future__ import annotations

import os
import struct
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from pocketmq.storage import disk
from pocketmq.storage.errors import StoreUnusableError
from pocketmq.storage.layout import CHECKPOINT_SIZE

_FIELDS: Final = struct.Struct(">6q")

_MARGIN_MS: Final = 3000
"""How far RocketMQ steps back from a checkpoint: store times are not strictly in order."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times (in milliseconds) and physical offsets up to which all is on disk; 0 where nothing is known.

    RocketMQ 4 knows the first three only, and leaves the others as they are.
    """

    physic_msg_timestamp: int = 0  # the commit log
    logics_msg_timestamp: int = 0  # the consume queues
    index_msg_timestamp: int = 0  # the index files that are full
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0  # where the last record began, when it was last recovered
    logics_physical_offset: int = 0  # where the last record of the flushed consume queues begins

    @property
    def min_timestamp(self) -> int:
        """The store time up to which both the log and its queues can be trusted."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN_MS)


def read_checkpoint(path: Path) -> Checkpoint:
    """What the file says; all zeros where it is missing or too short to say it."""
    try:
        with path.open("rb") as file:
            raw = file.read(_FIELDS.size)
    except FileNotFoundError:
        return Checkpoint()
    except OSError as error:
        raise StoreUnusableError(path, f"cannot be read: {error.strerror}", "make it readable or remove it") from error
    return Checkpoint(*_FIELDS.unpack(raw)) if len(raw) == _FIELDS.size else Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Return when the checkpoint is on disk; a crash before that leaves the old one or the new one."""
    raw = _FIELDS.pack(*astuple(checkpoint))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with disk.full_disk_named(path, "storePathRootDir"):
            _make_full_length(descriptor, path)
            disk.write_all(descriptor, raw, 0)
            disk.sync_data(descriptor)
    finally:
        os.close(descriptor)


def _make_full_length(descriptor: int, path: Path) -> None:
    """Write zeros rather than a hole: once it is there, a checkpoint can be written on a full disk too."""
    size = os.fstat(descriptor).st_size
    if size >= CHECKPOINT_SIZE:
        return
    start = size if size >= _FIELDS.size else 0  # half of the fields must not become all of them
    disk.write_all(descriptor, bytes(CHECKPOINT_SIZE - start), start)
    disk.sync_data(descriptor)
    disk.sync_folder(path.parent)
