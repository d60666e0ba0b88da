"""The key-value configuration in memory, and its form as a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.namesrv import key_values
from pocketmq.namesrv.key_values import ORDER_TOPICS, KeyValues, KeyValuesFullError
from pocketmq.protocol.errors import RemoteProtocolError

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def test_a_value_is_found_under_its_namespace_and_key() -> None:
    made = KeyValues()
    made.put("n", "k", "v")
    made.put("n", "l", "w")
    made.put(ORDER_TOPICS, "k", "b:4")
    assert (made.get("n", "k"), made.get("n", "l"), made.get("ORDER_TOPIC_CONFIG", "k")) == ("v", "w", "b:4")
    assert made.namespace("n") == {"k": "v", "l": "w"}
    assert repr(made) == "<KeyValues 2 namespaces>"


def test_what_is_not_there_is_none() -> None:
    made = KeyValues({"n": {"k": "v"}})
    assert (made.get("n", "l"), made.get("m", "k"), made.namespace("m")) == (None, None, None)


def test_a_value_is_replaced() -> None:
    made = KeyValues({"n": {"k": "v"}})
    made.put("n", "k", "")
    assert made.get("n", "k") == ""


def test_a_namespace_outlives_its_last_key() -> None:
    made = KeyValues({"n": {"k": "v"}})
    made.delete("n", "k")
    assert (made.get("n", "k"), made.namespace("n")) == (None, {})


def test_nothing_is_deleted_that_is_not_there() -> None:
    made = KeyValues({"n": {"k": "v"}})
    made.delete("n", "l")
    made.delete("m", "k")
    assert (made.namespace("n"), made.namespace("m")) == ({"k": "v"}, None)


def test_the_tables_belong_to_it_alone() -> None:
    given = {"n": {"k": "v"}}
    KeyValues(given).put("n", "k", "w")
    assert given == {"n": {"k": "v"}}


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, WORDS)))
def test_the_file_reads_back_the_same(namespaces: dict[str, dict[str, str]]) -> None:
    read = KeyValues.from_json(KeyValues(namespaces).to_json())
    assert {name: read.namespace(name) for name in namespaces} == namespaces
    assert read.to_json() == KeyValues(namespaces).to_json()


def test_rocketmqs_own_file_is_read_and_written() -> None:
    data = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:8"}}}'
    read = KeyValues.from_json(data)
    assert read.namespace(ORDER_TOPICS) == {"T": "broker-a:8"}
    assert read.to_json() == data
    assert KeyValues.from_json(b"{}").to_json() == KeyValues().to_json() == b'{"configTable":{}}'


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"configTable":[]}', b'{"configTable":{"n":"v"}}', b"\xff"])
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        KeyValues.from_json(data)


# --- there is an end to it


def test_it_is_full_at_a_limit_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "MAX_SIZE", 500)
    made = KeyValues()
    made.put("n", "k", "v" * 300)
    before = made.to_json()
    for namespace, key in (("n", "l"), ("m", "k")):
        with pytest.raises(KeyValuesFullError, match="the key-value configuration is full: 500 characters are kept"):
            made.put(namespace, key, "w" * 300)
    assert made.to_json() == before


def test_a_full_configuration_can_be_changed_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "MAX_SIZE", 500)
    made = KeyValues({"n": {"k": "v" * 300}})
    made.put("n", "k", "w" * 300)
    with pytest.raises(KeyValuesFullError):
        made.put("n", "k", "w" * 400)
    made.put("n", "k", "short")
    made.put("n", "l", "w" * 200)
    made.delete("n", "l")
    made.delete("n", "l")
    made.put("n", "l", "w" * 200)
    with pytest.raises(KeyValuesFullError):
        made.put("n", "m", "w" * 200)


def test_a_file_above_the_limit_is_read_and_can_only_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    data = KeyValues({"n": {"k": "v" * 1000}}).to_json()
    monkeypatch.setattr(key_values, "MAX_SIZE", 500)
    made = KeyValues.from_json(data)
    made.put("n", "k", "v" * 900)
    with pytest.raises(KeyValuesFullError):
        made.put("n", "l", "")
    made.put("n", "k", "")
    made.put("n", "l", "")


def test_many_small_entries_fill_it_as_few_large_ones_do() -> None:
    made = KeyValues({str(number): {} for number in range(20_000)})
    with pytest.raises(KeyValuesFullError):
        made.put("n", "", "")


def test_a_namespace_takes_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "MAX_SIZE", 5 * (1 + 64 + 64))
    made = KeyValues()
    for number in range(5):
        made.put(str(number), "", "")
    with pytest.raises(KeyValuesFullError):
        made.put("5", "", "")


def test_a_flood_of_changes_takes_no_longer_for_each_as_it_grows() -> None:
    # Quadratic work would show here as minutes.
    made = KeyValues({"n": {str(number): "" for number in range(10_000)}})
    for number in range(200_000):
        made.put("n", str(number % 10_000), "v")
    assert made.get("n", "9999") == "v"
