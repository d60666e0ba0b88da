"""The remoting command and its header in three encodings."""

from __future__ import annotations

import json
import struct
from types import MappingProxyType
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.codes import VERSION, Encoding, Language
from pocketmq.protocol.command import NO_FIELDS, Command, decode_command, header_bytes
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError

JSON, ROCKETMQ, MSGPACK = (int(encoding) for encoding in Encoding)

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
languages = st.sampled_from([int(language) for language in Language])
ext_fields_strategy = st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=6)
remarks = st.none() | st.text(min_size=1)


def commands(encoding: int, short_numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Command]:
    """Commands whose code and version have as many bits as the encoding has room for."""
    return st.builds(
        Command,
        code=short_numbers,
        ext_fields=ext_fields_strategy,
        body=st.just(b""),
        opaque=int32s,
        flag=int32s,
        remark=remarks,
        language=languages,
        version=short_numbers,
        encoding=st.just(encoding),
    )


any_commands = commands(JSON, int32s)
binary_commands = commands(ROCKETMQ, int16s)


def again(command: Command) -> Command:
    """The command out of its own header."""
    return decode_command(command.encoding, header_bytes(command), command.body)


def from_json(text: str | bytes) -> Command:
    return decode_command(JSON, text.encode() if isinstance(text, str) else text)


def from_msgpack(*fields: Any) -> Command:
    return decode_command(MSGPACK, msgpack.packb(fields))


def ext_from_msgpack(ext_fields: Any) -> Command:
    return from_msgpack(105, 3, 401, 7, 0, None, ext_fields)


# --- the command itself


@pytest.mark.parametrize(
    ("flag", "is_response", "is_oneway"),
    [(0, False, False), (1, True, False), (2, False, True), (3, True, True), (4, False, False), (-1, True, True)],
)
def test_two_bits_of_the_flag_have_a_meaning(flag: int, is_response: bool, is_oneway: bool) -> None:
    command = Command(10, flag=flag)
    assert command.is_response is is_response
    assert command.is_oneway is is_oneway


@given(any_commands, st.sampled_from(Encoding))
def test_a_reply_has_the_opaque_and_encoding_of_its_request_and_only_the_response_bit(
    request: Command, encoding: Encoding
) -> None:
    reply = request._replace(encoding=encoding).reply(17, {"a": "b"}, b"body", "no topic")
    assert reply == Command(
        17, {"a": "b"}, b"body", request.opaque, 1, "no topic", Language.PYTHON, VERSION, int(encoding)
    )
    assert reply.is_response
    assert not reply.is_oneway


def test_a_reply_without_anything_is_a_plain_code() -> None:
    assert Command(34, {"a": "b"}, b"body", 9, 2, "remark").reply(0) == Command(0, opaque=9, flag=1)


def test_a_new_command_is_a_request_from_pocketmq_in_json() -> None:
    assert Command(34) == (34, {}, b"", 0, 0, None, Language.PYTHON, 407, JSON)


# --- round trips


@given(any_commands)
def test_json_headers_survive_the_round_trip(command: Command) -> None:
    assert again(command) == command


@given(any_commands)
def test_msgpack_headers_survive_the_round_trip(command: Command) -> None:
    command = command._replace(encoding=MSGPACK)
    assert again(command) == command


@given(binary_commands)
def test_binary_headers_survive_the_round_trip(command: Command) -> None:
    assert again(command) == command


@given(binary_commands, st.sampled_from(Encoding), st.sampled_from(Encoding))
def test_all_encodings_say_the_same(command: Command, one: Encoding, other: Encoding) -> None:
    first, second = again(command._replace(encoding=one)), again(command._replace(encoding=other))
    assert first == second._replace(encoding=first.encoding)


@pytest.mark.parametrize("encoding", Encoding)
def test_an_empty_remark_is_no_remark(encoding: Encoding) -> None:
    assert again(Command(0, remark="", encoding=encoding)).remark is None


@pytest.mark.parametrize("encoding", Encoding)
def test_an_empty_ext_value_stays_what_it_is(encoding: Encoding) -> None:
    """Java reads one as null out of a binary header, where it cannot tell the two apart; JSON keeps it everywhere."""
    assert again(Command(35, {"producerGroup": ""}, encoding=encoding)).ext_fields == {"producerGroup": ""}


