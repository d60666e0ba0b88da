"""Deleting what is old: the files that go, the offsets that move with them, and the refusal while a disk is full."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from storing import SMALL, batch, flush, message, opened, read_all

from pocketmq.storage.cleaning import clean
from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.layout import QUEUE_ENTRY_SIZE, segment_name
from pocketmq.storage.lookup import IndexType
from pocketmq.storage.reading import ReadRequest, ReadStatus
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store

SIZE = SMALL.mapped_file_size_commit_log
MESSAGES = 80
PER_SEGMENT = 15
LONG_AGO_S = 1_000_000_000


class FakeDisk:
    """A disk of 1000 blocks; how many are taken may depend on what is there."""

    def __init__(self) -> None:
        self.used: Callable[[], int] = lambda: 100

    def __call__(self, _: Path) -> os.statvfs_result:
        free = 1000 - self.used()
        return os.statvfs_result((4096, 4096, 1000, free, free, 0, 0, 0, 0, 255))


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> FakeDisk:
    disk = FakeDisk()
    monkeypatch.setattr(os, "statvfs", disk)
    return disk


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with messages in six segments."""
    with opened(tmp_path) as store:
        fill(store)
        assert store.log.files.offsets == tuple(range(0, 6 * SIZE, SIZE))
        yield store


def fill(store: Store) -> None:
    for number in range(MESSAGES):
        store.append(message(b"x" * 900, queue_id=number % 2, keys=f"k{number:02d}", tag="A"))
    flush(store)
    store.save_progress()


def expire(store: Store, count: int) -> None:
    """Let the first segments be as if written long ago."""
    for offset in store.log.files.offsets[:count]:
        os.utime(store.log.files.path_of(offset), (LONG_AGO_S, LONG_AGO_S))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def left(store: Store) -> list[int]:
    """The messages that can be read, by their keys."""
    return sorted(int(record.keys[0][1:]) for queue_id in (0, 1) for record in read_all(store, queue_id=queue_id))


# Segments.


def test_nothing_goes_as_long_as_nothing_is_due(store: Store, tmp_path: Path) -> None:
    before = {folder: names(tmp_path / folder) for folder in ("commitlog", "consumequeue/T/0", "index")}
    assert clean(store) == clean(store, manual=True) == 0
    assert {folder: names(tmp_path / folder) for folder in before} == before
    assert left(store) == list(range(MESSAGES))


