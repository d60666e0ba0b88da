"""What can go wrong between two programs, as their users see it. The shims translate what their libraries raise."""

from __future__ import annotations

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


class Refusal(PocketMQError):
    """Raised by a request handler: the answer is this response code with this remark."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{code}: {remark}")
        self.code = code
        self.remark = remark
