"""Topics that were deleted while the log still holds their messages.

Their records stay in the log until their segment goes. So that a topic of the same name starts at 0 and stays so, the
end of the log at the moment of the deletion is kept in `config/deletedTopics.json`: records of the topic in front of
it belong to nobody, whoever comes across them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.spans import Mask
from pocketmq.storage.config_files import ConfigFile

_TABLE = "deletedTopics"


class DeletedTopics:
    """The positions of deleted topics."""

    def __init__(self, folder: Path) -> None:
        self._file = ConfigFile(folder / "deletedTopics.json")
        self._document = self._file.load()
        table = self._document.get(_TABLE)
        self._ends = {topic: int(end) for topic, end in table.items()} if isinstance(table, dict) else {}

    @property
    def ends(self) -> Collection[int]:
        return self._ends.values()

    def end_of(self, topic: str) -> int:
        """Records of the topic in front of this offset do not count."""
        return self._ends.get(topic, 0)

    def add(self, topic: str, log_end: int) -> None:
        """Remember, for good, that all of the topic's records so far are deleted."""
        self._save({**self._ends, topic: log_end})

    def forget_before(self, log_min_offset: int) -> None:
        """Forget topics of which the log has nothing left."""
        left = {topic: end for topic, end in self._ends.items() if end > log_min_offset}
        if len(left) < len(self._ends):
            self._save(left)

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
