"""Reading a queue: every status, the limits of an answer, tags, damage on either side, and how long views live."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storing import SMALL, SMALL_ASYNC, batch, flush, hurried, message, opened

from pocketmq.protocol.hashes import tags_code
from pocketmq.protocol.message import iter_records
from pocketmq.storage.layout import QUEUE_ENTRY_SIZE, pack_queue_entry, segment_name
from pocketmq.storage.reading import ReadRequest, ReadResult, ReadStatus
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

HOST = ("10.0.0.1", 1)
ROOMY = replace(SMALL, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20 * 1000)
SEGMENT = SMALL.mapped_file_size_commit_log
PER_FILE = SMALL.mapped_file_size_consume_queue // QUEUE_ENTRY_SIZE


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


def read(store: Store, offset: int = 0, topic: str = "T", queue_id: int = 0, **more: object) -> ReadResult:
    return store.read(ReadRequest(topic, queue_id, offset, **more))  # type: ignore[arg-type]


def bodies(result: ReadResult) -> list[bytes]:
    return [bytes(record.body) for record in iter_records(result.to_bytes())]


def numbers(result: ReadResult) -> list[int]:
    return [record.queue_offset for record in iter_records(result.to_bytes())]


def append_batch(store: Store, count: int, tag: str = "A", size: int = 100, queue_id: int = 0) -> None:
    store.append_records(batch([b"x" * size] * count, tag=tag, queue_id=queue_id), HOST, HOST)


def at_once(store: Store, count: int, **more: object) -> None:
    """Append messages with their number for a body, and let them be read."""
    for number in range(count):
        store.append(message(b"%d" % number, **more))  # type: ignore[arg-type]
    flush(store)


# Status.


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that has seen things.

    T/0   100 messages, 37 in a segment: the first segment is deleted, and the file of the queue from 64 on is lost
    T/1   no message that can be read
    T/2   100 messages behind the others: a segment with 37 of them is lost
    """
    root = tmp_path_factory.mktemp("worn")
    with opened(root) as store:
        for queue_id in 0, 2:
            for _ in range(100):
                store.append(message(b"x" * 300, queue_id=queue_id))
        flush(store)
    (root / "consumequeue/T/0" / segment_name(64 * QUEUE_ENTRY_SIZE)).unlink()
    (root / "commitlog" / segment_name(0)).unlink()
    (root / "commitlog" / segment_name(4 * SEGMENT)).unlink()
    with Store(root, SMALL) as store:
        store.append(message(queue_id=1))
        yield store


STATUS = {
    "no such topic": ("U", 0, lambda low, high: 0, ReadStatus.NO_MATCHED_LOGIC_QUEUE, lambda low, high: 0),
    "no such queue": ("T", 9, lambda low, high: 7, ReadStatus.NO_MATCHED_LOGIC_QUEUE, lambda low, high: 0),
    "an empty queue": ("T", 1, lambda low, high: 0, ReadStatus.NO_MESSAGE_IN_QUEUE, lambda low, high: 0),
    "beyond an empty queue": ("T", 1, lambda low, high: 5, ReadStatus.NO_MESSAGE_IN_QUEUE, lambda low, high: 0),
    "before the first": ("T", 0, lambda low, high: 0, ReadStatus.OFFSET_TOO_SMALL, lambda low, high: low),
    "just before the first": ("T", 0, lambda low, high: low - 1, ReadStatus.OFFSET_TOO_SMALL, lambda low, high: low),
    "a negative offset": ("T", 0, lambda low, high: -1, ReadStatus.OFFSET_TOO_SMALL, lambda low, high: low),
    "the first": ("T", 0, lambda low, high: low, ReadStatus.FOUND, None),
    "the last": ("T", 0, lambda low, high: high - 1, ReadStatus.FOUND, lambda low, high: high),
    "behind the last": ("T", 0, lambda low, high: high, ReadStatus.OFFSET_OVERFLOW_ONE, lambda low, high: high),
    "far behind": ("T", 0, lambda low, high: high + 1, ReadStatus.OFFSET_OVERFLOW_BADLY, lambda low, high: high),
    "in a lost file": ("T", 0, lambda low, high: 64, ReadStatus.OFFSET_FOUND_NULL, lambda low, high: 80),
    "deep in a lost file": ("T", 0, lambda low, high: 79, ReadStatus.OFFSET_FOUND_NULL, lambda low, high: 80),
    "in a lost segment": ("T", 2, lambda low, high: 50, ReadStatus.MESSAGE_WAS_REMOVING, None),
}


