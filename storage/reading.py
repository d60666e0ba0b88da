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
from typing import Final, NamedTuple

import numpy as np

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import HEAD, SMALLEST_RECORD, RecordColumns, sound_records
from pocketmq.protocol.message import MAGIC_V1
from pocketmq.protocol.spans import Bytes, Ints, Mask, Spans, at_every_byte, matches_at, read_at
from pocketmq.storage.commit_log import CommitLog
from pocketmq.storage.consume_queue import ConsumeQueue, Entries
from pocketmq.storage.layout import FILLER_SIZE, QUEUE_ENTRY_SIZE
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.settings import StoreSettings

logger = logging.getLogger("pocketmq.storage")

_IPV6_HOSTS: Final = int(MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6)

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
    """The entries of a queue that a read is to follow."""

    queue: ConsumeQueue
    log: CommitLog
    numbers: Ints
    offsets: Ints
    sizes: Ints


class ReadPlan(NamedTuple):
    """A read whose entries are known and whose records are not looked at yet."""

    outcome: ReadResult
    is_cold: bool = False
    selection: _Selection | None = None

    def fetch(self) -> ReadResult:
        """Look at the records. May be called in any thread."""
        if self.selection is None:
            return self.outcome
        queue, log, all_numbers, all_offsets, all_sizes = self.selection
        runs: list[memoryview] = []
        count = 0
        for file, start, rows in _by_segment(log, all_offsets):
            places, sizes = all_offsets[rows] - start, all_sizes[rows]
            good = _agree(file, start, queue, all_numbers[rows], places, sizes)
            if not good.all():
                places, sizes = places[good], sizes[good]
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
    most = max(settings.max_filter_message_size // QUEUE_ENTRY_SIZE, request.max_messages)
    entries = queue.entries(offset, min(offset + most, high))
    offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    if sizes[0] <= 0:
        # A file of the queue is missing: go on where the next one begins.
        per_file = queue.entries_per_file
        next_offset = min(offset - offset % per_file + per_file, high)
        return ReadPlan(ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, low, high))
    numbers = np.arange(offset, offset + len(entries))
    wanted = _wanted(entries, sizes, request.tags)
    if not wanted.all():
        numbers, offsets, sizes = numbers[wanted], offsets[wanted], sizes[wanted]
    if not len(numbers):
        return ReadPlan(ReadResult(ReadStatus.NO_MATCHED_MESSAGE, offset + len(entries), low, high))
    is_cold = log.end - int(offsets[0]) > memory_bytes
    taken = _fitting(sizes, request, settings, is_cold)
    next_offset = int(numbers[taken]) if taken < len(numbers) else offset + len(entries)
    outcome = ReadResult(ReadStatus.FOUND, next_offset, low, high, is_old=is_cold)
    return ReadPlan(outcome, is_cold, _Selection(queue, log, numbers[:taken], offsets[:taken], sizes[:taken]))


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
    fit = int(np.searchsorted(np.cumsum(sizes[:most]), most_bytes, side="right"))
    return max(fit, 1)


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
        elsewhere = (offsets[done:] < start) | (offsets[done:] >= start + file.size)
        end = done + int(elsewhere.argmax()) if elsewhere.any() else len(offsets)
        yield file, start, slice(done, end)
        done = end


def _agree(file: MappedFile, start: int, queue: ConsumeQueue, numbers: Ints, places: Ints, sizes: Ints) -> Mask:
    """Which entries lead to a record that has their topic, queue, number, place and size."""
    good = (places >= 0) & (sizes >= SMALLEST_RECORD) & (places + sizes <= file.size)
    if good.all():
        good = _are_usual(file.data, start, queue, numbers, places, sizes)
    if not good.all():
        # Damage, or records that look different: with IPv6 hosts, or of version 2.
        rows = np.flatnonzero((places >= 0) & (places + sizes <= file.size))
        rows = rows[sound_records(file.data, places[rows])]
        columns = RecordColumns(file.data, places[rows])
        agree = (columns.total_size == sizes[rows]) & (columns.physical_offset == places[rows] + start)
        agree &= (columns.queue_id == queue.queue_id) & (columns.queue_offset == numbers[rows])
        good = np.zeros(len(places), np.bool_)
        good[rows] = agree & columns.topics.equal(queue.topic.encode())
        if not good.all():
            bad = numbers[~good].tolist()
            name = f"{queue.topic}, queue {queue.queue_id}"
            logger.error("%s: entries %s and perhaps more do not agree with the log", name, bad[:10])
    return good


def _are_usual(data: Bytes, start: int, queue: ConsumeQueue, numbers: Ints, places: Ints, sizes: Ints) -> Mask:
    """`_agree` for records of version 1 with IPv4 hosts, of which less has to be looked at; not for any other."""
    heads = at_every_byte(data, f"V{HEAD.itemsize}")[places].view(HEAD)
    good: Mask = (heads["total_size"] == sizes) & (heads["magic"] == MAGIC_V1)
    good &= heads["queue_id"] == queue.queue_id
    good &= heads["queue_offset"] == numbers
    good &= heads["physical_offset"] == places + start
    good &= heads["sys_flag"] & _IPV6_HOSTS == 0
    topic = queue.topic.encode()
    topic_at = places + HEAD.itemsize + heads["body_length"]
    properties_at = topic_at + (len(topic) + 3)
    good &= (topic_at > places) & (properties_at <= places + sizes)
    if good.all():
        good = matches_at(data, topic_at, bytes([min(len(topic), 127)]) + topic)
        good &= read_at(data, ">i2", properties_at - 2) == places + sizes - properties_at
    return good


def _runs(file: MappedFile, places: Ints, sizes: Ints) -> Iterator[memoryview]:
    """The records as few pieces: those that are neighbours in the log as one, and small ones copied together."""
    ends = places + sizes
    breaks = np.flatnonzero(places[1:] != ends[:-1])
    starts_of_runs = places[np.append(0, breaks + 1)]
    ends_of_runs = ends[np.append(breaks, len(ends) - 1)]
    if len(breaks) and int(sizes.sum()) < _LEAST_RUN * len(starts_of_runs):
        yield Spans(file.data, starts_of_runs, ends_of_runs).compact()[0].data.toreadonly()
        return
    view = file.view.toreadonly()
    for start, end in zip(starts_of_runs.tolist(), ends_of_runs.tolist(), strict=True):
        yield view[start:end]
