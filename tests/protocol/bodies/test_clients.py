"""What clients tell about themselves, in the words of Java, C++ and Go."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import (
    BatchAck,
    BatchAckMessageRequest,
    BodyError,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    LockBatchRequest,
    LockBatchResponse,
    MessageModel,
    MessageQueue,
    MessageQueueAssignment,
    MessageRequestMode,
    ProducerData,
    QueryAssignmentResponse,
    SubscriptionData,
)

JAVA = (
    b'{"clientID":"10.0.0.5@12345#678","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"G1","messageModel":"CLUSTERING","subscriptionDataSet":'
    b'[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
    b'"subVersion":1700000000000,"tagsSet":["TagA"],"topic":"T1"}],"unitMode":false}],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
)
HEARTBEAT = HeartbeatData(
    client_id="10.0.0.5@12345#678",
    producer_data_set=(ProducerData(group_name="PG"),),
    consumer_data_set=(
        ConsumerData(
            group_name="G1",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=(SubscriptionData.build("T1", "TagA", sub_version=1_700_000_000_000),),
        ),
    ),
)


def test_a_heartbeat_is_written_byte_for_byte_as_by_java() -> None:
    assert HEARTBEAT.to_json() == JAVA
    assert HeartbeatData.from_json(JAVA) == HEARTBEAT


def test_clients_written_in_cpp_send_ordinals_numbers_as_text_and_a_line_feed() -> None:
    cpp = (
        b'{"clientID":"10.0.0.5@12345#678","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"G1",'
        b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["2598919"],"subString":"TagA",'
        b'"subVersion":"1700000000000","tagsSet":["TagA"],"topic":"T1"}]}],"producerDataSet":[{"groupName":"PG"}]}\n'
    )
    assert HeartbeatData.from_json(cpp) == HEARTBEAT


@pytest.mark.parametrize(
    "document",
    [
        '{"clientID":"c"}',
        '{"clientID":"c","producerDataSet":null,"consumerDataSet":null}',
        '{"clientID":"c","producerDataSet":[],"consumerDataSet":[null]}',
    ],
)
def test_sets_may_be_missing_or_null(document: str) -> None:
    assert HeartbeatData.from_json(document) == HeartbeatData(client_id="c")


def test_the_sets_of_a_subscription_may_be_missing_or_null() -> None:
    for document in ('{"topic":"T"}', '{"topic":"T","tagsSet":null,"codeSet":null,"expressionType":null}'):
        assert SubscriptionData.from_json(document) == SubscriptionData(topic="T")
    assert SubscriptionData.from_json('{"topic":"T"}').expression_type == "TAG"
    assert ConsumerData.from_json('{"groupName":"g","subscriptionDataSet":null}').subscription_data_set == ()


def test_a_subscription_that_occurs_twice_may_be_a_reference() -> None:
    document = (
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T"},'
        '{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}]}'
    )
    (consumer,) = HeartbeatData.from_json(document).consumer_data_set
    assert consumer.subscription_data_set == (SubscriptionData(topic="T"),)


def test_an_enumeration_is_always_written_by_name() -> None:
    consumer = ConsumerData.from_json('{"groupName":"g","consumeType":2,"messageModel":"0","consumeFromWhere":5}')
    assert consumer.consume_type is ConsumeType.CONSUME_POP
    document = consumer.to_json()
    for name in (b'"CONSUME_POP"', b'"BROADCASTING"', b'"CONSUME_FROM_TIMESTAMP"'):
        assert name in document


def test_the_path_of_a_wrong_member_is_named() -> None:
    with pytest.raises(BodyError) as caught:
        HeartbeatData.from_json(JAVA.replace(b"[2598919]", b'[1,"x"]'))
    assert str(caught.value) == ('consumerDataSet[0].subscriptionDataSet[0].codeSet[1]: expected an integer, got "x"')


def test_locks_are_asked_for_and_granted_by_queue() -> None:
    document = (
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"}],'
        b'"onlyThisBroker":false}'
    )
    queues = (MessageQueue("T", "b", 0),)
    assert LockBatchRequest.from_json(document) == LockBatchRequest(client_id="c", consumer_group="g", mq_set=queues)
    assert LockBatchRequest.from_json(document).to_json() == document
    granted = b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    assert LockBatchResponse(lock_ok_mq_set=queues).to_json() == granted
    assert LockBatchResponse.from_json(granted).lock_ok_mq_set == queues


def test_no_assignments_and_no_change_are_two_things() -> None:
    assert QueryAssignmentResponse.from_json("{}").message_queue_assignments is None
    assert QueryAssignmentResponse.from_json('{"messageQueueAssignments":[]}').message_queue_assignments == ()
    assert QueryAssignmentResponse().to_json() == b"{}"
    assignment = MessageQueueAssignment(message_queue=MessageQueue("T", "b", 0), mode=MessageRequestMode.POP)
    assert assignment.to_json() == b'{"messageQueue":{"brokerName":"b","queueId":0,"topic":"T"},"mode":"POP"}'


def test_the_bits_of_an_acknowledgement_are_base64() -> None:
    ack = BatchAck(
        consumer_group="g",
        topic="T",
        start_offset=100,
        queue_id=3,
        revive_queue_id=7,
        pop_time=1_700_000_000_000,
        invisible_time=60_000,
        bit_set=b"\x05\x80",
    )
    document = (
        b'{"acks":[{"b":"BYA=","c":"g","it":60000,"pt":1700000000000,"q":3,"r":"0","rq":7,"so":100,"t":"T"}],'
        b'"brokerName":"b"}'
    )
    assert BatchAckMessageRequest(broker_name="b", acks=(ack,)).to_json() == document
    assert BatchAckMessageRequest.from_json(document).acks == (ack,)