@pytest.mark.parametrize(("topic", "queue_id", "offset", "status", "next_offset"), STATUS.values(), ids=STATUS.keys())
def test_every_offset_has_its_status(
    worn: Store,
    topic: str,
    queue_id: int,
    offset: Callable[[int, int], int],
    status: ReadStatus,
    next_offset: Callable[[int, int], int] | None,
) -> None:
    low, high = worn.min_offset(topic, queue_id), worn.max_offset(topic, queue_id)
    asked = offset(low, high)
    result = read(worn, asked, topic, queue_id, max_messages=5)
    assert result.status is status
    assert (result.min_offset, result.max_offset) == (low, high)
    assert result.next_offset == (asked + 5 if next_offset is None else next_offset(low, high))
    assert bool(result.runs) is bool(result.messages) is bool(result.size) is (status is ReadStatus.FOUND)


def test_no_match_has_its_status_and_goes_on_behind_all_that_was_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        at_once(store, 10, tag="A")
        result = read(store, 3, tags=[tags_code("B")])
        assert (result.status, result.next_offset, result.runs) == (ReadStatus.NO_MATCHED_MESSAGE, 10, ())


def test_a_reader_gets_around_a_lost_file_of_the_queue(worn: Store) -> None:
    low, high = worn.min_offset("T", 0), worn.max_offset("T", 0)
    assert (low, high) == (37, 100)
    seen, offset = list[int](), low
    while offset < high:
        result = read(worn, offset, max_messages=7)
        seen += numbers(result)
        offset = result.next_offset
    assert seen == [*range(37, 64), *range(80, 100)]


def test_a_reader_gets_around_a_lost_segment(worn: Store) -> None:
    seen, offset = list[int](), 0
    while offset < 100:
        result = read(worn, offset, queue_id=2, max_messages=7)
        seen += numbers(result)
        assert result.next_offset > offset
        offset = result.next_offset
    lost = sorted(set(range(100)) - set(seen))
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert len(lost) == 37
    assert seen == sorted(set(range(100)) - set(lost))


def test_a_segment_that_goes_between_the_two_steps_is_being_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(60):
            store.append(message(b"x" * 300))
        flush(store)
        plan = store.plan_read(ReadRequest("T", 0, 0))
        store.log.files.delete(0)
        assert plan.fetch().status is ReadStatus.MESSAGE_WAS_REMOVING


def test_a_segment_that_somebody_took_away_is_being_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(60):
            store.append(message(b"x" * 300))
    with Store(tmp_path, SMALL) as store:
        (tmp_path / "commitlog" / segment_name(0)).unlink()
        result = read(store, 0)
        assert (result.status, result.next_offset) == (ReadStatus.MESSAGE_WAS_REMOVING, 32)
        assert store.record_at(0) is None


