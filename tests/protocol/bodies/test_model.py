"""What a body is: annotations become members, null is absence, nothing unknown is lost, errors name their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field
from enum import IntEnum
from typing import Annotated, Any

import pytest

from pocketmq.protocol.bodies.common import MessageQueue
from pocketmq.protocol.bodies.converters import BodyError
from pocketmq.protocol.bodies.model import Body, Names, Shape, body
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError


class Colour(IntEnum):
    RED = 0
    GREEN = 1


@body
class Leaf(Body):
    name: str
    colour: Colour = Colour.RED


def wrapped(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


@body
class Tree(Body):
    tree_id: Annotated[str, Names("treeID")]
    max_height: int = 7
    spelled_twice: Annotated[int, Names("spelledTwice", "speltTwice")] = 0
    leaves: Annotated[tuple[Leaf, ...], Shape(wrapped)] = ()
    by_queue: Mapping[MessageQueue, Leaf] = field(default_factory=dict)
    by_number: Mapping[int, tuple[Leaf, ...]] | None = None
    note: str | None = None


SMALLEST = b'{"byQueue":{},"leaves":[],"maxHeight":7,"spelledTwice":0,"speltTwice":0,"treeID":"t"}'


# --- members


def test_a_member_has_the_camel_case_of_its_attribute_or_the_name_it_is_given() -> None:
    tree = Tree.from_json('{"treeID":"t","maxHeight":3}')
    assert (tree.tree_id, tree.max_height) == ("t", 3)
    assert Tree(tree_id="t").to_json() == SMALLEST


def test_members_are_written_in_the_order_of_their_names() -> None:
    # That of the code units, in which capitals come first.
    assert Leaf(name="l", colour=Colour.GREEN).to_json() == b'{"colour":"GREEN","name":"l"}'
    assert SMALLEST.index(b"maxHeight") < SMALLEST.index(b"spelledTwice") < SMALLEST.index(b"treeID")


def test_a_member_with_two_names_is_read_under_either_and_written_under_both() -> None:
    for name in ("spelledTwice", "speltTwice"):
        tree = Tree.from_json(f'{{"treeID":"t","{name}":9}}')
        assert tree.spelled_twice == 9
        assert b'"spelledTwice":9,"speltTwice":9' in tree.to_json()


def test_a_shape_is_brought_into_the_form_that_is_read() -> None:
    one, many = Tree.from_json('{"treeID":"t","leaves":{"name":"l"}}'), Tree(tree_id="t", leaves=(Leaf(name="l"),))
    assert one == many
    assert Tree.from_json(many.to_json()) == many


def test_an_absent_member_takes_its_default() -> None:
    assert Tree.from_json('{"treeID":"t"}') == Tree(tree_id="t")
    assert Tree.from_json('{"treeID":"t"}').leaves == ()


def test_null_is_the_same_as_absent() -> None:
    nulls = '{"treeID":"t","maxHeight":null,"leaves":null,"byQueue":null,"byNumber":null,"note":null,"unknown":null}'
    assert Tree.from_json(nulls) == Tree(tree_id="t")
    assert Tree.from_json(nulls).extra == {}


def test_a_reference_is_the_same_as_absent() -> None:
    tree = Tree.from_json('{"treeID":"t","byNumber":{"$ref":"$.a"},"leaves":[{"name":"a"},{"$ref":"$.leaves[0]"}]}')
    assert tree == Tree(tree_id="t", leaves=(Leaf(name="a"),))


def test_none_is_not_written_and_anything_else_is() -> None:
    assert b"note" not in Tree(tree_id="t").to_json()
    assert b'"note":""' in Tree(tree_id="t", note="").to_json()


def test_defaults_are_not_shared() -> None:
    assert Tree(tree_id="t").by_queue is not Tree(tree_id="t").by_queue
    assert Tree(tree_id="t").extra is not Tree(tree_id="t").extra


def test_integer_keys_stand_bare_on_request_only() -> None:
    tree = Tree(tree_id="t", by_number={1: (Leaf(name="l"),)})
    assert b'"byNumber":{"1":[' in tree.to_json()
    assert b'"byNumber":{1:[' in tree.to_json(bare_integer_keys=True)
    assert Tree.from_json(tree.to_json(bare_integer_keys=True)) == tree


def test_a_queue_is_an_object_where_it_is_a_key_too() -> None:
    tree = Tree(tree_id="t", by_queue={MessageQueue("T", "b", 0): Leaf(name="l")})
    assert b'{{"brokerName":"b","queueId":0,"topic":"T"}:{"colour":"RED","name":"l"}}' in tree.to_json()
    assert Tree.from_json(tree.to_json()) == tree


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_document_may_come_in_any_buffer(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert Leaf.from_json(kind(b'{"name":"l"}\n')) == Leaf.from_json('{"name":"l"}') == Leaf(name="l")


# --- what nobody knows


def test_unknown_members_are_kept_and_written_back() -> None:
    document = b'{"colour":"RED","name":"l","later":{"deep":[1,{"x":true}]},"0":1}'
    leaf = Leaf.from_json(document)
    assert leaf.extra == {"later": {"deep": [1, {"x": True}]}, "0": 1}
    assert leaf.to_json() == document


def test_unknown_members_are_kept_at_every_level() -> None:
    document = '{"treeID":"t","new":1,"leaves":[{"name":"l","newer":2}]}'
    tree = Tree.from_json(document)
    assert (tree.extra, tree.leaves[0].extra) == ({"new": 1}, {"newer": 2})
    assert Tree.from_json(tree.to_json()) == tree


def test_keys_that_are_no_text_are_kept_as_well() -> None:
    document = b'{"colour":"RED","name":"l",7:"bare",{"a":1}:"object"}'
    assert Leaf.from_json(document).to_json(bare_integer_keys=True) == document


# --- errors


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{}", "treeID: missing"),
        ('{"treeID":null}', "treeID: missing"),
        ('{"treeID":[]}', "treeID: expected text, got an array"),
        ('{"treeID":"t","maxHeight":"tall"}', 'maxHeight: expected an integer, got "tall"'),
        ('{"treeID":"t","speltTwice":{}}', "speltTwice: expected an integer, got an object"),
        ('{"treeID":"t","leaves":[{"name":"a"},{"colour":0}]}', r"leaves[1].name: missing"),
        (
            '{"treeID":"t","leaves":[null,{"name":"a","colour":"BLUE"}]}',
            r"leaves[1].colour: expected one of RED, GREEN",
        ),
        ('{"treeID":"t","byNumber":{"3":[{"name":"a"},7]}}', 'byNumber["3"][1]: expected an object, got 7'),
        ('{"treeID":"t","byNumber":{3:{}}}', "byNumber[3]: expected an array, got an object"),
        ('{"treeID":"t","byNumber":{"x":[]}}', 'byNumber: expected an integer, got "x"'),
        (
            '{"treeID":"t","byQueue":{"x":{"name":"a"}}}',
            "byQueue: expected an object with brokerName, queueId and topic",
        ),
        ('{"treeID":"t","byQueue":[]}', "byQueue: expected an object, got an array"),
        (
            '{"treeID":"t","byQueue":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}',
            "byQueue[an object].name: missing",
        ),
        ("[1]", "expected an object, got an array"),
        ("{", "unreadable JSON at character 1"),
    ],
)
def test_an_error_names_the_path_of_the_wrong_member(document: str, text: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Tree.from_json(document)
    assert str(caught.value).startswith(text)


def test_an_error_does_not_repeat_a_long_value() -> None:
    with pytest.raises(BodyError) as caught:
        Tree.from_json(f'{{"treeID":"t","maxHeight":"{"9" * 100_000}"}}')
    assert len(str(caught.value)) < 100
    with pytest.raises(BodyError) as caught:
        Tree.from_json(f'{{"treeID":"t","byNumber":{{"{"9" * 100_000}":{{}}}}}}')
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("value", [float("nan"), 2**64, object(), "\ud83d"])
def test_what_json_cannot_carry_is_the_callers_mistake(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        Leaf(name="l", extra={"x": value}).to_json()


# --- values


def test_bodies_are_frozen_values() -> None:
    leaf = Leaf(name="l")
    with pytest.raises(FrozenInstanceError):
        leaf.name = "m"  # type: ignore[misc]
    assert not hasattr(leaf, "__dict__")
    assert leaf == Leaf(name="l") != Leaf(name="m")
    assert Leaf(name="l") != Leaf(name="l", extra={"x": 1})


def test_a_body_shows_its_members_and_what_it_does_not_know_if_there_is_any() -> None:
    assert repr(Leaf(name="l")) == "Leaf(name='l', colour=<Colour.RED: 0>)"
    assert "extra={'x': 1}" in repr(Leaf(name="l", extra={"x": 1}))
