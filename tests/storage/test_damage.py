"""Damage as tables: this was written, so it was damaged, this much must be left.

Whatever was done to a store, it opens; nothing that it gives back was altered; new messages get numbers that nobody
has seen; and once it was closed, the consistency check finds what recovery could not mend, and nothing else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from storing import BORN_HOST, SMALL, STORE_HOST, Clock, batch, flush, hurried, message, read_all

from pocketmq.protocol.message import RecordView
from pocketmq.storage.store import Store
from pocketmq.storage.verify import Problem, verify

SEGMENT = SMALL.mapped_file_size_commit_log
SECTOR = 512

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
    """A store to be copied and damaged."""

    root: Path
    records: list[Stored]

    @property
    def last_batch(self) -> list[Stored]:
        return [stored for stored in self.records if stored.body.startswith(b"batch")]

    def of(self, *queue: str | int) -> list[Stored]:
        return [stored for stored in self.records if stored.queue == queue]


class Writer:
    """Appends messages, each a millisecond later and with a body and a key of its own, and takes them down."""

    def __init__(self, root: Path) -> None:
        self.records: list[Stored] = []
        self._root = root
        self._clock = Clock()
        self.store = self._open()

    def _open(self) -> Store:
        return Store(self._root, SMALL, now_ms=self._clock)

    def append(self, topic: str, queue_id: int, size: int = 0) -> None:
        unique = f"U{len(self.records):031d}"
        body = f"{unique} of {topic} {queue_id} ".encode().ljust(size, b"#")
        self._clock.now_ms += 1
        appended = self.store.append(message(body, topic, queue_id, unique=unique, tag=f"{topic}{queue_id}"))
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


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    with hurried():
        yield


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Four segments. It was stopped once early on and saved once in the third segment, before the process ended."""
    root = tmp_path_factory.mktemp("crashed") / "store"
    writer = Writer(root)
    write_most(writer)
    writer.store.queues.write_out()
    writer.store.abandon()
    assert len(list((root / "commitlog").iterdir())) == 4
    return Built(root, writer.records)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The same, after an orderly stop."""
    root = tmp_path_factory.mktemp("stopped") / "store"
    writer = Writer(root)
    write_most(writer)
    writer.store.close()
    return Built(root, writer.records)


@pytest.fixture
def built(request: pytest.FixtureRequest) -> Built:
    """One of the two, by name."""
    result: Built = request.getfixturevalue(request.param)
    return result


either = pytest.mark.parametrize("built", ["crashed", "stopped"], indirect=True)


def write_most(writer: Writer) -> None:
    for _ in range(3):
        writer.append(*OLD, 100)
    while writer.store.log.end < 2 * SEGMENT:
        for queue in QUEUES[:3]:
            writer.append(*queue, 700)
        if len(writer.records) == 24:
            flush(writer.store)
            writer.reopen()
    flush(writer.store)
    writer.store.save_progress()
    while writer.store.log.end < 3 * SEGMENT:
        for queue in QUEUES[:3]:
            writer.append(*queue, 900)
    writer.append_batch("T", 1, [f"batch {number} ".encode().ljust(250, b"+") for number in range(12)])
    for queue in ("T", 0), ("U", 0), ("T", 0):
        writer.append(*queue)
    flush(writer.store)


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[Built], Path]:
    """Copies of a store, each in the place of the last one."""

    def copy(built: Built) -> Path:
        root = tmp_path / "store"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(built.root, root)
        return root

    return copy


# What is checked.


def survey(root: Path, built: Built, lost: Iterable[Stored] = (), doubtful: Iterable[Stored] = ()) -> list[Problem]:
    """Open a damaged store, check that it is as good as it can be, close it, and return what `verify` has to say.

    The messages in `lost` must be gone, those in `doubtful` may be; if they are not, then with the right body.
    """
    gone, unsure = set(lost), {stored.unique for stored in doubtful}
    needed = [stored for stored in built.records if stored not in gone and stored.unique not in unsure]
    with Store(root, SMALL, now_ms=Clock(1_800_000_000_000)) as store:
        check_all(store, built, needed, gone)
        flush(store)
    problems = verify(root, SMALL)
    # And once more: nothing that was dropped comes back.
    with Store(root, SMALL) as store:
        check_all(store, built, needed, gone)
        store.abandon()
    return problems


def check_all(store: Store, built: Built, needed: Sequence[Stored], gone: set[Stored]) -> None:
    by_body = {stored.body: stored for stored in built.records}
    found: dict[tuple[str, int, int], RecordView] = {}
    for topic, queue_id in {stored.queue for stored in built.records}:
        for record in read_all(store, topic, queue_id):
            found[topic, queue_id, record.queue_offset] = record
            assert bytes(record.body) in by_body, f"{record} was altered"
            assert by_body[bytes(record.body)] not in gone, f"{record} should be gone"
    for stored in needed:
        record = found.get((stored.topic, stored.queue_id, stored.number))
        assert record is not None, f"{stored} is lost"
        assert bytes(record.body) == stored.body
        keys = [found.physical_offset for found in store.query(stored.topic, stored.unique, 64)]
        assert keys == [stored.start], f"{stored} is not found by its key"
    for queue in {stored.queue for stored in needed}:
        last = max(stored.number for stored in needed if stored.queue == queue)
        assert store.max_offset(*queue) > last


def next_number(root: Path, topic: str, queue_id: int) -> int:
    with Store(root, SMALL) as store:
        return store.append(message(b"new", topic, queue_id)).queue_offset


def segment(root: Path, offset: int) -> Path:
    return root / "commitlog" / f"{offset // SEGMENT * SEGMENT:020d}"


def overwrite(root: Path, offset: int, data: bytes) -> None:
    """Change bytes of the log."""
    with segment(root, offset).open("r+b") as file:
        file.seek(offset % SEGMENT)
        file.write(data)


def flip(root: Path, offset: int, bit: int) -> None:
    with segment(root, offset).open("r+b") as file:
        file.seek(offset % SEGMENT)
        byte = file.read(1)[0]
        file.seek(offset % SEGMENT)
        file.write(bytes([byte ^ 1 << bit]))


@contextmanager
def case(*name: object) -> Iterator[None]:
    """Name the case of a loop that fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise


# The end of the log.


def zero_behind(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes(SEGMENT - place))


def cut_behind(path: Path, place: int) -> None:
    os.truncate(path, place)
    os.truncate(path, SEGMENT)


@either
@pytest.mark.parametrize("cut", [zero_behind, cut_behind])
def test_a_log_that_is_cut_at_any_byte_of_its_last_records_ends_with_the_record_before(
    built: Built, copies: Callable[[Built], Path], cut: Callable[[Path, int], None]
) -> None:
    for place in range(built.records[-3].start, built.records[-1].end):
        with case(place):
            root = copies(built)
            (root / "config/cleanStop.json").unlink(missing_ok=True)
            cut(segment(root, place), place % SEGMENT)
            lost = [stored for stored in built.records if stored.body_end > place]
            # No checksum covers what follows the body: if all lengths are there, the record still counts.
            doubtful = [stored for stored in built.records if stored.body_end <= place < stored.end]
            assert survey(root, built, lost, doubtful) == []


@either
def test_every_bit_of_a_record_matters_to_nobody_else(built: Built, copies: Callable[[Built], Path]) -> None:
    victim = built.records[-8]
    assert victim in built.last_batch
    others = [stored for stored in built.records if stored != victim]
    for position in range(victim.start, victim.end):
        for bit in range(8):
            with case(position - victim.start, bit):
                root = copies(built)
                (root / "config/cleanStop.json").unlink(missing_ok=True)
                flip(root, position, bit)
                problems = survey(root, built, doubtful=[victim])
                assert all(str(victim.start) in problem.what for problem in problems)