def test_what_is_left_of_two_segments_is_found(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(60):
            store.append(message(b"x" * 300))
        flush(store)
        plan = store.plan_read(ReadRequest("T", 0, 30, 20))
        store.log.files.delete(0)
        result = plan.fetch()
        assert (result.status, result.messages, result.next_offset) == (ReadStatus.FOUND, 13, 50)
        assert numbers(result) == list(range(37, 50))


# Limits.


def sizes_of(store: Store, queue_id: int = 0) -> list[int]:
    result = read(store, queue_id=queue_id, max_messages=10**6, max_bytes=2**60)
    return [record.size for record in iter_records(result.to_bytes())]


def fitting(sizes: list[int], most: int, most_bytes: int) -> int:
    """RocketMQ's rule: at least one, then as many as neither limit is exceeded by."""
    return max(1, sum(total <= most_bytes for total in accumulate(sizes[:most])))


BODY_SIZES = [10, 8_000, 10_000, 70_000, 300_000]


@pytest.fixture(scope="module", params=[False, True], ids=["recent", "old"])
def sized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, bool]]:
    """A store whose queues hold messages of one size each, and whether all of them count as old."""
    is_cold = bool(request.param)
    settings = replace(ROOMY, access_message_in_memory_max_ratio=0 if is_cold else 40)
    with opened(tmp_path_factory.mktemp("sized"), settings) as store:
        for queue_id, size in enumerate(BODY_SIZES):
            for _ in range(40 if size < 20_000 else 5):
                store.append(message(b"x" * size, queue_id=queue_id))
        flush(store)
        yield store, is_cold


@pytest.mark.parametrize("queue_id", range(5), ids=map(str, BODY_SIZES))
@pytest.mark.parametrize("wanted", [1, 7, 8, 9, 32, 33, 1000])
def test_an_answer_has_the_limits_of_recent_and_of_old_messages(
    sized: tuple[Store, bool], queue_id: int, wanted: int
) -> None:
    store, is_cold = sized
    plan = store.plan_read(ReadRequest("T", queue_id, 0, wanted))
    result = plan.fetch()
    sizes = sizes_of(store, queue_id)
    expected = fitting(sizes, *((min(wanted, 8), 65_536) if is_cold else (min(wanted, 32), 262_144)))
    assert (result.messages, result.next_offset) == (expected, expected)
    assert result.size == len(result.to_bytes()) == sum(sizes[:expected])
    assert plan.is_cold is result.is_old is is_cold


def test_an_answer_may_be_as_large_as_its_limit_and_no_larger(tmp_path: Path) -> None:
    with opened(tmp_path, ROOMY) as store:
        at_once(store, 5)
        size = sizes_of(store)[0]
        for most_bytes, count in (0, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size - 1, 2), (5 * size, 5):
            assert read(store, max_bytes=most_bytes).messages == count


def test_a_bulk_reader_sets_its_own_limit(tmp_path: Path) -> None:
    with opened(tmp_path, ROOMY) as store:
        append_batch(store, 2000)
        flush(store)
        assert read(store, max_messages=2000).messages == 32
        result = read(store, max_messages=2000, max_bytes=1 << 20)
        assert (result.messages, result.next_offset) == (2000, 2000)
        assert read(store, max_messages=1500, max_bytes=1 << 20).messages == 1500


def test_a_distance_makes_messages_old(tmp_path: Path) -> None:
    settings = replace(ROOMY, access_message_in_memory_max_ratio=0)
    with opened(tmp_path, settings) as store:
        at_once(store, 3)
        store._hot_bytes = store.log.end - 1  # as on a machine with hardly any memory
        assert [store.plan_read(ReadRequest("T", 0, offset)).is_cold for offset in range(3)] == [True, False, False]


@pytest.mark.parametrize(("wanted", "examined"), [(1, 800), (32, 800), (800, 800), (801, 801), (1100, 1100)])
def test_no_more_than_800_entries_are_looked_at_unless_more_are_wanted(
    tmp_path: Path, wanted: int, examined: int
) -> None:
    with opened(tmp_path, ROOMY) as store:
        append_batch(store, 1200)
        flush(store)
        result = read(store, 10, tags=[tags_code("B")], max_messages=wanted)
        assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 10 + examined)


def test_how_many_entries_are_looked_at_is_a_setting(tmp_path: Path) -> None:
    with opened(tmp_path, replace(SMALL, max_filter_message_size=100)) as store:
        at_once(store, 10, tag="A")
        assert read(store, tags=[1], max_messages=2).next_offset == 5


# Tags.