@pytest.mark.parametrize("encoding", Encoding)
def test_ext_fields_may_be_any_mapping(encoding: Encoding) -> None:
    command = Command(105, MappingProxyType({"topic": "T"}), encoding=encoding)
    assert again(command).ext_fields == {"topic": "T"}


@pytest.mark.parametrize("encoding", Encoding)
def test_a_command_without_ext_fields_has_an_empty_map_of_them(encoding: Encoding) -> None:
    assert again(Command(34, encoding=encoding)).ext_fields == NO_FIELDS == {}


def test_the_body_is_handed_on_as_it_is() -> None:
    body = memoryview(b"body")
    assert decode_command(JSON, b'{"code":1}', body).body is body


# --- JSON


def test_keys_stand_in_the_order_of_java_and_nulls_are_left_out() -> None:
    command = Command(105, {"topic": "T"}, b"", 0, 0, None, Language.JAVA, 479)
    assert header_bytes(command) == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert header_bytes(Command(17, {}, b"", -3, 1, 'no "topic"', Language.GO, 1)) == (
        b'{"code":17,"flag":1,"language":"GO","opaque":-3,"remark":"no \\"topic\\"",'
        b'"serializeTypeCurrentRPC":"JSON","version":1}'
    )


def test_json_is_written_in_utf8_without_blanks() -> None:
    header = header_bytes(Command(1, {"标签": "é 😀"}))
    assert '"extFields":{"标签":"é 😀"}'.encode() in header
    assert header.count(b" ") == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"code":105,"opaque":7,"flag":2,"version":317,"language":"GO","extFields":{"topic":"T"}}',
        '{"code":"105","opaque":"7","flag":"2","version":"317","language":"GO","extFields":{"topic":"T"}}',
        '{"code":"+105","opaque":"0000000007","flag":2,"version":"317","language":"GO","extFields":{"topic":"T"}}',
        '{"code":105,"language":"GO","version":317,"opaque":7,"flag":2,"remark":"","extFields":{"topic":"T"}}',
        '{"code":105,"language":"GO","version":317,"opaque":7,"flag":2,"remark":null,"extFields":{"topic":"T"}}\n',
        ' { "code" : 105 , "opaque":7,"flag":2,"version":317,"language":"GO","extFields":{"topic":"T","x":null}} ',
        '{"code":105,"opaque":7,"flag":2,"version":317,"language":"GO","extFields":{"topic":"T"},"extra":[{}],"z":1}',
        '{"code":1,"opaque":7,"flag":2,"version":317,"language":"GO","extFields":{"topic":"T"},"code":105}',
        '{"code":105,"opaque":7,"flag":2,"version":317,"language":"GO","extFields":{"topic":"T"},'
        '"serializeTypeCurrentRPC":"ROCKETMQ"}',
    ],
)
def test_json_of_every_peer_is_read(text: str) -> None:
    assert from_json(text) == Command(105, {"topic": "T"}, b"", 7, 2, None, Language.GO, 317)


def test_json_numbers_other_than_the_code_may_be_absent() -> None:
    assert from_json('{"code":34}') == Command(34, {}, b"", 0, 0, None, Language.OTHER, 0)


@pytest.mark.parametrize("language", ['"KLINGON"', '""', '"java"', "null", "9", "1.5", "true", "[]", "{}"])
def test_an_unknown_language_is_another_one(language: str) -> None:
    assert from_json(f'{{"code":1,"language":{language}}}').language == Language.OTHER


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"text"', "text"),
        ('""', ""),
        ('"1"', "1"),
        ("0", "0"),
        ("-1", "-1"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("true", "true"),
        ("false", "false"),
        ("1.5", "1.5"),
    ],
)
def test_ext_values_become_the_text_that_java_would_send(value: str, text: str) -> None:
    assert from_json(f'{{"code":1,"extFields":{{"a":"b","v":{value}}}}}').ext_fields == {"a": "b", "v": text}


@pytest.mark.parametrize("ext_fields", ["null", "{}", '{"a":null}'])
def test_null_ext_fields_are_absent(ext_fields: str) -> None:
    assert from_json(f'{{"code":1,"extFields":{ext_fields}}}').ext_fields == {}


