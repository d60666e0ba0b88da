"""All consume queues of a store: finding them, and bringing them to disk.

The thread that appends calls `get`, `create` and `changed`; another one `write_out` and `sync`.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

from pocketmq.storage.consume_queue import ConsumeQueue
from pocketmq.storage.disk import make_folder, sync_folder
from pocketmq.storage.errors import DiskFullError, IllegalMessageError

logger = logging.getLogger("pocketmq.storage")

# What a topic may be called: it becomes the name of a folder, so this is looked at before anything else.
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
_QUEUE_ID = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_QUEUE_ID = 2**31 - 1


def is_queue(topic: str, queue_id: int) -> bool:
    """Whether a queue can have that name."""
    return _TOPIC.fullmatch(topic) is not None and 0 <= queue_id <= _MAX_QUEUE_ID


class ConsumeQueues:
    """The queues below one folder, by topic and number."""

    def __init__(self, folder: Path, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self.table: dict[tuple[str, int], ConsumeQueue] = {}
        self._lock = threading.Lock()
        self._moving = threading.Lock()  # held while files of a queue are written, synced, deleted or moved
        self._changed: deque[ConsumeQueue] = deque()
        self._unsynced: dict[ConsumeQueue, None] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self.table.values()))

    def __len__(self) -> int:
        return len(self.table)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self.table.get((topic, queue_id))

    def create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue of that name, a new one if there is none."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            if not is_queue(topic, queue_id):
                raise IllegalMessageError(f"there can be no queue {queue_id} of a topic {topic!r}")
            folder = self._folder / topic / str(queue_id)
            queue = self.table[topic, queue_id] = ConsumeQueue(topic, queue_id, folder, self._file_size, self._lock)
        return queue

    def on_disk(self) -> list[tuple[str, int]]:
        """The queues that have a folder."""
        return [
            (topic.name, int(queue.name))
            for topic in (self._folder.iterdir() if self._folder.is_dir() else ())
            if topic.is_dir() and _TOPIC.fullmatch(topic.name)
            for queue in topic.iterdir()
            if queue.is_dir() and _QUEUE_ID.fullmatch(queue.name)
        ]

    def changed(self, queue: ConsumeQueue) -> None:
        """Remember that a queue has entries to be written."""
        self._changed.append(queue)

    def write_out(self) -> None:
        """Write all that may be read to the files. Raises `DiskFullError`; the rest then waits for the next call."""
        queues: dict[ConsumeQueue, None] = {}
        while self._changed:
            queues[self._changed.popleft()] = None
        while queues:
            queue = next(iter(queues))
            with self._moving:
                # A topic that was deleted meanwhile must not come back as files.
                if self.table.get((queue.topic, queue.queue_id)) is queue:
                    self._unsynced[queue] = None
                    try:
                        queue.write_out()
                    except DiskFullError:
                        self._changed.extend(queues)
                        raise
            del queues[queue]

    def sync(self, least_pages: int = 0) -> None:
        """Bring to disk what was written, of the queues with at least so many pages of it."""
        folders: set[Path] = set()
        for queue in list(self._unsynced):
            if queue.files.unsynced_pages >= least_pages:
                with self._moving:
                    if self.table.get((queue.topic, queue.queue_id)) is queue:
                        folders |= queue.files.sync()
                    self._unsynced.pop(queue, None)
        for folder in sorted(folders, reverse=True):
            if folder.is_dir():
                sync_folder(folder)

    def remove_topic(self, topic: str, trash: Path) -> Path | None:
        """Forget the queues of a topic and move their folder to a place in `trash`, where it is to be deleted.

        If it cannot be moved, it stays and its files go at once.
        """
        folder = self._folder / topic
        with self._moving:
            queues = [queue for queue in self if queue.topic == topic]
            for queue in queues:
                del self.table[queue.topic, queue.queue_id]
                self._unsynced.pop(queue, None)
            if not _TOPIC.fullmatch(topic) or not folder.is_dir():
                return None
            try:
                make_folder(trash)
                place = Path(mkdtemp(prefix="topic-", dir=trash))
                folder.rename(place / "queues")
            except (OSError, DiskFullError) as error:
                logger.warning("%s cannot be moved: %s", folder, error)
                for queue in queues:
                    queue.files.cut(0)
                place = None
        sync_folder(self._folder)
        return place

    def delete_files_before(self, log_min_offset: int, pause: Callable[[], None]) -> None:
        """Delete the files that lead to nothing but deleted records, with a pause after each queue that had some."""
        for queue in self:
            with self._moving:
                deleted = queue.delete_files_before(log_min_offset)
            if deleted:
                pause()