def test_only_messages_with_the_tags_are_given(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(12):
            store.append(message(b"%d" % number, tag="ABC"[number % 3] if number < 9 else None))
        flush(store)
        code = {tag: tags_code(tag) for tag in "ABC"}
        assert bodies(read(store, tags=[code["A"]])) == [b"0", b"3", b"6"]
        assert bodies(read(store, tags={code["A"], code["C"]})) == [b"0", b"2", b"3", b"5", b"6", b"8"]
        assert bodies(read(store, tags=[0])) == [b"9", b"10", b"11"]
        assert len(bodies(read(store, tags=None))) == 12
        assert read(store, tags=[]).status is ReadStatus.NO_MATCHED_MESSAGE


@pytest.mark.parametrize("asked", [1, 0, -1, -(2**31)])
@pytest.mark.parametrize("max_bytes", [None, 1, 1 << 20])
def test_an_answer_holds_at_least_one_message(tmp_path: Path, asked: int, max_bytes: int | None) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            store.append(message(b"%d" % number))
        flush(store)
        result = read(store, 1, max_messages=asked, max_bytes=max_bytes)
        assert (bodies(result), result.next_offset) == ([b"1"], 2)


def test_the_next_offset_is_that_of_the_first_message_that_did_not_fit(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(12):
            store.append(message(b"%d" % number, tag="AB"[number % 2]))
        flush(store)
        result = read(store, tags=[tags_code("B")], max_messages=2)
        assert (bodies(result), result.next_offset) == ([b"1", b"3"], 5)
        result = read(store, 5, tags=[tags_code("B")], max_messages=20)
        assert (bodies(result), result.next_offset) == ([b"5", b"7", b"9", b"11"], 12)


@pytest.mark.parametrize(
    ("code", "matches"),
    [
        (-(2**63), True),
        (-(2**63) + 5, True),
        (-(2**31) - 1, True),
        (-(2**31), False),
        (-1, False),
        (0, False),
        (2**31 - 1, False),
        (1_700_000_000_000, False),
    ],
)
def test_an_address_in_the_extended_queue_may_be_any_tag(tmp_path: Path, code: int, matches: bool) -> None:
    with opened(tmp_path) as store:
        at_once(store, 1)
    path = tmp_path / "consumequeue/T/0" / segment_name(0)
    with path.open("r+b") as file:
        file.seek(12)
        file.write(code.to_bytes(8, "big", signed=True))
    with Store(tmp_path, SMALL) as store:
        assert read(store, tags=[4711]).status is (ReadStatus.FOUND if matches else ReadStatus.NO_MATCHED_MESSAGE)
        assert read(store, tags=[4711, code]).status is ReadStatus.FOUND
        assert read(store).status is ReadStatus.FOUND


# Fillers.


def with_lost(root: Path, count: int, lost: range) -> Store:
    """A store with a queue of which some messages were lost in a crash: fillers stand for them."""
    store = Store(root, ROOMY)
    places = [store.append(message(b"%d" % number)) for number in range(count)]
    flush(store)
    store.abandon()
    start, end = places[lost[0]].physical_offset, places[lost[-1]].end
    overwrite(root / "commitlog" / segment_name(0), start, bytes(end - start))
    return Store(root, ROOMY)


def test_fillers_are_stepped_over(tmp_path: Path) -> None:
    with with_lost(tmp_path, 46, range(2, 45)) as store:
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 46)
        for offset in 0, 1, 2, 16, 44, 45:
            result = read(store, offset)
            assert numbers(result) == [number for number in (0, 1, 45) if number >= offset]
            assert (result.status, result.next_offset) == (ReadStatus.FOUND, 46)
        assert store.append(message()).queue_offset == 46
    [problem] = verify(tmp_path, ROOMY)
    assert problem.what.startswith("no record can be read from")
    with Store(tmp_path, ROOMY) as store:
        assert numbers(read(store)) == [0, 1, 45, 46]


def test_nothing_but_fillers_is_no_message(tmp_path: Path) -> None:
    with with_lost(tmp_path, 1501, range(1, 1500)) as store:
        result = read(store, 1)
        assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 801)
        assert numbers(read(store, 801)) == [1500]
    assert len(verify(tmp_path, ROOMY)) == 1


