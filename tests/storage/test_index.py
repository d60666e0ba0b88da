"""The row of index files: roll-over, searching newest first, and cutting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from disks import full_disk
from hypothesis import given
from hypothesis import strategies as st
from plain_index import PlainIndexFile, Row, plain_index
from storing import Clock, hurried

from pocketmq.storage.errors import DiskFullError, StoreUnusableError
from pocketmq.storage.index import Index
from pocketmq.storage.layout import index_name

SLOTS, ENTRIES = 7, 100
FITS = ENTRIES - 1
NOW = 1_700_000_000_000


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def index(folder: Path) -> Index:
    return opened(folder)


def opened(folder: Path, clock: Clock | None = None) -> Index:
    index = Index(folder, SLOTS, ENTRIES, clock or Clock(NOW))
    index.make_writable()
    return index


def row(number: int, key_hash: int = 5) -> Row:
    """One of many messages, 400 ms after the other."""
    return key_hash, 100 * number, NOW + 400 * number


def insert(index: Index, rows: list[Row]) -> None:
    """Insert as the store does: what one file takes, then the rest."""
    left = np.array(rows).T
    while left.shape[1]:
        left = left[:, index.insert(left) :]


def contents(index: Index) -> list[bytes]:
    index.sync()
    return [(index._folder / file.name).read_bytes() for file in index.files]


def found(index: Index, key_hash: int = 5, begin_ms: int = 0, end_ms: int = 2**63 - 1) -> list[int]:
    return list(index.find(key_hash, begin_ms, end_ms))


# Inserting.


def test_nothing_is_made_before_the_first_entry(index: Index, folder: Path) -> None:
    assert found(index) == []
    assert (index.end_physical, index.full_timestamp) == (-1, 0)
    index.prepare_ahead()
    index.sync()
    assert index.cut(0) is False
    assert not folder.exists()


@given(
    pauses=st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 700, 5000])), min_size=1, max_size=250),
    parts=st.lists(st.integers(1, 120), max_size=5),
)
def test_one_by_one_in_batches_and_in_the_specification_the_files_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[tuple[int, int]], parts: list[int]
) -> None:
    rows, time = list[Row](), NOW
    for number, (key_hash, pause) in enumerate(pauses):
        time += pause
        rows.append((key_hash, 10 * number, time))
    root = tmp_path_factory.mktemp("index")
    single, mixed = opened(root / "single"), opened(root / "mixed")
    for one in rows:
        insert(single, [one])
    left = rows
    for part in [*parts, len(rows)]:
        if left[:part]:
            insert(mixed, left[:part])
        left = left[part:]
    plain = [file.to_bytes() for file in plain_index(SLOTS, ENTRIES, rows)]
    assert contents(single) == contents(mixed) == plain


@pytest.mark.parametrize(("count", "files"), [(1, 1), (FITS, 1), (FITS + 1, 2), (3 * FITS, 3), (3 * FITS + 1, 4)])
def test_a_full_file_has_a_successor_as_soon_as_there_is_more(index: Index, count: int, files: int) -> None:
    insert(index, [row(number) for number in range(count)])
    assert len(index.files) == files
    assert index.end_physical == 100 * (count - 1)
    full = count // FITS
    assert index.full_timestamp == (row(full * FITS - 1)[2] if full else 0)


def test_a_file_takes_what_it_has_room_for(index: Index) -> None:
    keys = np.array([row(number) for number in range(150)]).T
    assert index.insert(keys) == FITS
    assert index.insert(keys[:, :60]) == 60
    assert index.insert(keys) == FITS - 60


# Names.


def test_a_file_is_named_by_the_moment_of_its_creation(folder: Path) -> None:
    clock = Clock(NOW)
    index = opened(folder, clock)
    insert(index, [row(0)])
    clock.now_ms = NOW + 5000
    insert(index, [row(number) for number in range(1, FITS + 1)])
    assert [file.name for file in index.files] == [index_name(NOW), index_name(NOW + 5000)]
    assert sorted(path.name for path in folder.iterdir()) == [file.name for file in index.files]


@pytest.mark.parametrize("later", [0, -3_600_000])
def test_names_ascend_also_if_the_clock_does_not(folder: Path, later: int) -> None:
    clock = Clock(NOW)
    index = opened(folder, clock)
    insert(index, [row(0)])
    clock.now_ms = NOW + later
    insert(index, [row(number) for number in range(1, 5 * FITS)])
    names = [file.name for file in index.files]
    assert names == sorted(set(names))
    assert all(re.fullmatch("[0-9]{17}", name) for name in names)
    assert contents(index) == contents(opened(folder))


def test_other_files_are_left_alone(folder: Path, index: Index) -> None:
    insert(index, [row(0)])
    index.sync()
    for name in "1", "2026111804152200x", "notes.txt", "202611180415220011":
        (folder / name).write_bytes(b"x")
    (folder / "20261118041522001.bak").mkdir()
    again = opened(folder)
    assert found(again) == [0]
    assert len(list(folder.iterdir())) == 6


def test_an_empty_last_file_is_what_a_crash_leaves_and_goes(folder: Path, index: Index) -> None:
    insert(index, [row(0)])
    index.sync()
    (folder / "29991231235959999").touch()
    assert found(opened(folder)) == [0]
    assert not (folder / "29991231235959999").exists()


def test_a_file_of_another_size_is_refused(folder: Path, index: Index) -> None:
    insert(index, [row(0)])
    (folder / "29991231235959999").write_bytes(b"x")
    with pytest.raises(StoreUnusableError, match="29991231235959999"):
        opened(folder)


# Finding.


def test_the_newest_come_first_through_all_files(index: Index) -> None:
    rows = [row(number, number % 3) for number in range(400)]
    insert(index, rows)
    for key_hash in range(4):
        assert found(index, key_hash) == [offset for own, offset, _ in reversed(rows) if own == key_hash]


def test_an_offset_that_is_in_two_files_is_found_once(index: Index) -> None:
    """As RocketMQ leaves it when it makes its last file anew after a crash."""
    insert(index, [row(number) for number in range(FITS)] + [row(FITS - 1), row(FITS)])
    assert found(index) == [100 * number for number in range(FITS, -1, -1)]


@given(
    pauses=st.lists(st.sampled_from([0, 1, 400, 999, 1000, 20_000]), min_size=1, max_size=300),
    moments=st.tuples(st.integers(0, 300), st.integers(-1500, 1500), st.integers(0, 300), st.integers(-1500, 1500)),
)
def test_no_message_of_the_time_is_missed(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[int], moments: tuple[int, int, int, int]
) -> None:
    index, rows, time = opened(tmp_path_factory.mktemp("index")), list[Row](), NOW
    for number, pause in enumerate(pauses):
        time += pause
        rows.append((number % 9, number, time))
    insert(index, rows)
    begin_row, begin_more, end_row, end_more = moments
    begin, end = rows[begin_row % len(rows)][2] + begin_more, rows[end_row % len(rows)][2] + end_more
    for key_hash in range(9):
        offsets = found(index, key_hash, begin, end)
        own = [one for one in reversed(rows) if one[0] == key_hash]
        wanted = {offset for _, offset, time in own if begin <= time <= end}
        # A time is kept to the second: what is found may be that much off, and nothing is missing.
        allowed = {offset for _, offset, time in own if begin - 1000 < time < end + 1000}
        assert wanted <= set(offsets) <= allowed
        assert offsets == sorted(offsets, reverse=True)


def test_an_empty_file_does_not_end_the_search(folder: Path, index: Index) -> None:
    """4.9.7 leaves a new file with a header of zeros when it is killed."""
    insert(index, [row(number) for number in range(FITS)])
    index.sync()
    (folder / "29991231235959999").write_bytes(bytes((folder / index.files[0].name).stat().st_size))
    again = opened(folder)
    assert len(again.files) == 2
    assert found(again, begin_ms=NOW) == found(index, begin_ms=NOW) != []


def test_old_files_can_be_deleted(index: Index, folder: Path) -> None:
    insert(index, [row(number) for number in range(3 * FITS)])
    index.delete_first(2)
    assert found(index) == [100 * number for number in range(3 * FITS - 1, 2 * FITS - 1, -1)]
    assert [path.name for path in folder.iterdir()] == [index.files[0].name]
    index.delete_first(0)
    assert len(index.files) == 1


def test_files_may_go_while_somebody_searches(index: Index) -> None:
    insert(index, [row(number) for number in range(4 * FITS)])
    search = index.find(5, 0, 2**63 - 1)
    first = next(search)
    index.delete_first(2)
    assert [first, *search] == [100 * number for number in range(4 * FITS - 1, -1, -1)]


# Cutting.


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=80),
    place=st.integers(0, 85),
    is_synced=st.booleans(),
)
def test_a_cut_index_is_that_of_the_records_before(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], place: int, is_synced: bool
) -> None:
    """Messages with several keys each, so that one may have them in two files."""
    rows = [
        (31 * number + key, 100 * number, NOW + 700 * number)
        for number, keys in enumerate(counts)
        for key in range(keys)
    ]
    root = tmp_path_factory.mktemp("index")
    index = opened(root / "cut")
    insert(index, rows)
    if is_synced:
        index.sync()
        index = opened(root / "cut")
    assert index.cut(100 * place) is False
    kept = [one for one in rows if one[1] < 100 * place]
    assert index.end_physical == (kept[-1][1] if kept else -1)
    assert sorted(path.name for path in (root / "cut").iterdir()) == [file.name for file in index.files]
    assert all(file.check()[2] is None for file in index.files)
    plain = plain_index(SLOTS, ENTRIES, kept)
    # But for the time of the last message in the header of the last file, which the entries tell to the second only.
    assert [data[16:] for data in contents(index)] == [file.to_bytes()[16:] for file in plain]
    # What comes next goes where it would have gone.
    left = rows[len(kept) :]
    if left and (not plain or len(plain[-1].entries) < ENTRIES):
        insert(index, left)
        assert contents(index) == [file.to_bytes() for file in plain_index(SLOTS, ENTRIES, rows)]


def test_a_file_that_tells_of_nothing_goes_with_a_cut(folder: Path, index: Index) -> None:
    insert(index, [row(number) for number in range(10)])
    index.sync()
    (folder / "29991231235959999").write_bytes(bytes((folder / index.files[0].name).stat().st_size))
    again = opened(folder)
    assert again.cut(2**60) is False
    assert [file.name for file in again.files] == [index.files[0].name]


def test_damage_in_the_last_file_is_told_and_what_stands_before_it_stays(folder: Path, index: Index) -> None:
    insert(index, [row(number) for number in range(FITS + 20)])
    index.sync()
    with (folder / index.files[1].name).open("r+b") as file:
        file.seek(40 + 4 * SLOTS + 20 * 11)
        file.write(bytes(20))
    again = opened(folder)
    assert again.cut(2**60) is True
    assert again.end_physical == 100 * (FITS + 9)
    assert again.cut(2**60) is False
    assert len(found(again)) == FITS + 10


# Files.


def test_all_is_there_after_a_restart_and_goes_on(folder: Path, index: Index) -> None:
    rows = [row(number, number) for number in range(250)]
    insert(index, rows[:130])
    index.sync()
    index.close()
    again = opened(folder)
    insert(again, rows[130:])
    assert contents(again) == [file.to_bytes() for file in plain_index(SLOTS, ENTRIES, rows)]


def test_what_was_not_synced_is_void_after_a_restart(folder: Path, index: Index) -> None:
    insert(index, [row(number) for number in range(10)])
    index.sync()
    insert(index, [row(number) for number in range(10, 20)])
    again = opened(folder)
    assert again.end_physical == 900
    assert again.cut(2**60) is False
    assert found(again) == [100 * number for number in range(9, -1, -1)]


def test_a_disk_that_is_too_full_for_another_file_leaves_none_behind(folder: Path, index: Index) -> None:
    insert(index, [row(number) for number in range(FITS)])
    with full_disk("pwrite"):
        for _ in range(2):
            with pytest.raises(DiskFullError):
                insert(index, [row(FITS)])
    assert sorted(path.name for path in folder.iterdir()) == [file.name for file in index.files]
    insert(index, [row(FITS)])
    assert found(index)[0] == 100 * FITS
    index.sync()
    assert [file.name for file in opened(folder).files] == [file.name for file in index.files]


def test_pages_are_made_ready_ahead(folder: Path) -> None:
    index = Index(folder, 100, 400_000, Clock(NOW))
    insert(index, [row(number) for number in range(80_000)])
    path = folder / index.files[0].name
    before = path.stat().st_blocks * 512
    index.prepare_ahead()
    assert path.stat().st_blocks * 512 >= 20 * (80_000 + 50_000) > before


def test_the_model_is_the_example_of_the_specification() -> None:
    file = PlainIndexFile(5_000_000, 10, [(1829193424, 5, NOW)])
    assert file.slots.index(1) == 4193424
