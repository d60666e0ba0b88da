"""The two checksums that travel with messages: Java's string hash and the body CRC.

The hash of a tag is compared by brokers and clients, the hash of a key places it in the index. All must
compute what `String.hashCode` computes: h = 31·h + unit over UTF-16 units, wrapping at 32 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pocketmq.protocol.command import Buffer

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

# Longer spans are hashed one by one: the vectorised loop takes a step per byte of its longest span.
_LONGEST_COLUMN = 128


def java_hash(text: str) -> int:
    """`text.hashCode()` of Java. A lone surrogate is a unit like any other."""
    if len(text) > _LONGEST_COLUMN:
        return _hash_long(text)
    code = 0
    for unit in text.encode("ascii") if text.isascii() else _utf16_units(text).tolist():
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code ^ 0x80000000) - 0x80000000


def _hash_long(text: str) -> int:
    """The sum of all units, each times a power of 31: the last times 1, the one before times 31, and so on."""
    units = _utf16_units(text)
    powers = np.full(len(units), 31, np.uint32)
    powers[-1] = 1
    np.multiply.accumulate(powers[::-1], out=powers[::-1])
    return int((units * powers).sum(dtype=np.uint32).view(np.int32))


def _utf16_units(text: str) -> NDArray[np.uint16]:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")


def tags_code(tag: str | None) -> int:
    """What a consume queue keeps of a message's tag; 0 without one."""
    return java_hash(tag) if tag else 0


def index_key_hash(key: str) -> int:
    """The hash that places `topic#key` in the index: never negative; -2^31 has no opposite and becomes 0."""
    code = abs(java_hash(key))
    return 0 if code == 0x80000000 else code


def java_hash_bytes(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
    """`java_hash` of the UTF-8 texts `data[start:end]`, all at once.

    Only in ASCII is a byte a UTF-16 unit. Spans that hold other bytes are decoded and hashed one by one, as
    are the very long ones. Malformed UTF-8 hashes as the replacement characters that a decoder makes of it.
    """
    lengths = ends - starts
    single = lengths > _LONGEST_COLUMN
    hashes, seen = _hash_ascii(data, starts, np.where(single, 0, lengths).astype(np.uint8))
    single |= seen > 0x7F
    for i in np.flatnonzero(single).tolist():
        hashes[i] = java_hash(str(data[starts[i] : ends[i]].data, "utf-8", "replace"))
    return hashes


def _hash_ascii(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Hashes of spans taken byte for unit, and the bits that occur in each span.

    Step n takes the n-th byte of every span that has one. With the spans in order of length those are always
    the last ones, so that each step works on plain slices.
    """
    order = np.argsort(lengths, kind="stable")
    lengths, position = lengths[order], starts[order]
    codes, bits = np.zeros(len(order), np.uint32), np.zeros(len(order), np.uint8)
    for ended in np.searchsorted(lengths, np.arange(lengths.max(initial=0)), side="right").tolist():
        units = data[position[ended:]]
        position[ended:] += 1
        codes[ended:] *= np.uint32(31)
        codes[ended:] += units
        bits[ended:] |= units
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return codes.view(np.int32)[back], bits[back]


def body_crc(body: Buffer) -> int:
    """The CRC-32 of a stored body, without its top bit as in the record."""
    return int(crc32(body)) & 0x7FFFFFFF
