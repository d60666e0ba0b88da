"""What can go wrong between two programs, as their users see it. The shims translate what their libraries raise."""

from __future__ import annotations

import os
import socket

from pocketmq.protocol.errors import PocketMQError


class RemotingError(PocketMQError):
    """A request did not get its answer."""


class ConnectError(RemotingError):
    """No connection could be made."""


class ConnectionLostError(RemotingError):
    """The connection ended while, or before, the request waited; whether the peer acted on it is not known."""


class RequestTimeoutError(RemotingError):
    """No answer came in time; whether the peer acted on the request is not known."""


class CongestedError(RemotingError):
    """The peer does not read what it is sent, and no more is kept for it."""


def in_plain_words(error: BaseException) -> str:
    """What really happened: libraries wrap what the system says in errors that say less, or say it in their own way."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):  # one for each address of a name
        return in_plain_words(error.exceptions[0])
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def check_port(host: str, port: int) -> None:
    """Refuse what is no port: some systems would take the lower 16 bits, and reach another server."""
    if not 0 < port < 65536:
        raise ConnectError(f"no connection to {host}:{port}: a port is a number from 1 to 65535")


def connect_error(host: str, port: int, error: Exception, *, timeout: float, tls: bool) -> ConnectError:
    """What to tell a user who cannot reach a server: what happened, and what to look at next."""
    if isinstance(error, TimeoutError):
        return ConnectError(f"no connection to {host}:{port} within {timeout:g} s; is the address right?")
    if isinstance(error, socket.gaierror | UnicodeError):
        hint = "is the address right?"
    elif tls:
        hint = "is it running, and does it speak TLS with a certificate that is trusted here?"
    else:
        hint = "is it running?"
    return ConnectError(f"no connection to {host}:{port}: {in_plain_words(error)}; {hint}")


class Refusal(PocketMQError):
    """Raised by a request handler: the answer is this response code with this remark."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{code}: {remark}")
        self.code = code
        self.remark = remark
