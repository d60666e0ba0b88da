"""What real brokers, clients and tools asked of a real NameServer, asked of ours: the answers are equal field by field.

An exchange was captured in the midst of others. Here each is replayed after what its answer presupposes: mostly what
the broker of that release had registered last, sometimes nothing, sometimes something that was not captured itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest
from fixtures import captured_frames
from registering import Desk, asking, registration

from pocketmq.namesrv.settings import WITHOUT_EFFECT
from pocketmq.protocol.bodies import RegisteredTopics, parse_config_text
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fastjson import loads
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.protocol.requests import REQUESTS, Role

_R = RequestCode

# The last registration of each release's broker, and the order of a topic that an operator had set before it.
LAST_REGISTRATION = {"5.5.0": 260, "4.9.7": 568}
ORDER_SET = {"5.5.0": 249, "4.9.7": 555}

# A compressed registration of 5.5.0 says in its header that it is not, and its own NameServer cannot read it.
REFUSED_BY_ITS_OWN = 750

LISTS = (_R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _R.GET_TOPICS_BY_CLUSTER)
PERMISSIONS = (_R.WIPE_WRITE_PERM_OF_BROKER, _R.ADD_WRITE_PERM_OF_BROKER)


class Exchange(NamedTuple):
    """A request, and what a real NameServer answered."""

    number: int
    client: str
    server: str
    request: Command
    answer: Command

    def __str__(self) -> str:
        return f"{self.number}-{_R(self.request.code).name}-{self.client}-{self.server}"


@cache
def exchanges() -> dict[int, Exchange]:
    """All that were answered, by number."""
    requests: dict[int, Command] = {}
    found: dict[int, Exchange] = {}
    for frame in captured_frames():
        if frame.request_code in REQUESTS and Role.NAMESRV in REQUESTS[frame.request_code].served_by:
            (command,) = FrameDecoder().feed(frame.frame)
            if frame.is_response:
                request = requests[frame.exchange]
                found[frame.exchange] = Exchange(frame.exchange, frame.client, frame.server, request, command)
            else:
                requests[frame.exchange] = command
    return found


def some(*codes: RequestCode) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("exchange", [e for e in exchanges().values() if e.request.code in codes], ids=str)


def after(*numbers: int) -> Desk:
    """A NameServer that has seen these exchanges."""
    desk = Desk()
    for number in numbers:
        assert desk.ask(exchanges()[number].request).code == 0
    return desk


def registered(server: str) -> Desk:
    """A NameServer at which the broker of a release has registered all its topics."""
    return after(LAST_REGISTRATION[server])


def topics_of(server: str) -> set[str]:
    command = exchanges()[LAST_REGISTRATION[server]].request
    return {*RegisteredTopics.decode(command.body, command.version).topics}


def answer_to(exchange: Exchange, desk: Desk) -> Command:
    """Our answer, which has to have the code and the fields of theirs; a refusal also says why."""
    answer = desk.ask(exchange.request)
    assert (answer.code, answer.ext_fields) == (exchange.answer.code, exchange.answer.ext_fields)
    assert bool(answer.remark) == (answer.code != 0)
    assert answer.encoding == exchange.request.encoding
    return answer


def value(command: Command) -> Any:
    """What a body says, however its integer keys are written."""
    return _plain(loads(command.body)) if command.body else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def ours_alone(value: Any, names: set[str]) -> Any:
    """A value without the members that only we write."""
    if isinstance(value, dict):
        return {key: ours_alone(item, names) for key, item in value.items() if key not in names}
    return [ours_alone(item, names) for item in value] if isinstance(value, list) else value


def members_unknown_to(server: str) -> set[str]:
    """What we write for others: Go's name of a flag, and for 5.x whether slaves stand in."""
    return {"topicSynFlag"} if server == "5.5.0" else {"topicSynFlag", "enableActingMaster"}


def test_no_exchange_is_left_out() -> None:
    replayed = [exchange for test in REPLAYED for mark in test.pytestmark for exchange in mark.args[1]]
    assert sorted(map(str, replayed)) == sorted(map(str, exchanges().values()))


# --- brokers


@some(_R.REGISTER_BROKER)
def test_a_broker_registers(exchange: Exchange) -> None:
    desk = after(ORDER_SET[exchange.server]) if exchange.answer.body else Desk()
    if exchange.number == REFUSED_BY_ITS_OWN:
        answer = desk.ask(exchange.request)
        assert (exchange.answer.code, answer.code) == (1, 0)
    else:
        answer = answer_to(exchange, desk)
    assert value(answer) == value(exchange.answer)
    command = exchange.request
    topics = RegisteredTopics.decode(command.body, command.version).topics
    assert desk.state.routes.topics == {topic: {command.ext_fields["brokerName"]: topics[topic]} for topic in topics}


@some(_R.UNREGISTER_BROKER)
def test_a_broker_unregisters(exchange: Exchange) -> None:
    desk = after(756)
    answer_to(exchange, desk)
    assert (desk.state.routes.brokers, desk.state.routes.topics) == ({}, {})


