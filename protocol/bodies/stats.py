"""What a broker tells about its topics, groups and connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from pocketmq.protocol.bodies.clients import SubscriptionData
from pocketmq.protocol.bodies.common import MessageQueue
from pocketmq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.protocol.bodies.model import Body, Names, body


@body
class TopicOffset(Body):
    """The bounds of one queue."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@body
class TopicStatsTable(Body):
    """The bounds of a topic's queues."""

    offset_table: Mapping[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None  # since 5.0


@body
class OffsetWrapper(Body):
    """How far a group is in one queue."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int | None = None  # since 5.0
    last_timestamp: int = 0


@body
class ConsumeStats(Body):
    """How far a group is, and how fast it consumes."""

    offset_table: Mapping[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@body
class ConsumeStatsList(Body):
    """How far all groups of a broker are: one map of a single group after the other."""

    consume_stats_list: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...] = ()
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int | None = None  # since 5.0


@body
class BrokerStatsItem(Body):
    """A counted quantity over one span of time."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@body
class BrokerStatsData(Body):
    """A counted quantity over the last minute, hour and day."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@body
class QueueTimeSpan(Body):
    """Times (ms) of the oldest, newest and last consumed message of a queue, and the same as text."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


@body
class ConsumeTimeSpan(Body):
    """The time spans of a topic's queues."""

    consume_time_span_set: tuple[QueueTimeSpan, ...] = ()


@body
class Connection(Body):
    """One connected client."""

    client_id: str = ""
    client_addr: str = ""
    language: str = ""
    version: int = 0


@body
class ConsumerConnection(Body):
    """The clients of a consumer group, and what the group subscribes to."""

    connection_set: tuple[Connection, ...] = ()
    subscription_table: Mapping[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


@body
class ProducerConnection(Body):
    """The clients of a producer group."""

    connection_set: tuple[Connection, ...] = ()


@body
class ProducerInfo(Body):
    """One client of a producer group."""

    client_id: str = ""
    remote_ip: Annotated[str, Names("remoteIP")] = ""
    language: str = ""
    version: int = 0
    last_update_timestamp: int = 0


@body
class ProducerTable(Body):
    """All producer groups of a broker."""

    data: Mapping[str, tuple[ProducerInfo, ...]] = field(default_factory=dict)


@body
class QuerySubscriptionResponse(Body):
    """What a group subscribes to in one topic; without data while the group is not online."""

    group: str = ""
    topic: str | None = None
    subscription_data: SubscriptionData | None = None


@body
class ConsumeQueueData(Body):
    """One entry of a consume queue, and whether a group's filter lets it pass."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@body
class QueryConsumeQueueResponse(Body):
    """A stretch of a consume queue."""

    queue_data: tuple[ConsumeQueueData, ...] = ()
    max_queue_index: int = 0
    min_queue_index: int = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
