"""The property texts of many records -> one column of names and one of values.

A text is `name 0x01 value 0x02` repeated. What matters is how RocketMQ's own reader takes it: the last 0x02 may be
missing, a value runs from the first 0x01 to the next 0x02 and may hold further 0x01, a pair with an empty name or
an empty value does not exist, and of two pairs with one name the last counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pocketmq.protocol.hashes import java_hash_bytes
from pocketmq.protocol.spans import Ints, Mask, Spans

_NAME_END = 1
_PAIR_END = b"\x02"


@dataclass(frozen=True, slots=True, eq=False)
class PropertyColumns:
    """The properties of `record_count` records: pair i belongs to record `rows[i]`; rows never decrease."""

    record_count: int
    rows: Ints
    names: Spans
    values: Spans

    @classmethod
    def parse(cls, texts: Spans) -> PropertyColumns:
        """Every pair of every text, repeated names included."""
        rows, pairs = texts.split(_PAIR_END)
        marks = np.flatnonzero(pairs.data == _NAME_END)
        if not (len(marks) == len(pairs) and _splits(marks, pairs).all()):
            # Some pair has no 0x01, or several, or one at its edge: look up the first one of each pair.
            marks = np.append(marks, len(pairs.data))[np.searchsorted(marks, pairs.starts)]
            kept = np.flatnonzero(_splits(marks, pairs))
            rows, pairs, marks = rows[kept], pairs[kept], marks[kept]
        names = Spans(pairs.data, pairs.starts, marks)
        values = Spans(pairs.data, marks + 1, pairs.ends)
        return cls(len(texts), rows, names, values)

    @property
    def offsets(self) -> Ints:
        """Arrow's map offsets: the pairs of record i are `offsets[i]` to `offsets[i + 1]`."""
        return np.searchsorted(self.rows, np.arange(self.record_count + 1))

    def column(self, name: bytes) -> Spans:
        """The value of one property in every record; empty where it is absent, for no value is empty."""
        pairs = np.flatnonzero(self.names.equal(name))
        rows = self.rows[pairs]
        starts = np.zeros(self.record_count, np.int64)
        ends = np.zeros(self.record_count, np.int64)
        # Where a row repeats, numpy keeps what is assigned last, which is the pair that counts.
        starts[rows] = self.values.starts[pairs]
        ends[rows] = self.values.ends[pairs]
        return Spans(self.values.data, starts, ends)

    def distinct(self) -> PropertyColumns:
        """Only the pairs that count: of a name repeated within a record, the last."""
        suspects = self._suspects()
        if not len(suspects):
            return self
        names = self.names[suspects].tolist()
        last = dict(zip(zip(self.rows[suspects].tolist(), names, strict=True), suspects.tolist(), strict=True))
        kept = np.ones(len(self.rows), np.bool_)
        kept[suspects] = False
        kept[list(last.values())] = True
        return PropertyColumns(self.record_count, self.rows[kept], self.names[kept], self.values[kept])

    def _suspects(self) -> Ints:
        """The pairs of the records in which two names have one hash."""
        hashes = java_hash_bytes(self.names.data, self.names.starts, self.names.ends)
        prints = self.rows << 32 | hashes.astype(np.int64) & 0xFFFFFFFF
        # Rows are in order already, of which a stable sort makes much and a quick one nothing.
        ordered = np.sort(prints, kind="stable")
        doubled_rows = ordered[1:][ordered[1:] == ordered[:-1]] >> 32
        return np.flatnonzero(np.isin(self.rows, doubled_rows))


def _splits(marks: Ints, pairs: Spans) -> Mask:
    """Which marks lie inside their pair with at least one byte on either side."""
    return (pairs.starts < marks) & (marks < pairs.ends - 1)
