"""Tables of offsets: maps with queues as keys, the list that C++ clients get, the pairs of Go."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import (
    BodyError,
    ConsumerOffsetTable,
    CorrectionOffsets,
    DataVersion,
    DelayOffsetTable,
    GetConsumerStatusBody,
    MessageQueue,
    ResetOffsetBody,
)
from pocketmq.protocol.errors import RemoteProtocolError

TABLE = ResetOffsetBody(offset_table={MessageQueue("T", "broker-a", 0): 12, MessageQueue("T", "broker-a", 1): 13})
MAP = (
    b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:12,'
    b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:13}}'
)
LIST = (
    b'{"offsetTable":[{"brokerName":"broker-a","queueId":0,"topic":"T","offset":12},'
    b'{"brokerName":"broker-a","queueId":1,"topic":"T","offset":13}]}'
)
PAIRS = (
    b'{"offsetTable":[[{"brokerName":"broker-a","queueId":0,"topic":"T"},12],'
    b'[{"brokerName":"broker-a","queueId":1,"topic":"T"},13]]}'
)


def test_queues_are_keys_with_their_members_in_order() -> None:
    assert TABLE.to_json() == MAP


def test_clients_written_in_cpp_get_a_list() -> None:
    assert TABLE.to_list_json() == LIST
    assert ResetOffsetBody().to_list_json() == b'{"offsetTable":[]}'


@pytest.mark.parametrize("document", [MAP, LIST, PAIRS], ids=["map", "list", "pairs"])
def test_all_three_forms_are_read(document: bytes) -> None:
    assert ResetOffsetBody.from_json(document) == TABLE
    assert ResetOffsetBody.from_json(document + b"\n") == TABLE


def test_the_order_of_members_and_numbers_as_text_do_not_matter() -> None:
    document = '{"offsetTable":{{"topic":"T","queueId":"0","brokerName":"broker-a"}:"12"}}'
    assert ResetOffsetBody.from_json(document).offset_table == {MessageQueue("T", "broker-a", 0): 12}
    document = '{"offsetTable":[{"offset":"12","topic":"T","brokerName":"broker-a","queueId":"0"}]}'
    assert ResetOffsetBody.from_json(document).offset_table == {MessageQueue("T", "broker-a", 0): 12}


def test_an_empty_table_is_empty_in_every_form() -> None:
    for document in ("{}", '{"offsetTable":null}', '{"offsetTable":{}}', '{"offsetTable":[]}'):
        assert ResetOffsetBody.from_json(document) == ResetOffsetBody()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[1]", "expected a queue and its offset"),
        ("[[1,2]]", "expected a queue and its offset"),
        ('[[{"brokerName":"b","queueId":0,"topic":"T"}]]', "expected a queue and its offset"),
        ('[[{"brokerName":"b","queueId":0,"topic":"T"},1,2]]', "expected a queue and its offset"),
        ('["ab"]', "expected a queue and its offset"),
        ('[{"brokerName":"b","queueId":0,"topic":"T"}]', "expected a queue and its offset"),
        ('[{"brokerName":"b","queueId":0,"offset":1}]', "expected an object with brokerName, queueId and topic"),
        ('[[{"brokerName":"b","queueId":"x","topic":"T"},1]]', 'expected an integer, got "x"'),
        ('{{"brokerName":"b","queueId":0}:1}', "expected an object with brokerName, queueId and topic"),
        ('{"MessageQueue":1}', "expected an object with brokerName, queueId and topic"),
        ("7", "expected an object, got 7"),
    ],
)
def test_anything_else_is_refused_under_its_name(table: str, problem: str) -> None:
    with pytest.raises(BodyError) as caught:
        ResetOffsetBody.from_json(f'{{"offsetTable":{table}}}')
    assert str(caught.value) == f"offsetTable: {problem}"


def test_an_offset_that_is_no_number_is_refused() -> None:
    for document in (MAP, LIST, PAIRS):
        with pytest.raises(RemoteProtocolError, match="expected an integer"):
            ResetOffsetBody.from_json(document.replace(b"13", b'"x"'))


def test_a_consumer_tells_its_offsets_and_a_broker_those_of_every_consumer() -> None:
    offsets = {MessageQueue("T", "b", 0): 7}
    one = GetConsumerStatusBody(message_queue_table=offsets)
    assert one.to_json() == (b'{"consumerTable":{},"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}')
    assert (
        GetConsumerStatusBody.from_json('{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}') == one
    )
    every = GetConsumerStatusBody(consumer_table={"c1": offsets, "c2": {}})
    assert GetConsumerStatusBody.from_json(every.to_json()) == every


def test_all_offsets_of_a_broker_have_bare_queue_ids() -> None:
    document = b'{"offsetTable":{"T@g":{0:5,1:-1}}}'
    table = ConsumerOffsetTable.from_json(document)
    assert table == ConsumerOffsetTable(offset_table={"T@g": {0: 5, 1: -1}})
    assert table.to_json(bare_integer_keys=True) == document
    newer = ConsumerOffsetTable.from_json(
        '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"groupTopicMap":{"g":["T"]},'
        '"offsetTable":{"T@g":{"0":5}},"pullOffsetTable":{"T@g":{0:6}}}'
    )
    assert newer.data_version == DataVersion(counter=1, state_version=0, timestamp=2)
    assert (newer.offset_table, newer.pull_offset_table) == ({"T@g": {0: 5}}, {"T@g": {0: 6}})
    assert newer.group_topic_map == {"g": ("T",)}


def test_delay_levels_and_corrections_are_maps_of_integers() -> None:
    assert DelayOffsetTable.from_json('{"offsetTable":{3:10,"4":11}}').offset_table == {3: 10, 4: 11}
    assert CorrectionOffsets.from_json('{"correctionOffsets":{0:9}}').correction_offsets == {0: 9}
    assert CorrectionOffsets(correction_offsets={0: 9}).to_json() == b'{"correctionOffsets":{"0":9}}'
