"""The two threads: when each step is due, that all who wait share a flush, and that a failed one ends it for good."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from disks import broken_disk, full_disk, watched_syncs
from storing import SMALL, SMALL_ASYNC, flush, message, opened, read_all
from threads import PATIENCE, run_meanwhile

from pocketmq.storage import disk, workers
from pocketmq.storage.checkpoint import read_checkpoint
from pocketmq.storage.errors import DiskFullError, FlushFailedError, StorageError, StoreClosedError
from pocketmq.storage.layout import PAGE, segment_name
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify
from pocketmq.storage.workers import MOST_UNSAVED, Workers, is_flush_due, is_save_due

SIZE = SMALL.mapped_file_size_commit_log
# Nothing of the second thread is due by itself.
QUIET = replace(
    SMALL,
    clean_resource_interval=10**9,
    flush_interval_consume_queue=10**9,
    flush_consume_queue_thorough_interval=10**9,
)
QUIET_ASYNC = replace(QUIET, flush_disk_type=SMALL_ASYNC.flush_disk_type)


# When something is due.


@pytest.mark.parametrize(
    ("end", "flushed", "since_last_ms", "due"),
    [
        (0, 0, 10**9, False),
        (100 * PAGE, 100 * PAGE, 10**9, False),
        (4 * PAGE, 0, 499, False),
        (4 * PAGE, 0, 500, True),
        (4 * PAGE - 1, 0, 9_999, False),
        (4 * PAGE - 1, 0, 10_000, True),
        (1, 0, 10_000, True),
        # Pages are counted by their borders, as RocketMQ does.
        (4 * PAGE, PAGE - 1, 500, True),
        (4 * PAGE, PAGE, 500, False),
    ],
)
def test_a_log_is_flushed_when_enough_pages_wait_or_have_waited_long_enough(
    end: int, flushed: int, since_last_ms: float, due: bool
) -> None:
    assert is_flush_due(StoreSettings(), end, flushed, since_last_ms) is due


def test_with_no_least_number_of_pages_a_log_is_flushed_at_every_interval() -> None:
    settings = StoreSettings(flush_commit_log_least_pages=0, flush_interval_commit_log=20)
    assert not is_flush_due(settings, 1, 0, 19)
    assert is_flush_due(settings, 1, 0, 20)


@pytest.mark.parametrize(
    ("unsaved_bytes", "since_last_ms", "due"),
    [
        (0, 10**9, False),
        (1, 59_999, False),
        (1, 60_000, True),
        (MOST_UNSAVED - 1, 0, False),
        (MOST_UNSAVED, 0, True),
    ],
)
def test_progress_is_saved_every_minute_and_when_much_has_come(
    unsaved_bytes: int, since_last_ms: float, due: bool
) -> None:
    assert is_save_due(StoreSettings(), unsaved_bytes, since_last_ms) is due


# Watching threads.


class Watch:
    """Stands in for a function and lets others wait until it has been called."""

    def __init__(self, function: Callable[..., Any] = lambda *_: None) -> None:
        self.calls: list[Any] = []
        self._function = function
        self._called = threading.Condition()

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._function(*arguments)
        finally:
            with self._called:
                self.calls.append(arguments[0] if len(arguments) == 1 else arguments)
                self._called.notify_all()

    def wait(self, more: int = 1) -> None:
        """Wait for so many calls more."""
        with self._called:
            goal = len(self.calls) + more
            assert self._called.wait_for(lambda: len(self.calls) >= goal, PATIENCE)

    def wait_until_called(self) -> None:
        with self._called:
            assert self._called.wait_for(lambda: self.calls, PATIENCE)

    def wait_for(self, call: object) -> None:
        with self._called:
            assert self._called.wait_for(lambda: call in self.calls, PATIENCE)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread looks round all the time."""
    monkeypatch.setattr(workers, "_LOOK_INTERVAL", 0.001)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path, QUIET) as store:
        yield store


def put(store: Store, *bodies: bytes) -> int:
    """Append messages as one burst; where the log ends behind them."""
    for body in bodies:
        end = store.append(message(body)).end
    store.publish()
    return end


# SYNC_FLUSH.


