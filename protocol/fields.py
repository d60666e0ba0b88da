"""Ext fields <-> typed headers.

A header is a `NamedTuple` whose annotations say everything: `Int32`, `Int64`, `bool` or `str`; a default makes a
field optional; the wire name is the camelCase of the attribute unless `Annotated[..., Wire("name")]` says
otherwise. On the wire every value is text; the rules of that text are Java's:

- an integer is an optional sign and decimal digits, in range, nothing else (`1.0` and ` 0` are refused, `+1` is not);
- a boolean is true when it equals "true" in any case, everything else is false;
- an absent field is a missing key; keys nobody knows are ignored.

Headers are built for every request a server gets, so each class gets one decoding and one encoding function made for
it, the way `dataclasses` makes `__init__`. Named tuples are used because a frozen dataclass of fourteen fields takes
ten times as long to build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Generic, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from pocketmq.protocol.errors import HeaderFieldError, LocalProtocolError

Header = TypeVar("Header", bound=tuple[Any, ...])


class Kind(Enum):
    """The logical type of an ext field, under the name its text is converted by."""

    TEXT = "text"
    INT32 = "int32"
    INT64 = "int64"
    BOOLEAN = "boolean"


Int32 = Annotated[int, Kind.INT32]
Int64 = Annotated[int, Kind.INT64]


@dataclass(frozen=True, slots=True)
class Wire:
    """The wire name of a field that is not the camelCase of its attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header: what the tables in the documentation and the tests show of it."""

    attribute: str
    wire: str
    kind: Kind
    required: bool
    default: object = None


_SMALL: Final = range(-1, 1024)  # these numbers are looked up, which halves the cost of most headers


class _Parse(dict[str, int]):
    """Text -> integer within a range."""

    def __init__(self, bits: int) -> None:
        super().__init__((str(number), number) for number in _SMALL)
        self._bound = 1 << (bits - 1)
        self._digits = len(str(self._bound))

    def __missing__(self, text: str) -> int:
        if text.isdecimal() and len(text) < self._digits:
            return int(text)
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits.isdecimal() and len(digits.lstrip("0")) <= self._digits:
            number = int(text)
            if -self._bound <= number < self._bound:
                return number
        raise ValueError(text)


class _ParseBoolean(dict[str, bool]):
    def __missing__(self, text: str) -> bool:
        return text.lower() == "true"


PARSE: Final[dict[str, Any]] = {
    "int32": _Parse(32),
    "int64": _Parse(64),
    "boolean": _ParseBoolean(true=True, false=False),
}
# Expressions of the functions that are made. Most int64 are times and offsets: too large to be looked up.
_READ: Final = {
    Kind.TEXT: "{0}",
    Kind.INT32: "int32[{0}]",
    Kind.INT64: "(int(digits) if (digits := {0}).isdecimal() and len(digits) < 19 else int64[digits])",
    Kind.BOOLEAN: "boolean[{0}]",
}
_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)
_PRINT: Final = {
    Kind.TEXT: "{0} if {0}.__class__ is str or isinstance({0}, str) else refuse()",
    Kind.INT32: f"digits({{0}}) if {_INT32.start} <= {{0}} < {_INT32.stop} else refuse()",
    Kind.INT64: f"digits({{0}}) if {_INT64.start} <= {{0}} < {_INT64.stop} else refuse()",
    Kind.BOOLEAN: "'true' if {0} is True else 'false' if {0} is False else refuse()",
}


@dataclass(frozen=True, slots=True)
class Codec(Generic[Header]):
    """The fields of one header class and the two functions made for it."""

    fields: tuple[Field, ...]
    decode: Callable[[Mapping[str, str]], Header]
    encode: Callable[[Header], dict[str, str]]


@cache
def codec(header: type[Header]) -> Codec[Header]:
    """The codec of a header class, made on first use."""
    fields = tuple(_fields(header))
    return Codec(fields, _make_decode(header, fields), _make_encode(header, fields))


def decode_header(header: type[Header], ext_fields: Mapping[str, str]) -> Header:
    """Ext fields as a typed header; `HeaderFieldError` names the field that is missing or unreadable."""
    decoded: Header = codec(header).decode(ext_fields)
    return decoded


def encode_header(header: tuple[Any, ...]) -> dict[str, str]:
    """A typed header as ext fields, None left out; `LocalProtocolError` names the field that cannot be sent."""
    return codec(type(header)).encode(header)


def _fields(header: type[tuple[Any, ...]]) -> list[Field]:
    defaults: Mapping[str, object] = getattr(header, "_field_defaults", {})
    hints = get_type_hints(header, include_extras=True)
    return [
        Field(name, *_wire_and_kind(name, hints[name]), name not in defaults, defaults.get(name))
        for name in getattr(header, "_fields", ())
    ]


def _wire_and_kind(attribute: str, hint: Any) -> tuple[str, Kind]:
    first, *rest = attribute.split("_")
    wire, kind = first + "".join(word.capitalize() for word in rest), Kind.TEXT
    pending = [hint]
    while pending:
        part = pending.pop()
        if get_origin(part) in (Annotated, Union, UnionType):
            pending.extend(get_args(part))
        elif isinstance(part, Wire):
            wire = part.name
        elif isinstance(part, Kind):
            kind = part
        elif part is bool:
            kind = Kind.BOOLEAN
        elif part not in (int, str, type(None)):
            raise TypeError(f"{attribute}: a header field cannot be a {part!r}")
    return wire, kind


def _make_decode(header: type[Header], fields: tuple[Field, ...]) -> Callable[[Mapping[str, str]], Header]:
    def value(field: Field) -> str:
        if field.required:
            return _READ[field.kind].format(f"ext[{field.wire!r}]")
        read = _READ[field.kind].format("text")
        return f"({field.default!r} if (text := get({field.wire!r})) is None else {read})"

    source = f"""
