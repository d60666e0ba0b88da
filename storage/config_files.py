"""The JSON files of the folder `config`: read whatever is left of them, replaced without ever being half there.

To save is to write `topics.json.tmp`, to rename `topics.json` to `topics.json.bak`, and to rename the new file to
`topics.json`. Between the two renames there is only the backup, which is the old document: loading falls back to it.

What could not be read may still mean something to a human. Before anything takes its name it moves aside, to
`topics.json.unreadable`. For the same reason a damaged file never becomes the backup in place of a good one.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fastjson import MAX_DIALECT, dumps, loads
from pocketmq.storage import disk
from pocketmq.storage.errors import StoreUnusableError

logger = logging.getLogger("pocketmq.storage")

# Either a string, to step over it, or a bare integer that is a key.
_INTEGER_KEY: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    rb"|([{,][ \t\r\n]*+)(-?+[0-9]++)(?=[ \t\r\n]*+:)",
    re.DOTALL,
)


class ConfigFile:
    """One document and its backup; to be used by one thread at a time, while the store is locked.

    A crash during `save` leaves the old document or the new one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(f"{path.name}.bak")
        self._temporary = path.with_name(f"{path.name}.tmp")
        self._sound: dict[Path, _Version] = {}  # what was read or written here: reading it again takes long

    def __repr__(self) -> str:
        return f"ConfigFile({str(self._path)!r})"

    def load(self) -> dict[str, Any]:
        """The whole document: of the file, else of its backup, else an empty one.

        Bare integer keys are `int`, but `str` in a document of more than 4 MiB, as quoted ones always are: callers
        have to take both. `StoreUnusableError` means that the system refused to read, which is no damage.
        """
        if not self._path.exists() and not self._backup.exists():
            return {}  # never saved before: nothing to warn of
        for path, instead in (self._path, self._backup.name), (self._backup, "an empty document"):
            try:
                return self._read(path)
            except _UnreadableError as problem:
                logger.warning("%s %s: using %s instead", path, problem, instead)
        return {}

    def save(self, document: dict[str, Any]) -> None:
        """Return when the document is on disk and the one before it is the backup."""
        raw = dumps(document, bare_integer_keys=True)
        disk.make_folder(self._path.parent)
        with disk.full_disk_named(self._path, "storePathRootDir"):
            version = _write(self._temporary, raw)
        if self._keeps(self._path):
            self._keeps(self._backup)
            os.replace(self._path, self._backup)
            self._sound[self._backup] = self._sound[self._path]
        os.replace(self._temporary, self._path)
        self._sound[self._path] = version
        disk.sync_folder(self._path.parent)

    def _keeps(self, path: Path) -> bool:
        """Whether a file holds a document; one that holds something else is moved aside."""
        try:
            if self._sound.get(path) == _Version.of(path.stat()):
                return True
            self._read(path)
        except FileNotFoundError:
            return False
        except _UnreadableError as problem:
            aside = _unused_name(path)
            logger.warning("%s %s: moving it to %s", path, problem, aside.name)
            os.rename(path, aside)
            return False
        return True

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                version = _Version.of(os.fstat(file.fileno()))
                raw = file.read()
        except FileNotFoundError:
            raise _UnreadableError("is missing") from None
        except OSError as error:
            raise StoreUnusableError(path, f"cannot be read: {error.strerror}", "make it readable") from error
        document = _parse(raw)
        self._sound[path] = version
        return document


class _UnreadableError(Exception):
    """Why a file holds no document."""


class _Version(NamedTuple):
    """What tells a file from another one under the same name; it stays the same when the name changes."""

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Version:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


def _parse(raw: bytes) -> dict[str, Any]:
    if not raw:
        raise _UnreadableError("is empty")
    try:
        # The reader of the dialect takes no more than peers may send. A file of ours may be larger.
        document = loads(_quote_integer_keys(raw) if len(raw) > MAX_DIALECT else raw)
    except RemoteProtocolError as error:
        raise _UnreadableError(f"is damaged: {error}") from None
    if not isinstance(document, dict):
        raise _UnreadableError("is damaged: it holds no object")
    return document


def _quote_integer_keys(raw: bytes) -> bytes:
    return _INTEGER_KEY.sub(lambda found: b'%b"%b"' % found.groups() if found[2] else found[0], raw)


def _write(path: Path, raw: bytes) -> _Version:
    """Return when a file with these bytes is on disk, though maybe not its name."""
    with path.open("wb") as file:
        file.write(raw)
        file.flush()
        disk.sync_data(file.fileno())
        return _Version.of(os.fstat(file.fileno()))


def _unused_name(path: Path) -> Path:
    """A name that says why a file is there, and that no file has yet."""
    endings = itertools.chain(["unreadable"], (f"unreadable.{number}" for number in itertools.count(2)))
    names = (path.with_name(f"{path.name}.{ending}") for ending in endings)
    return next(name for name in names if not os.path.lexists(name))
