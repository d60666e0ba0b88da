"""Java's string hash of many texts at once, as numpy columns; `hashes.py` has it for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.hashes import java_hash
from pocketmq.protocol.spans import Ints, Spans, at_every_byte

Codes: TypeAlias = NDArray[np.uint32]

# Longer texts are hashed one by one: many are hashed as a table with a column for each byte of the longest.
_WIDEST = 128

_POWERS = np.array([pow(31, exponent, 2**32) for exponent in range(_WIDEST + 1)], np.uint32)
# A window on this, as wide as the table, is the mask for one row: off before the text, on in it.
_STEP = np.repeat(np.array([0x00, 0xFF], np.uint8), _WIDEST)


def hash_long(text: str) -> int:
    """The sum of all units, each times a power of 31: the last times 1, the one before times 31, and so on."""
    units = _utf16_units(text)
    powers = np.full(len(units), 31, np.uint32)
    powers[-1] = 1
    np.multiply.accumulate(powers[::-1], out=powers[::-1])
    return int((units * powers).sum(dtype=np.uint32).view(np.int32))


def _utf16_units(text: str) -> NDArray[np.uint16]:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")


@dataclass(frozen=True, slots=True, eq=False)
class TextHashes:
    """The hashes of many texts, and what it takes to hash longer texts that end with them.

    hash(a + b) = hash(a) * 31**length(b) + hash(b), wrapping at 32 bits; the length is counted in UTF-16 units.
    """

    codes: Codes
    powers: Codes

    def __getitem__(self, rows: Ints) -> TextHashes:
        return TextHashes(self.codes[rows], self.powers[rows])

    def after(self, prefixes: Codes) -> Codes:
        """The codes of the texts with a prefix before each, of which the code is given."""
        return prefixes * self.powers + self.codes


def hash_texts(texts: Spans) -> TextHashes:
    """`java_hash` of texts in UTF-8, all at once.

    Every text is a row of a table, flush right with zeros before it, and the row times the powers of 31 is the hash.
    Only in ASCII is a byte a UTF-16 unit. Texts that hold other bytes are decoded and hashed one by one, as are the
    very long ones. Malformed UTF-8 hashes as the replacement characters that a decoder makes of it.
    """
    lengths = texts.lengths
    longest = int(lengths.max(initial=0))
    if not longest:
        return TextHashes(np.zeros(len(texts), np.uint32), np.ones(len(texts), np.uint32))
    width = min(longest, _WIDEST)
    begins = texts.ends - width
    # There is no row for a text so near to the beginning of the data that its row would begin before it.
    single = (begins < 0) & (lengths > 0)
    if longest > width:
        single |= lengths > width
        lengths = np.minimum(lengths, width)
    units = at_every_byte(texts.data, f"V{width}")[np.maximum(begins, 0)].view(np.uint8)
    units &= at_every_byte(_STEP, f"V{width}")[lengths + (_WIDEST - width)].view(np.uint8)
    table = units.reshape(-1, width)
    hashes = TextHashes(table @ _POWERS[width - 1 :: -1], _POWERS[lengths])
    if units.max() > 0x7F:
        single |= table.max(axis=1) > 0x7F
    for row in single.nonzero()[0].tolist():
        text = str(texts.data[texts.starts[row] : texts.ends[row]].data, "utf-8", "replace")
        hashes.codes[row] = java_hash(text) & 0xFFFFFFFF
        hashes.powers[row] = pow(31, len(_utf16_units(text)), 2**32)
    return hashes


def extended(codes: Codes, text: str) -> Codes:
    """The codes of texts with one and the same short `text` in ASCII behind them."""
    longer: Codes = codes * _POWERS[len(text)] + np.uint32(java_hash(text) & 0xFFFFFFFF)
    return longer


def index_key_hashes(codes: Codes) -> Ints:
    """`index_key_hash` of the texts that have these codes."""
    # The one that has no opposite is its own absolute value, and negative.
    return np.maximum(np.abs(codes.view(np.int32)), 0).astype(np.int64)
