"""The consistency check: a good store has no problem, and each kind of damage is found where it is."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from storing import SMALL, SMALL_ASYNC, batch, flush, hurried, message

from pocketmq.protocol.message import decode_record
from pocketmq.storage.cleaning import clean
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC
from pocketmq.storage.errors import StoreLockedError, StoreUnusableError
from pocketmq.storage.layout import FILLER, INDEX_HEADER, pack_queue_entry, segment_name
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import Problem, verify

SEGMENT = SMALL.mapped_file_size_commit_log
SLOTS_AT, ENTRIES_AT = 40, 40 + 4 * SMALL.max_hash_slot_num
HOST = ("10.0.0.1", 1)


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


# Good stores.


def nothing(store: Store) -> None:
    pass


def one(store: Store) -> None:
    store.append(message())


def many(store: Store) -> None:
    for number in range(120):
        store.append(message(b"x" * 300, f"T{number % 3}", number % 2, tag=f"tag {number}", keys=f"{number} k"))


def batches(store: Store) -> None:
    for number in range(5):
        store.append_records(batch([b"x" * 50] * 30, queue_id=number % 2), HOST, HOST)


def other_texts(store: Store) -> None:
    for text in "标签", "🏷", "a b", "x" * 200:
        store.append(message(tag=text, keys=f"{text} {text}"))
    store.append(message(topic="%RETRY%" + "x" * 200)._replace(born_host=("fd00::1", 1), store_host=("fd00::2", 2)))


def without_keys(store: Store) -> None:
    for _ in range(3):
        store.append(message(unique=None))


def transactions(store: Store) -> None:
    for sys_flag in 0x0, 0x4, 0x8, 0xC, 0x4, 0x0:
        store.append(message(sys_flag=sys_flag, keys="k", tag="t"))


def delayed(store: Store) -> None:
    for level in 1, 3, 18, 99, 0:
        store.append(message(topic=SCHEDULE_TOPIC, queue_id=level, delay=level, tag="t"))


def a_deleted_topic(store: Store) -> None:
    many(store)
    store.delete_topic("T1")
    many(store)


def cleaned(store: Store) -> None:
    for _ in range(3):
        many(store)
    flush(store)
    store.save_progress()
    for path in sorted(store.paths.commit_log.iterdir())[:3]:
        os.utime(path, (0, 0))
    assert clean(store, manual=True) == 3


def restarted(store: Store) -> None:
    many(store)
    flush(store)
    store.abandon()
    with Store(store.paths.root, store.settings) as again:
        many(again)


GOOD = [
    nothing,
    one,
    many,
    batches,
    other_texts,
    without_keys,
    transactions,
    delayed,
    a_deleted_topic,
    cleaned,
    restarted,
]


@pytest.mark.parametrize("settings", [SMALL, SMALL_ASYNC, replace(SMALL, message_index_enable=False)])
@pytest.mark.parametrize("write", GOOD)
def test_a_good_store_has_no_problem(tmp_path: Path, write: Callable[[Store], None], settings: StoreSettings) -> None:
    with Store(tmp_path, settings) as store:
        write(store)
    assert verify(tmp_path, settings) == []


def test_a_folder_that_is_no_store_has_no_problem(tmp_path: Path) -> None:
    assert verify(tmp_path, SMALL) == []


def test_nothing_is_changed_but_the_lock(good: Path) -> None:
    # An index file with holes, as RocketMQ writes it, and one whose creation was interrupted.
    newest = max((good / "index").iterdir())
    data = newest.read_bytes()
    newest.unlink()
    with newest.open("wb") as file:
        file.truncate(len(data))
        file.write(data.rstrip(b"\0"))
    (good / "index" / f"{int(newest.name) + 1}").touch()
    before = snapshot(good)
    assert verify(good, SMALL) == []
    assert snapshot(good) == before


def snapshot(root: Path) -> dict[Path, tuple[bytes, int, int]]:
    """What is in all files, how much room that takes, and when it was last changed."""
    states = {path: path.stat() for path in root.rglob("*") if path.is_file() and path.name != "lock"}
    return {path: (path.read_bytes(), state.st_blocks, state.st_mtime_ns) for path, state in states.items()}


def test_an_open_store_is_not_looked_at(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL), pytest.raises(StoreLockedError):
        verify(tmp_path, SMALL)
    assert verify(tmp_path, SMALL) == []


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/T/0", "index"])
def test_a_file_of_the_wrong_size_is_refused_and_the_lock_given_back(good: Path, name: str) -> None:
    path = sorted(path for path in (good / name).iterdir() if path.is_file())[0]
    os.truncate(path, 7)
    with pytest.raises(StoreUnusableError, match=path.name):
        verify(good, SMALL)
    path.unlink()
    verify(good, SMALL)


# Damage.


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 messages, 30 in T/0 and 30 in T/1, in two segments, four files of queues and three of the index."""
    root = tmp_path_factory.mktemp("template")
    with Store(root, SMALL) as store:
        for number in range(60):
            body = b"%02d" % number * 150
            store.append(message(body, queue_id=number % 2, tag=f"tag{number % 5}", unique=f"unique{number}"))
    assert verify(root, SMALL) == []
    return root


