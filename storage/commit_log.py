"""The commit log: every message of every topic, one record after the other, in order of arrival.

A record lies whole in one segment. Where one does not fit before the end (8 bytes always stay free), a blank record
says how many bytes are left, and the next segment begins with the record. Offsets count on through segments, so a
record's offset never changes.

One thread appends and reads `end`. `prepare_ahead` and `flush` are for another one: between them they keep the making
of files and pages, and the disk's own time, away from the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.message import MAGIC_BLANK, MessageRecord, encode_record_at
from pocketmq.protocol.runs import patch_records
from pocketmq.protocol.spans import Ints
from pocketmq.storage.disk import free_bytes
from pocketmq.storage.errors import IllegalMessageError
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.layout import BLANK
from pocketmq.storage.mapped_file import MappedFile

# How far in front of the last record pages are kept ready, and the least that is made ready at a time.
AHEAD = 32 << 20
_LEAST_AHEAD = 1 << 20

SEGMENT_SIZE_SETTING = "mappedFileSizeCommitLog"


class CommitLog:
    """The log of a store that has been recovered: `end` is where the next record goes."""

    def __init__(self, files: FileQueue, end: int, last_store_timestamp: int, now_ms: Callable[[], int]) -> None:
        self.files = files
        self.last_store_timestamp = last_store_timestamp
        self.flushed = end
        self.flushed_timestamp = last_store_timestamp
        self.attention = threading.Event()  # set when there is something to prepare
        self._now_ms = now_ms
        self._spare: tuple[int, MappedFile] | None = None
        self._spare_lock = threading.Lock()
        self._flushing = threading.Lock()
        self._failure: OSError | None = None
        if files.offsets and end - files.offsets[-1] < files.file_size:
            self._enter(files.offsets[-1], files.at(files.offsets[-1]), end - files.offsets[-1])
        else:
            start = end - end % files.file_size
            file = files.create(start)
            files.add(start, file)
            self._enter(start, file, end - start)

    def _enter(self, start: int, file: MappedFile, position: int) -> None:
        """Make a segment the one that is written, from `position` on; the bytes there are zero or were never used."""
        self._start = start
        self._file = file
        self._view = file.view
        self._position = position
        self.end = start + position  # one value, so that another thread never sees half of a change
        if position > file.prepared:
            file.prepared = position
        # How far records may reach before something else has to be done first.
        self._limit = min(file.prepared, file.size - BLANK.size)

    @property
    def min_offset(self) -> int:
        return self.files.offsets[0]

    def append(self, record: MessageRecord, queue_offset: int) -> tuple[int, int, int]:
        """Store one message: where it is, its size, and when that was.

        Raises `IllegalMessageError` or `DiskFullError`, and then nothing has changed.
        """
        store_timestamp = self._now_ms()
        if store_timestamp < self.last_store_timestamp:
            store_timestamp = self.last_store_timestamp
        physical_offset = self.end
        try:
            data = encode_record_at(record, queue_offset, physical_offset, store_timestamp)
        except LocalProtocolError as error:
            raise IllegalMessageError(str(error)) from error
        size = len(data)
        if self._position + size > self._limit:
            self._make_room(size)
            if physical_offset != self.end:
                physical_offset = self.end
                data = encode_record_at(record, queue_offset, physical_offset, store_timestamp)
        position = self._position
        end = self._position = position + size
        self._view[position:end] = data
        # In this order: who flushes reads the time first, and so never one of a record that it does not flush.
        self.end = physical_offset + size
        self.last_store_timestamp = store_timestamp
        return physical_offset, size, store_timestamp

    def append_run(
        self, columns: RecordColumns, queue_offsets: Ints, born_host: bytes, store_host: bytes
    ) -> tuple[Ints, int]:
        """Store records that lie back to back, with what only the store knows filled in: where each is, and when.

        They stay together: where not all fit into the segment, all go to the next.
        """
        first, last = int(columns.starts[0]), int(columns.starts[-1]) + int(columns.total_size[-1])
        size = last - first
        store_timestamp = max(self.last_store_timestamp, self._now_ms())
        if self._position + size > self._limit:
            self._make_room(size)
        position = self._position
        self._file.data[position : position + size] = columns.data[first:last]
        starts = columns.starts - first
        physical_offsets = starts + self.end
        patch_records(
            self._view[position : position + size],
            starts,
            queue_offset=queue_offsets,
            physical_offset=physical_offsets,
            store_timestamp=store_timestamp,
            born_host=born_host,
            store_host=store_host,
        )
        self._position = position + size
        self.end += size
        self.last_store_timestamp = store_timestamp
        return physical_offsets, store_timestamp

    def _make_room(self, size: int) -> None:
        """See to it that a record of this size can be written at `end`."""
        self.attention.set()
        if size + BLANK.size > self.files.file_size:
            raise IllegalMessageError(
                f"{size} bytes do not fit into a segment of {self.files.file_size}; {SEGMENT_SIZE_SETTING} is too small"
            )
        if self._position + size + BLANK.size > self._file.size:
            self._roll(size)
        self._file.prepare(self._position + size, at_least=_LEAST_AHEAD)
        self._limit = min(self._file.prepared, self._file.size - BLANK.size)

    def _roll(self, size: int) -> None:
        """Close the segment with a blank record and go on in the next one, in which `size` bytes can be written."""
        position = self._position
        self._file.prepare(position + BLANK.size)
        start, file = self._take_spare()
        file.prepare(size, at_least=_LEAST_AHEAD)
        # From here on nothing can fail.
        BLANK.pack_into(self._view, position, self._file.size - position, MAGIC_BLANK)
        # All at once for who prepares: it would take this segment for the one that comes next, and write zeros to it.
        with self._spare_lock:
            self._spare = None
            self.files.add(start, file)
            self._enter(start, file, 0)

    def _take_spare(self) -> tuple[int, MappedFile]:
        """The segment after the one that is written, created if the other thread has not come to it yet."""
        with self._spare_lock:
            if self._spare is None:
                start = self._start + self.files.file_size
                self._spare = start, self.files.create(start)
            return self._spare

    def prepare_ahead(self) -> None:
        """Get pages, and towards the end of a segment the next one, ready for what is to come. Blocks on the disk."""
        self.attention.clear()
        # What is left of a disk is not all for what is to come: queues and index need some of it now.
        ahead = min(AHEAD, free_bytes(self.files.folder) // 4)
        file, goal = self._file, self._position + ahead
        if file.prepared < min(goal, file.size):
            file.prepare(min(goal, file.size))
            # The zeros of this step would otherwise be on the bill of the next flush.
            self._sync(file)
        if goal + ahead > file.size:
            _, spare = self._take_spare()
            spare.prepare(min(ahead, spare.size))
            spare.sync()

    def flush(self) -> int:
        """Bring to disk what was written before this call, and tell how far that is. Blocks on the disk; one at a time.

        Raises `OSError`: then nobody knows what is on disk, and the log must not be used any further.
        """
        with self._flushing:
            self._flush()
        return self.flushed

    def _flush(self) -> None:
        timestamp = self.last_store_timestamp
        goal = self.end
        for offset in list(self.files.offsets):
            if self.flushed < goal and offset < goal and offset + self.files.file_size > self.flushed:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    self._sync(self.files.at(offset))
        if self._failure is not None:
            raise self._failure
        self.flushed_timestamp, self.flushed = timestamp, goal

    def _sync(self, file: MappedFile) -> None:
        """Bring a segment to disk. The system tells of a failure once; here it is not forgotten."""
        try:
            file.sync()
        except OSError as error:
            self._failure = error
            raise

    def file_at(self, physical_offset: int) -> tuple[MappedFile, int] | None:
        """The segment with this offset, and the place of the offset in it; None where no record can begin."""
        start = self.files.start_of(physical_offset)
        if start is None or physical_offset >= self.end:
            return None
        try:
            return self.files.at(start), physical_offset - start
        except FileNotFoundError:
            return None  # deleted a moment ago

    def close(self) -> None:
        """Give up the files."""
        if self._spare is not None:
            self._spare[1].close()
        self.files.close()

    def delete_spare(self) -> None:
        """Delete a segment that was only prepared, as RocketMQ does at a clean stop."""
        with self._spare_lock:
            if self._spare is not None:
                self._spare[1].delete()
                self._spare = None
