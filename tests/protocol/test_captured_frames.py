"""Every frame that RocketMQ and its clients were seen to send: read, understood, and written again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from fixtures import CapturedFrame, captured_frames

from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.bodies import RegisterBrokerBody, parse_config_text
from pocketmq.protocol.codes import Encoding
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import HeaderFieldError
from pocketmq.protocol.fields import codec, decode_header, encode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.message import iter_records
from pocketmq.protocol.requests import REQUESTS, BodyType, Content, HeaderType

# Requests that were made up to see what a server does with them: the field that it does not find or cannot read.
BAD_REQUESTS = {
    (exchange + offset): field
    for offset in (0, 59)  # asked of 5.5.0 and of 4.9.7
    for exchange, field in {
        627: "consumerGroup",
        630: "queueId",
        632: "queueId",
    }.items()
}

# What any request may carry beside the fields of its header class.
GENERIC_FIELDS = {
    *("bname", "ns", "nsd", "oway", "lo", "ReqT", "__ZONE_NAME", "__ZONE_MODE"),
    *("AccessKey", "Signature", "SecurityToken", "OnsChannel", "SignatureMethod"),
    "PMQ_SER",
}

# Java writes the fields of a signed compact send twice into a binary header.
WRITTEN_TWICE = {155, 431}


@cache
def command_of(frame: CapturedFrame) -> Command:
    (command,) = FrameDecoder().feed(frame.frame)
    return command


def header_type_of(frame: CapturedFrame) -> HeaderType | None:
    """The class of a frame's header; None for codes that nobody serves and for answers without a header."""
    row = REQUESTS.get(frame.request_code)
    if row is None or (frame.is_response and frame.code not in row.answers_with_header):
        return None
    return row.response if frame.is_response else row.request


def typed_frames() -> Iterator[tuple[Command, HeaderType]]:
    """The commands whose headers can be read, each with its class."""
    for frame in captured_frames():
        header_type = header_type_of(frame)
        if header_type is not None and (frame.is_response or frame.exchange not in BAD_REQUESTS):
            yield command_of(frame), header_type


# --- commands


def test_there_are_as_many_as_were_captured() -> None:
    encodings = Counter(frame.encoding for frame in captured_frames())
    assert encodings == {Encoding.JSON: 1238, Encoding.ROCKETMQ: 186}


def test_every_frame_is_the_command_that_the_recorder_saw() -> None:
    for frame in captured_frames():
        command = command_of(frame)
        assert (command.code, command.encoding) == (frame.code, frame.encoding)
        assert (command.is_response, command.is_oneway) == (frame.is_response, frame.is_oneway)
        assert command.body == frame.body


def test_all_of_them_in_one_stream_are_the_same_commands() -> None:
    stream = b"".join(frame.frame for frame in captured_frames())
    assert list(FrameDecoder().feed(stream)) == [command_of(frame) for frame in captured_frames()]


def test_every_command_survives_being_written_again() -> None:
    for frame in captured_frames():
        command = command_of(frame)
        assert list(FrameDecoder().feed(encode_frame(command))) == [command]


def test_responses_have_the_opaque_of_their_requests() -> None:
    waiting: dict[int, int] = {}
    for frame in captured_frames():
        opaque = command_of(frame).opaque
        if frame.is_response:
            assert waiting.pop(frame.exchange) == opaque
        else:
            waiting[frame.exchange] = opaque


def test_json_headers_of_java_are_written_with_the_same_bytes() -> None:
    """But for empty ext fields and empty remarks, which Java sometimes writes and sometimes leaves out."""
    from_java = [
        frame
        for frame in captured_frames()
        if frame.encoding == Encoding.JSON and b'"serializeTypeCurrentRPC":"JSON"' in frame.frame
    ]
    assert len(from_java) > 900
    for frame in from_java:
        header = frame.frame[8:].replace(b'"extFields":{},', b"", 1).replace(b'"remark":"",', b"", 1)
        assert encode_frame(command_of(frame))[8:] == header


def test_binary_headers_of_java_are_written_with_the_same_bytes() -> None:
    different = {
        frame.exchange
        for frame in captured_frames()
        if frame.encoding == Encoding.ROCKETMQ and encode_frame(command_of(frame)) != frame.frame
    }
    assert different == WRITTEN_TWICE


def test_every_command_can_be_sent_in_msgpack() -> None:
    for frame in captured_frames():
        command = command_of(frame)._replace(encoding=Encoding.MSGPACK)
        assert list(FrameDecoder().feed(encode_frame(command))) == [command]


