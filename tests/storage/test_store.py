"""The store as a broker sees it: what is taken, when it is seen, what is forgotten, and what a start finds."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from storing import BORN_HOST, SMALL, SMALL_ASYNC, STORE_HOST, Clock, batch, flush, hurried, message, opened, read_all

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.hashes import tags_code
from pocketmq.protocol.message import MAGIC_V1, MAGIC_V2, MessageRecord, encode_record
from pocketmq.storage import disk, indexing
from pocketmq.storage.cleaning import clean
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC
from pocketmq.storage.errors import (
    DiskFullError,
    FlushFailedError,
    IllegalMessageError,
    StoreClosedError,
    StoreLockedError,
)
from pocketmq.storage.layout import QUEUE_ENTRY, segment_name
from pocketmq.storage.lookup import IndexType
from pocketmq.storage.reading import ReadRequest, ReadStatus
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Appended, Arrival, Store
from pocketmq.storage.verify import verify

NOW = 1_700_000_000_000
SEGMENT = SMALL.mapped_file_size_commit_log
IPV6 = ("fd00::7", 4711)


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture(params=[SMALL, SMALL_ASYNC], ids=["sync", "async"])
def settings(request: pytest.FixtureRequest) -> StoreSettings:
    assert isinstance(request.param, StoreSettings)
    return request.param


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [bytes(record.body) for record in read_all(store, topic, queue_id)]


def append_all(store: Store, texts: list[bytes], topic: str = "T", **more: object) -> list[Appended]:
    places = [store.append(message(text, topic, **more)) for text in texts]  # type: ignore[arg-type]
    flush(store)
    return places


def found(store: Store, key: str, topic: str = "T", index_type: IndexType = IndexType.KEY) -> list[bytes]:
    return [bytes(record.body) for record in store.query(topic, key, 64, index_type=index_type)]


# Appending.


def test_messages_get_their_places_in_log_and_queue(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        places = [store.append(message(b"x", queue_id=number % 2)) for number in range(6)]
        assert [place.queue_offset for place in places] == [0, 0, 1, 1, 2, 2]
        assert places[0].physical_offset == 0
        assert [place.physical_offset for place in places[1:]] == [place.end for place in places[:-1]]
        assert store.log.end == places[-1].end


def test_a_stored_record_is_the_message_with_what_the_store_knows(tmp_path: Path) -> None:
    clock = Clock(NOW)
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        for record in message(b"one", tag="A", keys="k"), message(b"", unique=None), message(b"two", queue_id=3):
            place = store.append(record._replace(flag=77, reconsume_times=2, prepared_transaction_offset=99))
            flush(store)
            stored = store.record_at(place.physical_offset)
            assert stored is not None
            expected = record._replace(
                flag=77,
                reconsume_times=2,
                prepared_transaction_offset=99,
                queue_offset=place.queue_offset,
                physical_offset=place.physical_offset,
                store_timestamp=NOW,
            )
            assert stored.to_record() == expected
            start = place.physical_offset
            assert (tmp_path / "commitlog" / segment_name(0)).read_bytes()[start : place.end] == encode_record(expected)
    assert verify(tmp_path, SMALL) == []


def test_the_store_time_is_the_clocks_and_never_goes_back(tmp_path: Path) -> None:
    clock = Clock(NOW)
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        times = []
        for clock.now_ms in NOW, NOW + 5, NOW - 1000, NOW + 4, NOW + 6:
            times.append(store.append(message()).store_timestamp)
        assert times == [NOW, NOW + 5, NOW + 5, NOW + 5, NOW + 6]
    clock.now_ms = 5
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        assert store.append(message()).store_timestamp == NOW + 6
        assert store.append_records(batch([b"x"]), BORN_HOST, STORE_HOST).store_timestamp == NOW + 6
    assert verify(tmp_path, SMALL) == []


def test_a_record_that_does_not_fit_begins_the_next_segment(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        small = store.append(message(b"x" * 1000))
        large = store.append(message(b"y" * (SEGMENT - 1000)))
        assert large.physical_offset == SEGMENT
        flush(store)
        blank = (tmp_path / "commitlog" / segment_name(0)).read_bytes()[small.end : small.end + 8]
        assert blank == (SEGMENT - small.end).to_bytes(4, "big") + bytes.fromhex("cbd43194")
        assert [len(body) for body in bodies(store)] == [1000, SEGMENT - 1000]


def test_a_batch_gets_places_in_a_row(tmp_path: Path) -> None:
    clock = Clock(NOW)
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        store.append(message(b"first"))
        place = store.append_records(batch([b"%d" % number for number in range(5)], tag="B"), BORN_HOST, STORE_HOST)
        store.append(message(b"last"))
        assert (place.queue_offset, place.store_timestamp) == (1, NOW)
        flush(store)
        records = read_all(store)
        assert [bytes(record.body) for record in records] == [b"first", b"0", b"1", b"2", b"3", b"4", b"last"]
        assert [record.queue_offset for record in records] == list(range(7))
        assert place.end == records[6].physical_offset
        batched = records[1:6]
        assert {record.store_timestamp for record in batched} == {NOW}
        assert {(record.born_host, record.store_host) for record in batched} == {(BORN_HOST, STORE_HOST)}
        assert all(record.tags == "B" and record.crc_ok() for record in batched)
        assert all(found(store, record.message_id) == [bytes(record.body)] for record in batched)
        assert len(found(store, "B", index_type=IndexType.TAG)) == 5
    assert verify(tmp_path, SMALL) == []


def test_a_batch_stays_together(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(b"x" * 10_000))
        place = store.append_records(batch([b"y" * 900] * 8), BORN_HOST, STORE_HOST)
        assert place.physical_offset == SEGMENT
        flush(store)
        assert len(bodies(store)) == 9


def test_one_by_one_and_as_a_batch_the_bytes_are_the_same(tmp_path: Path) -> None:
    columns = batch([b"%d" % number * 20 for number in range(50)], tag="标签")
    with Store(tmp_path / "batch", SMALL, now_ms=Clock(NOW)) as store:
        store.append_records(columns, BORN_HOST, STORE_HOST)
        flush(store)
        records = [record.to_record() for record in read_all(store)]
    with Store(tmp_path / "single", SMALL, now_ms=Clock(NOW)) as store:
        for record in records:
            store.append(record)
    for name in "batch", "single":
        assert verify(tmp_path / name, SMALL) == []
    assert contents(tmp_path / "batch") == contents(tmp_path / "single")


def contents(root: Path) -> dict[str, bytes]:
    """The files of log, queues and index."""
    folders = root / "commitlog", root / "consumequeue", root / "index"
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("publish_every", [1, 3, 50, 1000])
def test_it_does_not_matter_how_many_are_published_at_once(tmp_path: Path, publish_every: int) -> None:
    def records() -> Iterator[MessageRecord]:
        for number in range(300):
            tag = ["a", "标签", "🏷", None][number % 4]
            unique = f"unique{number}" if number % 7 else None
            flag = [0, 0, 0, 4, 8, 12][number % 6]
            yield message(b"%d" % number, f"T{number % 3}", tag=tag, keys=f"k{number} k", unique=unique, sys_flag=flag)
            yield message(b"later", SCHEDULE_TOPIC, number % 2, delay=number % 20, unique=unique, tag=tag)

    for name, every in ("one", 1), ("other", publish_every):
        with Store(tmp_path / name, SMALL_ASYNC, now_ms=Clock(NOW)) as store:
            for number, record in enumerate(records()):
                store.append(record)
                if number % every == 0:
                    store.publish()
        assert verify(tmp_path / name, SMALL) == []
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


# Limits.

LIMIT = replace(SMALL, max_message_size=1000)

ILLEGAL: dict[str, MessageRecord] = {
    "a body that is too large": message(b"x" * 1001),
    "properties that are too long": message()._replace(properties_text="a\x01" + "x" * 32766),
    "properties of too many bytes": message()._replace(properties_text="a\x01" + "水" * 10922),
    "a topic that is too long": message(topic="x" * 128),
    "a topic for retries that is too long": message(topic="%RETRY%" + "x" * 249),
    "no topic": message(topic=""),
    "a folder above": message(topic=".."),
    "a folder somewhere": message(topic="../commitlog"),
    "a folder inside": message(topic="T/0"),
    "a path": message(topic="/etc"),
    "a blank": message(topic="a b"),
    "a zero": message(topic="a\0b"),
    "a line": message(topic="T\n"),
    "a letter of another script": message(topic="水"),
    "a negative queue": message(queue_id=-1),
    "a queue without a number": message(queue_id=2**31),
    "a host that is none": message()._replace(born_host=("nowhere", 1)),
    "a port that is none": message()._replace(store_host=("10.0.0.1", 65536)),
    "a number that is too large": message()._replace(flag=2**31),
}


@pytest.mark.parametrize("record", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_an_illegal_message_is_refused_and_leaves_no_trace(tmp_path: Path, record: MessageRecord) -> None:
    with opened(tmp_path, LIMIT) as store:
        append_all(store, [b"before"])
        store.save_progress()
        names = sorted(path for path in tmp_path.rglob("*"))
        end = store.log.end
        with pytest.raises(IllegalMessageError):
            store.append(record)
        assert store.publish() == []
        assert store.log.end == end
        store.save_progress()
        assert sorted(path for path in tmp_path.rglob("*")) == names
        if (record.topic, record.queue_id) != ("T", 0):
            request = ReadRequest(record.topic, record.queue_id, 0)
            assert store.read(request).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE
        assert append_all(store, [b"after"])[0].queue_offset == 1
        assert bodies(store) == [b"before", b"after"]


LEGAL: dict[str, MessageRecord] = {
    "the largest body": message(b"x" * 1000),
    "no body": message(b""),
    "the longest properties": message(b"x")._replace(properties_text="a\x01" + "x" * 32765),
    "no properties": message()._replace(properties_text=""),
    "the longest topic": message(topic="x" * 127),
    "the longest topic for retries": message(topic="%RETRY%" + "x" * 248),
    "the last queue": message(queue_id=2**31 - 1),
}


@pytest.mark.parametrize("record", LEGAL.values(), ids=LEGAL.keys())
def test_what_is_just_legal_is_stored(tmp_path: Path, record: MessageRecord) -> None:
    limit = replace(LIMIT, mapped_file_size_commit_log=64 * 1024)
    with opened(tmp_path, limit) as store:
        store.append(record)
        flush(store)
        [stored] = read_all(store, record.topic, record.queue_id)
        assert (bytes(stored.body), stored.topic) == (record.body, record.topic)
        assert stored.properties_text == record.properties_text
    with opened(tmp_path, limit) as store:
        assert bodies(store, record.topic, record.queue_id) == [record.body]


def test_a_message_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(IllegalMessageError, match="mappedFileSizeCommitLog is too small"):
            store.append(message(b"x" * SEGMENT))
        with pytest.raises(IllegalMessageError, match="mappedFileSizeCommitLog is too small"):
            store.append_records(batch([b"x" * 1000] * 20), BORN_HOST, STORE_HOST)
        assert store.publish() == []
        assert append_all(store, [b"x"])[0] == (0, 0, store.log.last_store_timestamp, store.log.end)


def test_a_batch_with_a_record_that_is_too_large_is_refused(tmp_path: Path) -> None:
    settings = replace(SMALL, max_message_size=1000, mapped_file_size_commit_log=1 << 20)
    with opened(tmp_path, settings) as store:
        with pytest.raises(IllegalMessageError, match="maxMessageSize"):
            store.append_records(batch([b"x", b"x" * 70_000]), BORN_HOST, STORE_HOST)
        assert store.log.end == 0


@pytest.mark.parametrize(("topic", "queue_id"), [("../x", 0), ("a b", 0), ("T", -1)])
def test_a_batch_for_an_illegal_queue_is_refused(tmp_path: Path, topic: str, queue_id: int) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(IllegalMessageError):
            store.append_records(batch([b"x"], topic, queue_id), BORN_HOST, STORE_HOST)
        assert store.log.end == 0


@pytest.mark.parametrize("hosts", [(IPV6, STORE_HOST), (BORN_HOST, IPV6), (("nowhere", 1), STORE_HOST)])
def test_a_batch_has_no_room_for_other_hosts_than_ipv4(
    tmp_path: Path, hosts: tuple[tuple[str, int], tuple[str, int]]
) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(IllegalMessageError):
            store.append_records(batch([b"x"] * 3), *hosts)
        assert store.publish() == []
        assert store.log.end == 0
        append_all(store, [b"after"])
        assert bodies(store) == [b"after"]


# Publishing.


def test_with_async_flush_a_message_is_seen_when_it_is_published(tmp_path: Path) -> None:
    with opened(tmp_path, SMALL_ASYNC) as store:
        place = store.append(message(b"1"))
        assert (store.max_offset("T", 0), bodies(store)) == (0, [])
        assert store.publish() == [Arrival("T", 0, 0, 1)]
        assert bodies(store) == [b"1"]
        assert not store.is_durable(place.end)
        assert store.publish() == []
        assert store.flush() == place.end
        assert store.is_durable(place.end)
        assert store.publish() == []


def test_with_sync_flush_a_message_is_seen_when_it_is_flushed_and_published(tmp_path: Path) -> None:
    with opened(tmp_path, SMALL) as store:
        place = store.append(message(b"1"))
        assert store.publish() == []
        assert store.flush_wanted.is_set()
        assert (store.max_offset("T", 0), bodies(store), store.is_durable(place.end)) == (0, [], False)
        assert store.read(ReadRequest("T", 0, 0)).status is ReadStatus.NO_MESSAGE_IN_QUEUE
        store.flush()
        assert store.is_durable(place.end)
        assert (store.max_offset("T", 0), bodies(store)) == (0, [])
        assert store.publish() == [Arrival("T", 0, 0, 1)]
        assert bodies(store) == [b"1"]


def test_with_sync_flush_only_what_was_there_at_the_flush_is_seen(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            store.append(message(b"%d" % number))
            store.publish()
        store.flush()
        store.append(message(b"3"))
        assert store.publish() == [Arrival("T", 0, 0, 3)]
        assert bodies(store) == [b"0", b"1", b"2"]
        flush(store)
        assert bodies(store) == [b"0", b"1", b"2", b"3"]


def test_a_burst_is_seen_as_a_whole(tmp_path: Path) -> None:
    """A flush in the middle of a burst shows nothing of it."""
    with opened(tmp_path) as store:
        store.append(message(b"0"))
        store.flush()
        store.append(message(b"1"))
        assert store.publish() == []
        store.flush()
        assert store.publish() == [Arrival("T", 0, 0, 2)]


def test_arrivals_tell_each_queue_once(tmp_path: Path, settings: StoreSettings) -> None:
    with opened(tmp_path, settings) as store:
        for number in range(10):
            store.append(message(topic="TU"[number % 2], queue_id=number % 3))
        store.append_records(batch([b"x"] * 5, "V"), BORN_HOST, STORE_HOST)
        store.flush()
        arrivals = store.publish()
        assert len(arrivals) == 7
        assert sum(arrival.end - arrival.start for arrival in arrivals) == 15
        store.append(message())
        store.flush()
        assert store.publish() == [Arrival("T", 0, 2, 3)]


def test_nobody_arrives_for_a_half_message(tmp_path: Path, settings: StoreSettings) -> None:
    with opened(tmp_path, settings) as store:
        store.append(message(sys_flag=int(MessageFlag.TRANSACTION_PREPARED)))
        store.flush()
        assert store.publish() == []


def test_one_waits_for_the_disk_in_another_thread(tmp_path: Path) -> None:
    with opened(tmp_path) as store, ThreadPoolExecutor(3) as pool:
        places = [store.append(message()) for _ in range(3)]
        assert store.wait_durable(places[0].end, timeout=0) is False
        waits = [pool.submit(store.wait_durable, place.end, 30) for place in places]
        store.flush()
        assert all(wait.result(30) for wait in waits)
        assert store.wait_durable(places[-1].end, timeout=0)
        assert store.wait_durable(places[-1].end + 1, timeout=0) is False


# A disk that fails.


def fail(_: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_failed_flush_ends_all_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, SMALL)
    append_all(store, [b"safe"])
    place = store.append(message(b"lost?"))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_fdatasync", fail)
        with pytest.raises(FlushFailedError, match="Input/output error"):
            store.flush()
    for refused in (
        lambda: store.append(message()),
        lambda: store.append_records(batch([b"x"]), BORN_HOST, STORE_HOST),
        store.flush,
        store.save_progress,
        lambda: store.wait_durable(place.end, 30),
    ):
        with pytest.raises(FlushFailedError):
            refused()
    assert not store.is_durable(place.end)
    assert store.publish() == []
    assert bodies(store) == [b"safe"]
    store.close()
    assert (tmp_path / "abort").exists()
    with opened(tmp_path) as store:
        assert not store.report.clean
        assert bodies(store)[:1] == [b"safe"]


@pytest.mark.parametrize("end", [Store.close, Store.abandon])
def test_a_store_whose_disk_failed_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[Store], None]
) -> None:
    store = Store(tmp_path, SMALL)
    store.append(message(b"1"))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_fdatasync", fail)
        with pytest.raises(FlushFailedError):
            store.flush()
        end(store)
    with opened(tmp_path) as store:
        assert not store.report.clean
        assert bodies(store) == [b"1"]


class FullDisk:
    """Lets nothing more be written to files whose path holds a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self._pwrite = os.pwrite

    def pwrite(self, descriptor: int, data: bytes, place: int) -> int:
        if self.word in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._pwrite(descriptor, data, place)


