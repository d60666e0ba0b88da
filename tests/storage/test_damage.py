"""Damage as tables: this was written, so it was damaged, this much must be left.

Whatever was done to a store, it opens; nothing that it gives back was altered; new messages get numbers that nobody
has seen; and once it was closed, the consistency check finds what recovery could not mend, and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from storing import BORN_HOST, SMALL, STORE_HOST, Clock, batch, flush, hurried, message, read_all

from pocketmq.protocol import fastjson
from pocketmq.protocol.message import iter_records
from pocketmq.storage import indexing
from pocketmq.storage.reading import ReadRequest, ReadStatus
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import Problem, verify

SECTOR = 512

# For the tables with a case for every byte or bit: the smallest store that has all kinds of files.
TINY = replace(SMALL, mapped_file_size_commit_log=4096)

OLD = ("V", 3)  # all of its messages are in the first segment
QUEUES = [("T", 0), ("T", 1), ("U", 0), OLD]


class Stored(NamedTuple):
    """A message and where it is."""

    topic: str
    queue_id: int
    number: int
    body: bytes
    unique: str
    start: int
    end: int

    @property
    def queue(self) -> tuple[str, int]:
        return self.topic, self.queue_id

    @property
    def body_end(self) -> int:
        return self.start + 88 + len(self.body)


class Built(NamedTuple):
    """A store, its files kept in memory, to be damaged over and over again."""

    settings: StoreSettings
    files: dict[str, bytes]
    records: list[Stored]

    def put(self, root: Path) -> None:
        """Make a folder hold what the store was, and nothing else."""
        for path in [path for path in root.rglob("*") if path.is_file()]:
            if str(path.relative_to(root)) not in self.files:
                path.unlink()
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    @property
    def queues(self) -> set[tuple[str, int]]:
        return {stored.queue for stored in self.records}

    def segment(self, root: Path, offset: int) -> tuple[Path, int]:
        """The file with an offset of the log, and the place in it."""
        place = offset % self.settings.mapped_file_size_commit_log
        return root / "commitlog" / f"{offset - place:020d}", place

    def overwrite(self, root: Path, offset: int, data: bytes) -> None:
        """Change bytes of the log."""
        path, place = self.segment(root, offset)
        with path.open("r+b") as file:
            file.seek(place)
            file.write(data)

    def log(self, start: int, end: int) -> bytes:
        """What the log held."""
        path, place = self.segment(Path(), start)
        return self.files[str(path)][place : place + end - start]


class Writer:
    """Appends messages, each a millisecond later and with a body and a key of its own, and takes them down."""

    def __init__(self, root: Path, settings: StoreSettings) -> None:
        self.records: list[Stored] = []
        self._root = root
        self._clock = Clock()
        self._settings = settings
        self.store = self._open()

    def _open(self) -> Store:
        return Store(self._root, self._settings, now_ms=self._clock)

    def append(self, topic: str, queue_id: int, size: int = 0, *, key: bool = True) -> None:
        unique = f"u{len(self.records):04d}" if key else ""
        body = f"{len(self.records)} ".encode().ljust(size, b"#")
        self._clock.now_ms += 1
        appended = self.store.append(message(body, topic, queue_id, unique=unique or None))
        place = appended.physical_offset, appended.end
        self.records.append(Stored(topic, queue_id, appended.queue_offset, body, unique, *place))

    def append_batch(self, topic: str, queue_id: int, bodies: list[bytes]) -> None:
        columns = batch(bodies, topic, queue_id)
        self._clock.now_ms += 1
        appended = self.store.append_records(columns, BORN_HOST, STORE_HOST)
        rows = zip(bodies, columns.property_column(b"UNIQ_KEY").tolist(), columns.total_size.tolist(), strict=True)
        start = appended.physical_offset
        for number, (body, unique, size) in enumerate(rows, appended.queue_offset):
            self.records.append(Stored(topic, queue_id, number, body, unique.decode(), start, start + size))
            start += size

    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()

    def end(self, *, clean: bool) -> Built:
        flush(self.store)
        if clean:
            self.store.close()
        else:
            self.store.queues.write_out()
            self.store.abandon()
        files = {
            str(path.relative_to(self._root)): path.read_bytes() for path in self._root.rglob("*") if path.is_file()
        }
        return Built(self._settings, files, self.records)


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "_ENOUGH", 7)  # messages are in the index without anybody asking
        yield


@cache
def tiny(*, clean: bool) -> Built:
    """Two segments, of which the second ends with five records that are as small as can be."""
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), TINY)
        for number in range(8):
            writer.append("TU"[number % 2], 0, 500)
        for number in range(5):
            writer.append("TU"[number % 2], 0, key=False)
        return writer.end(clean=clean)


@cache
def small(*, clean: bool) -> Built:
    """Four segments. It was stopped once early on and saved once in the third segment; at the end there is a batch."""
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), SMALL)
        for _ in range(3):
            writer.append(*OLD, 100)
        while writer.store.log.end < 2 * SMALL.mapped_file_size_commit_log:
            for queue in QUEUES[:3]:
                writer.append(*queue, 700)
            if len(writer.records) == 24:
                writer.reopen()
        flush(writer.store)
        writer.store.save_progress()
        while writer.store.log.end < 3 * SMALL.mapped_file_size_commit_log:
            for queue in QUEUES[:3]:
                writer.append(*queue, 900)
        writer.append_batch("T", 1, [f"batch {number} ".encode().ljust(250, b"+") for number in range(12)])
        for queue in ("T", 0), ("U", 0), ("T", 0):
            writer.append(*queue)
        return writer.end(clean=clean)


either = pytest.mark.parametrize("clean", [False, True], ids=["crashed", "stopped"])


# What is checked.


def survey(root: Path, built: Built, lost: Iterable[Stored] = (), doubtful: Iterable[Stored] = ()) -> list[Problem]:
    """Open a damaged store, check that it is as good as it can be, close it, and return what `verify` has to say.

    The messages in `lost` must be gone, those in `doubtful` may be; if they are not, then with the right body.
    """
    gone = set(lost)
    needed = set(built.records) - gone - set(doubtful)
    with Store(root, built.settings) as store:
        check(store, built, needed, gone)
    return verify(root, built.settings)


def check(store: Store, built: Built, needed: set[Stored], gone: set[Stored]) -> None:
    """All that is needed can be read and found, nothing that is gone, and nothing else than what was written."""
    by_body = {stored.body: stored for stored in built.records}
    others = {stored.start for stored in built.records if stored not in needed}
    for queue in built.queues:
        found = {record.queue_offset: record for record in read_all(store, *queue)}
        bodies = {number: bytes(record.body) for number, record in found.items()}
        for number, body in bodies.items():
            assert body in by_body, f"{found[number]} was altered"
            assert by_body[body] not in gone, f"{found[number]} should be gone"
        for stored in needed:
            if stored.queue == queue:
                assert bodies.get(stored.number) == stored.body, f"{stored} is lost"
    for stored in needed:
        if not stored.unique:
            continue
        places = {record.physical_offset for record in store.query(stored.topic, stored.unique, 64)}
        # Damage may have given a record the key of another.
        assert places - others == {stored.start}, f"{stored} is not found by its key"


@contextmanager
def case(*name: object) -> Iterator[None]:
    """Name the case of a loop that fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise


# The end of the log, byte by byte and bit by bit.


def zero_behind(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes(os.path.getsize(path) - place))


def cut_behind(path: Path, place: int) -> None:
    size = os.path.getsize(path)
    os.truncate(path, place)
    os.truncate(path, size)


@pytest.mark.parametrize(
    ("clean", "cut", "step"), [(False, zero_behind, 1), (True, cut_behind, 3)], ids=["crashed", "stopped"]
)
def test_a_log_that_is_cut_at_any_byte_of_its_last_records_ends_with_the_record_before(
    tmp_path: Path, clean: bool, cut: Callable[[Path, int], None], step: int
) -> None:
    built = tiny(clean=clean)
    for offset in range(built.records[-3].start, built.records[-1].end, step):
        with case(offset):
            built.put(tmp_path)
            (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
            cut(*built.segment(tmp_path, offset))
            lost = [stored for stored in built.records if stored.body_end > offset]
            # No checksum covers what follows the body: if all lengths are there, the record still counts.
            doubtful = [stored for stored in built.records if stored.body_end <= offset < stored.end]
            problems = survey(tmp_path, built, lost, doubtful)
            assert [problem for problem in problems if not tells_of_a_flip(problem, doubtful)] == []


# A record for each bit that can be flipped, and good ones before and behind it in its queue.
FLIPS = replace(
    SMALL,
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20 * 64,
    max_hash_slot_num=1000,
    max_index_num=10_000,
)
# No two of the queues differ in one bit: what a flip moves to another queue does not meet another victim there.
FLIP_QUEUES = [2 * number + number.bit_count() % 2 for number in range(64)]


@cache
def flips(*, clean: bool) -> Built:
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), FLIPS)
        for queue_id in FLIP_QUEUES:
            writer.append("T", queue_id, 20)
        size = writer.records[0].end
        for bit in range(8 * size):
            writer.append("T", FLIP_QUEUES[bit % 64], 20)
            writer.append("T", FLIP_QUEUES[bit % 64], 20)
        return writer.end(clean=clean)