# --- headers


def test_only_made_up_codes_have_no_row() -> None:
    """3442 is what is left of POP_MESSAGE in the 16 bits that a binary header has for a code."""
    assert {frame.request_code for frame in captured_frames()} - REQUESTS.keys() == {9999, 3442}


def test_only_the_requests_that_were_made_up_to_be_bad_are() -> None:
    refused = {}
    for frame in captured_frames():
        header_type = header_type_of(frame)
        if header_type is not None:
            try:
                decode_header(header_type, command_of(frame).ext_fields)
            except HeaderFieldError as error:
                refused[frame.exchange] = error.field
    assert refused == BAD_REQUESTS


def test_typed_headers_are_written_with_the_text_that_was_read() -> None:
    for command, header_type in typed_frames():
        header = decode_header(header_type, command.ext_fields)
        written = encode_header(header)
        assert decode_header(header_type, written) == header
        known = {field.wire for field in codec(header_type).fields}
        # One request was made up with a plus sign, to see whether a server minds.
        read = {name: text.removeprefix("+") for name, text in command.ext_fields.items() if name in known}
        assert {name: text for name, text in written.items() if name in read} == read


def test_what_is_written_and_was_not_read_is_what_the_field_is_when_absent() -> None:
    added = {
        (name, text)
        for command, header_type in typed_frames()
        for name, text in encode_header(decode_header(header_type, command.ext_fields)).items()
        if name not in command.ext_fields
    }
    usual = {("committed", "true"), ("j", "0"), ("k", "false"), ("m", "false"), ("queueId", "-1")}
    assert added == usual | {("topic", "")}  # a route was asked for without a topic, to see what a server says


def test_header_classes_know_every_field_but_the_generic_ones() -> None:
    unknown = {
        name
        for command, header_type in typed_frames()
        for name in command.ext_fields.keys() - {field.wire for field in codec(header_type).fields}
    }
    assert unknown <= GENERIC_FIELDS
    assert {"bname", "ReqT", "AccessKey"} <= unknown


def test_answers_without_their_header_have_few_fields() -> None:
    leftover = Counter(
        (frame.request_code, frame.code, *sorted(command_of(frame).ext_fields))
        for frame in captured_frames()
        if frame.is_response and header_type_of(frame) is None and command_of(frame).ext_fields
    )
    assert leftover == {
        (12, 22, "indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"): 6,
        (310, 1, "MSG_REGION", "TRACE_ON"): 3,
        (310, 13, "MSG_REGION", "TRACE_ON"): 1,
        (310, 16, "MSG_REGION", "TRACE_ON"): 2,
        (310, 17, "MSG_REGION", "TRACE_ON"): 2,
        (310, 29, "MSG_REGION", "TRACE_ON"): 2,
        (370, 604, "MSG_REGION"): 2,
    }


# --- bodies


def test_every_body_is_what_the_table_says() -> None:
    seen: Counter[str] = Counter()
    for frame in captured_frames():
        row = REQUESTS.get(frame.request_code)
        if row is not None and frame.body and not (frame.is_response and frame.code):
            body_type = row.response_body if frame.is_response else row.request_body
            seen[read_body(frame, body_type)] += 1
    assert seen == {"JSON": 233, "MESSAGE": 109, "STORED": 48, "BATCH": 8, "CONFIG": 8}


def read_body(frame: CapturedFrame, body_type: BodyType) -> str:
    """Read a body with the reader of its kind, and say which that is."""
    command = command_of(frame)
    match body_type:
        case None:
            pytest.fail(f"exchange {frame.exchange} has a body")
        case Content.STORED:
            assert all(record.crc_ok() for record in iter_records(command.body))
        case Content.BATCH:
            assert decode_batch(command.body)
        case Content.CONFIG:
            assert parse_config_text(command.body)
        case Content.MESSAGE | Content.RECORDS:
            pass
        case type() if body_type is RegisterBrokerBody:
            assert RegisterBrokerBody.decode(command.body, command.version).topic_config_serialize_wrapper
        case _:
            assert body_type.from_json(command.body)
    return body_type.name if isinstance(body_type, Content) else "JSON"


def test_answers_that_are_not_positive_have_no_body() -> None:
    assert [frame.exchange for frame in captured_frames() if frame.is_response and frame.code and frame.body] == []