@pytest.mark.parametrize("count", [5, 200])
def test_index_entries_wait_for_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """What was appended can be read; nothing more is appended until the index has all of it."""
    with opened(tmp_path, SMALL_ASYNC) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", FullDisk("/index/").pwrite)
            patch.setattr(indexing, "_ENOUGH", count)
            for number in range(count):
                store.append(message(b"%d" % number, keys="k"))
            assert store.publish() == [Arrival("T", 0, 0, count)]
            for _ in range(2):
                with pytest.raises(DiskFullError, match=r"/index/.*maxIndexNum"):
                    store.append(message())
                assert store.publish() == []
            assert len(bodies(store)) == count
            assert found(store, "k") == []
            store.save_progress()
        assert store.publish() == []
        assert len(found(store, "k")) == min(count, 64)
        store.append(message(b"more", keys="k"))
        store.publish()
        assert found(store, "k")[-1] == b"more"


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_index_entries_that_found_no_room_are_made_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with opened(tmp_path, SMALL_ASYNC) as store:
        append_all(store, [b"first"], keys="k")
    store = Store(tmp_path, SMALL_ASYNC)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", FullDisk("/index/").pwrite)
        for number in range(200):
            store.append(message(b"%d" % number, keys=f"k {number}"))
        store.publish()
        getattr(store, how)()
    with opened(tmp_path, SMALL_ASYNC) as store:
        assert found(store, "17") == [b"17"]
        assert len(found(store, "k")) == 64


