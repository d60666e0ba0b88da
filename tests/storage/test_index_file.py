"""One index file, against a plain model of the format: every byte, every chain, every way to cut it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from disks import full_disk
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain_index import EMPTY, PlainIndexFile, Row
from storing import hurried

from pocketmq.storage.errors import DiskFullError, StoreUnusableError
from pocketmq.storage.index_file import IndexFile, IndexHeader
from pocketmq.storage.layout import INDEX_ENTRY, INDEX_HEADER
from pocketmq.storage.mapped_file import MappedFile

SLOTS, ENTRIES = 5, 40
NOW = 1_700_000_000_000


def plain(rows: Iterable[Row], after: IndexHeader = EMPTY) -> PlainIndexFile:
    return PlainIndexFile(SLOTS, ENTRIES, rows, after)


def rows_of(pauses: list[tuple[int, int]], start: int = NOW) -> list[Row]:
    """Rows with these hashes and pauses before each; offsets and times ascend, some are equal."""
    rows, offset, time = list[Row](), 1000, start
    for key_hash, pause in pauses:
        offset, time = offset + pause % 3 * 100, time + pause
        rows.append((key_hash, offset, time))
    return rows


hashes = st.integers(0, 12) | st.integers(0, 2**31 - 1)
pauses = st.integers(0, 3) | st.integers(0, 5000) | st.integers(0, 2**42)
many = st.lists(st.tuples(hashes, pauses), min_size=1, max_size=ENTRIES - 1).map(rows_of)
headers = st.just(EMPTY) | st.builds(
    IndexHeader, st.just(NOW - 9999), st.integers(NOW - 5000, NOW), st.just(5), st.integers(10, 1000)
)

ROWS = rows_of([(7, 0), (12, 300), (7, 900), (3, 1000), (2, 0), (12, 2500), (0, 1), (7, 60_000)])


def insert(file: IndexFile, rows: list[Row], parts: list[int] | None = None) -> None:
    """Insert in stretches of these lengths."""
    done = 0
    for part in [*(parts or []), len(rows)]:
        if some := rows[done : done + part]:
            file.insert(*(np.array(column, np.int64) for column in zip(*some, strict=True)))
        done += part


def create(path: Path, after: IndexHeader = EMPTY) -> IndexFile:
    return IndexFile(path, SLOTS, ENTRIES, after=after)


def reopened(path: Path) -> IndexFile:
    return IndexFile(path, SLOTS, ENTRIES)


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "20261118041522001"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "20261118041522001"


def fresh(path: Path, after: IndexHeader = EMPTY) -> IndexFile:
    path.unlink(missing_ok=True)
    return create(path, after)


# The format.


def test_a_new_file_has_its_full_length_and_an_empty_header(path: Path) -> None:
    file = create(path)
    assert path.stat().st_size == 40 + 4 * SLOTS + 20 * ENTRIES
    assert (file.header, file.room) == (IndexHeader(0, 0, 0, 0, 0, 1), ENTRIES - 1)
    file.sync()
    assert path.read_bytes() == plain([]).to_bytes()


def test_a_successor_begins_where_its_predecessor_ends(path: Path) -> None:
    file = create(path, IndexHeader(100, 200, 300, 400, 5, 40))
    assert file.header == IndexHeader(200, 200, 400, 400, 0, 1)


@given(rows=many, parts=st.lists(st.integers(0, 12), max_size=8), after=headers)
def test_however_entries_are_inserted_the_file_is_that_of_the_specification(
    shared: Path, rows: list[Row], parts: list[int], after: IndexHeader
) -> None:
    file, model = fresh(shared, after), plain(rows, after)
    insert(file, rows, parts)
    file.sync()
    assert shared.read_bytes() == model.to_bytes()
    assert file.room == ENTRIES - 1 - len(rows)
    assert reopened(shared).header == file.header
    assert file.check()[2] is None


def test_the_first_entry_of_a_successor_is_dated_from_the_end_of_its_predecessor(path: Path) -> None:
    file = create(path, IndexHeader(NOW - 50_000, NOW - 10_000, 0, 100, 3, 40))
    insert(file, [(1, 200, NOW), (1, 300, NOW + 3000)])
    file.sync()
    entries = np.frombuffer(path.read_bytes(), INDEX_ENTRY, 3, 40 + 4 * SLOTS)
    assert entries["seconds"].tolist() == [0, 10, 3]
    assert file.header[:2] == (NOW, NOW + 3000)


@pytest.mark.parametrize("parts", [[], [1]])
def test_a_time_too_far_away_is_as_far_as_the_field_goes(path: Path, parts: list[int]) -> None:
    file = create(path)
    insert(file, [(1, 0, 1)])
    insert(file, [(1, 1, 2**62), (1, 2, 0)], parts)
    file.sync()
    entries = np.frombuffer(path.read_bytes(), INDEX_ENTRY, 4, 40 + 4 * SLOTS)
    assert entries["seconds"].tolist() == [0, 0, 2**31 - 1, 0]


# Finding.


@given(rows=many, after=headers, moments=st.tuples(st.integers(-2000, 20_000), st.integers(-2000, 20_000)))
def test_what_is_found_is_what_a_plain_search_finds(
    shared: Path, rows: list[Row], after: IndexHeader, moments: tuple[int, int]
) -> None:
    file, model = fresh(shared, after), plain(rows, after)
    insert(file, rows)
    begin, end = (NOW + moment for moment in moments)
    for key_hash in {row[0] for row in rows} | {0, SLOTS, 2 * SLOTS, 99}:
        assert list(file.find(key_hash, begin, end)) == model.find(key_hash, begin, end)
        assert list(file.find(key_hash, 0, 2**63 - 1)) == model.find(key_hash, 0, 2**63 - 1)
    for key_hash, offset, time in rows:
        assert offset in list(file.find(key_hash, time, time)) or time - rows[0][2] >= 1000 * 2**31


def test_other_hashes_of_the_slot_are_passed_over(path: Path) -> None:
    file = create(path)
    insert(file, [(2, 10, NOW), (7, 20, NOW), (2, 30, NOW), (12, 40, NOW)])
    assert list(file.find(2, 0, 2**63)) == [30, 10]
    assert list(file.find(7, 0, 2**63)) == [20]
    assert list(file.find(17, 0, 2**63)) == []
    assert list(file.find(3, 0, 2**63)) == []


@pytest.mark.parametrize(
    ("begin", "end", "covers"),
    [(0, 99, False), (0, 100, True), (100, 200, True), (150, 160, True), (200, 300, True), (201, 300, False)],
)
def test_a_file_tells_whether_it_may_hold_messages_of_a_time(path: Path, begin: int, end: int, covers: bool) -> None:
    file = create(path)
    assert not file.covers(0, 2**63)
    insert(file, [(1, 0, 100), (1, 1, 200)])
    assert file.covers(begin, end) is covers


@pytest.mark.parametrize(
    "previous", [-1, -(2**31), 4, 5, 2**31 - 1], ids=["negative", "least", "itself", "later", "greatest"]
)
def test_a_chain_that_leads_forward_or_out_of_the_file_ends(path: Path, previous: int) -> None:
    file = create(path)
    insert(file, [(2, 10 * number, NOW) for number in range(1, 5)])
    file.sync()
    with path.open("r+b") as raw:
        raw.seek(40 + 4 * SLOTS + 20 * 4 + 16)
        raw.write(previous.to_bytes(4, "big", signed=True))
    assert list(reopened(path).find(2, 0, 2**63)) == [40]


@pytest.mark.parametrize("slot", [-1, 0, 5, 6, 2**31 - 1])
def test_a_slot_that_leads_out_of_the_file_is_empty(path: Path, slot: int) -> None:
    file = create(path)
    insert(file, [(2, 10 * number, NOW) for number in range(1, 5)])
    file.sync()
    with path.open("r+b") as raw:
        raw.seek(40 + 4 * 2)
        raw.write(slot.to_bytes(4, "big", signed=True))
    again = reopened(path)
    again.make_writable()
    assert list(again.find(2, 0, 2**63)) == []
    insert(again, [(2, 50, NOW)])
    assert list(again.find(2, 0, 2**63)) == [50]


# Opening.


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_below_one_is_an_empty_file(path: Path, count: int) -> None:
    create(path).sync()
    with path.open("r+b") as raw:
        raw.seek(36)
        raw.write(count.to_bytes(4, "big", signed=True))
    assert reopened(path).header.next_entry == 1


def test_a_count_above_what_fits_is_a_full_file(path: Path) -> None:
    create(path).sync()
    with path.open("r+b") as raw:
        raw.seek(36)
        raw.write((2**31 - 1).to_bytes(4, "big"))
    file = reopened(path)
    assert file.room == 0
    assert list(file.find(0, 0, 2**63)) == []


def test_a_file_of_another_size_is_refused(path: Path) -> None:
    path.write_bytes(bytes(100))
    with pytest.raises(StoreUnusableError, match=r"100 bytes, not .* as maxHashSlotNum and maxIndexNum says"):
        reopened(path)


def test_a_file_with_holes_is_made_writable_without_a_change(path: Path) -> None:
    """RocketMQ leaves slots and entries that it never wrote to without a page on disk."""
    slots, entries = 50_000, 50_000
    file = IndexFile(path, slots, entries, after=EMPTY)
    insert(file, ROWS)
    file.sync()
    before = path.read_bytes()
    sparse = path.with_name("20261118041522002")
    with sparse.open("wb") as copy:
        for at in range(0, len(before), 4096):
            if before[at : at + 4096].strip(b"\0"):
                copy.seek(at)
                copy.write(before[at : at + 4096])
        copy.truncate(len(before))
    allocated = sparse.stat().st_blocks
    again = IndexFile(sparse, slots, entries)
    again.make_writable()
    assert sparse.read_bytes() == before
    assert sparse.stat().st_blocks > allocated
    insert(again, [(7, 9999, NOW)])
    assert list(again.find(7, 0, 2**63)) == [9999, *file.find(7, 0, 2**63)]


# What gets to disk when.


def test_a_header_counts_nothing_that_is_not_on_disk_yet(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = create(path)
    insert(file, ROWS)
    # RocketMQ deletes a file that ends behind its checkpoint; one with an empty header it would go on with.
    assert INDEX_HEADER.unpack(path.read_bytes()[:40]) == (0, 2**63 - 1, 0, 0, 0, 1)
    assert reopened(path).header.next_entry == 1
    steps: list[bytes] = []
    sync = MappedFile.sync

    def watched(self: MappedFile) -> None:
        steps.append(path.read_bytes()[36:40])
        sync(self)

    monkeypatch.setattr(MappedFile, "sync", watched)
    file.sync()
    assert steps == [number.to_bytes(4, "big") for number in (1, len(ROWS) + 1)]
    file.sync()
    assert len(steps) == 2


def test_a_full_disk_changes_nothing(path: Path) -> None:
    file = IndexFile(path, SLOTS, 300_000, after=EMPTY)
    insert(file, ROWS)
    before = file.header
    count = 200_000
    columns = np.ones(count, np.int64), 10_000 + np.arange(count), np.full(count, NOW + 90_000)
    with full_disk("pwrite"), pytest.raises(DiskFullError, match="maxIndexNum"):
        file.insert(*columns)
    assert file.header == before
    assert list(file.find(12, 0, 2**63)) == [ROWS[5][1], ROWS[1][1]]
    file.insert(*columns)
    assert file.header.next_entry == len(ROWS) + count + 1
    assert file.check()[2] is None


def test_a_disk_too_full_for_a_new_file_leaves_none(path: Path) -> None:
    with full_disk("pwrite"), pytest.raises(DiskFullError):
        create(path)
    assert not path.exists()


# Cutting.


@given(rows=many, after=headers, place=st.integers(0, ENTRIES), synced=st.booleans())
def test_a_cut_leaves_the_file_that_the_entries_before_it_make(
    shared: Path, rows: list[Row], after: IndexHeader, place: int, synced: bool
) -> None:
    file = fresh(shared, after)
    insert(file, rows)
    if synced:
        file.sync()
    offset = rows[place][1] if place < len(rows) else rows[-1][1] + 1
    kept = [row for row in rows if row[1] < offset]
    assert file.cut(offset) is False
    file.sync()
    model = plain(kept, after)
    if kept:
        # Of the last entry only the second is known: the time of the end may be a little late, never early.
        assert model.end_time <= file.header.end_timestamp <= max(model.end_time, rows[-1][2])
        assert shared.read_bytes()[16:] == model.to_bytes()[16:]
    assert file.header.next_entry == len(kept) + 1
    assert file.check()[2] is None
    insert(file, rows[len(kept) :])
    if kept:
        file.sync()
        assert shared.read_bytes() == plain(rows, after).to_bytes()


BAD_ENTRIES: dict[str, tuple[int, bytes]] = {
    "a negative hash": (0, b"\xff"),
    "an offset before the one in front": (4, bytes(8)),
    "a negative offset": (4, b"\xff"),
    "a negative time": (12, b"\xff"),
    "a chain to itself": (16, b"\0\0\0\x04"),
    "a chain to a later entry": (16, b"\0\0\0\x05"),
    "a negative chain": (16, b"\xff"),
    "zeros": (0, bytes(20)),
}


@pytest.mark.parametrize(("at", "new"), BAD_ENTRIES.values(), ids=BAD_ENTRIES.keys())
def test_an_entry_that_cannot_be_and_all_behind_it_go(path: Path, at: int, new: bytes) -> None:
    rows = [(number % 3, 1000 + 10 * number, NOW + 700 * number) for number in range(1, 9)]
    file = create(path)
    insert(file, rows)
    file.sync()
    with path.open("r+b") as raw:
        raw.seek(40 + 4 * SLOTS + 20 * 4 + at)
        raw.write(new)
    again = reopened(path)
    assert again.cut(2**60) is True
    assert again.header.next_entry == 4
    again.sync()
    assert path.read_bytes()[16:] == plain(rows[:3]).to_bytes()[16:]
    # Asked to cut in front of the damage, nothing is missing.
    file = fresh(path)
    insert(file, rows)
    with path.open("r+b") as raw:
        raw.seek(40 + 4 * SLOTS + 20 * 4 + at)
        raw.write(new)
    assert file.cut(rows[2][1]) is False
    assert file.header.next_entry == 3


def test_slots_are_made_anew(path: Path) -> None:
    file = create(path)
    insert(file, ROWS)
    file.sync()
    good = path.read_bytes()
    for garbage in bytes(4 * SLOTS), b"\xff" * 4 * SLOTS, b"\0\0\0\x01" * SLOTS:
        with path.open("r+b") as raw:
            raw.seek(40)
            raw.write(garbage)
        again = reopened(path)
        assert again.check()[2] == "some slots do not lead to their newest entry"
        assert again.cut(2**60) is False
        assert again.check()[2] is None
        assert path.read_bytes()[:-1] == good[:-1]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda data: data[:40] + bytes(4) + data[44:], "some slots do not lead to their newest entry"),
        (lambda data: data, None),
        (
            lambda data: set_at(data, 40 + 4 * SLOTS + 20 * 3 + 16, bytes(4)),
            "some entries do not lead to the one before",
        ),
        (lambda data: set_at(data, 32, (4).to_bytes(4, "big")), "4 slots should be in use, not 3"),
    ],
)
def test_a_check_tells_what_is_wrong_with_the_way_to_the_entries(
    path: Path, damage: Callable[[bytes], bytes], what: str | None
) -> None:
    file = create(path)
    insert(file, [(0, 1, NOW), (5, 2, NOW), (0, 3, NOW), (1, 4, NOW), (2, 5, NOW)])
    file.sync()
    path.write_bytes(damage(path.read_bytes()))
    found_hashes, offsets, told = reopened(path).check()
    assert told == what
    assert found_hashes.tolist() == [0, 5, 0, 1, 2]
    assert offsets.tolist() == [1, 2, 3, 4, 5]


def set_at(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_a_file_tells_whether_it_is_all_behind_an_offset(path: Path) -> None:
    file = create(path, IndexHeader(1, 2, 3, 500))
    assert file.starts_at_or_after(2**60)
    insert(file, [(1, 1000, NOW)])
    assert [file.starts_at_or_after(offset) for offset in (999, 1000, 1001)] == [True, True, False]


def test_a_file_shows_how_much_it_holds(path: Path) -> None:
    file = create(path)
    insert(file, ROWS)
    assert repr(file) == "<IndexFile 20261118041522001: 8 entries>"
    file.delete()
    assert not path.exists()
    assert len(list(file.find(7, 0, 2**63))) == 3
    file.close()


def test_what_is_inserted_while_the_header_is_written_is_written_next_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other thread comes at the worst moment: all is inserted, and the header is about to say so."""
    file = create(path)
    insert(file, ROWS[:1])
    file.sync()

    def count(slots: NDArray[np.bool_]) -> int:
        file.sync()
        return int(slots.sum())

    with monkeypatch.context() as patch:
        patch.setattr(np, "count_nonzero", count)
        insert(file, ROWS[1:])
    file.sync()
    assert reopened(path).header == file.header
    assert file.header.next_entry == len(ROWS) + 1


def test_a_header_that_found_no_room_is_written_next_time(path: Path) -> None:
    file = create(path)
    insert(file, ROWS)
    with full_disk("pwrite"), pytest.raises(DiskFullError):
        file.sync()
    file.sync()
    assert reopened(path).header == file.header