def test_what_was_published_is_flushed_soon_and_whoever_waits_for_it_goes_on(store: Store) -> None:
    flushed = Watch()
    with Workers(store, flushed):
        for number in range(20):
            end = put(store, b"%d" % number)
            assert store.wait_durable(end, PATIENCE)
            assert store.is_durable(end)
            store.publish()
            assert len(read_all(store)) == number + 1
    assert flushed.calls[-1] == store.log.end
    assert flushed.calls == sorted(flushed.calls)


def test_what_was_not_published_is_not_waited_for(store: Store) -> None:
    end = store.append(message()).end
    assert not store.wait_durable(end, 0.001)
    assert store.wait_durable(0, 0.0)
    store.flush()
    assert store.wait_durable(end, 0.0)


def test_all_who_come_during_a_flush_share_the_next_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()
    syncs: list[int] = []

    def slow_sync(_: int) -> None:
        if threading.current_thread().name == "pocketmq-flush":
            syncs.append(store.log.end)
            entered.set()
            assert release.wait(PATIENCE)

    monkeypatch.setattr(disk, "_fdatasync", slow_sync)
    flushed = Watch()
    with Workers(store, flushed):
        first = put(store, b"first")
        assert entered.wait(PATIENCE)
        ends = [put(store, b"%d" % number) for number in range(10)]
        assert not store.is_durable(first)
        release.set()
        assert all(store.wait_durable(end, PATIENCE) for end in (first, *ends))
        flushed.wait_for(ends[-1])
    assert flushed.calls[:2] == [first, ends[-1]]
    assert syncs == [first, ends[-1]]


def test_many_threads_may_wait_at_once(store: Store) -> None:
    with Workers(store):
        ends = [put(store, b"%d" % number) for number in range(50)]
        outcomes: list[bool] = []
        waiting = [
            threading.Thread(target=lambda end=end: outcomes.append(store.wait_durable(end, PATIENCE))) for end in ends
        ]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
    assert outcomes == [True] * 50


# ASYNC_FLUSH.


@pytest.mark.parametrize(
    "settings",
    [
        replace(QUIET_ASYNC, flush_interval_commit_log=1, flush_commit_log_least_pages=0),
        replace(
            QUIET_ASYNC,
            flush_interval_commit_log=1,
            flush_commit_log_least_pages=10**6,
            flush_commit_log_thorough_interval=2,
        ),
    ],
    ids=["interval", "thorough interval"],
)
def test_without_anybody_waiting_the_log_is_flushed_every_now_and_then(tmp_path: Path, settings: StoreSettings) -> None:
    flushed = Watch()
    with opened(tmp_path, settings) as store, Workers(store, flushed):
        for _ in range(3):
            end = put(store, b"x")
            assert store.max_offset("T", 0) > 0  # readable before it is flushed
            flushed.wait_for(end)
            assert store.is_durable(end)


def test_too_few_pages_are_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(QUIET_ASYNC, flush_interval_commit_log=1)
    looked = Watch(is_flush_due)
    monkeypatch.setattr(workers, "is_flush_due", looked)
    flushed = Watch()
    with opened(tmp_path, settings) as store:
        with Workers(store, flushed):
            put(store, b"x")
            looked.wait(5)
        assert flushed.calls == []


# When the disk fails.