def test_a_disk_too_full_for_the_log_takes_no_message_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SMALL_ASYNC, mapped_file_size_commit_log=8 << 20)
    with opened(tmp_path, settings) as store:
        stored = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", FullDisk("/commitlog/").pwrite)
            with suppress(DiskFullError):
                while stored < 100:
                    store.append(message(b"x" * 100_000))
                    stored += 1
            assert stored < 100
            with pytest.raises(DiskFullError, match=r"/commitlog/.*mappedFileSizeCommitLog"):
                store.append(message(b"x" * 100_000))
            with pytest.raises(DiskFullError):
                store.append_records(batch([b"x" * 100_000] * 30), BORN_HOST, STORE_HOST)
            flush(store)
            assert len(bodies(store)) == stored
        assert store.append(message(b"x" * 100_000)).queue_offset == stored


# Transactions.


@pytest.mark.parametrize(
    ("sys_flag", "has_entry", "has_key"),
    [(0x0, True, True), (0x4, False, True), (0x8, True, True), (0xC, False, False)],
    ids=["none", "prepared", "commit", "rollback"],
)
@pytest.mark.parametrize("how", ["close", "abandon"])
def test_only_some_kinds_of_a_transaction_have_a_place_in_the_queue(
    tmp_path: Path, settings: StoreSettings, sys_flag: int, has_entry: bool, has_key: bool, how: str
) -> None:
    store = Store(tmp_path, settings)
    append_all(store, [b"before"])
    place = store.append(message(b"it", keys="k", sys_flag=sys_flag))
    assert place.queue_offset == (1 if has_entry else 0)
    assert append_all(store, [b"after"])[0].queue_offset == (2 if has_entry else 1)
    getattr(store, how)()
    with opened(tmp_path, settings) as store:
        assert bodies(store) == ([b"before", b"it", b"after"] if has_entry else [b"before", b"after"])
        assert found(store, "k") == ([b"it"] if has_key else [])
        record = store.record_at(place.physical_offset)
        assert record is not None
        assert bytes(record.body) == b"it"
        assert append_all(store, [b"more"])[0].queue_offset == (3 if has_entry else 2)


