"""TLS under a server, chosen by the first byte of each connection as RocketMQ's servers do."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from enum import Enum
from typing import Final

import trio

from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import foreign_protocol

_HANDSHAKE: Final = b"\x16"  # a plain frame begins with 0x00: its length has 24 bits


class TlsMode(Enum):
    """What a server does with connections that begin with a TLS handshake, and with those that do not."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate and the mode; permissive serves both kinds of connection on one port."""

    context: ssl.SSLContext
    mode: TlsMode = TlsMode.PERMISSIVE


async def accept_stream(stream: trio.SocketStream, tls: Tls | None) -> trio.abc.Stream:
    """The stream to speak through: the plain one, or TLS on top of it."""
    if tls is None or tls.mode is TlsMode.DISABLED:
        return stream
    first = await stream.socket.recv(8, socket.MSG_PEEK)
    if first.startswith(_HANDSHAKE):
        secure = trio.SSLStream(stream, tls.context, server_side=True, https_compatible=True)
        try:
            await secure.do_handshake()
        except trio.BrokenResourceError as error:
            reason = error.__cause__
            if isinstance(reason, ssl.SSLError) and not isinstance(reason, ssl.SSLEOFError):
                raise RemoteProtocolError(f"the TLS handshake failed: {reason}") from error
            raise  # the client went away
        return secure
    if tls.mode is TlsMode.ENFORCING and first:
        protocol = foreign_protocol(first) or "not TLS"
        raise RemoteProtocolError(f"this is {protocol}, and this server speaks nothing but TLS")
    return stream
