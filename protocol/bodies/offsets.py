"""Consume offsets by queue: resets, what consumers report, what slaves copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.common import DataVersion, MessageQueue
from pocketmq.protocol.bodies.converters import BodyError
from pocketmq.protocol.bodies.model import Body, Shape, body
from pocketmq.protocol.fastjson import ObjectKey


def _offset_map(table: Any) -> Any:
    """The three shapes of a table of offsets as the first of them.

    Java: `{MQ:12}`, for C++ clients: `[{"brokerName":…,"queueId":…,"topic":…,"offset":12}]`, Go: `[[MQ,12]]`.
    """
    if not isinstance(table, list):
        return table
    offsets = {}
    for entry in table:
        match entry:
            case {"offset": offset, **queue}:
                pass
            case [{**queue}, offset]:
                pass
            case _:
                raise BodyError("expected a queue and its offset")
        offsets[ObjectKey(MessageQueue.from_value(queue).to_value().items())] = offset
    return offsets


@body
class ResetOffsetBody(Body):
    """The offsets that queues are, or were, set back to."""

    offset_table: Annotated[Mapping[MessageQueue, int], Shape(_offset_map)] = field(default_factory=dict)

    def to_list_json(self) -> bytes:
        """The document for clients written in C++, which cannot read objects as keys."""
        table = [{**queue.to_value(), "offset": offset} for queue, offset in self.offset_table.items()]
        return fastjson.dumps({"offsetTable": table})


@body
class GetConsumerStatusBody(Body):
    """How far a consumer is (`message_queue_table`), or each consumer of a group by client id."""

    message_queue_table: Mapping[MessageQueue, int] = field(default_factory=dict)
    consumer_table: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)


@body
class ConsumerOffsetTable(Body):
    """All consume offsets of a broker: `topic@group` -> queue id -> next offset."""

    offset_table: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    pull_offset_table: Mapping[str, Mapping[int, int]] | None = None  # since 5.0
    group_topic_map: Mapping[str, tuple[str, ...]] | None = None  # since 5.0
    data_version: DataVersion | None = None  # since 5.0


@body
class DelayOffsetTable(Body):
    """How far delayed messages were delivered: delay level -> next offset."""

    offset_table: Mapping[int, int] = field(default_factory=dict)
    data_version: DataVersion | None = None  # since 5.0


@body
class CorrectionOffsets(Body):
    """Queue id -> offset of the queues where another group is ahead."""

    correction_offsets: Mapping[int, int] = field(default_factory=dict)