def test_a_committed_message_remembers_its_half(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        half = store.append(message(b"half", "RMQ_SYS_TRANS_HALF_TOPIC"))
        record = message(b"it", sys_flag=0x8)._replace(prepared_transaction_offset=half.physical_offset + 9)
        store.append(record)
        flush(store)
        assert read_all(store)[0].prepared_transaction_offset == half.physical_offset + 9


# Delayed messages.


@pytest.mark.parametrize(
    ("topic", "delay", "code"),
    [
        (SCHEDULE_TOPIC, "1", NOW + 1_000),
        (SCHEDULE_TOPIC, "18", NOW + 7_200_000),
        (SCHEDULE_TOPIC, "99", NOW + 7_200_000),
        (SCHEDULE_TOPIC, "0", tags_code("A")),
        (SCHEDULE_TOPIC, "-1", tags_code("A")),
        (SCHEDULE_TOPIC, "x", tags_code("A")),
        (SCHEDULE_TOPIC, None, tags_code("A")),
        ("T", "3", tags_code("A")),
    ],
)
@pytest.mark.parametrize("rebuild", [False, True])
def test_in_the_schedule_topic_an_entry_tells_when_its_message_is_due(
    tmp_path: Path, topic: str, delay: str | None, code: int, rebuild: bool
) -> None:
    with Store(tmp_path, SMALL, now_ms=Clock(NOW)) as store:
        text = "TAGS\x01A\x02" + (f"DELAY\x01{delay}\x02" if delay else "")
        store.append(message(topic=topic)._replace(properties_text=text))
    if rebuild:
        shutil.rmtree(tmp_path / "consumequeue")
    with opened(tmp_path) as store:
        queue = store.queues.get(topic, 0)
        assert queue is not None
        assert queue.entries(0, 1)["tags_code"].tolist() == [code]
    raw = (tmp_path / "consumequeue" / topic / "0" / segment_name(0)).read_bytes()[: QUEUE_ENTRY.itemsize]
    assert raw[12:] == code.to_bytes(8, "big", signed=True)


# Texts and hosts of all kinds.

TEXTS = ["标签", "тег", "🏷️", "é", "a b", "\u2028", "x" * 500, "-", "ajvakuzm"]


def ways_to_start_again() -> dict[str, Callable[[Store], None]]:
    def lose(*names: str) -> Callable[[Store], None]:
        def end(store: Store) -> None:
            store.close()
            for name in names:
                shutil.rmtree(store.paths.root / name, ignore_errors=True)

        return end

    def crash(*names: str) -> Callable[[Store], None]:
        def end(store: Store) -> None:
            flush(store)
            store.abandon()
            for name in names:
                shutil.rmtree(store.paths.root / name, ignore_errors=True)

        return end

    def crash_saved(store: Store) -> None:
        flush(store)
        store.save_progress()
        store.abandon()

    return {
        "stop": lose(),
        "crash": crash(),
        "crash after saving": crash_saved,
        "stop, no queues": lose("consumequeue"),
        "stop, no index": lose("index"),
        "stop, no queues and no index": lose("consumequeue", "index"),
        "crash, no queues": crash("consumequeue"),
        "crash, no index": crash("index"),
        "crash, no queues and no index": crash("consumequeue", "index"),
    }


WAYS = ways_to_start_again()
ways = pytest.mark.parametrize("end", WAYS.values(), ids=WAYS.keys())


@ways
def test_tags_and_keys_of_any_script_are_found_after_any_start(tmp_path: Path, end: Callable[[Store], None]) -> None:
    store = Store(tmp_path, SMALL)
    for text in TEXTS:
        key = text.replace(" ", "_")
        store.append(message(text.encode(), tag=text, keys=f"{key} other", unique=f"unique {text}"))
    end(store)
    with opened(tmp_path) as store:
        assert bodies(store) == [text.encode() for text in TEXTS]
        for text in TEXTS:
            assert found(store, text.replace(" ", "_")) == [text.encode()]
            assert found(store, f"unique {text}", index_type=IndexType.UNIQUE_KEY) == [text.encode()]
            assert found(store, text, index_type=IndexType.TAG) == [text.encode()]
            result = store.read(ReadRequest("T", 0, 0, tags=[tags_code(text)]))
            assert (result.messages, result.status) == (1, ReadStatus.FOUND)
        assert len(found(store, "other")) == len(TEXTS)


@pytest.mark.parametrize("count", [1, 100])
def test_half_a_character_is_stored_as_a_question_mark(tmp_path: Path, count: int) -> None:
    with opened(tmp_path) as store:
        for _ in range(count):
            store.append(message(tag="\ud83c", keys="\ud83c", unique="\ud83c"))
        flush(store)
        assert store.read(ReadRequest("T", 0, 0, tags=[tags_code("?")])).status is ReadStatus.FOUND
        assert len(found(store, "?")) == min(count, 64)


@ways
def test_ipv6_hosts_are_kept(tmp_path: Path, end: Callable[[Store], None]) -> None:
    hosts = [(BORN_HOST, STORE_HOST), (IPV6, STORE_HOST), (BORN_HOST, IPV6), (IPV6, IPV6)]
    store = Store(tmp_path, SMALL)
    places = [
        store.append(message(keys="k", tag="t")._replace(born_host=born, store_host=stored)) for born, stored in hosts
    ]
    end(store)
    with opened(tmp_path) as store:
        records = read_all(store)
        assert [(record.born_host, record.store_host) for record in records] == hosts
        assert [record.sys_flag for record in records] == [0x00, 0x10, 0x20, 0x30]
        assert [record.size for record in records] == [places[0].end + extra for extra in (0, 12, 12, 24)]
        assert [record.offset_id for record in records][3].startswith("FD000000000000000000000000000007")
        assert len(found(store, "k")) == 4
        assert store.offset_by_time("T", 0, records[3].store_timestamp) <= 3


@ways
def test_only_topics_that_need_it_have_records_of_version_2(tmp_path: Path, end: Callable[[Store], None]) -> None:
    topics = ["T", "x" * 127, "%RETRY%" + "x" * 120, "%RETRY%" + "x" * 121, "%RETRY%" + "x" * 248]
    store = Store(tmp_path, SMALL)
    for topic in topics:
        append_all(store, [b"1", b"2"], topic, keys="k", tag="t")
    end(store)
    with opened(tmp_path) as store:
        magics = [record.magic for topic in topics for record in read_all(store, topic)]
        assert magics == [MAGIC_V1] * 6 + [MAGIC_V2] * 4
        assert all(found(store, "k", topic) == [b"1", b"2"] for topic in topics)


# Deleting topics.


@ways
@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_topic_that_was_deleted_starts_at_0_and_stays_so(
    tmp_path: Path, settings: StoreSettings, end: Callable[[Store], None], is_made_again: bool
) -> None:
    store = Store(tmp_path, settings)
    for number in range(40):
        store.append(message(b"old %d" % number, queue_id=number % 2, keys="old k", tag="tag"))
        store.append(message(b"%d" % number, "Other", keys="k"))
    flush(store)
    store.delete_topic("T")
    assert store.read(ReadRequest("T", 0, 0)).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE
    assert found(store, "old") == []
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 0)
    new = [b"new 0", b"new 1"] if is_made_again else []
    for number, text in enumerate(new):
        assert store.append(message(text, keys="k", tag="tag")).queue_offset == number
    end(store)
    for _ in range(2):
        with opened(tmp_path, settings) as store:
            assert bodies(store) == new
            assert bodies(store, queue_id=1) == []
            assert found(store, "old") == []
            assert found(store, "k") == new
            assert found(store, "tag", index_type=IndexType.TAG) == new
            assert bodies(store, "Other") == [b"%d" % number for number in range(40)]
            assert len(found(store, "k", "Other")) == 40
            new.append(b"new %d" % len(new))
            assert append_all(store, new[-1:], keys="k", tag="tag")[0].queue_offset == len(new) - 1