@pytest.mark.parametrize("ext_fields", ["[]", '""', "0", "false"])
def test_something_empty_in_the_place_of_ext_fields_is_none(ext_fields: str) -> None:
    """Languages that write an empty map as an empty list exist."""
    assert from_json(f'{{"code":1,"extFields":{ext_fields}}}').ext_fields == {}


@pytest.mark.parametrize("ext_fields", ["[1]", '[["a","b"]]', '"text"', "1", "true", "1.5"])
def test_ext_fields_that_are_no_map_are_refused(ext_fields: str) -> None:
    with pytest.raises(RemoteProtocolError, match="extFields is no map"):
        from_json(f'{{"code":1,"extFields":{ext_fields}}}')


@pytest.mark.parametrize("value", ["[]", "{}", "[1]", '{"a":"b"}', "[" * 900 + "]" * 900])
def test_an_ext_value_that_is_no_scalar_is_refused(value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="ext field 'v' is no text"):
        from_json(f'{{"code":1,"extFields":{{"a":"b","v":{value}}}}}')


def test_a_header_number_that_is_null_is_absent() -> None:
    command = from_json('{"code":1,"opaque":null,"flag":null,"version":null}')
    assert (command.opaque, command.flag, command.version) == (0, 0, 0)
    with pytest.raises(RemoteProtocolError, match="a 32-bit header number expected"):
        from_json('{"code":null}')


BAD_NUMBERS = [
    '""',
    '"x"',
    '" 1"',
    '"1_0"',
    '"1.0"',
    '"0x1"',
    '"-"',
    '"٣"',
    "1.0",
    "1e3",
    "2147483648",
    "-2147483649",
    '"2147483648"',
    '"-2147483649"',
    '"99999999999999999999999"',
    "99999999999999999999999",
    "[]",
    "{}",
    "[1]",
    "[" * 1000 + "]" * 1000,
]


@pytest.mark.parametrize("name", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_a_header_number_that_is_none_is_refused(name: str, number: str) -> None:
    fields = {"code": "1", "opaque": "2", "flag": "0", "version": "3"} | {name: number}
    with pytest.raises(RemoteProtocolError, match="a 32-bit header number expected"):
        from_json("{" + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}")


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 0])
def test_a_header_number_has_32_bits(number: int) -> None:
    command = from_json(f'{{"code":{number},"opaque":"{number}"}}')
    assert (command.code, command.opaque) == (number, number)


def test_a_boolean_is_the_number_that_java_makes_of_it() -> None:
    plain = '{"code":1,"flag":true,"extFields":{"a":"b"}}'
    with_number = '{"code":1,"flag":true,"extFields":{"a":1}}'
    assert from_json(plain).flag == from_json(with_number).flag == 1


@pytest.mark.parametrize("remark", ["1", "true", "[]", "{}"])
def test_a_remark_that_is_no_text_is_refused(remark: str) -> None:
    with pytest.raises(RemoteProtocolError, match="remark is no text"):
        from_json(f'{{"code":1,"remark":{remark}}}')


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\n",
        b"null",
        b"1",
        b'"text"',
        b"[]",
        b"{",
        b"{}}",
        b"{'code':1}",
        b"{code:1}",
        b'{"code":1,}',
        b'{"code":01}',
        b'{"code":NaN}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"remark":"\\ud800"}',
        b'\xef\xbb\xbf{"code":1}',
        b'{"code":1}\0',
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"code":1,"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_a_header_that_is_no_json_object_with_a_code_is_refused(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        from_json(header)


# --- RocketMQ's binary form


def binary(
    ext: bytes = b"", remark: bytes = b"", *, remark_length: int | None = None, ext_length: int | None = None
) -> bytes:
    """A binary header written field by field."""
    fixed = struct.pack(">hBhiii", 105, 0, 407, 7, 0, len(remark) if remark_length is None else remark_length)
    return fixed + remark + struct.pack(">i", len(ext) if ext_length is None else ext_length) + ext


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def test_a_binary_header_has_known_bytes() -> None:
    command = Command(-2, {"ab": "é", "": "x"}, b"", -1, 3, "no", Language.NODE_JS, 513, ROCKETMQ)
    known = bytes.fromhex(
        "fffe 0d 0201 ffffffff 00000003 00000002 6e6f 00000011 0002 6162 00000002 c3a9 0000 00000001 78"
    )
    assert header_bytes(command) == known
    assert decode_command(ROCKETMQ, known) == command


