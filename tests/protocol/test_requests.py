"""The table of requests against what RocketMQ's protocol says, written down here a second time and independently."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fields import Field, Kind, codec, decode_header, encode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.headers import NoFields, admin, clients, consume, namesrv, pop, produce
from pocketmq.protocol.requests import REQUESTS, Content, HeaderType, RequestSpec, Role, Users

# A field is its name on the wire, its type (`:i` int32, `:l` int64, `:b` boolean, text without), `!` if it is
# required and `=` in front of what it is when absent.
SEND_V1 = """
    producerGroup! topic! defaultTopic! defaultTopicQueueNums:i! queueId:i! sysFlag:i! bornTimestamp:l! flag:i!
    properties reconsumeTimes:i=0 unitMode:b=false maxReconsumeTimes:i batch:b=false bname
"""
SEND_V2 = "a! b! c! d:i! e:i! f:i! g:l! h:i! i j:i=0 k:b=false l:i m:b=false n"
SENT = """
    msgId! queueId:i! queueOffset:l! transactionId batchUniqId recallHandle MSG_REGION TRACE_ON PMQ_DURABLE:i
"""
REPLIED = "msgId queueId:i queueOffset:l transactionId MSG_REGION TRACE_ON"
PULL = """
    consumerGroup! topic! queueId:i! queueOffset:l! maxMsgNums:i! sysFlag:i! commitOffset:l! suspendTimeoutMillis:l!
    subVersion:l! subscription expressionType maxMsgBytes:i requestSource:i proxyFrowardClientId PMQ_MAX_BYTES:i
"""
PULLED = """
    suggestWhichBrokerId:l! nextBeginOffset:l! minOffset:l! maxOffset:l!
    offsetDelta:l topicSysFlag:i groupSysFlag:i forbiddenType:i
"""
POPPED = """
    popTime:l! invisibleTime:l! reviveQid:i! restNum:l! startOffsetInfo msgOffsetInfo orderCountInfo
