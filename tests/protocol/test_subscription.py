"""Subscription expressions mean what they mean to RocketMQ's own classes."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures import vectors

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies import SubscriptionData
from pocketmq.protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from pocketmq.protocol.hashes import tags_code
from pocketmq.protocol.subscription import ALL, SQL92, TAG, SubscriptionError, check_expression, tags_of

CASES = vectors("subscriptions")
SUB_VERSION = 1_700_000_000_000


def as_sets(document: dict[str, Any]) -> dict[str, Any]:
    """A subscription as JSON; the order of its sets is that of Java's hash tables."""
    return document | {name: sorted(document[name]) for name in ("tagsSet", "codeSet")}


def build(case: dict[str, Any]) -> SubscriptionData:
    return SubscriptionData.build(case["topic"], case["sub"], case.get("type"), SUB_VERSION)


def test_there_is_a_case_for_every_way_to_make_a_subscription() -> None:
    assert len(CASES) == 131
    assert {case["via"] for case in CASES} == {"plain", "build", "typed"}


@pytest.mark.parametrize("case", [case for case in CASES if case["via"] != "typed"])
def test_a_subscription_is_the_one_that_java_builds(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(SubscriptionError):
            build(case)
        return
    subscription = build(case)
    assert subscription.sub_string == expect["subString"]
    assert subscription.tags_set == {*expect["tagsSet"]}
    assert subscription.code_set == {*expect["codeSet"]}
    assert subscription.expression_type == expect["expressionType"]
    assert subscription.class_filter_mode is expect["classFilterMode"]
    java = fastjson.loads(expect["json"])
    assert as_sets(fastjson.loads(subscription.to_json())) == as_sets(java)
    assert SubscriptionData.from_value(java) == subscription


@pytest.mark.parametrize("case", [case for case in CASES if case["via"] == "typed"])
def test_java_reads_the_tags_of_a_text_alike_whatever_type_it_is_given(case: dict[str, Any]) -> None:
    expect = case["expect"]
    sub_string = check_expression(case["sub"], TAG)
    assert sub_string == expect["subString"]
    assert tags_of(sub_string) == {*expect["tagsSet"]}
    if case["type"] in (None, TAG):
        assert as_sets(fastjson.loads(build(case).to_json())) == as_sets(fastjson.loads(expect["json"]))


@pytest.mark.parametrize("case", [case for case in CASES if "match" in case["expect"]])
def test_the_codes_of_a_subscription_pick_the_messages_that_java_picks(case: dict[str, Any]) -> None:
    subscription = build(case)
    for tag, matches in case["expect"]["match"].items():
        code = tags_code(None if tag == "null" else tag)
        assert (subscription.sub_string == ALL or code in subscription.code_set) == matches


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", set()),
        (" ", set()),
        ("TagA||TagB", {"TagA", "TagB"}),
        ("  TagA  ||\tTagB\n", {"TagA", "TagB"}),
        ("\x00TagA\x1f", {"TagA"}),
        ("\u3000TagA\u00a0", {"\u3000TagA\u00a0"}),  # blank to Python, not to Java's trim()
        ("TagA|TagB", {"TagA|TagB"}),
        (" * ", {"*"}),
        ("* || TagA", {"*", "TagA"}),
        ("标签", {"标签"}),
    ],
)
def test_tags_are_trimmed_as_by_java(expression: str, tags: set[str]) -> None:
    assert tags_of(expression) == tags


@pytest.mark.parametrize("expression", ["||", "||||", ""])
def test_an_expression_of_separators_alone_is_an_error(expression: str) -> None:
    with pytest.raises(SubscriptionError, match="no tag in"):
        tags_of(expression)


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_means_every_message_but_only_for_tags(nothing: str | None) -> None:
    assert check_expression(nothing, TAG) == ALL
    for other in (SQL92, "tag", ""):
        with pytest.raises(SubscriptionError, match="must not be empty"):
            check_expression(nothing, other)


def test_another_type_takes_the_text_as_it_is() -> None:
    subscription = SubscriptionData.build("T", "a > 5 || b", SQL92)
    assert subscription.sub_string == "a > 5 || b"
    assert not subscription.tags_set
    assert not subscription.code_set
    assert check_expression("||", SQL92) == "||"


def test_an_expression_may_be_our_own_or_the_peers_so_its_error_is_neither_sides() -> None:
    assert issubclass(SubscriptionError, ProtocolError)
    assert not issubclass(SubscriptionError, LocalProtocolError | RemoteProtocolError)
