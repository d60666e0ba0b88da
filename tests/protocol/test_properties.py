"""Property text: what is written, what Java's reader makes of any text, and the quick look-up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fixtures import vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.properties import (
    Property,
    append_property,
    decode_properties,
    encode_properties,
    find_property,
)

ENCODED = vectors("ids", "encprops")

# Texts in which separators, empty parts and repeated names are frequent.
rough_text = st.text("\x01\x02ab", max_size=30)
part = st.text(st.characters(exclude_characters="\x01\x02"), min_size=1)


def holds_separator(pairs: dict[str, Any]) -> bool:
    return any(mark in part for pair in pairs.items() for part in pair if part for mark in "\x01\x02")


def test_the_text_is_that_of_java_5() -> None:
    for case in ENCODED:
        pairs = dict(case["pairs"])
        expect = case.get("expect_5") or case["expect"]
        if holds_separator(pairs) or "" in pairs:
            with pytest.raises(LocalProtocolError):
                encode_properties(pairs)
        else:
            assert encode_properties(pairs) == expect["text"]


def test_texts_of_java_4_and_5_read_back_as_in_java() -> None:
    for case in ENCODED:
        for expect in (case[key] for key in ("expect", "expect_4", "expect_5") if key in case):
            assert decode_properties(expect["text"]) == expect["back"]


def test_any_text_reads_as_in_java() -> None:
    for case in vectors("ids", "decprops"):
        assert decode_properties(case["text"] or "") == case["expect"]["props"]


def test_what_java_lets_a_user_set_survives_or_is_refused_aloud() -> None:
    accepted = [expect["props"] for case in vectors("ids", "putprop") if "props" in (expect := case.get("expect", {}))]
    assert len(accepted) > 4
    for properties in accepted:
        if holds_separator(properties):  # Java sends it, and something else arrives
            with pytest.raises(LocalProtocolError):
                encode_properties(properties)
        else:
            assert decode_properties(encode_properties(properties)) == properties


def test_keys_travel_as_one_property_in_the_text_that_java_makes_of_them() -> None:
    for case in vectors("ids", "keys"):
        text = " ".join(case["keys"])
        assert text == case["expect"]["text"]
        assert find_property(encode_properties({Property.KEYS: text}), Property.KEYS) == (text or None)


def test_order_is_kept_and_none_is_left_out() -> None:
    assert encode_properties({"b": "1", "gone": None, "a": "2"}) == "b\x011\x02a\x012\x02"


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"": None},
        {"a\x01": "v"},
        {"a": "\x02"},
        {"a\x01b": "c\x02d"},
        {"a\x02": None, "b": "\x01"},
    ],
)
def test_what_would_not_read_back_is_refused(properties: dict[str, str | None]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)


@given(st.dictionaries(part, part))
def test_properties_survive_the_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize("text", ["", "a\x011", "a\x011\x02"])
def test_appending_closes_the_last_pair_first(text: str) -> None:
    assert decode_properties(append_property(text, "b", "2")) == decode_properties(text) | {"b": "2"}
    assert append_property(text, "b", "2").endswith("b\x012\x02")


@given(rough_text)
def test_an_appended_property_wins(text: str) -> None:
    assert decode_properties(append_property(text, "a", "x")) == decode_properties(text) | {"a": "x"}


def test_appending_refuses_what_writing_refuses() -> None:
    with pytest.raises(LocalProtocolError):
        append_property("a\x011", "b", "\x02")


@given(rough_text, st.sampled_from(["a", "b", "ab", "", "\x01", "a\x01", "\x02a"]))
def test_the_quick_look_up_agrees_with_the_dictionary(text: str, name: str) -> None:
    assert find_property(text, name) == decode_properties(text).get(name)


def test_looking_up_in_a_hostile_text_takes_linear_time() -> None:
    text = "TAGS\x01\x02" * 200_000
    before = time.perf_counter()
    assert find_property(text, Property.TAGS) is None
    assert time.perf_counter() - before < 2


def test_no_two_names_are_spelled_alike() -> None:
    names = [value for name, value in vars(Property).items() if name.isupper()]
    assert len(names) == len(set(names)) > 60
    assert Property.UNIQ_KEY == "UNIQ_KEY"