@ways
def test_a_topic_may_be_deleted_again_and_again(tmp_path: Path, end: Callable[[Store], None]) -> None:
    for number in range(4):
        store = Store(tmp_path, SMALL)
        append_all(store, [b"%d" % number] * 3)
        store.delete_topic("T")
        append_all(store, [b"%d!" % number] * 2)
        assert bodies(store) == [b"%d!" % number] * 2
        end(store)
        with opened(tmp_path) as store:
            assert bodies(store) == [b"%d!" % number] * 2
            store.delete_topic("T")


def test_messages_that_wait_for_a_flush_go_with_their_topic(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(b"old", keys="k"))
        store.publish()
        store.append(message(b"old too", keys="k"))
        store.append(message(b"other", "U", keys="k"))
        store.delete_topic("T")
        store.append(message(b"new", keys="k"))
        store.flush()
        assert sorted(store.publish()) == [Arrival("T", 0, 0, 1), Arrival("U", 0, 0, 1)]
        assert bodies(store) == found(store, "k") == [b"new"]
    with opened(tmp_path) as store:
        assert bodies(store) == [b"new"]


def test_the_files_of_a_deleted_topic_go_to_the_trash_and_from_there(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    append_all(store, [b"x"] * 40)
    store.save_progress()
    store.delete_topic("T")
    assert not (tmp_path / "consumequeue/T").exists()
    assert len(list((tmp_path / "trash").iterdir())) == 1
    store.empty_trash()
    assert list((tmp_path / "trash").iterdir()) == []
    append_all(store, [b"x"])
    store.save_progress()
    store.delete_topic("T")
    store.abandon()
    with opened(tmp_path) as store:
        assert len(list((tmp_path / "trash").iterdir())) == 1
    assert list((tmp_path / "trash").iterdir()) == []


@pytest.mark.parametrize("topic", ["Unknown", "", ".", "..", "../commitlog", "T/0", "/", "../config"])
def test_deleting_what_is_no_topic_deletes_nothing(tmp_path: Path, topic: str) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"1", b"2"])
        store.save_progress()
        before = contents(tmp_path)
        store.delete_topic(topic)
        store.empty_trash()
        assert contents(tmp_path) == before
        assert bodies(store) == [b"1", b"2"]
    with opened(tmp_path) as store:
        assert bodies(store) == [b"1", b"2"]


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_crash_before_the_files_of_a_deleted_topic_are_moved_does_not_bring_it_back(
    tmp_path: Path, is_cleaned: bool
) -> None:
    """Also if its queue does not begin at 0 any more."""
    root = tmp_path / "store"
    store = Store(root, SMALL)
    append_all(store, [b"x" * 300] * 120)
    store.save_progress()
    if is_cleaned:
        for path in sorted((root / "commitlog").iterdir())[:2]:
            os.utime(path, (0, 0))
        assert clean(store, manual=True) == 2
        assert store.min_offset("T", 0) > 0
    shutil.copytree(root / "consumequeue", tmp_path / "copy")
    store.delete_topic("T")
    store.abandon()
    shutil.rmtree(root / "consumequeue")
    shutil.copytree(tmp_path / "copy", root / "consumequeue")
    with opened(root) as store:
        assert bodies(store) == []
        assert append_all(store, [b"new"])[0].queue_offset == 0
        assert bodies(store) == [b"new"]
    with opened(root) as store:
        assert bodies(store) == [b"new"]


