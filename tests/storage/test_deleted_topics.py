"""Deleted topics: what the log still holds of them belongs to nobody, and one of the same name starts at 0."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from disks import full_disk, watched_syncs
from storing import SMALL, Clock, batch, flush, message, opened, read_all
from threads import PATIENCE, run_meanwhile

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.fastjson import loads
from pocketmq.protocol.message import encode_record_at
from pocketmq.storage.config_files import ConfigFile
from pocketmq.storage.deleted_topics import DeletedTopics
from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify


def columns_of(*places: tuple[str, int]) -> RecordColumns:
    """Records of these topics at these offsets."""
    return RecordColumns(b"".join(encode_record_at(message(topic=topic), 0, offset, 0) for topic, offset in places))


# The table.


def test_without_a_file_nothing_was_deleted(tmp_path: Path) -> None:
    deleted = DeletedTopics(tmp_path)
    assert (list(deleted.ends), deleted.end_of("T")) == ([], 0)
    assert deleted.living(columns_of(("T", 0), ("U", 1))).tolist() == [True, True]


def test_records_in_front_of_the_deletion_belong_to_nobody(tmp_path: Path) -> None:
    deleted = DeletedTopics(tmp_path)
    deleted.add("T", 1000)
    columns = columns_of(("T", 0), ("U", 100), ("T", 999), ("T", 1000), ("TT", 0), ("U", 2000), ("T", 5000))
    assert deleted.living(columns).tolist() == [False, True, False, True, True, True, True]
    assert deleted.end_of("T") == 1000
    assert deleted.end_of("U") == 0
    assert list(deleted.ends) == [1000]


def test_a_topic_may_be_deleted_again(tmp_path: Path) -> None:
    deleted = DeletedTopics(tmp_path)
    deleted.add("T", 1000)
    deleted.add("U", 1500)
    deleted.add("T", 2000)
    assert sorted(deleted.ends) == [1500, 2000]
    columns = columns_of(("T", 1999), ("T", 2000), ("U", 1499), ("U", 1500))
    assert deleted.living(columns).tolist() == [False, True, False, True]


@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "123", "-5", "a|b", "SCHEDULE_TOPIC_XXXX"])
def test_deletions_are_kept_in_a_file(tmp_path: Path, topic: str) -> None:
    deleted = DeletedTopics(tmp_path)
    with watched_syncs() as syncs:
        deleted.add(topic, 1000)
    assert syncs.data_of(tmp_path / "deletedTopics.json") == syncs.names_in(tmp_path) == 1
    assert loads((tmp_path / "deletedTopics.json").read_bytes()) == {"deletedTopics": {topic: 1000}}
    again = DeletedTopics(tmp_path)
    assert again.end_of(topic) == 1000
    assert again.living(columns_of((topic, 999), (topic, 1000))).tolist() == [False, True]


@pytest.mark.parametrize(
    ("log_min_offset", "left"),
    [(0, {"A": 100, "B": 200, "C": 200}), (99, {"A": 100, "B": 200, "C": 200}), (100, {"B": 200, "C": 200}), (200, {})],
)
def test_topics_are_forgotten_when_the_log_has_nothing_left_of_them(
    tmp_path: Path, log_min_offset: int, left: dict[str, int]
) -> None:
    deleted = DeletedTopics(tmp_path)
    for topic, end in (("A", 100), ("B", 200), ("C", 200)):
        deleted.add(topic, end)
    deleted.forget_before(log_min_offset)
    for table in (deleted, DeletedTopics(tmp_path)):
        assert {topic: table.end_of(topic) for topic in "ABC" if table.end_of(topic)} == left


def test_a_deletion_behind_the_end_of_the_log_counts_from_there(tmp_path: Path) -> None:
    deleted = DeletedTopics(tmp_path)
    for topic, end in (("A", 100), ("B", 200), ("C", 300)):
        deleted.add(topic, end)
    deleted.cut(200)
    for table in (deleted, DeletedTopics(tmp_path)):
        assert [table.end_of(topic) for topic in "ABC"] == [100, 200, 200]


def test_a_topic_may_be_deleted_while_another_thread_forgets_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = DeletedTopics(tmp_path)
    deleted.add("A", 100)
    save = ConfigFile.save
    threads: list[threading.Thread] = []

    def delete_meanwhile(file: ConfigFile, document: dict[str, Any]) -> None:
        if not threads:
            threads.append(threading.current_thread())
            threads[0] = run_meanwhile(lambda: deleted.add("B", 200))
        save(file, document)

    monkeypatch.setattr(ConfigFile, "save", delete_meanwhile)
    deleted.forget_before(100)
    threads[0].join(PATIENCE)
    for table in (deleted, DeletedTopics(tmp_path)):
        assert (table.end_of("A"), table.end_of("B")) == (0, 200)


def test_forgetting_nothing_writes_nothing(tmp_path: Path) -> None:
    deleted = DeletedTopics(tmp_path)
    deleted.add("T", 100)
    with watched_syncs() as syncs:
        deleted.forget_before(50)
        deleted.cut(100)
    assert len(syncs) == 0


def test_members_of_the_file_that_are_unknown_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "deletedTopics.json"
    path.write_bytes(b'{"dataVersion":{"counter":3},"deletedTopics":{"T":100}}')
    deleted = DeletedTopics(tmp_path)
    deleted.add("U", 200)
    assert loads(path.read_bytes()) == {"dataVersion": {"counter": 3}, "deletedTopics": {"T": 100, "U": 200}}


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"garbage",
        b"{}",
        b'{"deletedTopics":null}',
        b'{"deletedTopics":[1]}',
        b'{"deletedTopics":{"U":null}}',
        b'{"deletedTopics":{"U":"soon"}}',
        b'{"deletedTopics":{"U":[5]}}',
        b'{"deletedTopics":{"U":{}}}',
    ],
)
def test_what_is_no_table_says_nothing(tmp_path: Path, document: bytes) -> None:
    (tmp_path / "deletedTopics.json").write_bytes(document)
    deleted = DeletedTopics(tmp_path)
    assert deleted.end_of("U") == 0
    deleted.add("T", 100)
    assert DeletedTopics(tmp_path).end_of("T") == 100


def test_a_deletion_that_could_not_be_saved_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = DeletedTopics(tmp_path / "config")
    with full_disk(), pytest.raises(DiskFullError):
        deleted.add("T", 100)
    assert deleted.end_of("T") == 0
    deleted.add("U", 200)
    again = DeletedTopics(tmp_path / "config")
    assert (again.end_of("T"), again.end_of("U")) == (0, 200)


# In a store.


def bodies(store: Store, topic: str = "T") -> list[bytes]:
    return [bytes(record.body) for record in read_all(store, topic)]


def put(store: Store, *messages: bytes, topic: str = "T", **options: Any) -> None:
    for body in messages:
        store.append(message(body, topic, **options))
    flush(store)


@pytest.mark.parametrize("ending", ["close", "abandon", "lose queues"])
def test_a_topic_of_the_same_name_starts_at_0_and_stays_so(tmp_path: Path, ending: str) -> None:
    store = Store(tmp_path, SMALL)
    put(store, b"old 1", b"old 2", keys="k")
    put(store, b"other", topic="U")
    store.delete_topic("T")
    assert (store.max_offset("T", 0), bodies(store, "U")) == (0, [b"other"])
    put(store, b"new", keys="k")
    store.save_progress()
    if ending == "close":
        store.close()
        assert verify(tmp_path, SMALL) == []
    else:
        store.abandon()
    if ending == "lose queues":
        (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
        for folder in ("consumequeue", "index"):
            (tmp_path / folder).rename(tmp_path / f"{folder}-lost")
    with opened(tmp_path) as store:
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 1)
        assert (bodies(store), bodies(store, "U")) == ([b"new"], [b"other"])
        assert [bytes(record.body) for record in store.query("T", "k", 10)] == [b"new"]


def test_what_was_appended_and_not_yet_published_is_deleted_too(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(b"old"))
        store.delete_topic("T")
        put(store, b"new")
        assert bodies(store) == [b"new"]


def test_a_batch_counts_like_its_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append_records(batch([b"old 1", b"old 2"]), ("1.2.3.4", 1), ("1.2.3.4", 2))
        flush(store)
        store.delete_topic("T")
        store.append_records(batch([b"new 1", b"new 2"]), ("1.2.3.4", 1), ("1.2.3.4", 2))
        flush(store)
        assert bodies(store) == [b"new 1", b"new 2"]


def test_deleting_a_topic_that_was_never_there_is_allowed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"a")
        store.delete_topic("U")
        put(store, b"b", topic="U")
        assert (bodies(store), bodies(store, "U")) == ([b"a"], [b"b"])


def test_a_topic_that_was_deleted_and_not_used_again_does_not_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL, now_ms=Clock())
    put(store, b"old")
    store.save_progress()
    store.delete_topic("T")
    store.abandon()
    with opened(tmp_path) as store:
        assert store.max_offset("T", 0) == 0
        assert bodies(store) == []


def test_a_deletion_that_outlives_the_messages_it_was_about_does_not_hide_later_ones(tmp_path: Path) -> None:
    """The deletion is on disk at once; the end of the log may be lost with the power."""
    store = Store(tmp_path, SMALL)
    put(store, b"old", b"lost", topic="U")
    put(store, *[b"lost"] * 20)
    store.delete_topic("T")
    store.abandon()
    segment = tmp_path / "commitlog/00000000000000000000"
    segment.write_bytes(segment.read_bytes()[:400].ljust(16 * 1024, b"\0"))
    store = Store(tmp_path, SMALL)
    put(store, b"new", keys="k")
    assert [bytes(record.body) for record in store.query("T", "k", 10)] == [b"new"]
    store.abandon()
    with opened(tmp_path) as store:
        assert bodies(store) == [b"new"]
        assert [bytes(record.body) for record in store.query("T", "k", 10)] == [b"new"]


# Full disks.


def test_on_a_full_disk_a_topic_is_deleted_or_it_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(b"old"))
        flush(store)
        with full_disk(), pytest.raises(DiskFullError):
            store.delete_topic("T")
        assert [bytes(record.body) for record in read_all(store)] == [b"old"]
        assert store.append(message(b"new")).queue_offset == 1


@pytest.mark.parametrize("broken", ["mkdir", "rename"])
def test_a_topic_whose_files_cannot_be_moved_is_deleted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    store = Store(tmp_path, SMALL)
    for number in range(40):
        store.append(message(b"old %d" % number))
    store.append(message(topic="U"))
    flush(store)
    store.save_progress()
    call = getattr(os, broken)

    def fail(*arguments: object, **more: object) -> object:
        if any("topic-" in str(argument) for argument in arguments):
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        store.delete_topic("T")
    assert store.max_offset("T", 0) == 0
    for number in range(3):
        assert store.append(message(b"new %d" % number)).queue_offset == number
    flush(store)
    store.save_progress()
    store.abandon()
    with opened(tmp_path) as store:
        assert [bytes(record.body) for record in read_all(store)] == [b"new 0", b"new 1", b"new 2"]
