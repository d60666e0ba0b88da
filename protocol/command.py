"""The remoting command and the three ways to write its header.

Every frame carries the same seven header fields and a body. Type 0 writes the header as JSON, which every peer reads;
type 1 as RocketMQ's compact binary form; type 2 as a msgpack array, which only PocketMQ knows and which is never sent
before the peer has offered it (`negotiation.py`).

Ext fields are text on both sides of every encoding. Some peers send numbers and booleans unquoted; they are turned
into the text Java would have written before anyone sees them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from msgpack import Packer as _Packer
from msgpack import unpackb as _unpack

from pocketmq.protocol.codes import VERSION, CommandFlag, Encoding, Language
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

Buffer = bytes | memoryview
NO_FIELDS: Final[Mapping[str, str]] = {}


def check_buffer(body: object) -> None:
    """Raise `LocalProtocolError` unless it is bytes: of a view of anything else, the length counts something else."""
    if isinstance(body, memoryview) and not (body.itemsize == 1 and body.contiguous):
        raise LocalProtocolError(f"a body is bytes; this is a view of {body.format!r} with shape {body.shape}")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise LocalProtocolError(f"a body is bytes; this is a {type(body).__name__}")


class Command(NamedTuple):
    """One request or response. Its body may be a view of the bytes it came in: copy what is to be kept."""

    code: int
    ext_fields: Mapping[str, str] = NO_FIELDS
    body: Buffer = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int = Language.PYTHON
    version: int = VERSION
    encoding: int = Encoding.JSON

    @property
    def is_response(self) -> bool:
        return self.flag & CommandFlag.RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & CommandFlag.ONEWAY != 0

    def reply(
        self,
        code: int,
        ext_fields: Mapping[str, str] = NO_FIELDS,
        body: Buffer = b"",
        remark: str | None = None,
    ) -> Command:
        """The response to this request: same opaque, same encoding, and only the response bit set."""
        return _new(
            Command,
            (code, ext_fields, body, self.opaque, _RESPONSE, remark, _PYTHON, VERSION, self.encoding),
        )

    def without_body(self) -> Command:
        """The same command without its body, for those who keep it longer than the bytes it came in."""
        return _new(Command, (*self[:2], b"", *self[3:])) if self.body else self


# Enum members cost a look-up and a slower hash wherever they are touched; the hot paths use plain integers.
_RESPONSE: Final = int(CommandFlag.RESPONSE)
_PYTHON: Final = int(Language.PYTHON)
_OTHER: Final = int(Language.OTHER)
_JSON, _ROCKETMQ, _MSGPACK = (int(encoding) for encoding in Encoding)
_new: Final = tuple.__new__
_join: Final = "".join
_LANGUAGE_NAMES: Final = {int(language): language.name for language in Language}
_LANGUAGE_CODES: Final = {language.name: int(language) for language in Language}

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT32X5: Final = struct.Struct(">5i")
_unpack_int16, _unpack_uint32 = _INT16.unpack_from, struct.Struct(">I").unpack_from
_pack_int32x5, _unpack_int32x5 = _INT32X5.pack, _INT32X5.unpack  # one call checks type and range of all five


# --- reading ----------------------------------------------------------------------------------------------------------


def decode_command(encoding: int, header: bytes, body: Buffer = b"") -> Command:
    """A command from the two parts of its frame."""
    try:
        parse = _PARSERS[encoding]
    except KeyError:
        raise RemoteProtocolError(f"unknown header encoding {encoding}") from None
    code, language, version, opaque, flag, remark, ext_fields = parse(header)
    try:
        numbers = _unpack_int32x5(_pack_int32x5(code, language, version, opaque, flag))
        if ext_fields:
            _join([*ext_fields.values()])  # the quickest way to see that all are text
        else:
            ext_fields = NO_FIELDS
    except (struct.error, TypeError, AttributeError):
        numbers = tuple(map(_integer, (code, language, version, opaque, flag)))
        ext_fields = _as_text(ext_fields)
    code, language, version, opaque, flag = numbers
    if language not in _LANGUAGE_NAMES:
        language = _OTHER
    if remark is not None and type(remark) is not str:
        raise RemoteProtocolError("remark is no text")
    return _new(Command, (code, ext_fields, body, opaque, flag, remark or None, language, version, encoding))


# A parser gives the seven parts of a header as the peer wrote them, in the order of the array of `_parse_msgpack`.
_Parts = Sequence[Any]


def _parse_json(header: bytes) -> _Parts:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(f"header is no JSON: {error}") from None
    if type(fields) is not dict:
        raise RemoteProtocolError("header is no JSON object")
    get = fields.get
    language = get("language")
    return (
        get("code"),
        _LANGUAGE_CODES.get(language, _OTHER) if type(language) is str else _OTHER,
        0 if (version := get("version")) is None else version,
        0 if (opaque := get("opaque")) is None else opaque,
        0 if (flag := get("flag")) is None else flag,
        get("remark"),
        get("extFields"),
    )


_MAX_ELEMENTS: Final = 16  # seven, and room for what a later version adds


def _parse_msgpack(header: bytes) -> _Parts:
    try:
        # A list is allocated on the word of its length, so the length is bounded; msgpack's errors are ValueErrors.
        fields = _unpack(header, max_array_len=_MAX_ELEMENTS, max_bin_len=0)
    except ValueError as error:
        raise RemoteProtocolError(f"header is no msgpack: {error}") from None
    if type(fields) is not list or len(fields) < 7:
        raise RemoteProtocolError("header is no msgpack array of 7")
    ext_fields = fields[6]
    if type(ext_fields) is dict and b"" in ext_fields:  # no longer binary key gets this far, nor one of another type
        raise RemoteProtocolError("an ext field's name is no text")
    return fields if len(fields) == 7 else fields[:7]


# The binary header: a fixed part up to the remark, then the ext fields back to back. Lengths of 32 bits are read
# as unsigned: a negative one points far behind the end, and is found out there.
_FIXED: Final = struct.Struct(">hBhiiI")


def _parse_rocketmq(header: bytes) -> _Parts:
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        remark_end = _FIXED.size + remark_length
        remark = header[_FIXED.size : remark_end].decode()
        (ext_length,) = _unpack_uint32(header, remark_end)
        if remark_end + 4 + ext_length != len(header):
            raise RemoteProtocolError("binary header: the ext fields do not fill it")
        ext_fields = _parse_entries(header, remark_end + 4)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"binary header: {error}") from None
    return code, language, version, opaque, flag, remark, ext_fields


def _parse_entries(header: bytes, position: int) -> dict[str, str]:
    """The ext fields from `position` to the end: key length i16, key, value length i32, value."""
    ext_fields = {}
    end = len(header)
    while position < end:
        (key_length,) = _unpack_int16(header, position)
        if key_length < 0:
            raise RemoteProtocolError("binary header: a key has a negative length")
        key_end = position + 2 + key_length
        (value_length,) = _unpack_uint32(header, key_end)
        value_end = key_end + 4 + value_length
        ext_fields[header[position + 2 : key_end].decode()] = header[key_end + 4 : value_end].decode()
        position = value_end
    if position != end:
        raise RemoteProtocolError("binary header: a length points outside of it")
    return ext_fields


_PARSERS: Final[dict[int, Callable[[bytes], _Parts]]] = {
    _JSON: _parse_json,
    _ROCKETMQ: _parse_rocketmq,
    _MSGPACK: _parse_msgpack,
}


# What some peers write and others must not choke on: numbers as text, text as numbers.


_NUMBER: Final = re.compile("[+-]?[0-9]{1,10}")


def _integer(value: Any) -> int:
    """A header number that a peer may have written as text."""
    number = int(value) if type(value) is str and _NUMBER.fullmatch(value) else value
    try:
        return int(_INT32.unpack(_INT32.pack(number))[0])
    except struct.error:
        # A list or map is not shown: nested deep enough, it has no text.
        shown = f"{value!r:.40}" if isinstance(value, str | int | float) else type(value).__name__
        raise RemoteProtocolError(f"a 32-bit header number expected, got {shown}") from None


def _as_text(ext_fields: Any) -> Mapping[str, str]:
    """Ext fields with every value as the text Java would have sent."""
    if not ext_fields:
        return NO_FIELDS
    if type(ext_fields) is not dict:
        raise RemoteProtocolError("extFields is no map")
    return {key: _text(key, value) for key, value in ext_fields.items() if value is not None}


def _text(key: str, value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise RemoteProtocolError(f"ext field {key[:40]!r} is no text")


# --- writing ----------------------------------------------------------------------------------------------------------


def header_bytes(command: Command) -> bytes:
    """The header of a command in the command's own encoding."""
    code, ext_fields, _, opaque, flag, remark, language, version, encoding = command
    try:
        return _WRITERS[encoding](code, language, version, opaque, flag, remark, ext_fields)
    except (struct.error, TypeError, ValueError, OverflowError, AttributeError, LookupError) as error:
        # Includes text with lone surrogates, which no encoding carries.
        raise LocalProtocolError(f"cannot encode the header of {command._replace(body=b'')!r:.200}: {error}") from error


