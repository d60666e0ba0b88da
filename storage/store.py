"""The store as a broker sees it: append messages, read them by queue, by key and by place.

**Who may call.** One thread owns the store and calls everything but the methods under "In other threads": those wait
for the disk, belong elsewhere (`workers.py` has two threads that do nothing else), and are safe there.

**From an append to a reader.** `append` copies a message into the log, and adds the entry of its queue. `publish`,
called when a burst of appends is over and again when a flush is, lets readers see all that they may by now, and says
which queues have news. With SYNC_FLUSH that is what has been flushed, with ASYNC_FLUSH all that was appended. From
then on a message is found by its keys too, though the index is told of many at a time (`indexing.py`).

**What a crash leaves.** With SYNC_FLUSH all that `is_durable` was ever true of; with ASYNC_FLUSH the end of the
process loses nothing, a loss of power what was not flushed. `recovery.py` says how the rest is made whole again.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.ids import Host, pack_host
from pocketmq.protocol.message import MAX_TOPIC_BYTES_V1, MessageRecord, RecordView
from pocketmq.storage import lookup
from pocketmq.storage.burst import Batch, Burst, Place, place_of
from pocketmq.storage.checkpoint import Checkpoint, write_checkpoint
from pocketmq.storage.clean_stop import CleanStop
from pocketmq.storage.commit_log import CommitLog
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.delay_levels import parse_delay_levels
from pocketmq.storage.disk import make_folder
from pocketmq.storage.dispatch import NO_QUEUE_ENTRY, entry_tag, entry_tags
from pocketmq.storage.errors import DiskFullError, FlushFailedError, IllegalMessageError, StorageError, StoreClosedError
from pocketmq.storage.layout import StorePaths
from pocketmq.storage.lookup import Boundary, IndexType
from pocketmq.storage.process_lock import StoreLock, mark_stopped
from pocketmq.storage.reading import ReadPlan, ReadRequest, ReadResult, plan
from pocketmq.storage.recovery import Recovered, recover
from pocketmq.storage.retention import FullDisk, parse_delete_when
from pocketmq.storage.settings import FlushDiskType, StoreSettings

logger = logging.getLogger("pocketmq.storage")

# Names that a broker makes of a group's may be longer than others.
_LONG_TOPICS = ("%RETRY%", "%DLQ%")

# A record may be so much larger than its body.
_RECORD_EXTRA = 64 * 1024


class Appended(NamedTuple):
    """Where messages went: the place of the first, and the end of the log behind the last."""

    physical_offset: int
    queue_offset: int
    store_timestamp: int
    end: int


# Calling the class itself takes three times as long.
_appended = partial(tuple.__new__, Appended)


class Arrival(NamedTuple):
    """News in a queue: the messages from `start` to `end` can be read now."""

    topic: str
    queue_id: int
    start: int
    end: int


def system_now_ms() -> int:
    return time.time_ns() // 1_000_000


class Store:
    """A store directory that is open. Who opens it closes it, best with `with`."""

    def __init__(
        self, root: Path, settings: StoreSettings | None = None, *, now_ms: Callable[[], int] = system_now_ms
    ) -> None:
        """Open a directory, making it if need be, and recover what it holds.

        Raises `StoreLockedError`, `StoreUnusableError` or `DiskFullError`.
        """
        self.settings = settings or StoreSettings()
        self.paths = StorePaths(root)
        parse_delete_when(self.settings.delete_when)
        self._delays = parse_delay_levels(self.settings.message_delay_level)
        make_folder(root)
        self._lock = StoreLock.acquire(self.paths.lock)
        try:
            self._take_over(recover(self.paths, self.settings, now_ms), now_ms)
            self._save_if_possible()
        except BaseException:
            self._lock.release()
            raise

    def _take_over(self, recovered: Recovered, now_ms: Callable[[], int]) -> None:
        self.report = recovered.report
        self.log = CommitLog(recovered.files, recovered.end, recovered.last_store_timestamp, now_ms)
        self.queues = recovered.queues
        self._table = self.queues.table
        self.index = recovered.indexing.index
        self._indexing = recovered.indexing
        self.now_ms = now_ms
        self.flush_wanted = threading.Event()
        self._deleted = recovered.deleted
        self._is_sync = self.settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._max_body = self.settings.max_message_size
        self._hot_bytes = _memory_bytes() * self.settings.access_message_in_memory_max_ratio // 100
        self._burst = Burst()
        self._waiting: deque[Burst] = deque()
        self.last_published = recovered.last_record  # where the last message begins that readers may see
        self._flushed = threading.Condition()
        self._trash = deque(self.paths.trash.iterdir() if self.paths.trash.is_dir() else ())
        # Why nothing is appended, the first that holds: what is there to be said for good, and for now.
        self._refusal: Callable[[], StorageError] | None = None
        self._choosing = threading.Lock()
        self._ended: StorageError | None = None
        self._index_full: DiskFullError | None = None
        self.full_disks: tuple[FullDisk, ...] = ()
        self._indexing.start_at(Place(recovered.last_record, recovered.last_store_timestamp))
        self._heed_index()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.paths.root}: {self.log.min_offset} to {self.log.end}, flushed to {self.log.flushed}>"

    # Appending.

    def append(self, record: MessageRecord) -> Appended:
        """Store one message; its offsets and its store time are the store's to give.

        Raises `IllegalMessageError`, `DiskFullError`, `FlushFailedError` or `StoreClosedError`, and `OSError` if the
        disk itself fails: then it is not stored.
        """
        if self._refusal is not None:
            raise self._refusal()
        if len(record.body) > self._max_body:
            raise IllegalMessageError(f"a body of {len(record.body)} bytes is larger than maxMessageSize")
        topic, queue_id = record.topic, record.queue_id
        queue = self._table.get((topic, queue_id)) or self._new_queue(topic, queue_id)
        burst, sys_flag, properties, queue_offset = self._burst, record.sys_flag, record.properties_text, 0
        if sys_flag & NO_QUEUE_ENTRY:
            physical_offset, size, store_timestamp = self.log.append(record, 0)
        else:
            queue_offset = queue.end
            physical_offset, size, store_timestamp = self.log.append(record, queue_offset)
            queue.append(physical_offset, size, entry_tag(topic, properties, store_timestamp, self._delays))
            burst.queues[queue] = queue_offset + 1
        burst.messages.append((queue.index_prefix_hash, physical_offset, store_timestamp, properties, sys_flag))
        end = burst.end = physical_offset + size
        return _appended((physical_offset, queue_offset, store_timestamp, end))

    def append_records(self, columns: RecordColumns, born_host: Host, store_host: Host) -> Appended:
        """Store a batch: records of one topic and queue, back to back, with zeros where the store fills in.

        `unpack_records_body` checks what comes from outside and gives such columns. Raises what `append` does; then
        none is stored.
        """
        if self._refusal is not None:
            raise self._refusal()
        if int(columns.total_size.max()) > self.settings.max_message_size + _RECORD_EXTRA:
            raise IllegalMessageError("a record of the batch is larger than maxMessageSize allows")
        topic = str(columns.topics[:1].tolist()[0], "utf-8", "replace")
        queue_id = int(columns.queue_id[0])
        born, stored = _pack_ipv4(born_host), _pack_ipv4(store_host)
        queue = self._table.get((topic, queue_id)) or self._new_queue(topic, queue_id)
        first = queue.end
        numbers = np.arange(first, first + len(columns))
        offsets, store_timestamp = self.log.append_run(columns, numbers, born, stored)
        tags = entry_tags(columns, np.full(len(columns), store_timestamp), self._delays)
        queue.extend(offsets, columns.total_size.astype(np.int64), tags)
        batch = Batch.of(columns, offsets, store_timestamp, has_index=self.settings.message_index_enable)
        burst = self._burst
        burst.queues[queue] = queue.end
        burst.messages.append(batch)
        burst.end = self.log.end
        return Appended(int(offsets[0]), first, store_timestamp, burst.end)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Make a queue for its first message."""
        if len(topic) > MAX_TOPIC_BYTES_V1 and not topic.startswith(_LONG_TOPICS):
            raise IllegalMessageError(f"a topic of {len(topic)} characters; {MAX_TOPIC_BYTES_V1} are allowed")
        return self.queues.create(topic, queue_id)

    # Publishing.

    def publish(self) -> list[Arrival]:
        """Let readers see what they may, and tell which queues have news. To be called when a burst is over."""
        if self._burst:
            self._waiting.append(self._burst)
            self._burst = Burst()
            self.flush_wanted.set()
        ready = self._take_ready(self.readable_end)
        arrivals = [self._show(queue, end) for queue, end in ready.queues.items()]
        if ready:
            self.last_published = place_of(ready.messages[-1]).physical_offset
        self._indexing.add(ready.messages)
        self._heed_index()
        return arrivals

    def _take_ready(self, limit: int) -> Burst:
        """All bursts that lie in front of `limit`, as one."""
        ready = self._waiting.popleft() if self._waiting and self._waiting[0].end <= limit else Burst()
        while self._waiting and self._waiting[0].end <= limit:
            ready.join(self._waiting.popleft())
        return ready

    def _show(self, queue: ConsumeQueue, end: int) -> Arrival:
        start, queue.readable = queue.readable, end
        self.queues.changed(queue)
        return Arrival(queue.topic, queue.queue_id, start, end)

    def _heed_index(self) -> None:
        """While the disk has no room for index entries, nothing more is appended."""
        if self._indexing.full is not self._index_full:
            self._index_full = self._indexing.full
            self._choose_refusal()

    def is_durable(self, end: int) -> bool:
        """Whether the log is on disk up to this offset, and so would survive a loss of power."""
        return end <= self.log.flushed

    # Reading.

    def plan_read(self, request: ReadRequest) -> ReadPlan:
        """Look up what a pull asks for; `fetch` of the plan reads it, in any thread."""
        queue = self.queues.get(request.topic, request.queue_id)
        return plan(request, queue, self.log, self.settings, self._hot_bytes)

    def read(self, request: ReadRequest) -> ReadResult:
        """The messages that a pull asks for, here and now."""
        return self.plan_read(request).fetch()

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset of the oldest message that is left; 0 without a queue."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.correct_min_offset(self.log.min_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the newest message that can be read; 0 without a queue."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.readable

    def record_at(self, physical_offset: int) -> RecordView | None:
        """The record that begins at an offset of the log; None if none does, or if nobody may read it yet."""
        return lookup.record_at(self.log, physical_offset, self.readable_end)

    @property
    def readable_end(self) -> int:
        """Up to where the log may be read."""
        return self.log.flushed if self._is_sync else self.log.end

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """When a message was stored; None if it is not there."""
        queue = self.queues.get(topic, queue_id)
        if queue is None or not queue.correct_min_offset(self.log.min_offset) <= queue_offset < queue.readable:
            return None
        return lookup.time_of(self.log, queue, queue_offset)

    def earliest_store_time(self) -> int:
        """When the oldest message of the log was stored; -1 without any."""
        return lookup.earliest_time(self.log)

    def offset_by_time(self, topic: str, queue_id: int, moment_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The queue offset for a moment, between the queue's first message and its end."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else lookup.offset_by_time(self.log, queue, moment_ms, boundary)

    def query(
        self,
        topic: str,
        key: str,
        most: int,
        begin_ms: int = 0,
        end_ms: int = 2**63 - 1,
        index_type: IndexType = IndexType.KEY,
    ) -> list[RecordView]:
        """Messages with a key (or a tag), stored between two moments: the newest ones, at most 64, oldest first."""
        most = min(most, self.settings.max_msgs_num_batch)
        places = range(self._deleted.end_of(topic), self.readable_end)
        with self._indexing.complete_index() as index:
            return lookup.find_by_key(self.log, index, topic, key, most, begin_ms, end_ms, index_type, places)

    # Topics.

    def delete_topic(self, topic: str) -> None:
        """Forget all messages of a topic, for good: one of the same name starts at 0.

        Raises `DiskFullError`, and then it has not been deleted.
        """
        self.publish()
        self._deleted.add(topic, self.log.end)
        for burst in (*self._waiting, self._burst):
            burst.forget(topic)
        folder = self.queues.remove_topic(topic, self.paths.trash)
        if folder is not None:
            self._trash.append(folder)

    def forget_deleted_topics(self) -> None:
        """Forget deleted topics of which the log has nothing left."""
        self._deleted.forget_before(self.log.min_offset)

    # In other threads.

    def flush(self) -> int:
        """Bring the log to disk, for all who wait for it at once; returns how far it is."""
        if isinstance(self._ended, FlushFailedError):
            raise self._ended
        try:
            flushed = self.log.flush()
        except OSError as error:
            raise self.fail(error) from error
        with self._flushed:
            self._flushed.notify_all()
        return flushed

    def fail(self, error: OSError) -> FlushFailedError:
        """Stop acknowledging for good: after a failed flush nobody knows what is on disk."""
        if isinstance(self._ended, FlushFailedError):
            return self._ended
        failure = FlushFailedError(
            f"{self.paths.root}: the disk failed while data was being flushed ({error}); "
            "nothing is stored any more: look after the disk and start again, which reads what is there"
        )
        logger.critical("%s", failure)
        self._ended = failure
        self._choose_refusal()
        with self._flushed:
            self._flushed.notify_all()
        return failure

    def wait_durable(self, end: int, timeout: float) -> bool:
        """Wait until the log is on disk up to `end`; False if that takes longer. Raises `FlushFailedError`."""
        with self._flushed:
            self._flushed.wait_for(lambda: self.is_durable(end) or self._ended is not None, timeout)
        if isinstance(self._ended, FlushFailedError):
            raise self._ended
        return self.is_durable(end)

    def save_progress(self) -> None:
        """Bring queues and index to disk, and note how far they are: no start will read what lies before."""
        self._indexing.file()
        progress = self._indexing.progress
        self.flush()
        try:
            self.queues.write_out()
            self.queues.sync()
            self.index.sync()
            write_checkpoint(
                self.paths.checkpoint,
                Checkpoint(
                    physic_msg_timestamp=self.log.flushed_timestamp,
                    logics_msg_timestamp=progress.store_timestamp,
                    index_msg_timestamp=self.index.full_timestamp,
                    logics_physical_offset=progress.physical_offset,
                ),
            )
        except DiskFullError:
            raise
        except OSError as error:
            raise self.fail(error) from error

    def _save_if_possible(self) -> None:
        """Save what recovery did. A full disk is no reason to refuse to read from it."""
        try:
            self.save_progress()
        except DiskFullError as error:
            logger.warning("%s", error)

    def refuse(self, full: tuple[FullDisk, ...]) -> None:
        """Take note of the disks that are too full to be written to; with none, writing goes on."""
        if full != self.full_disks:
            self.full_disks = full
            self._choose_refusal()

    def _choose_refusal(self) -> None:
        with self._choosing:  # or a thread that knew less would have the last word
            ended, index_full, full = self._ended, self._index_full, self.full_disks
            if ended is not None:
                self._refusal = lambda: type(ended)(str(ended))
            elif full:
                self._refusal = full[0].error
            elif index_full is not None:
                self._refusal = lambda: DiskFullError(index_full.path, index_full.free_bytes, index_full.setting)
            else:
                self._refusal = None

    def empty_trash(self) -> None:
        """Delete the files of topics that were deleted."""
        while self._trash:
            shutil.rmtree(self._trash.popleft())

    # The end.

    def close(self) -> None:
        """Bring everything to disk and give the directory up. After a failed flush: give it up as it is."""
        if isinstance(self._ended, StoreClosedError):
            return
        try:
            if self._ended is None:
                self._stop_cleanly()
        except DiskFullError as error:
            logger.error("%s; the next start completes what could not be written", error)
        finally:
            self._ended = StoreClosedError(f"{self.paths.root} was closed; open it again to go on")
            self._choose_refusal()
            self._give_up()

    def _give_up(self) -> None:
        self.log.close()
        self._indexing.close()
        self._lock.release()

    def _stop_cleanly(self) -> None:
        self.flush()
        self.publish()
        self.save_progress()
        self.empty_trash()
        self.log.delete_spare()
        if self._indexing.full is not None:
            logger.error(
                "%s: the disk is full, the index is not complete; the next start completes it", self.paths.root
            )
            return
        CleanStop(
            self.log.end,
            self._indexing.progress.physical_offset,
            self.log.last_store_timestamp,
            {(queue.topic, queue.queue_id): queue.end for queue in self.queues},
            [(file.name, file.header.next_entry) for file in self.index.files],
        ).save(self.paths.config)
        mark_stopped(self.paths.abort)

    def abandon(self) -> None:
        """Give the directory up as it is, as if the process had ended: the next start recovers it."""
        if not isinstance(self._ended, StoreClosedError):
            self._ended = StoreClosedError(f"{self.paths.root} was given up")
            self._choose_refusal()
            self._give_up()


def _pack_ipv4(host: Host) -> bytes:
    """A host as a batch has room for it; who has another one appends its messages one by one."""
    try:
        packed = pack_host(host)
    except LocalProtocolError as error:
        raise IllegalMessageError(str(error)) from error
    if len(packed) != 8:
        raise IllegalMessageError(f"{host[0]} is not an IPv4 address, and a batch has no room for another one")
    return packed


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
