"""Print any file of a store for a human, or a whole store in one line for each file. Reads only.

What a file is follows from its name and the folders that it lies in. The sizes of files are settings, which no file
holds: with others than those that a store was written with, an index is read at the wrong places.

The file `lock` is never opened. A process that closes any descriptor of it loses its lock, and the process that dumps
may be the one that holds it.
"""

from __future__ import annotations

import dataclasses
import errno
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fastjson import ObjectKey, dumps, loads
from pocketmq.storage import segment_dump
from pocketmq.storage.checkpoint import read_checkpoint
from pocketmq.storage.errors import StorageError
from pocketmq.storage.layout import CHECKPOINT_SIZE, is_index_name, segment_offset
from pocketmq.storage.segment_dump import iso_time, printable
from pocketmq.storage.settings import StoreSettings

LARGEST_DOCUMENT: Final = 64 * 1024 * 1024
"""The largest JSON file that is shown: it is read as a whole, and takes many times its size then."""

_LONGEST_NOTE: Final = 100  # characters of `abort`, which holds a process id

_CONFIG_NAME: Final = re.compile(r".+\.json(\..+)?")  # with `.bak` and the like


def dump(path: Path, settings: StoreSettings) -> Iterator[str]:
    """The lines about a file or a folder. Whatever it holds, and whatever cannot be read, becomes a line too."""
    path = path.absolute()
    try:
        if path.is_dir():
            yield f"{_shown(path)}: folder"
            yield from _folder_lines(path, path, settings)
        else:
            yield _head(path, settings)
            yield from _kind_of(path).lines(path, settings)
    except (OSError, StorageError) as error:
        yield f"{_shown(path)}: {_reason(error)}"


def _head(path: Path, settings: StoreSettings) -> str:
    size, kind = _size_of(path), _kind_of(path)
    expected = kind.size(settings)
    remark = "" if expected in (None, size) else f"; {expected} are expected"
    return f"{_shown(path)}: {kind.name}, {size} bytes{remark}"


class _Kind(NamedTuple):
    """What there is to know about the files of a kind."""

    name: str
    lines: Callable[[Path, StoreSettings], Iterator[str]]
    summary: Callable[[Path, StoreSettings], str]
    size: Callable[[StoreSettings], int | None] = lambda settings: None


def _kind_of(path: Path) -> _Kind:
    folders = [*(parent.name for parent in path.parents), "", "", ""]
    is_segment = segment_offset(path.name) is not None
    if is_segment and folders[0] == "commitlog":
        return _COMMIT_LOG
    if is_segment and folders[2] == "consumequeue":
        return _CONSUME_QUEUE
    if is_index_name(path.name) and folders[0] == "index":
        return _INDEX
    if folders[0] == "config" and _CONFIG_NAME.fullmatch(path.name):
        return _CONFIG
    return _SMALL_FILES.get(path.name, _UNKNOWN)


def _size_of(path: Path) -> int:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")  # to open one might take for ever
    return status.st_size


def _shown(path: Path) -> str:
    return printable(str(path))


def _reason(error: OSError | StorageError) -> str:
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else printable(str(error))


# Folders.


def _folder_lines(folder: Path, root: Path, settings: StoreSettings) -> Iterator[str]:
    """A line for each file below a folder. Links to other folders are not followed: they may lead in circles."""
    for child in sorted(folder.iterdir()):
        shown = _shown(child.relative_to(root))
        try:
            if child.is_dir() and not child.is_symlink():
                yield from _folder_lines(child, root, settings)
            else:
                yield f"{shown}: {_summarise(child, settings)}"
        except (OSError, StorageError) as error:
            yield f"{shown}: {_reason(error)}"


def _summarise(path: Path, settings: StoreSettings) -> str:
    if path.is_dir():
        return f"link to the folder {_shown(path.readlink())}"
    _size_of(path)  # refuses what must not be opened
    kind = _kind_of(path)
    return f"{kind.name}, {kind.summary(path, settings)}"


# Small files.


def _checkpoint_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    checkpoint = read_checkpoint(path)
    for field in dataclasses.fields(checkpoint):
        value = getattr(checkpoint, field.name)
        yield f"{field.name} {value}" + (f", {iso_time(value)}" if field.name.endswith("timestamp") else "")


def _checkpoint_summary(path: Path, settings: StoreSettings) -> str:
    return f"log and queues flushed up to {iso_time(read_checkpoint(path).min_timestamp)}"


def _note_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    with path.open("rb") as file:
        text = str(file.read(_LONGEST_NOTE), "utf-8", "backslashreplace")
    yield f"process id: {printable(text) or 'none, as RocketMQ 4 leaves it'}"


def _config_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    if _size_of(path) > LARGEST_DOCUMENT:
        yield f"too large to show: more than {LARGEST_DOCUMENT} bytes"
        return
    try:
        document = loads(path.read_bytes())
    except RemoteProtocolError as error:
        yield printable(str(error))
        return
    yield from _json_lines(document, "", "", "")


def _json_lines(value: Any, indent: str, before: str, after: str) -> Iterator[str]:
    """The document as RocketMQ would write it, integer keys without quotes, but indented with blanks."""
    if isinstance(value, dict):
        brackets, items = "{}", [(f"{_key_text(key)}: ", item) for key, item in value.items()]
    else:
        brackets, items = "[]", [("", item) for item in value] if isinstance(value, list) else []
    if not items:
        yield f"{indent}{before}{_json_text(value)}{after}"
        return
    yield f"{indent}{before}{brackets[0]}"
    for number, (name, item) in enumerate(items, 1):
        yield from _json_lines(item, f"{indent}  ", name, "," if number < len(items) else "")
    yield f"{indent}{brackets[1]}{after}"


def _key_text(key: str | int | ObjectKey) -> str:
    return _json_text(dict(key) if isinstance(key, ObjectKey) else key)


def _json_text(value: Any) -> str:
    return printable(dumps(value, bare_integer_keys=True).decode())


def _size_summary(path: Path, settings: StoreSettings) -> str:
    return f"{_size_of(path)} bytes"


def _no_lines(path: Path, settings: StoreSettings) -> Iterator[str]:
    return iter(())


_COMMIT_LOG: Final = _Kind(
    "commit log segment",
    segment_dump.commit_log_lines,
    segment_dump.commit_log_summary,
    lambda settings: settings.mapped_file_size_commit_log,
)
_CONSUME_QUEUE: Final = _Kind(
    "consume queue file",
    segment_dump.consume_queue_lines,
    segment_dump.consume_queue_summary,
    lambda settings: settings.mapped_file_size_consume_queue,
)
_INDEX: Final = _Kind(
    "index file", segment_dump.index_lines, segment_dump.index_summary, lambda settings: settings.index_file_size
)
_CONFIG: Final = _Kind("configuration", _config_lines, _size_summary)
_UNKNOWN: Final = _Kind("unknown kind of file", _no_lines, _size_summary)
_SMALL_FILES: Final = {
    "checkpoint": _Kind("checkpoint", _checkpoint_lines, _checkpoint_summary, lambda settings: CHECKPOINT_SIZE),
    "abort": _Kind("mark of a broker that runs, or has crashed", _note_lines, _size_summary),
    "abort.bak": _Kind("older mark of a broker that ran", _note_lines, _size_summary),
    "lock": _Kind("lock of the process that uses the store, never opened", _no_lines, _size_summary),
}
