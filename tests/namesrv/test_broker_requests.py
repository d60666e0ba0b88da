"""What brokers ask, by plain calls of the handlers."""

from __future__ import annotations

import json
import logging
import zlib
from typing import Any

import pytest
from registering import (
    FIRST,
    FOUR,
    SECOND,
    V4_9_7,
    V5_5_0,
    Desk,
    Form,
    asking,
    caller,
    registration,
    registration_body,
    request,
)

from pocketmq.namesrv import broker_requests
from pocketmq.namesrv.routes import LeaderChange
from pocketmq.protocol.bodies import DataVersion
from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.hashes import body_crc
from pocketmq.remoting.errors import Refusal

MASTER = registration()
SLAVE = registration(address="10.0.0.2:10911", id=1)
WHO: dict[str, Any] = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "c", "brokerId": "0"}
FORMS = [
    (Form.JSON, V4_9_7),
    (Form.JSON, V5_5_0),
    (Form.COMPRESSED, V4_9_7),
    (Form.COMPRESSED, V5_5_0),
    (Form.ALONE, 36),
]


def register(desk: Desk, command: Command = MASTER) -> Command:
    return broker_requests.register_broker(desk.state, request(command))


def refused(desk: Desk, command: Command) -> str:
    """Why a registration is refused; nothing has come of it."""
    before = repr((desk.state.routes.brokers, desk.state.routes.topics))
    with pytest.raises(Refusal) as caught:
        register(desk, command)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert repr((desk.state.routes.brokers, desk.state.routes.topics)) == before
    return caught.value.remark


def members(desk: Desk, name: str = "broker-a") -> dict[int, str]:
    broker = desk.state.routes.brokers.get(name)
    return {} if broker is None else {id: member.address for id, member in broker.members.items()}


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# --- 103: registering


@pytest.mark.parametrize(("form", "version"), FORMS)
@pytest.mark.parametrize("encoding", Encoding)
def test_a_broker_is_registered_in_every_form(form: Form, version: int, encoding: Encoding) -> None:
    desk = Desk()
    topics = {"T": FOUR._replace(write_queue_nums=8), "%RETRY%g": FOUR._replace(perm=4)}
    command = registration(topics=topics, form=form, version=version, encoding=encoding)
    answer = register(desk, command)
    assert (answer.code, answer.ext_fields, answer.body, answer.encoding) == (0, {}, b"", encoding)
    assert desk.state.routes.topics == {topic: {"broker-a": queues} for topic, queues in topics.items()}
    member = desk.state.routes.brokers["broker-a"].members[0]
    assert (member.address, member.ha_address, member.timeout) == ("10.0.0.1:10911", "10.0.0.1:10912", 120)
    assert (member.data_version, member.last_update) == (FIRST, 1000)


@pytest.mark.parametrize(("form", "version"), FORMS)
def test_what_a_field_says_of_compression_does_not_matter(form: Form, version: int) -> None:
    for compressed in ("true", "false", "perhaps"):
        desk = Desk()
        register(desk, registration(form=form, version=version, compressed=compressed))
        assert "T" in desk.state.routes.topics


def test_everything_a_broker_tells_is_taken_over() -> None:
    desk = Desk()
    command = registration(
        filter_servers=("10.0.0.1:9999",),
        version=V5_5_0,
        heartbeatTimeoutMillis="10000",
        enableActingMaster="true",
        __ZONE_NAME="zone-1",
        PMQ_ADDRS="lan=192.168.0.1:10911;host=localhost:10911",
    )
    channel = caller()
    broker_requests.register_broker(desk.state, request(command, channel))
    broker = desk.state.routes.brokers["broker-a"]
    assert (broker.cluster, broker.acting_master, broker.zone_name) == ("c", True, "zone-1")
    member = broker.members[0]
    assert (member.timeout, member.filter_servers, member.owner) == (10, ("10.0.0.1:9999",), channel)
    assert member.networks == {"lan": "192.168.0.1:10911", "host": "localhost:10911"}