@either
def test_a_flipped_bit_hurts_no_other_record(tmp_path: Path, clean: bool) -> None:
    built = flips(clean=clean)
    built.put(tmp_path)
    (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
    victims = built.records[len(FLIP_QUEUES) :: 2]
    for bit, victim in enumerate(victims):
        raw = built.log(victim.start, victim.end)
        offset = bit // 8
        built.overwrite(tmp_path, victim.start + offset, bytes([raw[offset] ^ 1 << bit % 8]))
    problems = survey(tmp_path, built, doubtful=victims)
    assert [problem for problem in problems if not tells_of_a_flip(problem, victims)] == []


def tells_of_a_flip(problem: Problem, victims: list[Stored]) -> bool:
    """Whether a problem is one that a flip leaves and nobody can mend: a gap, or a record that says of itself what
    cannot be."""
    place = re.search(r"no record can be read from (\d+)|the record at (\d+) names queue", problem.what)
    if place is not None:
        return any(int(place[1] or place[2]) == victim.start for victim in victims)
    patterns = (
        r"time goes back at the record at \d+",
        r"message -?\d+ is in the log and not in the queue",
        r"entry \d+ does not lead to its record",
        r"and \d+ more like this",
    )
    return any(re.fullmatch(pattern, problem.what) for pattern in patterns)


# Sectors: what a disk writes at once.


def zeros(_built: Built, _offset: int) -> bytes:
    return bytes(SECTOR)


def garbage(_built: Built, offset: int) -> bytes:
    return Random(offset).randbytes(SECTOR)


def other_records(built: Built, offset: int) -> bytes:
    """What was once meant for another place."""
    return built.log(offset - 5 * SECTOR, offset - 4 * SECTOR)


def ones(_built: Built, _offset: int) -> bytes:
    return b"\xff" * SECTOR


@either
@pytest.mark.parametrize("content", [zeros, garbage, other_records, ones])
def test_a_lost_sector_of_the_last_batch_takes_only_its_own_records_along(
    tmp_path: Path, content: Callable[[Built, int], bytes], clean: bool
) -> None:
    built = small(clean=clean)
    batch = [stored for stored in built.records if stored.body.startswith(b"batch")]
    assert len(batch) == 12
    first = batch[0].start - batch[0].start % SECTOR
    for sector in range(first, batch[-1].end, SECTOR):
        with case(content.__name__, sector):
            built.put(tmp_path)
            (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
            built.overwrite(tmp_path, sector, content(built, sector))
            hit = [stored for stored in built.records if stored.start < sector + SECTOR and sector < stored.end]
            problems = survey(tmp_path, built, doubtful=hit)
            assert [problem for problem in problems if not tells_of_a_flip(problem, hit)] == []


# Records that say of themselves what cannot be. Their CRC is right: it covers the body alone.


def change(root: Path, built: Built, victim: Stored, field: int, value: bytes) -> None:
    built.overwrite(root, victim.start + field, value)


QUEUE_ID, QUEUE_OFFSET = 12, 20


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (QUEUE_ID, struct.pack(">i", -1)),
        (QUEUE_ID, struct.pack(">i", 2**31 - 1)),
        (QUEUE_OFFSET, struct.pack(">q", -1)),
        (QUEUE_OFFSET, struct.pack(">q", 2**20)),
        (QUEUE_OFFSET, struct.pack(">q", 2**40)),
        (QUEUE_OFFSET, struct.pack(">q", 2**63 - 1)),
    ],
)
@pytest.mark.parametrize("place", [-3, -1], ids=["between others", "at the end"])
def test_an_impossible_queue_or_number_costs_neither_memory_nor_other_messages(
    tmp_path: Path, field: int, value: bytes, place: int
) -> None:
    built = tiny(clean=False)
    victim = built.records[place]
    built.put(tmp_path)
    built.overwrite(tmp_path, victim.start + field, value)
    tracemalloc.start()
    try:
        problems = survey(tmp_path, built, doubtful=[victim])
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert [problem for problem in problems if not tells_of_a_flip(problem, [victim])] == []