# Entries that do not agree with their record.


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three queues, T/0, T/1 and U/0, that were written to by turns."""
    root = tmp_path_factory.mktemp("written")
    with opened(root) as store:
        for number in range(10):
            for topic, queue_id in ("T", 0), ("T", 1), ("U", 0):
                store.append(message(b"%d" % number, topic, queue_id))
    return root


def entry_at(root: Path, number: int, topic: str = "T", queue_id: int = 0) -> tuple[Path, int, int, int]:
    """File, physical offset and size of an entry, and where it stands."""
    path = root / "consumequeue" / topic / str(queue_id) / segment_name(0)
    raw = path.read_bytes()[number * 20 : number * 20 + 20]
    return path, int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:12], "big"), number * 20


def change_entry(offset: int, size: int) -> Callable[[Path], None]:
    """Move the place and the size in entry 5 of T/0 by so much."""

    def change(root: Path) -> None:
        path, physical_offset, length, at = entry_at(root, 5)
        overwrite(path, at, pack_queue_entry(physical_offset + offset, length + size, 0))

    return change


def lead_to(number: int, topic: str, queue_id: int) -> Callable[[Path], None]:
    """Make entry 5 of T/0 that of another message."""

    def change(root: Path) -> None:
        path, *_, at = entry_at(root, 5)
        _, physical_offset, length, _ = entry_at(root, number, topic, queue_id)
        overwrite(path, at, pack_queue_entry(physical_offset, length, 0))

    return change


def change_record(at: int, new: bytes) -> Callable[[Path], None]:
    """Write something into the record of message 5 of T/0."""

    def change(root: Path) -> None:
        _, physical_offset, *_ = entry_at(root, 5)
        overwrite(root / "commitlog" / segment_name(0), physical_offset + at, new)

    return change


def overwrite(path: Path, at: int, new: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(new)


BODY_AT = 88
TOPIC_AT = BODY_AT + 1

DISAGREEING: dict[str, Callable[[Path], None]] = {
    "an entry that leads into a record": change_entry(1, 0),
    "an entry that leads before its record": change_entry(-1, 0),
    "an entry that leads behind the log": change_entry(10_000, 0),
    "an entry that leads behind the last segment": change_entry(2**40, 0),
    "an entry that is too short": change_entry(0, -1),
    "an entry that is too long": change_entry(0, 1),
    "an entry that is longer than the segment": change_entry(0, SEGMENT),
    "an entry of another message": lead_to(4, "T", 0),
    "an entry of a later message": lead_to(7, "T", 0),
    "an entry of another queue": lead_to(5, "T", 1),
    "an entry of another topic": lead_to(5, "U", 0),
    "a record without magic": change_record(4, bytes(4)),
    "a record of another queue": change_record(12, b"\0\0\0\x01"),
    "a record of another number": change_record(20, (6).to_bytes(8, "big")),
    "a record from another place": change_record(28, (0).to_bytes(8, "big")),
    "a record of another size": change_record(0, (100).to_bytes(4, "big")),
    "a record of version 2": change_record(4, b"\xda\xa3\x20\xab"),
    "a record of IPv6 hosts": change_record(39, b"\x30"),
    "a record of another topic": change_record(TOPIC_AT + 1, b"X"),
    "a record of a longer topic": change_record(TOPIC_AT, b"\x02"),
    "a record with a body that is too long": change_record(84, (2**31 - 1).to_bytes(4, "big")),
    "a record with a negative body": change_record(84, b"\xff\xff\xff\xff"),
    "a record with a body that begins before it": change_record(84, b"\xff\xff\xff\x00"),
    "a record with a shorter body": change_record(84, bytes(4)),
}


@pytest.mark.parametrize("change", DISAGREEING.values(), ids=DISAGREEING.keys())
def test_an_entry_that_does_not_agree_with_its_record_is_passed_over(
    written: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = tmp_path / "store"
    shutil.copytree(written, root)
    change(root)
    with Store(root, SMALL) as store:
        assert store.report.records == 0  # nothing was read: the damage is for the reader to find
        result = read(store)
        assert numbers(result) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
        assert (result.status, result.next_offset, result.messages) == (ReadStatus.FOUND, 10, 9)
        alone = read(store, 5, max_messages=1)
        assert (alone.status, alone.next_offset, alone.runs) == (ReadStatus.MESSAGE_WAS_REMOVING, 6, ())
        for topic, queue_id in ("T", 1), ("U", 0):
            assert numbers(read(store, 0, topic, queue_id)) == list(range(10))
    assert verify(root, SMALL) != []


def test_damage_is_told_with_topic_queue_and_entries(
    written: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    shutil.copytree(written, root)
    change_record(20, bytes(8))(root)
    with Store(root, SMALL) as store, caplog.at_level(logging.ERROR, "pocketmq.storage"):
        read(store)
    assert [text.split(" and ")[0] for text in caplog.messages] == ["T, queue 0: entries [5]"]
    assert verify(root, SMALL) != []


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a queue of 100 messages in three segments, nothing of it in memory."""
    root = tmp_path_factory.mktemp("long")
    with opened(root) as store:
        for _ in range(100):
            store.append(message(b"x" * 300))
    with opened(root) as store:
        yield store


