"""Headers of sending: plain, compact, batches, replies, recalls, and records already laid out as stored."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pocketmq.protocol.fields import Int32, Int64, Wire


class SendMessageRequest(NamedTuple):
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: Annotated[str | None, Wire("bname")] = None


class SendMessageRequestV2(NamedTuple):
    """The same fields under one letter each: what most clients send."""

    producer_group: Annotated[str, Wire("a")]
    topic: Annotated[str, Wire("b")]
    default_topic: Annotated[str, Wire("c")]
    default_topic_queue_nums: Annotated[Int32, Wire("d")]
    queue_id: Annotated[Int32, Wire("e")]
    sys_flag: Annotated[Int32, Wire("f")]
    born_timestamp: Annotated[Int64, Wire("g")]
    flag: Annotated[Int32, Wire("h")]
    properties: Annotated[str | None, Wire("i")] = None
    reconsume_times: Annotated[Int32, Wire("j")] = 0
    unit_mode: Annotated[bool, Wire("k")] = False
    max_reconsume_times: Annotated[Int32 | None, Wire("l")] = None
    batch: Annotated[bool, Wire("m")] = False
    broker_name: Annotated[str | None, Wire("n")] = None


class SendMessageResponse(NamedTuple):
    """Java's client needs `queueId` and `queueOffset`, or it fails with a null pointer."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: Annotated[str | None, Wire("MSG_REGION")] = None
    trace_on: Annotated[str | None, Wire("TRACE_ON")] = None
    durable: Annotated[Int32 | None, Wire("PMQ_DURABLE")] = None


class SendRecordsRequest(NamedTuple):
    """A batch whose body is `count` sizes and the records as they will be stored."""

    producer_group: Annotated[str, Wire("a")]
    topic: Annotated[str, Wire("b")]
    default_topic: Annotated[str, Wire("c")]
    default_topic_queue_nums: Annotated[Int32, Wire("d")]
    queue_id: Annotated[Int32, Wire("e")]
    record_count: Annotated[Int32, Wire("count")]  # `count` is a method of tuples
    unit_mode: Annotated[bool, Wire("k")] = False


class SendRecordsResponse(NamedTuple):
    """Where the first record went; the others follow it in the queue and in the log."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    physical_offset: Int64
    store_timestamp: Int64
    durable: Annotated[Int32 | None, Wire("PMQ_DURABLE")] = None


class SendReplyResponse(NamedTuple):
    msg_id: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    transaction_id: str | None = None
    msg_region: Annotated[str | None, Wire("MSG_REGION")] = None
    trace_on: Annotated[str | None, Wire("TRACE_ON")] = None


class RecallMessageRequest(NamedTuple):
    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageResponse(NamedTuple):
    msg_id: str
    msg_region: Annotated[str | None, Wire("MSG_REGION")] = None
