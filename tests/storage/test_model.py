"""The store against a model of it in plain Python, under random operations, ends of the process and losses of power.

What the model says of a message is all that a user may rely on: the end of the process loses nothing that was
appended, a loss of power nothing that `is_durable` was true of. What else is left of the log is up to chance; the
model takes it over after checking that it is what was appended, and goes on from there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from power import Power, PowerCut
from storing import BORN_HOST, SMALL, SMALL_ASYNC, STORE_HOST, Clock, batch, message, read_all

from pocketmq.protocol.message import RecordView
from pocketmq.storage import cleaning, indexing
from pocketmq.storage.cleaning import clean
from pocketmq.storage.lookup import IndexType
from pocketmq.storage.retention import Disk
from pocketmq.storage.scan import Gap
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Arrival, Store
from pocketmq.storage.verify import verify

T = TypeVar("T")
QueueName = tuple[str, int]

QUEUES: list[QueueName] = [("T", 0), ("T", 1), ("U", 0)]
TOPICS = ["T", "U"]

# Several to a page, and some that take a page or two.
SIZES = [0, 40, 300, 1500, 5000]
KEYS = ["", "a", "b", "a b"]
TAGS = ["", "x", "y"]
MAX_BATCH = 15_000
MAX_BYTES = 5 * SMALL.mapped_file_size_commit_log

# How a loss of power goes; None if only the process ends.
SEEDS = st.none() | st.integers(0, 2**32)


@dataclass(frozen=True)
class Message:
    """What was appended, and where the log ended behind it."""

    topic: str
    queue_id: int
    number: int
    body: bytes = field(repr=False)
    unique: str
    keys: str = ""
    tag: str = ""
    end: int = 0

    @property
    def queue(self) -> QueueName:
        return self.topic, self.queue_id


@dataclass
class Burst:
    """What is published together: where the log ended behind it, and how far the queues reach then."""

    end: int = 0
    queues: dict[QueueName, int] = field(default_factory=dict)


@dataclass
class Model:
    """What the store should hold. A slot without a message is one that was lost."""

    is_sync: bool
    slots: dict[QueueName, list[Message | None]] = field(default_factory=dict)
    readable: dict[QueueName, int] = field(default_factory=dict)
    burst: Burst = field(default_factory=Burst)
    waiting: list[Burst] = field(default_factory=list)
    end: int = 0
    flushed: int = 0
    begin: int = 0  # of the log: what lies before has been cleaned away

    def next_number(self, queue: QueueName) -> int:
        return len(self.slots.get(queue, ()))

    def append(self, messages: list[Message]) -> None:
        for entry in messages:
            self.slots.setdefault(entry.queue, []).append(entry)
            self.burst.queues[entry.queue] = entry.number + 1
        self.burst.end = self.end = messages[-1].end

    def publish(self) -> list[Arrival]:
        """The news, in no order."""
        if self.burst.queues:
            self.waiting.append(self.burst)
            self.burst = Burst()
        news: dict[QueueName, tuple[int, int]] = {}
        while self.waiting and self.waiting[0].end <= (self.flushed if self.is_sync else self.end):
            for queue, end in self.waiting.pop(0).queues.items():
                start = news.get(queue, (self.readable.get(queue, 0), 0))[0]
                news[queue] = start, end
                self.readable[queue] = end
        return [Arrival(*queue, start, end) for queue, (start, end) in news.items()]

    def flush(self) -> None:
        self.flushed = self.end

    def delete_topic(self, topic: str) -> None:
        for burst in (self.burst, *self.waiting):
            burst.queues = {queue: end for queue, end in burst.queues.items() if queue[0] != topic}
        for table in (self.slots, self.readable):
            for queue in [queue for queue in table if queue[0] == topic]:
                del table[queue]

    def restart(self, slots: dict[QueueName, list[Message | None]], begin: int, end: int) -> None:
        """Everything there is has been made readable, and durable."""
        self.begin = begin
        self.slots = slots
        self.readable = {queue: len(entries) for queue, entries in slots.items()}
        self.burst, self.waiting = Burst(), []
        self.end = self.flushed = end

    def in_queue(self, queue: QueueName) -> list[Message]:
        """What readers see of a queue."""
        slots = self.slots.get(queue, [])[: self.readable.get(queue, 0)]
        return [entry for entry in slots if entry is not None and entry.end > self.begin]

    def in_topic(self, topic: str) -> list[Message]:
        """What readers see of a topic, in the order of the log."""
        found = [entry for queue in self.slots if queue[0] == topic for entry in self.in_queue(queue)]
        return sorted(found, key=lambda entry: entry.end)


class StoreMachine(RuleBasedStateMachine):
    """A store, its model, and a disk that forgets."""

    store_settings: ClassVar[StoreSettings] = replace(SMALL, store_max_bytes=MAX_BYTES)

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(self.store_settings.flush_disk_type is FlushDiskType.SYNC_FLUSH)
        self.clock = Clock()
        self.count = 0  # of messages
        self.lives = 0  # of the directory
        self.gaps: set[Gap] = set()
        self.fuse_seed: int | None = None
        # What a call was at when the process ended: these messages may be there, this topic may be gone,
        # and the log may begin anywhere up to here.
        self.unsure: list[Message] = []
        self.unsure_deleted: str | None = None
        self.unsure_begin = 0
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(TemporaryDirectory())).resolve()
        (self.folder / "0").mkdir()
        self.power = Power(self.folder / "0")
        self.stack.callback(self.power.close)
        self.stack.enter_context(self.power.watching())
        # Whether the disk of the machine is full is of no interest here.
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(cleaning, "_disk", lambda path: Disk(path, 0, 1 << 40))
        # Messages get into the index now and then, not only when somebody asks.
        patch.setattr(indexing, "_ENOUGH", 7)
        self.store = self.open()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.power.fuse = None
                self.close_and_reopen()
                self.store.close()
                self.check_files()
        finally:
            self.store.abandon()
            self.stack.close()

    def open(self) -> Store:
        return Store(self.power.root, self.store_settings, now_ms=self.clock)

    def try_to(self, action: Callable[[], T]) -> T | None:
        """Do something to the store; None if the process ended meanwhile."""
        try:
            return action()
        except PowerCut:
            self.crash(self.fuse_seed)
            return None

    def manages(self, action: Callable[[], object]) -> bool:
        """Do something to the store; whether it came to its end."""

        def act() -> bool:
            action()
            return True

        return self.try_to(act) is not None

    # Appending.

    def new_message(self, queue: QueueName, size: int, ahead: int = 0) -> Message:
        self.count += 1
        body = f"message {self.count} ".encode().ljust(size, b"%d" % (self.count % 10))
        return Message(*queue, self.model.next_number(queue) + ahead, body, f"U{self.count:031X}")

    @rule(
        queue=st.sampled_from(QUEUES),
        size=st.sampled_from(SIZES),
        count=st.integers(1, 12),
        keys=st.sampled_from(KEYS),
        tag=st.sampled_from(TAGS),
    )
    def append(self, queue: QueueName, size: int, count: int, keys: str, tag: str) -> None:
        for _ in range(count):
            entry = replace(self.new_message(queue, size), keys=keys, tag=tag)
            record = message(entry.body, *queue, tag=tag or None, keys=keys or None, unique=entry.unique)
            self.unsure = [entry]
            appended = self.try_to(partial(self.store.append, record))
            self.unsure = []
            if appended is None:
                return
            assert appended.queue_offset == entry.number
            self.model.append([replace(entry, end=appended.end)])

    @rule(queue=st.sampled_from(QUEUES), size=st.sampled_from(SIZES), count=st.integers(1, 12))
    def append_batch(self, queue: QueueName, size: int, count: int) -> None:
        count = min(count, MAX_BATCH // (size + 200))
        entries = [self.new_message(queue, size, ahead) for ahead in range(count)]
        entries = [replace(entry, tag="z") for entry in entries]
        columns = batch([entry.body for entry in entries], *queue, "z", [entry.unique for entry in entries])
        self.unsure = entries
        appended = self.try_to(partial(self.store.append_records, columns, BORN_HOST, STORE_HOST))
        self.unsure = []
        if appended is not None:
            ends = (appended.physical_offset + columns.total_size.cumsum()).tolist()
            assert appended.queue_offset == entries[0].number
            assert appended.end == ends[-1]
            self.model.append([replace(entry, end=end) for entry, end in zip(entries, ends, strict=True)])

    @rule(milliseconds=st.sampled_from([-5000, 1, 700, 60_000]))
    def move_clock(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds

    # What the owner and the workers do.

    @rule()
    def publish(self) -> None:
        news = self.try_to(self.store.publish)
        if news is not None:
            assert sorted(news) == sorted(self.model.publish())

    @rule()
    def flush(self) -> None:
        flushed = self.try_to(self.store.flush)
        if flushed is not None:
            self.model.flush()
            assert flushed == self.model.flushed

    @rule()
    def publish_and_save(self) -> None:
        self.publish()
        self.flush()
        self.publish()
        self.try_to(self.store.save_progress)

    @rule(step=st.sampled_from(["save_progress", "write_out", "sync", "prepare_ahead", "empty_trash"]))
    def work(self, step: str) -> None:
        """One of the things that workers do, which change nothing that anybody sees."""
        steps: dict[str, Callable[[], None]] = {
            "save_progress": self.store.save_progress,
            "write_out": self.store.queues.write_out,
            "sync": self.store.queues.sync,
            "prepare_ahead": self.prepare_ahead,
            "empty_trash": self.store.empty_trash,
        }
        self.try_to(steps[step])
        self.model.flushed = max(self.model.flushed, self.store.log.flushed)

    def prepare_ahead(self) -> None:
        self.store.log.prepare_ahead()
        self.store.index.prepare_ahead()

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.unsure_deleted = topic
        if self.manages(lambda: self.store.delete_topic(topic)):
            self.model.publish()
            self.model.delete_topic(topic)
        self.unsure_deleted = None

    @rule()
    def clean(self) -> None:
        """Delete the oldest segments, so that a few are left."""
        self.unsure_begin = self.store.log.files.offsets[-1]
        if self.manages(lambda: clean(self.store)):
            self.model.begin = self.store.log.min_offset
        self.unsure_begin = 0

    # The end of the process, in order or not, and what follows.

    @rule()
    def close_and_reopen(self) -> None:
        if self.manages(self.store.close):
            self.check_files()
            self.reopen(everything=True)

    @rule(seed=SEEDS)
    def end_process(self, seed: int | None) -> None:
        self.crash(seed)

    @precondition(lambda self: self.power.fuse is None)
    @rule(syncs=st.integers(0, 30), seed=SEEDS)
    def light_fuse(self, syncs: int, seed: int | None) -> None:
        """End the process, or the power, inside of a call that is still to come."""
        self.power.fuse, self.fuse_seed = syncs, seed

    @rule(seed=st.integers(0, 2**32))
    def write_back(self, seed: int) -> None:
        self.power.write_back(Random(seed))

    def crash(self, seed: int | None) -> None:
        """End the process, and with a seed also the power."""
        self.power.fuse = None
        self.store.abandon()
        if seed is not None:
            self.lives += 1
            self.power.fail(self.folder / str(self.lives), Random(seed))
        self.reopen(everything=seed is None)

    def reopen(self, *, everything: bool) -> None:
        store = self.try_to(self.open)
        if store is not None:
            self.store = store
            self.take_over(everything=everything)

    def take_over(self, *, everything: bool) -> None:
        """Check what a restart has left, and make it what the model holds."""
        assert self.store.report.rejected == []
        self.gaps |= set(self.store.report.gaps)
        if self.unsure_deleted is not None and not any(
            self.store.max_offset(*queue) for queue in QUEUES if queue[0] == self.unsure_deleted
        ):
            self.model.delete_topic(self.unsure_deleted)
        slots = {queue: self.surviving(queue, everything) for queue in QUEUES}
        slots = {queue: entries for queue, entries in slots.items() if entries}
        self.model.restart(slots, self.store.log.min_offset, self.store.log.end)
        assert self.store.is_durable(self.store.log.end)
        self.read_and_query()

    def surviving(self, queue: QueueName, everything: bool) -> list[Message | None]:
        unsure = [entry for entry in self.unsure if entry.queue == queue]
        found = {record.queue_offset: record for record in read_all(self.store, *queue)}
        slots: list[Message | None] = []
        for number, entry in enumerate([*self.model.slots.get(queue, []), *unsure]):
            record = found.pop(number, None)
            if record is None:
                is_needed = (
                    entry is not None
                    and entry not in unsure
                    and entry.end > max(self.model.begin, self.unsure_begin)
                    and (everything or entry.end <= self.model.flushed)
                )
                assert not is_needed, f"{entry} is lost"
                # A segment that was deleted comes back if that had not got to the disk.
                slots.append(entry if entry is not None and 0 < entry.end <= self.store.log.min_offset else None)
            else:
                assert entry is not None, f"{record} has come back"
                slots.append(replace(entry, end=record.physical_offset + record.size))
                check(record, slots[-1])
        assert not found, f"{found} were never appended"
        end = self.store.max_offset(*queue)
        assert end <= len(slots)
        assert not any(slots[end:])
        return slots[:end]

    # Reading.

    @rule()
    def read_and_query(self) -> None:
        for queue in QUEUES:
            readable = self.model.readable.get(queue, 0)
            entries = self.model.in_queue(queue)
            records = read_all(self.store, *queue)
            assert self.store.max_offset(*queue) == readable
            assert [record.queue_offset for record in records] == [entry.number for entry in entries]
            for record, entry in zip(records, entries, strict=True):
                check(record, entry)
        for topic in TOPICS:
            entries = self.model.in_topic(topic)
            for entry in entries:
                assert self.query(topic, entry.unique, IndexType.UNIQUE_KEY) == [entry.end]
            for key in ("a", "b"):
                assert self.query(topic, key) == [entry.end for entry in entries if key in entry.keys.split(" ")][-64:]
            for tag in ("x", "y", "z"):
                assert (
                    self.query(topic, tag, IndexType.TAG) == [entry.end for entry in entries if entry.tag == tag][-64:]
                )

    def query(self, topic: str, key: str, index_type: IndexType = IndexType.KEY) -> list[int]:
        """Where the messages end that have a key."""
        records = self.store.query(topic, key, 64, index_type=index_type)
        return [record.physical_offset + record.size for record in records]

    def check_files(self) -> None:
        """The consistency check. What recovery could not read of the log is the only thing that may be missing."""
        fuse, self.power.fuse = self.power.fuse, None
        first = self.model.begin
        known = {f"no record can be read from {max(gap.start, first)} to {gap.end}" for gap in self.gaps}
        assert [problem for problem in verify(self.power.root, self.store_settings) if problem.what not in known] == []
        self.power.fuse = fuse


def check(record: RecordView, entry: Message | None) -> None:
    """A record must be the message that it is taken for."""
    assert entry is not None
    assert (record.topic, record.queue_id, record.queue_offset) == (entry.topic, entry.queue_id, entry.number)
    assert bytes(record.body) == entry.body
    assert record.physical_offset + record.size == entry.end


class AsyncStoreMachine(StoreMachine):
    store_settings = replace(SMALL_ASYNC, store_max_bytes=MAX_BYTES)


TestSyncFlush = StoreMachine.TestCase
TestSyncFlush.settings = settings(max_examples=60, stateful_step_count=40)
TestAsyncFlush = AsyncStoreMachine.TestCase
TestAsyncFlush.settings = settings(max_examples=60, stateful_step_count=40)