def test_a_log_that_lost_its_end_keeps_what_a_new_topic_gets_there(tmp_path: Path) -> None:
    """The deletion was on disk, the last records of the topic were not when the power went."""
    store = Store(tmp_path, SMALL_ASYNC)
    first = append_all(store, [b"old"])[0]
    append_all(store, [b"old and lost"] * 20)
    store.delete_topic("T")
    store.abandon()
    with (tmp_path / "commitlog" / segment_name(0)).open("r+b") as file:
        file.seek(first.end)
        file.write(bytes(SEGMENT - first.end))
    store = Store(tmp_path, SMALL_ASYNC)
    assert append_all(store, [b"new"], keys="k")[0][:2] == (first.end, 0)
    store.abandon()
    with opened(tmp_path, SMALL_ASYNC) as store:
        assert bodies(store) == found(store, "k") == [b"new"]


def test_a_deleted_topic_is_forgotten_when_the_log_has_nothing_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"x"] * 3)
        store.delete_topic("T")
        append_all(store, [b"x" * 300] * 120, "U")
        store.forget_deleted_topics()
        assert "T" in deleted_topics(tmp_path)
        os.utime(tmp_path / "commitlog" / segment_name(0), (0, 0))
        assert clean(store, manual=True) == 1
        assert deleted_topics(tmp_path) == {}


