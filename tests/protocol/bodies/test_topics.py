"""Topics and consumer groups: what an absent setting means."""

from __future__ import annotations

from pocketmq.protocol.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigList,
    TopicConfigSerializeWrapper,
    TopicFilterType,
)

GROUP = (
    b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,'
    b'"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupSysFlag":0,'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
)
TOPIC = (
    b'{"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,'
    b'"writeQueueNums":16}'
)


def test_a_group_has_the_defaults_of_rocketmq() -> None:
    assert SubscriptionGroupConfig.from_json('{"groupName":"g"}').to_json() == GROUP


def test_a_group_keeps_what_it_is_told() -> None:
    document = GROUP.replace(b"true", b"false").replace(b":16", b":-1")
    group = SubscriptionGroupConfig.from_json(document)
    assert [group.consume_enable, group.consume_from_min_enable, group.consume_broadcast_enable] == [False] * 3
    assert group.retry_max_times == -1
    assert group.to_json() == document


def test_a_group_of_5_0_keeps_its_retry_policy_and_subscriptions() -> None:
    document = (
        b'{"attributes":{"a":"b"},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g",'
        b'"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
        b'"retryMaxTimes":16,"retryQueueNums":1,"subscriptionDataSet":[{"topic":"T","version":0}],'
        b'"whichBrokerWhenConsumeSlowly":1}'
    )
    group = SubscriptionGroupConfig.from_json(document)
    assert group.group_retry_policy == {"type": "CUSTOMIZED"}
    assert group.subscription_data_set == ({"topic": "T", "version": 0},)
    assert group.to_json() == document


def test_a_topic_has_the_defaults_of_rocketmq() -> None:
    assert TopicConfig.from_json('{"topicName":"T"}').to_json() == TOPIC
    assert TopicConfig.from_json('{"topicName":"T","topicFilterType":1}').topic_filter_type is TopicFilterType.MULTI_TAG


def test_tables_of_topics_and_groups_may_be_empty_or_absent() -> None:
    assert TopicConfigSerializeWrapper.from_json("{}").to_json() == (
        b'{"dataVersion":{"counter":0,"timestamp":0},"topicConfigTable":{}}'
    )
    assert SubscriptionGroupWrapper.from_json('{"forbiddenTable":{"g":{"T":1}}}').forbidden_table == {"g": {"T": 1}}


def test_several_topics_or_groups_travel_as_lists() -> None:
    assert TopicConfigList.from_json(b'{"topicConfigList":[%b]}' % TOPIC).topic_config_list == (
        TopicConfig(topic_name="T"),
    )
    assert SubscriptionGroupList(group_config_list=(SubscriptionGroupConfig(group_name="g"),)).to_json() == (
        b'{"groupConfigList":[%b]}' % GROUP
    )
