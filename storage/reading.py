"""Reading messages: from a queue offset to the bytes that answer a pull.

It goes in two steps. `plan` looks at the consume queue only: which entries are asked for, which match the tags, how
many fit. `fetch` goes to the log: it checks each entry against the record that it leads to, and gives the records as
runs of bytes. Records that have long left the page cache make the second step wait for the disk; a plan says whether
it is likely to (`is_cold`), and may be fetched in another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.columns import RecordColumns, sound_records
from pocketmq.protocol.message import MAGIC_V1
from pocketmq.protocol.spans import Bytes, Ints, Mask, Spans, at_every_byte, read_at
from pocketmq.storage.commit_log import CommitLog
from pocketmq.storage.consume_queue import ConsumeQueue, Entries
from pocketmq.storage.layout import FILLER_SIZE, QUEUE_ENTRY_SIZE
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.settings import StoreSettings

logger = logging.getLogger("pocketmq.storage")

# The beginning of a record, as far as it is compared with its entry.
_HEAD: Final = np.dtype(
    {
        "names": ["size", "magic", "queue_id", "queue_offset", "physical_offset", "sys_flag"],
        "formats": [">i4", ">i4", ">i4", ">i8", ">i8", ">i4"],
        "offsets": [0, 4, 12, 20, 28, 36],
        "itemsize": 40,
    }
)
_IPV6_HOSTS = int(MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6)
_BODY_LENGTH_AT = 84

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


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a read gives. The runs hold whole records back to back; a view stays valid as long as it is kept."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    runs: tuple[memoryview, ...] = ()
    count: int = 0
    size: int = 0
    is_old: bool = False  # far enough behind that a slave should be asked instead

    def to_bytes(self) -> bytes:
        return b"".join(self.runs)


@dataclass(frozen=True, slots=True)
class ReadRequest:
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


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """A read whose entries are known and whose records are not looked at yet."""

    outcome: ReadResult
    is_cold: bool = False
    queue: ConsumeQueue | None = None
    numbers: Ints | None = None
    entries: Entries | None = None
    log: CommitLog | None = None

    def fetch(self) -> ReadResult:
        """Look at the records. May be called in any thread."""
        if self.queue is None or self.numbers is None or self.entries is None or self.log is None:
            return self.outcome
        found = [
            (file, places[good], sizes[good])
            for file, numbers, places, sizes in _by_segment(self.log, self.numbers, self.entries)
            if len(good := np.flatnonzero(_agree(file, self.queue, numbers, places, sizes)))
        ]
        outcome = self.outcome
        if not found:
            return _as(outcome, ReadStatus.MESSAGE_WAS_REMOVING)
        runs = tuple(run for file, places, sizes in found for run in _runs(file, places, sizes))
        return ReadResult(
            ReadStatus.FOUND,
            outcome.next_offset,
            outcome.min_offset,
            outcome.max_offset,
            runs,
            sum(len(sizes) for _, _, sizes in found),
            sum(map(len, runs)),
            outcome.is_old,
        )


def _as(result: ReadResult, status: ReadStatus) -> ReadResult:
    return ReadResult(status, result.next_offset, result.min_offset, result.max_offset, is_old=result.is_old)


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
    sizes = entries["size"]
    if sizes[0] <= 0:
        # A file of the queue is missing: go on where the next one begins.
        per_file = queue.entries_per_file
        status = ReadStatus.OFFSET_FOUND_NULL
        return ReadPlan(ReadResult(status, min(offset - offset % per_file + per_file, high), low, high))
    rows = np.flatnonzero((sizes > 0) & (sizes != FILLER_SIZE) & _match(entries, request.tags))
    if not len(rows):
        return ReadPlan(ReadResult(ReadStatus.NO_MATCHED_MESSAGE, offset + len(entries), low, high))
    behind = log.end - int(entries["physical_offset"][rows[0]])
    is_cold = behind > memory_bytes
    taken = _fitting(sizes[rows].astype(np.int64), request, settings, is_cold)
    next_offset = offset + (int(rows[taken]) if taken < len(rows) else len(entries))
    rows = rows[:taken]
    outcome = ReadResult(ReadStatus.FOUND, next_offset, low, high, is_old=is_cold)
    return ReadPlan(outcome, is_cold, queue, offset + rows, entries[rows], log)


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


def _match(entries: Entries, tags: Collection[int] | None) -> Mask | np.bool_:
    """Which entries have one of the tags."""
    if tags is None:
        return np.True_
    codes = entries["tags_code"].astype(np.int64)
    match: Mask = codes < _LEAST_TAGS_CODE
    for tag in tags:
        match |= codes == tag
    return match


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


def _by_segment(log: CommitLog, numbers: Ints, entries: Entries) -> Iterator[tuple[MappedFile, Ints, Ints, Ints]]:
    """Entries by the segment that they lead to: numbers, places in the segment, sizes. Lost segments are left out."""
    offsets = entries["physical_offset"].astype(np.int64)
    sizes = entries["size"].astype(np.int64)
    done = 0
    while done < len(offsets):
        found = log.file_at(int(offsets[done]))
        if found is None:
            done += 1
            continue
        file, place = found
        start = int(offsets[done]) - place
        # Offsets ascend; what does not is damage, and left to the comparison with the record.
        end = done + max(int(np.searchsorted(offsets[done:], start + file.size)), 1)
        yield file, numbers[done:end], offsets[done:end] - start, sizes[done:end]
        done = end


def _agree(file: MappedFile, queue: ConsumeQueue, numbers: Ints, places: Ints, sizes: Ints) -> Mask:
    """Which entries lead to a record that has their topic, queue, number, place and size."""
    inside = (places >= 0) & (places + sizes <= file.size)
    if not inside.all():
        rows = np.flatnonzero(inside)
        inside[rows] = _agree(file, queue, numbers[rows], places[rows], sizes[rows])
        return inside
    heads = at_every_byte(file.data, _HEAD)[places]
    good = (heads["size"] == sizes) & (heads["queue_offset"] == numbers) & (heads["queue_id"] == queue.queue_id)
    start = int(file.path.name)
    good &= heads["physical_offset"] == places + start
    usual = (heads["magic"] == MAGIC_V1) & (heads["sys_flag"] & _IPV6_HOSTS == 0)
    topic = queue.topic.encode()
    if good.all() and usual.all():
        good = _has_topic(file.data, places, sizes, topic)
    else:
        rows = np.flatnonzero(good)
        rows = rows[sound_records(file.data, places[rows])]
        good = np.zeros(len(places), np.bool_)
        good[rows] = RecordColumns(file.data, places[rows]).topics.equal(topic)
    if not good.all():
        bad = numbers[~good].tolist()
        logger.error("topic %s, queue %d: entries %s do not agree with the log", queue.topic, queue.queue_id, bad[:10])
    return good


def _has_topic(data: Bytes, places: Ints, sizes: Ints, topic: bytes) -> Mask:
    """Which records of version 1 with IPv4 hosts are of a topic; a body length that leads nowhere is none."""
    fields = places + (_BODY_LENGTH_AT + 4) + read_at(data, ">i4", places + _BODY_LENGTH_AT)
    field = bytes([len(topic)]) + topic
    near = (fields > places) & (fields + len(field) <= places + sizes)
    if not near.all():
        near[near] = at_every_byte(data, f"V{len(field)}")[fields[near]] == np.void(field)
        return near
    same: Mask = at_every_byte(data, f"V{len(field)}")[fields] == np.void(field)
    return same


def _runs(file: MappedFile, places: Ints, sizes: Ints) -> Iterator[memoryview]:
    """The records as few pieces: those that are neighbours in the log as one, and small ones copied together."""
    ends = places + sizes
    breaks = np.flatnonzero(places[1:] != ends[:-1]) + 1
    starts_of_runs = places[np.append(0, breaks)]
    ends_of_runs = ends[np.append(breaks - 1, len(ends) - 1)]
    runs = Spans(file.data, starts_of_runs, ends_of_runs)
    if len(runs) == 1 or int(sizes.sum()) >= _LEAST_RUN * len(runs):
        view = file.view.toreadonly()
        for start, end in zip(starts_of_runs.tolist(), ends_of_runs.tolist(), strict=True):
            yield view[start:end]
    else:
        yield runs.compact()[0].data.toreadonly()
