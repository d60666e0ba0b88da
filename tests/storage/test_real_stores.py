"""Directories that real brokers left behind: all is found that is in them, and we write the same to the byte."""

from __future__ import annotations

import hashlib
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fixtures import FIXTURE_SETTINGS, STORES, expand_store, expected_store
from storing import Clock, flush, hurried, message, read_all

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hashes import index_key_hash, java_hash, tags_code
from pocketmq.protocol.message import MessageRecord, RecordView, decode_record, iter_records
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans
from pocketmq.storage.checkpoint import read_checkpoint
from pocketmq.storage.config_files import ConfigFile
from pocketmq.storage.index_file import IndexHeader
from pocketmq.storage.layout import segment_name
from pocketmq.storage.lookup import Boundary, IndexType
from pocketmq.storage.reading import ReadRequest
from pocketmq.storage.settings import FlushDiskType
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

SETTINGS = replace(FIXTURE_SETTINGS, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
SEGMENT = SETTINGS.mapped_file_size_commit_log

Message = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


class Real(NamedTuple):
    """A real store that we have opened, and what another reader found in it."""

    name: str
    root: Path
    store: Store
    expected: dict[str, Any]
    before: dict[str, tuple[int, int]]  # length and time of change of every file, before we opened it

    @property
    def messages(self) -> list[Message]:
        messages = self.expected["messages"]
        assert isinstance(messages, list)
        return messages


def states(root: Path) -> dict[str, tuple[int, int]]:
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(scope="module", params=STORES)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    name = str(request.param)
    root, expected = expand_store(name, tmp_path_factory.mktemp("real"))
    before = states(root)
    with Store(root, SETTINGS) as store:
        yield Real(name, root, store, expected, before)
    assert verify(root, SETTINGS) == []


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A real store that nobody has touched yet."""
    return expand_store(str(request.param), tmp_path)


def keys_of(message: Message) -> list[str]:
    properties = message["properties"]
    keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
    return [key for key in keys if key]


def queue_names(expected: dict[str, Any]) -> list[tuple[str, int]]:
    return [(name.rsplit("/", 1)[0], int(name.rsplit("/", 1)[1])) for name in expected["consumeQueue"]]


def by_queue(messages: list[Message]) -> dict[tuple[str, int], list[Message]]:
    found: dict[tuple[str, int], list[Message]] = {}
    for each in messages:
        found.setdefault((each["topic"], each["queueId"]), []).append(each)
    return found


# What is found.


def test_all_of_the_log_is_there(real: Real) -> None:
    report = real.store.report
    assert report.clean == (real.expected["stop"] == "normal")
    assert (report.end, report.gaps, report.rejected) == (real.expected["maxPhysicalOffset"], [], [])
    assert real.store.log.last_store_timestamp == real.messages[-1]["storeTimestamp"]
    assert real.store.earliest_store_time() == real.messages[0]["storeTimestamp"]


def check(record: RecordView, expected: Message) -> None:
    """Compare a record field by field with what another reader made of it."""
    assert (record.size, record.magic & 0xFFFFFFFF, record.crc) == (
        expected["totalSize"],
        int(expected["magic"], 16),
        expected["bodyCRC"],
    )
    assert record.crc_ok()
    assert (record.topic, record.queue_id, record.flag) == (expected["topic"], expected["queueId"], expected["flag"])
    assert (record.queue_offset, record.physical_offset) == (expected["queueOffset"], expected["physicalOffset"])
    assert (record.sys_flag, record.reconsume_times) == (expected["sysFlag"], expected["reconsumeTimes"])
    assert record.prepared_transaction_offset == expected["preparedTransactionOffset"]
    assert (record.born_timestamp, record.store_timestamp) == (expected["bornTimestamp"], expected["storeTimestamp"])
    hosts = ["|".join(map(str, host)) for host in (record.born_host, record.store_host)]
    assert hosts == [expected["bornHost"], expected["storeHost"]]
    assert record.offset_id == expected["offsetMsgId"]
    assert len(record.body) == expected["bodyLength"]
    assert hashlib.sha256(record.body).hexdigest() == expected["bodySha256"]
    assert record.properties_text.encode().hex() == expected["propertiesHex"]
    assert dict(record.properties) == expected["properties"]


def test_every_message_is_at_its_place(real: Real) -> None:
    for expected in real.messages:
        record = real.store.record_at(expected["physicalOffset"])
        assert record is not None
        check(record, expected)


def test_every_queue_gives_its_messages(real: Real) -> None:
    assert {(queue.topic, queue.queue_id) for queue in real.store.queues} == set(queue_names(real.expected))
    for (topic, queue_id), messages in by_queue(real.messages).items():
        assert real.store.min_offset(topic, queue_id) == 0
        assert real.store.max_offset(topic, queue_id) == len(messages)
        records = read_all(real.store, topic, queue_id)
        assert len(records) == len(messages)
        for record, expected in zip(records, messages, strict=True):
            check(record, expected)


def test_every_queue_has_the_entries_of_its_broker(real: Real) -> None:
    for name, entries in real.expected["consumeQueue"].items():
        topic, queue_id = name.rsplit("/", 1)
        queue = real.store.queues.get(topic, int(queue_id))
        assert queue is not None
        found = queue.entries(0, queue.end).tolist()
        assert [[number, *entry] for number, entry in enumerate(found)] == entries


def test_every_tag_selects_its_messages(real: Real) -> None:
    for (topic, queue_id), messages in by_queue(real.messages).items():
        if topic == "SCHEDULE_TOPIC_XXXX":
            continue  # there the time of delivery stands in its place
        for tag in {each["properties"].get("TAGS") for each in messages}:
            request = ReadRequest(topic, queue_id, 0, 1000, [tags_code(tag)], max_bytes=1 << 24)
            records = iter_records(real.store.read(request).to_bytes())
            wanted = [each["queueOffset"] for each in messages if each["properties"].get("TAGS") == tag]
            assert [record.queue_offset for record in records] == wanted


def test_every_key_finds_its_messages(real: Real) -> None:
    for each in real.messages:
        for key in keys_of(each):
            wanted = [
                other["physicalOffset"]
                for other in real.messages
                if other["topic"] == each["topic"] and key in keys_of(other)
            ]
            found = real.store.query(each["topic"], key, 64)
            assert [record.physical_offset for record in found] == wanted[-64:]
            moment = each["storeTimestamp"]
            at_once = real.store.query(each["topic"], key, 64, moment, moment)
            assert each["physicalOffset"] in [record.physical_offset for record in at_once]


def test_a_key_without_an_opposite_hash_is_among_them(real: Real) -> None:
    texts = [f"{each['topic']}#{key}" for each in real.messages for key in keys_of(each)]
    assert -(2**31) in map(java_hash, texts)


def test_every_tag_finds_its_messages_where_the_broker_had_filed_it(real: Real) -> None:
    """RocketMQ 4 does not file tags; what we dispatch anew we do file."""
    for each in real.messages:
        tag = each["properties"].get("TAGS")
        if tag and (real.name.startswith("rmq-5") or each["physicalOffset"] >= real.store.report.start > 0):
            moment = each["storeTimestamp"]
            found = real.store.query(each["topic"], tag, 64, moment, moment, IndexType.TAG)
            assert each["physicalOffset"] in [record.physical_offset for record in found]


def test_the_index_holds_what_its_broker_had_filed_and_at_most_tags_more(real: Real) -> None:
    filed = {
        (key_hash, offset)
        for file in real.expected["index"]
        for key_hash, offset, _, _ in file["entries"][1 : file["indexCount"]]
    }
    found = set()
    for file in real.store.index.files:
        hashes, offsets, wrong = file.check()
        assert wrong is None
        found |= set(zip(hashes.tolist(), offsets.tolist(), strict=True))
    assert filed <= found
    assert found - filed <= tag_entries(real.messages)


def tag_entries(messages: list[Message]) -> set[tuple[int, int]]:
    """Hash and place of the index entries of tags."""
    return {
        (index_key_hash(f"{each['topic']}#T#{each['properties']['TAGS']}"), each["physicalOffset"])
        for each in messages
        if "TAGS" in each["properties"]
    }


def test_files_of_the_index_that_need_no_change_have_none(real: Real) -> None:
    """The records from a certain place on are filed anew."""
    kept = [file for file in real.expected["index"] if file["endPhy"] < real.store.report.start]
    files = real.store.index.files[: len(kept)]
    assert [file.name for file in files] == [file["name"] for file in kept]
    for file, expected in zip(files, kept, strict=True):
        assert file.header == IndexHeader(
            expected["begin"],
            expected["end"],
            expected["beginPhy"],
            expected["endPhy"],
            expected["hashSlotCount"],
            expected["indexCount"],
        )


def test_a_moment_gives_the_message_of_that_time(real: Real) -> None:
    for (topic, queue_id), messages in by_queue(real.messages).items():
        times = [each["storeTimestamp"] for each in messages]
        for moment in {time + more for time in times for more in (-1, 0, 1)}:
            find = real.store.offset_by_time
            assert find(topic, queue_id, moment) == bisect_left(times, moment)
            assert find(topic, queue_id, moment, Boundary.UPPER) == max(bisect_right(times, moment) - 1, 0)


def test_delayed_messages_are_due_when_their_broker_said(real: Real) -> None:
    levels = {"1": 1_000, "2": 5_000, "3": 10_000, "18": 7_200_000, "99": 7_200_000}
    scheduled = [each for each in real.messages if each["topic"] == "SCHEDULE_TOPIC_XXXX"]
    assert len(scheduled) >= 5
    for each in scheduled:
        entry = real.expected["consumeQueue"][f"SCHEDULE_TOPIC_XXXX/{each['queueId']}"][each["queueOffset"]]
        assert entry[3] == each["storeTimestamp"] + levels[each["properties"]["DELAY"]]


# What else is in the directory.


def test_the_small_files_say_what_they_should(folder: tuple[Path, dict[str, Any]]) -> None:
    root, expected = folder
    checkpoint, numbers = read_checkpoint(root / "checkpoint"), expected["checkpoint"]
    assert checkpoint.physic_msg_timestamp == numbers["physicMsgTimestamp"]
    assert checkpoint.logics_msg_timestamp == numbers["logicsMsgTimestamp"]
    assert checkpoint.index_msg_timestamp == numbers["indexMsgTimestamp"]
    assert checkpoint.logics_physical_offset == numbers["logicsPhysicalOffset"]
    assert (root / "abort").exists() is (expected["abort"] is not None)
    assert (root / "lock").read_text() == expected["lock"]
    old = expected["abort"]
    Store(root, SETTINGS).close()
    assert not (root / "abort").exists()
    assert (root / "lock").read_text() == "lock"
    if old:
        assert (root / "abort.bak").read_text() == old


def test_the_configuration_is_read_and_left_as_it_is(real: Real) -> None:
    for name, expected in real.expected["config"].items():
        if name.endswith(".json"):
            assert as_text(ConfigFile(real.root / "config" / name).load()) == expected


def as_text(document: Any) -> Any:
    """A document with integer keys as text, as the description has them."""
    if isinstance(document, dict):
        return {str(key): as_text(value) for key, value in document.items()}
    return [as_text(value) for value in document] if isinstance(document, list) else document


def test_what_is_not_ours_is_left_as_it_is(folder: tuple[Path, dict[str, Any]]) -> None:
    root, _ = folder
    before = states(root)
    with Store(root, SETTINGS) as store:
        store.append(message())
    after = states(root)
    ours = ("commitlog/", "consumequeue/", "index/", "checkpoint", "abort", "lock", "config/cleanStop")
    foreign = {name: state for name, state in before.items() if not name.startswith(ours)}
    assert len(foreign) >= 8
    assert {name: after.get(name) for name in foreign} == foreign


# Going on.


def test_it_goes_on_where_the_broker_stopped(folder: tuple[Path, dict[str, Any]]) -> None:
    root, expected = folder
    ends = {name: len(entries) for name, entries in expected["consumeQueue"].items()}
    with Store(root, SETTINGS) as store:
        assert store.log.end == expected["maxPhysicalOffset"]
        for topic, queue_id in queue_names(expected):
            place = store.append(message(b"more", topic, queue_id, keys="more"))
            assert place.queue_offset == ends[f"{topic}/{queue_id}"]
            assert place.store_timestamp >= expected["messages"][-1]["storeTimestamp"]
        assert store.append(message(b"more", "NewTopic")).queue_offset == 0
        flush(store)
        for topic, queue_id in queue_names(expected):
            assert bytes(read_all(store, topic, queue_id)[-1].body) == b"more"
    assert verify(root, SETTINGS) == []
    with Store(root, SETTINGS) as store:
        assert (store.report.clean, store.report.records) == (True, 0)
        for topic, queue_id in queue_names(expected):
            assert store.max_offset(topic, queue_id) == ends[f"{topic}/{queue_id}"] + 1
            assert len(store.query(topic, "more", 64)) == sum(name == topic for name, _ in queue_names(expected))
        store.abandon()
    with Store(root, SETTINGS) as store:
        assert not store.report.clean
        assert store.max_offset("FMany", 0) == 251
    assert verify(root, SETTINGS) == []


@pytest.mark.parametrize("lost", [("consumequeue",), ("index",), ("consumequeue", "index"), ("checkpoint",)])
def test_what_is_lost_beside_the_log_is_made_again(folder: tuple[Path, dict[str, Any]], lost: tuple[str, ...]) -> None:
    root, expected = folder
    for name in lost:
        shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()
    with Store(root, SETTINGS) as store:
        for name, entries in expected["consumeQueue"].items():
            topic, queue_id = name.rsplit("/", 1)
            queue = store.queues.get(topic, int(queue_id))
            assert queue is not None
            found = queue.entries(0, queue.end).tolist()
            assert [[number, *entry] for number, entry in enumerate(found)] == entries
        for each in expected["messages"]:
            for key in keys_of(each)[:1]:
                assert store.query(each["topic"], key, 64) != []
    assert verify(root, SETTINGS) == []


# What we write.


@pytest.fixture(scope="module", params=STORES)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A real store, and one that got the same messages from us at the same times: name, and both roots."""
    name, folder = str(request.param), tmp_path_factory.mktemp("twin")
    root, expected = expand_store(name, folder)
    records = list(records_of(root, expected))
    clock = Clock(0)
    with Store(folder / "ours", SETTINGS, now_ms=clock) as store:
        # A producer's batch is one burst of one queue at one time, as it was then.
        for (topic, queue_id, clock.now_ms), group in groupby(
            records, lambda record: (record[0], record[2], record[5])
        ):
            append(store, topic, queue_id, list(group))
            store.publish()
    assert verify(folder / "ours", SETTINGS) == []
    return name, root, folder / "ours"


def records_of(root: Path, expected: dict[str, Any]) -> Iterator[MessageRecord]:
    for start, group in groupby(expected["messages"], lambda each: each["physicalOffset"] // SEGMENT * SEGMENT):
        data = (root / "commitlog" / segment_name(start)).read_bytes()
        for each in group:
            yield decode_record(data, each["physicalOffset"] - start).to_record()


def append(store: Store, topic: str, queue_id: int, records: list[MessageRecord]) -> None:
    if topic != "FBatch":
        for record in records:
            store.append(record)
        return
    first = records[0]
    run, _ = encode_records(
        topic.encode(),
        queue_id,
        Spans.of([bytes(record.body) for record in records]),
        Spans.of([record.properties_text.encode() for record in records]),
        born_timestamp=[record.born_timestamp for record in records],
    )
    store.append_records(RecordColumns(run), first.born_host, first.store_host)


def test_the_log_is_the_same_to_the_byte(twin: tuple[str, Path, Path]) -> None:
    name, theirs, ours = twin
    segments = [segment for segment in expected_store(name)["commitLog"] if segment["messages"]]
    assert [path.name for path in sorted((ours / "commitlog").iterdir())] == [each["name"] for each in segments]
    for segment in segments:
        # What stands behind the 8 bytes of a blank record is undefined.
        end = segment["blankAt"] + 8 if "blankAt" in segment else SEGMENT
        wrote, read = ((root / "commitlog" / segment["name"]).read_bytes()[:end] for root in (ours, theirs))
        assert wrote == read


def test_the_queues_are_the_same_to_the_byte(twin: tuple[str, Path, Path]) -> None:
    _, theirs, ours = twin
    files = [
        {
            str(path.relative_to(root)): path.read_bytes()
            for path in (root / "consumequeue").rglob("*")
            if path.is_file()
        }
        for root in (ours, theirs)
    ]
    assert len(files[0]) > 20
    assert files[0] == files[1]


def test_the_index_files_the_same_keys_in_the_same_order(twin: tuple[str, Path, Path]) -> None:
    """Version 4 files no tags. Entries that came twice when a broker started again count once."""
    name, _, ours = twin
    expected = expected_store(name)
    with Store(ours, SETTINGS) as store:
        columns = [file.check() for file in store.index.files]
        wrote = [pair for hashes, offsets, _ in columns for pair in zip(hashes.tolist(), offsets.tolist(), strict=True)]
    theirs = [(entry[0], entry[1]) for file in expected["index"] for entry in file["entries"][1 : file["indexCount"]]]
    if name.startswith("rmq-4"):
        tags = tag_entries(expected["messages"])
        wrote = [pair for pair in wrote if pair not in tags]
    assert list(dict.fromkeys(wrote)) == list(dict.fromkeys(theirs))


RMQ_5 = [name for name in STORES if name.startswith("rmq-5")]


@pytest.mark.parametrize("twin", RMQ_5, indirect=True)
def test_the_index_is_that_of_rocketmq_5_to_the_byte(twin: tuple[str, Path, Path]) -> None:
    name, theirs, ours = twin
    expected = expected_store(name)["index"]
    # The names tell when the files were made. The last one of the stopped store was made anew, with entries twice.
    wrote = [path.read_bytes() for path in sorted((ours / "index").iterdir())]
    assert len(wrote) == len(expected)
    same = len(expected) if name == "rmq-5.5.0-kill9" else len(expected) - 1
    for data, file in zip(wrote[:same], expected[:same], strict=True):
        assert data == (theirs / "index" / file["name"]).read_bytes()
