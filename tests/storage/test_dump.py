"""The store for a human: RocketMQ's files are told as they are, damaged ones too, and nothing is ever changed."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures import FIXTURE_SETTINGS, STORES, expand_store
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.fastjson import ObjectKey, dumps, loads
from pocketmq.protocol.message import MAGIC_BLANK, MessageRecord, encode_record
from pocketmq.storage import dump as dump_module
from pocketmq.storage.dump import dump
from pocketmq.storage.layout import (
    BLANK,
    FILLER,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    QUEUE_ENTRY_SIZE,
    pack_queue_entry,
    segment_name,
    segment_offset,
)
from pocketmq.storage.process_lock import StoreLock
from pocketmq.storage.segment_dump import iso_time, printable
from pocketmq.storage.settings import StoreSettings

Store = tuple[Path, dict[str, Any]]

RECORD = re.compile(
    r"(\d+) record of (\d+) bytes: (.+) queue (\d+) offset (\d+), stored (\S+), tags (.+), keys (.+), "
    r"body of (\d+) bytes(?:, compressed|: .*)?"
)
BLANK_RECORD = re.compile(r"(\d+) blank record of (\d+) bytes, to the end of the segment")
QUEUE_ENTRY = re.compile(r"(\d+) record at (\d+), (\d+) bytes, (?:tags code (-?\d+)|deliver at (\S+))")
INDEX_LINE = re.compile(r"(\d+) hash (\d+), record at (\d+), stored (\S+), previous (\d+)")


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return expand_store(request.param, tmp_path_factory.mktemp("store"))


def lines_of(path: Path, settings: StoreSettings = FIXTURE_SETTINGS) -> list[str]:
    """The lines below the first, which says what kind of file it is."""
    lines = list(dump(path, settings))
    assert lines[0].startswith(f"{path}: ")
    assert all(line.isprintable() for line in lines)
    return lines[1:]


def milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def numbers(match: re.Match[str]) -> list[int]:
    return [int(group) for group in match.groups() if group is not None]


# What RocketMQ wrote.


def test_every_record_has_its_line(store: Store) -> None:
    path, expected = store
    seen = []
    for segment in expected["commitLog"]:
        *lines, last = lines_of(path / "commitlog" / segment["name"])
        start = int(segment["name"])
        records = [RECORD.fullmatch(line) for line in lines]
        assert len(records) == segment["messages"]
        seen += [record.groups() for record in records if record]
        if segment["stop"] == "blank":
            blank = BLANK_RECORD.fullmatch(last)
            assert blank
            assert numbers(blank) == [start + segment["blankAt"], segment["blankSize"]]
        else:
            used = segment["used"]
            assert last == f"{start + used} end of the data, {segment['size'] - used} bytes are left"
    assert seen == [tuple(map(str, told(message))) for message in expected["messages"]]


def told(message: dict[str, Any]) -> Iterator[str | int]:
    """What a line says about a message, from its description."""
    yield from (message[key] for key in ("physicalOffset", "totalSize", "topic", "queueId", "queueOffset"))
    yield iso_time(message["storeTimestamp"])
    yield message["properties"].get("TAGS") or "-"
    yield " ".join(message["properties"].get("KEYS", "").split()) or "-"
    yield message["bodyLength"]


def test_bodies_are_shown_in_part(store: Store) -> None:
    path, expected = store
    lines = [
        line for file in sorted((path / "commitlog").iterdir()) for line in lines_of(file) if " record of " in line
    ]
    lines = [line for line in lines if "blank" not in line]
    for line, message in zip(lines, expected["messages"], strict=True):
        if message["sysFlag"] & MessageFlag.COMPRESSED:
            assert line.endswith(" bytes, compressed")
        elif message["bodyLength"] <= 40:
            text = bytes.fromhex(message["bodyHex"]).decode()
            assert line.endswith(f" bytes: {text}" if text else " bytes")
        else:
            assert line.endswith("...")


def test_every_queue_entry_has_its_line(store: Store) -> None:
    path, expected = store
    for queue, entries in expected["consumeQueue"].items():
        told = [line for file in sorted((path / "consumequeue" / queue).iterdir()) for line in lines_of(file)]
        matches = [match for line in told if (match := QUEUE_ENTRY.fullmatch(line))]
        seen = [
            [*map(int, each.group(1, 2, 3)), int(each[4]) if each[4] else milliseconds(each[5])] for each in matches
        ]
        assert seen == entries
        assert {each[5] is not None for each in matches} == {queue.startswith("SCHEDULE_TOPIC_XXXX/")}
        left = -len(entries) % 100
        assert told[len(entries) :] == ([f"{len(entries)} end of the entries, {left} are left"] if left else [])


def test_every_index_entry_has_its_line(store: Store) -> None:
    path, expected = store
    for each in expected["index"]:
        first, last, slots, following, *entries = lines_of(path / "index" / each["name"])
        assert first == f"first record at {each['beginPhy']}, stored {iso_time(each['begin'])}"
        assert last == f"last record at {each['endPhy']}, stored {iso_time(each['end'])}"
        assert slots == f"{len(each['slots'])} of 50 slots are used, {each['hashSlotCount']} by the header"
        assert following == f"the next entry is number {each['indexCount']}, there is room below 200"
        matches = [match.groups() for line in entries if (match := INDEX_LINE.fullmatch(line))]
        assert [
            [int(key_hash), int(offset), (milliseconds(time) - each["begin"]) // 1000, int(previous)]
            for _, key_hash, offset, time, previous in matches
        ] == each["entries"][1:]
        assert [int(match[0]) for match in matches] == list(range(1, each["indexCount"]))


def test_the_small_files_are_told(store: Store) -> None:
    path, expected = store
    values = [int(line.split()[1].rstrip(",")) for line in lines_of(path / "checkpoint")]
    assert values == list(expected["checkpoint"].values())
    assert lines_of(path / "checkpoint")[0].endswith(f", {iso_time(values[0])}")
    if expected["abort"] is not None:
        assert lines_of(path / "abort") == [f"process id: {expected['abort'] or 'none, as RocketMQ 4 leaves it'}"]
    assert list(dump(path / "lock", FIXTURE_SETTINGS)) == [
        f"{path / 'lock'}: lock of the process that uses the store, never opened, 4 bytes"
    ]


def test_configuration_is_shown_as_the_document_it_is(store: Store) -> None:
    path, _ = store
    files = sorted((path / "config").glob("*.json*"))
    for file in files:
        lines = lines_of(file)
        assert loads("\n".join(lines)) == loads(file.read_bytes())
    offsets = lines_of(path / "config/consumerOffset.json")
    assert offsets[offsets.index('    "FTags@CG_main": {') + 1].rstrip(",") == "      0: 5"


def test_a_folder_has_a_line_for_each_file(store: Store) -> None:
    path, expected = store
    lines = lines_of(path)
    assert [line.split(": ")[0] for line in lines] == sorted(
        (str(Path(file["path"]).relative_to("store")) for file in expected["files"]), key=Path
    )
    for each in expected["commitLog"]:
        used = f"{each['messages']} records, {each['used']} of 1048576 bytes used"
        assert f"commitlog/{each['name']}: commit log segment, {used}" in lines
    for queue, entries in expected["consumeQueue"].items():
        counts = [int(line.split()[4]) for line in lines if line.startswith(f"consumequeue/{queue}/")]
        assert sum(counts) == len(entries)
    for each in expected["index"]:
        assert f"index/{each['name']}: index file, {each['indexCount'] - 1} of 199 entries used" in lines


def test_what_is_not_known_takes_one_line(store: Store) -> None:
    path, expected = store
    timer = path / "timerwheel"
    assert timer.exists() == (expected["rocketmq"] == "5.5.0")
    if timer.exists():
        assert list(dump(timer, FIXTURE_SETTINGS)) == [f"{timer}: unknown kind of file, 38707200 bytes"]


def test_nothing_is_changed(store: Store) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in store[0].rglob("*")}

    before = state()
    for file in [store[0], *before]:
        assert list(dump(file, FIXTURE_SETTINGS))
    assert state() == before


def test_a_lock_that_is_held_stays_so(tmp_path: Path) -> None:
    program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1)"

    def others_get_it() -> bool:
        return subprocess.run([sys.executable, "-c", program, tmp_path / "lock"], capture_output=True).returncode == 0

    lock = StoreLock.acquire(tmp_path / "lock")
    for path in tmp_path / "lock", tmp_path:
        assert list(dump(path, FIXTURE_SETTINGS))
    assert not others_get_it()
    lock.release()
    assert others_get_it()


# Damage. A segment of 600 bytes in the middle of a log: three records of 100 bytes and a blank one.

START = 6000
SMALL = StoreSettings(
    mapped_file_size_commit_log=600,
    mapped_file_size_consume_queue=5 * QUEUE_ENTRY_SIZE,
    max_hash_slot_num=4,
    max_index_num=5,
)


def record_of(number: int, **changes: Any) -> MessageRecord:
    record = MessageRecord(
        topic="T",
        body=b"hello",
        queue_id=3,
        born_timestamp=1_700_000_000_000,
        born_host=("10.0.0.1", 50000),
        store_timestamp=1_700_000_000_123,
        store_host=("10.0.0.2", 10911),
        queue_offset=number,
        physical_offset=START + 100 * number,
        properties_text="a\x01b",
    )
    return record._replace(**changes)


SOUND = b"".join(encode_record(record_of(number)) for number in range(3))
SEGMENT = SOUND + BLANK.pack(600 - len(SOUND), MAGIC_BLANK) + bytes(592 - len(SOUND))
OPEN_SEGMENT = SOUND + bytes(600 - len(SOUND))


def line_of(number: int) -> str:
    return (
        f"{START + 100 * number} record of 100 bytes: T queue 3 offset {number}, stored 2023-11-14T22:13:20.123Z, "
        f"tags -, keys -, body of 5 bytes: hello"
    )


BLANK_LINE = "6300 blank record of 300 bytes, to the end of the segment"


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def put(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


def test_the_small_segment_is_sound(tmp_path: Path) -> None:
    path = write(tmp_path, f"commitlog/{segment_name(START)}", SEGMENT)
    assert len(SOUND) == 300
    assert lines_of(path, SMALL) == [*map(line_of, range(3)), BLANK_LINE]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        pytest.param(
            put(SEGMENT, 190, b"?"),
            [line_of(0), "6100 no sound record: the CRC of its body is not 0x{crc:08x}; the next sound one is at 6200"],
            id="a byte of a body",
        ),
        pytest.param(
            put(SEGMENT, 100, bytes(4)),
            [
                line_of(0),
                "6100 no sound record: a body of 5 bytes does not fit into 0; the next sound one is at 6200",
            ],
            id="the size is zero",
        ),
        pytest.param(
            put(SEGMENT, 100, struct.pack(">i", 601)),
            [line_of(0), "6100 no sound record: only 500 of 601 bytes are left; the next sound one is at 6200"],
            id="the size is too large",
        ),
        pytest.param(
            put(SEGMENT, 104, b"\0"),
            [line_of(0), "6100 no sound record: unknown magic number 0xa320a7; the next sound one is at 6200"],
            id="another magic number",
        ),
        pytest.param(
            put(SEGMENT, 128, struct.pack(">q", 5)),
            [line_of(0), "6100 no sound record: it says that it lies at 5; the next sound one is at 6200"],
            id="a record of another place",
        ),
        pytest.param(
            put(SEGMENT, 100, bytes(100)),
            [line_of(0), "6100 zeros instead of a record; the next sound one is at 6200"],
            id="a record is missing",
        ),
        pytest.param(
            put(SEGMENT, 50, bytes(200)),
            ["6000 no sound record: {torn}; the next sound one is at 6300", BLANK_LINE],
            id="only the blank record is left",
        ),
    ],
)
def test_behind_damage_the_next_sound_record_is_found(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    path = write(tmp_path, f"commitlog/{segment_name(START)}", data)
    known = {"crc": int.from_bytes(SEGMENT[108:112]), "torn": "properties of 0 bytes do not end where the record does"}
    expected = [line.format_map(known) for line in lines]
    if BLANK_LINE not in expected:
        expected += [line_of(2), BLANK_LINE]
    assert lines_of(path, SMALL) == expected


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (OPEN_SEGMENT, "6300 end of the data, 300 bytes are left"),
        (put(OPEN_SEGMENT, 500, b"old"), "6300 end of the data, 300 bytes are left, not all of them zero"),
        (
            put(OPEN_SEGMENT, 300, b"\xff" * 8),
            "6300 no sound record: unknown magic number 0xffffffff; nor is there one",
        ),
        (
            put(SEGMENT, 300, struct.pack(">i", 200)),
            "6300 no sound record: blank record of 200 bytes where 300 are left",
        ),
        (SOUND + SOUND[:60], "6300 no sound record: only 60 bytes are left; nor is there one behind it"),
        (SOUND + SOUND[:95], "6300 no sound record: only 95 of 100 bytes are left; nor is there one behind it"),
        (SOUND + bytes(3), "6300 end of the data, 3 bytes are left"),
        (SOUND, line_of(2)),
    ],
)
def test_the_end_of_a_log_is_told_as_it_is(tmp_path: Path, data: bytes, last: str) -> None:
    path = write(tmp_path, f"commitlog/{segment_name(START)}", data)
    lines = lines_of(path, SMALL)
    assert lines[:3] == [*map(line_of, range(3))]
    assert len(lines) <= 4
    assert lines[-1].startswith(last)


@pytest.mark.parametrize(
    ("data", "summary"),
    [
        (SEGMENT, "3 records, 600 of 600 bytes used"),
        (OPEN_SEGMENT, "3 records, 300 of 600 bytes used"),
        (put(SEGMENT, 104, b"\0"), "1 records, 100 of 600 bytes used, then something that is no record"),
        (SOUND[:250], "2 records, 200 of 250 bytes used, then something that is no record"),
        (b"", "0 records, 0 of 0 bytes used"),
    ],
)
def test_the_summary_of_a_segment_stops_at_damage(tmp_path: Path, data: bytes, summary: str) -> None:
    name = f"commitlog/{segment_name(START)}"
    write(tmp_path, name, data)
    assert lines_of(tmp_path, SMALL) == [f"{name}: commit log segment, {summary}"]


def test_texts_stay_on_their_line(tmp_path: Path) -> None:
    record = record_of(
        0, topic="a\nb", body="水\r\n\x1b[0m\x85".encode() + b"\xff", properties_text="TAGS\x01\u2028\x02KEYS\x01x\ty z"
    )
    path = write(tmp_path, f"commitlog/{segment_name(START)}", encode_record(record))
    [line] = lines_of(path)
    assert r": a\nb queue" in line
    assert line.endswith(r"tags \u2028, keys x\ty z, body of 12 bytes: 水\r\n\x1b[0m\x85\xff")


def test_fillers_and_old_entries_are_told(tmp_path: Path) -> None:
    entry = pack_queue_entry(1024, 101, 65)
    path = write(tmp_path, "consumequeue/T/3/00000000000000000100", FILLER + entry + bytes(20) + entry + bytes(20))
    assert lines_of(path, SMALL) == [
        "5 filler, no message",
        "6 record at 1024, 101 bytes, tags code 65",
        "7 end of the entries, 3 are left, not all of them zero",
    ]


@pytest.mark.parametrize("entry", [pack_queue_entry(-1, 101, 0), pack_queue_entry(5, 0, 0), pack_queue_entry(5, -1, 0)])
def test_an_entry_that_cannot_be_one_ends_the_queue(tmp_path: Path, entry: bytes) -> None:
    path = write(tmp_path, "consumequeue/T/3/00000000000000000000", entry * 5)
    assert lines_of(path, SMALL) == ["0 end of the entries, 5 are left, not all of them zero"]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 0), (3, 2), (5, 4), (6, 4), (2**31 - 1, 4), (-(2**31), 0)])
def test_an_index_with_a_damaged_count_shows_what_there_is(tmp_path: Path, count: int, shown: int) -> None:
    header = INDEX_HEADER.pack(1_700_000_000_123, 0, 0, 0, 1, count)
    entries = np.array([(0, 0, 0, 0), *((7, 100 * number, 1, number - 1) for number in range(1, 5))], INDEX_ENTRY)
    slots = np.array([0, 0, 0, 4], INDEX_SLOT)
    lines = lines_of(write(tmp_path, f"index/{0:017}", header + slots.tobytes() + entries.tobytes()), SMALL)
    matches = [line for line in lines if INDEX_LINE.fullmatch(line)]
    assert len(matches) == shown
    assert all(line.endswith("stored 2023-11-14T22:13:21.123Z, previous 0") for line in matches[:1])
    assert (lines[-1] == "5 end of the data, before the entries are complete") == (count > 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"commitlog/{segment_name(0)}", 600),
        (f"consumequeue/T/0/{segment_name(0)}", 100),
        (f"index/{0:017}", 156),
        ("checkpoint", 4096),
    ],
)
def test_a_wrong_size_is_named(tmp_path: Path, name: str, expected: int) -> None:
    for size in 0, 1, 41, 7000:
        first, *_ = dump(write(tmp_path, name, bytes(size)), SMALL)
        assert first.endswith(f", {size} bytes; {expected} are expected")
    first, *_ = dump(write(tmp_path, name, bytes(expected)), SMALL)
    assert first.endswith(f", {expected} bytes")


def test_a_damaged_document_is_told_where(tmp_path: Path) -> None:
    path = write(tmp_path, "config/topics.json.bak", b'{"a":1,\x00')
    [line] = lines_of(path)
    assert line.startswith("unreadable JSON at character 7: ")


def test_a_huge_document_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_module, "LARGEST_DOCUMENT", 3)
    assert lines_of(write(tmp_path, "config/a.json", b"1234")) == ["too large to show: more than 3 bytes"]
    assert lines_of(write(tmp_path, "config/a.json", b"123")) == ["123"]


# Anything at all.

NAMES = {
    f"commitlog/{segment_name(START)}": SEGMENT,
    f"consumequeue/SCHEDULE_TOPIC_XXXX/0/{segment_name(0)}": FILLER + pack_queue_entry(0, 100, 1_700_000_000_000) * 3,
    f"index/{0:017}": INDEX_HEADER.pack(1, 2, 3, 4, 5, 4) + bytes(16) + bytes(100),
    "checkpoint": bytes(4096),
    "abort": b"8468",
    "config/consumerOffset.json": b'{"offsetTable":{"T@g":{0:8,1:7}}}',
    "config/timercheck": b"",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("garbage")


def check_any(folder: Path, name: str, data: bytes) -> None:
    path = write(folder, name, data)
    assert lines_of(path, SMALL) is not None
    [line] = [line for line in lines_of(folder, SMALL) if line.startswith(name)]
    assert line.startswith(f"{name}: ")


@given(name=st.sampled_from(sorted(NAMES)), data=st.binary(max_size=700))
def test_garbage_is_told_in_lines(folder: Path, name: str, data: bytes) -> None:
    check_any(folder, name, data)


@given(
    name=st.sampled_from(sorted(NAMES)),
    places=st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=8)), max_size=4),
    size=st.none() | st.integers(0, 600),
)
def test_damage_is_told_in_lines(folder: Path, name: str, places: list[tuple[int, bytes]], size: int | None) -> None:
    data = NAMES[name]
    for position, new in places:
        data = put(data, min(position, len(data)), new)
    check_any(folder, name, data[:size])


@given(st.integers(0, 299), st.integers(1, 255))
def test_no_flip_of_a_byte_hides_the_other_records(folder: Path, position: int, difference: int) -> None:
    damaged = put(SEGMENT, position, bytes([SEGMENT[position] ^ difference]))
    lines = lines_of(write(folder, f"commitlog/{segment_name(START)}", damaged), SMALL)
    others = {line_of(number) for number in range(3) if number != position // 100}
    assert others <= set(lines)
    assert lines[-1] == BLANK_LINE


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
keys = st.text().filter(lambda key: key != "$ref") | st.integers(-(2**63), 2**63 - 1) | st.just(ObjectKey([("a", 1)]))
documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


@given(documents)
def test_any_document_reads_back_from_its_lines(folder: Path, document: Any) -> None:
    data = dumps(document, bare_integer_keys=True)
    lines = lines_of(write(folder, "config/any.json", data))
    if "\\" not in "".join(lines):  # an escape of ours is none of JSON
        assert loads("\n".join(lines)) == loads(data)


@given(st.text())
def test_printable_text_stays_as_it_is_and_all_text_becomes_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text) == text or not text.isprintable()


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_is_told_as_a_time(timestamp_ms: int) -> None:
    assert iso_time(timestamp_ms)
    if 0 <= timestamp_ms < 4_000_000_000_000:
        time = datetime.fromisoformat(iso_time(timestamp_ms))
        assert time.tzinfo == UTC
        assert round(time.timestamp() * 1000) == timestamp_ms


# Files as they are found.


def test_files_of_full_size_that_are_nearly_empty_are_quickly_told(tmp_path: Path) -> None:
    settings = StoreSettings()
    log = write(tmp_path, f"commitlog/{segment_name(START)}", SOUND)
    os.truncate(log, settings.mapped_file_size_commit_log)
    index = write(tmp_path, f"index/{0:017}", INDEX_HEADER.pack(0, 0, 0, 0, 0, 2**31 - 1))
    os.truncate(index, settings.index_file_size)
    assert lines_of(log, settings)[-1] == f"6300 end of the data, {2**30 - 300} bytes are left"
    assert lines_of(index, settings)[-1] == "1 end of the data, before the entries are complete"
    assert len(lines_of(tmp_path, settings)) == 2


def test_one_may_stop_reading_anywhere(store: Store) -> None:
    path, _ = store
    for file in (file for file in sorted(path.rglob("*")) if file.is_file()):
        lines = dump(file, FIXTURE_SETTINGS)
        for _ in zip(range(3), lines, strict=False):
            pass
        assert isinstance(lines, Generator)
        lines.close()


def make_link(path: Path) -> None:
    path.symlink_to(path.parent)


def make_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (os.mkfifo, "cannot be read: not a regular file"),
        (make_link, "link to the folder "),
        (make_broken_link, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None], line: str) -> None:
    path = tmp_path / "commitlog" / segment_name(0)
    path.parent.mkdir()
    make(path)
    [told] = lines_of(tmp_path)
    assert told.startswith(f"commitlog/{path.name}: {line}")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    assert list(dump(tmp_path / "none", SMALL)) == [f"{tmp_path / 'none'}: cannot be read: No such file or directory"]
    assert list(dump(tmp_path, SMALL)) == [f"{tmp_path}: folder"]


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, f"commitlog/{segment_name(START)}", SEGMENT)
    monkeypatch.chdir(path.parent)
    assert list(dump(Path(path.name), SMALL)) == list(dump(path, SMALL))


@pytest.mark.parametrize("name", ["commitlog/1", f"elsewhere/{segment_name(0)}", f"consumequeue/{segment_name(0)}"])
def test_a_file_in_the_wrong_place_is_not_known(tmp_path: Path, name: str) -> None:
    assert segment_offset(Path(name).name) in (0, None)
    assert lines_of(write(tmp_path, name, SEGMENT)) == []
