"""What a running consumer tells about itself when a broker asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pocketmq.protocol.bodies.clients import SubscriptionData
from pocketmq.protocol.bodies.common import MessageQueue
from pocketmq.protocol.bodies.enums import ConsumeResult
from pocketmq.protocol.bodies.model import Body, Names, body


@body
class ProcessQueueInfo(Body):
    """The state of one assigned queue inside a consumer."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: Annotated[int, Names("cachedMsgSizeInMiB")] = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: Annotated[bool, Names("droped", "dropped")] = False  # Java's spelling, Go's spelling
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@body
class ConsumeStatus(Body):
    """How fast a consumer pulls and consumes one topic; times in ms."""

    pull_rt: Annotated[float, Names("pullRT")] = 0.0
    pull_tps: Annotated[float, Names("pullTPS")] = 0.0
    consume_rt: Annotated[float, Names("consumeRT")] = 0.0
    consume_ok_tps: Annotated[float, Names("consumeOKTPS")] = 0.0
    consume_failed_tps: Annotated[float, Names("consumeFailedTPS")] = 0.0
    consume_failed_msgs: int = 0


@body
class ConsumerRunningInfo(Body):
    """Everything about one consumer; `mqadmin` relies on the `PROP_` properties."""

    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: Mapping[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: Mapping[MessageQueue, Any] | None = None  # since 5.0
    status_table: Mapping[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: Mapping[str, str] | None = None  # since 5.0
    jstack: str | None = None


@body
class ConsumeMessageDirectlyResult(Body):
    """What became of one message that a consumer was made to consume."""

    order: bool = False
    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0
