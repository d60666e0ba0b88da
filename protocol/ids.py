"""Hosts, and the two kinds of message id that contain one.

An offset id says where a message is stored: the broker's host and the physical offset. A unique id says who
sent it: IP, process id (16 bits), a discriminator of the process (32 bits), milliseconds since the month
began in local time (32 bits) and a counter (16 bits). Both are hex text, 32 digits with an IPv4 address and
56 with an IPv6 one, so only context tells them apart. They are compared as text: some clients write lower
case digits.
"""

from __future__ import annotations

import struct
import time
from binascii import unhexlify
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from typing import NamedTuple, TypeAlias

from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

Host: TypeAlias = tuple[str, int]

_PORT = struct.Struct(">i")
_PHYSICAL_OFFSET = struct.Struct(">q")
_UNIQUE_TAIL = struct.Struct(">HIIH")


@lru_cache(maxsize=4096)
def pack_host(host: Host) -> bytes:
    """IP and port as in records and offset ids: 8 bytes, or 20 for IPv6."""
    ip, port = host
    try:
        address = ip_address(ip)
    except ValueError as error:
        raise LocalProtocolError(f"{ip!r} is not an IP address") from error
    if not 0 <= port <= 0xFFFF:
        raise LocalProtocolError(f"{port} is not a port")
    return _plain(address).packed + _PORT.pack(port)


@lru_cache(maxsize=4096)
def unpack_host(packed: bytes) -> Host:
    """The host in the 8 or 20 bytes of a record or offset id."""
    (port,) = _PORT.unpack_from(packed, len(packed) - _PORT.size)
    if not 0 <= port <= 0xFFFF:
        raise RemoteProtocolError(f"{port} is not a port")
    return _ip_text(packed[: -_PORT.size]), port


def _ip_text(packed: bytes) -> str:
    return str(_plain(ip_address(packed)))


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Java has no IPv4-mapped IPv6 addresses: it makes them IPv4 ones wherever they appear."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


class OffsetId(NamedTuple):
    """The parts of an offset id."""

    host: Host
    physical_offset: int


def encode_offset_id(host: Host, physical_offset: int) -> str:
    """The id of the message that the broker at `host` stores at `physical_offset`."""
    try:
        return (pack_host(host) + _PHYSICAL_OFFSET.pack(physical_offset)).hex().upper()
    except struct.error as error:
        raise LocalProtocolError(f"{physical_offset} is not a physical offset") from error


def decode_offset_id(text: str) -> OffsetId:
    """Which broker stores a message, and where."""
    packed = _unhex(text)
    (physical_offset,) = _PHYSICAL_OFFSET.unpack(packed[-_PHYSICAL_OFFSET.size :])
    return OffsetId(unpack_host(packed[: -_PHYSICAL_OFFSET.size]), physical_offset)


def _unhex(text: str) -> bytes:
    try:
        packed = unhexlify(text)
    except ValueError as error:
        raise RemoteProtocolError(f"a message id has other characters than hex digits: {text[:56]!r}") from error
    if len(packed) not in (16, 28):
        raise RemoteProtocolError(f"a message id has 32 or 56 digits, not {len(text)}")
    return packed


class UniqueIds:
    """Makes the unique ids of one process. May be used by several threads at once."""

    def __init__(self, ip: bytes, pid: int, discriminator: int) -> None:
        tail = (pid & 0xFFFF).to_bytes(2, "big") + (discriminator & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = (ip + tail).hex().upper()
        self._counter = count()
        self._month = range(0)

    def next(self, now_ms: int) -> str:
        """An id that differs from all others, unless more than 65536 are made in one millisecond."""
        month = self._month
        if now_ms not in month:
            month = self._month = _month_of(now_ms)
        return f"{self._prefix}{now_ms - month.start:08X}{next(self._counter) & 0xFFFF:04X}"


class UniqueIdParts(NamedTuple):
    """The parts of a unique id."""

    ip: str
    pid: int
    discriminator: int
    elapsed_ms: int
    counter: int

    def born_ms(self, now_ms: int) -> int:
        """When the id was made: in the month of `now_ms`, or in the one before if that moment is to come."""
        month = _month_of(now_ms)
        if month.start + self.elapsed_ms >= now_ms:
            month = _month_of(month.start - 1)
        return month.start + self.elapsed_ms


def decode_unique_id(text: str) -> UniqueIdParts:
    """Who made a message, and when."""
    packed = _unhex(text)
    ip, tail = packed[: -_UNIQUE_TAIL.size], packed[-_UNIQUE_TAIL.size :]
    return UniqueIdParts(_ip_text(ip), *_UNIQUE_TAIL.unpack(tail))


def _month_of(now_ms: int) -> range:
    """The local calendar month around a moment, in milliseconds since 1970."""
    local = time.localtime(now_ms // 1000)
    start, end = (
        int(time.mktime((local.tm_year, month, 1, 0, 0, 0, 0, 0, -1))) for month in (local.tm_mon, local.tm_mon + 1)
    )
    return range(start * 1000, end * 1000)
