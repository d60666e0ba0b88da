"""Feed bytes, get commands; give a command, get bytes.

A frame on the wire:

    int32  length      of everything after this field: 4 + header + body
    int32  type << 24 | header length
    header             see command.py
    body

The decoder takes the stream in whatever pieces the network gives. Frames that lie whole in one piece are cut from it
without copying; their bodies are views of that piece. Only a frame that is spread over pieces is put together, in a
buffer that grows with what has arrived and never with what a length field promises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from pocketmq.protocol.codes import Encoding
from pocketmq.protocol.command import Command, check_buffer, decode_command, header_bytes
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

MAX_FRAME: Final = 16 * 1024 * 1024
"""The largest frame, with its length field; RocketMQ closes the connection on a larger one."""

MAX_HEADER: Final = 1024 * 1024
"""The largest header. Nothing real comes near (properties end at 32 KiB), and a header is parsed in one go."""

_PREFIX: Final = struct.Struct(">II")
_pack_prefix, _unpack_prefix = _PREFIX.pack, _PREFIX.unpack_from
_LENGTH_FIELD: Final = 4
_MAX_LENGTH: Final = MAX_FRAME - _LENGTH_FIELD
_LAST_ENCODING: Final = int(max(Encoding))
_LAST_WORD: Final = _LAST_ENCODING << 24 | 0xFFFFFF


class FrameDecoder:
    """Cuts a byte stream into commands. After a `RemoteProtocolError` the stream is beyond repair."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_length = max_frame - _LENGTH_FIELD
        self._partial = bytearray()
        self._started = False

    @property
    def pending(self) -> int:
        """Bytes held of a frame that is not complete yet."""
        return len(self._partial)

    def feed(self, data: bytes) -> Iterator[Command]:
        """Yield the commands that `data` completes; those in front of a broken frame come before its error.

        The iterator is to be used up before more is fed.
        """
        position = 0
        if self._partial:
            taken = self._fill_partial(data)
            if taken is None:
                return
            position = taken
            yield self._take_partial()
        size = len(data)
        view = memoryview(data)
        max_length = self._max_length
        while size - position >= 8:
            length, word = _unpack_prefix(data, position)
            header_length = word & 0xFFFFFF
            if not header_length + 4 <= length <= max_length or header_length > MAX_HEADER or word > _LAST_WORD:
                raise self._refusal(data[position : position + 8])
            header_end = position + 8 + header_length
            end = position + 4 + length
            if end > size:
                break
            body = view[header_end:end] if end > header_end else b""
            yield decode_command(word >> 24, data[position + 8 : header_end], body)
            position = end
            self._started = True
        self._partial += view[position:]

    def check_end(self) -> None:
        """The stream has ended: raise if what is left of it cannot have been the start of a frame."""
        if self._partial and self._partial[0]:  # the lengths of frames have 24 bits
            raise self._refusal(bytes(self._partial[:8]))

    def _fill_partial(self, data: bytes) -> int | None:
        """Give the partial frame what it lacks and say how much that took; None if all of `data` was too little."""
        partial, taken = self._partial, 0
        if len(partial) < 8:
            taken = 8 - len(partial)
            partial += data[:taken]
            if len(partial) < 8:
                return None
        _, _, end = self._bounds(partial)
        missing = end - len(partial)
        partial += memoryview(data)[taken : taken + missing]
        return taken + missing if len(partial) == end else None

    def _take_partial(self) -> Command:
        partial, self._partial = self._partial, bytearray()
        encoding, header_end, _ = self._bounds(partial)
        body = memoryview(partial).toreadonly()[header_end:]
        command = decode_command(encoding, bytes(partial[8:header_end]), body)
        self._started = True
        return command

    def _bounds(self, partial: bytearray) -> tuple[int, int, int]:
        """Encoding, end of the header and end of the frame; what `feed` does for whole frames without a call."""
        length, word = _unpack_prefix(partial)
        header_length = word & 0xFFFFFF
        if not header_length + 4 <= length <= self._max_length or header_length > MAX_HEADER or word > _LAST_WORD:
            raise self._refusal(bytes(partial[:8]))
        return word >> 24, 8 + header_length, 4 + length

    def _refusal(self, start: bytes) -> RemoteProtocolError:
        protocol = None if self._started else foreign_protocol(start)
        if protocol is not None:
            return RemoteProtocolError(f"this is {protocol}, not the RocketMQ remoting protocol")
        if not start[0] and start[4] > _LAST_ENCODING:
            return RemoteProtocolError(f"unknown header encoding {start[4]}")
        return RemoteProtocolError(f"frame lengths out of range: {start.hex(' ', 4)}")


def encode_head(command: Command) -> bytes:
    """All of a command's frame but its body, so that a large body need not be copied to be sent."""
    header, body = header_bytes(command), command.body
    if type(body) is not bytes:
        check_buffer(body)
    header_length = len(header)
    length = 4 + header_length + len(body)
    if length > _MAX_LENGTH or header_length > MAX_HEADER:
        raise LocalProtocolError(
            f"a frame holds {MAX_FRAME} bytes, {MAX_HEADER} of them header: "
            f"{header_length} of header and {len(body)} of body do not fit"
        )
    return _pack_prefix(length, command.encoding << 24 | header_length) + header


def encode_frame(command: Command) -> bytes:
    """A command's whole frame."""
    head = encode_head(command)
    return b"".join((head, command.body)) if command.body else head


# The first bytes of what people point at the port by mistake, and of what answers on a port taken for ours.
_HTTP: Final = (b"HTTP", b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PATC")
_FOREIGN: Final = (
    (b"\x16\x03", "TLS"),
    (b"PRI ", "HTTP/2 (gRPC)"),
    (b"SSH-", "SSH"),
    (b"PROXY ", "the PROXY protocol"),
    (b"\r\n\r\n\x00\r\nQ", "the PROXY protocol"),
    *((start, "HTTP") for start in _HTTP),
)


def foreign_protocol(start: bytes) -> str | None:
    """The name of the protocol whose conversation begins like this, if it is one we know."""
    for prefix, name in _FOREIGN:
        if start.startswith(prefix):
            return name
    return None
