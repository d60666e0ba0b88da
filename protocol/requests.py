"""The table of request codes: who serves each, who sends it, what its header and body are.

It is data. The servers find the classes of a request here, the client those of its answer; the documentation and
the tests read the same rows. Headers are written row by row, bodies in a table below: most requests have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from pocketmq.protocol import bodies
from pocketmq.protocol.bodies import Body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.framing import MAX_FRAME
from pocketmq.protocol.headers import NoFields, admin, clients, consume, namesrv, pop, produce

HeaderType = type[tuple[Any, ...]]


class Role(Enum):
    """Who answers a request."""

    NAMESRV = "namesrv"
    BROKER = "broker"
    CLIENT = "client"
    CONTROLLER = "controller"


class Users(Enum):
    """Who sends a request, under the letters of the table."""

    J = "Java client"
    G = "Go client"
    N = "Node client (ali-ons)"
    C = "C++ client"
    A = "mqadmin"
    B = "broker"
    S = "slave"
    P = "PocketMQ"


class Content(Enum):
    """The bodies that are not JSON."""

    MESSAGE = "body of a message"  # or a batch, if the header says so
    BATCH = "batch of messages"
    STORED = "stored messages"
    RECORDS = "sizes and records"
    CONFIG = "lines of name=value"


MAX_PARSED_BODY: Final = 1024 * 1024
"""The largest body of a request that is parsed in one go; only a broker that registers its topics may send more."""

BodyType: TypeAlias = type[Body] | Content | None
"""What a body is; None where there is none."""


_FOUND: Final = (ResponseCode.SUCCESS,)
_STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
_PULLED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One row: a request code and what it carries there and back."""

    code: RequestCode
    served_by: tuple[Role, ...]
    users: str
    request: HeaderType = NoFields
    response: HeaderType = NoFields
    answers_with_header: tuple[ResponseCode, ...] = _FOUND
    request_body: BodyType = None
    response_body: BodyType = None  # of a successful response; it may be absent where there is nothing to tell

    @property
    def body_limit(self) -> int:
        """How many bytes of body a request may have."""
        is_parsed = self.request_body is Content.CONFIG or isinstance(self.request_body, type)
        return MAX_PARSED_BODY if is_parsed and self.code != RequestCode.REGISTER_BROKER else MAX_FRAME


_R = RequestCode
_BROKER: Final = (Role.BROKER,)
_NAMESRV: Final = (Role.NAMESRV,)
_CLIENT: Final = (Role.CLIENT,)
_BROKER_AND_CLIENT: Final = (Role.BROKER, Role.CLIENT)  # asked of the broker, which asks the client