def deleted_topics(root: Path) -> dict[str, int]:
    table = json.loads((root / "config/deletedTopics.json").read_text())["deletedTopics"]
    assert isinstance(table, dict)
    return table


# Locks.


def test_a_store_is_open_once_in_a_process(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"1"])
        with pytest.raises(StoreLockedError, match="this process"):
            Store(tmp_path, SMALL)
        append_all(store, [b"2"])
        assert bodies(store) == [b"1", b"2"]


OTHER = """
import sys
from pathlib import Path
from pocketmq.storage.errors import StoreLockedError
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
try:
    store = Store(Path(sys.argv[1]), eval(sys.argv[2]))
except StoreLockedError as error:
    print("refused:", error, flush=True)
else:
    print("opened", flush=True)
    sys.stdin.read()
"""


def test_a_store_is_open_in_one_process(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sizes = f"StoreSettings(mapped_file_size_commit_log={SEGMENT}, max_hash_slot_num=16, max_index_num=64)"
    command = [sys.executable, "-c", OTHER, str(root), sizes]
    with Store(root, SMALL) as store:
        append_all(store, [b"1"])
        before = contents(root)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"refused: {root}/lock: another process has the store open; stop that broker")
        assert contents(root) == before
    shutil.rmtree(root)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opened\n"
        with pytest.raises(StoreLockedError, match="another process"):
            Store(root, SMALL)
        process.kill()
    shutil.rmtree(root / "consumequeue", ignore_errors=True)
    with opened(root) as store:
        assert not store.report.clean


def test_a_store_that_cannot_be_opened_is_not_locked(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"1"])
    for _ in range(2):
        with pytest.raises(Exception, match="mappedFileSizeCommitLog"):
            Store(tmp_path, replace(SMALL, mapped_file_size_commit_log=2 * SEGMENT))
    with opened(tmp_path) as store:
        assert bodies(store) == [b"1"]


# The end and the next beginning.


def test_a_closed_store_takes_nothing_and_may_be_closed_again(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    append_all(store, [b"1"])
    store.close()
    before = contents(tmp_path)
    with pytest.raises(StoreClosedError, match="was closed; open it again"):
        store.append(message())
    with pytest.raises(StoreClosedError):
        store.append_records(batch([b"x"]), BORN_HOST, STORE_HOST)
    store.close()
    store.abandon()
    assert contents(tmp_path) == before
    with opened(tmp_path) as other:
        store.close()
        store.abandon()
        assert append_all(other, [b"2"])[0].queue_offset == 1


def test_an_abandoned_store_takes_nothing_and_leaves_all_as_after_a_crash(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    append_all(store, [b"1"])
    store.append(message(b"2"))
    store.abandon()
    store.abandon()
    store.close()
    with pytest.raises(StoreClosedError, match="given up"):
        store.append(message())
    assert (tmp_path / "abort").exists()
    with opened(tmp_path) as store:
        assert not store.report.clean
        assert store.report.records == 2
        assert bodies(store) == [b"1", b"2"]
    assert not (tmp_path / "abort").exists()


def test_what_was_not_published_is_there_after_a_clean_stop(tmp_path: Path, settings: StoreSettings) -> None:
    with opened(tmp_path, settings) as store:
        store.append(message(b"1", keys="k"))
        store.publish()
        store.append(message(b"2", keys="k"))
    with opened(tmp_path, settings) as store:
        assert bodies(store) == found(store, "k") == [b"1", b"2"]


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_start_after_a_clean_stop_reads_nothing_of_the_log(tmp_path: Path, count: int) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"x" * 100] * count)
        end = store.log.end
    for path in (tmp_path / "commitlog").iterdir():
        data = path.read_bytes()
        used = data.rstrip(b"\0")
        path.write_bytes((b"?" * len(used)).ljust(len(data), b"\0"))
    with Store(tmp_path, SMALL) as store:
        assert (store.report.clean, store.report.records) == (True, 0)
        assert (store.report.start, store.report.end) == (end, end)
        assert store.max_offset("T", 0) == count
        store.abandon()


