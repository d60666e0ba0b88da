"""Going through a commit log record by record, whatever state it is in.

A record is good if its lengths add up, its body has its CRC, none of its pages is missing and it says itself that it
lies where it lies. What is not good ends the stretch; the log then goes on at the next place that holds a good record,
if there is one, and the bytes in between are a gap. Stale bytes behind an old end of the log could look like that too,
but their time gives them away: it lies before that of the last good record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from pocketmq.protocol.columns import RecordColumns, size_chain, sound_records
from pocketmq.protocol.message import MAGIC_BLANK
from pocketmq.protocol.spans import Bytes, Ints, Mask
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.layout import BLANK, PAGE
from pocketmq.storage.mapped_file import MappedFile

# How much is looked at in one step: enough for numpy, little enough to stay in the caches.
_STEP: Final = 4 << 20

# Versions 1 and 2 differ in the byte that follows.
_MAGIC_BYTES: Final = b"\xda\xa3\x20"


class Gap(NamedTuple):
    """Bytes of the log that belong to no good record, followed by some that do."""

    start: int
    end: int


class End(NamedTuple):
    """Where the log ends: no good record follows."""

    offset: int


class LogScan:
    """One pass over the segments of a log, from `start` on, which should be where a record begins."""

    def __init__(self, files: FileQueue, start: int) -> None:
        self._files = files
        self._start = start
        self._times: tuple[int, ...] = (0,)  # of the last good records

    def __iter__(self) -> Iterator[RecordColumns | Gap | End]:
        """Good records in stretches, the gaps between them, and at last the end."""
        offset = self._start
        while True:
            for found in self._good_from(offset):
                self._times = (*self._times, *found.store_timestamp[-2:].tolist())[-2:]
                yield found
                offset = int(found.physical_offset[-1]) + int(found.total_size[-1])
            if self._at_blank(offset):
                start = self._files.start_of(offset)
                assert start is not None
                offset = start + self._files.file_size
                if self._files.start_of(offset) is not None and self._is_good(offset):
                    continue
            resumed = self._next_good(offset)
            if resumed is None:
                yield End(offset)
                return
            if resumed > offset:
                yield Gap(offset, resumed)
            offset = resumed

    def time_of_first(self) -> int | None:
        """When the record at the start was stored; None if there is no good one."""
        first = next(self._good_from(self._start), None)
        return None if first is None else int(first.store_timestamp[0])

    def _good_from(self, offset: int) -> Iterator[RecordColumns]:
        """The good records that follow each other from `offset` to the end of the segment at most."""
        start = self._files.start_of(offset)
        if start is None:
            return
        file = self._files.at(start)
        position = offset - start
        if file.is_hole(position):
            return
        while position < file.size:
            columns = _good_at(file.data[position : position + _STEP], start + position)
            if columns is None:
                # Not one: the first may be larger than a step.
                columns = _good_at(file.data[position:], start + position, most=1)
            if columns is None:
                return
            yield columns
            position += int(columns.starts[-1]) + int(columns.total_size[-1])

    def _at_blank(self, offset: int) -> bool:
        start = self._files.start_of(offset)
        if start is None or offset - start > self._files.file_size - BLANK.size:
            return False
        file = self._files.at(start)
        return not file.is_hole(offset - start) and BLANK.unpack_from(file.view, offset - start)[1] == MAGIC_BLANK

    def _is_good(self, offset: int) -> bool:
        return next(self._good_from(offset), None) is not None

    def _next_good(self, offset: int) -> int | None:
        """Where the next good record begins, at or behind `offset`; None if there is none."""
        for start in self._files.offsets:
            if start + self._files.file_size > offset:
                file = self._files.at(start)
                for found in file.find(_MAGIC_BYTES, max(offset - start, 0)):
                    if found >= 4 and self._resumes_at(file, found - 4, start):
                        return start + found - 4
        return None

    def _resumes_at(self, file: MappedFile, position: int, start: int) -> bool:
        columns = _good_at(file.data[position:], start + position, most=1)
        return columns is not None and int(columns.store_timestamp[0]) >= min(self._times)


def _good_at(data: Bytes, offset: int, most: int | None = None) -> RecordColumns | None:
    """The good records at the beginning of `data`, which lies at `offset` in the log; None if the first is bad."""
    starts = _chain(data, most)
    starts = starts[: _leading(sound_records(data, starts))]
    columns = RecordColumns(data, starts)
    good = _leading(
        (columns.physical_offset == starts + offset)
        & (columns.store_timestamp > 0)  # the very first record of a batch that was not completed lies at 0, too
        & columns.crc_matches()
        & _has_all_pages(columns, offset)
    )
    if not good:
        return None
    return columns if good == len(starts) else RecordColumns(data, starts[:good])


def _has_all_pages(columns: RecordColumns, offset: int) -> Mask:
    """Which records have all pages of topic and properties, which no CRC covers: a loss of power can leave some out.

    Such a page is all zeros, from its beginning to that of the next or to the end of the record. In a topic that is
    short and has no zeros of its own, the last byte tells.
    """
    data, properties = columns.data, columns.properties
    whole: Mask = (data[properties.ends - 1] != 0) & (properties.lengths < PAGE) | (properties.lengths == 0)
    for row in np.flatnonzero(~whole).tolist():
        start, end = int(properties.starts[row]), int(properties.ends[row])
        pages = range(start + -(start + offset) % PAGE, end, PAGE)
        whole[row] = all(data[page : min(page + PAGE, end)].any() for page in pages)
    whole &= data[columns.topics.ends - 1] != 0
    return whole


def _chain(data: Bytes, most: int | None) -> Ints:
    """Where the records begin, going by their sizes."""
    if most != 1:
        return size_chain(data)[0]
    return np.zeros(1 if len(data) else 0, np.int64)


def _leading(good: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """How many at the beginning are good."""
    return len(good) if good.all() else int(np.argmin(good))
