"""Where recovery has to begin reading the log: before that, queues and index are known to have all of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from pocketmq.protocol.columns import RecordColumns
from pocketmq.storage.checkpoint import Checkpoint
from pocketmq.storage.clean_stop import CleanStop
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.consume_queues import ConsumeQueues
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC
from pocketmq.storage.deleted_topics import DeletedTopics
from pocketmq.storage.dispatch import is_indexed
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.index import Index
from pocketmq.storage.layout import FILLER_SIZE
from pocketmq.storage.scan import LogScan

logger = logging.getLogger("pocketmq.storage")

# Tags codes below are hashes, those above are times.
_LEAST_TIME: Final = 2**31

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in a store directory at a start."""

    files: FileQueue
    queues: ConsumeQueues
    index: Index | None  # None if there is to be none
    deleted: DeletedTopics
    checkpoint: Checkpoint
    last_stop: CleanStop | None

    @property
    def first(self) -> int:
        """Where the log begins."""
        return self.files.offsets[0] if self.files.offsets else 0

    def is_complete(self) -> bool:
        """Whether queues and index can have what they had when they were last saved."""
        has_index = self.index is None or bool(self.index.files)
        if not has_index or self._lacks_entries():
            return False
        if any(self._is_misbuilt(queue) for queue in self.queues):
            logger.warning("%s: another broker has rebuilt queues, the whole log is read", self.files.folder.parent)
            return False
        return True

    def _lacks_entries(self) -> bool:
        """Whether a queue has lost what it had at the last clean stop, by other means than the end of its topic."""
        stop = self.last_stop
        return stop is not None and any(
            (queue := self.queues.get(topic, queue_id)) is None or queue.end < end
            for (topic, queue_id), end in stop.queues.items()
            if end > 0 and self.deleted.end_of(topic) < stop.log_end
        )

    def _is_misbuilt(self, queue: ConsumeQueue) -> bool:
        """Whether RocketMQ has built a queue anew after a crash, without knowing what belongs there.

        It does not know of topics that were deleted here, and 4.9.7 forgets when delayed messages are due.
        """
        if queue.topic == SCHEDULE_TOPIC:
            entries = queue.entries(queue.first_slot, queue.end)
            return bool(((entries["tags_code"] < _LEAST_TIME) & (entries["size"] != FILLER_SIZE)).any())
        end = self.deleted.end_of(queue.topic)
        return end > self.first and queue.first_at_or_after(self.first) < queue.first_at_or_after(end)


def start_of_scan(found: Found, now_ms: int, *, crashed: bool) -> int:
    """From where on the log has to be read."""
    largest = max((queue.max_physical for queue in found.queues), default=0)
    if not found.files.offsets or not largest or not found.is_complete():
        return found.first
    start = start_by_checkpoint(found.files, found.checkpoint, now_ms) if crashed else found.files.offsets[-3:][0]
    if start > largest:
        start = _segment_of(found, largest)
    return start if found.index is None else min(start, _first_index_gap(found, found.index, start))


def start_by_checkpoint(files: FileQueue, checkpoint: Checkpoint, now_ms: int) -> int:
    """The last record that is known to be on disk with all that comes before it, and with its entries."""
    first = files.offsets[0] if files.offsets else 0
    if checkpoint.min_timestamp > now_ms + _DAY_MS:
        return first  # it speaks of times to come: damage
    exact = checkpoint.logics_physical_offset
    # Who does not know this field leaves it as it was: it counts if it tells of the same moment as the others.
    if exact and _time_at(files, exact) == checkpoint.logics_msg_timestamp <= checkpoint.physic_msg_timestamp:
        return exact
    for start in reversed(files.offsets):
        moment = _time_at(files, start)
        if moment is not None and moment <= checkpoint.min_timestamp:
            return start
    return first


def _time_at(files: FileQueue, offset: int) -> int | None:
    """When the record at an offset was stored; None if there is no good one."""
    return LogScan(files, offset).time_of_first()


def _segment_of(found: Found, offset: int) -> int:
    """Where the segment with this offset begins; the nearest one, if there is none."""
    start = found.files.start_of(offset)
    if start is not None:
        return start
    return found.files.offsets[-1] if offset > found.first else found.first


def _first_index_gap(found: Found, index: Index, end: int) -> int:
    """From where on the index lacks records between two of its files; `end` if it does not.

    After a crash RocketMQ deletes the file that was not full, and enters only what it happens to read anew.
    """
    last = found.first - 1
    for file in index.files:
        if file.header.next_entry > 1:
            if _has_keys(found, last, file.header.begin_physical):
                logger.warning("%s: there is a gap before it, the log is read from %d on", file.name, last)
                return max(last, found.first)
            last = max(last, file.header.end_physical)
    return end


def _has_keys(found: Found, last: int, end: int) -> bool:
    """Whether there are records between those at `last` and `end` that belong into the index."""
    if last >= end:
        return False
    for records in LogScan(found.files, max(last, found.first)):
        if isinstance(records, RecordColumns):
            offsets = records.physical_offset
            between = (offsets > last) & (offsets < end) & found.deleted.living(records)
            if (between & is_indexed(records.sys_flag) & records.property_column(b"UNIQ_KEY").present).any():
                return True
            if offsets[-1] >= end:
                return False
    return False
