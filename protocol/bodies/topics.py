"""The configuration of topics and consumer groups, on the wire and in a broker's files alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pocketmq.protocol.bodies.common import DataVersion
from pocketmq.protocol.bodies.enums import TopicFilterType
from pocketmq.protocol.bodies.model import Body, body


@body
class TopicConfig(Body):
    """One topic at one broker."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] | None = None  # since 5.0
    mapping_detail: Mapping[str, Any] | None = None  # static topics


@body
class TopicConfigSerializeWrapper(Body):
    """All topics of a broker; since 5.0 with the mappings of static topics."""

    topic_config_table: Mapping[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_detail_map: Mapping[str, Any] | None = None
    topic_queue_mapping_info_map: Mapping[str, Any] | None = None


@body
class TopicConfigList(Body):
    """Topics to create or change at once."""

    topic_config_list: tuple[TopicConfig, ...] = ()


@body
class SubscriptionGroupConfig(Body):
    """One consumer group at one broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    group_retry_policy: Mapping[str, Any] | None = None  # since 5.0; "type" is CUSTOMIZED or EXPONENTIAL
    subscription_data_set: tuple[Mapping[str, Any], ...] | None = None
    attributes: Mapping[str, str] | None = None  # since 5.0


@body
class SubscriptionGroupWrapper(Body):
    """All consumer groups of a broker."""

    subscription_group_table: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: Mapping[str, Mapping[str, int]] | None = None  # group -> topic -> bits; since 5.0
    data_version: DataVersion = field(default_factory=DataVersion)


@body
class SubscriptionGroupList(Body):
    """Consumer groups to create or change at once."""

    group_config_list: tuple[SubscriptionGroupConfig, ...] = ()
