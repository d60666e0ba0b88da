"""The property texts of many records -> one column of names and one of values.

A text is `name 0x01 value 0x02` repeated. What matters is how RocketMQ's own reader takes it: the last 0x02 may be
missing, a value runs from the first 0x01 to the next 0x02 and may hold further 0x01, a pair with an empty name or
an empty value does not exist, and of two pairs with one name the last counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.hash_columns import Codes, TextHashes, extended, hash_texts, index_key_hashes
from pocketmq.protocol.spans import FENCES_AT_END, Bytes, Ints, Mask, Spans, as_bytes, at_every_byte, offsets_of

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
        return cls._parse(*texts.fenced(_PAIR_END))

    @classmethod
    def parse_texts(cls, texts: Sequence[str]) -> PropertyColumns:
        """The same for texts that are not encoded yet. What has no form in UTF-8 becomes a question mark."""
        joined = "\x02".join(texts)
        lengths = map(len, texts if joined.isascii() else [text.encode("utf-8", "replace") for text in texts])
        fences = offsets_of(np.fromiter(lengths, np.int64, len(texts)) + 1)
        data = b"".join((_PAIR_END, joined.encode("utf-8", "replace"), FENCES_AT_END * _PAIR_END))
        return cls._parse(as_bytes(data), fences)

    @classmethod
    def _parse(cls, data: Bytes, fences: Ints) -> PropertyColumns:
        """The pairs of texts with 0x02 between them, as `Spans.fenced` gives them."""
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
        count = len(fences) - 1
        rows = np.arange(count).repeat(offsets[1:] - offsets[:-1])
        return cls(count, rows, Spans(data, starts, name_ends), Spans(data, name_ends + 1, ends))

    @property
    def offsets(self) -> Ints:
        """Arrow's map offsets: the pairs of record i are `offsets[i]` to `offsets[i + 1]`."""
        return np.searchsorted(self.rows, np.arange(self.record_count + 1))

    def column(self, name: bytes) -> Spans:
        """The value of one property in every record; empty where it is absent, for no value is empty."""
        rows, values = self.having(name)
        starts = np.zeros(self.record_count, np.int64)
        ends = np.zeros(self.record_count, np.int64)
        starts[rows], ends[rows] = values.starts, values.ends
        return Spans(values.data, starts, ends)

    def having(self, name: bytes) -> tuple[Ints, Spans]:
        """The records that have a property, and its values in these."""
        pairs = self.find(name)
        rows = self.rows[pairs]
        if len(rows) > 1:
            is_last = rows[1:] != rows[:-1]
            if np.count_nonzero(is_last) < len(is_last):
                kept = np.append(is_last, True)
                pairs, rows = pairs[kept], rows[kept]
        return rows, self.values[pairs]

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

    @cached_property
    def _tags(self) -> tuple[Ints, TextHashes]:
        """The records that have tags, and the hashes of these."""
        rows, tags = self.having(b"TAGS")
        return rows, hash_texts(tags)

    def tags_code(self) -> Ints:
        """What a consume queue keeps of the tags of each record: their hash, 0 without any."""
        rows, hashes = self._tags
        codes = np.zeros(self.record_count, np.int64)
        codes[rows] = hashes.codes.view(np.int32)
        return codes

    def index_hashes(self, prefixes: Codes) -> tuple[Ints, Ints]:
        """What the index files each record under, with its row: the hashes of `topic#key`, which are not negative.

        `prefixes` are the hashes of `topic#`. A record has one entry for its unique key, then one for each of its
        KEYS, and one for `T#` and its tag.
        """
        key_rows, keys = self.having(b"UNIQ_KEY")
        rows_of_more, more = self.having(b"KEYS")
        if len(more):
            pieces, more = more.split(b" ")
            key_rows, keys = np.concatenate((key_rows, rows_of_more[pieces])), keys.followed_by(more)
        tag_rows, tags = self._tags
        rows = np.concatenate((key_rows, tag_rows))
        codes = np.concatenate(
            (hash_texts(keys).after(prefixes[key_rows]), tags.after(extended(prefixes, "T#")[tag_rows]))
        )
        order = rows.argsort(kind="stable")
        return rows[order], index_key_hashes(codes[order])

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
