"""Do commit log, queues and index say the same? Record by record, of a store that nobody has open.

The log is the truth: every good record must have its entry in its queue and its keys in the index, and every entry
must lead to a record that says so itself. What is wrong comes as a list of sentences, each with the place; nothing is
changed. What no checksum covers, such as a producer's own properties, cannot be found wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.spans import Ints
from pocketmq.storage.checkpoint import read_checkpoint
from pocketmq.storage.commit_log import SEGMENT_SIZE_SETTING
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.consume_queues import ConsumeQueues, is_queue
from pocketmq.storage.delay_levels import parse_delay_levels
from pocketmq.storage.deleted_topics import DeletedTopics
from pocketmq.storage.dispatch import entry_tags, has_queue_entry, is_indexed, rows_by_queue
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.index import Index
from pocketmq.storage.layout import FILLER_SIZE, QUEUE_ENTRY_SIZE, StorePaths
from pocketmq.storage.process_lock import StoreLock
from pocketmq.storage.scan import End, Gap, LogScan
from pocketmq.storage.settings import StoreSettings

# One line stands for all problems of a kind in one place, so that a ruined file does not fill the screen.
_SHOWN = 5


class Problem(NamedTuple):
    """Something that does not fit, and where."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def verify(root: Path, settings: StoreSettings) -> list[Problem]:
    """All that is wrong with a store; empty if nothing is. Raises `StoreLockedError`, `StoreUnusableError`.

    Nothing is changed, but that empty files go which an interrupted creation has left among segments and queues.
    """
    paths = StorePaths(root)
    lock = StoreLock.acquire(paths.lock)
    try:
        check = _Check(paths, settings)
        return [*check.log(), *check.queues(), *check.index()]
    finally:
        lock.release()


