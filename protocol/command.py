"""The remoting command and the three ways to write its header.

Every frame carries the same seven header fields and a body. Type 0 writes the header as JSON, which every peer reads;
type 1 as RocketMQ's compact binary form; type 2 as a msgpack array, which only PocketMQ knows and which is never sent
before the peer has offered it (`negotiation.py`).

Ext fields are text on both sides of every encoding. Some peers send numbers and booleans unquoted; they are turned
into the text Java would have written before anyone sees them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson
from msgpack import Packer as _Packer
from msgpack import unpackb as _unpack

from pocketmq.protocol.codes import VERSION, CommandFlag, Encoding, Language
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

Buffer = bytes | memoryview
NO_FIELDS: Final[Mapping[str, str]] = {}


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


# Enum members cost a look-up and a slower hash wherever they are touched; the hot paths use plain integers.
_RESPONSE: Final = int(CommandFlag.RESPONSE)
_PYTHON: Final = int(Language.PYTHON)
_OTHER: Final = int(Language.OTHER)
_JSON, _ROCKETMQ, _MSGPACK = (int(encoding) for encoding in Encoding)
_new: Final = tuple.__new__
_LANGUAGE_NAMES: Final = {int(language): language.name for language in Language}
_LANGUAGE_CODES: Final = {language.name: int(language) for language in Language}

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT32X4: Final = struct.Struct(">4i")
_pack_int32x4, _unpack_int32x4 = _INT32X4.pack, _INT32X4.unpack  # one call checks type and range of all four


# --- reading ----------------------------------------------------------------------------------------------------------


def decode_command(encoding: int, header: Buffer, body: Buffer = b"") -> Command:
    """A command from the two parts of its frame."""
    try:
        decode = _DECODERS[encoding]
    except KeyError:
        raise RemoteProtocolError(f"unknown header encoding {encoding}") from None
    return decode(header, body)


def _decode_json(header: Buffer, body: Buffer) -> Command:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(f"header is no JSON: {error}") from None
    if type(fields) is not dict:
        raise RemoteProtocolError("header is no JSON object")
    get = fields.get
    language = get("language")
    return _command(
        get("code"),
        get("extFields"),
        body,
        get("opaque", 0),
        get("flag", 0),
        get("remark"),
        _LANGUAGE_CODES.get(language, _OTHER) if type(language) is str else language,
        get("version", 0),
        _JSON,
    )


_MAX_ELEMENTS: Final = 16  # seven, and room for what a later version adds


def _decode_msgpack(header: Buffer, body: Buffer) -> Command:
    try:
        # A list is allocated on the word of its length, so the length is bounded; msgpack's errors are ValueErrors.
        fields = _unpack(header, max_array_len=_MAX_ELEMENTS, max_bin_len=0)
    except ValueError as error:
        raise RemoteProtocolError(f"header is no msgpack: {error}") from None
    if type(fields) is not list or len(fields) < 7:
        raise RemoteProtocolError("header is no msgpack array of 7")
    del fields[7:]
    code, language, version, opaque, flag, remark, ext_fields = fields
    if ext_fields and b"" in ext_fields:  # no longer binary value gets this far
        raise RemoteProtocolError("an ext field's name is no text")
    return _command(code, ext_fields, body, opaque, flag, remark, language, version, _MSGPACK)


def _command(
    code: Any,
    ext_fields: Any,
    body: Buffer,
    opaque: Any,
    flag: Any,
    remark: Any,
    language: Any,
    version: Any,
    encoding: int,
) -> Command:
    """A command from values that a peer chose."""
    try:
        code, opaque, flag, version = _unpack_int32x4(_pack_int32x4(code, opaque, flag, version))
    except struct.error:
        code, opaque, flag, version = (_integer(value) for value in (code, opaque, flag, version))
    if remark is not None and type(remark) is not str:
        raise RemoteProtocolError("remark is no text")
    if language not in _LANGUAGE_NAMES:
        language = _OTHER
    if not ext_fields:
        ext_fields = NO_FIELDS
    elif type(ext_fields) is not dict:
        raise RemoteProtocolError("extFields is no map")
    else:
        for value in ext_fields.values():
            if value.__class__ is not str:
                ext_fields = _as_text(ext_fields)
                break
    return _new(Command, (code, ext_fields, body, opaque, flag, remark or None, language, version, encoding))


def _integer(value: Any) -> int:
    """A header number that a peer may have written as text."""
    if type(value) in (int, str) and len(str(value)) <= 11:
        try:
            (number,) = _INT32.unpack(_INT32.pack(int(value)))
            return int(number)
        except (ValueError, struct.error):
            pass
    raise RemoteProtocolError(f"a 32-bit header number expected, got {str(value)[:40]!r}")


def _as_text(ext_fields: dict[Any, Any]) -> dict[str, str]:
    """Ext fields with every value as the text Java would have sent."""
    return {key: _text(key, value) for key, value in ext_fields.items() if value is not None}


def _text(key: Any, value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise RemoteProtocolError(f"ext field {str(key)[:40]!r} is no text")


# The binary header: a fixed part up to the remark, then the ext fields back to back.
_FIXED: Final = struct.Struct(">hBhiii")


def _decode_rocketmq(header: Buffer, body: Buffer) -> Command:
    header = bytes(header)
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        remark, position = _take(header, _FIXED.size, remark_length)
        (ext_length,) = _INT32.unpack_from(header, position)
        position += 4
        if ext_length != len(header) - position:
            raise RemoteProtocolError("binary header: ext fields do not fill the header")
        ext_fields = {}
        while position < len(header):
            (length,) = _INT16.unpack_from(header, position)
            key, position = _take(header, position + 2, length)
            (length,) = _INT32.unpack_from(header, position)
            ext_fields[key], position = _take(header, position + 4, length)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"binary header: {error}") from None
    return _command(code, ext_fields, body, opaque, flag, remark, language, version, _ROCKETMQ)


def _take(header: bytes, start: int, length: int) -> tuple[str, int]:
    """The text of `length` bytes at `start`, and where it ends."""
    end = start + length
    if length < 0 or end > len(header):
        raise RemoteProtocolError("binary header: a length points outside the header")
    return str(header[start:end], "utf-8"), end


_DECODERS: Final[dict[int, Callable[[Buffer, Buffer], Command]]] = {
    _JSON: _decode_json,
    _ROCKETMQ: _decode_rocketmq,
    _MSGPACK: _decode_msgpack,
}


# --- writing ----------------------------------------------------------------------------------------------------------


def header_bytes(command: Command) -> bytes:
    """The header of a command in the command's own encoding."""
    try:
        return _ENCODERS[command.encoding](command)
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        # Includes text with lone surrogates, which no encoding carries.
        raise LocalProtocolError(f"cannot encode {command!r:.200}: {error}") from error


def _encode_json(command: Command) -> bytes:
    # Key order and the omission of nulls are Java's.
    code, ext_fields, _, opaque, flag, remark, language, version, _ = command
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


def _encode_msgpack(command: Command) -> bytes:
    code, ext_fields, _, opaque, flag, remark, language, version, _ = command
    fields = ext_fields if type(ext_fields) is dict else dict(ext_fields)
    packed: bytes = _Packer().pack((code, language, version, opaque, flag, remark, fields or None))
    return packed


def _encode_rocketmq(command: Command) -> bytes:
    code, ext_fields, _, opaque, flag, remark, language, version, _ = command
    remark_bytes = remark.encode() if remark else b""
    parts: list[bytes] = []
    for key, value in ext_fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    ext_bytes = b"".join(parts)
    fixed = _FIXED.pack(code, language, version, opaque, flag, len(remark_bytes))
    return b"".join((fixed, remark_bytes, _INT32.pack(len(ext_bytes)), ext_bytes))


_ENCODERS: Final[dict[int, Callable[[Command], bytes]]] = {
    _JSON: _encode_json,
    _ROCKETMQ: _encode_rocketmq,
    _MSGPACK: _encode_msgpack,
}
