"""What a body is: a frozen value whose annotations say how it looks as JSON.

    @body
    class ProducerData(Body):
        group_name: str

`ProducerData.from_json(b'{"groupName":"g"}')` and `.to_json()` follow from that. A member's name on the wire
is the camelCase of its attribute unless `Annotated[..., Names("clientID")]` says otherwise. An annotation is
a scalar (`str`, `int`, `float`, `bool`, `bytes` as base64), an enum, another body, `tuple[X, ...]`,
`frozenset[X]`, `Mapping[K, X]` or `Any`; `| None` marks members that are left out when they are None.

Null is the same as absent; an absent member takes its default, and only one without a default is missed.
Members that nobody knows are kept in `extra` and written back, so files and newer peers lose nothing. Writing
sorts members by name, as RocketMQ does. Bodies compare by value and cannot be keys: most hold maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from operator import itemgetter
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.converters import BodyError, Converter, converter, misfit


class Names:
    """The names of a member where the camelCase of its attribute is not (all of) it.

    Where peers disagree about the spelling there are several: any of them is read, all of them are written.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


class Shape:
    """A function that brings a member into the shape of its annotation, for members that come in several."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function


class Codec(NamedTuple):
    """How one class is read and written."""

    readers: Mapping[str, tuple[str, Callable[[Any], Any]]]  # by name on the wire: attribute, read
    writers: tuple[tuple[str, str, Callable[[Any], Any]], ...]  # sorted: name on the wire, attribute, write
    required: tuple[tuple[str, str], ...]  # attribute, name on the wire


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Body:
    """Base of all bodies; see the module's text."""

    extra: Mapping[str, Any] = field(default_factory=dict)

    _codec: ClassVar[Codec]

    @classmethod
    def members(cls) -> tuple[str, ...]:
        """The names of the members on the wire."""
        return tuple(name for name, _, _ in cls._codec.writers)

    @classmethod
    def from_json(cls, data: bytes | bytearray | memoryview | str) -> Self:
        """Read a document; raises `RemoteProtocolError`."""
        return cls.from_value(fastjson.loads(data))

    def to_json(self, *, bare_integer_keys: bool = False) -> bytes:
        """Write a document; raises `LocalProtocolError` for what JSON cannot carry."""
        return fastjson.dumps(self.to_value(), bare_integer_keys=bare_integer_keys)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Read what `fastjson.loads` gave."""
        if not isinstance(value, dict):
            raise misfit("an object", value)
        readers, _, required = cls._codec
        arguments: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, item in value.items():
            if item is None:
                continue
            if name not in readers:
                extra[name] = item
            else:
                attribute, read = readers[name]
                try:
                    arguments[attribute] = read(item)
                except BodyError as error:
                    raise error.within(f".{name}") from None
        for attribute, name in required:
            if attribute not in arguments:
                raise BodyError("missing", f".{name}")
        return cls(**arguments, extra=extra)

    def to_value(self) -> dict[Any, Any]:
        """What `fastjson.dumps` takes."""
        value = {
            name: write(item)
            for name, attribute, write in self._codec.writers
            if (item := getattr(self, attribute)) is not None
        }
        value.update(self.extra)
        return value

    def __repr__(self) -> str:
        shown = {member.name: getattr(self, member.name) for member in fields(self)}
        if not self.extra:
            del shown["extra"]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class _MadeOnFirstUse:
    """Stands for the codec of a class until it is asked for: no program needs all, and making them takes a while."""

    def __get__(self, instance: object, cls: type[Body]) -> Codec:
        cls._codec = codec = _codec(cls)
        return codec


Body._codec = _MadeOnFirstUse()  # type: ignore[assignment]

B = TypeVar("B", bound=Body)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def body(cls: type[B]) -> type[B]:
    """Make a class with annotations a body."""
    return dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)


def _codec(cls: type[Body]) -> Codec:
    hints = get_type_hints(cls, include_extras=True)
    readers = {}
    writers = []
    required = []
    for member in fields(cls):
        if member.name == "extra":
            continue
        names, convert = _member(member.name, hints[member.name])
        for name in names:
            readers[name] = (member.name, convert.read)
            writers.append((name, member.name, convert.write))
        if member.default is MISSING and member.default_factory is MISSING:
            required.append((member.name, names[0]))
    return Codec(readers, tuple(sorted(writers, key=itemgetter(0))), tuple(required))


def _member(attribute: str, hint: Any) -> tuple[tuple[str, ...], Converter]:
    names: tuple[str, ...] = (_camel_case(attribute),)
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    convert = converter(hint)
    for mark in marks:
        if isinstance(mark, Names):
            names = mark.names
        if isinstance(mark, Shape):
            convert = Converter(_chain(mark.function, convert.read), convert.write)
    return names, convert


def _camel_case(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _chain(first: Callable[[Any], Any], then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: then(first(value))
