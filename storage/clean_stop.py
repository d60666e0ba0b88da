"""What a clean stop leaves for the next start: `config/cleanStop.json`, with the ends of the log and of all queues.

It spares the next start from reading anything. It is believed only if the log still ends where it says: another
broker may have opened the directory since.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pocketmq.storage.config_files import ConfigFile
from pocketmq.storage.file_queue import FileQueue
from pocketmq.storage.index import Index
from pocketmq.storage.layout import BLANK


def _file(folder: Path) -> ConfigFile:
    return ConfigFile(folder / "cleanStop.json")


@dataclass(frozen=True, slots=True)
class CleanStop:
    """The state of a store that was closed."""

    log_end: int
    last_record: int
    last_store_timestamp: int
    queues: dict[tuple[str, int], int]  # how many entries each has
    index: list[tuple[str, int]]  # name and next entry of each file

    @classmethod
    def load(cls, folder: Path) -> CleanStop | None:
        """The last clean stop; None if there was none or the file cannot be read."""
        document = _file(folder).load()
        try:
            return cls(
                int(document["logEnd"]),
                int(document["lastRecord"]),
                int(document["lastStoreTimestamp"]),
                {
                    (topic, int(number)): int(end)
                    for topic, ends in document["queues"].items()
                    for number, end in ends.items()
                },
                [(str(name), int(next_entry)) for name, next_entry in document["index"].items()],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def save(self, folder: Path) -> None:
        queues: dict[str, dict[int, int]] = {}
        for (topic, queue_id), end in self.queues.items():
            queues.setdefault(topic, {})[queue_id] = end
        _file(folder).save(
            {
                "logEnd": self.log_end,
                "lastRecord": self.last_record,
                "lastStoreTimestamp": self.last_store_timestamp,
                "queues": queues,
                "index": dict(self.index),
            }
        )

    def fits_index(self, index: Index) -> bool:
        """Whether the index is as it was."""
        return self.index == [(file.name, file.header.next_entry) for file in index.files]

    def fits_log(self, files: FileQueue) -> bool:
        """Nothing has been written at the end of the log, and no segment has come behind it."""
        if not files.offsets:
            return False
        start = files.start_of(self.log_end)
        if start is None:
            return files.offsets[-1] + files.file_size == self.log_end
        place = self.log_end - start
        nothing = bytes(min(BLANK.size, files.file_size - place))
        return start == files.offsets[-1] and files.at(start).view[place : place + len(nothing)] == nothing