def test_a_clean_stop_leaves_no_spare_segment(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append_all(store, [b"x"])
        store.log.prepare_ahead()
        assert len(list((tmp_path / "commitlog").iterdir())) == 2
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [segment_name(0)]


def test_it_goes_on_where_it_stopped(tmp_path: Path, settings: StoreSettings) -> None:
    end = 0
    for number in range(6):
        with opened(tmp_path, settings) as store:
            assert store.report.clean
            assert store.log.end == end
            for queue_id in range(3):
                for _ in range(25):
                    store.append(message(b"%d" % number, queue_id=queue_id, keys="k"))
            store.flush()
            store.publish()
            end = store.log.end
            expected = [b"%d" % old for old in range(number + 1) for _ in range(25)]
            assert bodies(store, queue_id=2) == expected


def test_numbers_that_were_taken_stay_so_if_all_messages_of_a_queue_are_lost(tmp_path: Path) -> None:
    """A consumer may have got as far as there; a message with an old number would be none to it."""
    store = Store(tmp_path, SMALL)
    append_all(store, [b"t"])
    lost = append_all(store, [b"u"] * 3, "U")
    append_all(store, [b"t"])
    store.queues.write_out()
    store.abandon()
    with (tmp_path / "commitlog" / segment_name(0)).open("r+b") as file:
        file.seek(lost[0].physical_offset)
        file.write(bytes(lost[-1].end - lost[0].physical_offset))
    for _ in range(2):
        store = Store(tmp_path, SMALL)
        assert (store.min_offset("U", 0), store.max_offset("U", 0)) == (3, 3)
        assert (bodies(store), bodies(store, "U")) == ([b"t"] * 2, [])
        store.abandon()
    store = Store(tmp_path, SMALL)
    assert append_all(store, [b"new"], "U")[0].queue_offset == 3
    store.abandon()
    with Store(tmp_path, SMALL) as store:
        assert bodies(store, "U") == [b"new"]
    [problem] = verify(tmp_path, SMALL)
    assert problem.what.startswith("no record can be read from")


def test_progress_can_be_saved_at_any_time(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    store.save_progress()
    for number in range(100):
        store.append(message(b"%d" % number))
        if number % 3 == 0:
            store.publish()
        if number % 10 == 0:
            store.save_progress()
        if number % 50 == 0:
            store.flush()
    store.abandon()
    with opened(tmp_path) as store:
        assert bodies(store) == [b"%d" % number for number in range(100)]
        assert store.report.records < 60


def test_a_new_folder_becomes_a_store(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    with opened(root) as store:
        assert store.report.clean
        assert repr(store) == f"<Store {root}: 0 to 0, flushed to 0>"
        assert (root / "abort").read_text() == str(os.getpid())
        assert (root / "lock").read_text() == "lock"
    assert not (root / "abort").exists()
    assert (root / "checkpoint").stat().st_size == 4096


def test_default_sizes_take_little_room(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        append_all(store, [b"x"], keys="k")
        store.save_progress()
        sizes = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(status.st_blocks for status in sizes) * 512 < 100_000_000
        assert {status.st_size for status in sizes} >= {1 << 30, 420_000_040}
    assert (tmp_path / "consumequeue/T/0" / segment_name(0)).stat().st_size == 6_000_000
    assert verify(tmp_path, StoreSettings()) == []


# What is not ours.


def test_unknown_files_and_folders_are_kept(tmp_path: Path) -> None:
    names = [
        "abort.bak",
        "timerwheel",
        "timerlog/00000000000000000000",
        "rocksdbstore/CURRENT",
        "compaction/position-checkpoint",
        "config/consumerOrderInfo.json",
        "config/topics.json",
        "config/topics.json.bak",
        "config/broker.properties",
        "commitlog/notes",
        "commitlog/sub/00000000000000000000",
        "consumequeue/notes",
        "consumequeue/T/notes",
        "consumequeue/T/0/notes",
        "consumequeue/a b/0/00000000000000000000",
        "consumequeue/T/x/00000000000000000000",
        "consumequeue_ext/T/0/00000000000000000000",
        "batchconsumequeue/T/0/00000000000000000000",
        "index/notes",
        "epochFileCheckpoint",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    store = Store(tmp_path, SMALL)
    append_all(store, [b"x" * 300] * 60)
    store.abandon()
    with opened(tmp_path) as store:
        append_all(store, [b"x" * 300] * 60)
        store.save_progress()
        os.utime(tmp_path / "commitlog" / segment_name(0), (0, 0))
        assert clean(store, manual=True) == 1
    for name in names:
        # The mark of the crash is told in abort.bak, as RocketMQ does it.
        if name != "abort.bak":
            assert (tmp_path / name).read_bytes() == name.encode()


def test_unknown_members_of_our_own_documents_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "config/deletedTopics.json"
    path.parent.mkdir()
    path.write_text('{"deletedTopics":{},"fromTheFuture":{1:2}}')
    with opened(tmp_path) as store:
        append_all(store, [b"x"])
        store.delete_topic("T")
    assert '"fromTheFuture"' in path.read_text()


def test_settings_that_make_no_sense_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    for wrong in replace(SMALL, delete_when="25"), replace(SMALL, message_delay_level="1x"):
        with pytest.raises(ValueError, match=r"25|1x"):
            Store(tmp_path / "store", wrong)
    assert not (tmp_path / "store").exists()
