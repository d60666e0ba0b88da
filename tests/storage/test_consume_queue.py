"""One consume queue: entries in memory and in files, fillers, holes, and what is left of damaged files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.columns import SMALLEST_RECORD
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.layout import FILLER, FILLER_SIZE, QUEUE_ENTRY_SIZE, pack_queue_entry, segment_name

PER_FILE = 16
FILE_SIZE = PER_FILE * QUEUE_ENTRY_SIZE
SIZE = 100

# Entries as plain tuples: physical offset, size, tags code.
Entry = tuple[int, int, int]
FILLED: Entry = (0, FILLER_SIZE, 0)


@pytest.fixture
def queue(tmp_path: Path) -> ConsumeQueue:
    return new_queue(tmp_path)


def new_queue(folder: Path) -> ConsumeQueue:
    return ConsumeQueue("T", 0, folder / "T" / "0", FILE_SIZE, threading.Lock())


def entry(number: int) -> Entry:
    """The entry of a message when all messages are of this queue."""
    return SIZE * number, SIZE, number - 5


def append(queue: ConsumeQueue, numbers: Iterable[int]) -> None:
    for number in numbers:
        queue.append(*entry(number))


def publish(queue: ConsumeQueue) -> None:
    queue.readable = queue.end


def write(queue: ConsumeQueue) -> None:
    publish(queue)
    queue.write_out()


def entries(queue: ConsumeQueue, start: int = 0, end: int = 2**60) -> list[Entry]:
    return [(int(offset), int(size), int(code)) for offset, size, code in queue.entries(start, end).tolist()]


def reloaded(queue: ConsumeQueue) -> ConsumeQueue:
    again = ConsumeQueue("T", 0, queue.files.folder, FILE_SIZE, threading.Lock())
    again.load()
    return again


def ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), np.int64)


def put(queue: ConsumeQueue, rows: list[tuple[int, int]]) -> list[int]:
    """Put records by number and physical offset; returns those that were turned away."""
    numbers, offsets = (ints(column) for column in zip(*rows, strict=True))
    rejected = queue.put(numbers, offsets, np.full(len(rows), SIZE), numbers + 7)
    return list(map(int, rejected))


# Appending and reading.


def test_a_new_queue_is_empty(queue: ConsumeQueue) -> None:
    assert entries(queue) == []
    assert (queue.min_offset, queue.readable, queue.end) == (0, 0, 0)
    assert queue.first_at_or_after(0) == 0
    queue.write_out()
    assert not queue.files.folder.exists()


def test_entries_are_read_before_and_after_they_are_written(queue: ConsumeQueue) -> None:
    append(queue, range(20))
    write(queue)
    append(queue, range(20, 40))
    expected = [entry(number) for number in range(40)]
    for start in range(0, 42, 3):
        for end in range(0, 44, 3):
            assert entries(queue, start, end) == expected[start:end]
    assert queue.base == 20
    assert queue.max_physical == 40 * SIZE


def test_many_entries_at_once_are_as_many_one_by_one(tmp_path: Path) -> None:
    one, other = new_queue(tmp_path / "one"), new_queue(tmp_path / "other")
    append(one, range(40))
    columns = zip(*map(entry, range(40)), strict=True)
    other.extend(*map(ints, columns))
    assert entries(one) == entries(other)
    assert (one.end, one.max_physical) == (other.end, other.max_physical)


@pytest.mark.parametrize("tags_code", [0, -1, 2**31 - 1, -(2**31), 1_700_000_000_000, -(2**63) + 5])
def test_a_tags_code_has_64_bits(queue: ConsumeQueue, tags_code: int) -> None:
    queue.append(2**62, 2**31 - 2, tags_code)
    write(queue)
    assert entries(reloaded(queue)) == [(2**62, 2**31 - 2, tags_code)]


def test_an_entry_has_the_bytes_of_the_specification(queue: ConsumeQueue) -> None:
    queue.append(0x400, 0x65, 0x41)
    write(queue)
    data = (queue.files.folder / segment_name(0)).read_bytes()
    assert data[:20].hex() == "0000000000000400000000650000000000000041"


# Writing to files.


def test_only_what_readers_may_see_is_written(queue: ConsumeQueue) -> None:
    append(queue, range(10))
    queue.readable = 4
    queue.write_out()
    assert entries(reloaded(queue)) == [entry(number) for number in range(4)]
    assert entries(queue) == [entry(number) for number in range(10)]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 32, 50])
def test_entries_are_written_across_files(queue: ConsumeQueue, count: int) -> None:
    append(queue, range(count))
    write(queue)
    assert queue.files.offsets == list(range(0, count * QUEUE_ENTRY_SIZE, FILE_SIZE))
    assert queue.base == count
    again = reloaded(queue)
    assert entries(again) == [entry(number) for number in range(count)]
    assert (again.end, again.readable, again.max_physical) == (count, count, count * SIZE)


@given(steps=st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=7))
def test_any_steps_leave_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool, bool]]
) -> None:
    queue = new_queue(tmp_path_factory.mktemp("queue"))
    model: list[Entry] = []
    for count, is_published, is_written in steps:
        append(queue, range(len(model), len(model) + count))
        model += [entry(number) for number in range(len(model), len(model) + count)]
        if is_published:
            publish(queue)
        if is_written:
            queue.write_out()
            assert entries(reloaded(queue)) == model[: queue.readable]
        assert entries(queue) == model


def test_one_thread_may_write_while_another_appends_and_reads(queue: ConsumeQueue) -> None:
    done = threading.Event()

    def write_out() -> None:
        while not done.is_set():
            queue.write_out()

    thread = threading.Thread(target=write_out)
    thread.start()
    try:
        for number in range(0, 6000, 3):
            append(queue, range(number, number + 3))
            publish(queue)
            start = max(0, number - 37)
            assert entries(queue, start) == [entry(other) for other in range(start, number + 3)]
    finally:
        done.set()
        thread.join()
    queue.write_out()
    assert entries(queue) == entries(reloaded(queue)) == [entry(number) for number in range(6000)]


# Fillers.


def test_a_queue_that_begins_late_has_fillers_only_in_its_first_file(queue: ConsumeQueue) -> None:
    queue.fill(PER_FILE * 2 + 3)
    append(queue, [PER_FILE * 2 + 3])
    write(queue)
    assert queue.files.offsets == [FILE_SIZE * 2]
    assert (queue.files.folder / segment_name(FILE_SIZE * 2)).read_bytes().startswith(FILLER * 3 + b"\0")
    assert entries(queue) == [FILLED] * 3 + [entry(PER_FILE * 2 + 3)]
    assert queue.min_offset == PER_FILE * 2 + 3
    again = reloaded(queue)
    assert again.correct_min_offset(0) == PER_FILE * 2 + 3
    assert entries(again) == entries(queue)


def test_a_queue_that_begins_with_a_file_has_no_fillers(queue: ConsumeQueue) -> None:
    queue.fill(PER_FILE)
    append(queue, [PER_FILE])
    write(queue)
    assert entries(reloaded(queue)) == [entry(PER_FILE)]
    assert queue.files.offsets == [FILE_SIZE]


def test_missing_slots_are_filled_and_later_entries_stand_at_their_number(queue: ConsumeQueue) -> None:
    append(queue, range(3))
    queue.fill(PER_FILE + 2)
    append(queue, [PER_FILE + 2])
    write(queue)
    assert entries(queue) == [*map(entry, range(3)), *[FILLED] * (PER_FILE - 1), entry(PER_FILE + 2)]
    assert entries(reloaded(queue)) == entries(queue)
    assert queue.min_offset == 0


def test_an_old_file_at_the_beginning_does_not_hide_a_queue_that_begins_late(queue: ConsumeQueue) -> None:
    """What recovery may do: the entries that are there lead to nothing, and the first good record has a high number."""
    append(queue, range(2))
    write(queue)
    queue.adopt(0)
    queue.fill(PER_FILE * 2 + 1)
    append(queue, [PER_FILE * 2 + 1])
    queue.cut()
    write(queue)
    again = reloaded(queue)
    assert again.end == PER_FILE * 2 + 2
    assert again.first_at_or_after(0) == PER_FILE * 2 + 1


# Records found in the log.


def test_records_in_order_are_put_as_they_come(queue: ConsumeQueue) -> None:
    assert put(queue, [(0, 0), (1, 100), (2, 700)]) == []
    assert entries(queue) == [(0, SIZE, 7), (100, SIZE, 8), (700, SIZE, 9)]
    assert put(queue, [(3, 800)]) == []
    assert queue.max_physical == 900


def test_holes_are_filled(queue: ConsumeQueue) -> None:
    assert put(queue, [(0, 0), (3, 1000), (4, 1100), (6, 1400)]) == []
    assert entries(queue) == [
        (0, SIZE, 7),
        FILLED,
        FILLED,
        (1000, SIZE, 10),
        (1100, SIZE, 11),
        FILLED,
        (1400, SIZE, 13),
    ]


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (0, "a number that is taken"),
        (-1, "no number at all"),
        (-(2**63), "no number at all"),
        (12, "the log has no room for so many before it"),
        (2**62, "the log has no room for so many before it"),
    ],
)
def test_impossible_numbers_are_turned_away_and_the_others_kept(queue: ConsumeQueue, number: int, why: str) -> None:
    assert put(queue, [(0, 0), (number, 1000), (1, 1100)]) == [1], why
    assert entries(queue) == [(0, SIZE, 7), (1100, SIZE, 8)]


def test_as_many_may_be_missing_as_the_smallest_records_would_fill(queue: ConsumeQueue) -> None:
    assert put(queue, [(0, 0)]) == []
    assert put(queue, [(12, SIZE + 11 * SMALLEST_RECORD - 1)]) == [0]
    assert put(queue, [(12, SIZE + 11 * SMALLEST_RECORD)]) == []
    assert queue.end == 13


def test_a_repeated_record_is_turned_away(queue: ConsumeQueue) -> None:
    put(queue, [(0, 0), (1, 100)])
    assert put(queue, [(1, 100), (2, 200)]) == [0]
    assert [number for number, *_ in entries(queue)] == [0, 100, 200]


# Searching.


@given(
    gaps=st.lists(st.integers(0, 40), min_size=1, max_size=40),
    written=st.integers(0, 100),
    wanted=st.integers(-5, 50 * 50 * SIZE),
)
def test_the_first_message_from_an_offset_on_is_found_whatever_fillers_are_around(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], written: int, wanted: int
) -> None:
    queue = new_queue(tmp_path_factory.mktemp("queue"))
    for gap in gaps:
        if gap:
            queue.fill(queue.end + gap)
        append(queue, [queue.end])
        if queue.end < written:
            write(queue)
    # All there is, with numbers.
    model = list(enumerate(entries(queue), queue.first_slot))
    expected = [number for number, (offset, size, _) in model if size != FILLER_SIZE and offset >= wanted]
    assert queue.first_at_or_after(wanted) == (expected[0] if expected else queue.end)


def test_nothing_but_fillers_lead_to_the_end(queue: ConsumeQueue) -> None:
    append(queue, [0])
    queue.fill(100)
    assert queue.first_at_or_after(1) == 100
    assert queue.first_at_or_after(0) == 0


def test_the_minimum_moves_with_the_log_and_never_back(queue: ConsumeQueue) -> None:
    append(queue, range(40))
    assert [queue.correct_min_offset(offset) for offset in (0, 1, 100, 101, 3000, 200, 3999, 4000)] == [
        0,
        1,
        1,
        2,
        30,
        30,
        40,
        40,
    ]
    append(queue, [40])
    assert queue.correct_min_offset(4000) == 40
    assert queue.correct_min_offset(4001) == 41


def test_files_that_lead_to_deleted_records_go_but_never_the_last(queue: ConsumeQueue) -> None:
    append(queue, range(PER_FILE * 3))
    write(queue)
    assert queue.delete_files_before(SIZE * (PER_FILE - 1)) == 0
    assert queue.delete_files_before(SIZE * PER_FILE) == 1
    assert queue.files.offsets == [FILE_SIZE, FILE_SIZE * 2]
    assert queue.first_slot == PER_FILE
    assert entries(queue) == [entry(number) for number in range(PER_FILE, PER_FILE * 3)]
    assert queue.correct_min_offset(SIZE * PER_FILE) == PER_FILE
    assert queue.delete_files_before(2**60) == 1
    assert queue.correct_min_offset(2**60) == PER_FILE * 3
    again = reloaded(queue)
    assert (again.first_slot, again.end) == (PER_FILE * 2, PER_FILE * 3)


def test_files_of_nothing_but_fillers_go_too(queue: ConsumeQueue) -> None:
    append(queue, range(2))
    queue.fill(PER_FILE * 2)
    append(queue, [PER_FILE * 2])
    write(queue)
    assert queue.delete_files_before(SIZE * 2) == 2
    assert queue.correct_min_offset(SIZE * 2) == PER_FILE * 2


# Loading.


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "nothing": (lambda data: data, 40),
    "zeros at an entry": (lambda data: data[:700] + bytes(20) + data[720:], 35),
    "zeros from an entry on": (lambda data: data[:700] + bytes(len(data) - 700), 35),
    "half a size": (lambda data: data[:710] + bytes(len(data) - 710), 35),
    "no tags code": (lambda data: data[:712] + bytes(len(data) - 712), 36),
    "a negative offset": (lambda data: data[:660] + b"\xff" + data[661:], 33),
    "a negative size": (lambda data: data[:668] + b"\xff" + data[669:], 33),
    "an empty last file": (lambda data: data[:640] + bytes(320), 32),
    "an empty file in the middle": (lambda data: data[:320] + bytes(320) + data[640:], 16),
    "all zeros": (lambda data: bytes(len(data)), 0),
}


@pytest.mark.parametrize(("damage", "end"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_queue_ends_where_its_files_have_no_entry(tmp_path: Path, damage: Callable[[bytes], bytes], end: int) -> None:
    good = b"".join(pack_queue_entry(*entry(number)) for number in range(40)).ljust(FILE_SIZE * 3, b"\0")
    data = damage(good)
    assert len(data) == len(good)
    folder = tmp_path / "T" / "0"
    folder.mkdir(parents=True)
    for start in range(0, len(data), FILE_SIZE):
        (folder / segment_name(start)).write_bytes(data[start : start + FILE_SIZE])
    queue = new_queue(tmp_path)
    queue.load()
    assert (queue.base, queue.readable, queue.end) == (end, end, end)
    assert len(entries(queue)) == end
    # Nothing of what lies behind comes back.
    queue.cut()
    append(queue, [end])
    write(queue)
    assert reloaded(queue).end == end + 1


def test_the_last_three_files_are_looked_at(queue: ConsumeQueue) -> None:
    append(queue, range(PER_FILE * 5))
    write(queue)
    for start in 0, FILE_SIZE:
        (queue.files.folder / segment_name(start)).write_bytes(bytes(FILE_SIZE))
    assert reloaded(queue).end == PER_FILE * 5
    (queue.files.folder / segment_name(FILE_SIZE * 2)).write_bytes(bytes(FILE_SIZE))
    assert reloaded(queue).end == PER_FILE * 2


def test_a_queue_can_be_taken_as_filled_up_to_a_number(queue: ConsumeQueue) -> None:
    append(queue, range(20))
    write(queue)
    for end in 0, 1, 16, 20:
        again = new_queue(queue.files.folder.parents[1])
        assert again.load_to(end)
        assert (again.base, again.readable, again.end, again.max_physical) == (end, end, end, end * SIZE)
    for end in 21, 33, 500:
        assert not new_queue(queue.files.folder.parents[1]).load_to(end)


def test_a_loaded_queue_remembers_the_end_of_its_last_message_behind_fillers(queue: ConsumeQueue) -> None:
    append(queue, range(3))
    queue.fill(200)
    write(queue)
    again = reloaded(queue)
    assert (again.end, again.max_physical) == (200, 3 * SIZE)


def test_a_queue_shows_what_it_holds(queue: ConsumeQueue) -> None:
    append(queue, range(3))
    assert repr(queue) == "<ConsumeQueue 'T' 0: 0 to 3>"
