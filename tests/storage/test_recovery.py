"""Opening a store: what is believed, from where on the log is read, and what is made of the rest."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from power import Power
from storing import SMALL, Clock, batch, flush, hurried, message, read_all

from pocketmq.protocol.columns import RecordColumns
from pocketmq.storage.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pocketmq.storage.cleaning import clean
from pocketmq.storage.layout import segment_name
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Appended, Store
from pocketmq.storage.verify import verify

SEGMENT = SMALL.mapped_file_size_commit_log
START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


class Log:
    """A store that is written a second at a time, then stopped or given up, and opened again."""

    def __init__(self, root: Path, settings: StoreSettings = SMALL) -> None:
        self.root = root
        self.settings = settings
        self.clock = Clock(START_MS)
        self.appended: list[Appended] = []
        self._number = count()
        self.store = self.open()

    def open(self) -> Store:
        self.store = Store(self.root, self.settings, now_ms=self.clock)
        return self.store

    def append(self, topic: str = "T", queue_id: int = 0, *, size: int = 1000, times: int = 1) -> Appended:
        """Messages of which the body is their number, ten seconds apart, and where the last one is."""
        for _ in range(times):
            self.clock.now_ms += 10_000
            body = f"{next(self._number)} ".encode().ljust(size, b".")
            self.appended.append(self.store.append(message(body, topic, queue_id)))
        return self.appended[-1]

    def fill(self, segments: int) -> None:
        """Append until the log reaches into so many segments."""
        while self.store.log.end <= (segments - 1) * SEGMENT:
            self.append()

    def kill(self, *, saved: bool = False) -> None:
        flush(self.store)
        if saved:
            self.store.save_progress()
        self.store.queues.write_out()
        self.store.abandon()

    def first_in(self, segment: int) -> Appended:
        return next(place for place in self.appended if place.physical_offset == segment * SEGMENT)

    def check(self) -> None:
        """All is there, and everything agrees."""
        assert [int(bytes(record.body).split()[0]) for record in read_all(self.store)] == list(
            range(len(self.appended))
        )
        self.store.close()
        assert verify(self.root, self.settings) == []

    @property
    def clean_stop(self) -> Path:
        return self.root / "config" / "cleanStop.json"

    def segment(self, number: int) -> Path:
        return self.root / "commitlog" / segment_name(number * SEGMENT)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "store")


# After a crash: by the checkpoint.


def test_reading_begins_at_the_very_record_that_the_checkpoint_names(log: Log) -> None:
    log.fill(3)
    flush(log.store)
    log.store.save_progress()
    last = log.appended[-1]
    log.append(times=5)
    log.kill()
    assert log.open().report.start == last.physical_offset
    assert log.store.report.records == 6
    assert not log.store.report.clean
    log.check()


def test_what_was_not_readable_when_the_checkpoint_was_written_is_read(log: Log) -> None:
    log.append(times=3)
    flush(log.store)
    unpublished = log.append()
    log.store.save_progress()
    log.store.abandon()
    assert read_checkpoint(log.root / "checkpoint").logics_physical_offset < unpublished.physical_offset
    log.open()
    log.check()


def rewrite_checkpoint(log: Log, *, seconds: int, **changes: int) -> None:
    """A checkpoint as RocketMQ writes it, of so many seconds after the store began."""
    moment = START_MS + seconds * 1000
    checkpoint = Checkpoint(physic_msg_timestamp=moment, logics_msg_timestamp=moment)
    write_checkpoint(log.root / "checkpoint", replace(checkpoint, **changes))


@pytest.mark.parametrize("late", [0, 3, 9])
def test_without_that_record_it_begins_with_the_newest_segment_that_is_three_seconds_older(log: Log, late: int) -> None:
    log.fill(4)
    log.kill(saved=True)
    third = (log.first_in(2).store_timestamp - START_MS) // 1000
    rewrite_checkpoint(log, seconds=third + late)
    assert log.open().report.start == (2 if late >= 3 else 1) * SEGMENT
    log.check()


@pytest.mark.parametrize("field", ["physic_msg_timestamp", "logics_msg_timestamp"])
def test_the_older_of_log_and_queues_counts(log: Log, field: str) -> None:
    log.fill(4)
    log.kill(saved=True)
    second = log.first_in(1).store_timestamp + 5000
    rewrite_checkpoint(log, seconds=10_000, **{field: second})
    assert log.open().report.start == SEGMENT
    log.check()


def test_a_record_that_another_time_belongs_to_is_not_believed(log: Log) -> None:
    """RocketMQ 4 writes times and leaves the place of the record as it was."""
    log.fill(4)
    log.kill(saved=True)
    seconds = (log.first_in(1).store_timestamp - START_MS) // 1000 + 5
    rewrite_checkpoint(log, seconds=seconds, logics_physical_offset=log.first_in(3).physical_offset)
    assert log.open().report.start == SEGMENT
    log.check()


@pytest.mark.parametrize("offset", [-1, 1, 5000, 2**40, 2**63 - 1])
def test_a_place_where_no_record_begins_is_not_believed(log: Log, offset: int) -> None:
    log.fill(2)
    log.kill(saved=True)
    rewrite_checkpoint(log, seconds=0, logics_physical_offset=offset)
    assert log.open().report.start == 0
    log.check()


@pytest.mark.parametrize("moment", [0, -1, -(2**63), 2**62, 2**63 - 1, START_MS - 1])
def test_times_that_cannot_be_lead_to_the_beginning(log: Log, moment: int) -> None:
    log.fill(4)
    log.kill(saved=True)
    rewrite_checkpoint(log, seconds=0, physic_msg_timestamp=moment, logics_msg_timestamp=moment)
    assert log.open().report.start == 0
    log.check()


def test_without_a_checkpoint_the_whole_log_is_read(log: Log) -> None:
    log.fill(3)
    log.kill(saved=True)
    (log.root / "checkpoint").unlink()
    assert log.open().report.start == 0
    log.check()


def test_it_never_begins_behind_what_the_queues_hold(log: Log) -> None:
    log.fill(4)
    flush(log.store)
    log.store.save_progress()
    queue = log.store.queues.get("T", 0)
    assert queue is not None
    per_file = queue.entries_per_file
    log.store.abandon()
    folder = log.root / "consumequeue/T/0"
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    log.clean_stop.unlink(missing_ok=True)
    start = log.open().report.start
    assert start <= log.appended[per_file - 1].end
    log.check()


# After an orderly stop.


def test_after_a_clean_stop_nothing_is_read(log: Log) -> None:
    log.fill(4)
    log.store.close()
    report = log.open().report
    assert report.clean
    assert (report.start, report.end, report.records) == (log.appended[-1].end, log.appended[-1].end, 0)
    log.check()


def test_after_the_stop_of_another_broker_the_last_three_segments_are_read(log: Log) -> None:
    log.fill(5)
    log.store.close()
    log.clean_stop.unlink()
    report = log.open().report
    assert report.clean
    assert report.start == 2 * SEGMENT
    log.check()


def test_of_a_short_log_the_last_three_segments_are_all(log: Log) -> None:
    log.fill(2)
    log.store.close()
    log.clean_stop.unlink()
    assert log.open().report.start == 0
    log.check()


def test_a_clean_stop_is_not_believed_if_the_log_has_grown_since(log: Log) -> None:
    log.append(times=3)
    log.store.close()
    remembered = log.clean_stop.read_bytes()
    log.open()
    log.append(times=3)
    log.store.close()
    log.clean_stop.write_bytes(remembered)
    assert log.open().report.records == 6
    log.check()


def test_a_clean_stop_is_not_believed_if_a_segment_has_come_since(log: Log) -> None:
    log.append(times=3)
    log.store.close()
    remembered = log.clean_stop.read_bytes()
    log.open()
    log.fill(3)
    log.store.close()
    log.clean_stop.write_bytes(remembered)
    assert log.open().report.records == len(log.appended)
    log.check()


def test_a_clean_stop_is_not_believed_after_a_crash(log: Log) -> None:
    log.append(times=3)
    log.store.close()
    (log.root / "abort").touch()
    assert not log.open().report.clean
    assert log.store.report.records == 1  # the checkpoint names the last
    log.check()


def cut_the_queue(log: Log) -> None:
    path = max((log.root / "consumequeue/T/0").iterdir())
    path.write_bytes(bytes(path.stat().st_size))


def remove_a_queue(log: Log) -> None:
    shutil.rmtree(log.root / "consumequeue/T/0")


def remove_the_index(log: Log) -> None:
    shutil.rmtree(log.root / "index")


def remove_the_last_index_file(log: Log) -> None:
    max((log.root / "index").iterdir()).unlink()


def clear_the_last_index_file(log: Log) -> None:
    path = max((log.root / "index").iterdir())
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    "damage",
    [cut_the_queue, remove_a_queue, remove_the_index, remove_the_last_index_file, clear_the_last_index_file],
)
@pytest.mark.parametrize("crashed", [True, False])
def test_what_queues_or_index_have_lost_since_is_made_again(
    log: Log, damage: Callable[[Log], None], crashed: bool
) -> None:
    log.fill(5)
    log.append("U", 7)
    log.appended.pop()
    log.store.close()
    if crashed:
        (log.root / "abort").touch()
    damage(log)
    log.open()
    assert len(read_all(log.store, "U", 7)) == 1
    assert [record.queue_offset for record in read_all(log.store)] == list(range(len(log.appended)))
    log.store.close()
    assert verify(log.root, SMALL) == []


def test_a_hole_in_a_queue_makes_the_whole_log_be_read(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing tells of the queue but records behind the checkpoint whose numbers do not follow."""
    log.append("U", times=3)
    log.fill(3)
    flush(log.store)
    log.store.save_progress()
    log.append("U")
    log.kill()
    shutil.rmtree(log.root / "consumequeue/U")
    assert log.open().report.start == 0
    assert "queues are incomplete, the whole log is read" in caplog.text
    assert [record.queue_offset for record in read_all(log.store, "U")] == [0, 1, 2, 3]
    log.store.close()
    assert verify(log.root, SMALL) == []


