"""Queues and other small values."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import BodyError, DataVersion, KVTable, MessageQueue, TopicList


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    queues = [MessageQueue(*parts) for parts in (("b", "a", 0), ("a", "b", 10), ("a", "b", 9), ("a", "a", 11))]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]


def test_a_queue_is_an_object() -> None:
    queue = MessageQueue("T", "broker-a", 3)
    assert list(queue.to_value().items()) == [("brokerName", "broker-a"), ("queueId", 3), ("topic", "T")]
    assert MessageQueue.from_value(queue.to_value()) == queue
    assert MessageQueue.from_value({"topic": "T", "queueId": "3", "brokerName": "broker-a", "more": 1}) == queue


@pytest.mark.parametrize("value", [None, 1, "T", [], {}, {"topic": "T"}, {"topic": "T", "queueId": 0}])
def test_anything_else_is_no_queue(value: object) -> None:
    with pytest.raises(BodyError, match="expected an object with brokerName, queueId and topic"):
        MessageQueue.from_value(value)


def test_the_version_of_a_table_has_three_numbers_since_5_0() -> None:
    assert DataVersion(counter=1, timestamp=2).to_json() == b'{"counter":1,"timestamp":2}'
    newer = b'{"counter":1,"stateVersion":0,"timestamp":2}'
    assert DataVersion.from_json(newer).to_json() == newer


def test_the_values_of_a_table_are_text_whatever_they_were() -> None:
    assert KVTable.from_json('{"table":{"a":"x","b":1,"c":true,"d":null}}').table == {"a": "x", "b": "1", "c": "true"}


def test_a_list_of_topics_may_name_a_broker() -> None:
    assert TopicList(topic_list=("a",)).to_json() == b'{"topicList":["a"]}'
    assert TopicList(topic_list=("a",), broker_addr="b:1").to_json() == b'{"brokerAddr":"b:1","topicList":["a"]}'
