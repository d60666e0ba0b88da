"""Cutting a byte stream into commands, whatever pieces it comes in and whatever it holds."""

from __future__ import annotations

import struct
import tracemalloc
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fixtures import captured_frames
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.codes import Encoding, Language
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.framing import (
    MAX_FRAME,
    MAX_HEADER,
    FrameDecoder,
    encode_frame,
    encode_head,
    foreign_protocol,
)

ROUTE_QUERY = Command(105, {"topic": "TopicTest"}, opaque=7, language=Language.PYTHON, version=401)
ROUTE_QUERY_FRAMES = {
    Encoding.JSON: bytes.fromhex("00000089 00000085")
    + b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"PYTHON",'
    + b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":401}',
    Encoding.ROCKETMQ: bytes.fromhex(
        "0000002d 01000029 0069 03 0191 00000007 00000000 00000000 000000140005 746f706963 00000009 546f70696354657374"
    ),
    Encoding.MSGPACK: bytes.fromhex("0000001e 0200001a 97 69 03 cd0191 07 00 c0 81 a5746f706963 a9546f70696354657374"),
}

commands = st.builds(
    Command,
    code=st.integers(-(2**15), 2**15 - 1),
    ext_fields=st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=4),
    body=st.binary(max_size=40),
    opaque=st.integers(-(2**31), 2**31 - 1),
    flag=st.integers(0, 3),
    remark=st.none() | st.text(min_size=1, max_size=12),
    language=st.sampled_from([int(language) for language in Language]),
    version=st.integers(0, 2**15 - 1),
    encoding=st.sampled_from([int(encoding) for encoding in Encoding]),
)


def decode(pieces: Iterable[bytes], decoder: FrameDecoder | None = None) -> list[Command]:
    decoder = decoder or FrameDecoder()
    return [command for piece in pieces for command in decoder.feed(piece)]


def pieces_of(stream: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    """The stream cut at these places."""
    start = 0
    for cut in [*sorted(cuts), len(stream)]:
        yield stream[start:cut]
        start = cut


def prefix(length: int, header_length: int, encoding: int = 0) -> bytes:
    return struct.pack(">II", length, encoding << 24 | header_length)


# --- known bytes


@pytest.mark.parametrize("encoding", Encoding)
def test_a_known_command_has_known_bytes(encoding: Encoding) -> None:
    command = ROUTE_QUERY._replace(encoding=encoding)
    frame = ROUTE_QUERY_FRAMES[encoding]
    assert encode_frame(command) == frame
    assert decode([frame]) == [command]


def test_the_length_counts_all_but_itself() -> None:
    frame = encode_frame(Command(11, {"a": "b"}, b"body"))
    length, word = struct.unpack(">II", frame[:8])
    assert length == len(frame) - 4
    assert frame[8 + (word & 0xFFFFFF) :] == b"body"


def test_the_head_is_the_frame_without_its_body() -> None:
    command = Command(11, {"a": "b"}, b"body")
    assert encode_head(command) + b"body" == encode_frame(command)
    assert encode_frame(command._replace(body=memoryview(b"body"))) == encode_frame(command)


def test_without_a_body_the_head_is_the_frame() -> None:
    assert encode_head(ROUTE_QUERY) == encode_frame(ROUTE_QUERY)


# --- any split


@given(st.lists(commands, max_size=6), st.data())
def test_any_split_of_a_stream_gives_the_same_commands(expected: list[Command], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, expected))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    decoder = FrameDecoder()
    assert decode(pieces_of(stream, cuts), decoder) == expected
    assert decoder.pending == 0


@given(st.lists(commands, max_size=4))
def test_a_stream_may_come_byte_by_byte(expected: list[Command]) -> None:
    stream = b"".join(map(encode_frame, expected))
    assert decode(pieces_of(stream, range(len(stream)))) == expected


def test_a_captured_stream_may_be_cut_anywhere() -> None:
    frames = [frame.frame for frame in captured_frames() if frame.exchange in (624, 625, 630, 155, 16)]
    stream = b"".join(frames)
    expected = decode(frames)
    assert {command.encoding for command in expected} == {0, 1}
    for cut in range(len(stream) + 1):
        assert decode(pieces_of(stream, [cut])) == expected


