"""JSON values become Python values as leniently as in RocketMQ's own reader, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.common import MessageQueue
from pocketmq.protocol.bodies.converters import BodyError, converter
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fastjson import ObjectKey


class Model(IntEnum):
    BROADCASTING = 0
    CLUSTERING = 1


QUEUE = MessageQueue("T", "b", 3)
QUEUE_OBJECT = {"brokerName": "b", "queueId": 3, "topic": "T"}

HINTS: list[Any] = [
    str,
    int,
    float,
    bool,
    bytes,
    Model,
    MessageQueue,
    tuple[int, ...],
    frozenset[str],
    Mapping[int, str],
    Mapping[MessageQueue, int],
]


@pytest.mark.parametrize(
    ("hint", "value", "read"),
    [
        (str, "x", "x"),
        (str, "", ""),
        (str, 12, "12"),
        (str, True, "true"),
        (str, False, "false"),
        (str, 1.5, "1.5"),
        (int, 12, 12),
        (int, "12", 12),
        (int, "-12", -12),
        (int, "+12", 12),
        (int, "007", 7),
        (int, 12.0, 12),
        (int, "1700000000000000000", 1_700_000_000_000_000_000),
        (int, 2**63 - 1, 2**63 - 1),
        (int, "-9223372036854775808", -(2**63)),
        (float, 1.5, 1.5),
        (float, 2, 2.0),
        (float, "2.5e3", 2500.0),
        (bool, True, True),
        (bool, False, False),
        (bool, "true", True),
        (bool, "FALSE", False),
        (bool, 1, True),
        (bool, 0, False),
        (bool, "1", True),
        (bytes, "AQI=", b"\x01\x02"),
        (bytes, "", b""),
        (Model, "CLUSTERING", Model.CLUSTERING),
        (Model, 1, Model.CLUSTERING),
        (Model, "0", Model.BROADCASTING),
        (MessageQueue, QUEUE_OBJECT, QUEUE),
        (MessageQueue, {**QUEUE_OBJECT, "queueId": "3", "other": 1}, QUEUE),
        (tuple[int, ...], ["1", 2, None, 3.0], (1, 2, 3)),
        (frozenset[int], ["2598919", 2598919, None], frozenset({2598919})),
        (Mapping[int, str], {"0": "a", 1: "b", "2": None}, {0: "a", 1: "b"}),
        (Mapping[str, int], {"a": "1", 2: 2}, {"a": 1, "2": 2}),
        (Mapping[MessageQueue, int], {ObjectKey(QUEUE_OBJECT.items()): "12"}, {QUEUE: 12}),
        (Mapping[str, tuple[Model, ...]], {"a": [0, "CLUSTERING"]}, {"a": (Model.BROADCASTING, Model.CLUSTERING)}),
        (int | None, "5", 5),
        (Optional[int], 5, 5),  # noqa: UP045 - the other spelling of the same
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
def test_a_value_is_read(hint: Any, value: Any, read: Any) -> None:
    result = converter(hint).read(value)
    assert result == read
    assert type(result) is type(read)


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (str, [], "expected text, got an array"),
        (str, {}, "expected text, got an object"),
        (int, True, "expected an integer, got true"),
        (int, "", 'expected an integer, got ""'),
        (int, " 1", 'expected an integer, got " 1"'),
        (int, "1.0", 'expected an integer, got "1.0"'),
        (int, "1_0", 'expected an integer, got "1_0"'),
        (int, "١", "expected an integer"),
        (int, 1.5, "expected an integer, got 1.5"),
        (int, 2**63, "expected a 64-bit integer, got 9223372036854775808"),
        (int, "9223372036854775808", "expected a 64-bit integer"),
        (int, 1e30, "expected a 64-bit integer"),
        (int, "1" * 20, "expected an integer"),
        (int, [], "expected an integer, got an array"),
        (float, True, "expected a number, got true"),
        (float, "much", 'expected a number, got "much"'),
        (float, "nan", 'expected a number, got "nan"'),
        (float, "1e999", "expected a number"),
        (float, {}, "expected a number, got an object"),
        (bool, "yes", 'expected true or false, got "yes"'),
        (bool, 2, "expected true or false, got 2"),
        (bool, [], "expected text, got an array"),
        (bytes, "AQI", 'expected base64, got "AQI"'),
        (bytes, "A Q I=", "expected base64"),
        (bytes, "é", "expected base64"),
        (bytes, [1], "expected text, got an array"),
        (Model, "clustering", 'expected one of BROADCASTING, CLUSTERING, got "clustering"'),
        (Model, 2, "expected one of BROADCASTING, CLUSTERING, got 2"),
        (Model, -1, "expected one of"),
        (Model, True, "expected one of"),
        (Model, {}, "expected text, got an object"),
        (MessageQueue, {"topic": "T", "queueId": 0}, "expected an object with brokerName, queueId and topic"),
        (MessageQueue, [], "expected an object with"),
        (MessageQueue, "b", "expected an object with"),
        (MessageQueue, {**QUEUE_OBJECT, "topic": None}, "expected text, got null"),
        (tuple[int, ...], {}, "expected an array, got an object"),
        (tuple[int, ...], "1", 'expected an array, got "1"'),
        (tuple[int, ...], [1, "x"], r"\[1\]: expected an integer"),
        (Mapping[str, int], [], "expected an object, got an array"),
        (Mapping[str, int], {"a": "x"}, r'\["a"\]: expected an integer'),
        (Mapping[int, int], {"a": 1}, 'expected an integer, got "a"'),
        (Mapping[str, int], {ObjectKey(): 1}, "expected text, got an object"),
        (Mapping[int, tuple[int, ...]], {0: [1, []]}, r"\[0\]\[1\]: expected an integer, got an array"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(hint: Any, value: Any, problem: str) -> None:
    with pytest.raises(BodyError, match=f"^{problem}"):
        converter(hint).read(value)


@pytest.mark.parametrize(
    ("hint", "value", "written"),
    [
        (str, "x", b'"x"'),
        (int, -1, b"-1"),
        (float, 2, b"2.0"),
        (bool, True, b"true"),
        (bytes, b"\x01\x02", b'"AQI="'),
        (Model, Model.CLUSTERING, b'"CLUSTERING"'),
        (MessageQueue, QUEUE, b'{"brokerName":"b","queueId":3,"topic":"T"}'),
        (tuple[str, ...], ("b", "a"), b'["b","a"]'),
        (frozenset[str], frozenset("cab"), b'["a","b","c"]'),
        (frozenset[int], frozenset({10, 9, -1}), b"[-1,9,10]"),
        (Mapping[int, str], {1: "b", 0: "a"}, b'{"1":"b","0":"a"}'),
        (Mapping[MessageQueue, int], {QUEUE: 12}, b'{{"brokerName":"b","queueId":3,"topic":"T"}:12}'),
    ],
)
def test_a_value_is_written(hint: Any, value: Any, written: bytes) -> None:
    assert fastjson.dumps(converter(hint).write(value)) == written


texts = st.text(st.characters(codec="utf-8"), max_size=5)
scalars = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner | st.none(), max_size=3) | st.dictionaries(texts, inner | st.none(), max_size=3),
    max_leaves=6,
)


@given(documents, st.sampled_from(HINTS))
def test_any_value_is_read_or_refused(document: Any, hint: Any) -> None:
    convert = converter(hint)
    try:
        value = convert.read(document)
    except BodyError:
        return
    assert convert.read(convert.write(value)) == value


def test_an_error_knows_its_path() -> None:
    error = BodyError("missing", ".name").within("[3]").within(".leaves")
    assert (error.path, error.problem, str(error)) == (".leaves[3].name", "missing", "leaves[3].name: missing")
    assert str(BodyError("missing")) == "missing"
    assert isinstance(error, RemoteProtocolError)
