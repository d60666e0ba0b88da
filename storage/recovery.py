"""Opening a store: what is in the log, and queues and index that say the same.

After a clean stop a small file tells all there is to know, and nothing is read. Otherwise the log is gone through
from where the checkpoint, the queues and the index are known to be right, and all that lies behind is dispatched
anew: entries of queues and index from there on are dropped first, so that nothing stale survives. What the log has
lost leaves fillers in the queues, and what stands behind its end is zeroed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.spans import Ints
from pocketmq.storage.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pocketmq.storage.clean_stop import CleanStop
from pocketmq.storage.commit_log import SEGMENT_SIZE_SETTING
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.consume_queues import ConsumeQueues, is_queue
from pocketmq.storage.delay_levels import parse_delay_levels
from pocketmq.storage.deleted_topics import DeletedTopics
from pocketmq.storage.disk import sync_folder
from pocketmq.storage.dispatch import entry_tags, has_queue_entry, is_indexed, rows_by_queue
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.index import Index
from pocketmq.storage.indexing import Indexing
from pocketmq.storage.layout import StorePaths
from pocketmq.storage.process_lock import mark_running, was_running
from pocketmq.storage.scan import End, Gap, LogScan
from pocketmq.storage.scan_start import Found, start_by_checkpoint, start_of_scan
from pocketmq.storage.settings import StoreSettings

logger = logging.getLogger("pocketmq.storage")


@dataclass(slots=True)
class RecoveryReport:
    """What opening a store found and did."""

    clean: bool
    start: int = 0  # the log was read from here
    end: int = 0
    records: int = 0
    gaps: list[Gap] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)  # records that no queue can hold, by physical offset
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Recovered:
    """The parts of a store, ready for use."""

    files: FileQueue
    end: int
    last_record: int  # where it begins
    last_store_timestamp: int
    queues: ConsumeQueues
    indexing: Indexing
    deleted: DeletedTopics
    report: RecoveryReport


def recover(paths: StorePaths, settings: StoreSettings, now_ms: Callable[[], int]) -> Recovered:
    """Open the parts of a store, which must be locked. Raises `StoreUnusableError`."""
    begun = time.perf_counter()
    recovery = _Recovery(paths, settings, now_ms)
    if not recovery.take_clean_stop():
        recovery.read_log()
    recovery.report.seconds = time.perf_counter() - begun
    return recovery.result()


class _Hole(Exception):
    """A queue lacks entries of records that lie in front of where the scan began."""


class _Recovery:
    """The steps of opening a store."""

    def __init__(self, paths: StorePaths, settings: StoreSettings, now_ms: Callable[[], int]) -> None:
        self._paths = paths
        self._settings = settings
        self._now_ms = now_ms
        self._crashed = was_running(paths.abort)
        if self._crashed and paths.config.is_dir():
            sync_folder(paths.config)  # what is read there now must not change back with the next loss of power
        self._checkpoint = read_checkpoint(paths.checkpoint)
        self._files = FileQueue(paths.commit_log, settings.mapped_file_size_commit_log, SEGMENT_SIZE_SETTING)
        self._queues = self._no_queues()
        self._index = Index(paths.index, settings.max_hash_slot_num, settings.max_index_num, now_ms)
        self._index.make_writable()
        self._indexing = Indexing(self._index, is_enabled=settings.message_index_enable)
        self._deleted = DeletedTopics(paths.config)
        self._delays = parse_delay_levels(settings.message_delay_level)
        self._last_stop = CleanStop.load(paths.config)
        self._is_incomplete = False
        self._last_record = 0
        self._last_store_timestamp = 0
        self.report = RecoveryReport(clean=not self._crashed)
        for start, end in self._files.gaps():
            logger.error("%s: a segment is missing, nothing is left of %d to %d", paths.commit_log, start, end)

    def _no_queues(self) -> ConsumeQueues:
        return ConsumeQueues(self._paths.consume_queues, self._settings.mapped_file_size_consume_queue)

    def result(self) -> Recovered:
        return Recovered(
            self._files,
            self.report.end,
            self._last_record,
            self._last_store_timestamp,
            self._queues,
            self._indexing,
            self._deleted,
            self.report,
        )

    def take_clean_stop(self) -> bool:
        """Take over what the last clean stop left; False if there was none, or if the store has changed since."""
        stop = self._last_stop
        if self._crashed or stop is None or not stop.fits_log(self._files):
            return False
        self._is_incomplete = not stop.fits_index(self._index) or not self._take_queues(stop.queues)
        if self._is_incomplete:
            return False
        mark_running(self._paths.abort)
        self._last_record, self._last_store_timestamp = stop.last_record, stop.last_store_timestamp
        self.report.start = self.report.end = stop.log_end
        return True

    def _take_queues(self, ends: dict[tuple[str, int], int]) -> bool:
        """Take over queues with so many entries; False as soon as one of them cannot have so many."""
        return all(
            is_queue(topic, queue_id) and end >= 0 and self._queues.create(topic, queue_id).load_to(end)
            for (topic, queue_id), end in ends.items()
        )

    def read_log(self) -> None:
        """Go through the log and dispatch what is found."""
        mark_running(self._paths.abort)
        self._load_queues()
        try:
            dropped = self._read_log_from(self._start_of_scan())
        except _Hole:
            logger.warning("%s: queues are incomplete, the whole log is read", self._paths.root)
            self._load_queues()
            dropped = self._read_log_from(self._first)
        self._finish_queues(dropped)
        self._cut_log()
        self._deleted.cut(self.report.end)

    def _read_log_from(self, start: int) -> dict[ConsumeQueue, tuple[int, Ints]]:
        """Go through the log from `start` on and dispatch its records anew; returns what queues had of them before."""
        self._indexing = Indexing(self._index, is_enabled=self._settings.message_index_enable)
        start = self._start_with_index(start)
        self._lower_checkpoint(start)
        start = self._cut_index(start)
        dropped = {queue: _drop_entries(queue, start) for queue in self._queues}
        self._scan(start)
        return dropped

    @property
    def _first(self) -> int:
        return self._files.offsets[0] if self._files.offsets else 0

    def _load_queues(self) -> None:
        """All queues as their files have them, without those of deleted topics."""
        self._queues = self._no_queues()
        for topic, queue_id in self._queues.on_disk():
            queue = self._queues.create(topic, queue_id)
            queue.load()
            deleted = self._deleted.end_of(topic)
            if deleted and queue.max_physical <= deleted:
                _empty(queue)
                sync_folder(queue.files.folder)
            else:
                # Of files that were being deleted some may have come back, and left a hole in the row.
                queue.delete_files_before(self._first)

    def _start_of_scan(self) -> int:
        """From where on the log has to be read: before that, queues and index have all of it."""
        if self._is_incomplete:
            return self._first
        index = self._index if self._settings.message_index_enable else None
        found = Found(self._files, self._queues, index, self._deleted, self._checkpoint, self._last_stop)
        return start_of_scan(found, self._now_ms(), crashed=self._crashed)

    def _start_with_index(self, start: int) -> int:
        """Where to read from if what is lacking in the index is to be made again.

        A full file has a successor as soon as there is more to say. If there is none, the keys of the last record may
        not all be there: these are filed again, too.
        """
        last = self._index.last_before(start)
        if not self._settings.message_index_enable or last is None or last.room:
            return start
        return min(start, max(last.header.end_physical, self._first))

    def _lower_checkpoint(self, start: int) -> None:
        """Before anything is dropped that the checkpoint vouches for, it must not do so any more.

        Or a crash would leave queues and index without what they had, and a checkpoint that says they have it.
        """
        checkpoint, last = self._checkpoint, self._index.last_before(start)
        lower = Checkpoint()
        if last is None or not last.is_damaged(start):
            if start >= start_by_checkpoint(self._files, checkpoint, self._now_ms()):
                return
            moment = LogScan(self._files, start).time_of_first()
            if start > self._first and moment is not None and moment <= checkpoint.physic_msg_timestamp:
                lower = replace(checkpoint, logics_msg_timestamp=moment, logics_physical_offset=start)
        if lower != checkpoint:
            write_checkpoint(self._paths.checkpoint, lower)
            self._checkpoint = lower

    def _cut_index(self, start: int) -> int:
        """Drop what the index has of the records to be read; returns where to read from if more had to go."""
        while self._index.cut(start):
            start = max(self._index.end_physical, self._first)
            logger.warning("%s: the index is damaged, the log is read from %d on", self._paths.index, start)
        return start if self._index.files or not self._settings.message_index_enable else self._first

    def _scan(self, start: int) -> None:
        report = self.report = RecoveryReport(clean=not self._crashed, start=start)
        for found in LogScan(self._files, start):
            if isinstance(found, Gap):
                report.gaps.append(found)
                logger.error("%s: nothing can be read from %d to %d", self._paths.commit_log, *found)
            elif isinstance(found, End):
                report.end = found.offset
            else:
                report.records += len(found)
                self._dispatch(found)
                self._last_record = int(found.physical_offset[-1])
                self._last_store_timestamp = int(found.store_timestamp[-1])

    def _dispatch(self, columns: RecordColumns) -> None:
        """Put good records into their queues and into the index."""
        living = self._deleted.living(columns)
        tags = entry_tags(columns, columns.store_timestamp, self._delays)
        sizes = columns.total_size.astype(np.int64)
        for name, queue_id, rows in rows_by_queue(columns, np.flatnonzero(living & has_queue_entry(columns.sys_flag))):
            topic = name.decode("utf-8", "replace")
            offsets = columns.physical_offset[rows]
            if not is_queue(topic, queue_id):
                self._reject(offsets)
                continue
            queue = self._queues.create(topic, queue_id)
            numbers = columns.queue_offset[rows]
            if numbers[0] > queue.end and self.report.start > self._first and not self.report.gaps:
                raise _Hole
            self._reject(offsets[queue.put(numbers, offsets, sizes[rows], tags[rows])])
        if self._settings.message_index_enable:
            rows, hashes = columns.index_hashes()
            kept = (living & is_indexed(columns.sys_flag))[rows]
            rows = rows[kept]
            offsets, timestamps = columns.physical_offset[rows], columns.store_timestamp[rows]
            self._indexing.add_keys(np.stack((hashes[kept], offsets, timestamps)))

    def _reject(self, offsets: Ints) -> None:
        for offset in offsets.tolist():
            self.report.rejected.append(offset)
            logger.error("%s: the record at %d cannot be in the queue that it names", self._paths.commit_log, offset)

    def _finish_queues(self, dropped: dict[ConsumeQueue, tuple[int, Ints]]) -> None:
        """Let slots whose messages are lost stay taken, and nothing stale behind the last."""
        for queue, (kept, offsets) in dropped.items():
            # What lay behind the end of the log nobody has read; what lay in a gap, somebody may have.
            taken = kept + int(np.count_nonzero(offsets < self.report.end))
            if self._queues.get(queue.topic, queue.queue_id) is queue and taken > queue.end:
                queue.fill(taken)
        for queue in self._queues:
            queue.readable = queue.end
            queue.cut()
            self._queues.changed(queue)

    def _cut_log(self) -> None:
        """Zero what stands behind the end of the log; segments behind it hold nothing that could be read.

        What was read is brought to disk: after the end of a process it may be in memory only, and from now on it
        counts as durable.
        """
        end = self.report.end
        removed = [start for start in self._files.offsets if start > end]
        for start in removed:
            self._remove_segment(start)
        if removed:
            sync_folder(self._paths.commit_log)  # before others take their names
        for start in self._files.offsets:
            if end < start + self._files.file_size:
                self._files.at(start).clear(end - start)
            elif self.report.start < start + self._files.file_size:
                self._files.at(start).sync()

    def _remove_segment(self, start: int) -> None:
        """Delete a segment of zeros; one with anything else in it is kept out of the way."""
        if self._files.at(start).is_zero():
            self._files.delete(start)
        else:
            logger.error("%s: nothing in it can be read; it is moved to %s", start, self._paths.unreadable)
            self._files.move(start, self._paths.unreadable)


def _drop_entries(queue: ConsumeQueue, start: int) -> tuple[int, Ints]:
    """Forget the entries of records from `start` on; how many are left, and where the others pointed."""
    kept = queue.first_at_or_after(start)
    offsets = queue.entries(kept, queue.end)["physical_offset"].astype(np.int64)
    if kept > queue.first_slot:
        queue.adopt(kept)
    else:
        _empty(queue)  # where it begins was only known from the files, and some may be missing
    return kept, offsets


def _empty(queue: ConsumeQueue) -> None:
    queue.files.cut(0)
    queue.adopt(0)
