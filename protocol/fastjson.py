"""The JSON dialect of RocketMQ's bodies and files.

RocketMQ writes its bodies with fastjson, which is JSON with two liberties about the keys of a map:

- an integer key may stand bare: `{0:"a:10911",1:"b:10911"}`;
- an object may be a key: `{{"brokerName":"b","queueId":0,"topic":"t"}:12}`.

`loads` gives keys back as they were written: text as `str`, bare integers as `int`, objects as `ObjectKey`.
Most documents are plain JSON and are read by orjson alone. The rest goes to a small reader that knows only
the structure and hands every scalar to orjson, so that both ways agree about scalars: integers are exact up
to 64 bits and floats beyond, NaN and infinities do not exist, and of two equal keys the last one counts.

Where one object occurs twice, fastjson may replace the second by a reference such as `{"$ref":"$.a[0]"}`.
These become null: resolved, a few of them could make a small document stand for an endless one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NoReturn

import orjson

from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

MAX_DEPTH: Final = 64  # RocketMQ's deepest body has nine levels; recursion over a document must stay harmless

MAX_DIALECT: Final = 4 * 1024 * 1024
"""The largest document that is more than plain JSON: reading one takes some forty times as long."""

MAX_INTEGER_KEYS: Final = 65_536
"""Bare integer keys of one object: who chooses integers chooses their hashes, and can make a large table slow."""


class ObjectKey(tuple[tuple[Any, Any], ...]):
    """An object that is the key of a map: its members in the order they were written."""

    __slots__ = ()

    def __hash__(self) -> int:
        # Of text, whose hash nobody outside knows: the numbers in a key could be chosen so that all hashes are one.
        return hash(repr(self))


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """The value of a document; `RemoteProtocolError` says where it cannot be read."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    if b'"$ref"' in raw:
        return _Reader(raw).document()
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if len(raw) <= _SMALL or _DIALECT.search(raw):
            return _Reader(raw).document()
        raise RemoteProtocolError(f"unreadable JSON at character {error.pos}: {error.msg}") from None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _too_deep(value):
        return _Reader(raw).document()  # which refuses it and knows the place
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if node.__class__ is dict else node)
            if child.__class__ in _CONTAINERS
        ]
    return bool(level)


_CONTAINERS: Final = {dict, list}

_SMALL: Final = 64 * 1024  # a document that is read at once, if only to say what is wrong with it
_DIALECT: Final = re.compile(rb"[{,][ \t\r\n]*+-?+[0-9]++[ \t\r\n]*+:|\}[ \t\r\n]*+:")  # an integer key, an object key
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")
_SCALAR: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    r"|-?+[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
    r"|true|false|null"
)


class _Reader:
    """Reads one document of the dialect; `room` is how many levels may still open."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) > MAX_DIALECT:
            raise RemoteProtocolError(f"JSON that is not plain, of {len(raw)} bytes: {MAX_DIALECT} are read")
        try:
            self._text = raw.decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"unreadable JSON at byte {error.start}: not UTF-8") from None
        self._at = 0

    def document(self) -> Any:
        value = self._value(MAX_DEPTH)
        if self._peek():
            self._fail("expected the end")
        return value

    def _value(self, room: int) -> Any:
        match self._peek():
            case "{":
                members = self._object(room)
                return None if members.keys() == {"$ref"} else members
            case "[":
                return self._array(room)
            case _:
                return self._scalar()

    def _object(self, room: int) -> dict[str | int | ObjectKey, Any]:
        members: dict[str | int | ObjectKey, Any] = {}
        for _ in self._items(room, "}"):
            key = self._key(room - 1)
            if type(key) is int and len(members) >= MAX_INTEGER_KEYS:
                self._fail(f"more than {MAX_INTEGER_KEYS} integer keys")
            self._take(":")
            members[key] = self._value(room - 1)
        return members

    def _array(self, room: int) -> list[Any]:
        return [self._value(room - 1) for _ in self._items(room, "]")]

    def _items(self, room: int, closer: str) -> Iterator[None]:
        """Step through an object or array; the caller reads one item at every step."""
        if not room:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
        self._at += 1
        if self._peek() != closer:
            yield
            while self._peek() == ",":
                self._at += 1
                yield
        self._take(closer)

    def _key(self, room: int) -> str | int | ObjectKey:
        if self._peek() == "{":
            members = self._object(room)
            if any(isinstance(value, (dict, list)) for value in members.values()):
                self._fail("expected only scalars in an object that is a key")
            return ObjectKey(members.items())
        key = self._scalar()
        if isinstance(key, bool) or not isinstance(key, str | int):
            self._fail("expected a key")
        return key

    def _scalar(self) -> Any:
        token = _SCALAR.match(self._text, self._at)
        if token is None:
            self._fail("expected a value")
        try:
            value = orjson.loads(token[0])
        except orjson.JSONDecodeError as error:
            self._fail(error.msg)
        self._at = token.end()
        return value

    def _peek(self) -> str:
        """Skip blanks; the character that comes next, empty at the end."""
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks
        self._at = blanks.end()
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        if self._peek() != character:
            self._fail(f"expected {character!r}")
        self._at += 1

    def _fail(self, problem: str) -> NoReturn:
        raise RemoteProtocolError(f"unreadable JSON at character {self._at}: {problem}") from None


def dumps(value: Any, *, bare_integer_keys: bool = False) -> bytes:
    """The document of a value: no blanks (some clients split the text at commas), no null members.

    Enums are written by name, integer keys quoted unless `bare_integer_keys`, an `ObjectKey` as an object.
    """
    try:
        return _encode(value, bare_integer_keys)
    except orjson.JSONEncodeError as error:
        raise LocalProtocolError(f"cannot be written as JSON: {error}") from None
    except RecursionError:
        raise LocalProtocolError("cannot be written as JSON: nested without end") from None


_PLAIN: Final = frozenset({str, int, bool})
_TEXT: Final = frozenset({str})


def _is_plain(value: Any) -> bool:
    """Whether orjson writes a value as it is to be written. Most values are plain, or most of their parts."""
    kind = type(value)
    if kind in _PLAIN or value is None:
        return True
    if kind is dict:
        return _TEXT.issuperset(map(type, value)) and _PLAIN.issuperset(map(type, value.values()))
    return (kind is list or kind is tuple) and _PLAIN.issuperset(map(type, value))


def _encode(value: Any, bare: bool) -> bytes:
    if _is_plain(value):
        return orjson.dumps(value)
    if isinstance(value, Mapping):
        members = (
            b"%b:%b" % (_encode_key(key, bare), _encode(item, bare)) for key, item in value.items() if item is not None
        )
        return b"{%b}" % b",".join(members)
    if isinstance(value, (list, tuple, set, frozenset)):
        return b"[%b]" % b",".join(_encode(item, bare) for item in value)
    if isinstance(value, Enum):
        return orjson.dumps(value.name)
    if isinstance(value, float) and math.isfinite(value):
        return orjson.dumps(value)
    raise LocalProtocolError(f"cannot be written as JSON: {value!r}")


def _encode_key(key: Any, bare: bool) -> bytes:
    if isinstance(key, ObjectKey):
        return _encode(dict(key), bare)
    if type(key) is int:
        digits = orjson.dumps(key)
        return digits if bare else b'"%b"' % digits
    if type(key) is str:
        return orjson.dumps(key)
    raise LocalProtocolError(f"cannot be the key of a JSON object: {key!r}")
