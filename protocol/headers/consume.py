"""Headers of pulling, of offsets and of looking messages up."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pocketmq.protocol.fields import Int32, Int64, Wire


class PullMessageRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # spelled as RocketMQ spells it
    bulk_bytes: Annotated[Int32 | None, Wire("PMQ_MAX_BYTES")] = None


class PullMessageResponse(NamedTuple):
    """The first four are needed with every pull result, found or not: Java unboxes them unseen."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryConsumerOffsetRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequest(NamedTuple):
    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class GetMaxOffsetRequest(NamedTuple):
    topic: str
    queue_id: Int32
    committed: bool = True


class QueueRequest(NamedTuple):
    """A queue and nothing else: its minimum offset, or the time of its earliest message."""

    topic: str
    queue_id: Int32


class OffsetResponse(NamedTuple):
    offset: Int64


class EarliestStoretimeResponse(NamedTuple):
    timestamp: Int64


class ViewMessageRequest(NamedTuple):
    offset: Int64
    topic: str | None = None


class QueryMessageRequest(NamedTuple):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key: Annotated[bool | None, Wire("_UNIQUE_KEY_QUERY")] = None
    index_type: str | None = None
    last_key: str | None = None


class QueryMessageResponse(NamedTuple):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ConsumerSendMessageBackRequest(NamedTuple):
    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class EndTransactionRequest(NamedTuple):
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None
