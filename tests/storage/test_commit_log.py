"""The commit log: the bytes of the specification, the end of a segment, and nothing changed by what was refused."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from disks import broken_disk, full_disk, watched_syncs
from storing import BORN_HOST, STORE_HOST, Clock, batch, message
from threads import PATIENCE, run_meanwhile, run_together

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.ids import pack_host
from pocketmq.protocol.message import MessageRecord, RecordView, decode_record, encode_record_at
from pocketmq.storage import commit_log
from pocketmq.storage.commit_log import SEGMENT_SIZE_SETTING, CommitLog
from pocketmq.storage.errors import DiskFullError, IllegalMessageError
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.layout import BLANK, segment_name
from pocketmq.storage.mapped_file import PIECE, MappedFile
from pocketmq.storage.scan import End, LogScan

SIZE = 16 * 1024


class Logs:
    """A log in one folder, opened again and again; it must be sound whenever it is given up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log: CommitLog | None = None

    def __call__(
        self,
        end: int = 0,
        *,
        size: int = SIZE,
        clock: Clock | None = None,
        last_time: int = 0,
        row: type[FileQueue] = FileQueue,
    ) -> CommitLog:
        self.finish()
        files = row(self.folder, size, SEGMENT_SIZE_SETTING)
        self._log = CommitLog(files, end, last_time, clock or Clock())
        return self._log

    def finish(self) -> None:
        if self._log is not None:
            records_of(self._log)
            self._log.close()


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path / "commitlog")
    yield logs
    logs.finish()


@pytest.fixture
def log(open_log: Logs) -> CommitLog:
    return open_log()


def records_of(log: CommitLog) -> list[RecordView]:
    """All records, after a look whether there is nothing but records, in order, from the beginning to the end."""
    *runs, end = LogScan(log.files, log.min_offset)
    assert end == End(log.end)
    records: list[RecordView] = []
    for run in runs:
        assert isinstance(run, RecordColumns)
        records += [decode_record(run.data.data, start) for start in run.starts.tolist()]
    times = [record.store_timestamp for record in records]
    assert times == sorted(times)
    return records


def sized(size: int) -> MessageRecord:
    """A message whose record takes so many bytes."""
    return message(b"x" * (size - 92), unique=None)