@pytest.mark.parametrize("timeout", ["0", "-1", str(-(2**63))])
def test_a_timeout_that_is_none_is_the_usual_one(timeout: str) -> None:
    desk = Desk()
    register(desk, registration(heartbeatTimeoutMillis=timeout))
    assert desk.state.routes.brokers["broker-a"].members[0].timeout == 120


def test_a_broker_without_a_body_has_no_topics() -> None:
    desk = Desk()
    assert (
        register(desk, MASTER._replace(body=b"")._replace(ext_fields={**MASTER.ext_fields, "bodyCrc32": "0"})).code == 0
    )
    assert (members(desk), desk.state.routes.topics) == ({0: "10.0.0.1:10911"}, {})


def test_a_slave_is_told_where_its_master_is() -> None:
    desk = Desk()
    assert register(desk, SLAVE).ext_fields == {}
    assert register(desk, MASTER).ext_fields == {}
    told = {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
    assert register(desk, SLAVE).ext_fields == told
    assert register(desk, SLAVE).ext_fields == told


def test_a_broker_is_told_the_ordered_topics() -> None:
    desk = Desk()
    desk.state.key_values.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    for _ in range(2):
        assert register(desk).body == b'{"table":{"T":"broker-a:4"}}'
    quiet = Desk(return_order_topic_config_to_broker=False)
    quiet.state.key_values.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert register(quiet).body == b""


def test_the_same_again_is_a_sign_of_life_and_is_not_read() -> None:
    desk = Desk()
    register(desk)
    before = desk.state.routes.topics["T"]
    desk.state.routes.wipe_write_permission("broker-a")
    desk.clock.now += 30
    other = caller()
    broker_requests.register_broker(desk.state, request(MASTER, other))
    member = desk.state.routes.brokers["broker-a"].members[0]
    assert (member.last_update, member.owner) == (1030, other)
    assert desk.state.routes.topics["T"] is before
    assert before["broker-a"].perm == 4


@pytest.mark.parametrize(
    "changed",
    [
        registration(topics=["U"], data_version=SECOND),
        registration(topics=["T", "U"]),
        registration(topics=["U"], version=V4_9_7 + 1, data_version=SECOND),
    ],
)
def test_anything_else_is_read(changed: Command) -> None:
    desk = Desk()
    register(desk)
    register(desk, changed)
    assert "U" in desk.state.routes.topics


@pytest.mark.parametrize(
    "fields",
    [
        {"haServerAddr": "10.0.0.9:1"},
        {"PMQ_ADDRS": "lan=192.168.0.1:10911"},
        {"heartbeatTimeoutMillis": "5000"},
        {"brokerAddr": "10.0.0.9:10911"},
        {"clusterName": "other"},
        {"enableActingMaster": "true"},
    ],
)
def test_a_header_that_says_something_else_is_read_too(fields: dict[str, Any]) -> None:
    desk = Desk()
    register(desk)
    before = repr(desk.state.routes.brokers)
    register(desk, registration(**fields))
    assert repr(desk.state.routes.brokers) != before


def test_the_same_bytes_are_read_again_for_another_version() -> None:
    desk = Desk()
    command = registration(form=Form.COMPRESSED)
    register(desk, command)
    assert "register body" in refused(desk, command._replace(version=V5_5_0))


def test_topics_that_are_no_longer_named_go_if_that_is_set() -> None:
    for setting, left in ((False, {"T", "U"}), (True, {"U"})):
        desk = Desk(delete_topic_with_broker_registration=setting)
        register(desk)
        register(desk, registration(topics=["U"], data_version=SECOND))
        assert desk.state.routes.topics.keys() == left


# --- 103: what is refused


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"brokerName": "a,b"}, "'a,b' is no name for a broker"),
        ({"brokerName": ""}, "'' is no name for a broker"),
        ({"brokerName": "x" * 100_000}, "is no name for a broker"),
        ({"clusterName": "a:b"}, "'a:b' is no name for a cluster"),
        ({"brokerAddr": "10.0.0.1"}, "'10.0.0.1' is no address"),
        ({"brokerAddr": "0:99999999999999999999"}, "is no address"),
        ({"brokerAddr": "x" * 100_000}, "is no address"),
        ({"haServerAddr": "nowhere"}, "'nowhere' is no address"),
        ({"brokerId": "-1"}, "the id of a broker is not negative"),
        ({"__ZONE_NAME": "a\nb"}, "is no name for a zone"),
        ({"PMQ_ADDRS": "lan"}, "'lan' is no NET=HOST:PORT"),
        ({"PMQ_ADDRS": "lan=h:1;" * 100_000}, "100000 further addresses; the limit is 64"),
        ({"PMQ_ADDRS": "l n=h:1"}, "is no NET=HOST:PORT"),
        ({"bodyCrc32": "1"}, "crc32 not match"),
        ({"bodyCrc32": "-1"}, "crc32 not match"),
    ],
)
def test_a_registration_that_cannot_be_is_refused_with_the_cause(fields: dict[str, Any], problem: str) -> None:
    remark = refused(Desk(), registration(**fields))
    assert problem in remark
    assert len(remark) < 300


