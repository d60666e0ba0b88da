"""The two checksums that travel with messages: Java's string hash and the body CRC.

The hash of a tag is compared by brokers and clients, the hash of a key places it in the index. All must
compute what `String.hashCode` computes: h = 31·h + unit over UTF-16 units, wrapping at 32 bits.
Many texts at once are hashed in `hash_columns.py`.
"""

from __future__ import annotations

import struct
from typing import Final

from pocketmq.protocol.command import Buffer

try:
    from zlib_ng.zlib_ng import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32

CRC_MASK = 0x7FFFFFFF  # a record keeps no more of it

_LONG: Final = 128  # characters from which numpy is faster than a loop


def java_hash(text: str) -> int:
    """`text.hashCode()` of Java. A lone surrogate is a unit like any other."""
    if len(text) > _LONG:
        from pocketmq.protocol.hash_columns import hash_long  # here: a NameServer starts without numpy

        return hash_long(text)
    code = 0
    for unit in text.encode("ascii") if text.isascii() else _utf16_units(text):
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code ^ 0x80000000) - 0x80000000


def _utf16_units(text: str) -> tuple[int, ...]:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(encoded) // 2}H", encoded)


def tags_code(tag: str | None) -> int:
    """What a consume queue keeps of a message's tag; 0 without one."""
    return java_hash(tag) if tag else 0


def index_key_hash(key: str) -> int:
    """The hash that places `topic#key` in the index: never negative; -2^31 has no opposite and becomes 0."""
    return fold_key_hash(java_hash(key))


def fold_key_hash(code: int) -> int:
    """What the index makes of a hash, which may still have bits above its 32."""
    code &= 0xFFFFFFFF
    if code < 0x80000000:
        return code
    return 0 if code == 0x80000000 else 0x100000000 - code


def body_crc(body: Buffer) -> int:
    """The CRC-32 of a stored body, without its top bit as in the record."""
    return int(crc32(body)) & CRC_MASK
