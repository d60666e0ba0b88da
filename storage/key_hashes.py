"""Hashing the texts under which the index files messages, one by one and yet quickly: by remembering.

Keys that count up, as the unique keys of producers do, differ in their last characters only. So the hashes of their
beginnings are remembered, and of the next key only the end has to be gone through.
"""

from __future__ import annotations

from array import array
from typing import Final

from pocketmq.protocol.hashes import fold_key_hash, java_hash

TO_BE_HASHED: Final = -1

_TAIL: Final = 8
_REMEMBERED: Final = 4096  # beginnings, a few hundred KB; who sends more of them pays with a little time


class KeyHasher:
    """Hashes index texts, and remembers what it may need again."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}

    def fill_in(self, rows: array[int], place: int, texts: list[str]) -> None:
        """Replace every TO_BE_HASHED from `place` on by the hash of its text, in order."""
        heads = self._heads
        for text in texts:
            if text.isascii():
                code = heads.get(text[:-_TAIL])
                if code is None:
                    code = self._remember(text[:-_TAIL])
                for unit in text[-_TAIL:].encode():
                    code = code * 31 + unit
            else:
                code = java_hash(text)
            place = rows.index(TO_BE_HASHED, place)
            rows[place] = fold_key_hash(code)

    def _remember(self, head: str) -> int:
        if len(self._heads) >= _REMEMBERED:
            self._heads.clear()
        code = self._heads[head] = java_hash(head)
        return code
