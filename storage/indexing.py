"""From messages to the index, many at a time.

Filing one message alone takes many times as long as filing it among a thousand, and nobody sees the index but who asks
it. So messages wait here until enough have come together, until somebody asks, or until progress is saved. After a
crash they are read from the log again, like all that was not saved.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import cast

import numpy as np

from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.storage.burst import Batch, Noted, Place, place_of
from pocketmq.storage.dispatch import is_indexed
from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.index import NO_KEYS, Index, Keys

# So many messages are filed together, or fewer if they take so much of the log.
_ENOUGH = 1024
_ENOUGH_BYTES = 4 << 20


class Indexing:
    """Files messages in the index, and knows how far that is. One thread adds them; any may let them be filed."""

    def __init__(self, index: Index, *, is_enabled: bool = True) -> None:
        self.index = index
        self.progress = Place(0, 0)  # the last message that is filed, and all before it are
        self.full: DiskFullError | None = None  # why nothing is filed at the moment
        self._is_enabled = is_enabled
        self._is_closed = False
        self._waiting: deque[Noted | Batch] = deque()
        self._hashed = NO_KEYS  # what the disk had no room for
        self._reached = self.progress  # all up to here is filed or hashed
        self._added = 0  # where the last message begins that was added
        self._filing = threading.Lock()

    def start_at(self, place: Place) -> None:
        """Take note that all up to here is in the queues, and was given to `add_keys`."""
        self._reached = place
        self.file()

    def add(self, messages: Sequence[Noted | Batch]) -> None:
        """Take note of messages, and file all if they are enough; also if there was no room, for there may be some."""
        if messages:
            self._waiting.extend(messages)
            self._added = place_of(messages[-1]).physical_offset
        bytes_waiting = self._added - self._reached.physical_offset
        if len(self._waiting) >= _ENOUGH or bytes_waiting >= _ENOUGH_BYTES or self.full is not None:
            self.file()

    def add_keys(self, keys: Keys) -> None:
        """File what is known already."""
        with self._filing:
            self._file([keys])

    def file(self) -> None:
        """File all that waits. On a full disk it goes on waiting; `full` tells."""
        with self._filing:
            if self._is_closed:
                return
            messages = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                keys = keys_of(messages) if self._is_enabled else []
            except BaseException:
                self._waiting.extendleft(reversed(messages))
                raise
            if messages:
                self._reached = place_of(messages[-1])
            self._file(keys)
            if self.full is None:
                self.progress = self._reached  # now only: it is a promise to other threads

    def _file(self, more: Sequence[Keys]) -> None:
        keys = np.concatenate((self._hashed, *more), axis=1)
        try:
            while keys.shape[1]:
                keys = keys[:, self.index.insert(keys) :]
            self.full = None
        except DiskFullError as error:
            # Not the error itself: its traceback would keep the file that could not be made, and the room it takes.
            self.full = DiskFullError(error.path, error.free_bytes, error.setting)
        finally:
            self._hashed = keys

    def close(self) -> None:
        """Give up the index, when no other thread files any more. What waits is read from the log by the next start."""
        self._is_closed = True
        self.index.close()

    @contextmanager
    def complete_index(self) -> Iterator[Index]:
        """The index with all messages in it, and nobody else who files any."""
        self.file()
        with self._filing:
            yield self.index


def keys_of(messages: Sequence[Noted | Batch]) -> list[Keys]:
    """What there is to be filed, in the order of the messages."""
    parts: list[Keys] = []
    for kind, group in groupby(messages, type):
        if kind is Batch:
            parts += (_keys_of_batch(batch) for batch in cast(Iterator[Batch], group))
        else:
            parts.append(_keys_of_messages(list(cast(Iterator[Noted], group))))
    return parts


def _keys_of_batch(batch: Batch) -> Keys:
    timestamps = np.full(len(batch.key_hashes), batch.last.store_timestamp)
    return np.stack((batch.key_hashes, batch.key_offsets, timestamps))


def _keys_of_messages(messages: Sequence[Noted]) -> Keys:
    """All messages in one step."""
    prefixes, offsets, timestamps, texts, flags = zip(*messages, strict=True)
    rows, hashes = PropertyColumns.parse_texts(texts).index_hashes(np.array(prefixes, np.uint32))
    if any(flags):
        kept = is_indexed(np.array(flags)[rows])
        rows, hashes = rows[kept], hashes[kept]
    return np.stack((hashes, np.array(offsets)[rows], np.array(timestamps)[rows]))
