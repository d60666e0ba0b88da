"""Topics that were deleted while the log still holds their messages.

Their records stay in the log until their segment goes. So that a topic of the same name starts at 0 and stays so, the
end of the log at the moment of the deletion is kept in `config/deletedTopics.json`: records of the topic in front of
it belong to nobody, whoever comes across them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.spans import Mask
from pocketmq.storage.config_files import ConfigFile

_TABLE = "deletedTopics"


class DeletedTopics:
    """The positions of deleted topics. One thread adds some, another one forgets them."""

    def __init__(self, folder: Path) -> None:
        self._changing = threading.Lock()
        self._file = ConfigFile(folder / "deletedTopics.json")
        self._document = self._file.load()
        table = self._document.get(_TABLE)
        ends = table.items() if isinstance(table, dict) else ()
        self._ends = {str(topic): end for topic, end in ends if isinstance(end, int)}

    @property
    def ends(self) -> Collection[int]:
        return self._ends.values()

    def end_of(self, topic: str) -> int:
        """Records of the topic in front of this offset do not count."""
        return self._ends.get(topic, 0)

    def add(self, topic: str, log_end: int) -> None:
        """Remember, for good, that all of the topic's records so far are deleted."""
        with self._changing:
            self._save({**self._ends, topic: log_end})

    def forget_before(self, log_min_offset: int) -> None:
        """Forget topics of which the log has nothing left."""
        with self._changing:
            left = {topic: end for topic, end in self._ends.items() if end > log_min_offset}
            if len(left) < len(self._ends):
                self._save(left)

    def cut(self, log_end: int) -> None:
        """Take note that the log ends here. What it has lost behind that is gone, and others will take its place."""
        if any(end > log_end for end in self.ends):
            self._save({topic: min(end, log_end) for topic, end in self._ends.items()})

    def _save(self, ends: dict[str, int]) -> None:
        self._document[_TABLE] = ends
        self._file.save(self._document)
        self._ends = ends

    def living(self, columns: RecordColumns) -> Mask:
        """Which records belong to topics that were not deleted after them."""
        living = np.ones(len(columns), np.bool_)
        for topic, end in self._ends.items():
            living &= ~(columns.topics.equal(topic.encode()) & (columns.physical_offset < end))
        return living
