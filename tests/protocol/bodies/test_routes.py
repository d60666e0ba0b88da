"""Routes: the exact bytes that clients split at commas and colons, and both ways to write a broker's id."""

from __future__ import annotations

import pytest
from fixtures import captured_frames

from pocketmq.protocol.bodies import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupResponse,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)

ROUTE = TopicRouteData(
    queue_datas=(QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6),),
    broker_datas=(BrokerData(cluster="DefaultCluster", broker_name="broker-a", broker_addrs={0: "127.0.0.1:10911"}),),
)
STRICT = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
    b'"readQueueNums":4,"topicSynFlag":0,"topicSysFlag":0,"writeQueueNums":4}]}'
)
BARE = STRICT.replace(b'{"0":', b"{0:")


def test_a_route_is_written_byte_for_byte_as_clients_expect_it() -> None:
    assert ROUTE.to_json() == STRICT


def test_old_clients_get_the_ids_of_brokers_bare() -> None:
    assert ROUTE.to_json(bare_integer_keys=True) == BARE


@pytest.mark.parametrize("document", [STRICT, BARE, BARE + b"\n"])
def test_both_forms_are_read(document: bytes) -> None:
    assert TopicRouteData.from_json(document) == ROUTE


def test_a_captured_route_is_written_as_it_was_but_for_the_flag_of_older_clients() -> None:
    routes = [
        frame for frame in captured_frames() if frame.request_code == 105 and frame.is_response and not frame.code
    ]
    assert len(routes) > 30
    bare = 0
    for frame in routes:
        form = b"{0:" in frame.body
        written = TopicRouteData.from_json(frame.body).to_json(bare_integer_keys=form)
        assert written.replace(b'"topicSynFlag":0,', b"") == (
            # 4.9.7 has no acting masters
            frame.body
            if frame.server == "5.5.0"
            else frame.body.replace(b'}],"filt', b',"enableActingMaster":false}],"filt')
        )
        bare += form
    assert 0 < bare < len(routes)


@pytest.mark.parametrize("name", ["topicSysFlag", "topicSynFlag"])
def test_the_flag_of_a_topic_is_read_under_its_misspelt_name_too(name: str) -> None:
    data = QueueData.from_json(f'{{"brokerName":"b","{name}":2}}')
    assert data == QueueData(broker_name="b", topic_sys_flag=2)
    assert b'"topicSynFlag":2,"topicSysFlag":2' in data.to_json()


def test_a_route_of_an_ordered_topic_says_so() -> None:
    route = TopicRouteData.from_json('{"orderTopicConf":"broker-a:4","queueDatas":null}')
    assert route == TopicRouteData(order_topic_conf="broker-a:4")
    assert route.to_json() == b'{"brokerDatas":[],"filterServerTable":{},"orderTopicConf":"broker-a:4","queueDatas":[]}'


def test_a_cluster_is_its_brokers_and_their_names() -> None:
    document = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["broker-a"]}}'
    )
    cluster = ClusterInfo.from_json(document)
    assert cluster.broker_addr_table["broker-a"].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert cluster.cluster_addr_table == {"c": ("broker-a",)}
    assert cluster.to_json(bare_integer_keys=True) == document


def test_a_broker_that_asks_for_its_siblings_gets_their_addresses() -> None:
    document = b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b","cluster":"c"}}'
    group = BrokerMemberGroup(cluster="c", broker_name="b", broker_addrs={0: "10.0.0.1:10911"})
    assert BrokerMemberGroupResponse.from_json(document) == BrokerMemberGroupResponse(broker_member_group=group)
    assert BrokerMemberGroupResponse.from_json("{}").broker_member_group is None