"""
BROKER = "brokerName! brokerAddr! clusterName! brokerId:l!"
STATUS = "topic! group! clientAddr"


class Row(NamedTuple):
    """What one request is."""

    name: str
    servers: str  # NS NameServer, BR broker, CL client, CO controller
    users: str
    request: str = ""
    response: str = ""


EXPECTED = {
    10: Row("SEND_MESSAGE", "BR", "JG", SEND_V1, SENT),
    11: Row("PULL_MESSAGE", "BR", "JGNCA", PULL, PULLED),
    12: Row(
        "QUERY_MESSAGE",
        "BR",
        "JA",
        "topic! key! maxNum:i! beginTimestamp:l! endTimestamp:l! _UNIQUE_KEY_QUERY:b indexType lastKey",
        "indexLastUpdateTimestamp:l! indexLastUpdatePhyoffset:l!",
    ),
    14: Row("QUERY_CONSUMER_OFFSET", "BR", "JGNC", "consumerGroup! topic! queueId:i! setZeroIfNotFound:b", "offset:l!"),
    15: Row("UPDATE_CONSUMER_OFFSET", "BR", "JGNCA", "consumerGroup! topic! queueId:i! commitOffset:l!"),
    17: Row(
        "UPDATE_AND_CREATE_TOPIC",
        "BR",
        "JGCA",
        "topic! defaultTopic! readQueueNums:i! writeQueueNums:i! perm:i! topicFilterType! topicSysFlag:i=0 "
        "order:b=false attributes force:b",
    ),
    18: Row("UPDATE_AND_CREATE_TOPIC_LIST", "BR", "A"),
    21: Row("GET_ALL_TOPIC_CONFIG", "BR", "AS", "topicSeq:i maxTopicNum:i dataVersion", "totalTopicNum:i"),
    25: Row("UPDATE_BROKER_CONFIG", "BR", "A"),
    26: Row("GET_BROKER_CONFIG", "BR", "A", "", "version"),
    28: Row("GET_BROKER_RUNTIME_INFO", "BR", "A"),
    29: Row("SEARCH_OFFSET_BY_TIMESTAMP", "BR", "JGNCA", "topic! queueId:i! timestamp:l! boundaryType", "offset:l!"),
    30: Row("GET_MAX_OFFSET", "BR", "JGNCA", "topic! queueId:i! committed:b=true", "offset:l!"),
    31: Row("GET_MIN_OFFSET", "BR", "JCA", "topic! queueId:i!", "offset:l!"),
    32: Row("GET_EARLIEST_MSG_STORETIME", "BR", "JC", "topic! queueId:i!", "timestamp:l!"),
    33: Row("VIEW_MESSAGE_BY_ID", "BR", "JCA", "offset:l! topic"),
    34: Row("HEART_BEAT", "BR", "JGNC", "", "IS_SUPPORT_HEART_BEAT_V2:b IS_SUB_CHANGE:b"),
    35: Row("UNREGISTER_CLIENT", "BR", "JNC", "clientID! producerGroup consumerGroup"),
    36: Row(
        "CONSUMER_SEND_MSG_BACK",
        "BR",
        "JGNC",
        "offset:l! group! delayLevel:i! originMsgId originTopic unitMode:b=false maxReconsumeTimes:i",
    ),
    37: Row(
        "END_TRANSACTION",
        "BR",
        "JGC",
        "producerGroup! tranStateTableOffset:l! commitLogOffset:l! commitOrRollback:i! fromTransactionCheck:b=false "
        "msgId! transactionId topic",
    ),
    38: Row("GET_CONSUMER_LIST_BY_GROUP", "BR", "JGNC", "consumerGroup!"),
    39: Row(
        "CHECK_TRANSACTION_STATE",
        "CL",
        "B",
        "tranStateTableOffset:l! commitLogOffset:l! msgId transactionId offsetMsgId topic",
    ),
    40: Row("NOTIFY_CONSUMER_IDS_CHANGED", "CL", "B", "consumerGroup!"),
    41: Row("LOCK_BATCH_MQ", "BR", "JGC"),
    42: Row("UNLOCK_BATCH_MQ", "BR", "JGC"),
    43: Row("GET_ALL_CONSUMER_OFFSET", "BR", "S"),
    45: Row("GET_ALL_DELAY_OFFSET", "BR", "S"),
    46: Row("CHECK_CLIENT_CONFIG", "BR", "J"),
    100: Row("PUT_KV_CONFIG", "NS", "A", "namespace! key! value!"),
    101: Row("GET_KV_CONFIG", "NS", "A", "namespace! key!", "value"),
    102: Row("DELETE_KV_CONFIG", "NS", "A", "namespace! key!"),
    103: Row(
        "REGISTER_BROKER",
        "NS",
        "B",
        "brokerName! brokerAddr! clusterName! haServerAddr! brokerId:l! compressed:b=false bodyCrc32:i=0 "
        "heartbeatTimeoutMillis:l enableActingMaster:b __ZONE_NAME PMQ_ADDRS",
        "haServerAddr masterAddr",
    ),
    104: Row("UNREGISTER_BROKER", "NS", "B", BROKER),
    105: Row("GET_ROUTEINFO_BY_TOPIC", "NS", "JGNCAB", "topic acceptStandardJsonOnly:b"),
    106: Row("GET_BROKER_CLUSTER_INFO", "NS", "AB"),
    200: Row("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "BR", "A"),
    201: Row(
        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "BR", "AGS", "groupSeq:i maxGroupNum:i dataVersion", "totalGroupNum:i"
    ),
    202: Row("GET_TOPIC_STATS_INFO", "BR", "A", "topic!"),
    203: Row("GET_CONSUMER_CONNECTION_LIST", "BR", "A", "consumerGroup!"),
    204: Row("GET_PRODUCER_CONNECTION_LIST", "BR", "A", "producerGroup!"),
    205: Row("WIPE_WRITE_PERM_OF_BROKER", "NS", "A", "brokerName!", "wipeTopicCount:i!"),
    206: Row("GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "NS", "ACG"),
    207: Row("DELETE_SUBSCRIPTIONGROUP", "BR", "A", "groupName! cleanOffset:b removeOffset:b"),
    208: Row("GET_CONSUME_STATS", "BR", "A", "consumerGroup! topic topicList"),
    215: Row("DELETE_TOPIC_IN_BROKER", "BR", "AG", "topic!"),
    216: Row("DELETE_TOPIC_IN_NAMESRV", "NS", "AG", "topic! clusterName"),
    217: Row("REGISTER_TOPIC_IN_NAMESRV", "NS", "B", "topic!"),
    219: Row("GET_KVLIST_BY_NAMESPACE", "NS", "A", "namespace!"),
    220: Row("RESET_CONSUMER_CLIENT_OFFSET", "CL", "B", "topic! group! timestamp:l! isForce:b queueId:i=-1 offset:l"),
    221: Row("GET_CONSUMER_STATUS_FROM_CLIENT", "CL", "B", STATUS),
    222: Row("INVOKE_BROKER_TO_RESET_OFFSET", "BR", "A", "topic! group! timestamp:l! isForce:b! queueId:i=-1 offset:l"),
    223: Row("INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "BR", "A", STATUS),
    224: Row("GET_TOPICS_BY_CLUSTER", "NS", "A", "cluster!"),
    225: Row("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "BR", "A"),
    300: Row("QUERY_TOPIC_CONSUME_BY_WHO", "BR", "A", "topic!"),
    303: Row("QUERY_CONSUME_TIME_SPAN", "BR", "A", "topic! group!"),
    304: Row("GET_SYSTEM_TOPIC_LIST_FROM_NS", "NS", "A"),
    305: Row("GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "BR", "A"),
    306: Row("CLEAN_EXPIRED_CONSUMEQUEUE", "BR", "A"),
    307: Row("GET_CONSUMER_RUNNING_INFO", "BR CL", "AB", "consumerGroup! clientId! jstackEnable:b"),
    308: Row("QUERY_CORRECTION_OFFSET", "BR", "A", "compareGroup! topic! filterGroups"),
    309: Row(
        "CONSUME_MESSAGE_DIRECTLY",
        "BR CL",
        "AB",
        "consumerGroup! clientId msgId brokerName topic topicSysFlag:i groupSysFlag:i",
    ),
    310: Row("SEND_MESSAGE_V2", "BR", "JNC", SEND_V2, SENT),
    311: Row("GET_UNIT_TOPIC_LIST", "NS", "A"),
    312: Row("GET_HAS_UNIT_SUB_TOPIC_LIST", "NS", "A"),
    313: Row("GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", "NS", "A"),
    314: Row("CLONE_GROUP_OFFSET", "BR", "A", "srcGroup! destGroup! topic offline:b"),
    315: Row("VIEW_BROKER_STATS_DATA", "BR", "A", "statsName! statsKey!"),
    316: Row("CLEAN_UNUSED_TOPIC", "BR", "A"),
    317: Row("GET_BROKER_CONSUME_STATS", "BR", "A", "isOrder:b!"),
    318: Row("UPDATE_NAMESRV_CONFIG", "NS", "A"),
    319: Row("GET_NAMESRV_CONFIG", "NS", "A"),
    320: Row("SEND_BATCH_MESSAGE", "BR", "JG", SEND_V2, SENT),
    321: Row("QUERY_CONSUME_QUEUE", "BR", "A", "topic queueId:i index:l count:i consumerGroup"),
    322: Row("QUERY_DATA_VERSION", "NS", "B", BROKER, "changed:b!"),
    323: Row("RESUME_CHECK_HALF_MESSAGE", "BR", "A", "topic msgId"),
    324: Row("SEND_REPLY_MESSAGE", "BR", "G", SEND_V1, REPLIED),
    325: Row("SEND_REPLY_MESSAGE_V2", "BR", "J", SEND_V2, REPLIED),
    326: Row(
        "PUSH_REPLY_MESSAGE_TO_CLIENT",
        "CL",
        "B",
        "topic! producerGroup! defaultTopic! defaultTopicQueueNums:i! queueId:i! sysFlag:i! bornTimestamp:l! flag:i! "
        "properties reconsumeTimes:i=0 unitMode:b=false bornHost! storeHost! storeTimestamp:l!",
    ),
    327: Row("ADD_WRITE_PERM_OF_BROKER", "NS", "A", "brokerName!", "addTopicCount:i!"),
    328: Row("GET_ALL_PRODUCER_INFO", "BR", "A"),
    329: Row("DELETE_EXPIRED_COMMITLOG", "BR", "A"),
    343: Row("QUERY_TOPICS_BY_CONSUMER", "BR", "A", "group!"),
    345: Row("QUERY_SUBSCRIPTION_BY_CONSUMER", "BR", "A", "group! topic"),
    351: Row("GET_TOPIC_CONFIG", "BR", "A", "topic! lo:b"),
    352: Row("GET_SUBSCRIPTIONGROUP_CONFIG", "BR", "A", "group!"),
    361: Row("LITE_PULL_MESSAGE", "BR", "J", PULL, PULLED),
    370: Row("RECALL_MESSAGE", "BR", "J", "producerGroup topic! recallHandle!", "msgId! MSG_REGION"),
    400: Row("QUERY_ASSIGNMENT", "BR", "J"),
    401: Row("SET_MESSAGE_REQUEST_MODE", "BR", "A"),
    402: Row("GET_ALL_MESSAGE_REQUEST_MODE", "BR", "S"),
    901: Row("GET_BROKER_MEMBER_GROUP", "NS", "B", "clusterName! brokerName!"),
    904: Row(
        "BROKER_HEARTBEAT",
        "NS CO",
        "B",
        "clusterName! brokerAddr! brokerName! brokerId:l epoch:i maxOffset:l confirmOffset:l "
        "heartbeatTimeoutMills:l electionPriority:i",
    ),
    905: Row(
        "NOTIFY_MIN_BROKER_ID_CHANGE",
        "BR",
        "B",
        "minBrokerId:l brokerName minBrokerAddr offlineBrokerAddr haBrokerAddr",
    ),
    20320: Row(
        "SEND_RECORDS",
        "BR",
        "P",
        "a! b! c! d:i! e:i! k:b=false count:i!",
        "msgId! queueId:i! queueOffset:l! physicalOffset:l! storeTimestamp:l! PMQ_DURABLE:i",
    ),
    200050: Row(
        "POP_MESSAGE",
        "BR",
        "J",
        "consumerGroup! topic! queueId:i! maxMsgNums:i! invisibleTime:l! pollTime:l! bornTime:l! initMode:i! expType "
        "exp order:b=false attemptId",
        POPPED,
    ),
    200051: Row("ACK_MESSAGE", "BR", "J", "consumerGroup! topic! queueId:i! extraInfo! offset:l!"),
    200052: Row("PEEK_MESSAGE", "BR", "J", "consumerGroup! topic! queueId:i! maxMsgNums:i!", POPPED),
    200053: Row(
        "CHANGE_MESSAGE_INVISIBLETIME",
        "BR",
        "J",
        "consumerGroup! topic! queueId:i! extraInfo! offset:l! invisibleTime:l! suspend:b=false",
        "popTime:l! invisibleTime:l! reviveQid:i!",
    ),
    200054: Row(
        "NOTIFICATION",
        "BR",
        "J",
        "consumerGroup! topic! queueId:i! pollTime:l! bornTime:l! order:b=false attemptId",
        "hasMsg:b! pollingFull:b",
    ),
    200055: Row("POLLING_INFO", "BR", "J", "consumerGroup! topic! queueId:i!", "pollingNum:i!"),
    200056: Row("POP_ROLLBACK", "BR", "B"),
    200151: Row("BATCH_ACK_MESSAGE", "BR", "J"),
}

ROLES = {"NS": Role.NAMESRV, "BR": Role.BROKER, "CL": Role.CLIENT, "CO": Role.CONTROLLER}
KINDS = {"": Kind.TEXT, "i": Kind.INT32, "l": Kind.INT64, "b": Kind.BOOLEAN}
# A flag that is off when absent is like one that nobody asks for, and so is a text that is empty.
ABSENT: dict[str, object] = {"": None, "true": True, "false": None}


class Expected(NamedTuple):
    """One field as the table writes it."""

    kind: Kind
    required: bool
    default: object


def fields_of(text: str) -> dict[str, Expected]:
    return dict(map(parse_field, text.split()))


def parse_field(text: str) -> tuple[str, Expected]:
    text, _, default = text.partition("=")
    required = text.endswith("!")
    name, _, kind = text.rstrip("!").partition(":")
    return name, Expected(KINDS[kind], required, ABSENT[default] if default in ABSENT else int(default))


def says_nothing(default: object) -> bool:
    return default is False or default == ""


def fields_in(header: HeaderType) -> dict[str, Expected]:
    """What a class says of its fields."""
    return {
        field.wire: Expected(field.kind, field.required, None if says_nothing(field.default) else field.default)
        for field in codec(header).fields
    }


# --- the rows


def test_every_request_code_has_a_row_and_no_other() -> None:
    assert {code: row.code.name for code, row in REQUESTS.items()} == {code: row.name for code, row in EXPECTED.items()}
    assert {int(code) for code in RequestCode} == EXPECTED.keys()


@pytest.mark.parametrize("code", EXPECTED)
def test_a_row_says_who_serves_and_who_sends(code: int) -> None:
    assert REQUESTS[code].served_by == tuple(ROLES[server] for server in EXPECTED[code].servers.split())
    assert set(REQUESTS[code].users) == set(EXPECTED[code].users)


@pytest.mark.parametrize("code", EXPECTED)
def test_the_fields_of_a_request_are_those_of_the_protocol(code: int) -> None:
    assert fields_in(REQUESTS[code].request) == fields_of(EXPECTED[code].request)


@pytest.mark.parametrize("code", EXPECTED)
def test_the_fields_of_a_response_are_those_of_the_protocol(code: int) -> None:
    assert fields_in(REQUESTS[code].response) == fields_of(EXPECTED[code].response)


def test_users_are_letters_that_have_a_meaning() -> None:
    assert {letter for row in REQUESTS.values() for letter in row.users} == set(Users.__members__)


def test_sends_and_pulls_answer_with_their_header_also_when_they_did_not_quite_succeed() -> None:
    exceptions = {
        code: {int(answer) for answer in row.answers_with_header}
        for code, row in REQUESTS.items()
        if row.answers_with_header != (ResponseCode.SUCCESS,)
    }
    stored, pulled = {0, 10, 11, 12}, {0, 19, 20, 21}
    assert exceptions == {10: stored, 310: stored, 320: stored, 20320: stored, 11: pulled, 361: pulled}


# --- bodies

# Request and successful response, under the names of the classes.
BODIES = {
    10: ("MESSAGE", None),
    11: (None, "STORED"),
    12: (None, "STORED"),
    18: ("TopicConfigList", None),
    21: (None, "TopicConfigSerializeWrapper"),
    25: ("CONFIG", None),
    26: (None, "CONFIG"),
    28: (None, "KVTable"),
    33: (None, "STORED"),
    34: ("HeartbeatData", None),
    38: (None, "ConsumerIdList"),
    39: ("STORED", None),
    41: ("LockBatchRequest", "LockBatchResponse"),
    42: ("LockBatchRequest", None),
    43: (None, "ConsumerOffsetTable"),
    45: (None, "DelayOffsetTable"),
    46: ("CheckClientRequest", None),
    103: ("RegisterBrokerBody", "KVTable"),
    105: (None, "TopicRouteData"),
    106: (None, "ClusterInfo"),
    200: ("SubscriptionGroupConfig", None),
    201: (None, "SubscriptionGroupWrapper"),
    202: (None, "TopicStatsTable"),
    203: (None, "ConsumerConnection"),
    204: (None, "ProducerConnection"),
    206: (None, "TopicList"),
    208: (None, "ConsumeStats"),
    217: ("TopicRouteData", None),
    219: (None, "KVTable"),
    220: ("ResetOffsetBody", None),
    221: (None, "GetConsumerStatusBody"),
    222: (None, "ResetOffsetBody"),
    223: (None, "GetConsumerStatusBody"),
    224: (None, "TopicList"),
    225: ("SubscriptionGroupList", None),
    300: (None, "GroupList"),
    303: (None, "ConsumeTimeSpan"),
    304: (None, "TopicList"),
    305: (None, "TopicList"),
    307: (None, "ConsumerRunningInfo"),
    308: (None, "CorrectionOffsets"),
    309: ("STORED", "ConsumeMessageDirectlyResult"),
    310: ("MESSAGE", None),
    311: (None, "TopicList"),
    312: (None, "TopicList"),
    313: (None, "TopicList"),
    315: (None, "BrokerStatsData"),
    317: (None, "ConsumeStatsList"),
    318: ("CONFIG", None),
    319: (None, "CONFIG"),
    320: ("BATCH", None),
    321: (None, "QueryConsumeQueueResponse"),
    322: ("DataVersion", "DataVersion"),
    324: ("MESSAGE", None),
    325: ("MESSAGE", None),
    326: ("MESSAGE", None),
    328: (None, "ProducerTable"),
    343: (None, "TopicList"),
    345: (None, "QuerySubscriptionResponse"),
    351: (None, "TopicConfig"),
    352: (None, "SubscriptionGroupConfig"),
    361: (None, "STORED"),
    400: ("QueryAssignmentRequest", "QueryAssignmentResponse"),
    401: ("SetMessageRequestModeRequest", None),
    402: (None, "MessageRequestModeTable"),
    901: (None, "BrokerMemberGroupResponse"),
    20320: ("RECORDS", None),
    200050: (None, "STORED"),
    200052: (None, "STORED"),
    200151: ("BatchAckMessageRequest", None),
}


def body_name(body: type[Body] | Content | None) -> str | None:
    match body:
        case None:
            return None
        case Content():
            return body.name
        case _:
            return body.__name__


def test_bodies_are_those_of_the_protocol() -> None:
    named = {code: (body_name(row.request_body), body_name(row.response_body)) for code, row in REQUESTS.items()}
    assert {code: names for code, names in named.items() if names != (None, None)} == BODIES


# --- every header over the wire

HEADER_TYPES: list[HeaderType] = sorted(
    {header for row in REQUESTS.values() for header in (row.request, row.response)}, key=lambda header: header.__name__
)


def test_every_header_class_belongs_to_a_request() -> None:
    classes = {
        member
        for module in (admin, clients, consume, namesrv, pop, produce)
        for _, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__
    }
    assert classes | {NoFields} == set(HEADER_TYPES)


VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.TEXT: st.text(max_size=12),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.BOOLEAN: st.booleans(),
}


def values_of(field: Field) -> st.SearchStrategy[Any]:
    return VALUES[field.kind] if field.required or field.default is not None else st.none() | VALUES[field.kind]


@pytest.mark.parametrize("header_type", HEADER_TYPES)
@settings(max_examples=12)
@given(st.data())
def test_a_header_survives_the_wire_in_every_encoding(header_type: HeaderType, data: st.DataObject) -> None:
    header = data.draw(st.tuples(*map(values_of, codec(header_type).fields)).map(header_type._make))  # type: ignore[attr-defined]
    for encoding in Encoding:
        frame = encode_frame(Command(0, encode_header(header), b"body", flag=1, encoding=encoding))
        (command,) = FrameDecoder().feed(frame)
        assert decode_header(header_type, command.ext_fields) == header
        assert command.body == b"body"


def test_a_row_is_a_value() -> None:
    row = REQUESTS[34]
    assert row == RequestSpec(
        RequestCode.HEART_BEAT,
        (Role.BROKER,),
        "JGNC",
        NoFields,
        clients.HeartbeatResponse,
        request_body=row.request_body,
    )
    assert hash(row) == hash(REQUESTS[34])
