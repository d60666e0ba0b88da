"""Going through a log: whatever was done to it, only what was written comes back, and all that is left of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from disks import watched_syncs
from hypothesis import given
from hypothesis import strategies as st
from storing import Clock, batch, message

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.ids import pack_host
from pocketmq.protocol.message import MAGIC_BLANK, encode_record_at
from pocketmq.storage import scan
from pocketmq.storage.commit_log import SEGMENT_SIZE_SETTING, CommitLog
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.layout import BLANK, segment_name
from pocketmq.storage.scan import End, Gap, LogScan

SIZE = 4096
START_MS = 1_700_000_000_000


class Log:
    """A log of three segments that was written in order, one message a millisecond, and can then be damaged."""

    def __init__(self, folder: Path, messages: int = 85) -> None:
        self.folder = folder
        self.files = FileQueue(folder, SIZE, SEGMENT_SIZE_SETTING)
        clock = Clock(START_MS)
        with watched_syncs():
            log = CommitLog(self.files, 0, 0, clock)
            self._write(log, clock, messages)
        self.end = log.end
        self.last_time = clock.now_ms

    def _write(self, log: CommitLog, clock: Clock, messages: int) -> None:
        self.places: list[tuple[int, int]] = []  # start and end of every record
        for number in range(messages):
            clock.now_ms += 1
            start, size, _ = log.append(message(b"%d" % number * 10, unique=None, tag="A"), number)
            self.places.append((start, start + size))

    @property
    def starts(self) -> list[int]:
        return [start for start, _ in self.places]

    def overwrite(self, offset: int, data: bytes) -> None:
        start = offset - offset % SIZE
        self.files.at(start).overwrite(offset - start, data)

    def flip(self, offset: int, bit: int = 0) -> None:
        start = offset - offset % SIZE
        self.overwrite(offset, bytes([self.files.at(start).view[offset - start] ^ 1 << bit]))

    def scan(self, start: int = 0) -> tuple[list[int], list[Gap], int]:
        """Where good records begin, the gaps between them, and the end."""
        found: list[int] = []
        gaps: list[Gap] = []
        *runs, end = LogScan(FileQueue(self.folder, SIZE, SEGMENT_SIZE_SETTING), start)
        assert isinstance(end, End)
        for run in runs:
            if isinstance(run, Gap):
                gaps.append(run)
            else:
                assert isinstance(run, RecordColumns)
                found += run.physical_offset.tolist()
        return found, gaps, end.offset


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    assert log.files.offsets == (0, SIZE, 2 * SIZE)
    return log


def place_in(log: Log, segment: int, number: int) -> int:
    """Which record is the one with this number in that segment, counted from behind if negative."""
    inside = [row for row, start in enumerate(log.starts) if start // SIZE == segment]
    return inside[number]


# A log in order.


def test_without_files_a_log_ends_where_it_begins(tmp_path: Path) -> None:
    for start in (0, 5000):
        assert list(LogScan(FileQueue(tmp_path, SIZE, SEGMENT_SIZE_SETTING), start)) == [End(start)]


def test_a_segment_of_zeros_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / segment_name(SIZE)).write_bytes(bytes(SIZE))
    assert list(LogScan(FileQueue(tmp_path, SIZE, SEGMENT_SIZE_SETTING), SIZE)) == [End(SIZE)]


def test_every_record_of_every_segment_is_found(log: Log) -> None:
    assert log.scan() == (log.starts, [], log.end)


def test_a_scan_may_begin_at_any_record(log: Log) -> None:
    for row, start in enumerate(log.starts):
        assert log.scan(start) == (log.starts[row:], [], log.end)


def test_a_scan_may_begin_at_the_end_or_at_a_blank_record(log: Log) -> None:
    assert log.scan(log.end) == ([], [], log.end)
    last = place_in(log, 0, -1)
    assert log.scan(log.places[last][1]) == (log.starts[last + 1 :], [], log.end)


def test_a_log_that_ends_with_a_blank_record_ends_where_the_next_segment_would_begin(log: Log) -> None:
    for offset in (SIZE, 2 * SIZE):
        log.files.path_of(offset).unlink()
    inside = [start for start in log.starts if start < SIZE]
    assert log.scan() == (inside, [], SIZE)


@pytest.mark.parametrize("step", [1, 50, 130, 1000, SIZE - 1, SIZE])
def test_records_are_found_however_much_is_looked_at_in_one_step(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(scan, "_STEP", step)
    assert log.scan() == (log.starts, [], log.end)
    log.flip(log.starts[5] + 89)
    log.flip(log.starts[-1] + 89)
    assert log.scan() == (log.starts[:5] + log.starts[6:-1], [Gap(*log.places[5])], log.starts[-1])


def test_records_of_every_form_are_found(tmp_path: Path) -> None:
    files = FileQueue(tmp_path, SIZE, SEGMENT_SIZE_SETTING)
    log = CommitLog(files, 0, 0, Clock())
    for topic in ("T", "%RETRY%" + "g" * 200):
        for born in (("1.2.3.4", 1), ("::1", 1)):
            for store in (("1.2.3.4", 1), ("::1", 1)):
                log.append(message(b"", topic)._replace(born_host=born, store_host=store), 0)
    host = pack_host(("1.2.3.4", 1))
    log.append_run(batch([b"a", b"b"]), np.arange(2), host, host)
    *runs, end = LogScan(files, 0)
    assert sum(len(run) for run in runs) == 10
    assert end == End(log.end)


# Damage. What every one of these finds is compared with what was written; so is what it has to miss.


def zero(log: Log, row: int) -> None:
    start, end = log.places[row]
    log.overwrite(start, bytes(end - start))


def spoil_size(log: Log, row: int) -> None:
    log.overwrite(log.starts[row], b"\x7f\xff\xff\xff")


def shorten_size(log: Log, row: int) -> None:
    log.overwrite(log.starts[row] + 3, b"\x60")


def negate_size(log: Log, row: int) -> None:
    log.overwrite(log.starts[row], b"\xff\xff\xff\xff")


def spoil_magic(log: Log, row: int) -> None:
    log.flip(log.starts[row] + 6)


def spoil_body(log: Log, row: int) -> None:
    log.flip(log.starts[row] + 89, 7)


def spoil_crc(log: Log, row: int) -> None:
    log.flip(log.starts[row] + 11)


def spoil_place(log: Log, row: int) -> None:
    log.flip(log.starts[row] + 35)


def fill_with_garbage(log: Log, row: int) -> None:
    start, end = log.places[row]
    log.overwrite(start, bytes(range(7, 7 + end - start)))


def repeat_another(log: Log, row: int) -> None:
    """A sector of an older record, as a disk may leave it."""
    start, end = log.places[row]
    log.overwrite(start, encode_record_at(message(b"stale" * 4, unique=None), 0, start - 4096, START_MS)[: end - start])


DAMAGES = [
    zero,
    spoil_size,
    shorten_size,
    negate_size,
    spoil_magic,
    spoil_body,
    spoil_crc,
    spoil_place,
    fill_with_garbage,
    repeat_another,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("segment", "number"), [(0, 0), (0, 3), (0, -1), (1, 0), (1, 4), (1, -1), (2, 0), (2, 2)])
def test_behind_a_bad_record_the_log_goes_on_with_the_next_good_one(
    log: Log, damage: Callable[[Log, int], None], segment: int, number: int
) -> None:
    row = place_in(log, segment, number)
    damage(log, row)
    found, gaps, end = log.scan()
    assert found == log.starts[:row] + log.starts[row + 1 :]
    assert gaps == [Gap(log.starts[row], log.starts[row + 1])]
    assert end == log.end


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_ends_in_front_of_its_last_record_if_that_is_bad(log: Log, damage: Callable[[Log, int], None]) -> None:
    damage(log, -1)
    assert log.scan() == (log.starts[:-1], [], log.starts[-1])


def test_bad_records_next_to_each_other_are_one_gap_and_others_are_many(log: Log) -> None:
    for row in (3, 4, 5, 9, 83, 84):
        spoil_body(log, row)
    found, gaps, end = log.scan()
    assert found == [start for row, start in enumerate(log.starts) if row not in (3, 4, 5, 9, 83, 84)]
    assert gaps == [Gap(log.starts[3], log.starts[6]), Gap(log.starts[9], log.starts[10])]
    assert end == log.starts[83]


def test_a_log_in_which_nothing_is_good_ends_where_the_scan_began(log: Log) -> None:
    for row in range(len(log.starts)):
        spoil_crc(log, row)
    assert log.scan() == ([], [], 0)
    assert log.scan(log.starts[7]) == ([], [], log.starts[7])


def test_a_missing_segment_is_a_gap(log: Log) -> None:
    log.files.path_of(SIZE).unlink()
    found, gaps, end = log.scan()
    assert found == [start for start in log.starts if start // SIZE != 1]
    assert gaps == [Gap(SIZE, 2 * SIZE)]
    assert end == log.end


def test_where_the_last_segment_is_missing_the_log_ends(log: Log) -> None:
    log.files.path_of(2 * SIZE).unlink()
    assert log.scan() == ([start for start in log.starts if start < 2 * SIZE], [], 2 * SIZE)


def test_a_lost_blank_record_is_a_gap_up_to_the_next_segment(log: Log) -> None:
    end = log.places[place_in(log, 0, -1)][1]
    log.overwrite(end, bytes(SIZE - end))
    assert log.scan() == (log.starts, [Gap(end, SIZE)], log.end)


def test_a_blank_record_is_known_by_its_magic_wherever_another_program_ended_its_segment(log: Log) -> None:
    row = place_in(log, 1, 6)
    log.overwrite(log.starts[row], BLANK.pack(0, MAGIC_BLANK))
    found, gaps, _ = log.scan()
    assert found == [start for start in log.starts if not log.starts[row] <= start < 2 * SIZE]
    assert gaps == []


@pytest.mark.parametrize("left", range(9))
def test_what_stands_in_the_last_bytes_of_a_segment_is_no_blank_record_unless_it_is_whole(
    tmp_path: Path, left: int
) -> None:
    files = FileQueue(tmp_path, 1000, SEGMENT_SIZE_SETTING)
    file = files.create(0)
    files.add(0, file)
    record = encode_record_at(message(b"x" * (1000 - left - 92), unique=None), 0, 0, START_MS)
    file.overwrite(0, record + BLANK.pack(left, MAGIC_BLANK)[:left])
    *_, end = LogScan(files, 0)
    assert end == End(1000 if left in (0, 8) else 1000 - left)


# What is stale.


def stale(log: Log, time: int) -> int:
    """Put a record behind the end of the log, good but for its time; where it begins."""
    start = log.end + 100
    log.overwrite(start, encode_record_at(message(b"old", unique=None), 0, start, time))
    return start


@pytest.mark.parametrize("age_ms", [2, 1000, START_MS])
def test_a_record_from_before_the_last_good_ones_does_not_make_the_log_go_on(log: Log, age_ms: int) -> None:
    stale(log, log.last_time - age_ms)
    assert log.scan() == (log.starts, [], log.end)


@pytest.mark.parametrize("age_ms", [1, 0, -1])
def test_a_record_from_the_time_of_the_last_good_ones_or_later_makes_the_log_go_on(log: Log, age_ms: int) -> None:
    start = stale(log, log.last_time - age_ms)
    assert log.scan() == ([*log.starts, start], [Gap(log.end, start)], start + 95)


def test_a_record_that_says_it_lies_elsewhere_does_not_make_the_log_go_on(log: Log) -> None:
    log.overwrite(log.end + 100, encode_record_at(message(), 0, log.end + 101, log.last_time + 1))
    assert log.scan() == (log.starts, [], log.end)


def test_a_body_that_looks_like_records_is_none(tmp_path: Path) -> None:
    """Not even if the record around it is bad: a record says where it lies, and the one inside lies elsewhere."""
    files = FileQueue(tmp_path, SIZE, SEGMENT_SIZE_SETTING)
    log = CommitLog(files, 0, 0, Clock())
    inner = encode_record_at(message(b"inner", unique=None), 0, 0, START_MS)
    log.append(message(inner * 5, unique=None), 0)
    log.append(message(b"\xda\xa3\x20\xa7" * 50, unique=None), 1)
    end = log.end
    log.append(message(b"last", unique=None), 2)
    for offset in (11, len(inner) * 5 + 92 + 11):
        files.at(0).overwrite(offset, b"\xff")
    assert list(map(type, LogScan(files, 0))) == [Gap, RecordColumns, End]
    assert next(iter(LogScan(files, 0))) == Gap(0, end)


# The first record.


def test_the_time_of_the_first_record_is_told_if_it_is_good(log: Log) -> None:
    def time_at(start: int) -> int | None:
        return LogScan(log.files, start).time_of_first()

    assert [time_at(start) for start in log.starts] == [START_MS + 1 + row for row in range(85)]
    assert time_at(log.starts[3] + 1) is None
    assert time_at(log.end) is None
    assert time_at(7 * SIZE) is None
    spoil_body(log, 3)
    assert time_at(log.starts[3]) is None


# Anything.


DAMAGE = st.tuples(st.integers(0, 2 * SIZE - 1), st.binary(min_size=1, max_size=300))


@given(damages=st.lists(DAMAGE, min_size=1, max_size=4))
def test_whatever_is_overwritten_what_it_did_not_touch_is_found_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, damages: list[tuple[int, bytes]]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"), 60)
    spoiled = []
    for offset, piece in damages:
        piece = piece[: SIZE - offset % SIZE]
        log.overwrite(offset, piece)
        spoiled.append((offset, offset + len(piece)))
    found, gaps, end = log.scan()

    assert found == sorted(set(found))
    assert set(found) <= set(log.starts)
    # No checksum covers the time of a record: a wrong one can make what follows a gap look stale.
    if not any(overlaps(spoiled, start + 56, start + 64) for start in log.starts):
        untouched = {start for start, stop in log.places if not overlaps(spoiled, start, stop)}
        assert untouched <= set(found)
        assert end > max(untouched)
    assert all(gap.start < gap.end <= end for gap in gaps)
    assert not any(gap.start <= start < gap.end for start in found for gap in gaps)


def overlaps(stretches: list[tuple[int, int]], start: int, stop: int) -> bool:
    return any(first < stop and start < last for first, last in stretches)


def test_a_message_has_the_size_that_the_damages_above_count_on(log: Log) -> None:
    assert len(encode_record_at(message(b"old", unique=None), 0, 0, 0)) == 95
    assert {stop - start for start, stop in log.places} == {109, 119}
