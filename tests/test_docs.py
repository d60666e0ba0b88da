"""The documentation shows bytes; these are the bytes."""

from __future__ import annotations

import re
from pathlib import Path

from pocketmq.protocol.codes import Encoding, Language, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.message import decode_record, encode_record

DOCS = Path(__file__).parents[1] / "docs"
WIRE_FORMAT = (DOCS / "wire-format.md").read_text()

# A block of code is a run of lines with four blanks in front.
BLOCKS = [re.sub("^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .+\n)+", WIRE_FORMAT, re.M)]

ROUTE_REQUEST = Command(
    RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}, opaque=7, language=Language.PYTHON, version=401
)


def test_the_frames_of_the_wire_format_are_what_is_sent() -> None:
    [frames] = [block for block in BLOCKS if block.startswith("0000002d")]
    shown = [bytes.fromhex(line) for line in frames.splitlines()]
    assert shown == [
        encode_frame(ROUTE_REQUEST._replace(encoding=int(encoding)))
        for encoding in (Encoding.ROCKETMQ, Encoding.MSGPACK)
    ]
    [json_header] = [block for block in BLOCKS if block.startswith('{"code"')]
    frame = encode_frame(ROUTE_REQUEST)
    assert frame[8:].decode() == json_header.rstrip()
    assert list(FrameDecoder().feed(frame)) == [ROUTE_REQUEST]


def test_the_record_of_the_wire_format_is_what_is_stored() -> None:
    [block] = [block for block in BLOCKS if block.startswith("00000073 daa320a7")]
    record = decode_record(bytes.fromhex(block))
    assert (record.topic, bytes(record.body), record.tags, record.crc_ok()) == ("TopicTest", b"hello", "TagA", True)
    assert encode_record(record.to_record()) == bytes.fromhex(block)


def test_every_file_that_the_documentation_names_exists() -> None:
    root = DOCS.parent
    named = [name for path in DOCS.glob("*.md") for name in re.findall(r"`([a-z_]+/[\w/.]*)`", path.read_text())]
    assert named
    assert [name for name in named if not (root / name).exists()] == []
