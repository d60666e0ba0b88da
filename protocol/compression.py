"""Compressed message bodies: zlib always, LZ4 frames and Zstandard where their packages are installed.

The message's `sysFlag` says whether and how a body is compressed; clients from before the kinds existed set
only COMPRESSED and mean zlib. Brokers never look inside, so a body may be anything by the time it arrives:
every decoder here stops at the caller's limit and insists on exactly one complete stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.command import Buffer
from pocketmq.protocol.errors import LocalProtocolError, MissingExtraError, RemoteProtocolError

# Plain numbers: bit operations on members of an IntFlag are slow.
_COMPRESSED = int(MessageFlag.COMPRESSED)
_KIND_MASK = int(MessageFlag.COMPRESSION_MASK)

# Every Zstandard decoder should accept windows of this size (RFC 8878, 3.1.1.1.2), however small the body.
_ZSTD_WINDOW = 8 * 1024 * 1024

# A block of 4 bytes, the shortest that yields anything, can stand for 128 KiB.
_ZSTD_RATIO = 32 * 1024


def compress(body: Buffer, kind: int, level: int) -> tuple[bytes, int]:
    """The compressed body and the `sysFlag` bits that say so; `kind` is one of the COMPRESSION flags."""
    try:
        compressor = _COMPRESSORS[kind]
    except KeyError:
        raise LocalProtocolError(f"there is no compression of kind {kind:#x}") from None
    try:
        return compressor(body, level), _COMPRESSED | kind
    except (ValueError, zlib.error) as error:
        raise LocalProtocolError(f"cannot compress at level {level}: {error}") from error


def decompress(body: Buffer, sys_flag: int, limit: int) -> bytes:
    """The body as its producer gave it, which must not be longer than `limit` bytes if it is compressed."""
    if not sys_flag & _COMPRESSED:
        return bytes(body)
    try:
        decompressor = _DECOMPRESSORS[sys_flag & _KIND_MASK]
    except KeyError:
        raise RemoteProtocolError(f"there is no compression of kind {sys_flag & _KIND_MASK:#x}") from None
    return decompressor(body, limit)


def _compress_zlib(body: Buffer, level: int) -> bytes:
    return zlib.compress(body, level)


def _decompress_zlib(body: Buffer, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        return _whole(stream, stream.decompress(body, limit + 1), limit)
    except zlib.error as error:
        raise _damaged(error) from error


def _compress_lz4(body: Buffer, level: int) -> bytes:
    return bytes(_lz4_frame().compress(body, compression_level=level))


def _decompress_lz4(body: Buffer, limit: int) -> bytes:
    stream = _lz4_frame().LZ4FrameDecompressor()
    try:
        return _whole(stream, stream.decompress(body, limit + 1), limit)
    except RuntimeError as error:
        raise _damaged(error) from error


def _compress_zstd(body: Buffer, level: int) -> bytes:
    return bytes(_zstandard().ZstdCompressor(level=level).compress(body))


def _decompress_zstd(body: Buffer, limit: int) -> bytes:
    """Zstandard's streams take no limit, so they are fed pieces too small to give more than it at once."""
    zstandard = _zstandard()
    stream = zstandard.ZstdDecompressor(max_window_size=max(limit, _ZSTD_WINDOW)).decompressobj()
    piece = limit // _ZSTD_RATIO + 1
    output = bytearray()
    try:
        for start in range(0, len(body), piece):
            output += stream.decompress(body[start : start + piece])
            if len(output) > limit:
                break
    except zstandard.ZstdError as error:
        raise _damaged(error) from error
    return _whole(stream, output, limit)


def _whole(stream: Any, output: bytes | bytearray, limit: int) -> bytes:
    """The output of a stream, provided that it is all of it and nothing follows."""
    if len(output) > limit:
        raise RemoteProtocolError(f"a compressed body holds more than {limit} bytes")
    if not stream.eof:
        raise RemoteProtocolError("a compressed body ends too early")
    if stream.unused_data:
        raise RemoteProtocolError("a compressed body has bytes behind its end")
    return bytes(output)


def _damaged(error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"a compressed body is damaged: {error}")


def _lz4_frame() -> Any:
    try:
        import lz4.frame
    except ImportError:
        raise MissingExtraError("LZ4 compression", "compression") from None
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("Zstandard compression", "compression") from None
    return zstandard


_COMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    MessageFlag.COMPRESSION_LZ4: _compress_lz4,
    MessageFlag.COMPRESSION_ZSTD: _compress_zstd,
    MessageFlag.COMPRESSION_ZLIB: _compress_zlib,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    0: _decompress_zlib,
    MessageFlag.COMPRESSION_LZ4: _decompress_lz4,
    MessageFlag.COMPRESSION_ZSTD: _decompress_zstd,
    MessageFlag.COMPRESSION_ZLIB: _decompress_zlib,
}
