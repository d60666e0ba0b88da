"""Hashing the texts under which the index files messages: many at once with numpy, a few by remembering.

Keys that count up, as the unique keys of producers do, differ in their last characters only. So the hashes of their
beginnings are remembered, and of the next key only the end has to be gone through.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np

from pocketmq.protocol.hashes import fold_key_hash, hash_texts, index_key_hash, index_key_hashes, java_hash
from pocketmq.protocol.spans import Ints, Spans, as_bytes, offsets_of

TO_BE_HASHED: Final = -1

_FEW: Final = 48  # so many texts are hashed as quickly one by one
_TAIL: Final = 8
_REMEMBERED: Final = 4096  # beginnings, a few hundred KB; who sends more of them pays with a little time


class KeyHasher:
    """Hashes index texts, and remembers what it may need again."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}

    def fill_in(self, rows: array[int], texts: list[str]) -> None:
        """Replace every TO_BE_HASHED in rows of hash, offset and time by the hash of its text, in order."""
        if len(texts) < _FEW:
            place = 0
            for key_hash in self._hash_few(texts):
                place = rows.index(TO_BE_HASHED, place)
                rows[place] = key_hash
        else:
            table = np.frombuffer(rows, np.int64)[::3]
            table[table == TO_BE_HASHED] = _hash_many(texts)

    def _hash_few(self, texts: list[str]) -> Iterator[int]:
        heads = self._heads
        for text in texts:
            if not text.isascii():
                yield index_key_hash(text)
                continue
            head = text[:-_TAIL]
            code = heads.get(head)
            if code is None:
                code = self._remember(head)
            for unit in text[-_TAIL:].encode():
                code = code * 31 + unit
            yield fold_key_hash(code)

    def _remember(self, head: str) -> int:
        if len(self._heads) >= _REMEMBERED:
            self._heads.clear()
        code = self._heads[head] = java_hash(head)
        return code


def _hash_many(texts: list[str]) -> Ints:
    joined = "".join(texts)
    data = joined.encode("utf-8", "replace")
    if len(data) == len(joined):
        spans = Spans.adjacent(as_bytes(data), offsets_of(np.fromiter(map(len, texts), np.int64, len(texts))))
    else:
        spans = Spans.of([text.encode("utf-8", "replace") for text in texts])
    return index_key_hashes(hash_texts(spans).codes)
