"""What the route table says, as plain values."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from pocketmq.namesrv import answers
from pocketmq.namesrv.registration import Registration
from pocketmq.namesrv.routes import Member, RouteTable
from pocketmq.protocol.bodies import BrokerData, BrokerMemberGroup, QueueData, TopicList, TopicQueues, TopicRouteData

FOUR = TopicQueues(4, 8, 6, 0)
ONE, TWO, THREE = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
MASTER = Registration("c", "b", 0, ONE, {"T": FOUR}, ha_address="10.0.0.1:10912")
SLAVE = MASTER._replace(broker_id=1, address=TWO)
OTHER = Registration("d", "other", 0, THREE, {"T": FOUR, "U": FOUR})
NOTHING = RouteTable()


def table(*registered: Registration) -> RouteTable:
    made = RouteTable()
    for registration in registered:
        made.register(registration, None, 0)
    return made


def address(member: Member) -> str:
    return member.address


def addresses(route: TopicRouteData | None) -> dict[str, dict[int, str]]:
    assert route is not None
    return {data.broker_name: dict(data.broker_addrs) for data in route.broker_datas}


# --- routes


def test_a_route_names_the_queues_and_the_addresses_of_its_brokers() -> None:
    assert answers.route_of(table(MASTER, SLAVE, OTHER), "T", address) == TopicRouteData(
        queue_datas=(
            QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=8, perm=6),
            QueueData(broker_name="other", read_queue_nums=4, write_queue_nums=8, perm=6),
        ),
        broker_datas=(
            BrokerData(cluster="c", broker_name="b", broker_addrs={0: ONE, 1: TWO}),
            BrokerData(cluster="d", broker_name="other", broker_addrs={0: THREE}),
        ),
    )


def test_a_route_has_only_the_brokers_of_its_topic() -> None:
    assert addresses(answers.route_of(table(MASTER, OTHER), "U", address)) == {"other": {0: THREE}}


def test_a_route_that_is_nowhere_is_none() -> None:
    assert answers.route_of(table(MASTER), "U", address) is None
    assert answers.route_of(NOTHING, "T", address) is None


def test_a_route_tells_everything_its_brokers_told() -> None:
    told = MASTER._replace(
        topics={"T": FOUR._replace(topic_sys_flag=3)},
        acting_master=True,
        zone_name="z",
        filter_servers=(THREE,),
    )
    route = answers.route_of(table(told), "T", address, order_conf="b:4")
    assert route is not None
    assert route.queue_datas[0].topic_sys_flag == 3
    assert (route.broker_datas[0].enable_acting_master, route.broker_datas[0].zone_name) == (True, "z")
    assert (route.filter_server_table, route.order_topic_conf) == ({ONE: (THREE,)}, "b:4")


def test_the_ids_of_a_broker_are_sorted() -> None:
    route = answers.route_of(table(SLAVE._replace(broker_id=10), SLAVE._replace(address=THREE), MASTER), "T", address)
    assert list(addresses(route)["b"]) == [0, 1, 10]


def test_every_address_is_the_one_that_the_caller_is_told() -> None:
    made = table(MASTER, SLAVE._replace(networks={"lan": "192.168.0.2:10911"}), OTHER)

    def tell(member: Member) -> str:
        return member.networks.get("lan", member.address)

    told = {0: ONE, 1: "192.168.0.2:10911"}
    assert addresses(answers.route_of(made, "T", tell)) == {"b": told, "other": {0: THREE}}
    assert answers.cluster_info(made, tell).broker_addr_table["b"].broker_addrs == told
    assert answers.system_topics(table(SLAVE._replace(networks={"lan": THREE})), tell).broker_addr == THREE


# --- slaves that stand in for their master


def acting(*ids: int, perm: int = 4, acting_master: bool = True) -> RouteTable:
    """The slaves of a broker whose master is gone, and with it the permission to write."""
    made = RouteTable()
    for id in (0, *ids):
        queues = {"T": FOUR._replace(perm=perm), "rmq_sys_SYNC_BROKER_MEMBER_b": FOUR._replace(perm=4)}
        made.register(MASTER._replace(broker_id=id, address=f"h{id}:1", topics=queues), None, 0)
    made.unregister("b", "h0:1")
    made.brokers["b"].acting_master = acting_master
    return made


def test_the_lowest_slave_is_shown_as_the_master() -> None:
    route = answers.route_of(acting(2, 5), "T", address, acting_masters=True)
    assert addresses(route) == {"b": {0: "h2:1", 5: "h5:1"}}


def test_showing_it_changes_nothing() -> None:
    made = acting(2, 5)
    before = deepcopy((made.brokers, made.topics))
    answers.route_of(made, "T", address, acting_masters=True)
    assert (made.brokers, made.topics) == before


@pytest.mark.parametrize(
    ("made", "topic", "options"),
    [
        (acting(2, 5), "T", {}),
        (acting(2, 5, acting_master=False), "T", {"acting_masters": True}),
        (acting(2, 5, perm=6), "T", {"acting_masters": True}),
        (acting(2, 5), "rmq_sys_SYNC_BROKER_MEMBER_b", {"acting_masters": True}),
    ],
    ids=["nobody asked for it", "the broker does not allow it", "it can be written to", "a topic of the members"],
)
def test_otherwise_the_slaves_are_shown_as_they_are(made: RouteTable, topic: str, options: dict[str, Any]) -> None:
    assert addresses(answers.route_of(made, topic, address, **options)) == {"b": {2: "h2:1", 5: "h5:1"}}


def test_a_master_that_is_there_is_shown_even_if_nothing_can_be_written() -> None:
    made = table(MASTER._replace(acting_master=True), SLAVE._replace(acting_master=True))
    made.wipe_write_permission("b")
    route = answers.route_of(made, "T", address, acting_masters=True)
    assert addresses(route) == {"b": {0: ONE, 1: TWO}}


# --- why there is none


CREATING = table(MASTER._replace(topics={"TBW102": FOUR}), OTHER)


@pytest.mark.parametrize(
    ("made", "topic", "remark"),
    [
        (
            NOTHING,
            "T",
            "no route for topic 'T': no broker is registered here; are the brokers running, with this NameServer in "
            "their namesrvAddr?",
        ),
        (
            table(OTHER),
            "V",
            "no route for topic 'V': 1 broker registered, auto-create is off; create it with: pocketmq topic create V",
        ),
        (
            CREATING,
            "V",
            "no route for topic 'V': 2 brokers registered, auto-create is on at 1; "
            "it is created with its first message",
        ),
        (
            CREATING,
            "%RETRY%g",
            "no route for topic '%RETRY%g': no consumer of group 'g' has been seen by 2 brokers",
        ),
        (table(OTHER), "", "no route for topic '': that is no name for a topic"),
        (NOTHING, "a b", "no route for topic 'a b': that is no name for a topic"),
    ],
)
def test_the_remark_names_the_cause_and_what_to_do(made: RouteTable, topic: str, remark: str) -> None:
    assert answers.why_no_route(made, topic) == remark


@pytest.mark.parametrize("topic", ["\n" * 100_000, "x" * 100_000, "\ud800" * 100_000])
def test_the_remark_shows_little_of_a_long_name(topic: str) -> None:
    remark = answers.why_no_route(NOTHING, topic)
    assert len(remark) < 400
    assert remark.isprintable()


# --- clusters, members, lists


def test_the_cluster_info_has_all_brokers_by_name_and_by_cluster() -> None:
    info = answers.cluster_info(table(MASTER, SLAVE, OTHER, OTHER._replace(broker_name="b2", cluster="c")), address)
    assert {name: dict(data.broker_addrs) for name, data in info.broker_addr_table.items()} == {
        "b": {0: ONE, 1: TWO},
        "other": {0: THREE},
        "b2": {0: THREE},
    }
    assert info.cluster_addr_table == {"c": ("b", "b2"), "d": ("other",)}


def test_nobody_is_an_answer_too() -> None:
    info = answers.cluster_info(NOTHING, address)
    assert (info.broker_addr_table, info.cluster_addr_table) == ({}, {})
    assert answers.all_topics(NOTHING) == answers.unit_topics(NOTHING) == TopicList()
    assert answers.topics_of_cluster(NOTHING, "c") == TopicList()
    assert answers.system_topics(NOTHING, address) == TopicList()
    assert answers.member_group(NOTHING, "c", "b") == BrokerMemberGroup(cluster="c", broker_name="b")


def test_members_learn_the_addresses_of_each_other() -> None:
    made = table(MASTER._replace(networks={"lan": "192.168.0.1:1"}), SLAVE, OTHER)
    group = answers.member_group(made, "a cluster that it left", "b")
    assert group == BrokerMemberGroup(cluster="c", broker_name="b", broker_addrs={0: ONE, 1: TWO})


def test_topics_are_listed_all_or_by_cluster() -> None:
    made = table(MASTER._replace(topics={"T": FOUR, "V": FOUR}), OTHER)
    assert answers.all_topics(made).topic_list == ("T", "V", "U")
    assert answers.topics_of_cluster(made, "c").topic_list == ("T", "V")
    assert answers.topics_of_cluster(made, "d").topic_list == ("T", "U")
    assert answers.topics_of_cluster(made, "e").topic_list == ()


def test_the_system_topics_are_brokers_and_clusters_and_come_with_an_address() -> None:
    listed = answers.system_topics(table(MASTER, OTHER), address)
    assert (set(listed.topic_list), listed.broker_addr) == ({"b", "other", "c", "d"}, ONE)


def test_topics_are_listed_by_what_their_flag_says_of_units() -> None:
    topics = {f"T{flag}": FOUR._replace(topic_sys_flag=flag) for flag in range(8)}
    made = table(MASTER._replace(topics=topics))
    assert answers.unit_topics(made).topic_list == ("T1", "T3", "T5", "T7")
    assert answers.unit_subscribed_topics(made).topic_list == ("T2", "T3", "T6", "T7")
    assert answers.unit_subscribed_other_topics(made).topic_list == ("T2", "T6")