_ROWS: Final = (
    RequestSpec(
        _R.SEND_MESSAGE,
        _BROKER,
        "JG",
        produce.SendMessageRequest,
        produce.SendMessageResponse,
        answers_with_header=_STORED,
    ),
    RequestSpec(
        _R.PULL_MESSAGE,
        _BROKER,
        "JGNCA",
        consume.PullMessageRequest,
        consume.PullMessageResponse,
        answers_with_header=_PULLED,
    ),
    RequestSpec(_R.QUERY_MESSAGE, _BROKER, "JA", consume.QueryMessageRequest, consume.QueryMessageResponse),
    RequestSpec(_R.QUERY_CONSUMER_OFFSET, _BROKER, "JGNC", consume.QueryConsumerOffsetRequest, consume.OffsetResponse),
    RequestSpec(_R.UPDATE_CONSUMER_OFFSET, _BROKER, "JGNCA", consume.UpdateConsumerOffsetRequest),
    RequestSpec(_R.UPDATE_AND_CREATE_TOPIC, _BROKER, "JGCA", admin.CreateTopicRequest),
    RequestSpec(_R.UPDATE_AND_CREATE_TOPIC_LIST, _BROKER, "A"),
    RequestSpec(_R.GET_ALL_TOPIC_CONFIG, _BROKER, "AS", admin.TopicPageRequest, admin.TopicPageResponse),
    RequestSpec(_R.UPDATE_BROKER_CONFIG, _BROKER, "A"),
    RequestSpec(_R.GET_BROKER_CONFIG, _BROKER, "A", NoFields, admin.BrokerConfigResponse),
    RequestSpec(_R.GET_BROKER_RUNTIME_INFO, _BROKER, "A"),
    RequestSpec(_R.SEARCH_OFFSET_BY_TIMESTAMP, _BROKER, "JGNCA", consume.SearchOffsetRequest, consume.OffsetResponse),
    RequestSpec(_R.GET_MAX_OFFSET, _BROKER, "JGNCA", consume.GetMaxOffsetRequest, consume.OffsetResponse),
    RequestSpec(_R.GET_MIN_OFFSET, _BROKER, "JCA", consume.QueueRequest, consume.OffsetResponse),
    RequestSpec(_R.GET_EARLIEST_MSG_STORETIME, _BROKER, "JC", consume.QueueRequest, consume.EarliestStoretimeResponse),
    RequestSpec(_R.VIEW_MESSAGE_BY_ID, _BROKER, "JCA", consume.ViewMessageRequest),
    RequestSpec(_R.HEART_BEAT, _BROKER, "JGNC", NoFields, clients.HeartbeatResponse),
    RequestSpec(_R.UNREGISTER_CLIENT, _BROKER, "JNC", clients.UnregisterClientRequest),
    RequestSpec(_R.CONSUMER_SEND_MSG_BACK, _BROKER, "JGNC", consume.ConsumerSendMessageBackRequest),
    RequestSpec(_R.END_TRANSACTION, _BROKER, "JGC", consume.EndTransactionRequest),
    RequestSpec(_R.GET_CONSUMER_LIST_BY_GROUP, _BROKER, "JGNC", clients.ConsumerGroupRequest),
    RequestSpec(_R.CHECK_TRANSACTION_STATE, _CLIENT, "B", clients.CheckTransactionStateRequest),
    RequestSpec(_R.NOTIFY_CONSUMER_IDS_CHANGED, _CLIENT, "B", clients.ConsumerGroupRequest),
    RequestSpec(_R.LOCK_BATCH_MQ, _BROKER, "JGC"),
    RequestSpec(_R.UNLOCK_BATCH_MQ, _BROKER, "JGC"),
    RequestSpec(_R.GET_ALL_CONSUMER_OFFSET, _BROKER, "S"),
    RequestSpec(_R.GET_ALL_DELAY_OFFSET, _BROKER, "S"),
    RequestSpec(_R.CHECK_CLIENT_CONFIG, _BROKER, "J"),
    RequestSpec(_R.PUT_KV_CONFIG, _NAMESRV, "A", namesrv.PutKvConfigRequest),
    RequestSpec(_R.GET_KV_CONFIG, _NAMESRV, "A", namesrv.KvConfigRequest, namesrv.KvConfigResponse),
    RequestSpec(_R.DELETE_KV_CONFIG, _NAMESRV, "A", namesrv.KvConfigRequest),
    RequestSpec(_R.REGISTER_BROKER, _NAMESRV, "B", namesrv.RegisterBrokerRequest, namesrv.RegisterBrokerResponse),
    RequestSpec(_R.UNREGISTER_BROKER, _NAMESRV, "B", namesrv.BrokerIdentityRequest),
    RequestSpec(_R.GET_ROUTEINFO_BY_TOPIC, _NAMESRV, "JGNCAB", namesrv.GetRouteInfoRequest),
    RequestSpec(_R.GET_BROKER_CLUSTER_INFO, _NAMESRV, "AB"),
    RequestSpec(_R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, _BROKER, "A"),
    RequestSpec(_R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _BROKER, "AGS", admin.GroupPageRequest, admin.GroupPageResponse),
    RequestSpec(_R.GET_TOPIC_STATS_INFO, _BROKER, "A", admin.TopicRequest),
    RequestSpec(_R.GET_CONSUMER_CONNECTION_LIST, _BROKER, "A", clients.ConsumerGroupRequest),
    RequestSpec(_R.GET_PRODUCER_CONNECTION_LIST, _BROKER, "A", admin.ProducerGroupRequest),
    RequestSpec(_R.WIPE_WRITE_PERM_OF_BROKER, _NAMESRV, "A", namesrv.BrokerNameRequest, namesrv.WipeWritePermResponse),
    RequestSpec(_R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _NAMESRV, "ACG"),
    RequestSpec(_R.DELETE_SUBSCRIPTIONGROUP, _BROKER, "A", admin.DeleteGroupRequest),
    RequestSpec(_R.GET_CONSUME_STATS, _BROKER, "A", admin.ConsumeStatsRequest),
    RequestSpec(_R.DELETE_TOPIC_IN_BROKER, _BROKER, "AG", admin.TopicRequest),
    RequestSpec(_R.DELETE_TOPIC_IN_NAMESRV, _NAMESRV, "AG", namesrv.DeleteTopicFromNamesrvRequest),
    RequestSpec(_R.REGISTER_TOPIC_IN_NAMESRV, _NAMESRV, "B", admin.TopicRequest),
    RequestSpec(_R.GET_KVLIST_BY_NAMESPACE, _NAMESRV, "A", namesrv.NamespaceRequest),
    RequestSpec(_R.RESET_CONSUMER_CLIENT_OFFSET, _CLIENT, "B", clients.ResetConsumerClientOffsetRequest),
    RequestSpec(_R.GET_CONSUMER_STATUS_FROM_CLIENT, _CLIENT, "B", clients.GetConsumerStatusRequest),
    RequestSpec(_R.INVOKE_BROKER_TO_RESET_OFFSET, _BROKER, "A", admin.ResetOffsetRequest),
    RequestSpec(_R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, _BROKER, "A", clients.GetConsumerStatusRequest),
    RequestSpec(_R.GET_TOPICS_BY_CLUSTER, _NAMESRV, "A", namesrv.ClusterRequest),
    RequestSpec(_R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, _BROKER, "A"),
    RequestSpec(_R.QUERY_TOPIC_CONSUME_BY_WHO, _BROKER, "A", admin.TopicRequest),
    RequestSpec(_R.QUERY_CONSUME_TIME_SPAN, _BROKER, "A", admin.TopicGroupRequest),
    RequestSpec(_R.GET_SYSTEM_TOPIC_LIST_FROM_NS, _NAMESRV, "A"),
    RequestSpec(_R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, _BROKER, "A"),
    RequestSpec(_R.CLEAN_EXPIRED_CONSUMEQUEUE, _BROKER, "A"),
    RequestSpec(_R.GET_CONSUMER_RUNNING_INFO, _BROKER_AND_CLIENT, "AB", clients.ConsumerRunningInfoRequest),
    RequestSpec(_R.QUERY_CORRECTION_OFFSET, _BROKER, "A", admin.QueryCorrectionOffsetRequest),
    RequestSpec(_R.CONSUME_MESSAGE_DIRECTLY, _BROKER_AND_CLIENT, "AB", clients.ConsumeMessageDirectlyRequest),
    RequestSpec(
        _R.SEND_MESSAGE_V2,
        _BROKER,
        "JNC",
        produce.SendMessageRequestV2,
        produce.SendMessageResponse,
        answers_with_header=_STORED,
    ),
    RequestSpec(_R.GET_UNIT_TOPIC_LIST, _NAMESRV, "A"),
    RequestSpec(_R.GET_HAS_UNIT_SUB_TOPIC_LIST, _NAMESRV, "A"),
    RequestSpec(_R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, _NAMESRV, "A"),
    RequestSpec(_R.CLONE_GROUP_OFFSET, _BROKER, "A", admin.CloneGroupOffsetRequest),
    RequestSpec(_R.VIEW_BROKER_STATS_DATA, _BROKER, "A", admin.ViewBrokerStatsRequest),
    RequestSpec(_R.CLEAN_UNUSED_TOPIC, _BROKER, "A"),
    RequestSpec(_R.GET_BROKER_CONSUME_STATS, _BROKER, "A", admin.BrokerConsumeStatsRequest),
    RequestSpec(_R.UPDATE_NAMESRV_CONFIG, _NAMESRV, "A"),
    RequestSpec(_R.GET_NAMESRV_CONFIG, _NAMESRV, "A"),
    RequestSpec(
        _R.SEND_BATCH_MESSAGE,
        _BROKER,
        "JG",
        produce.SendMessageRequestV2,
        produce.SendMessageResponse,
        answers_with_header=_STORED,
    ),
    RequestSpec(_R.QUERY_CONSUME_QUEUE, _BROKER, "A", admin.QueryConsumeQueueRequest),
    RequestSpec(_R.QUERY_DATA_VERSION, _NAMESRV, "B", namesrv.BrokerIdentityRequest, namesrv.QueryDataVersionResponse),
    RequestSpec(_R.RESUME_CHECK_HALF_MESSAGE, _BROKER, "A", admin.ResumeCheckHalfMessageRequest),
    RequestSpec(_R.SEND_REPLY_MESSAGE, _BROKER, "G", produce.SendMessageRequest, produce.SendReplyResponse),
    RequestSpec(_R.SEND_REPLY_MESSAGE_V2, _BROKER, "J", produce.SendMessageRequestV2, produce.SendReplyResponse),
    RequestSpec(_R.PUSH_REPLY_MESSAGE_TO_CLIENT, _CLIENT, "B", clients.PushReplyMessageRequest),
    RequestSpec(_R.ADD_WRITE_PERM_OF_BROKER, _NAMESRV, "A", namesrv.BrokerNameRequest, namesrv.AddWritePermResponse),
    RequestSpec(_R.GET_ALL_PRODUCER_INFO, _BROKER, "A"),
    RequestSpec(_R.DELETE_EXPIRED_COMMITLOG, _BROKER, "A"),
    RequestSpec(_R.QUERY_TOPICS_BY_CONSUMER, _BROKER, "A", admin.GroupRequest),
    RequestSpec(_R.QUERY_SUBSCRIPTION_BY_CONSUMER, _BROKER, "A", admin.QuerySubscriptionRequest),
    RequestSpec(_R.GET_TOPIC_CONFIG, _BROKER, "A", admin.GetTopicConfigRequest),
    RequestSpec(_R.GET_SUBSCRIPTIONGROUP_CONFIG, _BROKER, "A", admin.GroupRequest),
    RequestSpec(
        _R.LITE_PULL_MESSAGE,
        _BROKER,
        "J",
        consume.PullMessageRequest,
        consume.PullMessageResponse,
        answers_with_header=_PULLED,
    ),
    RequestSpec(_R.RECALL_MESSAGE, _BROKER, "J", produce.RecallMessageRequest, produce.RecallMessageResponse),
    RequestSpec(_R.QUERY_ASSIGNMENT, _BROKER, "J"),
    RequestSpec(_R.SET_MESSAGE_REQUEST_MODE, _BROKER, "A"),
    RequestSpec(_R.GET_ALL_MESSAGE_REQUEST_MODE, _BROKER, "S"),
    RequestSpec(_R.GET_BROKER_MEMBER_GROUP, _NAMESRV, "B", namesrv.BrokerMemberGroupRequest),
    RequestSpec(_R.BROKER_HEARTBEAT, (Role.NAMESRV, Role.CONTROLLER), "B", namesrv.BrokerHeartbeatRequest),
    RequestSpec(_R.NOTIFY_MIN_BROKER_ID_CHANGE, _BROKER, "B", namesrv.NotifyMinBrokerIdChangeRequest),
    RequestSpec(
        _R.SEND_RECORDS,
        _BROKER,
        "P",
        produce.SendRecordsRequest,
        produce.SendRecordsResponse,
        answers_with_header=_STORED,
    ),
    RequestSpec(_R.POP_MESSAGE, _BROKER, "J", pop.PopMessageRequest, pop.PopMessageResponse),
    RequestSpec(_R.ACK_MESSAGE, _BROKER, "J", pop.AckMessageRequest),
    RequestSpec(_R.PEEK_MESSAGE, _BROKER, "J", pop.PeekMessageRequest, pop.PopMessageResponse),
    RequestSpec(
        _R.CHANGE_MESSAGE_INVISIBLETIME,
        _BROKER,
        "J",
        pop.ChangeInvisibleTimeRequest,
        pop.ChangeInvisibleTimeResponse,
    ),
    RequestSpec(_R.NOTIFICATION, _BROKER, "J", pop.NotificationRequest, pop.NotificationResponse),
    RequestSpec(_R.POLLING_INFO, _BROKER, "J", pop.PollingInfoRequest, pop.PollingInfoResponse),
    RequestSpec(_R.POP_ROLLBACK, _BROKER, "B"),
    RequestSpec(_R.BATCH_ACK_MESSAGE, _BROKER, "J"),
)

