"""Reading messages: from a queue offset to the bytes that answer a pull.

It goes in two steps. `plan` looks at the consume queue only: which entries are asked for, which match the tags, how
many fit. `fetch` goes to the log: it checks each entry against the record that it leads to, and gives the records as
runs of bytes. Records that have long left the page cache make the second step wait for the disk; a plan says whether
it is likely to (`is_cold`), and may be fetched in another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from pocketmq.protocol.spans import Ints, Mask, Spans
from pocketmq.storage.agreement import all_agree, which_agree
from pocketmq.storage.commit_log import CommitLog
from pocketmq.storage.consume_queue import ConsumeQueue, Entries
from pocketmq.storage.layout import FILLER_SIZE, QUEUE_ENTRY_SIZE
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.settings import StoreSettings

logger = logging.getLogger("pocketmq.storage")

# A tags code below all hashes is an address in RocketMQ's extended queue: nobody knows the tag, so it may match.
_LEAST_TAGS_CODE = -(2**31)

# Below this average, runs are put together: handing many views to the system takes longer than copying them.
_LEAST_RUN = 4096


class ReadStatus(Enum):
    """How a read went, in RocketMQ's words."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class ReadResult(NamedTuple):
    """What a read gives. The runs hold whole records back to back; a view stays valid as long as it is kept."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    runs: tuple[memoryview, ...] = ()
    messages: int = 0
    size: int = 0
    is_old: bool = False  # far enough behind that a slave should be asked instead

    def to_bytes(self) -> bytes:
        return b"".join(self.runs)


class ReadRequest(NamedTuple):
    """What is asked for: messages of a queue from an offset on.

    `tags` are the hashes of the tags that match, None for all. `max_bytes` replaces RocketMQ's limits on an answer,
    which depend on how far back the messages are.
    """

    topic: str
    queue_id: int
    offset: int
    max_messages: int = 32
    tags: Collection[int] | None = None
    max_bytes: int | None = None


class _Selection(NamedTuple):
    """The entries of a queue that a read is to follow: their numbers, they themselves, and what they say."""

    numbers: Ints
    entries: Entries
    offsets: Ints
    sizes: Ints

    def only(self, rows: slice | Mask) -> _Selection:
        return _Selection(self.numbers[rows], self.entries[rows], self.offsets[rows], self.sizes[rows])


class ReadPlan(NamedTuple):
    """A read whose entries are known and whose records are not looked at yet."""

    outcome: ReadResult
    is_cold: bool = False
    source: tuple[CommitLog, ConsumeQueue, _Selection] | None = None

    def fetch(self) -> ReadResult:
        """Look at the records. May be called in any thread."""
        if self.source is None:
            return self.outcome
        log, queue, selection = self.source
        runs: list[memoryview] = []
        count = 0
        for file, start, rows in _by_segment(log, selection.offsets):
            places, sizes = _good_places(file, start, queue, selection.only(rows))
            if len(places):
                runs.extend(_runs(file, places, sizes))
                count += len(places)
        if not count:
            return self.outcome._replace(status=ReadStatus.MESSAGE_WAS_REMOVING)
        return self.outcome._replace(runs=tuple(runs), messages=count, size=sum(map(len, runs)))


def plan(
    request: ReadRequest, queue: ConsumeQueue | None, log: CommitLog, settings: StoreSettings, memory_bytes: int
) -> ReadPlan:
    """Look up the entries that a request asks for. `memory_bytes` is how much of the log may be in memory."""
    if queue is None:
        return ReadPlan(ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0))
    low, high, offset = queue.correct_min_offset(log.min_offset), queue.readable, request.offset
    wrong = _outside(offset, low, high)
    if wrong is not None:
        status, next_offset = wrong
        return ReadPlan(ReadResult(status, next_offset, low, high))
    entries = _examined(queue, request, settings, high)
    offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    if sizes[0] <= 0:
        # A file of the queue is missing: go on where the next one begins.
        per_file = queue.entries_per_file
        next_offset = min(offset - offset % per_file + per_file, high)
        return ReadPlan(ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, low, high))
    selection = _Selection(np.arange(offset, offset + len(entries)), entries, offsets, sizes)
    wanted = _wanted(entries, sizes, request.tags)
    if not wanted.all():
        selection = selection.only(wanted)
    matching = len(selection.numbers)
    if not matching:
        return ReadPlan(ReadResult(ReadStatus.NO_MATCHED_MESSAGE, offset + len(entries), low, high))
    is_cold = log.end - int(selection.offsets[0]) > memory_bytes
    taken = _fitting(selection.sizes, request, settings, is_cold)
    next_offset = int(selection.numbers[taken]) if taken < matching else offset + len(entries)
    is_old = log.end - int(selection.offsets[taken - 1]) > memory_bytes
    outcome = ReadResult(ReadStatus.FOUND, next_offset, low, high, is_old=is_old)
    return ReadPlan(outcome, is_cold, (log, queue, selection.only(slice(taken))))


def _outside(offset: int, low: int, high: int) -> tuple[ReadStatus, int] | None:
    """What to say to an offset that has no message, and where to go on; None for the others."""
    if high == 0:
        return ReadStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return ReadStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return ReadStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return ReadStatus.OFFSET_OVERFLOW_BADLY, high
    return None


def _examined(queue: ConsumeQueue, request: ReadRequest, settings: StoreSettings, high: int) -> Entries:
    """The entries that are looked at for one answer: where not all of them match, more than it may hold."""
    most = max(request.max_messages, 1)
    if request.tags is None:
        entries = queue.entries(request.offset, min(request.offset + most, high))
        if not (entries["size"] == FILLER_SIZE).any():
            return entries
    most = max(most, settings.max_filter_message_size // QUEUE_ENTRY_SIZE)
    return queue.entries(request.offset, min(request.offset + most, high))


def _wanted(entries: Entries, sizes: Ints, tags: Collection[int] | None) -> Mask:
    """Which entries have a message, with one of the tags."""
    wanted: Mask = (sizes > 0) & (sizes < FILLER_SIZE)
    if tags is not None:
        codes = entries["tags_code"].astype(np.int64)
        match = codes < _LEAST_TAGS_CODE
        for tag in tags:
            match |= codes == tag
        wanted &= match
    return wanted


def _fitting(sizes: Ints, request: ReadRequest, settings: StoreSettings, is_cold: bool) -> int:
    """How many of the messages the answer may hold: at least one."""
    if request.max_bytes is not None:
        most_bytes, most = request.max_bytes, request.max_messages
    elif is_cold:
        most_bytes = settings.max_transfer_bytes_on_message_in_disk
        most = min(request.max_messages, settings.max_transfer_count_on_message_in_disk)
    else:
        most_bytes = settings.max_transfer_bytes_on_message_in_memory
        most = min(request.max_messages, settings.max_transfer_count_on_message_in_memory)
    sizes = sizes[: max(most, 1)]
    if int(sizes.sum()) <= most_bytes:
        return len(sizes)
    return max(int(sizes.cumsum().searchsorted(most_bytes, side="right")), 1)


def _by_segment(log: CommitLog, offsets: Ints) -> Iterator[tuple[MappedFile, int, slice]]:
    """The segments that entries lead to, with their beginning and the rows of the entries; lost ones are left out."""
    done = 0
    while done < len(offsets):
        offset = int(offsets[done])
        found = log.file_at(offset)
        if found is None:
            done += 1
            continue
        file, place = found
        start = offset - place
        # Offsets ascend, unless some are damaged: those must not take others with them.
        elsewhere = (offsets[done:] - start).view(np.uint64) >= file.size
        end = done + int(elsewhere.argmax()) if elsewhere.any() else len(offsets)
        yield file, start, slice(done, end)
        done = end


def _good_places(file: MappedFile, start: int, queue: ConsumeQueue, selection: _Selection) -> tuple[Ints, Ints]:
    """Where in a segment the records are that entries lead to, and their sizes; entries without their record are not
    followed."""
    numbers, entries, offsets, sizes = selection
    places, topic = offsets - start, queue.topic.encode()
    if all_agree(file.data, places, entries, sizes, numbers, topic, queue.queue_id):
        return places, sizes
    # Damage, or records that look different: with IPv6 hosts, or of version 2.
    good = which_agree(file.data, places, offsets, sizes, numbers, topic, queue.queue_id)
    if not good.all():
        name, bad = f"{queue.topic}, queue {queue.queue_id}", numbers[~good].tolist()
        logger.error("%s: entries %s and perhaps more do not agree with the log", name, bad[:10])
    return places[good], sizes[good]


def _runs(file: MappedFile, places: Ints, sizes: Ints) -> Iterator[memoryview]:
    """The records as few pieces: those that are neighbours in the log as one, and small ones copied together."""
    ends = places + sizes
    breaks = (places[1:] != ends[:-1]).nonzero()[0]
    if not len(breaks):
        yield file.view[int(places[0]) : int(ends[-1])].toreadonly()
        return
    starts_of_runs = places[np.append(0, breaks + 1)]
    ends_of_runs = ends[np.append(breaks, len(ends) - 1)]
    if int(sizes.sum()) < _LEAST_RUN * len(starts_of_runs):
        yield Spans(file.data, starts_of_runs, ends_of_runs).compact()[0].data.toreadonly()
        return
    view = file.view.toreadonly()
    for start, end in zip(starts_of_runs.tolist(), ends_of_runs.tolist(), strict=True):
        yield view[start:end]
