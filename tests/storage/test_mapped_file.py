"""One mapped file: room is made before anything is written, and views live as long as somebody has them."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from disks import broken_disk, full_disk, tiny_writes, watched_syncs
from threads import run_together

from pocketmq.storage import mapped_file
from pocketmq.storage.errors import DiskFullError, StoreUnusableError
from pocketmq.storage.layout import PAGE
from pocketmq.storage.mapped_file import MappedFile, next_data, require_size

MIB = 1 << 20
SIZE = 16 * MIB
SETTING = "sizeOfFiles"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000"


@pytest.fixture
def file(path: Path) -> Iterator[MappedFile]:
    file = MappedFile(path, SIZE, SETTING, create=True)
    yield file
    file.close()


def room_of(path: Path) -> int:
    """The bytes that a file takes on disk."""
    return path.stat().st_blocks * 512


@contextmanager
def room_for(room: int) -> Iterator[None]:
    """The disk has room for the first bytes of a file only."""
    pwrite = os.pwrite

    def write_while_there_is_room(descriptor: int, data: memoryview, position: int) -> int:
        if position >= room:
            raise OSError(errno.ENOSPC, "no space left")
        return pwrite(descriptor, data[: room - position], position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", write_while_there_is_room)
        yield


# Opening.


def test_a_new_file_has_its_full_length_and_takes_no_room(file: MappedFile) -> None:
    assert file.path.stat().st_size == len(file.view) == len(file.data) == SIZE
    assert room_of(file.path) < 16 * PAGE
    assert file.prepared == 0
    assert repr(file) == f"<MappedFile 00000000000000000000 of {SIZE} bytes, prepared to 0>"


def test_a_file_is_opened_as_it_is(path: Path) -> None:
    path.write_bytes(b"abc")
    file = MappedFile(path, 3, SETTING, prepared=2)
    assert bytes(file.view) == file.data.tobytes() == b"abc"
    assert file.prepared == 2
    file.close()


def test_creating_a_file_that_is_there_keeps_what_is_in_it(path: Path) -> None:
    path.write_bytes(b"abc")
    file = MappedFile(path, 5, SETTING, create=True)
    assert bytes(file.view) == b"abc\0\0"
    file.close()


def test_a_missing_file_is_not_made_by_opening_it(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MappedFile(path, 5, SETTING)
    assert not path.exists()


@pytest.mark.parametrize("actual", [0, 1, 4095, 4097, 8192])
def test_a_file_of_another_size_is_refused_with_path_reason_and_advice_and_stays_as_it_is(
    path: Path, actual: int
) -> None:
    path.write_bytes(b"x" * actual)
    with pytest.raises(StoreUnusableError) as raised:
        MappedFile(path, 4096, SETTING)
    assert raised.value.path == path
    assert str(raised.value) == (
        f"{path}: the file has {actual} bytes, not 4096 as sizeOfFiles says; "
        "set sizeOfFiles as it was when the store was written, or move the file away"
    )
    assert path.read_bytes() == b"x" * actual


def test_the_right_size_is_all_right(path: Path) -> None:
    require_size(path, 4096, 4096, SETTING)


@pytest.mark.parametrize("call", ["open", "ftruncate"])
def test_a_disk_without_room_for_a_new_file_is_told_and_the_next_attempt_may_succeed(path: Path, call: str) -> None:
    with full_disk(call), pytest.raises(DiskFullError, match=SETTING) as raised:
        MappedFile(path, SIZE, SETTING, create=True)
    assert raised.value.path == path
    MappedFile(path, SIZE, SETTING, create=True).close()


# Preparing. Pieces of one byte let the numbers be what is asked for; `tests/faults/` shows what they are good for.


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "PIECE", 1)


def test_pieces_are_prepared_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "PIECE", 100)
    file = MappedFile(path, 250, SETTING, create=True, prepared=5)
    for end, prepared in ((5, 5), (6, 100), (100, 100), (101, 200), (201, 250), (250, 250)):
        file.prepare(end)
        assert file.prepared == prepared
    file.close()


@pytest.mark.parametrize(("room", "prepared"), [(0, 5), (99, 5), (100, 100), (199, 100), (249, 200)])
def test_a_piece_that_the_disk_has_room_for_in_part_is_not_prepared(
    path: Path, monkeypatch: pytest.MonkeyPatch, room: int, prepared: int
) -> None:
    monkeypatch.setattr(mapped_file, "PIECE", 100)
    file = MappedFile(path, 250, SETTING, create=True, prepared=5)
    with room_for(room):
        with pytest.raises(DiskFullError):
            file.prepare(250)
        assert file.prepared == prepared
    file.prepare(250)
    file.close()


def test_prepared_bytes_take_room_on_disk_and_the_rest_does_not(file: MappedFile) -> None:
    file.prepare(3 * MIB + 1)
    assert file.prepared == 3 * MIB + 1
    assert 3 * MIB < room_of(file.path) < 3 * MIB + 32 * PAGE
    assert not file.data.any()
    assert repr(file) == f"<MappedFile 00000000000000000000 of {SIZE} bytes, prepared to {3 * MIB + 1}>"


@pytest.mark.parametrize(
    ("before", "end", "at_least", "after"),
    [
        (0, 1, 0, 1),
        (0, 1, 1000, 1000),
        (0, 2000, 1000, 2000),
        (500, 501, 1000, 1500),
        (500, 500, 1000, 500),
        (500, 100, 1000, 500),
        (0, 9999, 0, 9999),
        (0, 10_000, 0, 10_000),
        (9500, 9600, 1000, 10_000),
        (0, 0, 1000, 0),
    ],
)
def test_as_much_is_prepared_as_is_asked_for_but_never_more_than_the_file_has(
    path: Path, before: int, end: int, at_least: int, after: int
) -> None:
    file = MappedFile(path, 10_000, SETTING, create=True, prepared=before)
    file.prepare(end, at_least=at_least)
    assert file.prepared == after
    assert path.stat().st_size == 10_000
    file.close()


def test_zeros_are_written_only_where_nothing_was_prepared(path: Path) -> None:
    # What lies in front of `prepared` is data; it ends in the middle of a page.
    path.write_bytes(b"x" * 10_000)
    file = MappedFile(path, 10_000, SETTING, prepared=5000)
    file.prepare(5000)
    assert bytes(file.view) == b"x" * 10_000
    file.prepare(5001)
    file.prepare(7000)
    assert bytes(file.view) == b"x" * 5000 + bytes(2000) + b"x" * 3000
    file.close()


def test_what_the_system_writes_only_in_part_is_written_to_the_end(path: Path) -> None:
    path.write_bytes(b"x" * 10_000)
    file = MappedFile(path, 10_000, SETTING)
    with tiny_writes(999):
        file.prepare(9000)
    assert bytes(file.view) == bytes(9000) + b"x" * 1000
    file.close()


def test_a_full_disk_is_told_while_preparing_and_what_was_prepared_stays_so(file: MappedFile) -> None:
    file.prepare(PAGE)
    file.view[:4] = b"data"
    with full_disk(), pytest.raises(DiskFullError, match=SETTING) as raised:
        file.prepare(2 * PAGE)
    assert raised.value.path == file.path
    assert file.prepared == PAGE
    file.prepare(2 * PAGE)
    assert file.prepared == 2 * PAGE
    assert bytes(file.view[:4]) == b"data"


def test_a_disk_that_fills_up_on_the_way_leaves_prepared_what_it_had_room_for(file: MappedFile) -> None:
    room = 3 * MIB + 500
    with room_for(room):
        with pytest.raises(DiskFullError):
            file.prepare(4 * MIB)
        assert file.prepared == room
        file.prepare(room)


def test_what_is_wished_for_besides_is_not_missed_on_a_full_disk(file: MappedFile) -> None:
    with room_for(MIB):
        file.prepare(PAGE, at_least=2 * MIB)
    assert file.prepared == MIB


def test_other_failures_are_not_taken_for_a_full_disk(file: MappedFile) -> None:
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        file.prepare(1)


def test_two_threads_that_prepare_at_once_never_write_zeros_over_data(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    written: list[tuple[int, int]] = []

    def write_and_note(descriptor: int, data: memoryview, position: int) -> int:
        written.append((position, position + len(data)))
        return pwrite(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", write_and_note)
    file = MappedFile(path, 8 * MIB, SETTING, create=True)
    rounds, step = 64, 100_000
    barrier = threading.Barrier(2)

    def append() -> None:
        """As the log does: prepare a little, and use it at once."""
        for number in range(rounds):
            barrier.wait()
            start = number * step
            file.prepare(start + step)
            file.view[start : start + step] = b"x" * step

    def prepare_ahead() -> None:
        for number in range(rounds):
            barrier.wait()
            file.prepare((number + 1) * step + 7, at_least=1000)

    run_together(append, prepare_ahead)
    assert bytes(file.view[: rounds * step]) == b"x" * (rounds * step)
    # Each byte once, in order.
    assert written[0][0] == 0
    assert [start for start, _ in written[1:]] == [end for _, end in written[:-1]]
    file.close()


# Writing past the mapping.


def test_bytes_written_past_the_mapping_are_seen_through_it(file: MappedFile) -> None:
    file.overwrite(5 * MIB - 2, b"across pages")
    assert bytes(file.view[5 * MIB - 3 : 5 * MIB + 11]) == b"\0across pages\0"
    with tiny_writes(5):
        file.overwrite(100, memoryview(b"little by little"))
    assert bytes(file.view[99:117]) == b"\0little by little\0"


def test_a_full_disk_is_told_while_writing_past_the_mapping(file: MappedFile) -> None:
    with full_disk(), pytest.raises(DiskFullError, match=SETTING):
        file.overwrite(0, b"abc")
    file.overwrite(0, b"abc")
    assert bytes(file.view[:3]) == b"abc"


@pytest.mark.parametrize("start", [0, 1, PAGE, 3 * MIB - 3, 3 * MIB + 2, 9 * MIB])
def test_clearing_zeroes_the_data_behind_a_place_and_fills_no_holes(file: MappedFile, start: int) -> None:
    content = b"x" * (MIB + 5)
    for place in (0, 3 * MIB - 7, 12 * MIB):
        file.overwrite(place, content)
    room = room_of(file.path)
    expected = file.data.copy()
    expected[start:] = 0
    with watched_syncs() as syncs:
        file.clear(start)
    assert syncs.data_of(file.path) == 1
    assert np.array_equal(file.data, expected)
    assert room_of(file.path) <= room + 16 * PAGE


# Looking.


def test_stretches_are_where_the_file_takes_room(file: MappedFile) -> None:
    assert list(file.stretches()) == []
    file.overwrite(3 * MIB, b"x" * PAGE)
    file.overwrite(6 * MIB, b"x" * PAGE)
    (first, second) = file.stretches()
    assert first[0] <= 3 * MIB < 3 * MIB + PAGE <= first[1] < 6 * MIB
    assert second[0] <= 6 * MIB < 6 * MIB + PAGE <= second[1] < SIZE
    assert [stretch[1] for stretch in file.stretches(3 * MIB + 1)] == [first[1], second[1]]
    assert next(file.stretches(3 * MIB + 1))[0] == 3 * MIB + 1
    assert list(file.stretches(first[1])) == [second]
    assert list(file.stretches(second[1])) == []
    assert list(file.stretches(SIZE)) == []


def test_a_page_written_through_the_mapping_belongs_to_a_stretch(file: MappedFile) -> None:
    file.prepare(PAGE)
    file.view[0] = 1
    assert [start for start, _ in file.stretches()] == [0]


def test_a_descriptor_that_cannot_be_asked_is_no_empty_file(file: MappedFile) -> None:
    file.overwrite(0, b"x")
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        next_data(-1, 0)
    with pytest.raises(OSError, match="descriptor"):
        file.is_zero()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [0, 3, 4, 6 * MIB, 12 * MIB - 1]),
        (1, [3, 4, 6 * MIB, 12 * MIB - 1]),
        (4, [4, 6 * MIB, 12 * MIB - 1]),
        (6 * MIB + 1, [12 * MIB - 1]),
        (12 * MIB, []),
        (SIZE, []),
    ],
)
def test_a_pattern_is_found_wherever_it_begins(file: MappedFile, start: int, expected: list[int]) -> None:
    file.overwrite(0, b"aa.aaa")
    file.overwrite(6 * MIB, b"aab")
    file.overwrite(12 * MIB - 1, b"aa")  # on both sides of a page's end
    file.overwrite(SIZE - 1, b"a")
    assert list(file.find(b"aa", start)) == expected


def test_only_a_file_with_nothing_in_it_is_zero(file: MappedFile) -> None:
    assert file.is_zero()
    file.prepare(5 * MIB)
    assert file.is_zero()
    file.view[5 * MIB - 1] = 1
    assert not file.is_zero()
    file.view[5 * MIB - 1] = 0
    assert file.is_zero()
    file.overwrite(SIZE - 1, b"x")
    assert not file.is_zero()


# Bringing to disk.


def test_a_sync_brings_the_file_to_disk_and_tells_of_a_failure(file: MappedFile) -> None:
    with watched_syncs() as syncs:
        file.sync()
    assert (syncs.data_of(file.path), len(syncs)) == (1, 1)
    with broken_disk(), pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()


def test_what_is_written_through_the_mapping_is_in_the_file(file: MappedFile) -> None:
    file.prepare(10)
    file.view[2:6] = b"view"
    file.data[6:10] = np.frombuffer(b"data", np.uint8)
    with file.path.open("rb") as other:
        assert other.read(11) == b"\0\0viewdata\0"


# Lifetime.


def test_views_stay_as_they_are_when_the_file_is_closed_and_deleted(path: Path) -> None:
    file = MappedFile(path, 3 * PAGE, SETTING, create=True)
    file.prepare(3 * PAGE)
    file.view[:] = b"abc" * PAGE
    view, readonly, column = file.view[3:9], file.view.toreadonly()[PAGE : 2 * PAGE], file.data[1::3]
    expected = bytes(view), bytes(readonly), column.tobytes()
    file.close()
    file.delete()
    assert not path.exists()
    assert bytes(file.view[:3]) == b"abc"
    del file
    gc.collect()
    assert (bytes(view), bytes(readonly), column.tobytes()) == expected


def test_a_deleted_file_makes_way_for_a_new_one_of_its_name(path: Path) -> None:
    old = MappedFile(path, PAGE, SETTING, create=True)
    old.prepare(PAGE)
    old.view[:3] = b"old"
    old.delete()
    new = MappedFile(path, PAGE, SETTING, create=True)
    assert new.is_zero()
    assert bytes(old.view[:3]) == b"old"
    for file in (old, new):
        file.close()


def test_closing_and_deleting_twice_does_nothing_more(path: Path) -> None:
    file = MappedFile(path, PAGE, SETTING, create=True)
    file.close()
    taken = os.open(path, os.O_RDONLY)  # most likely the number that was given up
    file.close()
    os.fstat(taken)
    os.close(taken)
    file.delete()
    file.delete()


def test_a_file_that_nobody_closed_gives_up_its_descriptor_in_the_end(path: Path) -> None:
    file = MappedFile(path, PAGE, SETTING, create=True)
    descriptor = file._descriptor
    del file
    gc.collect()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_what_takes_no_room_is_a_hole(tmp_path: Path) -> None:
    file = MappedFile(tmp_path / "file", 1 << 20, "size", create=True)
    assert all(file.is_hole(place) for place in (0, 5000, (1 << 20) - 1))
    file.overwrite(8192, b"x")
    assert [file.is_hole(place) for place in (0, 8191, 8192, 8200, 12288)] == [True, True, False, False, True]
