"""Sound inputs for the targets of `fuzz_targets.py`, taken from what real systems said; damage starts from these."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from fixtures import CapturedFrame, captured_frames
from fuzz_targets import (
    BODY_TYPES,
    COMPRESSED,
    VERSIONS,
    Target,
    check_batch,
    check_body,
    check_json,
    check_records,
    check_records_body,
    check_registration,
    check_stream,
)

from pocketmq.protocol.codes import Encoding, RequestCode, version_ordinal
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.records_body import pack_records_body
from pocketmq.protocol.requests import REQUESTS, BodyType, Content
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans


@cache
def seeds(target: Target) -> tuple[bytes, ...]:
    """The inputs for one target, none of them twice."""
    return tuple(dict.fromkeys(_SEEDS[target]()))


def _streams() -> Iterator[bytes]:
    frames = [frame.frame for frame in captured_frames()]
    yield from (b"\x06" + frame for frame in frames)
    yield from (b"\x40" + b"".join(frames[start : start + 3]) for start in range(0, 60, 3))
    for command in FrameDecoder().feed(b"".join(frames[::10])):
        yield b"\x06" + encode_frame(command._replace(encoding=Encoding.MSGPACK))


def _runs() -> Iterator[bytes]:
    return (b"\0" + frame.body for frame in _frames_with(Content.STORED))


def _batches() -> Iterator[bytes]:
    return (b"\0" + frame.body for frame in _frames_with(Content.BATCH))


def _records_bodies() -> Iterator[bytes]:
    """The pulled messages as PocketMQ's own client would send them."""
    for frame in _frames_with(Content.STORED):
        columns = RecordColumns(frame.body)
        names = Spans.of([b"UNIQ_KEY\x01%d\x02" % row for row in range(len(columns))])
        topic = columns.topics.tolist()[0]
        run, lengths = encode_records(topic, 1, columns.bodies, names, born_timestamp=columns.born_timestamp)
        if len(columns) < 256:
            yield bytes([len(columns)]) + pack_records_body(run, lengths)


def _documents() -> Iterator[bytes]:
    for frame in captured_frames():
        if isinstance(_body_type(frame), type) and frame.body[:1] == b"{":
            yield b"\0" + frame.body


def _typed_documents() -> Iterator[bytes]:
    for frame in captured_frames():
        body_type = _body_type(frame)
        if isinstance(body_type, type) and frame.body[:1] == b"{":
            yield bytes([BODY_TYPES.index(body_type)]) + frame.body


def _registrations() -> Iterator[bytes]:
    for frame in captured_frames():
        if frame.code == RequestCode.REGISTER_BROKER and frame.body:
            version = VERSIONS.index(version_ordinal(5, 0, 0) if frame.server == "5.5.0" else version_ordinal(4, 9, 7))
            yield bytes([version]) + frame.body
            with suppress(zlib.error):  # most are JSON
                yield bytes([COMPRESSED + version]) + zlib.decompress(frame.body)


def _frames_with(content: Content) -> Iterator[CapturedFrame]:
    return (frame for frame in captured_frames() if frame.body and _body_type(frame) is content)


def _body_type(frame: CapturedFrame) -> BodyType:
    row = REQUESTS.get(frame.request_code)
    if row is None or (frame.is_response and frame.code):
        return None
    return row.response_body if frame.is_response else row.request_body


_SEEDS: Final[Mapping[Target, Callable[[], Iterator[bytes]]]] = {
    check_stream: _streams,
    check_records: _runs,
    check_batch: _batches,
    check_records_body: _records_bodies,
    check_json: _documents,
    check_body: _typed_documents,
    check_registration: _registrations,
}
