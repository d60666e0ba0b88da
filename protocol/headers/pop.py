"""Headers of 5.x POP consumption. PocketMQ reads and writes them; serving them is optional."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.protocol.fields import Int32, Int64


class PopMessageRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponse(NamedTuple):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    suspend: bool = False


class ChangeInvisibleTimeResponse(NamedTuple):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessageRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class NotificationRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class NotificationResponse(NamedTuple):
    has_msg: bool
    polling_full: bool | None = None


class PollingInfoRequest(NamedTuple):
    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponse(NamedTuple):
    polling_num: Int32
