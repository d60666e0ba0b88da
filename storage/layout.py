"""The store directory on one page: where its files are, what they are called, and what they are made of.

    commitlog/00000000000000000000              every message of every topic, in order of arrival
    consumequeue/TOPIC/QUEUE/00000000000000000000   20 bytes a message: where its record lies
    index/20261118124007123                     a hash table from keys to records
    checkpoint                                  how far everything is known to be on disk
    abort                                       there while a broker runs: left over, it tells of a crash
    lock                                        locked while a broker runs
    config/*.json                               topics, groups, offsets

A segment is named by the offset of its first byte, in 20 digits; all segments of a row have one size, so that the
names follow from each other. All integers are big-endian and signed. `docs/file-format.md` explains the formats, the
record itself stands in `protocol/message.py`.
"""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path
from typing import Final

import numpy as np

PAGE: Final = 4096

# The consume queue: where the record lies, its size, and the hash of its tag.
QUEUE_ENTRY: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
QUEUE_ENTRY_SIZE: Final = 20
pack_queue_entry: Final = struct.Struct(">qiq").pack

# A slot of a queue whose message does not exist. RocketMQ writes them in front of a queue that does not begin at 0.
FILLER_SIZE: Final = 0x7FFFFFFF
FILLER: Final = pack_queue_entry(0, FILLER_SIZE, 0)

# The index: 40 bytes of header, the slots, the entries. Entry 0 does not exist: 0 in a slot means none.
INDEX_HEADER: Final = struct.Struct(">qqqqii")
INDEX_SLOT: Final = np.dtype(">i4")
INDEX_ENTRY: Final = np.dtype(
    [("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)

# What a commit log writes where a record does not fit before the end of the segment: the bytes left, and a magic.
BLANK: Final = struct.Struct(">ii")

CHECKPOINT_SIZE: Final = 4096

_SEGMENT_NAME: Final = re.compile(r"[0-9]{20}")
_INDEX_NAME: Final = re.compile(r"[0-9]{17}")


def segment_name(offset: int) -> str:
    return f"{offset:020d}"


def segment_offset(name: str) -> int | None:
    """The offset that a segment is named by; None for a file of another kind."""
    return int(name) if _SEGMENT_NAME.fullmatch(name) else None


def index_name(now_ms: int) -> str:
    """An index file is named by the moment of its creation, in local time and to the millisecond."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    return _INDEX_NAME.fullmatch(name) is not None


def index_file_size(slots: int, entries: int) -> int:
    return INDEX_HEADER.size + INDEX_SLOT.itemsize * slots + INDEX_ENTRY.itemsize * entries


class StorePaths:
    """Where the parts of a store directory are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commit_log = root / "commitlog"
        self.consume_queues = root / "consumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.checkpoint = root / "checkpoint"
        self.abort = root / "abort"
        self.lock = root / "lock"
        self.trash = root / "trash"  # ours: what is being deleted
        self.unreadable = root / "unreadable"  # ours: segments that recovery could make nothing of

    def __repr__(self) -> str:
        return f"StorePaths({str(self.root)!r})"
