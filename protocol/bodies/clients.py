"""What clients tell a broker about themselves, and how queues are shared out among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Self

from pocketmq.protocol.bodies.common import MessageQueue
from pocketmq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel, MessageRequestMode
from pocketmq.protocol.bodies.model import Body, Names, body
from pocketmq.protocol.hashes import java_hash
from pocketmq.protocol.subscription import TAG, check_expression, tags_of


@body
class SubscriptionData(Body):
    """What a consumer group wants of one topic."""

    topic: str
    sub_string: str = "*"
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()  # Java hashes of the tags
    sub_version: int = 0
    expression_type: str = TAG  # empty means the same
    class_filter_mode: bool = False

    @classmethod
    def build(
        cls, topic: str, expression: str | None, expression_type: str | None = None, sub_version: int = 0
    ) -> Self:
        """The subscription that an expression means; raises `SubscriptionError`."""
        kind = TAG if expression_type is None else expression_type
        sub_string = check_expression(expression, kind)
        tags = tags_of(sub_string) if kind == TAG else frozenset[str]()
        return cls(
            topic=topic,
            sub_string=sub_string,
            tags_set=tags,
            code_set=frozenset(map(java_hash, tags)),
            sub_version=sub_version,
            expression_type=kind,
        )


@body
class ConsumerData(Body):
    """One consumer group of a client."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


@body
class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


@body
class HeartbeatData(Body):
    """All groups of a client. With `without_sub` the subscriptions known under the fingerprint still hold."""

    client_id: Annotated[str, Names("clientID")]
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


@body
class ConsumerIdList(Body):
    """The clients of a consumer group."""

    consumer_id_list: tuple[str, ...] = ()


@body
class CheckClientRequest(Body):
    """A subscription that a broker shall judge before the consumer starts."""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData


@body
class LockBatchRequest(Body):
    """Queues that a client of an orderly group wants to hold or to let go."""

    client_id: str
    consumer_group: str
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


@body
class LockBatchResponse(Body):
    """The queues that were granted."""

    lock_ok_mq_set: Annotated[tuple[MessageQueue, ...], Names("lockOKMQSet")] = ()


@body
class QueryAssignmentRequest(Body):
    """A client that asks the broker for its share of a topic's queues."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = ""
    message_model: MessageModel = MessageModel.CLUSTERING


@body
class MessageQueueAssignment(Body):
    """A queue and how its messages are to be fetched."""

    message_queue: MessageQueue
    mode: MessageRequestMode = MessageRequestMode.PULL
    attachments: Mapping[str, str] | None = None


@body
class QueryAssignmentResponse(Body):
    """The client's share; None means: keep what you have."""

    message_queue_assignments: tuple[MessageQueueAssignment, ...] | None = None


@body
class SetMessageRequestModeRequest(Body):
    """How a group takes the messages of a topic."""

    topic: str
    consumer_group: str
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: int = 0


@body
class MessageRequestModeTable(Body):
    """topic -> group -> how the group takes the topic's messages."""

    message_request_mode_map: Mapping[str, Mapping[str, SetMessageRequestModeRequest]] = field(default_factory=dict)


@body
class BatchAck(Body):
    """Acknowledges messages popped together: bit n of `bit_set` (lowest first) is `start_offset` + n."""

    consumer_group: Annotated[str, Names("c")]
    topic: Annotated[str, Names("t")]
    retry: Annotated[str, Names("r")] = "0"
    start_offset: Annotated[int, Names("so")]
    queue_id: Annotated[int, Names("q")]
    revive_queue_id: Annotated[int, Names("rq")]
    pop_time: Annotated[int, Names("pt")]
    invisible_time: Annotated[int, Names("it")]
    bit_set: Annotated[bytes, Names("b")] = b""


@body
class BatchAckMessageRequest(Body):
    """Acknowledgements for one broker."""

    broker_name: str = ""
    acks: tuple[BatchAck, ...] = ()