@given(number=st.integers(0, 99), offset=st.integers(-1000, 3 * SEGMENT) | st.integers(-(2**63), 2**63 - 1))
def test_one_bad_entry_hides_no_other_message(long: Store, number: int, offset: int) -> None:
    folder = long.paths.consume_queues / "T" / "0"
    path, at = folder / segment_name(number // PER_FILE * PER_FILE * QUEUE_ENTRY_SIZE), number % PER_FILE * 20
    before = path.read_bytes()
    overwrite(path, at, offset.to_bytes(8, "big", signed=True))
    try:
        found = numbers(read(long, max_messages=100, max_bytes=1 << 20))
    finally:
        path.write_bytes(before)
    assert [other for other in range(100) if other not in found] in ([number], [])


@given(at=st.integers(0, 2000), new=st.binary(min_size=1, max_size=8))
def test_no_damage_makes_a_reader_stumble(long: Store, at: int, new: bytes) -> None:
    """Whatever stands in the log, each record that is given is whole and says itself that it is asked for."""
    segment = long.log.files.at(0)
    old = bytes(segment.view[at : at + len(new)])
    segment.view[at : at + len(new)] = new
    try:
        result = read(long)
        found = [(record.topic, record.queue_id, record.queue_offset) for record in iter_records(result.to_bytes())]
    finally:
        segment.view[at : at + len(new)] = old
    assert len(found) == result.messages
    assert set(found) <= {("T", 0, number) for number in range(32)}
    assert result.messages >= 30


# Other shapes of records.


def test_records_with_long_topics_and_ipv6_hosts_are_read_among_others(tmp_path: Path) -> None:
    long = "%RETRY%" + "x" * 200
    with opened(tmp_path) as store:
        for number in range(12):
            record = message(b"%d" % number, topic=long if number % 4 == 3 else "T")
            if number % 2:
                record = record._replace(born_host=("fd00::1", 4000))
            if number % 3:
                record = record._replace(store_host=("fd00::2", 5000))
            store.append(record)
        flush(store)
        assert bodies(read(store)) == [b"0", b"1", b"2", b"4", b"5", b"6", b"8", b"9", b"10"]
        assert bodies(read(store, topic=long)) == [b"3", b"7", b"11"]


# Runs.


def one_by_one(store: Store, queue_id: int, count: int, start: int = 0) -> bytes:
    offsets = range(start, start + count)
    return b"".join(read(store, offset, queue_id=queue_id, max_messages=1).to_bytes() for offset in offsets)


def test_neighbours_are_one_view_of_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        at_once(store, 20)
        result = read(store)
        assert len(result.runs) == 1
        assert result.to_bytes() == one_by_one(store, 0, 20)
        assert result.runs[0].readonly


def test_small_records_that_lie_apart_are_copied_together(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(40):
            store.append(message(b"%d" % number, queue_id=number % 4))
        flush(store)
        for queue_id in range(4):
            result = read(store, queue_id=queue_id)
            assert len(result.runs) == 1
            assert result.to_bytes() == one_by_one(store, queue_id, 10)
            assert result.runs[0].readonly


def test_large_records_that_lie_apart_stay_where_they_are(tmp_path: Path) -> None:
    with opened(tmp_path, ROOMY) as store:
        for number in range(40):
            store.append(message(b"%d" % number * 3000, queue_id=number % 4))
        flush(store)
        result = read(store)
        assert len(result.runs) == result.messages == 10
        assert result.to_bytes() == one_by_one(store, 0, 10)
        assert all(run.readonly for run in result.runs)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(tmp_path_factory.mktemp("busy"), SMALL_ASYNC) as store:
        yield store


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9000)), min_size=1, max_size=24))
def test_however_records_lie_the_bytes_are_the_same(busy: Store, messages: list[tuple[int, int]]) -> None:
    starts = [busy.max_offset("T", queue_id) for queue_id in range(3)]
    for queue_id, size in messages:
        busy.append(message(b"x" * size, queue_id=queue_id))
    busy.publish()
    for queue_id, start in enumerate(starts):
        count = busy.max_offset("T", queue_id) - start
        if count:
            result = read(busy, start, queue_id=queue_id, max_messages=100, max_bytes=1 << 30)
            assert result.messages == count
            assert result.to_bytes() == one_by_one(busy, queue_id, count, start)
            assert result.size == sum(map(len, result.runs))