# What the body of the request is, and that of a successful response.
_BODIES: Final[Mapping[RequestCode, tuple[BodyType, BodyType]]] = {
    _R.SEND_MESSAGE: (Content.MESSAGE, None),
    _R.PULL_MESSAGE: (None, Content.STORED),
    _R.QUERY_MESSAGE: (None, Content.STORED),
    _R.UPDATE_AND_CREATE_TOPIC_LIST: (bodies.TopicConfigList, None),
    _R.GET_ALL_TOPIC_CONFIG: (None, bodies.TopicConfigSerializeWrapper),
    _R.UPDATE_BROKER_CONFIG: (Content.CONFIG, None),
    _R.GET_BROKER_CONFIG: (None, Content.CONFIG),
    _R.GET_BROKER_RUNTIME_INFO: (None, bodies.KVTable),
    _R.VIEW_MESSAGE_BY_ID: (None, Content.STORED),
    _R.HEART_BEAT: (bodies.HeartbeatData, None),
    _R.GET_CONSUMER_LIST_BY_GROUP: (None, bodies.ConsumerIdList),
    _R.CHECK_TRANSACTION_STATE: (Content.STORED, None),
    _R.LOCK_BATCH_MQ: (bodies.LockBatchRequest, bodies.LockBatchResponse),
    _R.UNLOCK_BATCH_MQ: (bodies.LockBatchRequest, None),
    _R.GET_ALL_CONSUMER_OFFSET: (None, bodies.ConsumerOffsetTable),
    _R.GET_ALL_DELAY_OFFSET: (None, bodies.DelayOffsetTable),
    _R.CHECK_CLIENT_CONFIG: (bodies.CheckClientRequest, None),
    _R.REGISTER_BROKER: (bodies.RegisterBrokerBody, bodies.KVTable),
    _R.GET_ROUTEINFO_BY_TOPIC: (None, bodies.TopicRouteData),
    _R.GET_BROKER_CLUSTER_INFO: (None, bodies.ClusterInfo),
    _R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (bodies.SubscriptionGroupConfig, None),
    _R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (None, bodies.SubscriptionGroupWrapper),
    _R.GET_TOPIC_STATS_INFO: (None, bodies.TopicStatsTable),
    _R.GET_CONSUMER_CONNECTION_LIST: (None, bodies.ConsumerConnection),
    _R.GET_PRODUCER_CONNECTION_LIST: (None, bodies.ProducerConnection),
    _R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (None, bodies.TopicList),
    _R.GET_CONSUME_STATS: (None, bodies.ConsumeStats),
    _R.REGISTER_TOPIC_IN_NAMESRV: (bodies.TopicRouteData, None),
    _R.GET_KVLIST_BY_NAMESPACE: (None, bodies.KVTable),
    _R.RESET_CONSUMER_CLIENT_OFFSET: (bodies.ResetOffsetBody, None),
    _R.GET_CONSUMER_STATUS_FROM_CLIENT: (None, bodies.GetConsumerStatusBody),
    _R.INVOKE_BROKER_TO_RESET_OFFSET: (None, bodies.ResetOffsetBody),
    _R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (None, bodies.GetConsumerStatusBody),
    _R.GET_TOPICS_BY_CLUSTER: (None, bodies.TopicList),
    _R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (bodies.SubscriptionGroupList, None),
    _R.QUERY_TOPIC_CONSUME_BY_WHO: (None, bodies.GroupList),
    _R.QUERY_CONSUME_TIME_SPAN: (None, bodies.ConsumeTimeSpan),
    _R.GET_SYSTEM_TOPIC_LIST_FROM_NS: (None, bodies.TopicList),
    _R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (None, bodies.TopicList),
    _R.GET_CONSUMER_RUNNING_INFO: (None, bodies.ConsumerRunningInfo),
    _R.QUERY_CORRECTION_OFFSET: (None, bodies.CorrectionOffsets),
    # The message is in what the broker sends to the client; who asks the broker sends none.
    _R.CONSUME_MESSAGE_DIRECTLY: (Content.STORED, bodies.ConsumeMessageDirectlyResult),
    _R.SEND_MESSAGE_V2: (Content.MESSAGE, None),
    _R.GET_UNIT_TOPIC_LIST: (None, bodies.TopicList),
    _R.GET_HAS_UNIT_SUB_TOPIC_LIST: (None, bodies.TopicList),
    _R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (None, bodies.TopicList),
    _R.VIEW_BROKER_STATS_DATA: (None, bodies.BrokerStatsData),
    _R.GET_BROKER_CONSUME_STATS: (None, bodies.ConsumeStatsList),
    _R.UPDATE_NAMESRV_CONFIG: (Content.CONFIG, None),
    _R.GET_NAMESRV_CONFIG: (None, Content.CONFIG),
    _R.SEND_BATCH_MESSAGE: (Content.BATCH, None),
    _R.QUERY_CONSUME_QUEUE: (None, bodies.QueryConsumeQueueResponse),
    _R.QUERY_DATA_VERSION: (bodies.DataVersion, bodies.DataVersion),
    _R.SEND_REPLY_MESSAGE: (Content.MESSAGE, None),
    _R.SEND_REPLY_MESSAGE_V2: (Content.MESSAGE, None),
    _R.PUSH_REPLY_MESSAGE_TO_CLIENT: (Content.MESSAGE, None),
    _R.GET_ALL_PRODUCER_INFO: (None, bodies.ProducerTable),
    _R.QUERY_TOPICS_BY_CONSUMER: (None, bodies.TopicList),
    _R.QUERY_SUBSCRIPTION_BY_CONSUMER: (None, bodies.QuerySubscriptionResponse),
    _R.GET_TOPIC_CONFIG: (None, bodies.TopicConfig),
    _R.GET_SUBSCRIPTIONGROUP_CONFIG: (None, bodies.SubscriptionGroupConfig),
    _R.LITE_PULL_MESSAGE: (None, Content.STORED),
    _R.QUERY_ASSIGNMENT: (bodies.QueryAssignmentRequest, bodies.QueryAssignmentResponse),
    _R.SET_MESSAGE_REQUEST_MODE: (bodies.SetMessageRequestModeRequest, None),
    _R.GET_ALL_MESSAGE_REQUEST_MODE: (None, bodies.MessageRequestModeTable),
    _R.GET_BROKER_MEMBER_GROUP: (None, bodies.BrokerMemberGroupResponse),
    _R.SEND_RECORDS: (Content.RECORDS, None),
    _R.POP_MESSAGE: (None, Content.STORED),
    _R.PEEK_MESSAGE: (None, Content.STORED),
    _R.BATCH_ACK_MESSAGE: (bodies.BatchAckMessageRequest, None),
}


def _with_bodies(row: RequestSpec) -> RequestSpec:
    request_body, response_body = _BODIES.get(row.code, (None, None))
    return replace(row, request_body=request_body, response_body=response_body)


REQUESTS: Final[Mapping[int, RequestSpec]] = {int(row.code): _with_bodies(row) for row in _ROWS}
"""Every request code of the protocol, under its number."""
