"""What a broker tells about its queues, groups and connections."""

from __future__ import annotations

from pocketmq.protocol.bodies import (
    BrokerStatsData,
    BrokerStatsItem,
    Connection,
    ConsumerConnection,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpan,
    ConsumeType,
    MessageQueue,
    OffsetWrapper,
    ProducerTable,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)

QUEUE = MessageQueue("T", "b", 0)


def test_offsets_stand_under_their_queues() -> None:
    table = TopicStatsTable(offset_table={QUEUE: TopicOffset(max_offset=9)})
    assert table.to_json() == (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":9,"minOffset":0}}}'
    )
    assert TopicStatsTable.from_json(table.to_json()) == table


def test_a_broker_lists_its_groups_one_map_after_the_other() -> None:
    stats = ConsumeStats(offset_table={QUEUE: OffsetWrapper(broker_offset=9, consumer_offset=4)}, consume_tps=1.5)
    both = ConsumeStatsList(consume_stats_list=({"g1": (stats,)}, {"g2": ()}), broker_addr="b:1", total_diff=5)
    document = both.to_json()
    assert document.startswith(b'{"brokerAddr":"b:1","consumeStatsList":[{"g1":[{"consumeTps":1.5,"offsetTable":{{')
    assert ConsumeStatsList.from_json(document) == both


def test_rates_may_come_as_whole_numbers_and_leave_as_fractions() -> None:
    data = BrokerStatsData.from_json('{"statsMinute":{"sum":3,"tps":1,"avgpt":"0.5"},"statsHour":null}')
    assert data == BrokerStatsData(stats_minute=BrokerStatsItem(sum=3, tps=1.0, avgpt=0.5))
    assert data.to_json().startswith(b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},')


def test_the_times_of_a_queue_may_come_as_text_as_well() -> None:
    document = (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":2,"delayTime":1,"maxTimeStamp":3,"messageQueue":'
        b'{"brokerName":"b","queueId":0,"topic":"T"},"minTimeStamp":1,"minTimeStampStr":"1970-01-01#00:00:00:001"}]}'
    )
    (span,) = ConsumeTimeSpan.from_json(document).consume_time_span_set
    assert span == QueueTimeSpan(
        message_queue=QUEUE,
        min_time_stamp=1,
        max_time_stamp=3,
        consume_time_stamp=2,
        delay_time=1,
        min_time_stamp_str="1970-01-01#00:00:00:001",
    )
    assert ConsumeTimeSpan(consume_time_span_set=(span,)).to_json() == document


def test_a_language_is_any_text() -> None:
    document = (
        '{"connectionSet":[{"clientId":"c","clientAddr":"1.2.3.4:5","language":"COBOL","version":407}],"consumeType":1}'
    )
    connection = ConsumerConnection.from_json(document)
    assert connection.connection_set == (
        Connection(client_id="c", client_addr="1.2.3.4:5", language="COBOL", version=407),
    )
    assert connection.consume_type is ConsumeType.CONSUME_PASSIVELY


def test_producers_are_listed_by_group() -> None:
    document = (
        b'{"data":{"g":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":5,"remoteIP":"1.2.3.4:5",'
        b'"version":407}]}}'
    )
    assert ProducerTable.from_json(document).data["g"][0].remote_ip == "1.2.3.4:5"
    assert ProducerTable.from_json(document).to_json() == document
