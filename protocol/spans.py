"""Columns of byte strings that lie scattered in one buffer, handled without a Python object for each.

Two ideas carry the whole module:

* *Every byte position is an element.* An array over the buffer whose elements are 4 bytes wide but only 1 byte
  apart (`at_every_byte`) turns "read the big-endian int at each of these positions" into plain indexing. The same
  works for writing, and for blocks of any width.
* *Two overlapping blocks copy any length.* A span of 2**k to 2**(k+1) - 1 bytes is covered by two blocks of
  2**k bytes, one flush with each end. So spans of all lengths are copied with two indexing steps per power of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
BytesLike: TypeAlias = bytes | bytearray | memoryview | Bytes
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# From 2 KiB on, one plain copy for each span is faster than two passes over all.
_BLOCKED_BITS = 11

# Up to here Python handles strings one by one faster than numpy all of them.
_FEW = 64

# Strings of one length that are no longer than this are copied faster than views of them are made.
_COPIED = 1024

# Behind the last of fenced strings stand so many fences: a number of 8 bytes can be read from any byte of a string.
FENCES_AT_END = 8

# More than any data holds, and yet a few of it can be added up.
_HUGE = 2**60 - 1


def as_bytes(buffer: BytesLike) -> Bytes:
    """The buffer as an array of bytes that shares its memory."""
    return np.frombuffer(buffer, np.uint8)


def at_every_byte(data: Bytes, dtype: str | np.dtype[Any]) -> NDArray[Any]:
    """A view whose element i is the value that starts at byte i, aligned or not."""
    width = np.dtype(dtype).itemsize
    return np.ndarray(max(len(data) - width + 1, 0), dtype, data, strides=(1,))


def read_at(data: Bytes, dtype: str, positions: Ints) -> NDArray[Any]:
    """The values that start at `positions`, in the byte order of this machine."""
    values = at_every_byte(data, dtype)[positions]
    return values.astype(values.dtype.newbyteorder("="))


def read_lengths(data: Bytes, dtype: str, positions: Ints) -> Ints:
    """Signed lengths that are still to be checked, as are their positions: these may lie behind the data.

    Such a position is moved to the end of the data, which must hold at least one length. A negative length becomes
    a huge one. So lengths only ever lead forward, and wrong ones do not add up to what they should.
    """
    last = len(data) - np.dtype(dtype).itemsize
    lengths: Ints = at_every_byte(data, dtype)[np.minimum(positions, last)].astype(np.int64)
    lengths &= _HUGE
    return lengths


def write_at(data: Bytes, dtype: str, positions: Ints, values: object) -> None:
    """Write one value for all, or one for each, at `positions`."""
    at_every_byte(data, dtype)[positions] = values


def offsets_of(lengths: Ints) -> Ints:
    """Where strings of these lengths begin when they are laid end to end, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """A column of byte strings: string i is `data[starts[i]:ends[i]]`.

    Whoever makes one vouches that every span lies inside the data; nothing here checks it again.
    """

    data: Bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, values: Sequence[bytes]) -> Spans:
        """The column of these strings."""
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        return cls.adjacent(as_bytes(b"".join(values)), offsets_of(lengths))

    @classmethod
    def adjacent(cls, data: Bytes, offsets: Ints) -> Spans:
        """The column in Arrow's form: strings end to end, string i from `offsets[i]` to `offsets[i + 1]`."""
        return cls(data, offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: Ints | Mask | slice) -> Spans:
        """Some of the rows, over the same data."""
        return Spans(self.data, self.starts[rows], self.ends[rows])

    @property
    def lengths(self) -> Ints:
        return self.ends - self.starts

    @property
    def present(self) -> Mask:
        """Which rows are not empty."""
        return self.ends > self.starts

    def followed_by(self, other: Spans) -> Spans:
        """The rows of both, in this order, over a buffer that holds the data of both."""
        same = self.data is other.data
        shift = 0 if same else len(self.data)
        return Spans(
            self.data if same else np.concatenate((self.data, other.data)),
            np.concatenate((self.starts, other.starts + shift)),
            np.concatenate((self.ends, other.ends + shift)),
        )

    def common(self) -> bytes | None:
        """The string that all rows hold; None if they differ or there are none."""
        lengths = self.lengths
        if not len(self) or np.count_nonzero(lengths != lengths[0]):
            return None
        first = self.data[self.starts[0] : self.ends[0]].tobytes()
        if first and at_every_byte(self.data, f"V{len(first)}")[self.starts].tobytes() != first * len(self):
            return None
        return first

    def equal(self, value: bytes) -> Mask:
        """Which strings are exactly `value`."""
        same: Mask = self.lengths == len(value)
        if value:
            # numpy's comparison ignores trailing zero bytes; with equal lengths that changes nothing.
            rows = np.flatnonzero(same)
            same[rows] = at_every_byte(self.data, f"S{len(value)}")[self.starts[rows]] == value
        return same

    def copy_to(self, target: Bytes, positions: Ints) -> None:
        """Copy string i to `target[positions[i]:]`."""
        bit_lengths = np.frexp(self.lengths)[1]
        for bits in np.flatnonzero(np.bincount(bit_lengths)).tolist():
            rows = np.flatnonzero(bit_lengths == bits)
            if bits > _BLOCKED_BITS:
                _copy_singly(self[rows], target, positions[rows])
            elif bits:
                _copy_blocks(self[rows], 1 << bits - 1, target, positions[rows])

    def compact(self) -> tuple[Bytes, Ints]:
        """The strings end to end, and their offsets (see `adjacent`)."""
        lengths = self.lengths
        offsets = offsets_of(lengths)
        width = self._block_width(lengths)
        if width:
            return self._laid_out(width, offsets, 0)[width:], offsets
        data = np.empty(offsets[-1], np.uint8)
        self.copy_to(data, offsets[:-1])
        return data, offsets

    def fenced(self, fence: bytes) -> tuple[Bytes, Ints]:
        """A copy of the strings with a fence (one byte) around each, and where these fences are.

        String i is `data[fences[i] + 1 : fences[i + 1]]`, and FENCES_AT_END follow the last.
        """
        lengths = self.lengths
        fences = offsets_of(lengths + 1)
        width = self._block_width(lengths)
        if not width:
            return as_bytes(b"".join((fence, fence.join(self.views()), FENCES_AT_END * fence))), fences
        data = self._laid_out(width, fences, FENCES_AT_END)
        fences += width
        data[:width] = data[-FENCES_AT_END:] = data[fences] = ord(fence)
        return data, fences

    def _block_width(self, lengths: Ints) -> int:
        """How wide blocks have to be that hold a string each; 0 if these would be mostly empty, or are not worth it."""
        width = 0 if len(self) < _FEW else int(lengths.max())
        fits = 0 < len(self) * width < 4 * (int(lengths.sum()) + len(self)) and width >> _BLOCKED_BITS == 0
        return width if fits and int(self.ends.min()) >= width else 0

    def _laid_out(self, width: int, offsets: Ints, room: int) -> Bytes:
        """A buffer in which string i ends at `width + offsets[i + 1]`, with room behind the last.

        Blocks as wide as the longest string, flush with the ends of all, are written from the last to the first: what
        a block brings along from before its string, the strings before it overwrite.
        """
        data = np.empty(width + int(offsets[-1]) + room, np.uint8)
        blocks = at_every_byte(self.data, f"V{width}")[self.ends[::-1] - width]
        at_every_byte(data, f"V{width}")[offsets[:0:-1]] = blocks
        return data

    def split(self, separator: bytes) -> tuple[Ints, Spans]:
        """The non-empty pieces between separators (one byte), each with the number of its row."""
        present = self.present.nonzero()[0]
        whole = self[present]
        # All the data is searched, but that is soon done, and mostly no string is in pieces.
        if not np.count_nonzero(self.data == ord(separator)):
            return present, whole
        data, fences = whole.fenced(separator)
        marks = (data == ord(separator)).nonzero()[0]
        before = (marks[1:] - marks[:-1] > 1).nonzero()[0]
        rows = fences.searchsorted(marks[before], side="right") - 1
        back = (whole.starts - fences[:-1])[rows] - 1
        return present[rows], Spans(self.data, marks[before] + 1 + back, marks[before + 1] + back)

    def views(self) -> Iterator[memoryview]:
        """The strings one by one, not copied."""
        view = self.data.data
        return (view[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def each(self) -> Iterable[bytes | memoryview]:
        """The strings one by one, copied or not, whichever is faster."""
        if len(self) < _FEW:
            return self.views()
        lengths = self.lengths
        if not 0 < lengths[0] <= _COPIED or np.count_nonzero(lengths != lengths[0]):
            return self.views()
        strings: list[bytes] = at_every_byte(self.data, f"V{lengths[0]}")[self.starts].tolist()
        return strings

    def tolist(self) -> list[bytes]:
        """The strings as Python objects."""
        return [view.tobytes() for view in self.views()]


def _copy_blocks(spans: Spans, width: int, target: Bytes, positions: Ints) -> None:
    """Copy spans that are at least `width` and less than twice `width` long."""
    sources, targets = at_every_byte(spans.data, f"V{width}"), at_every_byte(target, f"V{width}")
    targets[positions] = sources[spans.starts]
    targets[positions + spans.lengths - width] = sources[spans.ends - width]


def _copy_singly(spans: Spans, target: Bytes, positions: Ints) -> None:
    writable = target.data
    for view, start, end in zip(spans.views(), positions.tolist(), (positions + spans.lengths).tolist(), strict=True):
        writable[start:end] = view
