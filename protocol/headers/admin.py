"""Headers of administration at the broker."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pocketmq.protocol.fields import Int32, Int64, Wire


class CreateTopicRequest(NamedTuple):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class TopicRequest(NamedTuple):
    """A topic and nothing else: delete it, count it, or tell who consumes it."""

    topic: str


class GetTopicConfigRequest(NamedTuple):
    topic: str
    logical: Annotated[bool | None, Wire("lo")] = None


class TopicPageRequest(NamedTuple):
    """5.x asks for the topic table in pages."""

    topic_seq: Int32 | None = None
    max_topic_num: Int32 | None = None
    data_version: str | None = None


class TopicPageResponse(NamedTuple):
    total_topic_num: Int32 | None = None


class GroupPageRequest(NamedTuple):
    """5.x asks for the group table in pages."""

    group_seq: Int32 | None = None
    max_group_num: Int32 | None = None
    data_version: str | None = None


class GroupPageResponse(NamedTuple):
    total_group_num: Int32 | None = None


class GroupRequest(NamedTuple):
    """A group and nothing else: its settings, or its topics."""

    group: str


class DeleteGroupRequest(NamedTuple):
    """4.x calls the flag `removeOffset`, 5.x `cleanOffset`."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class BrokerConfigResponse(NamedTuple):
    version: str | None = None


class ProducerGroupRequest(NamedTuple):
    producer_group: str


class ConsumeStatsRequest(NamedTuple):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class BrokerConsumeStatsRequest(NamedTuple):
    is_order: bool


class ViewBrokerStatsRequest(NamedTuple):
    stats_name: str
    stats_key: str


class ResetOffsetRequest(NamedTuple):
    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = -1  # all of them
    offset: Int64 | None = None


class TopicGroupRequest(NamedTuple):
    """A group and one of its topics."""

    topic: str
    group: str


class QuerySubscriptionRequest(NamedTuple):
    group: str
    topic: str | None = None


class CloneGroupOffsetRequest(NamedTuple):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryConsumeQueueRequest(NamedTuple):
    topic: str | None = None
    queue_id: Int32 | None = None
    start_index: Annotated[Int64 | None, Wire("index")] = None  # `index` and `count` are methods of tuples
    entry_count: Annotated[Int32 | None, Wire("count")] = None
    consumer_group: str | None = None


class ResumeCheckHalfMessageRequest(NamedTuple):
    topic: str | None = None
    msg_id: str | None = None


class QueryCorrectionOffsetRequest(NamedTuple):
    compare_group: str
    topic: str
    filter_groups: str | None = None