def test_the_shortest_binary_header_has_21_bytes() -> None:
    assert len(binary()) == 21
    assert decode_command(ROCKETMQ, binary()) == Command(105, {}, b"", 7, 0, None, 0, 407, ROCKETMQ)


def test_of_two_equal_keys_in_a_binary_header_the_last_one_counts() -> None:
    """Java writes the fields of a signed compact send twice."""
    header = binary(entry(b"a", b"1") + entry(b"b", b"2") + entry(b"a", b"3"))
    assert decode_command(ROCKETMQ, header).ext_fields == {"a": "3", "b": "2"}


@pytest.mark.parametrize("language", [14, 100, 255])
def test_an_unknown_language_number_is_another_one(language: int) -> None:
    header = bytearray(binary())
    header[2] = language
    assert decode_command(ROCKETMQ, bytes(header)).language == Language.OTHER
    assert from_msgpack(105, language, 401, 7, 0, None, None).language == Language.OTHER


@pytest.mark.parametrize("length", range(21))
def test_a_binary_header_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="binary header"):
        decode_command(ROCKETMQ, binary()[:length])


ENTRY = entry(b"topic", b"T")


@pytest.mark.parametrize(
    "header",
    [
        binary(b"", remark_length=1),
        binary(b"", remark_length=-1),
        binary(b"", remark_length=-21),
        binary(b"", remark_length=2**31 - 1),
        binary(b"", remark_length=-(2**31)),
        binary(ENTRY, ext_length=0),
        binary(ENTRY, ext_length=-1),
        binary(ENTRY, ext_length=len(ENTRY) - 1),
        binary(ENTRY, ext_length=len(ENTRY) + 1),
        binary(ENTRY, ext_length=2**31 - 1),
        *(binary(ENTRY[:length]) for length in range(1, len(ENTRY))),
        binary(ENTRY + b"\0"),
        binary(b"\xff\xff" + ENTRY[2:]),  # lengths that lead backwards
        binary(b"\x80\x00" + ENTRY[2:]),
        binary(struct.pack(">h", 1) + b"k" + struct.pack(">i", -1)),
        binary(struct.pack(">h", 1) + b"k" + struct.pack(">i", -7)),
        binary(struct.pack(">h", 1) + b"k" + struct.pack(">i", -(2**31))),
        binary(struct.pack(">h", 1) + b"k" + struct.pack(">i", 2**31 - 1) + b"v"),
        binary(b"\x80\x00" + b"k" * 0x8000 + bytes(4)),  # a length that is negative, though as many bytes are there
        binary(entry(b"\xff", b"")),
        binary(entry(b"k", b"\xc3")),
        binary(b"", b"\xc3\x28"),
    ],
)
def test_a_binary_header_whose_lengths_or_texts_are_wrong_is_refused(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="binary header"):
        decode_command(ROCKETMQ, header)


@given(st.binary(max_size=80))
def test_garbage_in_a_binary_header_is_refused_or_read(ext: bytes) -> None:
    try:
        command = decode_command(ROCKETMQ, binary(ext))
    except RemoteProtocolError:
        return
    assert sum(len(entry(key.encode(), value.encode())) for key, value in command.ext_fields.items()) <= len(ext)


# --- msgpack


def test_a_msgpack_header_is_an_array_of_seven_with_the_shortest_numbers() -> None:
    command = Command(200050, {"a": "b"}, b"", -1, 128, None, Language.PYTHON, 407, MSGPACK)
    known = bytes.fromhex("97 ce00030d72 03 cd0197 ff cc80 c0 81 a161 a162")
    assert header_bytes(command) == known
    assert decode_command(MSGPACK, known) == command


def test_no_ext_fields_are_nil_in_msgpack() -> None:
    assert header_bytes(Command(0, encoding=MSGPACK, remark="é")) == bytes.fromhex("97 00 03 cd0197 00 00 a2c3a9 c0")
    assert ext_from_msgpack({}).ext_fields == ext_from_msgpack(None).ext_fields == {}


