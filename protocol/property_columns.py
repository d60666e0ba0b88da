"""The property texts of many records -> one column of names and one of values.

A text is `name 0x01 value 0x02` repeated. What matters is how RocketMQ's own reader takes it: the last 0x02 may be
missing, a value runs from the first 0x01 to the next 0x02 and may hold further 0x01, a pair with an empty name or
an empty value does not exist, and of two pairs with one name the last counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.hashes import hash_texts
from pocketmq.protocol.spans import Ints, Mask, Spans, at_every_byte

_NAME_END = b"\x01"
_PAIR_END = b"\x02"


@dataclass(frozen=True, eq=False)
class PropertyColumns:
    """The properties of `record_count` records: pair i belongs to record `rows[i]`; rows never decrease."""

    record_count: int
    rows: Ints
    names: Spans
    values: Spans

    @classmethod
    def parse(cls, texts: Spans) -> PropertyColumns:
        """Every pair of every text, repeated names included."""
        data, fences = texts.fenced(_PAIR_END)
        # The places of 0x01 and 0x02; the first and the last are 0x02.
        marks = (data - 1 < 2).nonzero()[0]
        ends_name = data[marks] == ord(_NAME_END)
        in_value = ends_name[1:] & ends_name[:-1]
        if np.count_nonzero(in_value):
            # Of several 0x01 only the first ends the name.
            kept = np.append(True, ~in_value)
            marks, ends_name = marks[kept], ends_name[kept]
        # Now every 0x01 stands between two 0x02.
        middles = ends_name.nonzero()[0]
        starts, name_ends, ends = marks[middles - 1] + 1, marks[middles], marks[middles + 1]
        whole = (starts < name_ends) & (name_ends < ends - 1)
        if np.count_nonzero(whole) < len(whole):
            starts, name_ends, ends = starts[whole], name_ends[whole], ends[whole]
        offsets = starts.searchsorted(fences)
        rows = np.arange(len(texts)).repeat(offsets[1:] - offsets[:-1])
        return cls(len(texts), rows, Spans(data, starts, name_ends), Spans(data, name_ends + 1, ends))

    @property
    def offsets(self) -> Ints:
        """Arrow's map offsets: the pairs of record i are `offsets[i]` to `offsets[i + 1]`."""
        return np.searchsorted(self.rows, np.arange(self.record_count + 1))

    def column(self, name: bytes) -> Spans:
        """The value of one property in every record; empty where it is absent, for no value is empty."""
        pairs = self.find(name)
        rows = self.rows[pairs]
        starts = np.zeros(self.record_count, np.int64)
        ends = np.zeros(self.record_count, np.int64)
        # Where a row repeats, numpy keeps what is assigned last, which is the pair that counts.
        starts[rows] = self.values.starts[pairs]
        ends[rows] = self.values.ends[pairs]
        return Spans(self.values.data, starts, ends)

    def find(self, name: bytes) -> Ints:
        """The pairs with this name."""
        if _NAME_END in name:
            return np.array([], np.int64)
        # Behind a name stands its 0x01, so that a shorter one cannot be taken for the head of a longer one.
        pairs = self.find_heads((name + _NAME_END)[:8])
        if len(name) >= 8:
            rest = Spans(self.names.data, self.names.starts[pairs] + 8, self.names.ends[pairs])
            pairs = pairs[rest.equal(name[8:])]
        return pairs

    def find_heads(self, head: bytes) -> Ints:
        """The pairs whose name begins with `head`, which is at most 8 bytes long."""
        mask = (1 << 8 * len(head)) - 1
        found: Mask = self._openings & mask == int.from_bytes(head, "little")
        return found.nonzero()[0]

    @cached_property
    def _openings(self) -> NDArray[np.uint64]:
        """The 8 bytes from the beginning of each name on, as a number: numbers are compared faster than strings."""
        return at_every_byte(self.names.data, "<u8")[self.names.starts]

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
        prints = self.rows << 32 | hash_texts(self.names).codes
        # Rows are in order already, of which a stable sort makes much and a quick one nothing.
        ordered = np.sort(prints, kind="stable")
        doubled_rows = ordered[1:][ordered[1:] == ordered[:-1]] >> 32
        return np.flatnonzero(np.isin(self.rows, doubled_rows))
