"""What can go wrong with a store, by what the caller can do about it.

Each text names the file or the number at fault and, where there is one, the next step.
"""

from __future__ import annotations

from pathlib import Path

from pocketmq.protocol.errors import PocketMQError


class StorageError(PocketMQError):
    """The store cannot do what it was asked for."""


class StoreLockedError(StorageError):
    """Another process, or another part of this one, has the store open."""


class StoreUnusableError(StorageError):
    """The directory cannot be opened as it is: a file has the wrong size, a folder cannot be read."""

    def __init__(self, path: Path, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}; {advice}")
        self.path = path


class StoreClosedError(StorageError):
    """The store was closed; open it again to go on."""


class DiskFullError(StorageError):
    """There is no room for what was to be written. Nothing changed; writing goes on when there is room again."""

    def __init__(self, path: Path, free_bytes: int, setting: str) -> None:
        super().__init__(f"{path}: the disk is full, {free_bytes} bytes are free; free some space or change {setting}")
        self.path = path
        self.free_bytes = free_bytes
        self.setting = setting


class FlushFailedError(StorageError):
    """The system could not bring bytes to disk: what they are now only the disk knows.

    Nothing is acknowledged any more. The next start reads what is there.
    """


class IllegalMessageError(StorageError):
    """A message that no store takes: too large, or one of its parts is."""