def test_msgpack_ext_values_may_be_numbers_and_booleans() -> None:
    values = {"i": -(2**63), "u": 2**64 - 1, "t": True, "f": False, "n": None, "s": "x", "d": 1.5}
    expected = {"i": "-9223372036854775808", "u": "18446744073709551615", "t": "true", "f": "false"}
    assert ext_from_msgpack(values).ext_fields == expected | {"s": "x", "d": "1.5"}


def test_further_elements_of_a_msgpack_header_are_ignored() -> None:
    plain = from_msgpack(105, 3, 401, 7, 0, None, {"topic": "T"})
    assert plain == Command(105, {"topic": "T"}, b"", 7, 0, None, 3, 401, MSGPACK)
    assert from_msgpack(105, 3, 401, 7, 0, None, {"topic": "T"}, "new", [1], {"a": [2]}) == plain


@pytest.mark.parametrize("count", range(7))
def test_fewer_than_seven_elements_are_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match="no msgpack array of 7"):
        from_msgpack(*(105, 3, 401, 7, 0, None, {})[:count])


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "number", [None, "", "x", "1_0", 1.0, 2**31, -(2**31) - 1, 2**64 - 1, [], {}, [1], {"a": 1}, "9" * 12]
)
def test_a_msgpack_number_that_is_none_is_refused(place: int, number: Any) -> None:
    fields: list[Any] = [105, 3, 401, 7, 0, None, {"topic": "T"}]
    fields[place] = number
    with pytest.raises(RemoteProtocolError, match="a 32-bit header number expected"):
        from_msgpack(*fields)


def test_msgpack_numbers_may_be_text() -> None:
    assert from_msgpack("105", "3", "401", "-7", "0", "", {}) == Command(105, {}, b"", -7, 0, None, 3, 401, MSGPACK)


@pytest.mark.parametrize(
    "ext_fields", [5, "abc", True, 1.5, [1], [[]], msgpack.ExtType(1, b"x"), msgpack.Timestamp(1, 2)]
)
def test_msgpack_ext_fields_that_are_no_map_are_refused(ext_fields: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="extFields is no map"):
        ext_from_msgpack(ext_fields)


@pytest.mark.parametrize("key", [b"", b"a", b"topic", 1, -1, 2**40, None, 1.5, True, False])
def test_a_msgpack_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        ext_from_msgpack({"a": "b", key: "x"})
    with pytest.raises(RemoteProtocolError):
        ext_from_msgpack({"a": 1, key: "x"})


@pytest.mark.parametrize("key", [b"\x90", b"\x91\x01", b"\x80", b"\xd4\x01\x00", b"\xd6\xff\x00\x00\x00\x01"])
def test_a_msgpack_key_that_is_a_value_of_many_parts_is_refused(key: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_command(MSGPACK, bytes.fromhex("97 01 03 01 01 00 c0 81") + key + b"\x01")


@pytest.mark.parametrize(
    "value", [b"", b"x", [], [1], {}, {"a": "b"}, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1, 2)]
)
def test_a_msgpack_value_that_is_no_scalar_is_refused(value: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        ext_from_msgpack({"a": "b", "v": value})


@pytest.mark.parametrize("remark", [1, True, b"", b"x", [], {}, 1.5])
def test_a_msgpack_remark_that_is_no_text_is_refused(remark: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        from_msgpack(105, 3, 401, 7, 0, remark, None)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xc0",
        b"\x80",
        b"\xc1",
        b"\xa1x",
        b"\x97",
        bytes.fromhex("97 01 03 01 01 00 c0"),
        bytes.fromhex("97 01 03 01 01 00 c0 c0 00"),  # more behind the array
        bytes.fromhex("97 01 03 01 01 00 a1ff c0"),  # no UTF-8
        bytes.fromhex("97 01 03 01 01 00 c0 81 a1ff a161"),
        bytes.fromhex("dc 0011 01 03 01 01 00 c0 c0") + b"\xc0" * 10,  # more elements than anyone will add
        b"\x91" * 100_000,
        bytes.fromhex("97 01 03 01 01 00 c0 81 a161") + b"\x91" * 100_000,
        bytes.fromhex("97 01 03 01 01 00 c0 81 a161") + b"\x81\xa161" * 50_000,
        bytes.fromhex("97 01 03 01 01 00 c0 81 a161") + b"\x91" * 500 + b"\x01",
        b"\x97" + b"\x91" * 900 + bytes.fromhex("01 03 01 01 00 c0 c0"),
        bytes.fromhex("97 01 03 01 01 00") + b"\x91" * 900 + b"\x01\xc0",
    ],
)
def test_a_header_that_is_no_msgpack_array_of_seven_is_refused(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_command(MSGPACK, header)


# --- garbage


@given(st.sampled_from(Encoding), st.binary(max_size=60))
def test_garbage_in_a_header_gives_a_remote_protocol_error_or_a_command(encoding: Encoding, header: bytes) -> None:
    check_garbage(encoding, header)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=6), values, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["code", "opaque", "flag", "version", "language", "remark", "extFields", "extra"])