# How long views live.


def test_a_view_outlives_its_segment_and_its_store(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(60):
            store.append(message(b"x" * 300))
        flush(store)
        first, last = read(store, 0, max_messages=3), read(store, 50, max_messages=3)
        before = first.to_bytes(), last.to_bytes()
        store.log.files.delete(0)
        assert not (tmp_path / "commitlog" / segment_name(0)).exists()
        assert first.to_bytes() == before[0]
    assert (first.to_bytes(), last.to_bytes()) == before
    shutil.rmtree(tmp_path)
    assert (first.to_bytes(), last.to_bytes()) == before


def test_a_view_does_not_change_when_more_is_appended(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        at_once(store, 3)
        result = read(store)
        before = result.to_bytes()
        at_once(store, 100)
        assert result.to_bytes() == before


# Threads.


def test_a_plan_may_be_fetched_in_another_thread_while_more_is_appended(tmp_path: Path) -> None:
    with opened(tmp_path) as store, ThreadPoolExecutor(2) as pool:
        at_once(store, 20)
        expected = read(store).to_bytes()
        plans = [store.plan_read(ReadRequest("T", 0, 0, 20)) for _ in range(20)]
        results = pool.map(lambda plan: plan.fetch().to_bytes(), plans)
        at_once(store, 200, queue_id=1)
        assert all(result == expected for result in results)


def test_a_plan_without_records_is_its_own_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        plan = store.plan_read(ReadRequest("T", 0, 0))
        assert plan.fetch() is plan.outcome
        assert not plan.is_cold


def test_a_topic_that_is_deleted_between_the_two_steps_is_still_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        at_once(store, 3)
        plan = store.plan_read(ReadRequest("T", 0, 0))
        store.delete_topic("T")
        assert bodies(plan.fetch()) == [b"0", b"1", b"2"]
        assert read(store).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE


def test_default_limits_are_those_of_rocketmq() -> None:
    settings = StoreSettings()
    assert (
        settings.max_transfer_bytes_on_message_in_memory,
        settings.max_transfer_count_on_message_in_memory,
        settings.max_transfer_bytes_on_message_in_disk,
        settings.max_transfer_count_on_message_in_disk,
        settings.max_filter_message_size,
    ) == (262_144, 32, 65_536, 8, 16_000)
