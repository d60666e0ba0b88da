"""Values that many bodies share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from pocketmq.protocol.bodies.converters import BodyError, converter
from pocketmq.protocol.bodies.model import Body, body

_TEXT: Final = converter(str)
_INTEGER: Final = converter(int)


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Queues sort as in RocketMQ, which queue allocation relies on.

    In JSON it is an object, also where it is the key of a map.
    """

    topic: str
    broker_name: str
    queue_id: int

    @classmethod
    def from_value(cls, value: Any) -> MessageQueue:
        try:
            topic, broker_name, queue_id = value["topic"], value["brokerName"], value["queueId"]
        except (KeyError, TypeError):
            raise BodyError("expected an object with brokerName, queueId and topic") from None
        return cls(_TEXT.read(topic), _TEXT.read(broker_name), _INTEGER.read(queue_id))

    def to_value(self) -> dict[str, Any]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}


@body
class DataVersion(Body):
    """The version of a table: `counter` goes up with each change, `timestamp` (ms) is the last one's."""

    counter: int = 0
    state_version: int | None = None  # since 5.0
    timestamp: int = 0


@body
class KVTable(Body):
    """Names and texts: key-value configuration, a broker's runtime information."""

    table: Mapping[str, str] = field(default_factory=dict)


@body
class TopicList(Body):
    """Names of topics (or, from the NameServer's system list, of clusters and brokers)."""

    topic_list: tuple[str, ...] = ()
    broker_addr: str | None = None


@body
class GroupList(Body):
    """Names of consumer groups."""

    group_list: tuple[str, ...] = ()