def test_without_an_index_the_checkpoint_alone_decides(tmp_path: Path) -> None:
    log = Log(tmp_path, replace(SMALL, message_index_enable=False))
    log.fill(3)
    flush(log.store)
    log.store.save_progress()
    last = log.append()
    log.kill()
    assert log.open().report.start == log.appended[-2].physical_offset
    assert log.store.report.end == last.end
    assert not (tmp_path / "index").exists()
    log.check()


def test_a_log_that_begins_late_is_read_from_its_first_segment(tmp_path: Path) -> None:
    log = Log(tmp_path, replace(SMALL, store_max_bytes=2 * SEGMENT))
    log.fill(5)
    flush(log.store)
    log.store.save_progress()
    assert clean(log.store) > 0
    first = log.store.log.min_offset
    kept = [place.queue_offset for place in log.appended if place.physical_offset >= first]
    log.kill()
    (tmp_path / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    shutil.rmtree(tmp_path / "index")
    assert log.open().report.start == first
    assert [record.queue_offset for record in read_all(log.store)] == kept
    assert log.append().queue_offset == kept[-1] + 1
    log.store.close()
    assert verify(tmp_path, log.settings) == []


# What stands behind the end.


def test_an_unused_segment_is_deleted(log: Log) -> None:
    log.append()
    log.store.log.prepare_ahead()
    log.kill()
    assert log.segment(1).exists()
    log.open()
    assert not log.segment(1).exists()
    log.check()


def test_a_segment_in_which_nothing_can_be_read_is_moved_aside(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.append()
    log.store.log.prepare_ahead()
    log.kill()
    garbage = Random(1).randbytes(SEGMENT)
    log.segment(1).write_bytes(garbage)
    log.open()
    assert not log.segment(1).exists()
    (aside,) = (log.root / "unreadable").iterdir()
    assert aside.name.startswith(segment_name(SEGMENT))
    assert aside.read_bytes() == garbage
    assert str(log.root / "unreadable") in caplog.text
    log.fill(3)
    flush(log.store)
    log.check()


def test_a_torn_record_that_would_have_begun_a_segment_is_zeroed_like_any_other(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    while log.append().physical_offset < SEGMENT:
        pass
    log.kill()
    with log.segment(1).open("r+b") as file:
        file.seek(100)
        file.write(bytes(SEGMENT - 100))  # of its first record only the head is there
    log.open()
    assert log.store.log.end == SEGMENT
    assert not any(log.segment(1).read_bytes())
    assert not (log.root / "unreadable").exists()
    assert [line.levelname for line in caplog.records if line.levelname == "ERROR"] == []
    again = log.store.append(message(b"%d" % (len(log.appended) - 1)))
    assert (again.physical_offset, again.queue_offset) == (SEGMENT, len(log.appended) - 1)
    flush(log.store)
    log.check()


def test_stale_bytes_behind_the_end_are_zeroed(log: Log) -> None:
    end = log.append().end
    log.kill()
    with log.segment(0).open("r+b") as file:
        file.seek(end + 5000)
        file.write(b"stale")
    log.open()
    assert not any(log.segment(0).read_bytes()[end:])
    log.check()


def test_an_empty_store_has_nothing_to_recover(log: Log) -> None:
    log.kill()
    report = log.open().report
    assert (report.start, report.end, report.records, report.gaps) == (0, 0, 0, [])
    log.check()


# Records that only seem whole.


def test_a_record_whose_last_page_is_missing_is_not_taken_for_one_without_properties(tmp_path: Path) -> None:
    """The body is there, its CRC is right and all lengths are, too: what is lost is covered by nothing."""
    log = Log(tmp_path)
    log.append()
    padding = 4096 - log.store.log.end - 91 - 1 - 20
    record = message(b"x" * padding, unique="k" * 50)
    torn = log.store.append(record)
    assert torn.physical_offset + 88 + padding < 4096 - 10 < 4096 < torn.end
    log.kill()
    with log.segment(0).open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    assert log.open().log.end == torn.physical_offset
    log.check()


def test_a_record_whose_properties_end_in_a_zero_is_whole_if_its_page_is(log: Log) -> None:
    record = message(b"0 ", unique=None)._replace(properties_text="a\x01b\0")
    log.appended.append(log.store.append(record))
    log.kill()
    log.open()
    log.check()


# What is told of it.


def test_gaps_and_records_that_no_queue_can_hold_are_reported(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.append(times=4)
    log.kill()
    damaged, misplaced = log.appended[1], log.appended[2]
    with log.segment(0).open("r+b") as file:
        file.seek(damaged.physical_offset + 100)
        file.write(b"?")
        file.seek(misplaced.physical_offset + 20)
        file.write((2**40).to_bytes(8))
    (log.root / "checkpoint").unlink()
    with caplog.at_level(logging.ERROR):
        report = log.open().report
    assert report.gaps == [(damaged.physical_offset, damaged.end)]
    assert report.rejected == [misplaced.physical_offset]
    assert f"nothing can be read from {damaged.physical_offset} to {damaged.end}" in caplog.text
    assert f"the record at {misplaced.physical_offset} cannot be in the queue that it names" in caplog.text
    assert [record.queue_offset for record in read_all(log.store)] == [0, 3]
    log.store.close()
    assert sorted(problem.what for problem in verify(log.root, SMALL)) == [
        f"message {2**40} is in the log and not in the queue",
        f"no record can be read from {damaged.physical_offset} to {damaged.end}",
    ]


# Losses of power: single stories. The model has all the others.


@pytest.fixture
def power(tmp_path: Path) -> Iterator[Power]:
    root = (tmp_path / "store").resolve()
    root.mkdir()
    power = Power(root)
    with power.watching():
        yield power
    power.close()


@pytest.mark.parametrize("seed", range(4))
def test_what_was_recovered_after_the_end_of_a_process_survives_a_loss_of_power(power: Power, seed: int) -> None:
    """It was in memory only; the recovered store shows it to readers, so it has to be on disk."""
    log = Log(power.root)
    log.append("T", size=5000, times=10)
    log.store.abandon()
    log.open().abandon()
    log.root = power.root.with_name("left")
    power.fail(log.root, Random(seed))
    log.open()
    log.check()


@pytest.mark.parametrize("seed", range(4))
def test_queue_files_that_a_process_left_without_their_names_on_disk_get_them(power: Power, seed: int) -> None:
    log = Log(power.root)
    log.append(size=10, times=40)
    flush(log.store)
    log.store.queues.write_out()
    log.store.abandon()
    log.open().abandon()
    log.root = power.root.with_name("left")
    power.fail(log.root, Random(seed))
    assert log.open().report.records == 1  # all the others are known to be in their queue
    log.check()


@pytest.mark.parametrize("seed", range(4))
def test_records_that_come_back_after_cleaning_have_their_queue_entries(power: Power, seed: int) -> None:
    log = Log(power.root, replace(SMALL, store_max_bytes=2 * SEGMENT))
    log.fill(6)
    flush(log.store)
    log.store.save_progress()
    clean(log.store)
    log.store.abandon()
    log.root = power.root.with_name("left")
    power.fail(log.root, Random(seed))
    log.open().close()
    assert verify(log.root, log.settings) == []


@pytest.mark.parametrize("seed", range(4))
def test_an_asynchronous_store_keeps_what_was_flushed(power: Power, seed: int) -> None:
    log = Log(power.root, replace(SMALL, flush_disk_type=FlushDiskType.ASYNC_FLUSH))
    log.append(size=3000, times=7)
    log.store.publish()
    log.store.flush()
    flushed = len(log.appended)
    log.append(size=3000, times=7)
    log.store.publish()
    log.store.abandon()
    log.root = power.root.with_name("left")
    power.fail(log.root, Random(seed))
    records = read_all(log.open())
    assert [record.queue_offset for record in records][:flushed] == list(range(flushed))


# A full index file.


def test_getting_ready_for_more_does_not_touch_an_index_file_that_is_full(log: Log) -> None:
    """Its pages were written by the process before: they are not zeros that wait to be used."""
    keys = [f"key{number}" for number in range(SMALL.max_index_num - 1)]
    log.store.append_records(columns_with(keys), ("10.0.0.1", 1), ("10.0.0.2", 2))
    log.store.close()
    log.open()
    assert [file.room for file in log.store.index.files] == [0]
    log.store.index.prepare_ahead()
    for key in keys:
        assert len(log.store.query("T", key, 2)) == 1
    log.store.close()
    assert verify(log.root, SMALL) == []


def columns_with(keys: list[str]) -> RecordColumns:
    return batch([b"x"] * len(keys), tag="", uniques=keys)