@some(_R.QUERY_DATA_VERSION)
def test_a_broker_asks_whether_its_topics_are_known(exchange: Exchange) -> None:
    """Those with a version in the answer followed on a registration, the others were of a broker that was unknown."""
    registrations = {"4.9.7": 748, "5.5.0": 756}
    desk = after(registrations[exchange.server]) if exchange.answer.body else Desk()
    assert value(answer_to(exchange, desk)) == value(exchange.answer)


@some(_R.GET_BROKER_MEMBER_GROUP)
def test_a_broker_asks_for_its_siblings(exchange: Exchange) -> None:
    assert exchange.answer.remark == "not set any response code"  # and nobody minds
    assert value(answer_to(exchange, registered(exchange.server))) == value(exchange.answer)


# --- routes


@some(_R.GET_ROUTEINFO_BY_TOPIC)
def test_a_route_is_asked_for(exchange: Exchange) -> None:
    topic = exchange.request.ext_fields.get("topic")
    if exchange.answer.code == 0 or topic not in topics_of(exchange.server):
        desk = registered(exchange.server)
    else:
        desk = Desk()  # the broker made the topic later
    if b'"perm":5' in bytes(exchange.answer.body):  # an operator had taken the permission to write
        desk.ask(asking(_R.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-w"))
    answer = answer_to(exchange, desk)
    assert ours_alone(value(answer), members_unknown_to(exchange.server)) == value(exchange.answer)
    assert (b"{0:" in bytes(answer.body)) == (b"{0:" in bytes(exchange.answer.body))
    assert b" " not in bytes(answer.body)


@some(_R.GET_BROKER_CLUSTER_INFO)
def test_the_cluster_is_asked_for(exchange: Exchange) -> None:
    answer = answer_to(exchange, registered(exchange.server))
    assert ours_alone(value(answer), members_unknown_to(exchange.server)) == value(exchange.answer)


@some(*LISTS)
def test_topics_are_listed(exchange: Exchange) -> None:
    listed = value(exchange.answer)["topicList"]
    if set(listed) == topics_of(exchange.server):
        desk = registered(exchange.server)
    else:  # the broker had other topics at that moment
        desk = Desk()
        desk.register(registration("broker-w", topics=listed, cluster="DefaultCluster"))
    ours = value(answer_to(exchange, desk))["topicList"]
    assert sorted(ours) == sorted(listed)


@some(_R.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def test_names_of_brokers_and_clusters_are_listed(exchange: Exchange) -> None:
    assert value(answer_to(exchange, registered(exchange.server))) == value(exchange.answer)


@some(_R.GET_UNIT_TOPIC_LIST)
def test_topics_of_units_are_listed(exchange: Exchange) -> None:
    assert value(answer_to(exchange, registered(exchange.server))) == value(exchange.answer)


# --- operators


@some(*PERMISSIONS)
def test_the_permission_to_write_is_taken_and_given(exchange: Exchange) -> None:
    (count,) = exchange.answer.ext_fields.values()
    desk = Desk()
    desk.register(registration("broker-w", topics=[f"T{number}" for number in range(int(count))]))
    answer_to(exchange, desk)
    perm = 4 if exchange.request.code == _R.WIPE_WRITE_PERM_OF_BROKER else 6
    assert {queues["broker-w"].perm for queues in desk.state.routes.topics.values()} == {perm}


@some(_R.DELETE_TOPIC_IN_NAMESRV)
def test_a_topic_is_deleted(exchange: Exchange) -> None:
    topic = exchange.request.ext_fields["topic"]
    desk = Desk()
    desk.register(registration("broker-w", topics=[topic, "T"], cluster="DefaultCluster"))
    answer_to(exchange, desk)
    assert [*desk.state.routes.topics] == ["T"]


@some(_R.PUT_KV_CONFIG, _R.GET_KV_CONFIG, _R.DELETE_KV_CONFIG, _R.GET_KVLIST_BY_NAMESPACE)
def test_key_values_are_set_and_asked_for(exchange: Exchange) -> None:
    desk = Desk()
    assert value(answer_to(exchange, desk)) == value(exchange.answer)
    if exchange.request.code == _R.PUT_KV_CONFIG:
        fields = exchange.request.ext_fields
        assert desk.state.key_values.get(fields["namespace"], fields["key"]) == fields["value"]


@some(_R.UPDATE_NAMESRV_CONFIG)
def test_settings_are_changed(exchange: Exchange) -> None:
    desk = Desk(order_message_enable=True)
    answer_to(exchange, desk)
    assert not desk.state.settings.order_message_enable


@some(_R.GET_NAMESRV_CONFIG)
def test_settings_are_asked_for(exchange: Exchange) -> None:
    """Theirs have paths and ports of the machine that they were captured on, so it is the names that are compared."""
    ours, theirs = parse_config_text(answer_to(exchange, Desk()).body), parse_config_text(exchange.answer.body)
    assert theirs.keys() - WITHOUT_EFFECT <= ours.keys()
    assert {ours[name] for name in theirs.keys() & ours.keys() if name.startswith("enable")} <= {"true"}


REPLAYED = [
    test for name, test in sorted(globals().items()) if name.startswith("test_") and hasattr(test, "pytestmark")
]
