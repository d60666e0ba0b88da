"""What a clean stop leaves: believed if the store is still as it was, and harmless otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from storing import SMALL, batch, flush, message, opened, read_all

from pocketmq.protocol.fastjson import dumps, loads
from pocketmq.protocol.message import encode_record_at
from pocketmq.storage.clean_stop import CleanStop
from pocketmq.storage.commit_log import SEGMENT_SIZE_SETTING
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.index import Index
from pocketmq.storage.layout import StorePaths, segment_name
from pocketmq.storage.store import Store

SIZE = SMALL.mapped_file_size_commit_log
STOP = CleanStop(1234, 1100, 1_700_000_000_123, {("T", 0): 5, ("T", 11): 0, ("123", 7): 1}, [("20261118124007123", 9)])
DOCUMENT: dict[str, Any] = {
    "logEnd": 1234,
    "lastRecord": 1100,
    "lastStoreTimestamp": 1_700_000_000_123,
    "queues": {"T": {0: 5, 11: 0}, "123": {7: 1}},
    "index": {"20261118124007123": 9},
}


# The file.


def test_the_file_says_where_everything_ends(tmp_path: Path) -> None:
    STOP.save(tmp_path)
    assert loads((tmp_path / "cleanStop.json").read_bytes()) == DOCUMENT
    assert CleanStop.load(tmp_path) == STOP


def test_without_the_file_there_was_no_clean_stop(tmp_path: Path) -> None:
    assert CleanStop.load(tmp_path) is None


@pytest.mark.parametrize("missing", DOCUMENT)
def test_a_file_without_all_of_it_says_nothing(tmp_path: Path, missing: str) -> None:
    document = {name: value for name, value in DOCUMENT.items() if name != missing}
    (tmp_path / "cleanStop.json").write_bytes(dumps(document, bare_integer_keys=True))
    assert CleanStop.load(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logEnd", None),
        ("logEnd", "soon"),
        ("lastRecord", []),
        ("lastStoreTimestamp", {}),
        ("queues", None),
        ("queues", [1]),
        ("queues", {"T": 5}),
        ("queues", {"T": {"zero": 5}}),
        ("queues", {"T": {"0": "five"}}),
        ("index", None),
        ("index", ["20261118124007123"]),
        ("index", {"20261118124007123": "nine"}),
    ],
)
def test_a_file_that_says_something_else_says_nothing(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "cleanStop.json").write_bytes(dumps({**DOCUMENT, name: value}, bare_integer_keys=True))
    assert CleanStop.load(tmp_path) is None


# Whether it fits.


def put(store: Store, count: int = 5) -> None:
    for number in range(count):
        store.append(message(b"%d" % number, tag="A", keys=f"k{number}"))
    flush(store)


@contextmanager
def parts(root: Path) -> Iterator[tuple[FileQueue, Index]]:
    """The log and the index of a store that nobody has open."""
    paths = StorePaths(root)
    files = FileQueue(paths.commit_log, SIZE, SEGMENT_SIZE_SETTING)
    index = Index(paths.index, SMALL.max_hash_slot_num, SMALL.max_index_num, lambda: 0)
    yield files, index
    files.close()
    index.close()


def fits(root: Path) -> bool:
    stop = CleanStop.load(root / "config")
    assert stop is not None
    with parts(root) as (files, index):
        return stop.fits_log(files) and stop.fits_index(index)


def test_a_store_that_was_closed_fits(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)
    assert fits(tmp_path)


def test_a_store_that_never_held_anything_fits(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert fits(tmp_path)


def fill_segment(store: Store) -> None:
    """Write until the second segment has been entered."""
    while store.log.end < SIZE:
        put(store, 1)


def end_at_blank(root: Path) -> None:
    """Let a store end with the blank record of its only segment, as some other broker may leave it."""
    with opened(root) as store:
        fill_segment(store)
    document = loads((root / "config/cleanStop.json").read_bytes())
    (root / f"commitlog/{segment_name(SIZE)}").unlink()
    (root / "config/cleanStop.json").write_bytes(dumps({**document, "logEnd": SIZE}, bare_integer_keys=True))


def test_a_log_that_ends_with_its_last_segment_fits_with_or_without_an_empty_one_behind(tmp_path: Path) -> None:
    end_at_blank(tmp_path)
    assert fits(tmp_path)
    (tmp_path / f"commitlog/{segment_name(SIZE)}").write_bytes(bytes(SIZE))
    assert fits(tmp_path)
    (tmp_path / f"commitlog/{segment_name(SIZE)}").write_bytes(b"\0\0\0\x64".ljust(SIZE, b"\0"))
    assert not fits(tmp_path)


def append_record(root: Path) -> None:
    """What another broker does."""
    stop = CleanStop.load(root / "config")
    assert stop is not None
    with parts(root) as (files, _):
        files.at(0).overwrite(stop.log_end, encode_record_at(message(), 5, stop.log_end, 1_800_000_000_000))


def add_segment(root: Path) -> None:
    (root / f"commitlog/{segment_name(SIZE)}").write_bytes(bytes(SIZE))


def lose_log(root: Path) -> None:
    (root / f"commitlog/{segment_name(0)}").unlink()


def lose_index(root: Path) -> None:
    for path in (root / "index").iterdir():
        path.unlink()


def add_index_file(root: Path) -> None:
    last = max((root / "index").iterdir())
    (root / f"index/{int(last.name) + 1:017d}").write_bytes(bytes(last.stat().st_size))


def add_index_entry(root: Path) -> None:
    path = max((root / "index").iterdir())
    raw = bytearray(path.read_bytes())
    raw[39] += 1
    path.write_bytes(raw)


CHANGES = [append_record, add_segment, lose_log, lose_index, add_index_file, add_index_entry]


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_that_has_changed_since_does_not_fit(tmp_path: Path, change: Callable[[Path], None]) -> None:
    with opened(tmp_path) as store:
        put(store)
    change(tmp_path)
    assert not fits(tmp_path)


# What the next start makes of it.


def numbers(store: Store) -> list[int]:
    return [record.queue_offset for record in read_all(store)]


def test_a_clean_stop_spares_the_next_start_from_reading_anything(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, 100)
        store.append_records(batch([b"x"] * 20), ("1.2.3.4", 1), ("1.2.3.4", 2))
        flush(store)
        end, last_time = store.log.end, store.log.last_store_timestamp
    with opened(tmp_path) as store:
        assert (store.report.clean, store.report.records, store.report.start) == (True, 0, end)
        assert (store.log.end, store.log.last_store_timestamp) == (end, last_time)
        assert numbers(store) == list(range(120))
        put(store, 1)
        assert numbers(store) == list(range(121))
        assert len(store.query("T", "k7", 10)) == 1


def test_the_time_of_the_last_message_outlives_a_clean_stop(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL, now_ms=lambda: 2_000_000_000_000) as store:
        put(store, 1)
    with Store(tmp_path, SMALL, now_ms=lambda: 1_000_000_000_000) as store:
        assert store.append(message()).store_timestamp == 2_000_000_000_000
        flush(store)
    with opened(tmp_path):
        pass


@pytest.mark.parametrize("change", [append_record, add_segment, lose_index, add_index_file, add_index_entry])
def test_a_store_that_has_changed_since_is_read(tmp_path: Path, change: Callable[[Path], None]) -> None:
    with opened(tmp_path) as store:
        put(store)
    change(tmp_path)
    with opened(tmp_path) as store:
        assert store.report.records > 0
        assert numbers(store) == list(range(6 if change is append_record else 5))
        assert len(store.query("T", "k3", 10)) == 1


def test_a_store_that_crashed_is_read_even_if_an_older_clean_stop_fits(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)
    store = Store(tmp_path, SMALL)
    store.abandon()
    assert fits(tmp_path)
    with opened(tmp_path) as store:
        assert not store.report.clean
        assert numbers(store) == list(range(5))


def test_a_queue_that_has_lost_its_files_since_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)
    (tmp_path / "consumequeue/T").rename(tmp_path / "lost")
    with opened(tmp_path) as store:
        assert numbers(store) == list(range(5))


@pytest.mark.parametrize("content", [b"", b"garbage", b"{}", b'{"logEnd":1}'])
def test_a_file_that_cannot_be_read_costs_time_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    with opened(tmp_path) as store:
        put(store)
    for name in ("cleanStop.json", "cleanStop.json.bak"):
        (tmp_path / "config" / name).write_bytes(content)
    with opened(tmp_path) as store:
        assert store.report.records == 5
        assert numbers(store) == list(range(5))


def test_the_backup_of_an_older_stop_is_not_believed_when_the_log_has_grown(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path) as store:
            put(store)
    (tmp_path / "config/cleanStop.json").unlink()
    with opened(tmp_path) as store:
        assert numbers(store) == list(range(10))


def test_a_spare_segment_is_deleted_at_a_clean_stop(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store)
        store.log.prepare_ahead()
        assert (tmp_path / f"commitlog/{segment_name(SIZE)}").exists()
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [segment_name(0)]
    with opened(tmp_path) as store:
        assert store.report.records == 0