def test_a_failed_flush_stops_acknowledging_for_good(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failures = Watch()
    store = Store(tmp_path, QUIET)
    first = put(store, b"safe")
    flush(store)
    with Workers(store, on_failure=failures):
        with broken_disk():
            end = put(store, b"lost")
            with pytest.raises(FlushFailedError, match="look after the disk"):
                store.wait_durable(end, PATIENCE)
            failures.wait_until_called()
        # The disk is well again, and says so; what it forgot it does not say.
        for attempt in (
            lambda: store.append(message()),
            lambda: store.wait_durable(first, PATIENCE),
            store.flush,
            store.save_progress,
        ):
            with pytest.raises(FlushFailedError, match=f"{tmp_path}.*{os.strerror(errno.EIO)}"):
                attempt()
        assert not store.is_durable(end)
        assert store.publish() == []
        assert [bytes(record.body) for record in read_all(store)] == [b"safe"]
    assert [type(failure) for failure in failures.calls] == [FlushFailedError]
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
    store.close()
    assert (tmp_path / "abort").exists()
    with pytest.raises(StoreClosedError):
        store.append(message())
    with opened(tmp_path, QUIET) as store:
        assert not store.report.clean
        assert [bytes(record.body) for record in read_all(store)] == [b"safe", b"lost"]


def fail_in(thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk fail, but only for one thread."""
    fdatasync = disk._fdatasync

    def sync(descriptor: int) -> None:
        if threading.current_thread().name == thread:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fdatasync(descriptor)

    monkeypatch.setattr(disk, "_fdatasync", sync)


@pytest.mark.parametrize(
    "settings",
    [
        QUIET,  # pages and segments are prepared
        replace(QUIET, flush_interval_consume_queue=0, flush_consume_queue_least_pages=0),
        replace(QUIET, flush_consume_queue_thorough_interval=0),
    ],
    ids=["prepare", "queues", "progress"],
)
def test_a_sync_that_fails_in_the_second_thread_stops_acknowledging_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: StoreSettings, quick: None
) -> None:
    # The system tells of a failure once for each file: the next flush would seem to have gone well.
    store = Store(tmp_path, settings)
    put(store, b"a")
    flush(store)
    if settings is not QUIET:
        store.log.prepare_ahead()
    failures = Watch()
    with Workers(store, on_failure=failures):
        fail_in("pocketmq-keep", monkeypatch)
        store.append(message(b"b"))
        store.log.attention.set()
        failures.wait_until_called()
        with pytest.raises(FlushFailedError):
            store.append(message())
        with pytest.raises(FlushFailedError):
            store.flush()
    assert [type(failure) for failure in failures.calls] == [FlushFailedError]
    store.close()
    assert (tmp_path / "abort").exists()
    monkeypatch.undo()
    with opened(tmp_path, settings) as store:
        assert [bytes(record.body) for record in read_all(store)] == [b"a", b"b"]


def test_a_failure_is_told_once_though_both_threads_meet_it(tmp_path: Path, quick: None) -> None:
    failures = Watch()
    store = Store(tmp_path, replace(QUIET, flush_consume_queue_thorough_interval=0))
    workers = Workers(store, on_failure=failures)
    with broken_disk():
        with workers:
            put(store, b"lost")
            for thread in workers._threads:
                thread.join(PATIENCE)
        assert len(failures.calls) == 1
        store.close()
    with opened(tmp_path) as store:
        assert len(read_all(store)) == 1


def test_a_flush_that_ends_late_does_not_take_back_what_a_later_one_reached(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"first")
    later: list[threading.Thread] = []

    def sync(_: MappedFile) -> None:
        if not later:
            put(store, b"second")
            later.append(threading.current_thread())
            later[0] = run_meanwhile(store.flush)

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "sync", sync)
        store.flush()
        later[0].join(PATIENCE)
    assert store.log.flushed == store.log.end


def test_a_flush_that_begins_while_another_fails_does_not_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, QUIET)
    end = put(store, b"lost")
    second: list[threading.Thread] = []
    outcomes: list[StorageError] = []

    def flush_too() -> None:
        try:
            store.flush()
        except StorageError as error:
            outcomes.append(error)

    def sync(_: MappedFile) -> None:
        if not second:
            second.append(threading.current_thread())
            second[0] = run_meanwhile(flush_too)
            raise OSError(errno.EIO, "this is told once")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "sync", sync)
        with pytest.raises(FlushFailedError):
            store.flush()
        second[0].join(PATIENCE)
    assert [type(error) for error in outcomes] == [FlushFailedError]
    assert not store.is_durable(end)
    store.close()
    with opened(tmp_path, QUIET) as store:
        assert len(read_all(store)) == 1


def test_what_recovery_found_in_the_page_cache_is_brought_to_disk(tmp_path: Path) -> None:
    """A process that ends leaves its pages to the system; nobody knows which of them are on disk."""
    store = Store(tmp_path, SMALL_ASYNC)
    for _ in range(3 * SIZE // 1000):
        store.append(message(b"x" * 800))
    store.publish()
    store.abandon()
    segments = sorted((tmp_path / "commitlog").iterdir())
    assert len(segments) == 3
    with watched_syncs() as syncs:
        store = Store(tmp_path, SMALL_ASYNC)
        assert all(syncs.data_of(segment) for segment in segments)
    assert store.is_durable(store.log.end)
    store.close()
    assert verify(tmp_path, SMALL_ASYNC) == []


# The second thread.


def test_pages_and_the_next_segment_are_got_ready_when_they_are_wanted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = Watch(store.log.prepare_ahead)
    monkeypatch.setattr(store.log, "prepare_ahead", prepared)
    with Workers(store):
        put(store, b"x" * 1000)
        prepared.wait(2)
        assert (tmp_path / f"commitlog/{segment_name(SIZE)}").exists()
        assert store.log.files.at(0).prepared == SIZE


def test_queues_are_written_to_their_files_at_their_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    settings = replace(QUIET, flush_interval_consume_queue=1)
    with opened(tmp_path, settings) as store:
        synced = Watch(store.queues.sync)
        monkeypatch.setattr(store.queues, "sync", synced)
        with Workers(store):
            put(store, b"x")
            assert store.wait_durable(store.log.end, PATIENCE)
            store.publish()
            synced.wait(2)
            assert synced.calls[-1] == settings.flush_consume_queue_least_pages
            raw = (tmp_path / f"consumequeue/T/0/{segment_name(0)}").read_bytes()
        assert raw[8:12] == store.log.end.to_bytes(4, "big")


def test_progress_is_saved_when_it_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    settings = replace(QUIET_ASYNC, flush_consume_queue_thorough_interval=1)
    with opened(tmp_path, settings) as store:
        saved = Watch(store.save_progress)
        monkeypatch.setattr(store, "save_progress", saved)
        flush(store)
        with Workers(store):
            put(store, b"x")
            saved.wait_until_called()
            time = read_all(store)[0].store_timestamp
        store.save_progress()
        checkpoint = read_checkpoint(tmp_path / "checkpoint")
        assert (checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) == (time, time)
        # With nothing new there is nothing to save.
        count = len(saved.calls)
        looked = Watch(store.log.prepare_ahead)
        monkeypatch.setattr(store.log, "prepare_ahead", looked)
        with Workers(store):
            looked.wait(5)
        assert len(saved.calls) == count


def test_cleaning_is_done_at_its_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    cleaned = Watch()
    monkeypatch.setattr(workers, "clean", cleaned)
    with opened(tmp_path, replace(QUIET, clean_resource_interval=1)) as store:
        put(store, b"x")
        flush(store)
        store.save_progress()
        store.delete_topic("T")
        assert list((tmp_path / "trash").iterdir())
        with Workers(store):
            cleaned.wait(2)
        assert cleaned.calls[0] is store
        assert not list((tmp_path / "trash").iterdir())


def test_a_full_disk_does_not_end_the_second_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, quick: None
) -> None:
    failures = Watch()
    with opened(tmp_path, QUIET) as store:
        put(store, b"x")
        flush(store)
        prepared = Watch(store.log.prepare_ahead)
        monkeypatch.setattr(store.log, "prepare_ahead", prepared)
        with Workers(store, on_failure=failures):
            with full_disk():
                prepared.wait(3)
                fill = partial(store.append, message(b"x" * 5000))
                with pytest.raises(DiskFullError):
                    list(iter(fill, None))
            prepared.wait(2)
            assert store.wait_durable(put(store, b"y" * 5000), PATIENCE)
        store.publish()
        assert bytes(read_all(store)[-1].body) == b"y" * 5000
        assert failures.calls == []
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert all("the disk is full" in warning and str(tmp_path) in warning for warning in warnings)
    assert warnings


# Beginning and end.


def test_the_threads_end_with_the_block_however_little_there_was_to_do(store: Store) -> None:
    workers = Workers(store)
    assert not any(thread.is_alive() for thread in workers._threads)
    with workers as entered:
        assert entered is workers
        names = sorted(thread.name for thread in workers._threads if thread.is_alive())
    assert names == ["pocketmq-flush", "pocketmq-keep"]
    assert not any(thread.is_alive() for thread in workers._threads)


def test_the_end_of_the_block_is_not_delayed_by_work_that_waits(store: Store) -> None:
    with Workers(store):
        put(store, *[b"x" * 1000] * 100)
    # What the threads did not come to is done by closing the store.
    store.close()
    assert store.is_durable(store.log.end)
