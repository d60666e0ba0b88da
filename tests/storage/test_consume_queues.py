"""All consume queues: their names and folders, how they get to disk, and how a topic goes."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from storing import hurried

from pocketmq.storage import consume_queues, queue_files
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.consume_queues import ConsumeQueues, is_queue
from pocketmq.storage.errors import DiskFullError, IllegalMessageError
from pocketmq.storage.layout import QUEUE_ENTRY_SIZE, segment_name

FILE_SIZE = 16 * QUEUE_ENTRY_SIZE

GOOD_TOPICS = ["T", "a-b_c", "%RETRY%group", "a|b", "0", "x" * 127, "x" * 255, "-"]
BAD_TOPICS = [
    "",
    ".",
    "..",
    "a/b",
    "../T",
    "/etc",
    "a b",
    "a.b",
    "a\0b",
    "a\nb",
    "T\n",
    "~",
    "水",
    "x" * 256,
]


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "consumequeue"


@pytest.fixture
def queues(folder: Path) -> ConsumeQueues:
    return ConsumeQueues(folder, FILE_SIZE)


def add(queues: ConsumeQueues, topic: str = "T", queue_id: int = 0, count: int = 1) -> ConsumeQueue:
    """Append and publish some entries."""
    queue = queues.create(topic, queue_id)
    for _ in range(count):
        queue.append(queue.end * 100, 100, 0)
    queue.readable = queue.end
    queues.changed(queue)
    return queue


def end_on_disk(folder: Path, topic: str = "T", queue_id: int = 0) -> int:
    queue = ConsumeQueues(folder, FILE_SIZE).create(topic, queue_id)
    queue.load()
    return queue.end


def no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


# Names.


@pytest.mark.parametrize("topic", GOOD_TOPICS)
def test_a_good_name_becomes_a_folder(queues: ConsumeQueues, folder: Path, topic: str) -> None:
    add(queues, topic, 7)
    queues.write_out()
    assert (folder / topic / "7" / segment_name(0)).is_file()
    assert queues.on_disk() == [(topic, 7)]


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_a_bad_name_never_becomes_a_folder(queues: ConsumeQueues, folder: Path, topic: str) -> None:
    assert not is_queue(topic, 0)
    with pytest.raises(IllegalMessageError, match="there can be no queue 0"):
        queues.create(topic, 0)
    assert len(queues) == 0
    assert not folder.exists()


@pytest.mark.parametrize(("queue_id", "is_good"), [(0, True), (2**31 - 1, True), (2**31, False), (-1, False)])
def test_a_queue_has_a_number_that_a_record_has_room_for(queues: ConsumeQueues, queue_id: int, is_good: bool) -> None:
    assert is_queue("T", queue_id) is is_good
    if is_good:
        assert queues.create("T", queue_id).queue_id == queue_id
    else:
        with pytest.raises(IllegalMessageError):
            queues.create("T", queue_id)


def test_a_queue_is_made_once(queues: ConsumeQueues) -> None:
    assert queues.get("T", 0) is None
    queue = queues.create("T", 0)
    assert queues.create("T", 0) is queue
    assert queues.get("T", 0) is queue
    assert queues.create("T", 1) is not queue
    assert len(queues) == len(list(queues)) == 2


def test_only_folders_that_can_be_queues_are_found(folder: Path, queues: ConsumeQueues) -> None:
    assert queues.on_disk() == []
    for name in "T/0", "T/10", "T/00", "T/-1", "T/x", "U/3", "a b/0", "empty":
        (folder / name).mkdir(parents=True)
    (folder / "file").touch()
    (folder / "T" / "5").touch()
    assert sorted(queues.on_disk()) == [("T", 0), ("T", 10), ("U", 3)]


# To disk.


def test_only_queues_that_changed_are_written(queues: ConsumeQueues, folder: Path) -> None:
    add(queues, "T", 0, 3)
    quiet = queues.create("T", 1)
    quiet.append(0, 100, 0)
    queues.write_out()
    assert queues.on_disk() == [("T", 0)]
    assert end_on_disk(folder) == 3


def test_a_full_disk_keeps_what_was_not_written_for_the_next_time(
    queues: ConsumeQueues, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [(topic, number) for topic in ("A", "B") for number in range(3)]
    for topic, number in names:
        add(queues, topic, number, 20)
    pwrite, left = os.pwrite, [4]

    def pwrite_a_few(descriptor: int, data: bytes, place: int) -> int:
        left[0] -= 1
        return pwrite(descriptor, data, place) if left[0] >= 0 else no_room()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite_a_few)
        with pytest.raises(DiskFullError):
            queues.write_out()
        with pytest.raises(DiskFullError):
            queues.write_out()
    assert sum(end_on_disk(folder, *name) for name in names) == 40
    for topic, number in names:
        add(queues, topic, number, 1)
    queues.write_out()
    assert [end_on_disk(folder, *name) for name in names] == [21] * 6
    queues.sync()
    assert all(queue.files.is_synced for queue in queues)


def test_a_sync_brings_files_before_the_folders_above_them(
    queues: ConsumeQueues, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    for module in queue_files, consume_queues:
        monkeypatch.setattr(module, "sync_folder", lambda path: synced.append(str(path.relative_to(folder))))
    monkeypatch.setattr(queue_files, "sync_data", lambda _: synced.append("data"))
    add(queues, "T", 0)
    add(queues, "T", 1)
    queues.write_out()
    queues.sync()
    assert synced == ["data", "T/0", "data", "T/1", "T", "."]
    synced.clear()
    queues.sync()
    assert synced == []
    add(queues, "T", 1)
    queues.write_out()
    queues.sync()
    assert synced == ["data"]


def test_a_sync_may_pass_over_queues_with_few_pages(folder: Path) -> None:
    queues = ConsumeQueues(folder, 6_000_000)
    few, many = add(queues, "T", 0, 10), add(queues, "T", 1, 1000)
    queues.write_out()
    queues.sync(least_pages=2)
    assert (few.files.is_synced, many.files.is_synced) == (False, True)
    queues.sync()
    assert few.files.is_synced


def test_a_failed_sync_is_told(queues: ConsumeQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    add(queues)
    queues.write_out()
    monkeypatch.setattr(queue_files, "sync_data", fail)
    with pytest.raises(OSError, match="Input/output error"):
        queues.sync()


def test_writing_goes_on_while_others_append(queues: ConsumeQueues, folder: Path) -> None:
    done = threading.Event()

    def keep_writing() -> None:
        while not done.is_set():
            queues.write_out()
            queues.sync(least_pages=1)

    thread = threading.Thread(target=keep_writing)
    thread.start()
    try:
        for number in range(1000):
            add(queues, "T", number % 5, 2)
    finally:
        done.set()
        thread.join()
    queues.write_out()
    assert [end_on_disk(folder, "T", number) for number in range(5)] == [400] * 5


# Deleting.


def test_a_removed_topic_is_gone_from_memory_and_from_its_place(
    queues: ConsumeQueues, folder: Path, tmp_path: Path
) -> None:
    for topic in "T", "TT":
        for number in range(2):
            add(queues, topic, number)
    queues.write_out()
    place = queues.remove_topic("T", tmp_path / "trash")
    assert place is not None
    assert sorted(path.name for path in (place / "queues").iterdir()) == ["0", "1"]
    assert place.parent == tmp_path / "trash"
    assert sorted(queues.on_disk()) == [("TT", 0), ("TT", 1)]
    assert queues.get("T", 0) is None
    assert queues.get("TT", 0) is not None
    assert queues.remove_topic("T", tmp_path / "trash") is None


def test_a_removed_topic_does_not_come_back_as_files(queues: ConsumeQueues, folder: Path, tmp_path: Path) -> None:
    add(queues, "T", 0, 3)
    queues.write_out()
    add(queues, "T", 0, 3)
    queues.remove_topic("T", tmp_path / "trash")
    queues.write_out()
    queues.sync()
    assert queues.on_disk() == []


def test_a_topic_of_the_same_name_starts_anew(queues: ConsumeQueues, folder: Path, tmp_path: Path) -> None:
    add(queues, "T", 0, 30)
    queues.write_out()
    first = queues.remove_topic("T", tmp_path / "trash")
    assert add(queues, "T", 0, 2).end == 2
    queues.write_out()
    assert end_on_disk(folder) == 2
    assert queues.remove_topic("T", tmp_path / "trash") != first


@pytest.mark.parametrize("topic", ["", ".", "..", "../commitlog", "T/0", "../consumequeue"])
def test_what_is_no_topic_removes_nothing(queues: ConsumeQueues, tmp_path: Path, topic: str) -> None:
    add(queues)
    queues.write_out()
    (tmp_path / "commitlog").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert queues.remove_topic(topic, tmp_path / "trash") is None
    assert sorted(tmp_path.rglob("*")) == before


def test_files_that_lead_nowhere_are_deleted_with_a_pause_for_each_queue_that_had_some(queues: ConsumeQueues) -> None:
    for number, count in enumerate((5, 40, 40)):
        add(queues, "T", number, count)
    queues.write_out()
    pauses: list[str] = []
    queues.delete_files_before(3300, lambda: pauses.append("pause"))
    assert [queue.files.offsets for queue in queues] == [[0], [FILE_SIZE * 2], [FILE_SIZE * 2]]
    assert pauses == ["pause"] * 2
