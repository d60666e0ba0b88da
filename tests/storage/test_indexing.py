"""Filing messages many at a time: when it is done, what the index then holds, and how far it is."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from disks import full_disk
from hypothesis import given
from hypothesis import strategies as st
from storing import Clock, batch, hurried, message

from pocketmq.protocol.hashes import index_key_hash, java_hash
from pocketmq.storage import indexing as module
from pocketmq.storage.burst import Batch, Noted, Place
from pocketmq.storage.index import Index
from pocketmq.storage.indexing import Indexing, keys_of

NOW = 1_700_000_000_000
PREFIX = java_hash("T#") & 0xFFFFFFFF
ENOUGH, ENOUGH_BYTES = module._ENOUGH, module._ENOUGH_BYTES


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture
def indexing(tmp_path: Path) -> Indexing:
    return Indexing(Index(tmp_path / "index", 1000, 100_000, Clock(NOW)))


def noted(number: int, key: str = "", sys_flag: int = 0) -> Noted:
    """The message at ten times its number, with a key of its own."""
    return PREFIX, 10 * number, NOW + number, f"UNIQ_KEY\x01{key or number}\x02", sys_flag


def noted_batch(number: int, count: int = 3) -> Batch:
    """A batch of messages with the keys `number`, `number + 1` and so on, each at ten times its number."""
    keys = range(number, number + count)
    columns = batch([b"x"] * count, uniques=[str(key) for key in keys])
    return Batch.of(columns, np.array(keys) * 10, NOW + number, has_index=True)


def entries(indexing: Indexing) -> int:
    return sum(file.header.next_entry - 1 for file in indexing.index.files)


def is_held_up(indexing: Indexing) -> bool:
    return indexing.full is not None


def found(indexing: Indexing, key: object) -> list[int]:
    with indexing.complete_index() as index:
        return list(index.find(index_key_hash(f"T#{key}"), 0, 2**63 - 1))


# When.


def test_messages_wait_until_they_are_enough(indexing: Indexing) -> None:
    for number in range(1, ENOUGH):
        indexing.add([noted(number)])
    assert entries(indexing) == 0
    assert indexing.progress == Place(0, 0)
    indexing.add([noted(ENOUGH)])
    assert entries(indexing) == ENOUGH
    assert indexing.progress == Place(10 * ENOUGH, NOW + ENOUGH)
    indexing.add([noted(ENOUGH + 1)])
    assert entries(indexing) == ENOUGH


def test_a_few_large_messages_are_enough(indexing: Indexing) -> None:
    indexing.add([noted(1), noted((ENOUGH_BYTES - 1) // 10)])
    assert entries(indexing) == 0
    indexing.add([noted(ENOUGH_BYTES // 10 + 1)])
    assert entries(indexing) == 3


def test_they_wait_no_longer_when_somebody_asks(indexing: Indexing) -> None:
    indexing.add([noted(1), noted(2)])
    assert found(indexing, 2) == [20]
    assert indexing.progress == Place(20, NOW + 2)


def test_nothing_is_filed_twice(indexing: Indexing) -> None:
    indexing.add([noted(1)])
    for _ in range(3):
        indexing.file()
    assert entries(indexing) == 1
    assert found(indexing, 1) == [10]


def test_it_goes_on_where_recovery_ended(indexing: Indexing) -> None:
    indexing.add_keys(np.array([[5], [70], [NOW]]))
    assert indexing.progress == Place(0, 0)
    indexing.start_at(Place(90, NOW + 1))
    assert (indexing.progress, entries(indexing)) == (Place(90, NOW + 1), 1)


# What.


@given(kinds=st.lists(st.sampled_from(["single", "batch", "file"]), max_size=30))
def test_singles_and_batches_are_filed_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str]
) -> None:
    indexing = Indexing(Index(tmp_path_factory.mktemp("index"), 1000, 200, Clock(NOW)))
    number, keys = 1, list[int]()
    for kind in kinds:
        if kind == "file":
            indexing.file()
            continue
        count = 1 if kind == "single" else 3
        indexing.add([noted(number) if kind == "single" else noted_batch(number)])
        keys += range(number, number + count)
        number += count
    expected = [index_key_hash(f"T#{key}") for key in keys]
    if "batch" in kinds:
        assert found(indexing, "T#A")  # batches have tags too
    indexing.file()
    checks = [file.check() for file in indexing.index.files]
    tags = index_key_hash("T#T#A")
    assert [code for hashes, _, _ in checks for code in hashes.tolist() if code != tags] == expected
    offsets = [offset for _, offsets, _ in checks for offset in offsets.tolist()]
    assert offsets == sorted(offsets)
    assert all(problem is None for _, _, problem in checks)
    assert indexing.progress.physical_offset == (10 * (number - 1) if keys else 0)


def test_a_message_is_filed_under_its_unique_key_its_keys_and_its_tag(indexing: Indexing) -> None:
    record = message(keys="a b  c", tag="Tag", unique="U")
    indexing.add([(PREFIX, 50, NOW, record.properties_text, 0)])
    assert [found(indexing, key) for key in ("U", "a", "b", "c", "T#Tag", "Tag", "")] == [[50]] * 5 + [[]] * 2
    assert entries(indexing) == 5


def test_rollbacks_are_not_filed_and_count_as_done(indexing: Indexing) -> None:
    indexing.add([noted(1, sys_flag=0x4), noted(2, sys_flag=0xC)])
    assert (found(indexing, 1), found(indexing, 2)) == ([10], [])
    assert indexing.progress == Place(20, NOW + 2)


def test_messages_without_keys_count_as_done(indexing: Indexing) -> None:
    indexing.add([(PREFIX, 50, NOW, "", 0)])
    indexing.file()
    assert (entries(indexing), indexing.progress) == (0, Place(50, NOW))


def test_of_nothing_there_is_nothing_to_file() -> None:
    assert keys_of([]) == []


def test_without_an_index_progress_is_made_all_the_same(tmp_path: Path) -> None:
    indexing = Indexing(Index(tmp_path / "index", 10, 10, Clock(NOW)), is_enabled=False)
    indexing.add([noted(1), noted_batch(2)])
    indexing.file()
    assert indexing.progress == Place(40, NOW + 2)
    assert not (tmp_path / "index").exists()


# Full disks.


def test_on_a_full_disk_all_waits_and_progress_too(indexing: Indexing) -> None:
    indexing.add([noted(1)])
    with full_disk("pwrite"):
        indexing.file()
        assert is_held_up(indexing)
        indexing.add([noted(2)])
        indexing.add_keys(np.array([[5], [30], [NOW]]))
        assert is_held_up(indexing)
        assert indexing.progress == Place(0, 0)
    indexing.add([])
    assert not is_held_up(indexing)
    assert indexing.progress == Place(20, NOW + 2)
    assert (found(indexing, 1), found(indexing, 2), entries(indexing)) == ([10], [20], 3)


def test_what_holds_it_up_holds_no_file(indexing: Indexing) -> None:
    """A traceback would, and with it the room of the file that could not be made."""
    indexing.add([noted(1)])
    with full_disk("pwrite"):
        indexing.file()
    assert indexing.full is not None
    assert (indexing.full.__traceback__, indexing.full.__context__) == (None, None)


@pytest.mark.parametrize("broken", ["keys_of", "insert"])
def test_whatever_fails_nothing_is_forgotten(indexing: Indexing, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    indexing.add([noted(1), noted(2)])

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(module if broken == "keys_of" else Index, broken, fail)
        with pytest.raises(OSError, match="Too many"):
            indexing.file()
        assert indexing.progress == Place(0, 0)
    indexing.add([noted(3)])
    assert [found(indexing, number) for number in (1, 2, 3)] == [[10], [20], [30]]
    assert entries(indexing) == 3


def test_once_it_is_closed_nothing_is_filed(indexing: Indexing, tmp_path: Path) -> None:
    indexing.add([noted(1)])
    indexing.close()
    indexing.add([noted(2)])
    assert found(indexing, 1) == []
    assert indexing.progress == Place(0, 0)
    assert not (tmp_path / "index").exists()


# Threads.


def test_another_thread_may_file_while_messages_are_added_and_found(indexing: Indexing) -> None:
    stop, rounds = threading.Event(), 0

    def file() -> None:
        nonlocal rounds
        while not stop.is_set():
            indexing.file()
            rounds += 1

    thread = threading.Thread(target=file)
    thread.start()
    try:
        for number in range(1, 3001):
            indexing.add([noted(number)])
            if number % 10 == 0:
                assert found(indexing, number) == [10 * number]
    finally:
        stop.set()
        thread.join()
    indexing.file()
    assert rounds > 0
    assert entries(indexing) == 3000
    [(_, offsets, problem)] = [file.check() for file in indexing.index.files]
    assert problem is None
    assert offsets.tolist() == [10 * number for number in range(1, 3001)]
