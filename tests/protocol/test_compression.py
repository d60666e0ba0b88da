"""Compressed bodies: every kind, and everything that is not one whole stream of it."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.codes import MessageFlag
from pocketmq.protocol.compression import compress, decompress
from pocketmq.protocol.errors import LocalProtocolError, MissingExtraError, RemoteProtocolError

LIMIT = 1 << 20
TEXT = b"a body that repeats itself, " * 400
LZ4, ZSTD, ZLIB = MessageFlag.COMPRESSION_LZ4, MessageFlag.COMPRESSION_ZSTD, MessageFlag.COMPRESSION_ZLIB
KINDS = [LZ4, ZSTD, ZLIB]


def zstd_of_unknown_length(body: bytes) -> bytes:
    """As Java's output stream writes it: the header does not declare the length."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(body) + stream.flush()


def lz4_of_unknown_length(body: bytes) -> bytes:
    return bytes(lz4.frame.compress(body, store_size=False))


FOREIGN: list[tuple[int, Callable[[bytes], bytes]]] = [
    (0x001, zlib.compress),
    (0x301, zlib.compress),
    (0x101, lz4.frame.compress),
    (0x101, lz4_of_unknown_length),
    (0x201, zstandard.compress),
    (0x201, zstd_of_unknown_length),
]
each_foreign = pytest.mark.parametrize(("sys_flag", "encode"), FOREIGN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1, 5, 9])
def test_a_compressed_body_comes_back(kind: int, level: int) -> None:
    compressed, bits = compress(TEXT, kind, level)
    assert bits == 0x1 | kind
    assert len(compressed) < len(TEXT) // 10
    assert decompress(compressed, bits, len(TEXT)) == TEXT


@given(st.binary(max_size=300), st.sampled_from(KINDS))
def test_any_body_comes_back(body: bytes, kind: int) -> None:
    compressed, bits = compress(body, kind, 5)
    assert decompress(memoryview(compressed), bits, 300) == body


@each_foreign
def test_what_others_compress_is_understood(sys_flag: int, encode: Callable[[bytes], bytes]) -> None:
    assert decompress(encode(TEXT), sys_flag, LIMIT) == TEXT


def test_a_body_without_the_flag_passes_untouched() -> None:
    for sys_flag in (0, 0x300, 0x700):
        assert decompress(memoryview(b"plain"), sys_flag, 1) == b"plain"


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700])
def test_unknown_kinds_are_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match="no compression"):
        decompress(TEXT, 0x1 | kind, LIMIT)
    with pytest.raises(LocalProtocolError, match="no compression"):
        compress(TEXT, kind, 5)


@pytest.mark.parametrize("kind", [ZSTD, ZLIB])
def test_unknown_levels_are_refused(kind: int) -> None:
    with pytest.raises(LocalProtocolError, match="level 99"):
        compress(TEXT, kind, 99)


@each_foreign
def test_the_limit_is_exact(sys_flag: int, encode: Callable[[bytes], bytes]) -> None:
    assert decompress(encode(TEXT), sys_flag, len(TEXT)) == TEXT
    with pytest.raises(RemoteProtocolError):
        decompress(encode(TEXT), sys_flag, len(TEXT) - 1)


@each_foreign
def test_a_bomb_goes_off_in_little_memory(sys_flag: int, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decompress(bomb, sys_flag, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


def test_a_zstd_window_of_its_own_size_is_no_bomb() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    huge_window = stream.compress(TEXT) + stream.flush()
    with pytest.raises(RemoteProtocolError):
        decompress(huge_window, 0x201, LIMIT)


@each_foreign
def test_a_cut_stream_is_refused_wherever_it_is_cut(sys_flag: int, encode: Callable[[bytes], bytes]) -> None:
    whole = encode(TEXT)
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decompress(whole[:length], sys_flag, LIMIT)


@each_foreign
def test_bytes_behind_the_end_are_refused(sys_flag: int, encode: Callable[[bytes], bytes]) -> None:
    for extra in (b"\0", encode(TEXT)):
        with pytest.raises(RemoteProtocolError):
            decompress(encode(TEXT) + extra, sys_flag, LIMIT)


@given(st.binary(max_size=100), st.sampled_from([0x1, 0x101, 0x201, 0x301]))
def test_garbage_is_refused(body: bytes, sys_flag: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(body, sys_flag, LIMIT)


@given(st.data(), st.sampled_from(FOREIGN))
def test_a_damaged_stream_never_gives_another_error(
    data: st.DataObject, foreign: tuple[int, Callable[[bytes], bytes]]
) -> None:
    sys_flag, encode = foreign
    body = bytearray(encode(TEXT))
    for _ in range(3):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        assert len(decompress(bytes(body), sys_flag, LIMIT)) <= LIMIT


@pytest.mark.parametrize(("kind", "module"), [(LZ4, "lz4.frame"), (ZSTD, "zstandard")])
def test_a_missing_package_is_named(kind: int, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pocketmq\[compression\]"):
        compress(TEXT, kind, 5)
    with pytest.raises(MissingExtraError, match=r"pocketmq\[compression\]"):
        decompress(TEXT, 0x1 | kind, LIMIT)
