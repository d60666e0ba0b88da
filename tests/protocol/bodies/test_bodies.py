"""All bodies at once: their members are those of RocketMQ, none is left over, and every value comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import IntEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.protocol import bodies
from pocketmq.protocol.bodies import Body, MessageQueue
from pocketmq.protocol.requests import REQUESTS

# The members of every body, under the names that they have on the wire.
MEMBERS = {
    "BatchAck": "c t r so q rq pt it b",
    "BatchAckMessageRequest": "brokerName acks",
    "BrokerData": "cluster brokerName brokerAddrs enableActingMaster zoneName",
    "BrokerMemberGroup": "cluster brokerName brokerAddrs",
    "BrokerMemberGroupResponse": "brokerMemberGroup",
    "BrokerStatsData": "statsMinute statsHour statsDay",
    "BrokerStatsItem": "sum tps avgpt",
    "CheckClientRequest": "clientId group namespace subscriptionData",
    "ClusterInfo": "brokerAddrTable clusterAddrTable",
    "Connection": "clientId clientAddr language version",
    "ConsumeMessageDirectlyResult": "order autoCommit consumeResult remark spentTimeMills",
    "ConsumeQueueData": "physicOffset physicSize tagsCode extendDataJson bitMap eval msg",
    "ConsumeStats": "consumeTps offsetTable",
    "ConsumeStatsList": "brokerAddr consumeStatsList totalDiff totalInflightDiff",
    "ConsumeStatus": "pullRT pullTPS consumeRT consumeOKTPS consumeFailedTPS consumeFailedMsgs",
    "ConsumeTimeSpan": "consumeTimeSpanSet",
    "ConsumerConnection": "connectionSet subscriptionTable consumeType messageModel consumeFromWhere",
    "ConsumerData": "groupName consumeType messageModel consumeFromWhere subscriptionDataSet unitMode",
    "ConsumerIdList": "consumerIdList",
    "ConsumerOffsetTable": "offsetTable dataVersion groupTopicMap pullOffsetTable",
    "ConsumerRunningInfo": "properties subscriptionSet mqTable mqPopTable statusTable userConsumerInfo jstack",
    "CorrectionOffsets": "correctionOffsets",
    "DataVersion": "counter stateVersion timestamp",
    "DelayOffsetTable": "offsetTable dataVersion",
    "GetConsumerStatusBody": "messageQueueTable consumerTable",
    "GroupList": "groupList",
    "HeartbeatData": "clientID consumerDataSet heartbeatFingerprint producerDataSet withoutSub",
    "KVTable": "table",
    "LockBatchRequest": "clientId consumerGroup mqSet onlyThisBroker",
    "LockBatchResponse": "lockOKMQSet",
    "MessageQueueAssignment": "messageQueue mode attachments",
    "MessageRequestModeTable": "messageRequestModeMap",
    "OffsetWrapper": "brokerOffset consumerOffset pullOffset lastTimestamp",
    "ProcessQueueInfo": "commitOffset cachedMsgMinOffset cachedMsgMaxOffset cachedMsgCount cachedMsgSizeInMiB"
    " transactionMsgMinOffset transactionMsgMaxOffset transactionMsgCount locked tryUnlockTimes lastLockTimestamp"
    " droped dropped lastPullTimestamp lastConsumeTimestamp",
    "ProducerConnection": "connectionSet",
    "ProducerData": "groupName",
    "ProducerInfo": "clientId remoteIP language version lastUpdateTimestamp",
    "ProducerTable": "data",
    "QueryAssignmentRequest": "topic consumerGroup clientId strategyName messageModel",
    "QueryAssignmentResponse": "messageQueueAssignments",
    "QueryConsumeQueueResponse": "subscriptionData filterData queueData maxQueueIndex minQueueIndex",
    "QuerySubscriptionResponse": "group topic subscriptionData",
    "QueueData": "brokerName readQueueNums writeQueueNums perm topicSysFlag topicSynFlag",
    "QueueTimeSpan": "messageQueue minTimeStamp maxTimeStamp consumeTimeStamp delayTime"
    " minTimeStampStr maxTimeStampStr consumeTimeStampStr",
    "RegisterBrokerBody": "filterServerList topicConfigSerializeWrapper",
    "ResetOffsetBody": "offsetTable",
    "SetMessageRequestModeRequest": "topic consumerGroup mode popShareQueueNum",
    "SubscriptionData": "topic subString tagsSet codeSet subVersion expressionType classFilterMode",
    "SubscriptionGroupConfig": "groupName consumeEnable consumeFromMinEnable consumeBroadcastEnable"
    " consumeMessageOrderly retryQueueNums retryMaxTimes brokerId whichBrokerWhenConsumeSlowly"
    " notifyConsumerIdsChangedEnable groupSysFlag consumeTimeoutMinute groupRetryPolicy subscriptionDataSet attributes",
    "SubscriptionGroupList": "groupConfigList",
    "SubscriptionGroupWrapper": "subscriptionGroupTable forbiddenTable dataVersion",
    "TopicConfig": "topicName readQueueNums writeQueueNums perm topicFilterType topicSysFlag order attributes"
    " mappingDetail",
    "TopicConfigList": "topicConfigList",
    "TopicConfigSerializeWrapper": "topicConfigTable dataVersion mappingDataVersion topicQueueMappingDetailMap"
    " topicQueueMappingInfoMap",
    "TopicList": "topicList brokerAddr",
    "TopicOffset": "minOffset maxOffset lastUpdateTimestamp",
    "TopicRouteData": "queueDatas brokerDatas filterServerTable orderTopicConf topicQueueMappingByBroker",
    "TopicStatsTable": "offsetTable topicPutTps",
}

EXPORTED = {name: getattr(bodies, name) for name in bodies.__all__}
BODIES: dict[str, type[Body]] = {
    name: kind
    for name, kind in EXPORTED.items()
    if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body
}
each_body = pytest.mark.parametrize("kind", BODIES.values(), ids=BODIES)


def hints_of(kind: type[Body]) -> dict[str, Any]:
    """The annotation of every member, without its marks."""
    hints = get_type_hints(kind)
    return {member.name: hints[member.name] for member in fields(kind) if member.name != "extra"}


def test_every_body_has_exactly_the_members_it_has_in_rocketmq() -> None:
    # Every member is read; those that are set are written. What is read and never written would show here too.
    written = {name: {entry[0] for entry in kind._codec.writers} for name, kind in BODIES.items()}
    assert written == {name: {*members.split()} for name, members in MEMBERS.items()}
    assert {name: {*kind._codec.readers} for name, kind in BODIES.items()} == written


def test_every_body_is_exported() -> None:
    ours = {kind.__name__ for kind in Body.__subclasses__() if kind.__module__.startswith(bodies.__name__)}
    assert {name for name in ours if not name.startswith("_")} == {*BODIES}


# --- the table of requests


def bodies_in(hint: Any) -> Iterator[type[Body]]:
    """The bodies inside an annotation, and inside those."""
    if isinstance(hint, type) and issubclass(hint, Body):
        yield hint
        for inner in hints_of(hint).values():
            yield from bodies_in(inner)
    for argument in get_args(hint):
        yield from bodies_in(argument)


def test_every_body_is_part_of_some_request_or_response() -> None:
    used = {
        kind
        for row in REQUESTS.values()
        for body in (row.request_body, row.response_body)
        if isinstance(body, type)
        for kind in bodies_in(body)
    }
    assert used == {*BODIES.values()}


# --- every value

# A map with "$ref" as its only key is taken for a reference.
texts = st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda text: text != "$ref")
int64s = st.integers(-(2**63), 2**63 - 1)
# What `Any` may stand for. A null says nothing and is not kept.
anything = st.recursive(
    st.booleans() | int64s | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: int64s,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    Any: anything,
    NoneType: st.none(),
    MessageQueue: st.builds(MessageQueue, texts, texts, int64s),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotated type."""
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, Body):
        unknown = st.dictionaries(texts.map("x-{}".format), anything, max_size=1)
        return st.builds(hint, **{name: values_of(inner) for name, inner in hints_of(hint).items()}, extra=unknown)
    arguments, origin = get_args(hint), get_origin(hint)
    if origin in (tuple, frozenset):
        return st.lists(values_of(arguments[0]), max_size=2).map(origin)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    return st.one_of([values_of(argument) for argument in arguments])


