"""What the route table says to those who ask: route table -> bodies, changing nothing.

`tell` picks the address of a member that the caller can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pocketmq.namesrv.registration import is_name
from pocketmq.namesrv.routes import MASTER, Broker, Member, RouteTable
from pocketmq.protocol.bodies import (
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicQueues,
    TopicRouteData,
)
from pocketmq.protocol.codes import Permission

Tell = Callable[[Member], str]

AUTO_CREATE_TOPIC: Final = "TBW102"
"""Brokers that create a topic when its first message arrives have this one too."""

_MEMBER_GROUP_TOPIC: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
_RETRY_TOPIC: Final = "%RETRY%"
_UNIT: Final = 1  # bits of a topic's system flag
_UNIT_SUBSCRIPTION: Final = 2


def route_of(
    table: RouteTable, topic: str, tell: Tell, *, order_conf: str | None = None, acting_masters: bool = False
) -> TopicRouteData | None:
    """Where a topic is; None if it is nowhere. With `acting_masters` a slave may be shown as the master."""
    queues = table.topics.get(topic)
    if queues is None:
        return None
    act = acting_masters and not topic.startswith(_MEMBER_GROUP_TOPIC)
    brokers = [
        _broker_data(table.brokers[name], tell, act=act and not numbers.perm & Permission.WRITE)
        for name, numbers in queues.items()
    ]
    return TopicRouteData(
        queue_datas=tuple(_queue_data(name, numbers) for name, numbers in queues.items()),
        broker_datas=tuple(brokers),
        filter_server_table=_filter_servers(map(table.brokers.__getitem__, queues)),
        order_topic_conf=order_conf,
    )


def why_no_route(table: RouteTable, topic: str) -> str:
    """Why a topic is nowhere, and what to do about it."""
    count = len(table.brokers)
    if not is_name(topic):
        cause = "that is no name for a topic"
    elif not count:
        cause = "no broker is registered here; are the brokers running, with this NameServer in their namesrvAddr?"
    elif topic.startswith(_RETRY_TOPIC):
        cause = f"no consumer of group {topic.removeprefix(_RETRY_TOPIC)!r} has been seen by {_brokers(count)}"
    elif AUTO_CREATE_TOPIC in table.topics:
        makers = len(table.topics[AUTO_CREATE_TOPIC])
        cause = f"{_brokers(count)} registered, auto-create is on at {makers}; it is created with its first message"
    else:
        cause = f"{_brokers(count)} registered, auto-create is off; create it with: pocketmq topic create {topic}"
    return f"no route for topic {topic!r:.300}: {cause}"


def _brokers(count: int) -> str:
    return "1 broker" if count == 1 else f"{count} brokers"


def cluster_info(table: RouteTable, tell: Tell) -> ClusterInfo:
    """All brokers, by name and by cluster."""
    return ClusterInfo(
        broker_addr_table={name: _broker_data(broker, tell) for name, broker in table.brokers.items()},
        cluster_addr_table={cluster: tuple(_names_in(table, cluster)) for cluster in _clusters(table)},
    )


def member_group(table: RouteTable, cluster: str, broker_name: str) -> BrokerMemberGroup:
    """The members of one broker, for each other; empty if there are none."""
    broker = table.brokers.get(broker_name) or Broker(broker_name, cluster)
    addresses = {id: member.address for id, member in broker.members.items()}
    return BrokerMemberGroup(cluster=broker.cluster, broker_name=broker_name, broker_addrs=addresses)


def all_topics(table: RouteTable) -> TopicList:
    return TopicList(topic_list=tuple(table.topics))


def topics_of_cluster(table: RouteTable, cluster: str) -> TopicList:
    names = set(_names_in(table, cluster))
    return TopicList(topic_list=tuple(topic for topic, queues in table.topics.items() if not names.isdisjoint(queues)))


def system_topics(table: RouteTable, tell: Tell) -> TopicList:
    """The names of clusters and brokers, which are topics too, and the address of some broker."""
    names = [*table.brokers, *_clusters(table)]
    members = (member for broker in table.brokers.values() for member in broker.members.values())
    return TopicList(topic_list=tuple(names), broker_addr=next(map(tell, members), None))


def unit_topics(table: RouteTable) -> TopicList:
    """The topics that belong to a unit."""
    return _flagged(table, lambda flag: bool(flag & _UNIT))


def unit_subscribed_topics(table: RouteTable) -> TopicList:
    """The topics with a subscriber in a unit."""
    return _flagged(table, lambda flag: bool(flag & _UNIT_SUBSCRIPTION))


def unit_subscribed_other_topics(table: RouteTable) -> TopicList:
    """The topics with a subscriber in a unit that do not belong to one themselves."""
    return _flagged(table, lambda flag: flag & (_UNIT | _UNIT_SUBSCRIPTION) == _UNIT_SUBSCRIPTION)


def _flagged(table: RouteTable, wanted: Callable[[int], bool]) -> TopicList:
    """The topics whose system flag, as one broker has it, is wanted."""
    flags = ((topic, next(iter(queues.values())).topic_sys_flag) for topic, queues in table.topics.items())
    return TopicList(topic_list=tuple(topic for topic, flag in flags if wanted(flag)))


def _clusters(table: RouteTable) -> Iterable[str]:
    return dict.fromkeys(broker.cluster for broker in table.brokers.values())


def _names_in(table: RouteTable, cluster: str) -> Iterable[str]:
    return (name for name, broker in table.brokers.items() if broker.cluster == cluster)


def _queue_data(broker_name: str, queues: TopicQueues) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=queues.read_queue_nums,
        write_queue_nums=queues.write_queue_nums,
        perm=queues.perm,
        topic_sys_flag=queues.topic_sys_flag,
    )


def _broker_data(broker: Broker, tell: Tell, *, act: bool = False) -> BrokerData:
    addresses = {id: tell(member) for id, member in sorted(broker.members.items())}
    if act and broker.acting_master and MASTER not in addresses:
        addresses = {MASTER: addresses.pop(min(addresses)), **addresses}
    return BrokerData(
        cluster=broker.cluster,
        broker_name=broker.name,
        broker_addrs=addresses,
        enable_acting_master=broker.acting_master,
        zone_name=broker.zone_name,
    )


def _filter_servers(brokers: Iterable[Broker]) -> dict[str, tuple[str, ...]]:
    members = (member for broker in brokers for member in broker.members.values())
    return {member.address: member.filter_servers for member in members if member.filter_servers}
