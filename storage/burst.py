"""What is appended between two publications, and how it gets into queues and index: all of it in one step.

A message that is appended alone is only noted, with the little that its entries are made of. When the burst is
published, a few of them are entered one by one, in plain Python; many are made columns of, which costs a fraction of
that for each. A batch comes with its columns.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.hashes import index_key_hash, tags_code
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.spans import Ints
from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.delay_levels import SCHEDULE_TOPIC, Delays
from pocketmq.storage.dispatch import (
    NO_QUEUE_ENTRY,
    entry_tags,
    find_wanted,
    is_indexed,
    scheduled_code,
    tags_or_times,
)
from pocketmq.storage.key_hashes import TO_BE_HASHED, KeyHasher
from pocketmq.storage.layout import QUEUE_ENTRY_SIZE, queue_entries

# Up to here plain Python is quicker than numpy.
_FEW: Final = 40

# Tags that a queue remembers the hashes of. Few topics use more; who sends more pays with a little time.
_REMEMBERED_TAGS: Final = 1024

_NONE: Final = np.empty(0, np.int64)

Noted: TypeAlias = tuple[ConsumeQueue, int, int, int, str, int]
"""A message: its queue, physical offset, size, store time, properties and sys flag. A tuple, for speed."""


class Batch(NamedTuple):
    """Messages of one queue that were appended together: their entries, and of each key its message and hash.

    All of it is independent of the request that brought them, whose bytes may be gone by the time of publication.
    """

    queue: ConsumeQueue
    physical_offsets: Ints
    sizes: Ints
    tags: Ints
    keyed: Ints
    key_hashes: Ints
    store_timestamp: int


class Burst:
    """Messages in the order of their arrival, still to be published."""

    __slots__ = ("_parts", "end", "messages", "queues")

    def __init__(self) -> None:
        self.end = 0  # of the last record
        self.queues: dict[ConsumeQueue, int] = {}  # how far each queue can be read once this is published
        self.messages: list[Noted] = []  # the last ones, as long as no batch follows
        self._parts: list[list[Noted] | Batch] = []

    def __bool__(self) -> bool:
        return self.end > 0

    def add_batch(self, batch: Batch) -> None:
        self._parts += (self.messages, batch)
        self.messages = []

    def parts(self) -> list[list[Noted] | Batch]:
        return [*self._parts, self.messages]

    def join(self, other: Burst) -> None:
        """Take over what the next burst holds."""
        self.end = other.end
        self.queues.update(other.queues)
        if other._parts:
            self._parts += (self.messages, *other._parts)
            self.messages = other.messages
        else:
            self.messages += other.messages

    def forget(self, topic: str) -> None:
        """Leave out a topic that was deleted. Its index entries lead nowhere then, like those in the index."""
        self.queues = {queue: end for queue, end in self.queues.items() if queue.topic != topic}


class Progress(NamedTuple):
    """The last message that was entered: all up to it is in queues and index."""

    physical_offset: int
    store_timestamp: int


class Dispatcher:
    """Enters bursts into their queues, and makes the rows for the index: hash, physical offset and time of each."""

    def __init__(self, delays: Delays, has_index: bool) -> None:
        self._delays = delays
        self._has_index = has_index
        self._hasher = KeyHasher()

    def enter(self, burst: Burst, rows: array[int]) -> Progress:
        """Enter all messages of a burst, which is not empty; what is for the index is added to `rows`."""
        progress = Progress(0, 0)
        for part in burst.parts():
            if isinstance(part, Batch):
                self._enter_batch(part, rows)
                progress = Progress(int(part.physical_offsets[-1]), part.store_timestamp)
            elif part:
                enter = self._enter_few if len(part) < _FEW else self._enter_many
                enter(part, rows)
                progress = Progress(part[-1][1], part[-1][3])
        return progress

    def make_batch(self, queue: ConsumeQueue, columns: RecordColumns, offsets: Ints, store_timestamp: int) -> Batch:
        """What is to be entered of records that were put at these offsets."""
        tags, sizes = entry_tags(columns, self._delays), columns.total_size.astype(np.int64)
        keyed, hashes = columns.index_hashes() if self._has_index else (_NONE, _NONE)
        return Batch(queue, offsets, sizes, tags, keyed, hashes, store_timestamp)

    @staticmethod
    def _enter_batch(batch: Batch, rows: array[int]) -> None:
        batch.queue.extend(batch.physical_offsets, batch.sizes, batch.tags)
        offsets = batch.physical_offsets[batch.keyed]
        _add_rows(rows, batch.key_hashes, offsets, np.full(len(offsets), batch.store_timestamp))

    def _enter_many(self, messages: Sequence[Noted], rows: array[int]) -> None:
        queues, ats, lengths, times, texts, flags = zip(*messages, strict=True)
        offsets, sizes, timestamps = np.array(ats), np.array(lengths), np.array(times)
        properties = PropertyColumns.parse_texts(texts)
        by_queue: defaultdict[ConsumeQueue, list[int]] = defaultdict(list)
        for row, queue in enumerate(queues):
            if not flags[row] & NO_QUEUE_ENTRY:
                by_queue[queue].append(row)
        scheduled = [row for queue, own in by_queue.items() if queue.topic == SCHEDULE_TOPIC for row in own]
        tags = tags_or_times(properties, np.array(scheduled, np.int64), timestamps, self._delays)
        # The entries of all queues are packed at once, queue by queue.
        order = list(chain.from_iterable(by_queue.values()))
        packed = queue_entries(offsets, sizes, tags)[order].tobytes()
        start = 0
        for queue, own in by_queue.items():
            end = start + QUEUE_ENTRY_SIZE * len(own)
            queue.extend_packed(packed[start:end], ats[own[-1]] + lengths[own[-1]])
            start = end
        if self._has_index:
            prefixes = np.array([queue.index_prefix_hash for queue in queues], np.uint32)
            of, hashes = properties.index_hashes(prefixes)
            if any(flags):
                kept = is_indexed(np.array(flags)[of])
                of, hashes = of[kept], hashes[kept]
            _add_rows(rows, hashes, offsets[of], timestamps[of])

    def _enter_few(self, messages: Sequence[Noted], rows: array[int]) -> None:
        texts: list[str] = []
        begun = len(rows)
        for queue, physical_offset, size, store_timestamp, properties, sys_flag in messages:
            unique = tag = keys = level = ""
            if not properties.isascii():
                # What has no form in UTF-8 is stored as something else.
                properties = properties.encode("utf-8", "replace").decode()
            for name, value in find_wanted("\x02" + properties):
                if name == "UNIQ_KEY":
                    unique = value
                elif name == "TAGS":
                    tag = value
                elif name == "KEYS":
                    keys = value
                else:
                    level = value
            code, tag_hash = (queue.tags.get(tag) or _hash_tag(queue, tag)) if tag else (0, 0)
            if not sys_flag & NO_QUEUE_ENTRY:
                if level and queue.topic == SCHEDULE_TOPIC:
                    code = scheduled_code(level, code, self._delays, store_timestamp)
                queue.append(physical_offset, size, code)
            if not self._has_index or not is_indexed(sys_flag):
                continue
            for key in (unique, *keys.split(" ")):
                if key:
                    texts.append(queue.index_prefix + key)
                    rows.extend((TO_BE_HASHED, physical_offset, store_timestamp))
            if tag:
                rows.extend((tag_hash, physical_offset, store_timestamp))
        self._hasher.fill_in(rows, begun, texts)


def _hash_tag(queue: ConsumeQueue, tag: str) -> tuple[int, int]:
    """What the queue keeps of a tag that it does not remember, and where the index files it."""
    if len(queue.tags) >= _REMEMBERED_TAGS:
        queue.tags.clear()
    hashes = queue.tags[tag] = tags_code(tag), index_key_hash(f"{queue.index_prefix}T#{tag}")
    return hashes


def _add_rows(rows: array[int], hashes: Ints, physical_offsets: Ints, timestamps: Ints) -> None:
    if not len(hashes):
        return  # numpy gives no bytes of an empty table
    table = np.empty((len(hashes), 3), np.int64)
    table[:, 0] = hashes
    table[:, 1] = physical_offsets
    table[:, 2] = timestamps
    rows.frombytes(table.data.cast("B"))
