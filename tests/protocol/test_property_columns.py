from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fixtures import vectors
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.protocol.properties import decode_properties
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.spans import Spans

DECODED = [case for case in vectors("ids", "decprops") if case["text"] is not None]

# "Aa" and "BB" have one Java hash.
NAMES = ["a", "Aa", "BB", "中", "UNIQ_KEY", "UNIQ_KEYS", "a name so long"]
rough_texts = st.lists(
    st.lists(st.sampled_from(["\x01", "\x01", "\x02", "\x02", "\x00", "DELAY", "K", *NAMES]), max_size=15).map("".join)
)
tidy_texts = st.lists(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.text("xyz中", min_size=1))).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    )
)
# Many texts are laid out in another way than few; one that is much longer than the others turns that back.
many_texts = st.builds(
    lambda texts, times, last: texts * times + [last],
    rough_texts | tidy_texts,
    st.sampled_from([1, 40, 100]),
    st.sampled_from(["", "a\x01b", "a\x01" + "b" * 5000]),
)
any_texts = rough_texts | tidy_texts | many_texts


def parse(texts: list[str]) -> PropertyColumns:
    return PropertyColumns.parse(Spans.of([text.encode() for text in texts]))


def pairs_by_record(columns: PropertyColumns) -> list[list[tuple[str, str]]]:
    names = [name.decode() for name in columns.names.tolist()]
    values = [value.decode() for value in columns.values.tolist()]
    pairs = list(zip(names, values, strict=True))
    bounds = columns.offsets.tolist()
    return [pairs[bounds[row] : bounds[row + 1]] for row in range(columns.record_count)]


@pytest.mark.parametrize("case", DECODED, ids=lambda case: repr(case["text"]))
def test_a_text_is_read_as_java_reads_it(case: dict[str, Any]) -> None:
    assert dict(pairs_by_record(parse([case["text"]]))[0]) == case["expect"]["props"]


def test_all_texts_together_are_read_as_java_reads_them() -> None:
    records = pairs_by_record(parse([case["text"] for case in DECODED]))
    assert [dict(pairs) for pairs in records] == [case["expect"]["props"] for case in DECODED]


@given(any_texts)
@example([])
@example([""])
@example(["a\x01x\x02", "", "b\x01y"])
def test_distinct_pairs_are_those_of_the_plain_reader(texts: list[str]) -> None:
    records = pairs_by_record(parse(texts).distinct())
    assert [dict(pairs) for pairs in records] == [decode_properties(text) for text in texts]
    assert all(len(pairs) == len(dict(pairs)) for pairs in records)


@given(any_texts | st.lists(st.text(st.sampled_from("a\x01\x02中\ud800"))))
@example([])
def test_texts_need_not_be_encoded_first(texts: list[str]) -> None:
    encoded = PropertyColumns.parse(Spans.of([text.encode("utf-8", "replace") for text in texts]))
    columns = PropertyColumns.parse_texts(texts)
    assert pairs_by_record(columns) == pairs_by_record(encoded)
    assert columns.rows.tolist() == encoded.rows.tolist()


@given(any_texts, st.sampled_from(NAMES))
def test_the_records_that_have_a_property_are_those_with_something_in_its_column(texts: list[str], name: str) -> None:
    columns = parse(texts)
    rows, values = columns.having(name.encode())
    column = columns.column(name.encode())
    assert rows.tolist() == column.present.nonzero()[0].tolist()
    assert values.tolist() == column[column.present].tolist()


@given(any_texts, st.sampled_from(["ab", "aa", "", "a\x01x", "a\x00", "KEY", *NAMES]))
def test_a_column_holds_the_value_that_counts_or_nothing(texts: list[str], name: str) -> None:
    column = parse(texts).column(name.encode())
    expected = [decode_properties(text).get(name) for text in texts]
    assert column.tolist() == [(value or "").encode() for value in expected]
    assert column.present.tolist() == [value is not None for value in expected]


@given(any_texts, st.sampled_from(["a", "U", "UNIQ_K", "UNIQ_KEY", "DELAY", "中"]))
def test_pairs_are_found_by_how_their_names_begin(texts: list[str], head: str) -> None:
    columns = parse(texts)
    names = columns.names.tolist()
    expected = [pair for pair, name in enumerate(names) if name.startswith(head.encode())]
    assert columns.find_heads(head.encode()).tolist() == expected


def test_a_pair_is_found_at_the_very_end_of_the_last_text() -> None:
    columns = parse(["a\x01b\x02"] * 100 + ["x\x01y"])
    assert columns.find(b"x").tolist() == [100]
    assert columns.column(b"x")[-1:].tolist() == [b"y"]


def test_texts_are_read_in_any_order_and_as_often_as_they_are_named() -> None:
    texts = Spans.of([b"a\x01first\x02", b"b\x01second", b"a\x01third"])
    rows = np.array([2, 0, 1, 0] * 30)
    assert PropertyColumns.parse(texts[rows]).column(b"a").tolist() == [b"third", b"first", b"", b"first"] * 30


def test_bytes_that_are_no_text_are_kept_as_they_are() -> None:
    columns = PropertyColumns.parse(Spans.of([b"\xff\x01\xe4\x02", b"\x00\x01\x00"]))
    assert columns.names.tolist() == [b"\xff", b"\x00"]
    assert columns.values.tolist() == [b"\xe4", b"\x00"]
    assert columns.distinct().rows.tolist() == [0, 1]


def test_names_with_one_hash_are_both_kept() -> None:
    columns = parse(["Aa\x011\x02BB\x012\x02Aa\x013\x02"]).distinct()
    assert pairs_by_record(columns) == [[("BB", "2"), ("Aa", "3")]]
