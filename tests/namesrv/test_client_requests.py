"""What clients and tools ask, by plain calls of the handlers."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from registering import FOUR, V4_9_7, Desk, asking, caller, registration, request

from pocketmq.namesrv import client_requests
from pocketmq.namesrv.networks import Networks, Surroundings
from pocketmq.protocol.bodies import TopicRouteData
from pocketmq.protocol.codes import RequestCode, ResponseCode, version_ordinal
from pocketmq.protocol.command import Command
from pocketmq.remoting.errors import Refusal

ROUTE, CLUSTER = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO
BARE, QUOTED = b'"brokerAddrs":{0:"10.0.0.1:10911"}', b'"brokerAddrs":{"0":"10.0.0.1:10911"}'


def desk(**settings: Any) -> Desk:
    made = Desk(**settings)
    made.register(registration())
    return made


def route(desk: Desk, topic: str = "T", host: str = "127.0.0.1", **more: Any) -> Command:
    return client_requests.route(desk.state, request(asking(ROUTE, topic=topic, **more), caller(host)))


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.code, caught.value.remark


# --- 105: where a topic is


def test_a_route_is_written_as_a_real_nameserver_writes_it() -> None:
    assert bytes(route(desk()).body) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSynFlag":0,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize(
    ("version", "fields", "addresses"),
    [
        (0, {}, BARE),
        (121, {}, BARE),
        (333, {}, BARE),
        (400, {}, BARE),
        (401, {}, QUOTED),
        (version_ordinal(4, 9, 4), {}, QUOTED),
        (V4_9_7, {}, QUOTED),
        (2**31 - 1, {}, QUOTED),
        (317, {"acceptStandardJsonOnly": "true"}, QUOTED),
        (317, {"acceptStandardJsonOnly": "TRUE"}, QUOTED),
        (317, {"acceptStandardJsonOnly": "1"}, BARE),
        (V4_9_7, {"acceptStandardJsonOnly": "false"}, QUOTED),
    ],
)
def test_ids_are_quoted_for_those_who_know_the_standard(version: int, fields: dict[str, Any], addresses: bytes) -> None:
    body = bytes(route(desk(), version=version, **fields).body)
    assert addresses in body
    assert not set(body) & set(b" \n\t")
    assert TopicRouteData.from_json(body).broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


def test_a_topic_that_is_nowhere_is_refused_with_the_cause() -> None:
    assert refusal(lambda: route(desk(), "U")) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "no route for topic 'U': 1 broker registered, auto-create is off; create it with: pocketmq topic create U",
    )


def test_a_request_without_a_topic_is_told_so() -> None:
    answer = desk().ask(asking(ROUTE))
    assert (answer.code, answer.remark) == (17, "no route for topic '': that is no name for a topic")


def test_the_configuration_of_an_ordered_topic_is_told_if_that_is_set() -> None:
    for setting, told in ((False, None), (True, "broker-a:4")):
        made = desk(order_message_enable=setting)
        made.state.key_values.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        assert TopicRouteData.from_json(route(made).body).order_topic_conf == told


def test_a_slave_stands_in_for_its_master_if_that_is_set() -> None:
    for setting, id in ((False, 1), (True, 0)):
        made = Desk(support_acting_master=setting)
        made.register(registration(address="10.0.0.2:10911", id=1, enableActingMaster="true"))
        assert TopicRouteData.from_json(route(made).body).broker_datas[0].broker_addrs == {id: "10.0.0.2:10911"}


def test_routes_are_refused_until_brokers_had_time_to_register_if_that_is_set() -> None:
    made = desk(need_wait_for_service=True, wait_seconds_for_service=45)
    made.clock.now += 44.9
    remark = "name server not ready: brokers may register for 0 s more"
    assert refusal(lambda: route(made)) == (ResponseCode.SYSTEM_ERROR, remark)
    assert made.ask(asking(CLUSTER)).code == 0
    made.clock.now += 0.1
    assert route(made).code == 0


@pytest.mark.parametrize("seconds", [0, -1, -(10**99)])
def test_no_time_is_no_waiting(seconds: int) -> None:
    assert route(desk(need_wait_for_service=True, wait_seconds_for_service=seconds)).code == 0


# --- which address


NETWORKS = "lan=192.168.0.0/24;office=192.168.0.0/16;host=outside"
ADDRESSES = {
    "127.0.0.1": "10.0.0.1:10911",
    "172.17.0.5": "10.0.0.1:10911",
    "192.168.0.7": "192.168.0.5:10911",
    "192.168.7.7": "localhost:1",  # the broker has no address for the office
    "8.8.8.8": "localhost:1",
    "fe80::1%eth0": "localhost:1",
    "unknown": "10.0.0.1:10911",
}


@pytest.mark.parametrize(("host", "address"), ADDRESSES.items())
def test_a_caller_is_told_the_address_that_its_network_reaches(host: str, address: str) -> None:
    made = Desk(networks=Networks.parse(NETWORKS))
    made.state.surroundings = Surroundings((ip_network("127.0.0.0/8"), ip_network("172.17.0.0/16")))
    made.register(registration(PMQ_ADDRS="host=localhost:1;lan=192.168.0.5:10911"))
    assert TopicRouteData.from_json(route(made, host=host).body).broker_datas[0].broker_addrs == {0: address}
    cluster = json.loads(bytes(made.ask(asking(CLUSTER), caller(host)).body))
    assert cluster["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": address}
    listed = json.loads(bytes(made.ask(asking(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS), caller(host)).body))
    assert listed["brokerAddr"] == address


@pytest.mark.parametrize("host", ADDRESSES)
def test_without_networks_everybody_is_told_what_was_registered(host: str) -> None:
    made = Desk()
    made.register(registration(PMQ_ADDRS="host=localhost:1;lan=192.168.0.5:10911"))
    assert bytes(route(made, host=host).body) == bytes(route(desk()).body)


def test_each_broker_of_a_topic_has_its_own_addresses() -> None:
    made = Desk(networks=Networks.parse("lan=10.0.0.0/8"))
    made.register(
        registration(PMQ_ADDRS="lan=192.168.0.1:1"), registration("broker-b", "10.0.0.2:10911", PMQ_ADDRS="wan=h:1")
    )
    told = TopicRouteData.from_json(route(made, host="10.1.1.1").body)
    assert [data.broker_addrs[0] for data in told.broker_datas] == ["192.168.0.1:1", "10.0.0.2:10911"]


# --- 106: the cluster


def test_the_cluster_info_has_quoted_ids_for_everybody() -> None:
    for version in (0, V4_9_7):
        answer = client_requests.cluster_info(desk().state, request(asking(CLUSTER, version=version)))
        assert bytes(answer.body) == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a",'
            b'"cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["broker-a"]}}'
        )


# --- lists of topics


LISTS = {
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ["T", "unit", "both", "sub"],
    RequestCode.GET_TOPICS_BY_CLUSTER: ["T", "unit", "both", "sub"],
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: ["broker-a", "c"],
    RequestCode.GET_UNIT_TOPIC_LIST: ["unit", "both"],
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: ["both", "sub"],
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: ["sub"],
}


def listed(code: RequestCode, **settings: Any) -> Command:
    made = Desk(**settings)
    flags = {"T": 0, "unit": 1, "both": 3, "sub": 2}
    made.register(registration(topics={name: FOUR._replace(topic_sys_flag=flag) for name, flag in flags.items()}))
    return made.ask(asking(code, cluster="c"))


@pytest.mark.parametrize(("code", "topics"), LISTS.items())
def test_topics_are_listed(code: RequestCode, topics: list[str]) -> None:
    answer = listed(code)
    assert answer.code == 0
    assert sorted(json.loads(bytes(answer.body))["topicList"]) == sorted(topics)


@pytest.mark.parametrize("code", LISTS)
def test_a_list_may_be_switched_off(code: RequestCode) -> None:
    is_all = code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    answer = listed(code, enable_all_topic_list=not is_all, enable_topic_list=is_all)
    remark = "disable: this NameServer is set up not to list topics"
    assert (answer.code, answer.remark, answer.body) == (1, remark, b"")
    assert listed(code, enable_all_topic_list=is_all, enable_topic_list=not is_all).code == 0


def test_the_topics_of_no_cluster_are_none() -> None:
    answer = desk().ask(asking(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="elsewhere"))
    assert (answer.code, bytes(answer.body)) == (0, b'{"topicList":[]}')
