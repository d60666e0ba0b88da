"""What a running consumer tells: Java's spelling, Go's spelling, and results by name or ordinal."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumeResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    MessageQueue,
    ProcessQueueInfo,
)

QUEUE = MessageQueue("T", "b", 0)


@pytest.mark.parametrize("name", ["droped", "dropped"])
def test_a_dropped_queue_is_understood_in_either_spelling_and_told_in_both(name: str) -> None:
    info = ProcessQueueInfo.from_json(f'{{"commitOffset":5,"{name}":true,"cachedMsgSizeInMiB":2}}')
    assert info == ProcessQueueInfo(commit_offset=5, dropped=True, cached_msg_size_in_mib=2)
    assert b'"droped":true,"dropped":true' in info.to_json()


@pytest.mark.parametrize("result", ['"CR_THROW_EXCEPTION"', "4", '"4"'])
def test_a_result_is_a_name_or_an_ordinal(result: str) -> None:
    document = f'{{"order":false,"autoCommit":true,"consumeResult":{result},"remark":"r","spentTimeMills":7}}'
    told = ConsumeMessageDirectlyResult.from_json(document)
    assert told.consume_result is ConsumeResult.CR_THROW_EXCEPTION
    assert told.to_json() == (
        b'{"autoCommit":true,"consumeResult":"CR_THROW_EXCEPTION","order":false,"remark":"r","spentTimeMills":7}'
    )


def test_queues_and_topics_of_a_consumer_are_tables() -> None:
    info = ConsumerRunningInfo(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        mq_table={QUEUE: ProcessQueueInfo(commit_offset=5)},
        mq_pop_table={QUEUE: {"waitAckCount": 1}},
        status_table={"T": ConsumeStatus(pull_rt=1.5, consume_ok_tps=2.0)},
    )
    document = info.to_json()
    assert b'"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"cachedMsgCount":0,' in document
    assert b'"T":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":2.0,' in document
    assert ConsumerRunningInfo.from_json(document) == info
    assert ConsumerRunningInfo.from_json("{}") == ConsumerRunningInfo()