def test_a_command_comes_as_soon_as_its_last_byte_is_there() -> None:
    frame = encode_frame(ROUTE_QUERY._replace(body=b"body"))
    decoder = FrameDecoder()
    assert decode([frame[:-1]], decoder) == []
    assert decode([frame[-1:] + frame[:1]], decoder) == [ROUTE_QUERY._replace(body=b"body")]
    assert decode([frame[1:]], decoder) == [ROUTE_QUERY._replace(body=b"body")]


def test_pending_counts_what_is_held_of_an_unfinished_frame() -> None:
    frame = encode_frame(ROUTE_QUERY)
    decoder = FrameDecoder()
    held = []
    for piece in (b"", frame[:3], frame[3:8], frame[8:20], frame[20:] + frame, frame + frame[:5]):
        decode([piece], decoder)
        held.append(decoder.pending)
    assert held == [0, 3, 8, 20, 0, 5]


# --- no copies


@pytest.mark.parametrize("encoding", Encoding)
def test_bodies_of_frames_that_came_whole_are_views_of_what_came(encoding: Encoding) -> None:
    frame = encode_frame(ROUTE_QUERY._replace(body=b"body", encoding=encoding))
    piece = frame + frame
    for command in FrameDecoder().feed(piece):
        assert isinstance(command.body, memoryview)
        assert command.body.obj is piece


def test_a_whole_frame_behind_an_unfinished_one_is_still_a_view() -> None:
    frame = encode_frame(ROUTE_QUERY._replace(body=b"body"))
    decoder = FrameDecoder()
    decode([frame[:10]], decoder)
    piece = frame[10:] + frame
    first, second = decoder.feed(piece)
    assert isinstance(second.body, memoryview)
    assert second.body.obj is piece
    assert bytes(first.body) == b"body"


def test_a_body_put_together_of_pieces_cannot_be_changed_by_later_ones() -> None:
    frame = encode_frame(ROUTE_QUERY._replace(body=b"body"))
    decoder = FrameDecoder()
    (first,) = decode(pieces_of(frame, [12]), decoder)
    decode(pieces_of(encode_frame(ROUTE_QUERY._replace(body=b"BODY")), [12]), decoder)
    assert bytes(first.body) == b"body"
    assert isinstance(first.body, memoryview)
    assert first.body.readonly


def test_decoding_does_not_copy_a_large_body() -> None:
    piece = encode_frame(ROUTE_QUERY._replace(body=bytes(8_000_000)))
    assert peak_while_decoding([piece]) < 64 * 1024


def peak_while_decoding(pieces: list[bytes]) -> int:
    """The most memory that was in use beside the pieces themselves."""
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        for piece in pieces:
            for _ in decoder.feed(piece):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- limits


@pytest.mark.parametrize(
    "promise",
    [
        prefix(MAX_FRAME - 4, 100),
        prefix(MAX_FRAME - 4, MAX_HEADER),
        prefix(MAX_FRAME - 4, MAX_HEADER, Encoding.MSGPACK) + b"\x97",
        prefix(MAX_FRAME - 4, MAX_HEADER)[:5],
    ],
)
def test_memory_is_not_taken_on_the_word_of_a_length(promise: bytes) -> None:
    assert peak_while_decoding([promise]) < 64 * 1024
    assert peak_while_decoding([promise[:3], promise[3:]]) < 64 * 1024


@pytest.mark.parametrize(
    "header",
    [
        bytes.fromhex("97 01 03 01 01 00 c0 df 7fffffff"),  # a map of two thousand million
        bytes.fromhex("dd 7fffffff"),  # an array
        bytes.fromhex("97 01 03 01 01 00 db 7fffffff"),  # a text
        bytes.fromhex("97 01 03 01 01 00 c0 81 a161 c9 7fffffff 01"),  # a value of a private type
    ],
)
def test_memory_is_not_taken_on_the_word_of_a_length_inside_a_header(header: bytes) -> None:
    def refused() -> None:
        with pytest.raises(RemoteProtocolError):
            decode([prefix(4 + len(header), len(header), Encoding.MSGPACK) + header])

    refused()
    tracemalloc.start()
    refused()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024