class _Check:
    """One pass over a store. `log` comes first: it collects what the others have to agree with."""

    def __init__(self, paths: StorePaths, settings: StoreSettings) -> None:
        self._paths = paths
        self._settings = settings
        self._delays = parse_delay_levels(settings.message_delay_level)
        self._deleted = DeletedTopics(paths.config)
        self._files = FileQueue(paths.commit_log, settings.mapped_file_size_commit_log, SEGMENT_SIZE_SETTING)
        self._first = self._files.offsets[0] if self._files.offsets else 0
        self._end = 0
        # By queue: number, physical offset, size and tags code of each record. Of the index: hash and offset.
        self._expected: defaultdict[tuple[str, int], list[Ints]] = defaultdict(list)
        self._pairs: list[Ints] = []
        self._optional_pairs: list[Ints] = []

    def log(self) -> Iterator[Problem]:
        where = str(self._paths.commit_log)
        for start, end in self._files.gaps():
            yield Problem(where, f"a segment is missing: there is nothing from {start} to {end}")
        moment = 0
        for found in LogScan(self._files, self._first):
            if isinstance(found, Gap):
                if self._files.start_of(found.start) is not None:
                    yield Problem(where, f"no record can be read from {found.start} to {found.end}")
            elif isinstance(found, End):
                self._end = found.offset
            else:
                times = np.append(moment, found.store_timestamp)
                for row in np.flatnonzero(np.diff(times) < 0)[:_SHOWN].tolist():
                    yield Problem(where, f"time goes back at the record at {found.physical_offset[row]}")
                moment = int(times[-1])
                self._collect(found)
        yield from self._behind_the_end()
        checkpoint = read_checkpoint(self._paths.checkpoint)
        if checkpoint.logics_physical_offset > self._end:
            yield Problem(str(self._paths.checkpoint), f"it speaks of a record behind the end of the log, {self._end}")

    def _behind_the_end(self) -> Iterator[Problem]:
        for start in self._files.offsets:
            if start + self._files.file_size > self._end:
                file, begin = self._files.at(start), max(self._end - start, 0)
                if any(file.data[max(low, begin) : high].any() for low, high in file.stretches(begin)):
                    yield Problem(str(file.path), f"behind the end of the log, {self._end}, it holds something else")

    def _collect(self, columns: RecordColumns) -> None:
        living = self._deleted.living(columns)
        tags = entry_tags(columns, columns.store_timestamp, self._delays)
        for topic, queue_id, rows in rows_by_queue(columns, np.flatnonzero(living & has_queue_entry(columns.sys_flag))):
            table = (columns.queue_offset[rows], columns.physical_offset[rows], columns.total_size[rows], tags[rows])
            self._expected[topic.decode("utf-8", "replace"), queue_id].append(np.column_stack(table).astype(np.int64))
        rows, hashes = columns.index_hashes()
        # Of each record the tag comes last, and only RocketMQ 5 and PocketMQ write it.
        is_last = np.append(rows[1:] != rows[:-1], True) if len(rows) else np.empty(0, np.bool_)
        is_tag = is_last & columns.property_column(b"TAGS").present[rows]
        kept = (living & is_indexed(columns.sys_flag))[rows]
        pairs = np.column_stack((hashes, columns.physical_offset[rows]))
        self._pairs.append(pairs[kept & ~is_tag])
        self._optional_pairs.append(pairs[kept & is_tag])

    def queues(self) -> Iterator[Problem]:
        queues = ConsumeQueues(self._paths.consume_queues, self._settings.mapped_file_size_consume_queue)
        names = queues.on_disk()
        for topic, queue_id in sorted(set(names) | self._expected.keys()):
            if not is_queue(topic, queue_id):
                offset = self._expected[topic, queue_id][0][0, 1]
                what = f"the record at {offset} names queue {queue_id} of a topic {topic!r}, which cannot be"
                yield Problem(str(self._paths.commit_log), what)
                continue
            queue = queues.create(topic, queue_id)
            queue.load()
            yield from self._queue(queue, self._expected.get((topic, queue_id), []))

    def _queue(self, queue: ConsumeQueue, expected: list[Ints]) -> Iterator[Problem]:
        where = str(queue.files.folder)
        table = np.concatenate(expected) if expected else np.empty((0, 4), np.int64)
        numbers = table[:, 0]
        entries = queue.entries(queue.first_slot, queue.end)
        inside = (numbers >= queue.first_slot) & (numbers < queue.end)
        yield from _each(where, "message {} is in the log and not in the queue", numbers[~inside])
        table, numbers = table[inside], numbers[inside]
        found = entries[numbers - queue.first_slot]
        same = (found["physical_offset"] == table[:, 1]) & (found["size"] == table[:, 2])
        yield from _each(where, "entry {} does not lead to its record", numbers[~same])
        wrong_tag = same & (found["tags_code"] != table[:, 3])
        yield from _each(where, "entry {} has another tag than its record", numbers[wrong_tag])
        is_known = np.zeros(len(entries), np.bool_)
        is_known[numbers - queue.first_slot] = True
        is_stale = (entries["size"] != FILLER_SIZE) & ~is_known
        is_stale &= (entries["physical_offset"] >= self._first) & ~self._is_lost(entries["physical_offset"])
        yield from _each(where, "entry {} leads to no record", np.flatnonzero(is_stale) + queue.first_slot)
        for file in queue.files.offsets:
            begin = min(max(queue.end * QUEUE_ENTRY_SIZE - file, 0), queue.files.file_size)
            if queue.files.read_data(file, begin).strip(b"\0"):
                yield Problem(where, f"behind its last entry, {queue.end - 1}, it holds something else")

    def _is_lost(self, offsets: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which offsets belong to segments that are missing."""
        lost = np.zeros(len(offsets), np.bool_)
        for start, end in self._files.gaps():
            lost |= (offsets >= start) & (offsets < end)
        return lost

    def index(self) -> Iterator[Problem]:
        if not self._settings.message_index_enable:
            return
        where = str(self._paths.index)
        index = Index(self._paths.index, self._settings.max_hash_slot_num, self._settings.max_index_num, lambda: 0)
        try:
            tables = [np.empty((0, 2), np.int64)]
            for file in index.files:
                hashes, offsets, what = file.check()
                tables.append(np.column_stack((hashes, offsets)))
                if what is not None:
                    yield Problem(f"{where}/{file.name}", what)
            found = _numbers(np.concatenate(tables))
            needed = _numbers(np.concatenate([np.empty((0, 2), np.int64), *self._pairs]))
            allowed = _numbers(np.concatenate([np.empty((0, 2), np.int64), *self._optional_pairs]))
        finally:
            index.close()
        missing = needed - found
        for key_hash, offset in sorted(missing, key=lambda pair: pair[1])[:_SHOWN]:
            yield Problem(where, f"the record at {offset} is not found under its key with the hash {key_hash}")
        if len(missing) > _SHOWN:
            yield Problem(where, f"and {len(missing) - _SHOWN} more keys are not found")
        stale = [pair for pair in found - needed - allowed if pair[1] >= self._first and not self._is_deleted(pair[1])]
        for key_hash, offset in sorted(stale, key=lambda pair: pair[1])[:_SHOWN]:
            yield Problem(where, f"the entry with the hash {key_hash} leads to {offset}, where no record has that key")

    def _is_deleted(self, offset: int) -> bool:
        """Whether the record there may be that of a deleted topic, which nobody takes out of the index."""
        return any(offset < end for end in self._deleted.ends)


def _numbers(table: Ints) -> set[tuple[int, int]]:
    return set(map(tuple, table.tolist()))


def _each(where: str, text: str, numbers: Ints) -> Iterator[Problem]:
    for number in numbers[:_SHOWN].tolist():
        yield Problem(where, text.format(number))
    if len(numbers) > _SHOWN:
        yield Problem(where, f"and {len(numbers) - _SHOWN} more like this")
