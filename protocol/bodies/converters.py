"""JSON values <-> the values of annotated types, as leniently as fastjson does it.

Numbers and booleans may come as text, text as a number, enums as ordinals. An item of an array or map that is
null is left out: it says nothing.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

from pocketmq.protocol import fastjson
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fastjson import ObjectKey

T = TypeVar("T")


class BodyError(RemoteProtocolError):
    """A body is sound JSON but a member is missing or of the wrong kind; the text names its path."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path.removeprefix('.')}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def within(self, step: str) -> BodyError:
        """The same error seen from the value around."""
        return BodyError(self.problem, step + self.path)


class Converter(NamedTuple):
    """JSON value -> Python value and back; null never reaches either."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def converter(hint: Any) -> Converter:
    """How a value of an annotated type is read and written."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        (only,) = (argument for argument in arguments if argument is not NoneType)
        return converter(only)
    if origin in (tuple, frozenset):
        return _array(origin, converter(arguments[0]))
    if origin is Mapping:
        return _map(_key(arguments[0]), converter(arguments[1]))
    if issubclass(hint, IntEnum):
        return _enum(hint)
    return Converter(hint.from_value, lambda value: value.to_value())


def _array(kind: Callable[[Iterable[Any]], Any], item: Converter) -> Converter:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise misfit("an array", value)
        return kind(element for _, element in _each(item.read, enumerate(value)))

    def write(value: Any) -> list[Any]:
        written = [item.write(element) for element in value]
        return written if kind is tuple else sorted(written)  # the order of a set is nobody's business

    return Converter(read, write)


def _map(key: Converter, item: Converter) -> Converter:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise misfit("an object", value)
        return {key.read(name): element for name, element in _each(item.read, value.items())}

    def write(value: Any) -> dict[Any, Any]:
        return {key.write(name): item.write(element) for name, element in value.items()}

    return Converter(read, write)


def _each(read: Callable[[Any], Any], items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The items that are not null, read; an error names the item."""
    for step, item in items:
        if item is not None:
            try:
                value = read(item)
            except BodyError as error:
                raise error.within(f"[{_shown(step)}]") from None
            yield step, value


def _key(hint: Any) -> Converter:
    if hint in (str, int):
        return _SCALARS[hint]
    return Converter(
        lambda key: hint.from_value(dict(key) if isinstance(key, ObjectKey) else key),
        lambda key: ObjectKey(key.to_value().items()),
    )


def _enum(kind: type[IntEnum]) -> Converter:
    members = dict(kind.__members__)
    members |= {str(member.value): member for member in kind}

    def read(value: Any) -> IntEnum:
        try:
            return members[_read_text(value)]
        except KeyError:
            raise misfit(f"one of {', '.join(kind.__members__)}", value) from None

    return Converter(read, lambda member: member.name)


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise misfit("text", value)


def _read_integer(value: Any) -> int:
    number = value if type(value) is int else _parse_integer(value)
    if -(1 << 63) <= number < 1 << 63:
        return number
    raise misfit("a 64-bit integer", value)


def _parse_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise misfit("an integer", value)


def _read_float(value: Any) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise misfit("a number", value)


def _read_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    try:
        return _BOOLEANS[_read_text(value).lower()]
    except KeyError:
        raise misfit("true or false", value) from None


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_read_text(value), validate=True)
    except (binascii.Error, ValueError):
        raise misfit("base64", value) from None


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _same(value: T) -> T:
    return value


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}

_SCALARS: Final[Mapping[Any, Converter]] = {
    str: Converter(_read_text, _same),
    int: Converter(_read_integer, _same),
    float: Converter(_read_float, float),
    bool: Converter(_read_boolean, _same),
    bytes: Converter(_read_bytes, _write_bytes),
    Any: Converter(_same, _same),
}


def misfit(wanted: str, value: Any) -> BodyError:
    """The error for a value of the wrong kind."""
    return BodyError(f"expected {wanted}, got {_shown(value)}")


def _shown(value: Any) -> str:
    """A few words for a value: a peer's nonsense may be long."""
    if isinstance(value, (dict, ObjectKey)):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = fastjson.dumps(value).decode()
    return text if len(text) <= 40 else f"{text[:40]}…"