def fill(log: CommitLog, end: int) -> None:
    """Append records up to an offset of the segment that is written."""
    missing = end - log.end
    for size in (1000,) * (missing // 1000 - 1):
        log.append(sized(size), 0)
    log.append(sized(end - log.end), 0)


def raw(log: CommitLog, start: int, end: int) -> bytes:
    """Bytes of the log as they are in the files."""
    first = log.files.start_of(start)
    assert first is not None
    with log.files.path_of(first).open("rb") as file:
        file.seek(start - first)
        return file.read(end - start)


def append_batch(log: CommitLog, columns: RecordColumns, first: int = 0) -> tuple[list[int], int]:
    numbers = np.arange(first, first + len(columns))
    offsets, time = log.append_run(columns, numbers, pack_host(BORN_HOST), pack_host(STORE_HOST))
    return offsets.tolist(), time


# The bytes.


def test_a_record_has_the_bytes_of_the_specification(open_log: Logs) -> None:
    log = open_log(clock=Clock(1_700_000_000_123))
    log.append(sized(1024), 0)
    assert log.append(message(b"hi", "T", 3, tag="A", unique=None), 7) == (1024, 101, 1_700_000_000_123)
    assert raw(log, 1024, 1125) == bytes.fromhex(
        "00000065 daa320a7 58932aac 00000003 00000000 0000000000000007 0000000000000400 00000000"
        "0000018bcfe56800 0a000001 0000c350 0000018bcfe5687b 0a000002 00002a9f 00000000"
        "0000000000000000 00000002 6869 01 54 0007 54414753 01 41 02"
    )
    (_, record) = records_of(log)
    assert record.offset_id == "0A00000200002A9F0000000000000400"


def test_a_blank_record_has_the_bytes_of_the_specification(log: CommitLog) -> None:
    fill(log, SIZE - 500)
    log.append(sized(493), 0)
    assert raw(log, SIZE - 500, SIZE - 492) == bytes.fromhex("000001f4 cbd43194")


def test_a_batch_has_the_bytes_of_its_messages_one_by_one(log: CommitLog) -> None:
    log.append(sized(200), 0)
    columns = batch([b"a", b"", b"ccc" * 100])
    offsets, time = append_batch(log, columns, 40)
    singles = []
    for row, offset in enumerate(offsets):
        properties = columns.properties.tolist()[row].decode()
        record = message(columns.bodies.tolist()[row])._replace(properties_text=properties)
        singles.append(encode_record_at(record, 40 + row, offset, time))
    assert raw(log, 200, log.end) == b"".join(singles)
    assert offsets == [200, 200 + len(singles[0]), 200 + len(singles[0] + singles[1])]


def test_a_batch_is_taken_from_the_midst_of_a_buffer(log: CommitLog) -> None:
    columns = batch([b"a", b"bb", b"ccc", b"dddd"])
    offsets, _ = append_batch(log, RecordColumns(columns.data, columns.starts[1:3]), 5)
    assert offsets[0] == 0
    assert [(bytes(record.body), record.queue_offset) for record in records_of(log)] == [(b"bb", 5), (b"ccc", 6)]


def test_records_follow_each_other(log: CommitLog) -> None:
    assert log.append(message(b"a"), 0)[0] == 0
    _, first, _ = log.append(message(b"a"), 0)
    assert log.end == 2 * first
    offsets, _ = append_batch(log, batch([b"b", b"c"]))
    assert offsets[0] == 2 * first
    physical_offset, size, _ = log.append(message(b"d"), 0)
    assert physical_offset + size == log.end
    assert [bytes(record.body) for record in records_of(log)] == [b"a", b"a", b"b", b"c", b"d"]


def test_ipv6_hosts_and_long_topics_have_their_own_forms(log: CommitLog) -> None:
    record = message(topic="%RETRY%" + "g" * 200)._replace(born_host=("::1", 1), store_host=("fe80::1", 2))
    _, size, _ = log.append(record, 3)
    (found,) = records_of(log)
    assert (found.topic, found.born_host, found.store_host) == (record.topic, ("::1", 1), ("fe80::1", 2))
    assert size == log.end


# The end of a segment.


@pytest.mark.parametrize(
    ("left", "size", "fits"), [(500, 492, True), (500, 493, False), (108, 100, True), (107, 100, False)]
)
def test_a_record_fits_if_eight_bytes_stay_free_behind_it(log: CommitLog, left: int, size: int, fits: bool) -> None:
    fill(log, SIZE - left)
    physical_offset, _, _ = log.append(sized(size), 0)
    assert physical_offset == (SIZE - left if fits else SIZE)
    assert log.files.offsets == ((0,) if fits else (0, SIZE))
    # Wherever it went, the next one is in the second segment and a blank record ends the first.
    log.append(sized(493), 0)
    end = SIZE - left + size if fits else SIZE - left
    assert BLANK.unpack(raw(log, end, end + 8)) == (SIZE - end, -875286124)


def test_a_segment_may_end_with_a_blank_record_of_eight_bytes(log: CommitLog) -> None:
    fill(log, SIZE - 8)
    assert log.append(sized(92), 0)[0] == SIZE
    assert raw(log, SIZE - 8, SIZE) == bytes.fromhex("00000008 cbd43194")


@pytest.mark.parametrize(("spare", "fits"), [(8, True), (7, False)])
def test_a_batch_moves_to_the_next_segment_as_a_whole(log: CommitLog, spare: int, fits: bool) -> None:
    columns = batch([b"x" * 100] * 20)
    fill(log, SIZE - len(columns.data) - spare)
    end = log.end
    offsets, _ = append_batch(log, columns)
    assert offsets[0] == (end if fits else SIZE)
    assert log.end == offsets[0] + len(columns.data)
    if not fits:
        assert raw(log, end, end + 8) == BLANK.pack(SIZE - end, -875286124)
        assert raw(log, end + 8, SIZE).strip(b"\0") == b""


def test_offsets_count_on_through_segments_whatever_they_hold(log: CommitLog) -> None:
    offsets = [log.append(sized(6000), 0)[0] for _ in range(6)]
    assert offsets == [0, 6000, SIZE, SIZE + 6000, 2 * SIZE, 2 * SIZE + 6000]
    assert log.files.offsets == (0, SIZE, 2 * SIZE)
    assert len(records_of(log)) == 6


def test_a_record_may_fill_a_segment_but_for_eight_bytes(log: CommitLog) -> None:
    assert [log.append(sized(SIZE - 8), 0)[0] for _ in range(3)] == [0, SIZE, 2 * SIZE]


# Time.


def test_store_time_never_goes_back_when_the_clock_does(open_log: Logs) -> None:
    clock = Clock(5000)
    log = open_log(clock=clock, last_time=4000)
    times = []
    for now in (3000, 5000, 1000, 6000, 5999):
        clock.now_ms = now
        times.append(log.append(message(), 0)[2])
        times.append(append_batch(log, batch([b"a", b"b"]))[1])
    assert times == [4000, 4000, 5000, 5000, 5000, 5000, 6000, 6000, 6000, 6000]
    assert [record.store_timestamp for record in records_of(log)][:3] == [4000, 4000, 4000]
    assert log.last_store_timestamp == 6000


def test_the_messages_of_a_batch_have_one_store_time(open_log: Logs) -> None:
    class Ticking(Clock):
        def __call__(self) -> int:
            self.now_ms += 1
            return self.now_ms

    log = open_log(clock=Ticking(100))
    append_batch(log, batch([b"x"] * 50))
    assert {record.store_timestamp for record in records_of(log)} == {101}


# What is refused.


def state(log: CommitLog) -> tuple[object, ...]:
    return log.end, log.last_store_timestamp, log.flushed, log.files.offsets, len(records_of(log))


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (sized(SIZE - 7), f"{SIZE - 7} bytes do not fit into a segment of {SIZE}; mappedFileSizeCommitLog"),
        (message()._replace(properties_text="x" * 32768), "properties of 32768 bytes"),
        (message(topic="t" * 32768), "topic of 32768 bytes"),
        (message()._replace(flag=2**31), "a number is too large"),
    ],
    ids=["segment", "properties", "topic", "flag"],
)
def test_a_message_that_no_log_takes_is_refused_and_changes_nothing(
    open_log: Logs, record: MessageRecord, problem: str
) -> None:
    clock = Clock(1000)
    log = open_log(clock=clock)
    log.append(sized(200), 0)
    before = state(log)
    clock.now_ms = 2000
    with pytest.raises(IllegalMessageError, match=problem):
        log.append(record, 1)
    assert state(log) == before
    assert log.append(sized(100), 1)[0] == 200


