"""A channel driven with plain calls: what is asked on it, what leaves it, what it is answered."""

from __future__ import annotations

import math

from pocketmq.protocol.codes import CommandFlag, Encoding, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import RemotingError

JSON, MSGPACK = int(Encoding.JSON), int(Encoding.MSGPACK)
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC

Outcome = Command | RemotingError


def ask(channel: Channel, outcomes: list[Outcome], deadline: float = math.inf, body: bytes = b"") -> int:
    return channel.begin(ROUTE, None, body, done=outcomes.append, deadline=deadline)


def ignore(outcome: Outcome) -> None:
    """For requests of which only the bytes matter."""


def leave(channel: Channel) -> list[Command]:
    """What a write would carry, and would have sent."""
    data = channel.take_outbox()
    channel.sent(len(data))
    return list(FrameDecoder().feed(data))


def reply_to(opaque: int, ext_fields: dict[str, str] | None = None, encoding: int = JSON) -> Command:
    return Command(0, ext_fields or {}, opaque=opaque, flag=CommandFlag.RESPONSE, encoding=encoding)