@pytest.mark.parametrize("topic", [b".", b"/", b"\0", b"\xff", b"\\", b" "])
def test_a_damaged_topic_never_becomes_a_path(tmp_path: Path, topic: bytes) -> None:
    built = tiny(clean=False)
    victim = built.records[-3]
    root = tmp_path / "outer" / "store"
    built.put(root)
    built.overwrite(root, victim.body_end + 1, topic)
    assert built.log(victim.body_end, victim.body_end + 2) == b"\1T"
    problems = survey(root, built, doubtful=[victim])
    assert [problem for problem in problems if not tells_of_a_flip(problem, [victim])] == []
    assert [path.name for path in (root / "consumequeue").iterdir()] in (["T", "U"], ["U", "T"])
    assert [path.name for path in tmp_path.iterdir()] == ["outer"]
    assert [path.name for path in root.parent.iterdir()] == ["store"]


def test_a_long_topic_that_leads_out_of_the_store_never_becomes_a_path(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), TINY)
        for name in "longer_topic", "longer_topic", "T":
            writer.append(name, 0)
        built = writer.end(clean=False)
    root = tmp_path / "outer" / "store"
    for topic in b"../../escape", b"/etc/escaped", b"a/../b/../cc", b"............":
        with case(topic):
            built.put(root)
            built.overwrite(root, built.records[1].body_end + 1, topic)
            problems = survey(root, built, doubtful=[built.records[1]])
            assert [problem for problem in problems if not tells_of_a_flip(problem, [built.records[1]])] == []
            assert sorted(path.name for path in (root / "consumequeue").iterdir()) == ["T", "longer_topic"]
            assert [path.name for path in tmp_path.iterdir()] == ["outer"]


# The middle of the log.


def damage_body(root: Path, built: Built, victim: Stored) -> None:
    built.overwrite(root, victim.body_end - 1, b"!")


def gap_of(victim: Stored) -> str:
    return f"no record can be read from {victim.start} to {victim.end}"


@either
def test_after_a_wrong_crc_the_log_goes_on_and_readers_step_over_the_lost_slot(tmp_path: Path, clean: bool) -> None:
    built = small(clean=clean)
    in_queue = [stored for stored in built.records if stored.queue == ("U", 0)]
    victim = in_queue[-3]
    built.put(tmp_path)
    (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
    damage_body(tmp_path, built, victim)
    with Store(tmp_path, SMALL) as store:
        check(store, built, set(built.records) - {victim}, {victim})
        assert store.report.gaps == [(victim.start, victim.end)]
        result = store.read(ReadRequest("U", 0, victim.number, 1))
        assert result.status is ReadStatus.FOUND
        assert [record.queue_offset for record in iter_records(result.to_bytes())] == [victim.number + 1]
        assert store.append(message(b"new", "U")).queue_offset == in_queue[-1].number + 1
    assert [problem.what for problem in verify(tmp_path, SMALL)] == [gap_of(victim)]


@either
@pytest.mark.parametrize("queue", [("U", 0), ("W", 1)], ids=["the last of a queue", "the only one of a queue"])
def test_the_numbers_of_lost_messages_are_not_given_to_others(
    tmp_path: Path, queue: tuple[str, int], clean: bool
) -> None:
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), TINY)
        for name in ("U", 0), ("T", 0), queue, ("T", 0):
            writer.append(*name)
        built = writer.end(clean=clean)
    victim = built.records[2]
    built.put(tmp_path)
    (tmp_path / "config/cleanStop.json").unlink(missing_ok=True)
    damage_body(tmp_path, built, victim)
    with Store(tmp_path, TINY) as store:
        check(store, built, set(built.records) - {victim}, {victim})
        assert store.append(message(b"new", *queue)).queue_offset == victim.number + 1
        flush(store)
        assert [bytes(record.body) for record in read_all(store, *queue)][-1] == b"new"
    assert [problem.what for problem in verify(tmp_path, TINY)] == [gap_of(victim)]