def test_a_batch_larger_than_a_segment_is_refused_and_changes_nothing(log: CommitLog) -> None:
    log.append(sized(200), 0)
    before = state(log)
    with pytest.raises(IllegalMessageError, match=SEGMENT_SIZE_SETTING):
        append_batch(log, batch([b"x" * 1000] * 20))
    assert state(log) == before


def add_one(log: CommitLog) -> None:
    log.append(sized(600), 1)


def add_batch(log: CommitLog) -> None:
    append_batch(log, batch([b"x" * 100] * 3))


@pytest.mark.parametrize("add", [add_one, add_batch])
@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "open"])
@pytest.mark.parametrize("left", [500, 8])
def test_a_full_disk_at_the_end_of_a_segment_changes_nothing_and_writing_goes_on_when_there_is_room(
    log: CommitLog, add: Callable[[CommitLog], None], call: str, left: int
) -> None:
    fill(log, SIZE - left)
    before = state(log)
    for _ in range(3):
        with full_disk(call), pytest.raises(DiskFullError, match=SEGMENT_SIZE_SETTING):
            add(log)
        assert state(log) == before
        assert raw(log, SIZE - left, SIZE).strip(b"\0") == b""
    add(log)
    assert log.files.offsets == (0, SIZE)


@pytest.mark.parametrize("add", [add_one, add_batch])
def test_a_full_disk_within_a_segment_changes_nothing_and_writing_goes_on_when_there_is_room(
    open_log: Logs, add: Callable[[CommitLog], None]
) -> None:
    log = open_log(size=8 << 20)
    log.append(sized(200), 0)
    prepared = log.files.at(0).prepared
    while log.end + 600 <= prepared:
        log.append(sized(600), 0)
    before = state(log)
    for _ in range(3):
        with full_disk(), pytest.raises(DiskFullError) as raised:
            add(log)
        assert raised.value.path == log.files.path_of(0)
        assert state(log) == before
    end = log.end
    add(log)
    assert log.end > end
    assert log.files.at(0).prepared > prepared


