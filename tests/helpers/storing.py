"""Small stores, and messages to put into them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.message import MessageRecord, RecordView, iter_records
from pocketmq.protocol.properties import encode_properties
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans
from pocketmq.storage import disk
from pocketmq.storage.reading import ReadRequest
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

# Files so small that every kind of them rolls over in a test.
SMALL = StoreSettings(
    mapped_file_size_commit_log=16 * 1024,
    mapped_file_size_consume_queue=20 * 16,
    max_hash_slot_num=16,
    max_index_num=64,
    delete_commit_log_files_interval=0,
)
SMALL_ASYNC = replace(SMALL, flush_disk_type=FlushDiskType.ASYNC_FLUSH)

BORN_HOST = ("10.0.0.1", 50000)
STORE_HOST = ("10.0.0.2", 10911)

_unique = count(1)


def message(
    body: bytes = b"hello",
    topic: str = "T",
    queue_id: int = 0,
    *,
    tag: str | None = None,
    keys: str | None = None,
    unique: str | None = "",
    sys_flag: int = 0,
    delay: int | None = None,
) -> MessageRecord:
    """A message as a broker hands it to the store; with a unique key of its own unless told otherwise."""
    properties = {
        "UNIQ_KEY": f"{next(_unique):032X}" if unique == "" else unique,
        "KEYS": keys,
        "TAGS": tag,
        "DELAY": None if delay is None else str(delay),
    }
    return MessageRecord(
        topic,
        body,
        queue_id,
        1_700_000_000_000,
        BORN_HOST,
        0,
        STORE_HOST,
        sys_flag=sys_flag,
        properties_text=encode_properties(properties),
    )


def batch(
    bodies: list[bytes], topic: str = "T", queue_id: int = 0, tag: str = "A", uniques: list[str] | None = None
) -> RecordColumns:
    """A batch as it comes out of a checked request."""
    keys = uniques or [f"{next(_unique):032X}" for _ in bodies]
    properties = [f"UNIQ_KEY\x01{key}\x02TAGS\x01{tag}\x02".encode() for key in keys]
    run, _ = encode_records(
        topic.encode(), queue_id, Spans.of(bodies), Spans.of(properties), born_timestamp=1_700_000_000_000
    )
    return RecordColumns(run)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@contextmanager
def opened(root: Path, settings: StoreSettings = SMALL) -> Iterator[Store]:
    """A store that is closed at the end, and must then be consistent."""
    with Store(root, settings) as store:
        yield store
    assert verify(root, settings) == []


@contextmanager
def hurried() -> Iterator[None]:
    """No waiting for the disk: for tests in which nobody pulls the plug."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_fdatasync", lambda _: None)
        patch.setattr(os, "fsync", lambda _: None)
        yield


def read_all(store: Store, topic: str = "T", queue_id: int = 0) -> list[RecordView]:
    """Every message of a queue that can be read, in order."""
    records: list[RecordView] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.read(ReadRequest(topic, queue_id, offset, 1000, max_bytes=1 << 20))
        records.extend(iter_records(result.to_bytes()))
        assert result.next_offset > offset
        offset = result.next_offset
    return records


def flush(store: Store) -> None:
    """What the flushing thread and the owner do between them: all that was appended can be read afterwards."""
    store.publish()
    store.flush()
    store.publish()
