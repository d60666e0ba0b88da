"""From records to entries: which messages have some, what they say, and that one by one or many is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import SMALL, Clock, batch, flush, message, opened, read_all

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hashes import java_hash
from pocketmq.protocol.message import MessageRecord, encode_record_at
from pocketmq.protocol.properties import encode_properties
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC
from pocketmq.storage.dispatch import entry_tag, entry_tags, has_queue_entry, is_indexed, rows_by_queue, scheduled_code
from pocketmq.storage.errors import IllegalMessageError
from pocketmq.storage.lookup import IndexType
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

NONE = 0
PREPARED = int(MessageFlag.TRANSACTION_PREPARED)
COMMIT = int(MessageFlag.TRANSACTION_COMMIT)
ROLLBACK = int(MessageFlag.TRANSACTION_MASK)
DELAYS = (1_000, 5_000, 10_000)
NOW = 1_700_000_000_000

# Few messages, and many.
FEW, MANY = 3, 100


def columns_of(*records: MessageRecord, time: int = NOW) -> RecordColumns:
    return RecordColumns(b"".join(encode_record_at(record, 0, 0, time) for record in records))


# Which messages have entries.


@pytest.mark.parametrize(
    ("kind", "queued", "indexed"),
    [(NONE, True, True), (PREPARED, False, True), (COMMIT, True, True), (ROLLBACK, False, False)],
)
@pytest.mark.parametrize("other_bits", [0, 0x1, 0x30, 0x303])
def test_the_kind_of_a_transaction_decides_on_the_entries(
    kind: int, queued: bool, indexed: bool, other_bits: int
) -> None:
    flag = kind | other_bits
    assert has_queue_entry(flag) == queued
    assert is_indexed(flag) == indexed
    flags = np.array([flag, NONE, flag], np.int32)
    assert has_queue_entry(flags).tolist() == [queued, True, queued]
    assert is_indexed(flags).tolist() == [indexed, True, indexed]


@pytest.mark.parametrize("repeats", [FEW, MANY])
def test_half_messages_and_rollbacks_have_no_place_in_a_queue_and_the_number_0(tmp_path: Path, repeats: int) -> None:
    kinds = [NONE, PREPARED, COMMIT, ROLLBACK] * repeats
    with opened(tmp_path) as store:
        numbers = [
            store.append(message(b"%d" % kind, keys=f"k{kind}", tag="A", sys_flag=kind)).queue_offset for kind in kinds
        ]
        assert numbers == [number for place in range(0, 2 * repeats, 2) for number in (place, 0, place + 1, 0)]
        flush(store)
        assert [bytes(record.body) for record in read_all(store)] == [b"%d" % NONE, b"%d" % COMMIT] * repeats
        assert store.max_offset("T", 0) == 2 * repeats
        found = {kind: len(store.query("T", f"k{kind}", 64)) for kind in (NONE, PREPARED, COMMIT, ROLLBACK)}
        assert found == {kind: min(repeats, 64) if kind != ROLLBACK else 0 for kind in found}


# Tags.


def test_a_queue_keeps_the_hash_of_the_tag(tmp_path: Path) -> None:
    tags = ["TagA", "TagB", "polygenelubricants", "é", "😀", "Aa", "BB", "x" * 300, None]
    columns = columns_of(*[message(tag=tag) for tag in tags])
    expected = [java_hash(tag) if tag else 0 for tag in tags]
    assert expected[:3] == [2598919, 2598920, -(2**31)]
    assert entry_tags(columns, columns.store_timestamp, DELAYS).tolist() == expected
    texts = [message(tag=tag).properties_text for tag in tags]
    assert [entry_tag("T", text, NOW, DELAYS) for text in texts] == expected


pieces = st.sampled_from(["TAGS\x01", "DELAY\x01", "KEYS\x01", "\x01", "\x02", "A", "é", "\ud800", "2", " "])


@given(st.lists(pieces, max_size=12).map("".join), st.booleans())
def test_one_message_and_many_are_looked_at_alike(properties: str, is_delayed: bool) -> None:
    record = message(topic=SCHEDULE_TOPIC if is_delayed else "T")._replace(properties_text=properties)
    columns = columns_of(record)
    [expected] = entry_tags(columns, columns.store_timestamp, DELAYS).tolist()
    assert entry_tag(record.topic, properties, NOW, DELAYS) == expected


@pytest.mark.parametrize(
    ("level", "code"),
    [
        ("1", NOW + 1_000),
        ("2", NOW + 5_000),
        ("3", NOW + 10_000),
        ("4", NOW + 10_000),
        ("999999999999", NOW + 10_000),
        ("9" * 5000, NOW + 10_000),
        ("002", NOW + 5_000),
        ("0", 65),
        ("-1", 65),
        ("", 65),
        ("soon", 65),
        ("1.0", 65),
        (" 1", 65),
        ("²", 65),
    ],
)
def test_in_the_schedule_topic_the_time_at_which_a_message_is_due_takes_the_place_of_the_tag(
    level: str, code: int
) -> None:
    text = encode_properties({"TAGS": "A", "DELAY": level or None})
    delayed, other = (message(topic=topic)._replace(properties_text=text) for topic in (SCHEDULE_TOPIC, "T"))
    columns = columns_of(delayed, other, delayed)
    assert entry_tags(columns, columns.store_timestamp, DELAYS).tolist() == [code, 65, code]
    assert entry_tag(SCHEDULE_TOPIC, text, NOW, DELAYS) == code
    assert entry_tag("T", text, NOW, DELAYS) == 65
    assert scheduled_code(level, 65, DELAYS, NOW) == code


@pytest.mark.parametrize("repeats", [FEW, MANY])
def test_a_delayed_message_is_due_from_its_store_time_on(tmp_path: Path, repeats: int) -> None:
    clock = Clock(NOW)
    few_levels = replace(SMALL, message_delay_level="1s 5s 10s")
    with Store(tmp_path, few_levels, now_ms=clock) as store:
        for _ in range(repeats):
            clock.now_ms += 7
            for topic in (SCHEDULE_TOPIC, "T"):
                store.append(message(topic=topic, queue_id=1, tag="A", delay=2))
        flush(store)
        queues = {topic: store.queues.get(topic, 1) for topic in (SCHEDULE_TOPIC, "T")}
        codes = {topic: queue.entries(0, 1000)["tags_code"].tolist() for topic, queue in queues.items() if queue}
        assert codes == {
            SCHEDULE_TOPIC: [NOW + 7 * number + 5_000 for number in range(1, repeats + 1)],
            "T": [65] * repeats,
        }
    assert verify(tmp_path, few_levels) == []


# Queues.


def grouped(columns: RecordColumns, rows: list[int]) -> dict[tuple[bytes, int], list[int]]:
    return {
        (topic, queue_id): own.tolist() for topic, queue_id, own in rows_by_queue(columns, np.array(rows, np.int64))
    }


def test_rows_are_grouped_by_topic_and_queue_and_stay_in_order() -> None:
    queues = [("T", 0), ("U", 0), ("T", 1), ("T", 0), ("U", 2**31 - 1), ("U", 0), ("T", 0)]
    columns = columns_of(*[message(topic=topic, queue_id=queue_id) for topic, queue_id in queues])
    assert grouped(columns, list(range(7))) == {
        (b"T", 0): [0, 3, 6],
        (b"T", 1): [2],
        (b"U", 0): [1, 5],
        (b"U", 2**31 - 1): [4],
    }
    assert grouped(columns, [0, 4, 6]) == {(b"T", 0): [0, 6], (b"U", 2**31 - 1): [4]}
    assert grouped(columns, []) == {}


def test_topics_with_one_hash_are_told_apart() -> None:
    assert java_hash("Aa") == java_hash("BB")
    topics = ["Aa", "BB", "Aa", "BB", "BB", "Aa", "C"]
    columns = columns_of(*[message(topic=topic) for topic in topics])
    assert grouped(columns, list(range(7))) == {(b"Aa", 0): [0, 2, 5], (b"BB", 0): [1, 3, 4], (b"C", 0): [6]}


def test_a_negative_queue_is_one_of_its_own() -> None:
    columns = columns_of(message(queue_id=-1), message(queue_id=0), message(queue_id=-1))
    assert grouped(columns, [0, 1, 2]) == {(b"T", -1): [0, 2], (b"T", 0): [1]}


@given(st.lists(st.tuples(st.sampled_from(["Aa", "BB", "AaAa", "BBBB", "AaBB", "T"]), st.integers(0, 3)), max_size=40))
def test_every_row_is_in_one_group(queues: list[tuple[str, int]]) -> None:
    expected: dict[tuple[bytes, int], list[int]] = {}
    for row, (topic, queue_id) in enumerate(queues):
        expected.setdefault((topic.encode(), queue_id), []).append(row)
    columns = columns_of(*[message(topic=topic, queue_id=queue_id) for topic, queue_id in queues])
    assert grouped(columns, list(range(len(queues)))) == expected


@pytest.mark.parametrize("ending", ["close", "lose queues"])
def test_topics_with_one_hash_have_queues_of_their_own_in_a_store(tmp_path: Path, ending: str) -> None:
    with opened(tmp_path) as store:
        for number in range(50):
            store.append(message(b"%d" % number, "Aa" if number % 3 else "BB", keys="k", tag="A"))
        flush(store)
    if ending == "lose queues":
        (tmp_path / "consumequeue").rename(tmp_path / "lost")
    with opened(tmp_path) as store:
        for topic, expected in (("Aa", [1, 2]), ("BB", [0])):
            own = [number for number in range(50) if number % 3 in expected]
            assert [int(record.body) for record in read_all(store, topic)] == own
            assert {record.topic for record in store.query(topic, "k", 64)} == {topic}
            assert len(store.query(topic, "A", 64, index_type=IndexType.TAG)) == len(own)


# The bytes, and all ways to them.


def test_a_queue_entry_has_the_bytes_of_the_specification(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL, now_ms=Clock(1_700_000_000_123)) as store:
        # Seven messages in front of it, 1024 bytes in all.
        for size in (146,) * 6 + (148,):
            store.append(message(b"x" * (size - 92), "T", 3, unique=None))
        appended = store.append(message(b"hi", "T", 3, tag="A", unique=None))
        assert (appended.physical_offset, appended.queue_offset, appended.end) == (1024, 7, 1125)
        flush(store)
    raw = (tmp_path / "consumequeue/T/3/00000000000000000000").read_bytes()
    assert raw[140:160] == bytes.fromhex("0000000000000400 00000065 0000000000000041")
    assert raw[160:].strip(b"\0") == b""
    log = (tmp_path / "commitlog/00000000000000000000").read_bytes()
    assert log[1024:1125] == bytes.fromhex(
        "00000065 daa320a7 58932aac 00000003 00000000 0000000000000007 0000000000000400 00000000"
        "0000018bcfe56800 0a000001 0000c350 0000018bcfe5687b 0a000002 00002a9f 00000000"
        "0000000000000000 00000002 6869 01 54 0007 54414753 01 41 02"
    )
    assert verify(tmp_path, SMALL) == []


NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "TAG", "XTAGS", "KEYS ", "A", ""])
VALUES = st.text(st.sampled_from("aA1 é😀\x01\x00"), max_size=6) | st.just("x" * 200)
ENDS = st.sampled_from(["\x02", "\x02\x02", "\x01\x02", ""])
PROPERTIES = st.lists(st.tuples(NAMES, st.sampled_from(["\x01", ""]), VALUES, ENDS).map("".join), max_size=6).map(
    "".join
)
TOPICS = st.sampled_from(["T", "Aa", "BB", SCHEDULE_TOPIC])


@settings(max_examples=50)
@given(st.lists(st.tuples(TOPICS, PROPERTIES), min_size=1, max_size=5), st.sampled_from([1, 60]))
def test_whatever_the_properties_hold_queues_and_index_say_what_the_log_says(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[str, str]], repeats: int
) -> None:
    """`opened` compares all entries with the columns of the log: written one by one or many at once, they agree."""
    with opened(tmp_path_factory.mktemp("store")) as store:
        for topic, properties in messages * repeats:
            store.append(message(topic=topic)._replace(properties_text=properties))
        flush(store)
        assert sum(store.max_offset(topic, 0) for topic in ("T", "Aa", "BB", SCHEDULE_TOPIC)) == repeats * len(messages)


@pytest.mark.parametrize("tag", ["\ud800", "a\udfff", "\udcff" * 20])
@pytest.mark.parametrize("repeats", [FEW, MANY])
def test_what_cannot_be_stored_as_it_is_counts_as_it_is_stored(tmp_path: Path, tag: str, repeats: int) -> None:
    with opened(tmp_path) as store:
        for _ in range(repeats):
            store.append(message(tag=tag, keys=tag, unique=tag))
        flush(store)


@pytest.mark.parametrize("repeats", [FEW, MANY])
def test_single_messages_and_batches_may_come_in_any_order(tmp_path: Path, repeats: int) -> None:
    with opened(tmp_path) as store:
        bodies = []
        for number in range(repeats):
            store.append(message(b"single %d" % number))
            store.append_records(batch([b"first %d" % number, b"second %d" % number]), ("1.2.3.4", 1), ("1.2.3.4", 2))
            bodies += [b"single %d" % number, b"first %d" % number, b"second %d" % number]
            if number % 7 == 0:
                store.publish()
        flush(store)
        assert [bytes(record.body) for record in read_all(store)] == bodies
        assert len(store.query("T", "A", 64, index_type=IndexType.TAG)) == min(2 * repeats, 64)


def test_a_refused_append_leaves_the_queue_where_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.append(message(b"0")).queue_offset == 0
        for refused in (message(b"x" * (5 << 20)), message()._replace(properties_text="x" * 40_000)):
            with pytest.raises(IllegalMessageError, match="bytes"):
                store.append(refused)
        with pytest.raises(IllegalMessageError, match="bytes"):
            store.append_records(batch([b"x" * 5000] * 4), ("1.2.3.4", 1), ("1.2.3.4", 2))
        assert store.append(message(b"1")).queue_offset == 1
        flush(store)
        assert [bytes(record.body) for record in read_all(store)] == [b"0", b"1"]


def test_without_an_index_only_queues_have_entries(tmp_path: Path) -> None:
    without = replace(SMALL, message_index_enable=False)
    with Store(tmp_path, without) as store:
        for number in range(MANY):
            store.append(message(b"%d" % number, keys="k", tag="A"))
        store.append_records(batch([b"x"]), ("1.2.3.4", 1), ("1.2.3.4", 2))
        flush(store)
        assert len(read_all(store)) == MANY + 1
        assert store.query("T", "k", 10) == []
    assert not (tmp_path / "index").exists()
    assert verify(tmp_path, without) == []
