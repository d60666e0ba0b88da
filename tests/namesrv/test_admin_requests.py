"""What operators ask, by plain calls of the handlers."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from registering import Desk, asking, caller, registration, request

from pocketmq.namesrv import admin_requests, key_values
from pocketmq.namesrv.networks import Networks
from pocketmq.protocol.bodies import parse_config_text
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.remoting.errors import Refusal
from pocketmq.service.settings import to_texts

PUT, GET, DELETE = RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG, RequestCode.DELETE_KV_CONFIG
NAMESPACE = RequestCode.GET_KVLIST_BY_NAMESPACE
CHANGE, SETTINGS = RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.register(registration(topics=["T", "U"]), registration("broker-b", "10.0.0.2:10911", cluster="d"))
    return made


def permissions(desk: Desk) -> dict[tuple[str, str], int]:
    topics = desk.state.routes.topics
    return {(topic, name): queues.perm for topic, brokers in topics.items() for name, queues in brokers.items()}


# --- 205, 327: permissions


def test_the_permission_to_write_is_taken_and_given_back(desk: Desk) -> None:
    wipe = request(asking(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
    add = request(asking(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
    assert admin_requests.wipe_write_permission(desk.state, wipe).ext_fields == {"wipeTopicCount": "2"}
    assert permissions(desk) == {("T", "broker-a"): 4, ("U", "broker-a"): 4, ("T", "broker-b"): 6}
    desk.register(registration(topics=["T", "U"]))  # the same again, as every 30 s
    assert set(permissions(desk).values()) == {4, 6}
    assert admin_requests.add_write_permission(desk.state, add).ext_fields == {"addTopicCount": "2"}
    assert set(permissions(desk).values()) == {6}


def test_a_stranger_has_no_permissions(desk: Desk) -> None:
    before = permissions(desk)
    wipe = request(asking(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="x" * 10_000))
    add = request(asking(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName=""))
    assert admin_requests.wipe_write_permission(desk.state, wipe).ext_fields == {"wipeTopicCount": "0"}
    assert admin_requests.add_write_permission(desk.state, add).ext_fields == {"addTopicCount": "0"}
    assert permissions(desk) == before


# --- 216: deleting topics


def delete(desk: Desk, **fields: Any) -> Command:
    return admin_requests.delete_topic(desk.state, request(asking(RequestCode.DELETE_TOPIC_IN_NAMESRV, **fields)))


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(desk: Desk) -> None:
    assert delete(desk, topic="T", clusterName="d").code == 0
    assert set(permissions(desk)) == {("T", "broker-a"), ("U", "broker-a")}
    assert delete(desk, topic="T").code == 0
    assert set(permissions(desk)) == {("U", "broker-a")}


def test_nothing_is_deleted_that_is_not_there(desk: Desk) -> None:
    before = permissions(desk)
    assert delete(desk, topic="V").code == delete(desk, topic="T", clusterName="e").code == 0
    assert permissions(desk) == before


def test_a_deleted_topic_comes_back_with_a_broker_that_still_has_it(desk: Desk) -> None:
    delete(desk, topic="T")
    desk.register(registration(topics=["T", "U"]))
    assert ("T", "broker-a") in permissions(desk)


# --- what is logged of a peer's text


@pytest.mark.parametrize(
    ("code", "fields", "start"),
    [
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "x" * 9999}, "10.0.0.7:1 took the permission to write"),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "x" * 9999}, "10.0.0.7:1 gave the permission to write"),
        (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "x" * 9999, "clusterName": "y" * 9999}, "10.0.0.7:1 deleted"),
    ],
)
def test_a_change_is_logged_with_who_made_it_and_is_no_long_line(
    desk: Desk, caplog: pytest.LogCaptureFixture, code: RequestCode, fields: dict[str, Any], start: str
) -> None:
    caplog.set_level(logging.INFO)
    desk.ask(asking(code, **fields), caller("10.0.0.7", 1))
    (record,) = caplog.records
    assert record.getMessage().startswith(start)
    assert len(record.getMessage()) < 800


# --- 100, 101, 102, 219: key-values


def refusal(desk: Desk, code: RequestCode, **fields: Any) -> tuple[int, str | None]:
    answer = desk.ask(asking(code, **fields))
    assert answer.body == b""
    return answer.code, answer.remark


def test_a_value_is_put_found_and_deleted(desk: Desk) -> None:
    assert desk.ask(asking(PUT, namespace="n", key="k", value="v=1\n€")).code == 0
    assert desk.ask(asking(GET, namespace="n", key="k")).ext_fields == {"value": "v=1\n€"}
    assert desk.ask(asking(NAMESPACE, namespace="n")).body == '{"table":{"k":"v=1\\n€"}}'.encode()
    assert desk.ask(asking(DELETE, namespace="n", key="k")).code == 0
    missing = (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: n Key: k")
    assert refusal(desk, GET, namespace="n", key="k") == missing
    assert desk.ask(asking(NAMESPACE, namespace="n")).body == b'{"table":{}}'


def test_what_was_never_put_is_not_found(desk: Desk) -> None:
    assert refusal(desk, GET, namespace="n", key="k") == (22, "No config item, Namespace: n Key: k")
    assert refusal(desk, NAMESPACE, namespace="n") == (22, "No config item, Namespace: n")
    assert desk.ask(asking(DELETE, namespace="n", key="k")).code == 0
    code, remark = refusal(desk, GET, namespace="x" * 100_000, key="y" * 100_000)
    assert (code, len(remark or "") < 700) == (22, True)


def test_more_than_there_is_room_for_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "MAX_SIZE", 1000)
    assert desk.ask(asking(PUT, namespace="n", key="k", value="v" * 500)).code == 0
    remark = "the key-value configuration is full: 1000 characters are kept"
    assert refusal(desk, PUT, namespace="n", key="l", value="v" * 500) == (1, remark)
    assert desk.ask(asking(NAMESPACE, namespace="n")).body == b'{"table":{"k":"%s"}}' % (b"v" * 500)


# --- 319: the settings


def test_the_settings_are_lines_in_the_order_of_their_names() -> None:
    desk = Desk(networks=Networks.parse("lan=10.0.0.0/8,outside"))
    body = bytes(admin_requests.get_settings(desk.state, request(asking(SETTINGS))).body)
    assert parse_config_text(body) == to_texts(desk.state.settings)
    assert body.decode().splitlines() == sorted(body.decode().splitlines())
    assert b"\nnetworks=lan=10.0.0.0/8,outside\n" in body


# --- 318: changing them


def change(desk: Desk, text: str) -> tuple[int, str | None]:
    answer = desk.ask(asking(CHANGE, text.encode()))
    return answer.code, answer.remark


def test_a_setting_is_changed_and_has_its_effect_at_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert change(desk, "enableTopicList=false\nscanNotActiveBrokerInterval=5000\n") == (0, None)
    assert desk.state.settings.scan_not_active_broker_interval == 5000
    assert desk.ask(asking(RequestCode.GET_UNIT_TOPIC_LIST)).code == 1
    assert change(desk, "enableTopicList=true") == (0, None)
    assert desk.ask(asking(RequestCode.GET_UNIT_TOPIC_LIST)).code == 0
    (first, _) = caplog.records
    texts = "{'enableTopicList': 'false', 'scanNotActiveBrokerInterval': '5000'}"
    assert first.getMessage() == f"127.0.0.1:4321 changed settings: {texts}"


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n"])
def test_nothing_is_changed_by_nothing(desk: Desk, text: str) -> None:
    before = desk.state.settings
    assert change(desk, text) == (0, None)
    assert desk.state.settings == before


NOT_NOW = "not to be changed while the NameServer runs: "


@pytest.mark.parametrize(
    ("text", "code", "remark"),
    [
        ("listenPort=1", 16, f"{NOT_NOW}listenPort"),
        ("listenPort=nonsense", 16, f"{NOT_NOW}listenPort"),
        ("kvConfigPath=/etc/passwd\nbindAddress=0.0.0.0", 16, f"{NOT_NOW}bindAddress, kvConfigPath"),
        ("networks=lan=0.0.0.0/0", 16, f"{NOT_NOW}networks"),
        ("configBlackList=", 16, f"{NOT_NOW}configBlackList"),
        ("enableTopicList=false\nlistenPort=1", 16, f"{NOT_NOW}listenPort"),
        ("enableTopicList=perhaps", 1, "enableTopicList: 'perhaps' is neither true nor false"),
        ("scanNotActiveBrokerInterval=0", 1, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ("scanNotActiveBrokerInterval=-1", 1, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ("scanNotActiveBrokerInterval=" + "9" * 99, 1, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ("waitSecondsForService=1e9", 1, "waitSecondsForService: '1e9' is no whole number"),
        ("enableTopicLists=false", 1, "there is no setting 'enableTopicLists'; did you mean 'enableTopicList'?"),
        (
            "enableTopicList=false\nscanNotActiveBrokerInterval=0",
            1,
            "scanNotActiveBrokerInterval is from 1 to 3600000",
        ),
    ],
)
def test_a_change_is_made_as_a_whole_or_refused_with_the_cause(desk: Desk, text: str, code: int, remark: str) -> None:
    before = desk.state.settings
    assert change(desk, text) == (code, remark)
    assert desk.state.settings == before


def test_what_was_put_on_the_black_list_is_not_changed() -> None:
    assert change(Desk(config_black_list="enableTopicList"), "enableTopicList=false")[0] == 16


def test_a_wait_that_nobody_lives_to_see_can_be_ended(desk: Desk) -> None:
    assert change(desk, "needWaitForService=true\nwaitSecondsForService=" + "9" * 100) == (0, None)
    answer = desk.ask(asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))
    assert (answer.code, len(answer.remark or "") < 300) == (1, True)
    assert change(desk, "waitSecondsForService=0") == (0, None)
    assert desk.ask(asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")).code == 0


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "\n".join(f"unknown{number}=1" for number in range(50_000)),
        "enableTopicList=" + "x" * 1_000_000,
        "\0" * 1_000_000,
        "\n".join(f"{name * 99}=1\n{name}={'x' * 1000}" for name in sorted(Desk().state.settings.changeable)),
    ],
)
def test_little_is_answered_and_logged_of_a_long_text(desk: Desk, caplog: pytest.LogCaptureFixture, text: str) -> None:
    caplog.set_level(logging.INFO)
    code, remark = change(desk, text)
    assert code == 1
    assert 0 < len(remark or "") <= 2000
    assert caplog.records == []


def test_a_megabyte_of_networks_is_refused_unread(desk: Desk) -> None:
    rules = ",".join(["10.0.0.0/8"] * 90_000)
    command = request(asking(CHANGE, f"networks=lan={rules}".encode()))
    began = time.process_time()
    with pytest.raises(Refusal, match="networks"):
        admin_requests.change_settings(desk.state, command)
    assert time.process_time() - began < 0.2


def test_a_long_change_is_a_short_line(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    everything = to_texts(desk.state.settings)
    lines = [f"{name}={everything[name]}" for name in desk.state.settings.changeable]
    assert change(desk, "\n".join([*lines, f"waitSecondsForService={'0' * 90}7"])) == (0, None)
    (record,) = caplog.records
    assert len(record.getMessage()) < 350