def test_what_is_prepared_already_needs_no_room(log: CommitLog) -> None:
    log.prepare_ahead()
    with full_disk():
        for _ in range(30):
            log.append(sized(1000), 0)
    assert log.files.offsets == (0, SIZE)


# Preparing.


def test_appending_wakes_whoever_prepares_when_room_gets_short(log: CommitLog) -> None:
    assert not log.attention.is_set()
    log.append(sized(100), 0)
    assert log.attention.is_set()
    log.prepare_ahead()
    assert not log.attention.is_set()
    log.append(sized(100), 0)
    assert not log.attention.is_set()
    fill(log, SIZE - 100)
    log.append(sized(100), 0)
    assert log.attention.is_set()


def test_pages_and_the_next_segment_are_prepared_and_on_disk_ahead(log: CommitLog) -> None:
    with watched_syncs() as syncs:
        log.prepare_ahead()
    spare = log.files.path_of(SIZE)
    assert log.files.at(0).prepared == SIZE
    assert (syncs.data_of(log.files.path_of(0)), syncs.data_of(spare), syncs.names_in(spare.parent)) == (1, 2, 1)
    assert spare.stat().st_blocks * 512 >= SIZE
    # It is nobody's yet.
    assert log.files.offsets == (0,)
    assert log.file_at(SIZE) is None
    syncs.clear()
    with watched_syncs() as syncs:
        log.prepare_ahead()
    assert syncs.data_of(log.files.path_of(0)) == 0


def test_in_a_large_segment_only_some_is_prepared_and_no_next_one(
    open_log: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "AHEAD", PIECE)
    log = open_log(size=8 * PIECE)
    log.prepare_ahead()
    assert log.files.at(0).prepared == PIECE
    assert not log.files.path_of(8 * PIECE).exists()
    fill(log, 300_000)
    log.prepare_ahead()
    assert log.files.at(0).prepared == 2 * PIECE


def test_the_next_segment_is_prepared_towards_the_end_of_one(open_log: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "AHEAD", 4096)
    log = open_log()
    fill(log, SIZE - 8192)
    log.prepare_ahead()
    assert not log.files.path_of(SIZE).exists()
    log.append(sized(100), 0)
    log.prepare_ahead()
    assert log.files.path_of(SIZE).exists()