def test_the_largest_frame_has_16_mebibytes() -> None:
    head = encode_head(ROUTE_QUERY)
    body = bytes(16_777_216 - len(head))
    frame = encode_frame(ROUTE_QUERY._replace(body=body))
    assert len(frame) == MAX_FRAME == 16_777_216
    (command,) = FrameDecoder().feed(frame)
    assert len(command.body) == len(body)
    with pytest.raises(LocalProtocolError, match="do not fit"):
        encode_head(ROUTE_QUERY._replace(body=bytes(len(body) + 1)))


@pytest.mark.parametrize(
    ("length", "header_length"),
    [
        (16_777_213, 100),  # the whole frame has one byte more than it may
        (2**31 - 1, 100),
        (2**32 - 1, 100),
        (0, 0),
        (3, 0),
        (100, 97),
        (100, 2**24 - 1),
        (MAX_FRAME - 4, MAX_HEADER + 1),
        (MAX_FRAME - 4, 2**24 - 1),
    ],
)
def test_lengths_out_of_range_are_refused_at_once(length: int, header_length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="frame lengths out of range"):
        decode([prefix(length, header_length)])
    with pytest.raises(RemoteProtocolError, match="frame lengths out of range"):
        decode(pieces_of(prefix(length, header_length), [1, 5]))


@pytest.mark.parametrize(("length", "header_length"), [(16_777_212, 100), (100, 96), (MAX_FRAME - 4, MAX_HEADER)])
def test_lengths_at_their_limits_are_waited_for(length: int, header_length: int) -> None:
    decoder = FrameDecoder()
    assert decode([prefix(length, header_length)], decoder) == []
    assert decoder.pending == 8


def test_a_decoder_may_be_given_a_smaller_limit() -> None:
    frame = encode_frame(ROUTE_QUERY)
    assert decode([frame], FrameDecoder(len(frame))) == [ROUTE_QUERY]
    with pytest.raises(RemoteProtocolError):
        decode([frame], FrameDecoder(len(frame) - 1))


def test_a_header_without_bytes_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="header is no JSON"):
        decode([prefix(4, 0)])


@pytest.mark.parametrize("encoding", Encoding)
def test_a_header_of_our_own_that_is_too_long_is_refused(encoding: Encoding) -> None:
    fits = Command(10, {"a": "x" * (MAX_HEADER - 200)}, encoding=encoding)
    assert decode([encode_frame(fits)]) == [fits]
    with pytest.raises(LocalProtocolError, match="do not fit"):
        encode_frame(fits._replace(ext_fields={"a": "x" * MAX_HEADER}))


NOT_BYTES = [
    "text",
    [1, 2],
    None,
    memoryview(array("i", [1, 2])),
    memoryview(bytes(12)).cast("B", (3, 4))[::2],
    memoryview(bytes(12))[::2],
]


@pytest.mark.parametrize("body", NOT_BYTES)
def test_a_body_that_is_not_bytes_is_refused_before_anything_is_sent(body: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a body is bytes; this is a"):
        encode_frame(ROUTE_QUERY._replace(body=body))


@pytest.mark.parametrize("body", [b"body", memoryview(b"body"), memoryview(b"a body!")[2:6], bytearray(b"body")])
def test_bytes_of_any_kind_are_sent(body: Any) -> None:
    assert encode_frame(ROUTE_QUERY._replace(body=body)) == encode_frame(ROUTE_QUERY._replace(body=b"body"))


# --- how a stream ends


@pytest.mark.parametrize("rest", [b"", b"\0", encode_frame(ROUTE_QUERY)[:9]])
def test_a_stream_may_end_anywhere_in_a_frame(rest: bytes) -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(encode_frame(ROUTE_QUERY) + rest)) == [ROUTE_QUERY]
    decoder.check_end()


@pytest.mark.parametrize(
    ("rest", "problem"), [(b"GET", "out of range"), (b"SSH-", "this is SSH"), (b"\x16\x03", "TLS")]
)
def test_what_was_never_going_to_be_a_frame_is_found_out_at_the_end(rest: bytes, problem: str) -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(rest)) == []
    with pytest.raises(RemoteProtocolError, match=problem):
        decoder.check_end()


# --- what is not ours