@each_body
@given(data=st.data(), bare=st.booleans())
@settings(max_examples=10, deadline=None)
def test_every_value_comes_back(kind: type[Body], data: st.DataObject, bare: bool) -> None:
    value = data.draw(values_of(kind))
    document = value.to_json(bare_integer_keys=bare)
    assert kind.from_json(document) == value
    assert kind.from_json(document + b"\n") == value
    assert repr(value).startswith(f"{kind.__name__}(")


@each_body
def test_members_are_written_in_the_order_of_their_names(kind: type[Body]) -> None:
    names = [name for name, _, _ in kind._codec.writers]
    assert names == sorted(names)


@each_body
def test_a_body_is_an_object(kind: type[Body]) -> None:
    for document in (b"[]", b"1", b'"text"', b"null", b"true"):
        with pytest.raises(bodies.BodyError, match="expected an object, got"):
            kind.from_json(document)


# --- enumerations


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (bodies.ConsumeType, "CONSUME_ACTIVELY CONSUME_PASSIVELY CONSUME_POP"),
        (bodies.MessageModel, "BROADCASTING CLUSTERING"),
        (
            bodies.ConsumeFromWhere,
            "CONSUME_FROM_LAST_OFFSET CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST CONSUME_FROM_MIN_OFFSET"
            " CONSUME_FROM_MAX_OFFSET CONSUME_FROM_FIRST_OFFSET CONSUME_FROM_TIMESTAMP",
        ),
        (bodies.ConsumeResult, "CR_SUCCESS CR_LATER CR_ROLLBACK CR_COMMIT CR_THROW_EXCEPTION CR_RETURN_NULL"),
        (bodies.MessageRequestMode, "PULL POP"),
        (bodies.TopicFilterType, "SINGLE_TAG MULTI_TAG"),
    ],
)
def test_enumerations_have_the_names_and_ordinals_of_java(kind: type[IntEnum], names: str) -> None:
    assert [(member.name, member.value) for member in kind] == [
        (name, ordinal) for ordinal, name in enumerate(names.split())
    ]