def decode(ext):
    get = ext.get
    try:
        return new(header, ({" ".join(value(field) + "," for field in fields)}))
    except (KeyError, ValueError):
        raise explain(fields, ext) from None
"""
    decode: Callable[[Mapping[str, str]], Header] = _compile(
        source, "decode", header=header, fields=fields, new=tuple.__new__, explain=_explain, **PARSE
    )
    return decode


def _make_encode(header: type[Header], fields: tuple[Field, ...]) -> Callable[[Header], dict[str, str]]:
    if not fields:
        return lambda header: {}

    def text(field: Field) -> str:
        return _PRINT[field.kind].format(field.attribute)

    required = ", ".join(f"{field.wire!r}: {text(field)}" for field in fields if field.required)
    optional = "\n        ".join(
        f"if {field.attribute} is not None: ext[{field.wire!r}] = {text(field)}"
        for field in fields
        if not field.required
    )
    source = f"""
def encode(header):
    {"".join(field.attribute + ", " for field in fields)} = header
    try:
        ext = {{{required}}}
        {optional}
    except (TypeError, ValueError):
        raise misfit(fields, header) from None
    return ext
"""
    encode: Callable[[Header], dict[str, str]] = _compile(
        source, "encode", fields=fields, digits=int.__repr__, refuse=_refuse, misfit=_misfit
    )
    return encode


def _refuse() -> NoReturn:
    raise ValueError


def _misfit(fields: tuple[Field, ...], header: tuple[Any, ...]) -> LocalProtocolError:
    """The error for the first field that cannot be sent."""
    for field, value in zip(fields, header, strict=True):
        if not (_fits(field.kind, value) or (value is None and not field.required)):
            return LocalProtocolError(f"{field.attribute} = {value!r:.40} is no {field.kind.value}")
    raise AssertionError("every field can be sent")


def _fits(kind: Kind, value: object) -> bool:
    match kind:
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case _:
            return isinstance(value, int) and int(value) in (_INT32 if kind is Kind.INT32 else _INT64)


def _compile(source: str, name: str, **namespace: Any) -> Any:
    exec(source, namespace)
    return namespace[name]


def _explain(fields: tuple[Field, ...], ext_fields: Mapping[str, str]) -> HeaderFieldError:
    """The error for the first field that cannot be read."""
    for field in fields:
        text = ext_fields.get(field.wire)
        if text is None:
            if field.required:
                return HeaderFieldError(field.wire, "is missing")
        elif field.kind in (Kind.INT32, Kind.INT64):
            try:
                PARSE[field.kind.value][text]
            except ValueError:
                return HeaderFieldError(field.wire, f"is no {field.kind.value}: {text[:40]!r}")
    raise AssertionError("every field can be read")