def test_commands_in_front_of_a_broken_frame_come_before_its_error() -> None:
    good = encode_frame(ROUTE_QUERY)
    bad_header = prefix(4 + 2, 2) + b"[]"
    for broken in (prefix(3, 0), prefix(2**31, 0), prefix(4, 0, 9), bad_header):
        arriving = FrameDecoder().feed(good + good + broken)
        assert [next(arriving), next(arriving)] == [ROUTE_QUERY, ROUTE_QUERY]
        with pytest.raises(RemoteProtocolError):
            next(arriving)


@pytest.mark.parametrize("encoding", [3, 4, 127, 255])
def test_an_unknown_encoding_is_refused(encoding: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"unknown header encoding {encoding}"):
        decode([prefix(1 << 20, 2, encoding)])  # before anything of it has come


FOREIGN = [
    (b"GET / HTTP/1.1\r\n", "HTTP"),
    (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
    (b"HEAD / HTTP/1.1\r\n", "HTTP"),
    (b"POST /rocketmq HTTP/1.1\r\n", "HTTP"),
    (b"PUT /x HTTP/1.1\r\n", "HTTP"),
    (b"DELETE /x HTTP/1.1\r\n", "HTTP"),
    (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
    (b"CONNECT host:443 HTTP/1.1\r\n", "HTTP"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", r"HTTP/2 \(gRPC\)"),
    (bytes.fromhex("16030102000100 01fc0303"), "TLS"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    (b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 10911\r\n", "the PROXY protocol"),
    (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", "the PROXY protocol"),
]


@pytest.mark.parametrize(("hello", "name"), FOREIGN)
def test_a_foreign_protocol_is_named(hello: bytes, name: str) -> None:
    for pieces in ([hello], pieces_of(hello, [1]), pieces_of(hello, range(len(hello)))):
        with pytest.raises(RemoteProtocolError, match=f"this is {name}, not the RocketMQ remoting protocol"):
            decode(pieces)


@pytest.mark.parametrize(("hello", "name"), FOREIGN)
def test_a_foreign_protocol_is_looked_for_only_where_a_stream_begins(hello: bytes, name: str) -> None:
    good = encode_frame(ROUTE_QUERY)
    for pieces in ([good + hello], [good, hello], pieces_of(good + hello, [10, len(good) + 3])):
        with pytest.raises(RemoteProtocolError, match="frame lengths out of range"):
            decode(pieces)


def test_a_beginning_that_nobody_knows_has_no_name() -> None:
    assert foreign_protocol(b"QUIT\r\n\r\n") is None
    with pytest.raises(RemoteProtocolError, match="frame lengths out of range: 51554954 0d0a0d0a"):
        decode([b"QUIT\r\n\r\n"])


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_garbage_gives_a_remote_protocol_error_or_nothing(data: bytes, cuts: list[int]) -> None:
    outcomes = {outcome([data]), outcome(pieces_of(data, [min(cut, len(data)) for cut in cuts]))}
    assert len(outcomes) == 1


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2, 3]), st.integers(0, 200), st.integers(-8, 8))
def test_garbage_behind_plausible_lengths_gives_a_remote_protocol_error_or_a_command(
    garbage: bytes, encoding: int, header_length: int, surplus: int
) -> None:
    data = prefix(max(len(garbage) + 4 - surplus, 0), header_length, encoding) + garbage
    assert outcome([data]) == outcome(pieces_of(data, [3, 9]))


@given(commands, st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_a_damaged_frame_gives_a_remote_protocol_error_or_a_command(
    command: Command, place: int, damage: bytes
) -> None:
    frame = bytearray(encode_frame(command))
    at = place % len(frame)
    frame[at : at + len(damage)] = damage
    assert outcome([bytes(frame)]) == outcome(pieces_of(bytes(frame), [1, 8, 20]))


def outcome(pieces: Iterable[bytes]) -> str:
    """What comes of a stream: its commands, what is pending, or the error; nothing else may come."""
    decoder = FrameDecoder()
    seen = []
    try:
        for piece in pieces:
            for command in decoder.feed(piece):
                seen.append(command._replace(body=bytes(command.body)))  # noqa: PERF401
    except RemoteProtocolError as error:
        return f"{seen} and then {error}"
    return f"{seen} and {decoder.pending} bytes"
