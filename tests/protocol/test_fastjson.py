"""The JSON dialect: what is written, what is understood beyond JSON, and what nothing makes sense of."""

from __future__ import annotations

import contextlib
import json
import string
import time
from enum import Enum, IntEnum
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.protocol import fastjson
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.fastjson import MAX_DEPTH, MAX_DIALECT, MAX_INTEGER_KEYS, ObjectKey, dumps, loads

int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=10)
names = texts.filter(lambda name: name != "$ref")
scalars = st.none() | st.booleans() | int64s | st.floats(allow_nan=False, allow_infinity=False) | texts
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)

# Values of the dialect. Null stands in arrays only: a member that is null is not written.
members = st.booleans() | int64s | texts
object_keys = st.dictionaries(texts, members, max_size=3).map(lambda members: ObjectKey(members.items()))
dialect = st.recursive(
    members | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner | st.none(), max_size=4) | st.dictionaries(names | int64s | object_keys, inner, max_size=4)
    ),
    max_leaves=12,
)

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"b"}],'
    b'"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:12},"none":null,"tps":1.5e-3,"text":"\\u6807\\n"}'
)


def lenient(document: bytes) -> Any:
    """The value that the reader of the dialect finds, which plain documents never get to see."""
    return fastjson._Reader(document).document()


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal in kind as well: True is not 1 here, and 1 is not 1.0."""
    return repr(left) == repr(right)


# --- reading


def test_plain_json_is_read() -> None:
    assert loads('{"a":[1,-2.5,true,false,null,"x"],"b":{}}') == {"a": [1, -2.5, True, False, None, "x"], "b": {}}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_document_may_come_in_any_buffer(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert loads(kind(b'{0:"a"}')) == {0: "a"}
    assert loads(kind(b'{"0":"a"}')) == {"0": "a"}


def test_integer_keys_may_stand_bare() -> None:
    assert loads('{0:"a:10911",1:"b:10911",-7:{3:[]}}') == {0: "a:10911", 1: "b:10911", -7: {3: []}}


def test_a_bare_key_and_the_same_as_text_are_two() -> None:
    assert loads('{0:"a","0":"b"}') == {0: "a", "0": "b"}


def test_an_object_may_be_a_key() -> None:
    table = loads('{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:12,{"x":null}:13}}')["offsetTable"]
    first, second = table
    assert type(first) is type(second) is ObjectKey
    assert first == (("brokerName", "b"), ("queueId", 0), ("topic", "t"))
    assert dict(second) == {"x": None}
    assert list(table.values()) == [12, 13]


def test_the_key_of_an_object_may_be_an_object_again_only_if_it_is_a_key_itself() -> None:
    assert loads('{{{"a":1}:2}:3}') == {ObjectKey([(ObjectKey([("a", 1)]), 2)]): 3}
    for document in ('{{"a":{}}:1}', '{{"a":[1]}:1}'):
        with pytest.raises(RemoteProtocolError, match="only scalars"):
            loads(document)


@pytest.mark.parametrize("document", ["{0:1}\n", '{"a":1}\n', "\r\n\t {0:1} \n\n", '{"a" : [ 1 , 2 ] }\n', "[ ]\n"])
def test_blanks_mean_nothing(document: str) -> None:
    assert loads(document) == loads("".join(document.split()))


def test_a_reference_becomes_null() -> None:
    document = '{"a":{"x":1},"b":{"$ref":"$.a"},"c":[{"$ref":"$"},2],"d":{0:{"$ref":".."}}}'
    assert loads(document) == {"a": {"x": 1}, "b": None, "c": [None, 2], "d": {0: None}}
    assert loads('{"$ref":"$"}') is None


def test_only_an_object_that_is_nothing_else_is_a_reference() -> None:
    assert loads('{"$ref":"$.a","b":1}') == {"$ref": "$.a", "b": 1}
    assert loads('["$ref"]') == ["$ref"]
    assert loads(r'{"a":"\"$ref\""}') == {"a": '"$ref"'}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("9007199254740993", 2**53 + 1),
        ("18446744073709551616", float(2**64)),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("-0", 0),
    ],
)
def test_integers_are_exact_to_64_bits_and_floats_beyond(text: str, value: float) -> None:
    assert same(loads(f"[{text}]"), [value])
    assert same(loads(f"{{0:{text}}}"), {0: value})
    assert same(loads(f'{{{{"a":{text}}}:0}}'), {ObjectKey([("a", value)]): 0})


@pytest.mark.parametrize("key", [0, -1, 2**53 + 1, -(2**63), 2**64 - 1])
def test_bare_keys_are_exact_to_64_bits(key: int) -> None:
    assert same(loads(f'{{{key}:""}}'), {key: ""})


@pytest.mark.parametrize("document", ['{"a":1,"b":2,"a":3}', '{0:1,"b":2,0:3}', '{{"a":0}:1,"b":2,{"a":0}:3}'])
def test_of_two_equal_keys_the_last_counts_in_the_place_of_the_first(document: str) -> None:
    assert list(loads(document).values()) == [3, 2]


def test_the_last_of_two_equal_members_counts_inside_a_key_too() -> None:
    assert loads('{{"a":0,"a":1}:2}') == {ObjectKey([("a", 1)]): 2}


# --- agreement


@given(documents, st.sampled_from([None, 2]))
def test_the_reader_of_the_dialect_agrees_with_orjson(value: Any, indent: int | None) -> None:
    document = json.dumps(value, indent=indent).encode()
    assert same(lenient(document), orjson.loads(document))
    assert same(lenient(orjson.dumps(value)), value)


# Texts that are nearly numbers, literals or strings.
scraps = st.text('0123456789.eE+-tfnrualse "\\u\x00\t/', max_size=8) | st.sampled_from(
    ["01", "-", "1.", ".5", "1e", "+1", "NaN", "Infinity", "-Infinity", "True", "nul", '"\\x"', '"\\ud83d"', '"\t"']
)


@given(scraps)
def test_the_reader_of_the_dialect_agrees_with_orjson_about_scalars(text: str) -> None:
    document = text.encode()
    try:
        expected = orjson.loads(document)
    except orjson.JSONDecodeError:
        with pytest.raises(RemoteProtocolError):
            lenient(document)
    else:
        assert same(lenient(document), expected)


@pytest.mark.parametrize("key", ["true", "null", "1.5", "1e2", "[]", "18446744073709551616", "a", "'a'", "-", "01", ""])
def test_nothing_else_is_a_key(key: str) -> None:
    with pytest.raises(RemoteProtocolError):
        loads(f"{{{key}:1}}")


# --- depth


@pytest.mark.parametrize(
    ("opener", "closer"),
    [("[", "]"), ('{"a":', "}"), ("{0:", "}"), ("[{0:", "}]")],
    ids=["array", "object", "bare", "both"],
)
def test_a_document_may_be_nested_to_the_limit_and_no_deeper(opener: str, closer: str) -> None:
    levels = len(opener.rstrip('"a:0'))
    deepest = opener * (MAX_DEPTH // levels) + "1" + closer * (MAX_DEPTH // levels)
    assert loads(deepest)
    with pytest.raises(RemoteProtocolError, match="nested deeper than 64 levels"):
        loads(f"[{deepest}]")
    assert loads(f"[{deepest[len(opener) : -len(closer)]}]")


def test_a_key_counts_for_the_depth() -> None:
    assert loads("[" * (MAX_DEPTH - 2) + '{{"a":1}:2}' + "]" * (MAX_DEPTH - 2))
    with pytest.raises(RemoteProtocolError, match="nested deeper"):
        loads("[" * (MAX_DEPTH - 1) + '{{"a":1}:2}' + "]" * (MAX_DEPTH - 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert loads("[" + ",".join(["[]"] * 1000) + "]") == [[]] * 1000
    assert loads('["' + "{[" * 1000 + '"]') == ["{[" * 1000]


@pytest.mark.parametrize("opener", ["[", '{"a":', "{0:", "{{", '{{"a":'])
def test_endless_nesting_is_refused_before_it_harms(opener: str) -> None:
    before = time.perf_counter()
    with pytest.raises(RemoteProtocolError, match=r"nested deeper|depth limit|expected a string key"):
        loads(opener * 200_000)
    assert time.perf_counter() - before < 1


# --- what would take too long


def test_keys_cannot_be_chosen_so_that_all_have_one_hash() -> None:
    """-1 and -2 have the same hash in CPython, and so have all tuples that differ in nothing else."""
    keys = [ObjectKey(enumerate(-1 - (number >> bit & 1) for bit in range(8))) for number in range(256)]
    assert len({hash(tuple(key)) for key in keys}) == 1
    assert len({hash(key) for key in keys}) == 256
    assert len({*keys, *keys}) == 256


def test_only_so_many_keys_of_one_object_may_be_integers() -> None:
    def document(count: int) -> str:
        return "{" + ",".join(f"{number}:0" for number in range(count)) + "}"

    assert len(loads(document(MAX_INTEGER_KEYS))) == MAX_INTEGER_KEYS
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_INTEGER_KEYS} integer keys"):
        loads(document(MAX_INTEGER_KEYS + 1))


@pytest.mark.parametrize("piece", ["{0:0}", '{{"a":0}:0}', '{"$ref":"$"}'])
def test_a_large_document_is_plain_or_refused(piece: str) -> None:
    fill = '"' + "x" * MAX_DIALECT + '"'
    with pytest.raises(RemoteProtocolError, match="not plain"):
        loads(f"[{fill},{piece}]")
    assert loads(f"[{fill}]") == ["x" * MAX_DIALECT]


def test_a_large_document_with_a_mistake_is_refused_without_reading_it_twice() -> None:
    with pytest.raises(RemoteProtocolError, match="unreadable JSON at character 5242881: "):
        loads('["' + "x" * 5_242_878 + '",]')


# --- garbage


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "at character 0: expected a value"),
        (" \n", "at character 2: expected a value"),
        ("{", "at character 1: expected a value"),
        ('{"a"}', "at character 4: expected ':'"),
        ('{"a":}', "at character 5: expected a value"),
        ('{"a":1', "at character 6: expected '}'"),
        ('{"a":1,}', "at character 7: expected a value"),
        ("[1,]", "at character 3: expected a value"),
        ("[1 2]", "at character 3: expected ']'"),
        ("[1]]", "at character 3: expected the end"),
        ("{0:1}{0:1}", "at character 5: expected the end"),
        ('{0:"\\ud83d"}', "at character 3: "),
        ("{0:01}", "at character 3: "),
        ("{null:1}", "at character 5: expected a key"),
        (b'{0:"\xff"}', "at byte 4: not UTF-8"),
        ('{"a":"\ud83d"}', "not UTF-8"),
        ("\ufeff{}", "at character 0"),
    ],
)
def test_an_unreadable_document_is_refused_with_its_place(document: str | bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        loads(document)


@given(st.text(max_size=60) | st.binary(max_size=60) | st.text('{}[]:,"0a$ref \\', max_size=60))
def test_garbage_gives_only_a_remote_protocol_error(document: str | bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert repr(loads(document))


@given(
    st.integers(0, len(ROUTE) - 1),
    st.integers(0, 8),
    st.binary(max_size=3)
    | st.sampled_from([b"null", b"{", b"}", b"[", b'"', b":", b",", b"-1", b"1e9", b'{"$ref":0}']),
)
def test_a_damaged_document_gives_a_value_or_a_remote_protocol_error(position: int, cut: int, junk: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert repr(loads(ROUTE[:position] + junk + ROUTE[position + cut :]))


def test_no_cut_of_a_document_is_a_document() -> None:
    assert lenient(ROUTE)
    for length in range(len(ROUTE)):
        with pytest.raises(RemoteProtocolError):
            loads(ROUTE[:length])


# --- time

MEGABYTE = 1 << 20
HEAVY = {
    "bare keys": "{" + ",".join(f"{number}:1" for number in range(MEGABYTE // 8)) + "}",
    "object keys": "{" + ",".join(f'{{"q":{number}}}:1' for number in range(MEGABYTE // 14)) + "}",
    "references": "[" + ",".join(['{"$ref":"$"}'] * (MEGABYTE // 13)) + "]",
    "one long text": '{0:"' + "\\n" * (MEGABYTE // 2) + '"}',
    "one open text": '{0:"' + "\\n" * (MEGABYTE // 2),
    "one long number": "{0:" + "9" * MEGABYTE + "}",
    "blanks": "{0:" + " " * MEGABYTE + "}",
    "brackets": "{0:[" + "[],{}," * (MEGABYTE // 6) + "0]}",
    "plain brackets": "[" + "[],{}," * (MEGABYTE // 6) + "0]",
}


@pytest.mark.parametrize("document", HEAVY.values(), ids=HEAVY)
def test_a_megabyte_of_anything_is_read_in_linear_time(document: str) -> None:
    before = time.perf_counter()
    with contextlib.suppress(RemoteProtocolError):
        assert loads(document)
    assert time.perf_counter() - before < 5  # quadratic, it would be minutes


# --- writing


class Colour(Enum):
    RED = "r"


class Model(IntEnum):
    CLUSTERING = 1


@pytest.mark.parametrize(
    ("value", "document"),
    [
        ({"a": 1, "b": [1, 2.5, True, None], "c": {}}, '{"a":1,"b":[1,2.5,true,null],"c":{}}'),
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
        ({"gone": None, "kept": 0}, '{"kept":0}'),
        ({"a": Model.CLUSTERING, "b": [Colour.RED]}, '{"a":"CLUSTERING","b":["RED"]}'),
        ({0: "a", 1: {2: "b"}}, '{"0":"a","1":{"2":"b"}}'),
        ({ObjectKey([("t", "x"), ("q", 0)]): 12}, '{{"t":"x","q":0}:12}'),
        (((1, 2), frozenset([3]), {4}), "[[1,2],[3],[4]]"),
        ({"标": "签\n"}, '{"标":"签\\n"}'),
        ([2**63 - 1, -(2**63), 2**64 - 1], "[9223372036854775807,-9223372036854775808,18446744073709551615]"),
        ([1.0, 0.1, -0.5], "[1.0,0.1,-0.5]"),
        (None, "null"),
        ("text", '"text"'),
    ],
)
def test_values_have_their_document(value: Any, document: str) -> None:
    assert dumps(value) == document.encode()


def test_integer_keys_stand_bare_on_request_at_every_level() -> None:
    value = {0: {-1: [{2: "x"}]}, "3": ObjectKey([("a", 1)]), ObjectKey([(4, 5)]): 6}
    assert dumps(value, bare_integer_keys=True) == b'{0:{-1:[{2:"x"}]},"3":[["a",1]],{4:5}:6}'


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        float("nan"),
        float("inf"),
        b"bytes",
        object(),
        "\ud83d",
        {"\ud83d": 1},
        {1.5: 1},
        {True: 1},
        {None: 1},
        {Model.CLUSTERING: 1},
        {("a", 1): 1},
        {2**64: 1},
        {ObjectKey([("a", b"")]): 1},
        [{"deep": [float("nan")]}],
    ],
    ids=repr,
)
def test_what_json_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        dumps(value)
    with pytest.raises(LocalProtocolError):
        dumps({"in": [value]}, bare_integer_keys=True)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = [endless]
    with pytest.raises(LocalProtocolError, match="nested without end"):
        dumps(endless)


@given(dialect)
def test_what_is_written_with_bare_keys_comes_back(value: Any) -> None:
    assert same(loads(dumps(value, bare_integer_keys=True)), value)


def quoted(value: Any) -> Any:
    """The value with integer keys as text."""
    if isinstance(value, dict):
        return {str(key) if type(key) is int else key: quoted(item) for key, item in value.items()}
    return [quoted(item) for item in value] if isinstance(value, list) else value


@given(dialect)
def test_what_is_written_comes_back_with_its_integer_keys_as_text(value: Any) -> None:
    assert loads(dumps(value)) == quoted(value)


@given(dialect, st.booleans())
@example({"a": [1, {"b": 2}], 0: {ObjectKey([("q", 1)]): 1.5}}, True)
def test_nothing_written_holds_a_blank_outside_of_text(value: Any, bare: bool) -> None:
    outside = b"".join(dumps(value, bare_integer_keys=bare).replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    assert not {*outside} & {*string.whitespace.encode()}


@given(documents)
def test_plain_values_are_written_as_plain_json(value: Any) -> None:
    assert json.loads(dumps([value])) == [without_null_members(value)]


def without_null_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_null_members(item) for key, item in value.items() if item is not None}
    return [without_null_members(item) for item in value] if isinstance(value, list) else value