@pytest.fixture
def good(template: Path, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    return root


def put(path: Path, at: int, new: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(new)


def log_file(root: Path, number: int = 0) -> Path:
    return root / "commitlog" / segment_name(number * SEGMENT)


def queue_file(root: Path, number: int = 0, queue_id: int = 0) -> Path:
    return root / f"consumequeue/T/{queue_id}" / segment_name(number * SMALL.mapped_file_size_consume_queue)


def index_file(root: Path, number: int = 0) -> Path:
    return sorted((root / "index").iterdir())[number]


def place_of(root: Path, number: int) -> int:
    """Where a record of the first segment begins."""
    data, place = log_file(root).read_bytes(), 0
    for _ in range(number):
        place += decode_record(data, place).size
    return place


def end_of_log(root: Path) -> int:
    data, place = log_file(root, 1).read_bytes(), 0
    while any(data[place : place + 8]):
        place += decode_record(data, place).size
    return place


def in_record(number: int, at: int, new: bytes) -> Callable[[Path], None]:
    return lambda root: put(log_file(root), place_of(root, number) + at, new)


def in_entry(number: int, at: int, new: bytes) -> Callable[[Path], None]:
    return lambda root: put(queue_file(root, number // 16), number % 16 * 20 + at, new)


def behind_the_log(root: Path) -> None:
    put(log_file(root, 1), end_of_log(root) + 100, b"x")


def segment_behind_the_log(root: Path) -> None:
    log_file(root, 2).write_bytes(b"x" + bytes(SEGMENT - 1))


def time_goes_back(root: Path) -> None:
    put(log_file(root), place_of(root, 3) + 56, struct.pack(">q", 1))


def missing_segment(root: Path) -> None:
    shutil.copy(log_file(root, 1), log_file(root, 2))
    log_file(root, 1).unlink()


def checkpoint_behind(root: Path) -> None:
    put(root / "checkpoint", 40, struct.pack(">q", 10 * SEGMENT))


def lose_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue/T/1")


def lose_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def cut_queue(root: Path) -> None:
    put(queue_file(root, 1), 13 * 20, bytes(20))


def filler_for_a_message(root: Path) -> None:
    put(queue_file(root), 5 * 20, FILLER)


def entry_too_many(root: Path) -> None:
    put(queue_file(root, 1), 14 * 20, pack_queue_entry(place_of(root, 0), 400, 0))


def entry_behind_zeros(root: Path) -> None:
    put(queue_file(root, 1), 15 * 20, pack_queue_entry(0, 100, 0))


def unknown_queue(root: Path) -> None:
    folder = root / "consumequeue/U/0"
    folder.mkdir(parents=True)
    (folder / segment_name(0)).write_bytes(pack_queue_entry(0, 100, 0).ljust(320, b"\0"))


def in_index(at: int, new: bytes) -> Callable[[Path], None]:
    return lambda root: put(index_file(root), at, new)


def slot_to_nowhere(root: Path) -> None:
    data = index_file(root).read_bytes()
    slot = next(slot for slot in range(16) if any(data[SLOTS_AT + 4 * slot : SLOTS_AT + 4 * slot + 4]))
    put(index_file(root), SLOTS_AT + 4 * slot, bytes(4))


def broken_chain(root: Path) -> None:
    data = index_file(root).read_bytes()
    entry = next(
        entry for entry in range(1, 64) if any(data[ENTRIES_AT + 20 * entry + 16 : ENTRIES_AT + 20 * entry + 20])
    )
    put(index_file(root), ENTRIES_AT + 20 * entry + 16, bytes(4))


def wrong_slot_count(root: Path) -> None:
    header = list(INDEX_HEADER.unpack_from(index_file(root).read_bytes()))
    header[4] -= 1
    put(index_file(root), 0, INDEX_HEADER.pack(*header))


def lose_last_index_file(root: Path) -> None:
    index_file(root, -1).unlink()


def entry_for_another_record(root: Path) -> None:
    put(index_file(root), ENTRIES_AT + 20 * 3 + 4, struct.pack(">q", place_of(root, 9)))


def illegal_topic(root: Path) -> None:
    put(log_file(root), place_of(root, 4) + 88 + 300 + 1, b"/")


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing segment": (missing_segment, r"commitlog: a segment is missing: there is nothing from 16384 to 32768"),
    "a flipped body": (in_record(3, 100, b"!"), r"commitlog: no record can be read from \d+ to \d+"),
    "a magic": (in_record(3, 4, bytes(4)), r"commitlog: no record can be read from \d+ to \d+"),
    "a size": (in_record(3, 0, b"\x7f"), r"commitlog: no record can be read from \d+ to \d+"),
    "a place": (in_record(3, 28, b"\x01"), r"commitlog: no record can be read from \d+ to \d+"),
    "the first record": (in_record(0, 100, b"!"), r"commitlog: no record can be read from 0 to \d+"),
    "time goes back": (time_goes_back, r"commitlog: time goes back at the record at \d+"),
    "behind the log": (behind_the_log, r"0016384: behind the end of the log, \d+, it holds something else"),
    "a segment behind": (segment_behind_the_log, r"0032768: behind the end of the log, \d+, it holds something else"),
    "the checkpoint": (checkpoint_behind, r"checkpoint: it speaks of a record behind the end of the log, \d+"),
    "a lost queue": (lose_queue, r"T/1: message 0 is in the log and not in the queue"),
    "a short queue": (cut_queue, r"T/0: message 29 is in the log and not in the queue"),
    "a hole in a queue": (in_entry(20, 0, bytes(20)), r"T/0: message 20 is in the log and not in the queue"),
    "a filler": (filler_for_a_message, r"T/0: entry 5 does not lead to its record"),
    "a place in a queue": (in_entry(7, 7, b"\x01"), r"T/0: entry 7 does not lead to its record"),
    "a size in a queue": (in_entry(7, 11, b"\x01"), r"T/0: entry 7 does not lead to its record"),
    "a tag in a queue": (in_entry(7, 19, b"\x01"), r"T/0: entry 7 has another tag than its record"),
    "a tag in a record": (in_record(4, 88 + 300 + 35, b"?"), r"T/0: entry 2 has another tag than its record|key"),
    "an entry too many": (entry_too_many, r"T/0: entry 30 leads to no record"),
    "a queue that nobody knows": (unknown_queue, r"U/0: entry 0 leads to no record"),
    "something behind a queue": (entry_behind_zeros, r"T/0: behind its last entry, 29, it holds something else"),
    "another queue in a record": (in_record(4, 15, b"\x09"), r"T/9: message 2 is in the log and not in the queue"),
    "another number in a record": (in_record(4, 27, b"\x28"), r"T/0: message 40 is in the log and not in the queue"),
    "an illegal topic in a record": (illegal_topic, r"commitlog: .*'/'"),
    "a slot": (slot_to_nowhere, r"index/\d{17}: some slots do not lead to their newest entry"),
    "a chain": (broken_chain, r"index/\d{17}: some entries do not lead to the one before"),
    "the number of slots": (wrong_slot_count, r"index/\d{17}: \d+ slots should be in use, not \d+"),
    "the hash of an index entry": (in_index(ENTRIES_AT + 20 * 3, b"\x01"), r"index: the record at \d+ is not found"),
    "the place of an index entry": (entry_for_another_record, r"leads to \d+, where no record has that key"),
    "a lost index": (lose_index, r"index: the record at \d+ is not found under its key with the hash \d+"),
    "a lost index file": (lose_last_index_file, r"index: the record at \d+ is not found under its key with the hash"),
}


@pytest.mark.parametrize(("damage", "told"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_found_and_told_with_its_place(good: Path, damage: Callable[[Path], None], told: str) -> None:
    damage(good)
    problems = [str(problem) for problem in verify(good, SMALL)]
    assert any(re.search(told, problem) for problem in problems), problems
    assert all(problem.startswith(str(good)) for problem in problems)


def test_damage_is_found_however_often_one_looks(good: Path) -> None:
    in_entry(7, 7, b"\x01")(good)
    assert verify(good, SMALL) == verify(good, SMALL) != []


def test_one_damaged_entry_is_one_problem(good: Path) -> None:
    in_entry(7, 19, b"\x01")(good)
    [problem] = verify(good, SMALL)
    assert problem == Problem(str(good / "consumequeue/T/0"), "entry 7 has another tag than its record")
    assert str(problem) == f"{problem.where}: {problem.what}"


def test_many_problems_of_a_kind_do_not_fill_the_screen(good: Path) -> None:
    shutil.rmtree(good / "consumequeue")
    shutil.rmtree(good / "index")
    texts = [problem.what for problem in verify(good, SMALL)]
    assert texts.count("and 25 more like this") == 2
    assert texts[-1] == "and 55 more keys are not found"
    assert len(texts) == 2 * 6 + 6


def test_many_stale_index_entries_do_not_fill_the_screen(good: Path) -> None:
    for path in (good / "commitlog").iterdir():
        path.unlink()
    shutil.rmtree(good / "consumequeue")
    problems = verify(good, SMALL)
    assert 0 < len(problems) <= 8


@pytest.mark.parametrize("damage", [damage for damage, _ in DAMAGE.values()], ids=DAMAGE.keys())
def test_a_crash_heals_queues_and_index(good: Path, damage: Callable[[Path], None]) -> None:
    """Recovery reads the whole log here; what is left to be told is in the log itself."""
    damage(good)
    (good / "abort").touch()
    put(good / "checkpoint", 0, bytes(48))
    with Store(good, SMALL) as store:
        rejected = len(store.report.rejected)
    left = [problem.what for problem in verify(good, SMALL) if problem.where != str(good / "commitlog")]
    assert all(re.fullmatch(r"message \d+ is in the log and not in the queue", what) for what in left)
    assert len(left) <= rejected <= 1
