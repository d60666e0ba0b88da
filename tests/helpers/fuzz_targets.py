"""What must hold for any bytes at all: checks that a fuzzer and the tests share.

A target takes bytes, hands them to decoders, and fails when one of them raises anything but `RemoteProtocolError`,
or when two that read the same thing do not agree. Its first byte is a choice (how to cut, which class), the rest is
what is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

import orjson

from pocketmq.protocol import bodies, fastjson
from pocketmq.protocol.batch import BatchItem, decode_batch, expand_inner_batch
from pocketmq.protocol.bodies import Body, RegisterBrokerBody, RegisteredTopics
from pocketmq.protocol.codes import MessageFlag, version_ordinal
from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fields import decode_header, encode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.hashes import index_key_hash
from pocketmq.protocol.message import RecordView, decode_record, iter_records
from pocketmq.protocol.properties import Property
from pocketmq.protocol.records_body import batch_columns, unpack_records_body
from pocketmq.protocol.requests import REQUESTS, HeaderType

Value = TypeVar("Value")
Target = Callable[[bytes], None]

_INFLATE_LIMIT: Final = 64 * 1024


def read(decode: Callable[[], Value]) -> Value | None:
    """What a decoder gives, or None if it refuses."""
    try:
        return decode()
    except RemoteProtocolError:
        return None


def choice(data: bytes) -> tuple[int, bytes]:
    """The first byte, and the rest."""
    return (data[0], data[1:]) if data else (0, data)


# --- a stream of frames


def check_stream(data: bytes) -> None:
    """However a stream is cut, the same commands come out; their headers are read or refused, and can be sent."""
    step, stream = choice(data)
    commands, error = decode_stream([stream])
    assert decode_stream(cut(stream, 1 + step)) == (commands, error)
    for command in commands:
        assert decode_stream([encode_frame(command)]) == ([command], None)
        for header_type in header_types(command):
            check_header(command, header_type)


def decode_stream(pieces: Iterable[bytes]) -> tuple[list[Command], str | None]:
    """The commands of a stream and the error that ended it."""
    decoder, commands = FrameDecoder(), []
    try:
        for piece in pieces:
            for command in decoder.feed(piece):
                commands.append(command._replace(body=bytes(command.body)))  # noqa: PERF401
    except RemoteProtocolError as error:
        return commands, str(error)
    return commands, None


def cut(stream: bytes, step: int) -> Iterator[bytes]:
    return (stream[start : start + step] for start in range(0, len(stream), step))


def header_types(command: Command) -> set[HeaderType]:
    """The class of a request's header; for a response any may be meant."""
    if command.is_response:
        return {row.response for row in REQUESTS.values()}
    return {REQUESTS[command.code].request} if command.code in REQUESTS else set()


def check_header(command: Command, header_type: HeaderType) -> None:
    header = read(lambda: decode_header(header_type, command.ext_fields))
    if header is not None:
        assert decode_header(header_type, encode_header(header)) == header


# --- stored records


def check_records(data: bytes) -> None:
    """One by one or as columns: records are accepted and read alike."""
    _, run = choice(data)
    records = read(lambda: list(iter_records(run)))
    columns = read(lambda: RecordColumns(run))
    assert (records is None) == (columns is None)
    if records is not None and columns is not None:
        assert [record.start for record in records] == columns.starts.tolist()
        check_numbers(records, columns)
        check_texts(records, columns)
        for record in records:
            check_lazy_parts(run, record)


def check_numbers(records: list[RecordView], columns: RecordColumns) -> None:
    for name in (
        "magic",
        "crc",
        "queue_id",
        "flag",
        "queue_offset",
        "physical_offset",
        "sys_flag",
        "born_timestamp",
        "store_timestamp",
        "reconsume_times",
        "prepared_transaction_offset",
    ):
        assert getattr(columns, name).tolist() == [getattr(record, name) for record in records]
    assert columns.total_size.tolist() == [record.size for record in records]
    assert columns.crc_matches().tolist() == [record.crc_ok() for record in records]


def check_texts(records: list[RecordView], columns: RecordColumns) -> None:
    assert columns.bodies.tolist() == [bytes(record.body) for record in records]
    assert texts(columns.topics.tolist()) == [record.topic for record in records]
    assert texts(columns.properties.tolist()) == [record.properties_text for record in records]
    for name in (Property.TAGS, Property.KEYS, Property.UNIQ_KEY):
        expected = [record.properties.get(name, "") for record in records]
        assert texts(columns.property_column(name.encode()).tolist()) == expected
    rows, hashes = columns.index_hashes()
    expected_hashes = [
        (row, index_key_hash(f"{record.topic}#{key}"))
        for row, record in enumerate(records)
        for key in (record.properties.get(Property.UNIQ_KEY), *record.keys, record.tags and f"T#{record.tags}")
        if key
    ]
    assert list(zip(rows.tolist(), hashes.tolist(), strict=True)) == expected_hashes


