"""Finding single messages: by place, by time, by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storing import SMALL, SMALL_ASYNC, Clock, flush, hurried, message, opened

from pocketmq.protocol.hashes import java_hash
from pocketmq.protocol.message import RecordView
from pocketmq.storage import lookup
from pocketmq.storage.lookup import Boundary, IndexType
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

NOW = 1_700_000_000_000
LOWER, UPPER = Boundary.LOWER, Boundary.UPPER

# Its hash together with the topic T is -2^31, which has no opposite.
WORST_KEY = "ajvakuzm"


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(tmp_path, SMALL_ASYNC, now_ms=clock) as store:
        yield store
    assert verify(tmp_path, SMALL_ASYNC) == []


def bodies(records: list[RecordView]) -> list[bytes]:
    return [bytes(record.body) for record in records]


# By place.


def test_a_record_is_found_where_it_begins_and_nowhere_else(store: Store) -> None:
    places = [store.append(message(b"x" * 300)) for _ in range(60)]
    store.publish()
    starts = {place.physical_offset for place in places}
    for place in places:
        record = store.record_at(place.physical_offset)
        assert record is not None
        assert (record.physical_offset, record.queue_offset) == place[:2]
    assert all(store.record_at(offset) is None for offset in range(-50, places[3].end) if offset not in starts)
    blank = places[36].end
    assert blank % SMALL.mapped_file_size_commit_log != 0
    for offset in blank, store.log.end - 1, store.log.end, 2**62, -(2**62):
        assert store.record_at(offset) is None


def test_a_record_is_not_found_before_it_may_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        place = store.append(message())
        store.publish()
        assert store.record_at(place.physical_offset) is None
        store.flush()
        assert store.record_at(place.physical_offset) is not None


def test_bytes_that_look_like_a_record_are_none_where_it_does_not_belong(store: Store) -> None:
    """A body may hold a whole record: its own physical offset gives it away."""
    store.append(message(b"first"))
    first = bytes(store.log.files.at(0).view[: store.log.end])
    place = store.append(message(first))
    store.publish()
    assert store.record_at(place.physical_offset) is not None
    assert store.record_at(place.physical_offset + 88) is None


def test_a_record_stays_readable_when_its_segment_is_deleted(store: Store) -> None:
    for number in range(60):
        store.append(message(b"%d" % number * 100))
    store.publish()
    record = store.record_at(0)
    store.log.files.delete(0)
    assert record is not None
    assert bytes(record.body) == b"0" * 100
    assert store.record_at(0) is None


# By time.


def test_the_store_time_of_a_message_is_told_while_it_is_there(store: Store, clock: Clock) -> None:
    for number in range(60):
        clock.now_ms = NOW + number
        store.append(message(b"x" * 300))
    assert store.store_time("T", 0, 0) is None
    store.publish()
    assert [store.store_time("T", 0, number) for number in (-1, 0, 59, 60)] == [None, NOW, NOW + 59, None]
    assert store.store_time("T", 1, 0) is None
    store.log.files.delete(0)
    assert [store.store_time("T", 0, number) for number in (36, 37)] == [None, NOW + 37]


def test_the_earliest_time_is_that_of_the_first_message_that_is_left(store: Store, clock: Clock) -> None:
    assert store.earliest_store_time() == -1
    for number in range(60):
        clock.now_ms = NOW + number
        store.append(message(b"x" * 300))
    store.publish()
    assert store.earliest_store_time() == NOW
    store.log.files.delete(0)
    assert store.earliest_store_time() == NOW + 37


def test_a_clock_that_goes_back_does_not_take_the_store_time_with_it(store: Store, clock: Clock) -> None:
    store.append(message())
    clock.now_ms = NOW - 1000
    store.append(message())
    store.publish()
    assert store.store_time("T", 0, 1) == NOW


# Each with messages stored at 10, 20, 20, 20, 30 (after NOW), and what each boundary gives.
MOMENTS = [
    (0, 0, 0),
    (9, 0, 0),
    (10, 0, 0),
    (11, 1, 0),
    (19, 1, 0),
    (20, 1, 3),
    (21, 4, 3),
    (29, 4, 3),
    (30, 4, 4),
    (31, 5, 4),
    (10**15, 5, 4),
    (-(10**15), 0, 0),
]


@pytest.mark.parametrize(("moment", "lower", "upper"), MOMENTS)
def test_a_moment_stands_for_the_first_message_from_then_on_or_the_last_up_to_then(
    store: Store, clock: Clock, moment: int, lower: int, upper: int
) -> None:
    for after in 10, 20, 20, 20, 30:
        clock.now_ms = NOW + after
        store.append(message())
    store.publish()
    assert store.offset_by_time("T", 0, NOW + moment) == lower
    assert store.offset_by_time("T", 0, NOW + moment, LOWER) == lower
    assert store.offset_by_time("T", 0, NOW + moment, UPPER) == upper


def test_an_empty_queue_and_no_queue_have_the_offset_0(store: Store) -> None:
    for boundary in Boundary:
        assert store.offset_by_time("T", 0, NOW, boundary) == 0
    store.append(message())
    for boundary in Boundary:
        assert store.offset_by_time("T", 0, NOW, boundary) == 0


def test_the_answer_is_never_before_the_first_message_that_is_left(store: Store, clock: Clock) -> None:
    for number in range(60):
        clock.now_ms = NOW + number
        store.append(message(b"x" * 300))
    store.publish()
    store.log.files.delete(0)
    assert store.offset_by_time("T", 0, 0) == 37
    assert store.offset_by_time("T", 0, 0, UPPER) == 37
    assert store.offset_by_time("T", 0, NOW + 40) == 40


def fill(store: Store, topic: str, slots: int) -> None:
    """Leave out numbers of a queue, as recovery does for messages that are lost."""
    queue = store.queues.create(topic, 0)
    queue.fill(queue.end + slots)
    queue.readable = queue.end


def test_fillers_have_no_time_and_are_never_the_last_message(store: Store, clock: Clock) -> None:
    store.append(message())
    store.publish()
    fill(store, "T", 5)
    clock.now_ms = NOW + 10
    store.append(message())
    store.publish()
    assert [store.store_time("T", 0, number) for number in range(7)] == [NOW, *[None] * 5, NOW + 10]
    assert [store.offset_by_time("T", 0, NOW + after) for after in (0, 1, 10, 11)] == [0, 6, 6, 7]
    assert [store.offset_by_time("T", 0, NOW + after, UPPER) for after in (-1, 0, 9, 10)] == [0, 0, 0, 6]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Clock, Iterator[int]]]:
    """A store for many examples, its clock, and numbers for topics of their own."""
    clock, root = Clock(NOW), tmp_path_factory.mktemp("shared")
    with Store(root, SMALL_ASYNC, now_ms=clock) as store:
        yield store, clock, count()
    assert verify(root, SMALL_ASYNC) == []


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    after=st.integers(-2, 70),
    boundary=st.sampled_from(Boundary),
)
def test_any_times_and_fillers_give_what_a_plain_search_gives(
    shared: tuple[Store, Clock, Iterator[int]], steps: list[tuple[int, int]], after: int, boundary: Boundary
) -> None:
    store, clock, topics = shared
    topic, begin = f"T{next(topics)}", clock.now_ms
    model: list[tuple[int, int]] = []  # number and time of each message
    for pause, slots in steps:
        clock.now_ms += pause
        if slots == 3:
            fill(store, topic, 2)
        model.append((store.append(message(topic=topic)).queue_offset, clock.now_ms))
        store.publish()
    moment, end = begin + after, store.max_offset(topic, 0)
    if boundary is LOWER:
        expected = next((number for number, time in model if time >= moment), end)
    else:
        least = store.min_offset(topic, 0)
        expected = next((number for number, time in reversed(model) if time <= moment), least)
    assert store.offset_by_time(topic, 0, moment, boundary) == expected


def test_a_message_that_cannot_be_read_is_searched_around(tmp_path: Path) -> None:
    clock = Clock(NOW)
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        for number in range(120):
            clock.now_ms = NOW + number
            store.append(message(b"x" * 300))
    (tmp_path / "commitlog" / f"{SMALL.mapped_file_size_commit_log:020d}").unlink()
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        assert store.store_time("T", 0, 50) is None
        for after in 0, 36, 74, 100, 119:
            assert store.offset_by_time("T", 0, NOW + after) == after
            assert store.offset_by_time("T", 0, NOW + after, UPPER) == after
        assert store.offset_by_time("T", 0, NOW + 50) == 74
        assert store.offset_by_time("T", 0, NOW + 50, UPPER) == 36


# By key.


def test_a_message_is_found_by_each_of_its_keys(store: Store) -> None:
    store.append(message(b"1", keys="a bb  ccc ", tag="G", unique="U1"))
    store.append(message(b"2", keys="bb", tag="H", unique="U2"))
    store.append(message(b"3", topic="Other", keys="bb", tag="G", unique="U2"))
    store.publish()
    find = store.query
    assert bodies(find("T", "a", 9)) == bodies(find("T", "ccc", 9)) == bodies(find("T", "U1", 9)) == [b"1"]
    assert bodies(find("T", "bb", 9)) == [b"1", b"2"]
    assert bodies(find("Other", "bb", 9)) == [b"3"]
    for missing in "", " ", "a bb", "G", "b", "T#a":
        assert find("T", missing, 9) == []
    assert find("T#a", "", 9) == []


def test_unique_keys_and_tags_are_looked_up_by_their_kind(store: Store) -> None:
    store.append(message(b"1", keys="U2", tag="U1", unique="U1"))
    store.append(message(b"2", keys="U1", tag="T#U1", unique="U2"))
    store.publish()
    assert bodies(store.query("T", "U1", 9)) == [b"1", b"2"]
    assert bodies(store.query("T", "U1", 9, index_type=IndexType.UNIQUE_KEY)) == [b"1"]
    assert bodies(store.query("T", "U1", 9, index_type=IndexType.TAG)) == [b"1"]
    assert bodies(store.query("T", "T#U1", 9, index_type=IndexType.TAG)) == [b"2"]
    assert store.query("T", "T#U1", 9, index_type=IndexType.KEY) == []


def test_the_kinds_have_rocketmqs_letters() -> None:
    assert [kind.value for kind in IndexType] == ["K", "U", "T"]


@pytest.mark.parametrize("key", ["键", "ключ", "🗝", "é", WORST_KEY, "x" * 300, "a\x01b"])
def test_any_text_is_a_key(store: Store, key: str) -> None:
    store.append(message(b"before", keys="other"))
    text = f"KEYS\x01{key}\x02UNIQ_KEY\x01{key}!\x02TAGS\x01{key}?"
    store.append(message(b"it")._replace(properties_text=text))
    store.publish()
    assert bodies(store.query("T", key, 9)) == [b"it"]
    assert bodies(store.query("T", f"{key}!", 9, index_type=IndexType.UNIQUE_KEY)) == [b"it"]
    assert bodies(store.query("T", f"{key}?", 9, index_type=IndexType.TAG)) == [b"it"]


def test_the_key_without_an_opposite_is_what_it_says() -> None:
    assert java_hash(f"T#{WORST_KEY}") == -(2**31)


def test_keys_with_one_hash_are_told_apart_by_their_text(store: Store) -> None:
    assert java_hash("T#Aa") == java_hash("T#BB") == java_hash("SB#Aa".replace("SB", "T"))
    for body, topic, key in (b"1", "T", "Aa"), (b"2", "T", "BB"), (b"3", "AaT", "x"), (b"4", "BBT", "x"):
        store.append(message(body, topic=topic, keys=key))
    store.publish()
    assert bodies(store.query("T", "Aa", 9)) == [b"1"]
    assert bodies(store.query("T", "BB", 9)) == [b"2"]
    assert bodies(store.query("AaT", "x", 9)) == [b"3"]
    assert bodies(store.query("BBT", "x", 9)) == [b"4"]


def test_the_newest_are_found_and_come_oldest_first(store: Store) -> None:
    for number in range(100):
        store.append(message(b"%d" % number, keys="k"))
    store.publish()
    assert bodies(store.query("T", "k", 3)) == [b"97", b"98", b"99"]
    assert len(store.query("T", "k", 64)) == 64
    assert bodies(store.query("T", "k", 1000)) == [b"%d" % number for number in range(36, 100)]
    assert store.query("T", "k", 0) == []


def test_a_key_that_a_message_has_twice_finds_it_once(store: Store) -> None:
    store.append(message(b"1", keys="k k", unique="k"))
    store.publish()
    assert bodies(store.query("T", "k", 9)) == [b"1"]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (0, 0, [0]),
        (0, 499, [0]),
        (1, 499, []),
        (500, 500, [1]),
        (501, 1500, [2, 3]),
        (0, 10**9, list(range(20))),
        (9500, 10**9, [19]),
        (9501, 10**9, []),
        (-(10**9), -1, []),
        (1000, 999, []),
    ],
)
def test_only_messages_of_the_time_are_found(
    store: Store, clock: Clock, begin: int, end: int, found: list[int]
) -> None:
    for number in range(20):
        clock.now_ms = NOW + 500 * number
        store.append(message(b"%d" % number, keys="k"))
        store.publish()
    assert bodies(store.query("T", "k", 64, NOW + begin, NOW + end)) == [b"%d" % number for number in found]


def test_each_message_is_found_at_its_very_time_however_many_index_files_there_are(store: Store, clock: Clock) -> None:
    """An index file dates its first entry from the end of the file before: an hour ago, here."""
    times = list(accumulate([0, *[1, 999, 1000, 3_600_000, 250] * 16], initial=NOW))
    for time in times:
        clock.now_ms = time
        store.append(message(b"%d" % time, keys="k other"))
        store.publish()
    store.save_progress()
    assert len(store.index.files) > 3
    for time in set(times):
        assert set(bodies(store.query("T", "k", 64, time, time))) == {b"%d" % time}
        assert set(bodies(store.query("T", "other", 64, time - 10, time + 10))) >= {b"%d" % time}


def test_what_may_not_be_read_is_not_found(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(message(keys="k"))
        store.publish()
        assert store.query("T", "k", 9) == []
        flush(store)
        assert len(store.query("T", "k", 9)) == 1


def test_what_is_gone_from_the_log_is_not_found(store: Store) -> None:
    for number in range(60):
        store.append(message(b"%02d" % number * 150, keys="k"))
    store.publish()
    store.log.files.delete(0)
    assert [body[:2] for body in bodies(store.query("T", "k", 64))] == [b"%02d" % number for number in range(37, 60)]


def test_half_messages_are_found_and_rollbacks_are_not(store: Store) -> None:
    for sys_flag in 0x0, 0x4, 0x8, 0xC:
        store.append(message(b"%x" % sys_flag, keys="k", sys_flag=sys_flag))
    store.publish()
    assert bodies(store.query("T", "k", 9)) == [b"0", b"4", b"8"]


def test_without_an_index_nothing_is_found(tmp_path: Path) -> None:
    settings = replace(SMALL_ASYNC, message_index_enable=False)
    with Store(tmp_path, settings) as store:
        store.append(message(keys="k"))
        store.publish()
        assert store.query("T", "k", 9) == []
        assert not store.paths.index.exists()
    assert verify(tmp_path, settings) == []


def test_places_limit_where_a_message_may_be(store: Store) -> None:
    places = [store.append(message(b"%d" % number, keys="k")) for number in range(4)]
    store.publish()
    store.save_progress()
    inside = range(places[1].physical_offset, places[2].end)
    found = lookup.find_by_key(store.log, store.index, "T", "k", 9, 0, 2**60, IndexType.KEY, inside)
    assert bodies(found) == [b"1", b"2"]
