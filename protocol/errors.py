"""What can go wrong, first split by whose fault it is.

Every exception that PocketMQ raises on purpose derives from `PocketMQError`. In this package there are two kinds:
the caller asked for something that cannot be expressed (`LocalProtocolError`), or the peer sent something that cannot
be understood (`RemoteProtocolError`).
"""

from __future__ import annotations


class PocketMQError(Exception):
    """Base of every exception that PocketMQ raises on purpose."""


class ProtocolError(PocketMQError):
    """Bytes and values do not fit together."""


class LocalProtocolError(ProtocolError):
    """Our side asked for something the protocol cannot carry; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer's bytes cannot be understood. From a frame decoder: the connection is beyond repair."""


class HeaderFieldError(RemoteProtocolError):
    """The frame is sound but an ext field is missing or unreadable; the request gets an answer that says so."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"header field {field!r} {problem}")
        self.field = field


class MissingExtraError(LocalProtocolError):
    """An optional dependency is needed and not installed; the text names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency; install it with: pip install 'pocketmq[{extra}]'")
        self.extra = extra
