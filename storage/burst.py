"""What is appended between two publications: which queues it is in, and what the index is to be told of it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.spans import Ints
from pocketmq.storage.consume_queue import ConsumeQueue

Noted: TypeAlias = tuple[int, int, int, str, int]
"""A message that came alone: the hash of its index prefix, its place, its store time, its properties, its sys flag.

A tuple, for speed."""


class Place(NamedTuple):
    """Where a message begins in the log, and when it was stored."""

    physical_offset: int
    store_timestamp: int


class Batch(NamedTuple):
    """Messages that came together: of each of their keys the hash and the place, and the last message of all.

    Nothing of it depends on the request that brought them, whose bytes may be gone when it is needed.
    """

    key_hashes: Ints
    key_offsets: Ints
    last: Place

    @classmethod
    def of(cls, columns: RecordColumns, physical_offsets: Ints, store_timestamp: int, *, has_index: bool) -> Batch:
        """The keys of records that were put at these offsets."""
        rows, hashes = columns.index_hashes() if has_index else (_NONE, _NONE)
        return cls(hashes, physical_offsets[rows], Place(int(physical_offsets[-1]), store_timestamp))


_NONE: Ints = np.empty(0, np.int64)


def place_of(message: Noted | Batch) -> Place:
    """The place of a message; of a batch that of its last."""
    return message.last if isinstance(message, Batch) else Place(message[1], message[2])


class Burst:
    """Messages in the order of their arrival, still to be published."""

    __slots__ = ("end", "messages", "queues")

    def __init__(self) -> None:
        self.end = 0  # of the last record
        self.queues: dict[ConsumeQueue, int] = {}  # how far each queue can be read once this is published
        self.messages: list[Noted | Batch] = []

    def __bool__(self) -> bool:
        return self.end > 0

    def join(self, other: Burst) -> None:
        """Take over what the next burst holds."""
        self.end = other.end
        self.queues.update(other.queues)
        self.messages += other.messages

    def forget(self, topic: str) -> None:
        """Leave out a topic that was deleted. Its index entries lead nowhere then, like those in the index."""
        self.queues = {queue: end for queue, end in self.queues.items() if queue.topic != topic}