@either
def test_damage_in_segments_that_recovery_does_not_read_is_found_by_verify(tmp_path: Path, clean: bool) -> None:
    built = small(clean=clean)
    victim = built.records[6]
    built.put(tmp_path)
    damage_body(tmp_path, built, victim)
    with Store(tmp_path, SMALL) as store:
        assert store.report.start > victim.end
        assert store.report.gaps == []
    problems = [problem.what for problem in verify(tmp_path, SMALL)]
    assert gap_of(victim) in problems
    assert f"entry {victim.number} leads to no record" in problems
    assert any(f"leads to {victim.start}, where no record has that key" in problem for problem in problems)


@either
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment_is_reported_and_read_around(
    tmp_path: Path, number: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    built = small(clean=clean)
    start = number * SMALL.mapped_file_size_commit_log
    end = start + SMALL.mapped_file_size_commit_log
    lost = [stored for stored in built.records if start <= stored.start < end]
    built.put(tmp_path)
    built.segment(tmp_path, start)[0].unlink()
    with Store(tmp_path, SMALL) as store:
        check(store, built, set(built.records) - set(lost), set(lost))
        for queue in built.queues:
            last = max(stored.number for stored in built.records if stored.queue == queue)
            assert store.append(message(b"new", *queue)).queue_offset == last + 1
    if number:  # otherwise the log just begins later
        assert f"a segment is missing, nothing is left of {start} to {end}" in caplog.text
        assert f"a segment is missing: there is nothing from {start} to {end}" in [
            problem.what for problem in verify(tmp_path, SMALL)
        ]
    else:
        assert verify(tmp_path, SMALL) == []


# What is behind a cut must stay dead.


@pytest.mark.parametrize("again", ["killed", "stopped"])
def test_what_was_cut_off_does_not_come_back_after_another_restart(tmp_path: Path, again: str) -> None:
    """New messages end where old ones began: what was left there would fit to the byte."""
    built = tiny(clean=False)
    for cut in -4, -3, -2, -1:
        with case(cut):
            built.put(tmp_path)
            victim = built.records[cut]
            damage_header(tmp_path, built, victim)
            for later in built.records[cut:][1:]:
                damage_body(tmp_path, built, later)
            with Store(tmp_path, TINY) as store:
                assert store.log.end == victim.start
                check(store, built, set(built.records[:cut]), set(built.records[cut:]))
                appended = store.append(message(victim.body[:-1] + b"N", victim.topic, unique=None))
                assert (appended.queue_offset, appended.end) == (victim.number, victim.end)
                flush(store)
                if again == "killed":
                    store.abandon()
            with Store(tmp_path, TINY) as store:
                new = read_all(store, victim.topic)[-1]
                assert (new.queue_offset, bytes(new.body)) == (victim.number, victim.body[:-1] + b"N")
                assert store.log.end == victim.end
            assert verify(tmp_path, TINY) == []


def damage_header(root: Path, built: Built, victim: Stored) -> None:
    built.overwrite(root, victim.start, b"\xff" * 8)


# Files that are missing or hold something else.


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(Random(path.name).randbytes(path.stat().st_size))


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def fill_with_ones(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def write_a_list(path: Path) -> None:
    path.write_bytes(b"[1,2]")


def write_wrong_types(path: Path) -> None:
    """A document with every member of another kind than it was."""
    document = fastjson.loads(path.read_bytes())
    path.write_bytes(fastjson.dumps(dict.fromkeys(document, "x")))


def write_wrong_values(path: Path) -> None:
    document = fastjson.loads(path.read_bytes())
    path.write_bytes(fastjson.dumps({name: {"T": {"0": -5, "x": None}, "..": {"0": 2**62}} for name in document}))


CONFIG_DAMAGE = (remove, empty, halve, fill_with_garbage, write_a_list, write_wrong_types, write_wrong_values)
FILE_DAMAGE = (remove, empty, halve, fill_with_garbage, fill_with_zeros, fill_with_ones)


@cache
def with_config(*, clean: bool) -> Built:
    """A store whose config folder has both files of the store, with backups, and some of others."""
    with TemporaryDirectory() as folder:
        writer = Writer(Path(folder), SMALL)
        for _ in range(2):
            for topic in "TUX":
                writer.append(topic, 0)
            flush(writer.store)
            writer.store.delete_topic("X")
            writer.records = [stored for stored in writer.records if stored.topic != "X"]
            writer.reopen()
        for topic in "TU":
            writer.append(topic, 0)
        (Path(folder) / "config/topics.json").write_text('{"mine": 1}')
        (Path(folder) / "config/unknown").write_text("?")
        (Path(folder) / "timerwheel").write_text("!")
        return writer.end(clean=clean)


@either
@pytest.mark.parametrize("name", ["cleanStop.json", "deletedTopics.json"])
@pytest.mark.parametrize("backup", [None, *CONFIG_DAMAGE[:4]], ids=lambda damage: damage and damage.__name__)
def test_a_store_opens_whatever_became_of_its_config_files(
    tmp_path: Path, name: str, backup: Callable[[Path], None] | None, clean: bool
) -> None:
    built = with_config(clean=clean)
    for damage in CONFIG_DAMAGE:
        with case(damage.__name__):
            built.put(tmp_path)
            damage(tmp_path / "config" / name)
            if backup is not None:
                backup(tmp_path / "config" / f"{name}.bak")
            with Store(tmp_path, SMALL) as store:
                check(store, built, set(built.records), set())
                assert store.append(message(topic="T")).queue_offset == 3
            if name == "cleanStop.json":
                assert verify(tmp_path, SMALL) == []
            for other in "config/topics.json", "config/unknown", "timerwheel":
                assert (tmp_path / other).read_bytes() == built.files[other]


@either
@pytest.mark.parametrize("abort", [False, True], ids=["without abort", "with abort"])
@pytest.mark.parametrize("damage", FILE_DAMAGE)
def test_a_store_opens_whatever_became_of_its_checkpoint(
    tmp_path: Path, damage: Callable[[Path], None], abort: bool, clean: bool
) -> None:
    built = small(clean=clean)
    for clean_stop in True, False:
        with case(clean_stop):
            built.put(tmp_path)
            damage(tmp_path / "checkpoint")
            (tmp_path / "abort").unlink(missing_ok=True)
            if abort:
                (tmp_path / "abort").touch()
            if not clean_stop:
                (tmp_path / "config/cleanStop.json").unlink()
            assert survey(tmp_path, built) == []


@either
@pytest.mark.parametrize("clean_stop", [True, False], ids=["", "without cleanStop.json"])
def test_queues_and_index_are_made_again(tmp_path: Path, clean: bool, clean_stop: bool) -> None:
    built = small(clean=clean)
    folders = {str(folder) for name in built.files for folder in Path(name).parents}
    parts = sorted(folder for folder in folders if folder.startswith(("consumequeue", "index")))
    # What is told by nothing else than that file is which queues there were.
    for gone in parts if clean_stop else ["consumequeue", "index"]:
        with case(gone):
            built.put(tmp_path)
            if not clean_stop:
                (tmp_path / "config/cleanStop.json").unlink()
            shutil.rmtree(tmp_path / gone)
            assert survey(tmp_path, built) == []


@either
def test_a_single_file_of_queues_or_index_that_is_gone_is_made_again_or_missed_by_verify(
    tmp_path: Path, clean: bool
) -> None:
    built = small(clean=clean)
    for gone in sorted(name for name in built.files if name.startswith(("consumequeue/", "index/"))):
        with case(gone):
            built.put(tmp_path)
            (tmp_path / gone).unlink()
            with Store(tmp_path, SMALL) as store:
                check(store, built, set(), set())
            if verify(tmp_path, SMALL) == []:
                with Store(tmp_path, SMALL) as store:
                    check(store, built, set(built.records), set())