def test_the_prepared_segment_is_the_one_that_is_entered(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.prepare_ahead()
    inode = log.files.path_of(SIZE).stat().st_ino
    with full_disk("pwrite", "ftruncate", "open"):
        fill(log, SIZE - 100)
        assert log.append(sized(100), 0)[0] == SIZE
    assert log.files.path_of(SIZE).stat().st_ino == inode
    log.prepare_ahead()
    assert log.files.path_of(2 * SIZE).exists()


def test_a_segment_that_was_only_prepared_goes_at_a_clean_stop(log: CommitLog) -> None:
    log.prepare_ahead()
    log.append(sized(100), 0)
    log.delete_spare()
    assert not log.files.path_of(SIZE).exists()
    log.delete_spare()
    assert len(records_of(log)) == 1


def test_a_segment_that_was_prepared_and_then_entered_stays(log: CommitLog) -> None:
    log.prepare_ahead()
    fill(log, SIZE - 100)
    log.append(sized(100), 0)
    log.delete_spare()
    assert log.files.path_of(SIZE).exists()


def test_a_full_disk_while_preparing_is_told_and_preparing_goes_on_later(log: CommitLog) -> None:
    log.append(sized(100), 0)
    with full_disk(), pytest.raises(DiskFullError):
        log.prepare_ahead()
    log.prepare_ahead()
    assert log.files.at(0).prepared == SIZE
    assert len(records_of(log)) == 1


def test_who_prepares_while_the_log_enters_a_segment_does_not_take_it_for_the_next(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def add(offset: int, file: MappedFile) -> None:
        threads.append(run_meanwhile(log.prepare_ahead))
        FileQueue.add(log.files, offset, file)

    monkeypatch.setattr(log.files, "add", add)
    fill(log, SIZE - 100)
    log.append(sized(1000), 0)
    for thread in threads:
        thread.join(PATIENCE)
    log.prepare_ahead()
    assert [record.physical_offset for record in records_of(log)][-1] == SIZE
    fill(log, 2 * SIZE - 100)
    assert log.append(sized(1000), 0)[0] == 2 * SIZE


def test_appending_preparing_and_flushing_do_not_disturb_each_other(log: CommitLog) -> None:
    done = threading.Event()
    bodies = [b"%d" % number for number in range(3000)]

    def append() -> None:
        try:
            for body in bodies[:2000]:
                log.append(message(body, unique=None), 0)
            for start in range(2000, 3000, 10):
                append_batch(log, batch(bodies[start : start + 10]))
        finally:
            done.set()

    def prepare() -> None:
        while not done.is_set():
            log.attention.wait(0.01)
            log.prepare_ahead()

    def flush() -> None:
        while not done.is_set():
            assert log.flush() <= log.end

    with watched_syncs():
        run_together(append, prepare, flush)
    assert log.files.offsets == tuple(range(0, log.end, SIZE))
    assert [bytes(record.body) for record in records_of(log)] == bodies


# Flushing.


def test_a_flush_brings_to_disk_what_was_written_and_tells_how_far_and_when(open_log: Logs) -> None:
    clock = Clock(1000)
    log = open_log(clock=clock)
    assert (log.flushed, log.flushed_timestamp) == (0, 0)
    log.append(sized(100), 0)
    assert log.flushed == 0
    with watched_syncs() as syncs:
        assert log.flush() == 100
    assert (syncs.data_of(log.files.path_of(0)), len(syncs)) == (1, 1)
    assert (log.flushed, log.flushed_timestamp) == (100, 1000)


def test_a_flush_syncs_every_segment_with_something_new_and_no_other(log: CommitLog) -> None:
    for _ in range(3):
        log.append(sized(9000), 0)
    paths = [log.files.path_of(offset) for offset in log.files.offsets]
    with watched_syncs() as syncs:
        log.flush()
        assert [syncs.data_of(path) for path in paths] == [1, 1, 1]
        log.append(sized(100), 0)
        log.flush()
        assert [syncs.data_of(path) for path in paths] == [1, 1, 2]
        # The end of the third segment, its blank record, is new too.
        log.append(sized(9000), 0)
        log.flush()
        assert [syncs.data_of(path) for path in paths] == [1, 1, 3]
    assert log.flushed == log.end == 3 * SIZE + 9000


def test_what_is_appended_during_a_flush_is_not_flushed(open_log: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1000)
    log = open_log(clock=clock)
    log.append(sized(100), 0)

    def append_meanwhile(_: MappedFile) -> None:
        clock.now_ms = 2000
        log.append(sized(100), 0)

    monkeypatch.setattr(MappedFile, "sync", append_meanwhile)
    assert log.flush() == 100
    assert (log.flushed, log.flushed_timestamp, log.end) == (100, 1000, 200)


def test_a_failed_flush_is_told_and_nothing_counts_as_flushed(log: CommitLog) -> None:
    log.append(sized(100), 0)
    with broken_disk(), pytest.raises(OSError, match=os.strerror(errno.EIO)):
        log.flush()
    assert (log.flushed, log.flushed_timestamp) == (0, 0)


class Vanishing(FileQueue):
    """A row whose first file is deleted as soon as somebody knows of it."""

    def start_of(self, offset: int) -> int | None:
        start = super().start_of(offset)
        self._delete_first()
        return start

    def at(self, offset: int) -> MappedFile:
        self._delete_first()
        return super().at(offset)

    def _delete_first(self) -> None:
        if len(self.offsets) > 1:
            self.delete(self.offsets[0])


def test_segments_that_are_deleted_during_a_flush_are_passed_over(open_log: Logs) -> None:
    log = open_log(row=Vanishing)
    for _ in range(2):
        log.append(sized(9000), 0)
    assert log.flush() == log.end == SIZE + 9000
    assert log.files.offsets == (SIZE,)


# Finding.


def test_a_place_is_found_where_records_are(log: CommitLog) -> None:
    for _ in range(3):
        log.append(sized(9000), 0)
    log.files.delete(SIZE)
    assert log.min_offset == 0
    found = {offset: log.file_at(offset) for offset in (-1, 0, 9000, SIZE - 1, SIZE, 2 * SIZE, log.end - 1, log.end)}
    places = {offset: place and (place[0].path.name, place[1]) for offset, place in found.items()}
    assert places == {
        -1: None,
        0: (segment_name(0), 0),
        9000: (segment_name(0), 9000),
        SIZE - 1: (segment_name(0), SIZE - 1),
        SIZE: None,
        2 * SIZE: (segment_name(2 * SIZE), 0),
        log.end - 1: (segment_name(2 * SIZE), 8999),
        log.end: None,
    }
    log.files.delete(0)
    assert log.min_offset == 2 * SIZE


def test_a_segment_that_is_deleted_while_a_place_in_it_is_looked_up_is_gone(open_log: Logs) -> None:
    log = open_log(row=Vanishing)
    for _ in range(2):
        log.append(sized(9000), 0)
    assert log.file_at(0) is None
    assert log.files.offsets == (SIZE,)


# Opening.


@pytest.mark.parametrize(
    ("end", "start"), [(0, 0), (100, 0), (SIZE, SIZE), (5 * SIZE, 5 * SIZE), (5 * SIZE + 100, 5 * SIZE)]
)
def test_a_log_without_files_begins_a_segment_of_full_length_around_its_end(
    tmp_path: Path, end: int, start: int
) -> None:
    log = CommitLog(FileQueue(tmp_path, SIZE, SEGMENT_SIZE_SETTING), end, 0, Clock())
    assert (log.end, log.flushed, log.files.offsets) == (end, end, (start,))
    assert log.files.path_of(start).stat().st_size == SIZE
    assert log.append(sized(100), 0)[0] == end
    log.close()


def test_a_log_goes_on_in_its_last_segment_and_leaves_alone_what_is_there(open_log: Logs) -> None:
    log = open_log()
    fill(log, SIZE - 5000)
    kept = raw(log, 0, SIZE)
    log = open_log(log.end, last_time=1_700_000_000_001)
    assert raw(log, 0, SIZE) == kept
    log.prepare_ahead()
    assert raw(log, 0, SIZE) == kept
    assert log.append(sized(100), 0) == (SIZE - 5000, 100, 1_700_000_000_001)
    assert raw(log, 0, SIZE - 5000) == kept[: SIZE - 5000]


def test_a_log_whose_last_segment_is_full_goes_on_in_a_new_one(open_log: Logs) -> None:
    log = open_log()
    fill(log, SIZE - 100)
    log.append(sized(100), 0)
    log.files.delete(SIZE)
    log.end = SIZE
    log = open_log(SIZE)
    assert log.files.offsets == (0, SIZE)
    assert log.append(sized(100), 0)[0] == SIZE


def test_room_behind_the_last_record_is_made_where_the_disk_has_no_page_yet(open_log: Logs) -> None:
    # What another program wrote ends in the midst of a page; behind it there is none.
    log = open_log(size=1 << 20)
    fill(log, 5000)
    os.truncate(log.files.path_of(0), 5000)
    os.truncate(log.files.path_of(0), 1 << 20)
    log = open_log(5000, size=1 << 20)
    assert log.files.path_of(0).stat().st_blocks * 512 <= 8192
    with full_disk(), pytest.raises(DiskFullError):
        log.append(sized(100), 0)
    log.append(sized(100), 0)
    assert log.files.path_of(0).stat().st_blocks * 512 >= 1 << 20