def _write_json(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext_fields: Mapping[str, str]
) -> bytes:
    # Key order and the omission of nulls are Java's.
    header: dict[str, Any] = {"code": code}
    if ext_fields:
        header["extFields"] = ext_fields if type(ext_fields) is dict else dict(ext_fields)
    header["flag"] = flag
    header["language"] = _LANGUAGE_NAMES[language]
    header["opaque"] = opaque
    if remark is not None:
        header["remark"] = remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = version
    return orjson.dumps(header)


def _write_msgpack(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext_fields: Mapping[str, str]
) -> bytes:
    fields = ext_fields if type(ext_fields) is dict else dict(ext_fields)
    packed: bytes = _Packer().pack((code, language, version, opaque, flag, remark, fields or None))
    return packed


def _write_rocketmq(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext_fields: Mapping[str, str]
) -> bytes:
    remark_bytes = remark.encode() if remark else b""
    parts: list[bytes] = []
    for key, value in ext_fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    ext_bytes = b"".join(parts)
    fixed = _FIXED.pack(code, language, version, opaque, flag, len(remark_bytes))
    return b"".join((fixed, remark_bytes, _INT32.pack(len(ext_bytes)), ext_bytes))


_WRITERS: Final[dict[int, Callable[..., bytes]]] = {
    _JSON: _write_json,
    _ROCKETMQ: _write_rocketmq,
    _MSGPACK: _write_msgpack,
}