def texts(values: list[bytes]) -> list[str]:
    return [value.decode("utf-8", "replace") for value in values]


def check_lazy_parts(run: bytes, record: RecordView) -> None:
    """What is decoded only when it is asked for."""
    assert repr(decode_record(run, record.start)) == repr(record)
    with suppress(RemoteProtocolError):
        assert record.message_id
        assert record.to_record().born_host == record.born_host
    with suppress(RemoteProtocolError):
        assert len(record.decompressed_body(_INFLATE_LIMIT)) <= _INFLATE_LIMIT
    if record.sys_flag & MessageFlag.INNER_BATCH:
        with suppress(RemoteProtocolError):
            for number, inner in enumerate(expand_inner_batch(record, _INFLATE_LIMIT)):
                assert inner.queue_offset == record.queue_offset + number


# --- bodies that carry many messages


def check_batch(data: bytes) -> None:
    """One by one or as columns: the items of a batch are accepted and read alike."""
    _, body = choice(data)
    items = read(lambda: decode_batch(body))
    columns = read(lambda: batch_columns(body))
    assert (items is None) == (columns is None)
    if items is not None and columns is not None:
        rows = zip(columns.bodies.tolist(), texts(columns.properties.tolist()), columns.flag.tolist(), strict=True)
        assert [BatchItem(*row) for row in rows] == items


def check_records_body(data: bytes) -> None:
    """What may be stored as it came is a run of records to everyone else, too."""
    count, body = choice(data)
    first = read(lambda: decode_record(body, min(4 * count, len(body))))
    topic, queue_id = ("", 0) if first is None else (first.topic, first.queue_id)
    columns = read(lambda: unpack_records_body(body, count, topic.encode(), queue_id))
    if columns is not None:
        run = body[4 * count :]
        records = list(iter_records(run))
        assert len(records) == len(columns) == count
        assert {(record.topic, record.queue_id) for record in records} == {(topic, queue_id)}
        check_records(b"\0" + run)


# --- JSON


def check_json(data: bytes) -> None:
    """The dialect is read or refused, and what is plain JSON is what it is to everyone."""
    _, document = choice(data)
    value = read(lambda: [fastjson.loads(document)])
    with suppress(orjson.JSONDecodeError):
        plain = orjson.loads(document)
        if value is not None and b'"$ref"' not in document:
            assert value == [plain]


BODY_TYPES: Final[list[type[Body]]] = sorted(
    (
        member
        for member in vars(bodies).values()
        if isinstance(member, type) and issubclass(member, Body) and member is not Body
    ),
    key=lambda body_type: body_type.__name__,
)


def check_body(data: bytes) -> None:
    """A typed body is refused, or is written as something that is read again."""
    number, document = choice(data)
    body_type = BODY_TYPES[number % len(BODY_TYPES)]
    body = read(lambda: body_type.from_json(document))
    if body is not None:
        again = body_type.from_json(body.to_json())
        assert again.to_json() == body_type.from_json(again.to_json()).to_json()


# --- registrations

VERSIONS: Final = (version_ordinal(4, 9, 7), version_ordinal(5, 0, 0), 36)
COMPRESSED: Final = 3 * 42  # so much more of the first byte, and the blocks come in plain: the fuzzer cannot inflate


def check_registration(data: bytes) -> None:
    """What a NameServer reads of a registration is what all of it says, in any encoding that a version has."""
    number, body = choice(data)
    version = VERSIONS[number % len(VERSIONS)]
    if number >= COMPRESSED:
        body = zlib.compress(body, 1)
    topics = read(lambda: RegisteredTopics.decode(body, version))
    whole = read(lambda: RegisterBrokerBody.decode(body, version))
    if topics is not None and whole is not None:
        wrapper = whole.topic_config_serialize_wrapper
        assert topics.data_version == replace(wrapper.data_version, extra={})
        assert topics.filter_servers == whole.filter_server_list
        assert topics.topics == {
            name: (config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag)
            for name, config in wrapper.topic_config_table.items()
        }


TARGETS: Final[tuple[Target, ...]] = (
    check_stream,
    check_records,
    check_batch,
    check_records_body,
    check_json,
    check_body,
    check_registration,
)
