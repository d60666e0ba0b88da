"""Where topics and brokers are: what a NameServer answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pocketmq.protocol.bodies.model import Body, Names, body


@body
class QueueData(Body):
    """The queues of one topic at one broker."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    # Up to 4.8.0, and for Go still, the name is misspelt.
    topic_sys_flag: Annotated[int, Names("topicSysFlag", "topicSynFlag")] = 0


@body
class BrokerData(Body):
    """The addresses of one broker: its master under id 0, its slaves under the others."""

    cluster: str = ""
    broker_name: str
    broker_addrs: Mapping[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None


@body
class TopicRouteData(Body):
    """Where a topic is. Clients before 4.9.4 are sent the broker ids with `bare_integer_keys`."""

    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: Mapping[str, Any] | None = None


@body
class ClusterInfo(Body):
    """All brokers by name, and the names of each cluster's brokers."""

    broker_addr_table: Mapping[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@body
class BrokerMemberGroup(Body):
    """A master and its slaves."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: Mapping[int, str] = field(default_factory=dict)


@body
class BrokerMemberGroupResponse(Body):
    """The answer of a NameServer to a broker that asks for its siblings."""

    broker_member_group: BrokerMemberGroup | None = None
