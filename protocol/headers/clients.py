"""Headers of what clients tell the broker about themselves, and of what the broker asks its clients."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pocketmq.protocol.fields import Int32, Int64, Wire


class HeartbeatResponse(NamedTuple):
    is_support_heart_beat_v2: Annotated[bool | None, Wire("IS_SUPPORT_HEART_BEAT_V2")] = None
    is_sub_change: Annotated[bool | None, Wire("IS_SUB_CHANGE")] = None


class UnregisterClientRequest(NamedTuple):
    client_id: Annotated[str, Wire("clientID")]
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupRequest(NamedTuple):
    """A consumer group and nothing else: its members, its connections, or the news that they changed."""

    consumer_group: str


class CheckTransactionStateRequest(NamedTuple):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class ResetConsumerClientOffsetRequest(NamedTuple):
    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1  # all of them
    offset: Int64 | None = None


class GetConsumerStatusRequest(NamedTuple):
    topic: str
    group: str
    client_addr: str | None = None


class ConsumerRunningInfoRequest(NamedTuple):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(NamedTuple):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class PushReplyMessageRequest(NamedTuple):
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