TABLE = '{"topicConfigSerializeWrapper":{"topicConfigTable":%s}}'


@pytest.mark.parametrize(
    "body",
    [
        b"garbage",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"\x78",
        b"\x78\x9c garbage",
        zlib.compress(b""),
        zlib.compress(b"\0\0\0\2{}\x7f\xff\xff\xff"),
        zlib.compress(b"\xff\xff\xff\xff"),
        registration_body({"T": FOUR}, form=Form.COMPRESSED, version=V5_5_0),  # more than a 4.x broker would say
        registration_body({"T": FOUR}, form=Form.COMPRESSED)[:-5],
        TABLE.encode() % b"[]",
        TABLE.encode() % b'{"T":7}',
        TABLE.encode() % b'{"T":{"readQueueNums":-1}}',
        TABLE.encode() % b'{"T":{"readQueueNums":2147483648}}',
        TABLE.encode() % b'{"T":{"perm":1e400}}',
        TABLE.encode() % (b'{"%s":{"perm":-1}}' % (b"x" * 100_000)),
        TABLE.encode() % (b'{"%s":[]}' % (b"\\n" * 100_000)),
        TABLE.encode() % b'{7:{"perm":6}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":9223372036854775808}}}',
        b'{"filterServerList":{}}',
        b'{"filterServerList":["nowhere"]}',
        b'{"filterServerList":%s}' % json.dumps(["h:1"] * 65).encode(),
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_body_that_lies_is_refused_with_the_cause(body: bytes) -> None:
    command = MASTER._replace(body=body, ext_fields={**MASTER.ext_fields, "bodyCrc32": "0"})
    assert 0 < len(refused(Desk(), command)) < 400


def test_a_body_that_inflates_without_end_is_refused() -> None:
    body = zlib.compress(bytes(100_000_000), 9)
    command = MASTER._replace(body=body, ext_fields={**MASTER.ext_fields, "bodyCrc32": str(body_crc(body))})
    assert "16777216" in refused(Desk(), command)


def test_the_largest_numbers_do_no_harm() -> None:
    desk = Desk()
    most = DataVersion(counter=2**63 - 1, state_version=2**63 - 1, timestamp=-(2**63))
    queues = FOUR._replace(read_queue_nums=2**31 - 1, topic_sys_flag=2**31 - 1)
    command = registration(topics={"T": queues}, data_version=most, id=2**63 - 1, heartbeatTimeoutMillis=str(2**63 - 1))
    desk.register(command)
    desk.clock.now = 1e9
    assert desk.state.routes.expire(desk.clock.now) == []
    answer = desk.ask(asking(RequestCode.QUERY_DATA_VERSION, most.to_json(), **WHO))
    assert answer.ext_fields == {"changed": "false"}
    assert DataVersion.from_json(answer.body) == most
    cluster = desk.ask(asking(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert b'{"9223372036854775807":"10.0.0.1:10911"}' in bytes(cluster.body)


# --- 103: what is logged


def test_a_broker_is_logged_when_it_comes_and_when_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    desk = Desk()
    for _ in range(3):
        register(desk)
    broker_requests.unregister_broker(desk.state, request(asking(RequestCode.UNREGISTER_BROKER, **WHO)))
    assert messages(caplog) == [
        "broker broker-a/0 is registered at 10.0.0.1:10911",
        "broker broker-a/0 at 10.0.0.1:10911 is no longer registered: it unregistered",
    ]


def test_two_brokers_with_one_name_and_id_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    for _ in range(3):
        register(desk, MASTER)
        register(desk, registration(address="10.0.0.9:10911"))
    assert sorted(messages(caplog)) == [
        "broker broker-a/0 is at 10.0.0.1:10911 now, and was at 10.0.0.9:10911: are there two with this name and id?",
        "broker broker-a/0 is at 10.0.0.9:10911 now, and was at 10.0.0.1:10911: are there two with this name and id?",
    ]


def test_one_that_is_behind_is_logged_once_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    register(desk, registration(data_version=DataVersion(counter=1, state_version=2)))
    for _ in range(3):
        register(desk, registration(address="10.0.0.9:10911", data_version=DataVersion(counter=1, state_version=1)))
    assert members(desk) == {0: "10.0.0.1:10911"}
    assert messages(caplog) == ["broker broker-a/0 at 10.0.0.9:10911 is ignored: 10.0.0.1:10911 is ahead of it"]


def test_a_change_of_cluster_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    register(desk)
    register(desk, registration(cluster="d"))
    assert messages(caplog) == ["broker broker-a/0 is in cluster d now, and was in c"]


def test_topics_that_no_client_could_use_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    topics = [f"no name {number}" for number in range(20_000)] + ["T"]
    for version in (FIRST, SECOND):
        register(desk, registration(topics=topics, data_version=version))
    assert list(desk.state.routes.topics) == ["T"]
    (message,) = messages(caplog)
    assert message.startswith("broker broker-a/0 has 20000 topics that are left out, as no client could use their name")
    assert "'no name 0', 'no name 1'" in message
    assert len(message) < 500


def test_a_refusal_is_logged_once_for_each_cause_and_host(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    for port in range(1, 100):
        desk.ask(registration(brokerName="a,b"), caller("10.0.0.1", port))
    desk.ask(registration(brokerName="a,b"), caller("10.0.0.2"))
    desk.ask(registration(clusterName="a,b"), caller("10.0.0.1"))
    first, second, third = messages(caplog)
    assert first.startswith("refused what 10.0.0.1:1 registers: 'a,b' is no name for a broker")
    assert second.startswith("refused what 10.0.0.2:4321 registers: 'a,b' is no name for a broker")
    assert third.startswith("refused what 10.0.0.1:4321 registers: 'a,b' is no name for a cluster")


# --- 104, 322, 904: who is there


def test_a_broker_that_unregisters_is_gone_with_its_routes() -> None:
    desk = Desk()
    register(desk)
    for _ in range(2):
        answer = broker_requests.unregister_broker(desk.state, request(asking(RequestCode.UNREGISTER_BROKER, **WHO)))
        assert (answer.code, answer.body) == (0, b"")
    assert (members(desk), desk.state.routes.topics) == ({}, {})


def test_nobody_unregisters_another_address() -> None:
    desk = Desk()
    register(desk)
    who = WHO | {"brokerAddr": "10.0.0.9:10911"}
    broker_requests.unregister_broker(desk.state, request(asking(RequestCode.UNREGISTER_BROKER, **who)))
    assert members(desk) == {0: "10.0.0.1:10911"}


def compared(desk: Desk, version: DataVersion, **changes: str) -> tuple[str, bytes]:
    command = asking(RequestCode.QUERY_DATA_VERSION, version.to_json(), **(WHO | changes))
    answer = broker_requests.query_data_version(desk.state, request(command))
    assert answer.code == 0
    return answer.ext_fields["changed"], bytes(answer.body)


def test_a_broker_learns_whether_its_topics_are_known_as_they_are() -> None:
    desk = Desk()
    register(desk)
    known = FIRST.to_json()
    assert compared(desk, FIRST) == ("false", known)
    assert compared(desk, SECOND) == ("true", known)
    assert compared(desk, DataVersion(counter=1, timestamp=1000, state_version=0)) == ("false", known)
    assert compared(desk, DataVersion(counter=1, timestamp=1000, state_version=1)) == ("true", known)


def test_a_broker_that_is_not_registered_has_to_register() -> None:
    desk = Desk()
    assert compared(desk, FIRST) == ("true", b"")
    register(desk)
    assert compared(desk, FIRST, brokerAddr="10.0.0.9:10911") == ("true", b"")
    assert compared(desk, FIRST, brokerName="other") == ("true", b"")


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT])
def test_a_sign_of_life_keeps_a_broker(code: RequestCode) -> None:
    desk = Desk()
    register(desk)
    for _ in range(5):
        desk.clock.now += 119
        assert desk.ask(asking(code, b"{}", **WHO)).code == 0
        assert desk.state.routes.expire(desk.clock.now) == []
    desk.clock.now += 121
    broker_requests.forget(desk.state, desk.state.routes.expire(desk.clock.now), "it was silent")
    assert members(desk) == {}


def test_a_heartbeat_of_a_stranger_registers_nobody() -> None:
    desk = Desk()
    assert desk.ask(asking(RequestCode.BROKER_HEARTBEAT, **WHO)).code == 0
    assert members(desk) == {}


# --- 901: its own kind


def test_members_learn_of_each_other() -> None:
    desk = Desk()
    desk.register(MASTER, SLAVE)
    command = asking(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="c", brokerName="broker-a")
    answer = broker_requests.member_group(desk.state, request(command))
    assert json.loads(bytes(answer.body)) == {
        "brokerMemberGroup": {
            "brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"},
            "brokerName": "broker-a",
            "cluster": "c",
        }
    }


# --- 217: one topic


def topic_body(broker_name: str = "broker-a", **numbers: Any) -> bytes:
    queues = {"brokerName": broker_name, "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 1}
    return json.dumps({"queueDatas": [queues | numbers]}).encode()


def test_one_topic_is_registered_at_a_broker_that_is_there() -> None:
    desk = Desk()
    register(desk)
    command = asking(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic_body(), topic="new")
    assert broker_requests.register_topic(desk.state, request(command)).code == 0
    assert desk.state.routes.topics["new"] == {"broker-a": (3, 2, 6, 1)}


@pytest.mark.parametrize(
    ("topic", "body", "problem"),
    [
        ("new", topic_body("stranger"), "no broker 'stranger' is registered"),
        ("new", topic_body("x" * 100_000), "no broker 'xxx"),
        ("a,b", topic_body(), "'a,b' is no name for a topic"),
        ("new", topic_body(readQueueNums=-1), "from 0 to 2147483647, not (-1, 2, 6, 1)"),
        ("new", topic_body(perm=2**31), "from 0 to 2147483647"),
        ("new", topic_body(writeQueueNums=2**63), "64-bit integer"),
        ("new", b"", "unreadable JSON"),
        ("new", b'{"queueDatas":[{}]}', "brokerName: missing"),
    ],
)
def test_one_topic_that_cannot_be_is_refused_with_the_cause(topic: str, body: bytes, problem: str) -> None:
    desk = Desk()
    register(desk)
    answer = desk.ask(asking(RequestCode.REGISTER_TOPIC_IN_NAMESRV, body, topic=topic))
    assert answer.code == 1
    assert problem in (answer.remark or "")
    assert len(answer.remark or "") < 300
    assert desk.state.routes.topics.keys() == {"T"}


# --- who leads


def test_a_change_of_the_leader_is_passed_on() -> None:
    desk = Desk()
    desk.register(SLAVE, MASTER)
    one, two = "10.0.0.1:10911", "10.0.0.2:10911"
    came = LeaderChange("broker-a", 0, one, None, "10.0.0.1:10912", (two,))
    assert desk.changes == [came]
    desk.ask(asking(RequestCode.UNREGISTER_BROKER, **WHO))
    assert desk.changes == [came, LeaderChange("broker-a", 1, two, one, None, (two,))]