@given(st.dictionaries(names, json_values, max_size=8))
def test_any_json_object_gives_a_remote_protocol_error_or_a_command(fields: dict[str, Any]) -> None:
    check_garbage(JSON, json.dumps(fields).encode())


@given(st.lists(json_values | st.binary(max_size=3), max_size=9) | json_values)
def test_any_msgpack_value_gives_a_remote_protocol_error_or_a_command(value: Any) -> None:
    check_garbage(MSGPACK, msgpack.packb(value))


def check_garbage(encoding: int, header: bytes) -> None:
    """Only a remote protocol error, or a command that is what its types say and can be sent on."""
    try:
        command = decode_command(int(encoding), header)
    except RemoteProtocolError:
        return
    numbers = (command.code, command.opaque, command.flag, command.language, command.version, command.encoding)
    assert {type(number) for number in numbers} == {int}
    assert command.language in list(Language)
    assert {type(text) for pair in command.ext_fields.items() for text in pair} <= {str}
    assert command.remark is None or (command.remark and type(command.remark) is str)
    assert again(command) == command


@pytest.mark.parametrize("encoding", [-1, 3, 255])
def test_an_unknown_encoding_is_refused(encoding: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"unknown header encoding {encoding}"):
        decode_command(encoding, b"{}")


# --- what cannot be sent


@pytest.mark.parametrize("code", [2**15, -(2**15) - 1, 200050])
def test_a_binary_header_has_no_room_for_large_codes_and_versions(code: int) -> None:
    with pytest.raises(LocalProtocolError):
        header_bytes(Command(code, encoding=ROCKETMQ))
    with pytest.raises(LocalProtocolError):
        header_bytes(Command(1, version=code, encoding=ROCKETMQ))


def test_a_binary_header_has_no_room_for_long_keys() -> None:
    assert again(Command(1, {"k" * 32767: ""}, encoding=ROCKETMQ)).ext_fields == {"k" * 32767: ""}
    with pytest.raises(LocalProtocolError):
        header_bytes(Command(1, {"k" * 32768: ""}, encoding=ROCKETMQ))


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize(
    "command", [Command(1, {"a": "\ud83d"}), Command(1, {"\udc00": ""}), Command(1, remark="\ud83d")]
)
def test_half_a_character_cannot_be_sent(command: Command, encoding: Encoding) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        header_bytes(command._replace(encoding=encoding))


@pytest.mark.parametrize(
    "command",
    [
        Command(1, encoding=3),
        Command(1, language=99),
        Command(1, encoding=ROCKETMQ, language=256),
        Command(2**64),
        Command(2**64, encoding=MSGPACK),
        Command(1, {"a": 1}, encoding=ROCKETMQ),  # type: ignore[dict-item]
        Command(1, {"a": None}, encoding=ROCKETMQ),  # type: ignore[dict-item]
        Command(1, {"a": object()}),  # type: ignore[dict-item]
        Command(1, {"a": object()}, encoding=MSGPACK),  # type: ignore[dict-item]
        Command(1, {1: "a"}),  # type: ignore[dict-item]
        Command(1, remark=5, encoding=ROCKETMQ),  # type: ignore[arg-type]
    ],
)
def test_what_no_header_can_hold_is_the_callers_mistake(command: Command) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        header_bytes(command)


def test_the_error_does_not_show_the_body() -> None:
    with pytest.raises(LocalProtocolError) as caught:
        header_bytes(Command(2**64, body=b"secret"))
    assert "secret" not in str(caught.value)
