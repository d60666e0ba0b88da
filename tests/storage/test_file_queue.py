"""A row of files under one offset: what is taken into it, what is found in it, and who may change it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import full_disk, watched_syncs
from threads import run_together

from pocketmq.storage.errors import DiskFullError, StoreUnusableError
from pocketmq.storage.file_queue import FileQueue, list_segments
from pocketmq.storage.layout import segment_name

SIZE = 1000
SETTING = "sizeOfFiles"


def write(folder: Path, *offsets: int, size: int = SIZE) -> None:
    folder.mkdir(exist_ok=True)
    for offset in offsets:
        (folder / segment_name(offset)).write_bytes(segment_name(offset).encode().ljust(size, b"\0")[:size])


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "row"


@pytest.fixture
def queue(folder: Path) -> Iterator[FileQueue]:
    """A row with a gap: it begins at 2000, and the file at 4000 is missing."""
    write(folder, 2000, 3000, 5000)
    queue = FileQueue(folder, SIZE, SETTING)
    yield queue
    queue.close()


# What is in a folder.


def test_a_folder_that_is_missing_or_empty_has_no_segments(folder: Path) -> None:
    assert list_segments(folder, SIZE, SETTING) == []
    folder.mkdir()
    assert list_segments(folder, SIZE, SETTING) == []


def test_segments_are_listed_in_order(folder: Path) -> None:
    write(folder, 5000, 10_000, 0, 3000, 1_073_741_824_000)
    assert list_segments(folder, SIZE, SETTING) == [0, 3000, 5000, 10_000, 1_073_741_824_000]


def test_other_files_and_folders_are_passed_over_and_kept(folder: Path) -> None:
    write(folder, 0)
    others = ["0000000000000001000", "000000000000000001000", "00000000000000001000.bak", "notes", ".hidden"]
    for name in others:
        (folder / name).write_bytes(b"x")
    (folder / segment_name(1000)).mkdir()
    assert list_segments(folder, SIZE, SETTING) == [0]
    assert names(folder) == sorted([segment_name(0), segment_name(1000), *others])


@pytest.mark.parametrize(("before", "left"), [([], []), ([0], [0]), ([0, 1000], [0, 1000])])
def test_an_empty_last_file_is_what_an_interrupted_creation_leaves_and_goes(
    folder: Path, before: list[int], left: list[int]
) -> None:
    write(folder, *before)
    write(folder, 2000, size=0)
    assert list_segments(folder, SIZE, SETTING) == left
    assert names(folder) == [segment_name(offset) for offset in left]


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 0), (1000, 0), (0, 999), (1000, 1001), (2000, 1), (2000, 999), (2000, 1001), (2000, 2000)]
)
def test_a_file_of_another_size_is_refused_with_path_reason_and_advice_and_nothing_is_deleted(
    folder: Path, offset: int, size: int
) -> None:
    write(folder, 0, 1000, 2000)
    write(folder, offset, size=size)
    path = folder / segment_name(offset)
    with pytest.raises(StoreUnusableError) as raised:
        FileQueue(folder, SIZE, SETTING)
    assert raised.value.path == path
    assert str(raised.value) == (
        f"{path}: the file has {size} bytes, not 1000 as sizeOfFiles says; "
        "set sizeOfFiles as it was when the store was written, or move the file away"
    )
    assert len(names(folder)) == 3
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    ("offsets", "gaps"),
    [
        ([], []),
        ([5000], []),
        ([0, 1000, 2000], []),
        ([7000, 8000], []),
        ([0, 2000], [(1000, 2000)]),
        ([0, 1000, 4000, 5000, 9000], [(2000, 4000), (6000, 9000)]),
        ([0, 500], [(1000, 500)]),  # names that do not fit together
    ],
)
def test_offsets_that_belong_to_no_file_are_gaps(folder: Path, offsets: list[int], gaps: list[tuple[int, int]]) -> None:
    write(folder, *offsets)
    assert FileQueue(folder, SIZE, SETTING).gaps() == gaps


# Finding.


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        (-1, None),
        (0, None),
        (1999, None),
        (2000, 2000),
        (2999, 2000),
        (3000, 3000),
        (3999, 3000),
        (4000, None),
        (4999, None),
        (5000, 5000),
        (5999, 5000),
        (6000, None),
        (2**62, None),
    ],
)
def test_an_offset_is_found_in_the_file_that_holds_it(queue: FileQueue, offset: int, start: int | None) -> None:
    assert queue.start_of(offset) == start


def test_an_empty_row_holds_no_offset(folder: Path) -> None:
    queue = FileQueue(folder, SIZE, SETTING)
    assert queue.start_of(0) is None
    assert queue.offsets == ()


def test_a_file_is_opened_when_it_is_first_asked_for_and_once(queue: FileQueue, folder: Path) -> None:
    file = queue.at(3000)
    assert bytes(file.view[:20]) == segment_name(3000).encode()
    assert queue.at(3000) is file
    assert queue.path_of(3000) == file.path == folder / segment_name(3000)


# Changing.


def test_a_new_file_is_there_for_good_before_it_joins_the_row(folder: Path) -> None:
    queue = FileQueue(folder, SIZE, SETTING)
    with watched_syncs() as syncs:
        file = queue.create(7000)
    assert (syncs.data_of(file.path), syncs.names_in(folder), syncs.names_in(folder.parent)) == (1, 1, 1)
    assert names(folder) == [segment_name(7000)]
    assert file.path.stat().st_size == SIZE
    assert list(queue.offsets) == []
    queue.add(7000, file)
    assert list(queue.offsets) == [7000]
    assert queue.at(7000) is file
    queue.close()


@pytest.mark.parametrize("call", ["mkdir", "open", "ftruncate"])
def test_a_full_disk_is_told_and_leaves_nothing_that_is_in_the_way_later(folder: Path, call: str) -> None:
    queue = FileQueue(folder, SIZE, SETTING)
    if call != "mkdir":
        folder.mkdir()
    with full_disk(call), pytest.raises(DiskFullError):
        queue.create(0)
    assert FileQueue(folder, SIZE, SETTING).offsets == ()
    queue.create(0).close()
    assert names(folder) == [segment_name(0)]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_deleted_file_is_gone_from_row_and_folder(queue: FileQueue, folder: Path, is_open: bool) -> None:
    view = queue.at(3000).view[:20] if is_open else None
    queue.delete(3000)
    assert queue.offsets == (2000, 5000)
    assert queue.start_of(3500) is None
    assert names(folder) == [segment_name(2000), segment_name(5000)]
    assert view is None or bytes(view) == segment_name(3000).encode()


def test_a_reader_that_comes_late_does_not_open_a_file_again_that_is_being_deleted(
    queue: FileQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever opens it keeps its room on disk taken, though nobody else can find it.
    unlink = Path.unlink

    def read_and_unlink(path: Path, missing_ok: bool = False) -> None:
        assert path.exists()
        with pytest.raises(FileNotFoundError, match=segment_name(2000)):
            queue.at(2000)
        unlink(path, missing_ok)

    queue.at(2000)
    monkeypatch.setattr(Path, "unlink", read_and_unlink)
    queue.delete(2000)
    assert not queue.path_of(2000).exists()


def test_deleting_what_is_gone_does_nothing(queue: FileQueue, folder: Path) -> None:
    (folder / segment_name(2000)).unlink()
    queue.delete(2000)
    queue.delete(2000)
    assert queue.offsets == (3000, 5000)


def test_a_file_is_moved_out_of_the_way_with_what_is_in_it(queue: FileQueue, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "unreadable"
    for _ in range(2):
        queue.move(3000, elsewhere)
        write(folder, 3000)  # another one of its name may follow it
    moved = sorted(elsewhere.iterdir())
    assert [path.name[:21] for path in moved] == [f"{segment_name(3000)}-"] * 2
    assert [path.read_bytes()[:20] for path in moved] == [segment_name(3000).encode()] * 2
    assert queue.offsets == (2000, 5000)


def test_closing_gives_up_the_files_and_keeps_the_views(queue: FileQueue) -> None:
    file = queue.at(2000)
    queue.close()
    assert bytes(file.view[:20]) == segment_name(2000).encode()
    with pytest.raises(OSError, match="descriptor"):
        file.overwrite(0, b"x")


def test_readers_find_files_while_others_come_and_go(folder: Path) -> None:
    write(folder, 0, 1000)
    queue = FileQueue(folder, SIZE, SETTING)
    last = 200_000
    ready = threading.Barrier(3)
    found: list[int] = []

    def change() -> None:
        ready.wait()
        for offset in range(2000, last, SIZE):
            queue.add(offset, queue.create(offset))
            queue.at(offset).overwrite(0, segment_name(offset).encode())
            queue.delete(offset - 2 * SIZE)

    def look() -> None:
        ready.wait()
        while queue.offsets[-1] < last - SIZE:
            offset = queue.offsets[-2]
            start = queue.start_of(offset + 1)
            try:
                file = queue.at(offset)
            except FileNotFoundError:
                continue  # deleted in between
            assert start in (None, offset)
            assert bytes(file.view[:20]) == segment_name(offset).encode()
            found.append(offset)

    with watched_syncs():
        run_together(change, look, look)
    assert found
    assert queue.offsets == (last - 2 * SIZE, last - SIZE)
    assert names(folder) == [segment_name(last - 2 * SIZE), segment_name(last - SIZE)]
    assert set(queue._open) == set(queue.offsets)
    queue.close()