@pytest.mark.parametrize("expired", [1, 2, 3, 5])
def test_expired_segments_go_with_all_that_leads_to_them(store: Store, tmp_path: Path, expired: int) -> None:
    expire(store, expired)
    assert clean(store, manual=True) == expired
    assert names(tmp_path / "commitlog") == [segment_name(offset) for offset in range(expired * SIZE, 6 * SIZE, SIZE)]
    first = expired * PER_SEGMENT
    assert store.log.min_offset == expired * SIZE
    assert left(store) == list(range(first, MESSAGES))
    for queue_id in (0, 1):
        least = sum(number % 2 == queue_id for number in range(first))
        assert store.min_offset("T", queue_id) == least
        # A file goes when its last entry leads nowhere; there are 16 in each.
        files = names(tmp_path / f"consumequeue/T/{queue_id}")
        assert files == [segment_name(16 * QUEUE_ENTRY_SIZE * file) for file in range(least // 16, 3)]
    assert store.query("T", f"k{first - 1:02d}", 10) == []
    assert len(store.query("T", f"k{first:02d}", 10)) == 1
    assert len(store.query("T", "A", 64, index_type=IndexType.TAG)) == min(MESSAGES - first, 64)


def test_index_files_go_that_only_lead_to_segments_that_are_gone(store: Store, tmp_path: Path) -> None:
    # A file has room for 63 entries, and each message has three.
    ends = [file.header.end_physical for file in store.index.files]
    assert len(ends) == 4
    expire(store, 3)
    clean(store, manual=True)
    assert len(store.index.files) == len(names(tmp_path / "index")) == sum(end >= 3 * SIZE for end in ends)


def test_the_first_segment_that_has_not_expired_ends_it(store: Store) -> None:
    expire(store, 4)
    os.utime(store.log.files.path_of(2 * SIZE))
    assert clean(store, manual=True) == 2
    assert store.log.files.gaps() == []


def test_the_last_segment_stays_however_old_it_is(store: Store) -> None:
    expire(store, 6)
    assert clean(store, manual=True) == 5
    assert clean(store, manual=True) == 0
    assert store.log.files.offsets == (5 * SIZE,)
    assert left(store) == list(range(5 * PER_SEGMENT, MESSAGES))


def test_a_pass_deletes_a_batch_at_most(tmp_path: Path) -> None:
    with opened(tmp_path, replace(SMALL, delete_file_batch_max=2)) as store:
        fill(store)
        expire(store, 6)
        assert [clean(store, manual=True) for _ in range(4)] == [2, 2, 1, 0]


def test_readers_keep_what_they_have_and_are_told_where_to_go_on(store: Store) -> None:
    held = store.read(ReadRequest("T", 0, 0, 5, max_bytes=1 << 20))
    plan = store.plan_read(ReadRequest("T", 0, 0, 10))
    content = held.to_bytes()
    expire(store, 3)
    clean(store, manual=True)
    assert held.to_bytes() == content
    assert plan.fetch().status is ReadStatus.MESSAGE_WAS_REMOVING
    result = store.read(ReadRequest("T", 0, 0))
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, store.min_offset("T", 0))


def test_a_queue_without_living_messages_is_empty_and_goes_on_counting(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(5):
            store.append(message(b"%d" % number, "Old"))
        fill(store)
        expire(store, 2)
        clean(store, manual=True)
        assert (store.min_offset("Old", 0), store.max_offset("Old", 0)) == (5, 5)
        assert store.append(message(b"5", "Old")).queue_offset == 5
        flush(store)
        assert [bytes(record.body) for record in read_all(store, "Old")] == [b"5"]
    with opened(tmp_path) as store:
        assert (store.min_offset("Old", 0), store.max_offset("Old", 0)) == (5, 6)


@pytest.mark.parametrize("ending", ["close", "abandon"])
def test_a_cleaned_store_opens_as_it_was(tmp_path: Path, ending: str) -> None:
    store = Store(tmp_path, SMALL)
    fill(store)
    expire(store, 3)
    clean(store, manual=True)
    getattr(store, ending)()
    with opened(tmp_path) as store:
        assert store.log.min_offset == 3 * SIZE
        assert left(store) == list(range(3 * PER_SEGMENT, MESSAGES))


def test_deleted_topics_are_forgotten_with_their_last_segment(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(topic="Gone"))
        store.delete_topic("Gone")
        fill(store)
        store.delete_topic("T")
        expire(store, 1)
        clean(store, manual=True)
        assert b'"Gone"' not in (tmp_path / "config/deletedTopics.json").read_bytes()
        assert b'"T"' in (tmp_path / "config/deletedTopics.json").read_bytes()


@pytest.mark.parametrize("count", [30, 60])
def test_what_nobody_could_read_yet_is_not_deleted(tmp_path: Path, disk: FakeDisk, count: int) -> None:
    with opened(tmp_path) as store:
        fill(store)
        readable = store.log.end
        for _ in range(count):
            store.append(message(b"x" * 900))
        store.append_records(batch([b"x" * 5000] * 3), ("1.2.3.4", 1), ("1.2.3.4", 2))
        disk.used = lambda: 870
        assert clean(store) == 5
        assert store.log.min_offset <= readable
        flush(store)
        assert store.max_offset("T", 0) == MESSAGES // 2 + count + 3
        assert len(read_all(store)) >= count + 3
        # Now it is like all others.
        assert clean(store) > 0
        assert len(store.log.files.offsets) == 1


# Pauses and reports.


def test_there_is_a_pause_behind_each_segment_and_each_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with opened(tmp_path, replace(SMALL, delete_commit_log_files_interval=70)) as store:
        fill(store)
        expire(store, 3)
        with caplog.at_level(logging.INFO, "pocketmq.storage"):
            clean(store, manual=True)
    assert pauses == [0.07] * (3 + 2)
    assert next(record.getMessage() for record in caplog.records) == (
        f"deleted {tmp_path}/commitlog/{segment_name(0)}: expired, and cleaning was asked for"
    )


# Limits.


def taken(store: Store) -> int:
    """The bytes that the log takes on disk."""
    return sum(store.log.files.path_of(offset).stat().st_blocks * 512 for offset in store.log.files.offsets)


def test_the_oldest_segments_go_until_the_log_keeps_its_limit(tmp_path: Path) -> None:
    with opened(tmp_path, replace(SMALL, store_max_bytes=3 * SIZE)) as store:
        fill(store)
        assert taken(store) == 6 * SIZE
        assert clean(store) == 3
        assert taken(store) == 3 * SIZE
        assert clean(store) == 0
        assert left(store) == list(range(3 * PER_SEGMENT, MESSAGES))


def test_a_disk_that_fills_up_loses_segments_of_any_age_and_is_not_refused_if_that_helps(
    store: Store, tmp_path: Path, disk: FakeDisk
) -> None:
    disk.used = lambda: 840 + 13 * len(names(tmp_path / "commitlog"))  # 91.8 percent with six
    assert clean(store) == 5
    assert store.full_disks == ()
    store.append(message())
    flush(store)


def test_writing_is_refused_on_a_full_disk_and_goes_on_by_itself_when_there_is_room(
    tmp_path: Path, disk: FakeDisk
) -> None:
    with opened(tmp_path) as store:
        store.append(message(b"before"))
        flush(store)
        for used, refused in ((900, False), (901, True), (900, True), (851, True), (850, False), (900, False)):
            disk.used = partial(int, used)
            clean(store)
            if refused:
                with pytest.raises(DiskFullError) as raised:
                    store.append(message())
                with pytest.raises(DiskFullError):
                    store.append_records(batch([b"x"]), ("1.2.3.4", 1), ("1.2.3.4", 2))
                error = raised.value
                assert error.path in (tmp_path / "commitlog", tmp_path / "consumequeue")
                assert (error.free_bytes, error.setting) == ((1000 - used) * 4096, "diskSpaceWarningLevelRatio")
            else:
                store.append(message(b"%d" % used))
                flush(store)
            assert bytes(read_all(store)[0].body) == b"before"
        assert [bytes(record.body) for record in read_all(store)[1:]] == [b"900", b"850", b"900"]


@pytest.mark.parametrize(
    ("settings", "used", "setting"),
    [
        (replace(SMALL, store_min_free_bytes=400 * 4096), 601, "storeMinFreeBytes"),
        (replace(SMALL, disk_space_warning_level_ratio=50), 501, "diskSpaceWarningLevelRatio"),
    ],
)
def test_a_refusal_names_the_setting_that_asks_for_it(
    tmp_path: Path, disk: FakeDisk, settings: StoreSettings, used: int, setting: str
) -> None:
    with opened(tmp_path, settings) as store:
        disk.used = lambda: used
        clean(store)
        with pytest.raises(DiskFullError, match=rf"{tmp_path}.*{(1000 - used) * 4096} bytes are free.*{setting}"):
            store.append(message())
        disk.used = lambda: 100
        clean(store)
        store.append(message())
        flush(store)


def test_the_disk_of_the_queues_counts_as_well_once_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: FakeDisk
) -> None:
    def usage(path: Path) -> os.statvfs_result:
        disk.used = lambda: 950 if path.name == "consumequeue" else 100
        return disk(path)

    monkeypatch.setattr(os, "statvfs", usage)
    with opened(tmp_path) as store:
        clean(store)
        store.append(message())
        flush(store)
        store.save_progress()
        clean(store)
        with pytest.raises(DiskFullError, match="consumequeue"):
            store.append(message())
