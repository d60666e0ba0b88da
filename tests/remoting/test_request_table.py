"""Every request of the table with every kind of nonsense in it, while a well-behaved client is served beside.

Each frame must get a response code, or a closed connection where the frame itself makes no sense. The handlers do what
real ones begin with: they take the typed header, decode the body, and answer.
"""

from __future__ import annotations

import json
import logging
import random
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count, islice
from typing import Any, NamedTuple

import msgpack
import pytest
import trio
from serving import RawClient, Serving, serving

from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.bodies import RegisterBrokerBody, parse_config_text
from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fields import Field, Kind, codec
from pocketmq.protocol.framing import MAX_FRAME, encode_frame
from pocketmq.protocol.message import iter_records
from pocketmq.protocol.records_body import unpack_records_body
from pocketmq.protocol.requests import REQUESTS, Content, RequestSpec
from pocketmq.remoting.handlers import Answer, Handler, Request

Fields = Mapping[str, Any]


# --- the server: what every handler begins with


def read_body(row: RequestSpec, request: Request[Any]) -> object:
    body, header = request.command.body, request.header
    match row.request_body:
        case type() as kind if kind is RegisterBrokerBody:
            return RegisterBrokerBody.decode(body, request.command.version)
        case type() as kind:
            return kind.from_json(body)
        case Content.BATCH:
            return decode_batch(body)
        case Content.STORED:
            return list(iter_records(body))
        case Content.RECORDS:
            return unpack_records_body(body, header.record_count, header.topic.encode(), header.queue_id)
        case Content.CONFIG:
            return parse_config_text(body)
        case _:
            return None


def handler_of(row: RequestSpec) -> Handler:
    def handle(request: Request[Any]) -> Answer:
        assert type(request.header) is row.request
        read_body(row, request)
        return request.reply()

    return handle


HANDLERS = {code: handler_of(row) for code, row in REQUESTS.items()}


# --- the frames


class Probe(NamedTuple):
    """One frame, and what is known about its answer: the field it must name, or that nothing can be wrong with it."""

    what: str
    opaque: int
    frame: bytes
    refused_field: str | None = None
    must_succeed: bool = False


OPAQUES = count()


NUMBERS = (Kind.INT32, Kind.INT64)

# What a field may hold, and the kinds of field that cannot hold it. Text is the same in all encodings.
TEXTS: list[tuple[str, Sequence[Kind]]] = [
    ("", NUMBERS),
    ("text", NUMBERS),
    ("1.0", NUMBERS),
    (" 0", NUMBERS),
    ("true", NUMBERS),
    ("null", NUMBERS),
    ("-1", ()),
    ("-2147483649", (Kind.INT32,)),
    ("2147483648", (Kind.INT32,)),
    ("9223372036854775808", NUMBERS),
    ("-9223372036854775809", NUMBERS),
    ("1" + "0" * 400, NUMBERS),
    ("é€😀\0", NUMBERS),
]
HUGE = "x" * 40 * 1024
ABSENT = object()

# What only JSON and msgpack can express.
TYPED: list[tuple[Any, Sequence[Kind]]] = [
    (7, ()),
    (-1, ()),
    (2**31, (Kind.INT32,)),
    (2**63, NUMBERS),
    (1.5, NUMBERS),
    (True, NUMBERS),
    (False, NUMBERS),
]

# Values that are nothing a field can hold: the frame cannot be read, so there is nobody to answer.
NESTED: dict[Encoding, list[Any]] = {
    Encoding.JSON: [[], [1], {}, {"a": 1}, [[[]]] * 100, 10**400],
    Encoding.ROCKETMQ: [],
    Encoding.MSGPACK: [[], [1], {}, {"a": 1}, {1: 2}, b"", b"bytes", msgpack.ExtType(1, b"x")],
}

GOOD = {Kind.TEXT: "T", Kind.INT32: "1", Kind.INT64: "1", Kind.BOOLEAN: "true"}


def probe(row: RequestSpec, fields: Fields, encoding: Encoding, what: str, *, body: bytes = b"") -> Probe:
    """A frame whose fields are written as they are, text or not."""
    opaque = next(OPAQUES)
    what = f"{row.code.name} with {what}"
    match encoding:
        case Encoding.JSON:
            header = json.dumps({"code": row.code, "extFields": fields, "opaque": opaque, "version": 400}).encode()
        case Encoding.MSGPACK:
            header = msgpack.packb([row.code, 0, 400, opaque, 0, None, fields])
        case Encoding.ROCKETMQ:
            frame = encode_frame(Command(row.code, fields, opaque=opaque, version=400, encoding=encoding))
            header = frame[8:]
    prefix = struct.pack(">II", 4 + len(header) + len(body), encoding << 24 | len(header))
    any_body_will_do = row.request_body in (None, Content.MESSAGE)
    return Probe(what, opaque, prefix + header + body, must_succeed=any_body_will_do)


def good_fields(row: RequestSpec) -> dict[str, Any]:
    return {field.wire: GOOD[field.kind] for field in codec(row.request).fields}


def field_probes(row: RequestSpec, encoding: Encoding) -> Iterator[Probe]:
    """Every field as every value."""
    for field in codec(row.request).fields:
        for value, is_refused in values_of(field, encoding):
            fields = good_fields(row) | {field.wire: value}
            if value is ABSENT:
                del fields[field.wire]
            made = probe(row, fields, encoding, f"{field.wire} = {value!r:.60}")
            yield made._replace(refused_field=field.wire) if is_refused else made


def values_of(field: Field, encoding: Encoding) -> Iterator[tuple[Any, bool]]:
    """What the encoding can put into a field, and whether that is to be refused."""
    yield ABSENT, field.required
    yield HUGE, field.kind in NUMBERS
    for text, misfits in TEXTS:
        yield text, field.kind in misfits
    if encoding is not Encoding.ROCKETMQ:
        yield None, field.required
        for value, misfits in TYPED:
            yield value, field.kind in misfits


def row_probes(row: RequestSpec, encoding: Encoding) -> Iterator[Probe]:
    """No field at all, all of them, and more than that."""
    required = next((field.wire for field in codec(row.request).fields if field.required), None)
    yield probe(row, {}, encoding, "no fields")._replace(refused_field=required)
    yield probe(row, good_fields(row), encoding, "good fields")
    yield probe(row, good_fields(row) | {"unknown": "field", "": ""}, encoding, "unknown fields")


def nested_probes(row: RequestSpec, encoding: Encoding) -> Iterator[Probe]:
    """A field as something that no field can be."""
    name = next((field.wire for field in codec(row.request).fields), "unknown")
    for value in NESTED[encoding]:
        yield probe(row, good_fields(row) | {name: value}, encoding, f"{name} = {value!r:.60}")


CHANCE = random.Random(20)
LARGE_BODY = bytes(300_000)
BODIES: list[bytes] = [
    b"",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'"text"',
    b"-1",
    b"1" + b"0" * 400,
    b'{"topic":1' + b"0" * 400 + b"}",
    b'{"' + b"x" * 40_000 + b'":{}}',
    b"{" * 5000,
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 5000,
    b"\xff\xfe\0\0",
    b"\0" * 1000,
    b"\x7f\xff\xff\xff" * 100,
    b"\xda\xa3\x20\xa7" * 100,
    CHANCE.randbytes(3000),
    b"x\x9c" + CHANCE.randbytes(100),
    zlib.compress(b"\x7f\xff\xff\xff" * 100),
    zlib.compress(b"\0\0\0\2{}\x7f\xff\xff\xff"),
    b"name=value\n=\n\n==\nname" + b"=" * 10_000,
]


def body_probes(row: RequestSpec, encoding: Encoding) -> Iterator[Probe]:
    """Good fields, and a body that is nearly always nonsense."""
    for body in [*BODIES, LARGE_BODY] if encoding is Encoding.JSON else BODIES:
        yield probe(row, good_fields(row), encoding, f"a body of {body[:20]!r}", body=body)


# --- putting them to the server

Probes = Callable[[RequestSpec, Encoding], Iterator[Probe]]


def probes_of(encoding: Encoding, *kinds: Probes) -> Iterator[Probe]:
    """The probes of all rows that the encoding can express: a binary header has 16 bits for the code."""
    rows = [row for row in REQUESTS.values() if row.code < 1 << 15 or encoding is not Encoding.ROCKETMQ]
    return chain.from_iterable(kind(row, encoding) for row in rows for kind in kinds)


@asynccontextmanager
async def served_beside_others(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Serving]:
    """A server and, as long as the block lasts, a well-behaved client; no handler may fail."""
    turns = 0

    async def behave(client: RawClient) -> None:
        nonlocal turns
        while True:
            command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, opaque=turns)
            assert await client.request(command) == command.reply(ResponseCode.SUCCESS)
            turns += 1

    caplog.set_level(logging.ERROR)
    async with serving(HANDLERS) as served, trio.open_nursery() as nursery:
        nursery.start_soon(behave, await served.connect())
        yield served
        nursery.cancel_scope.cancel()
    assert turns > 10
    assert caplog.records == []


async def check_answers(served: Serving, probes: Iterator[Probe]) -> int:
    """Put probes to the server, many at a time; returns how many got the answer they should."""
    client, answered = await served.connect(), 0
    while burst := list(islice(probes, 200)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_bytes, b"".join(probe.frame for probe in burst))
            for probe in burst:
                check_answer(probe, await client.receive())
        answered += len(burst)
    return answered


def check_answer(probe: Probe, answer: Command) -> None:
    assert (answer.opaque, answer.flag) == (probe.opaque, 1), probe.what
    remark = answer.remark or ""
    if probe.refused_field is not None:
        assert answer.code == ResponseCode.SYSTEM_ERROR, probe.what
        assert remark.startswith(f"header field {probe.refused_field!r} is"), probe.what
    elif probe.must_succeed:
        assert answer.code == ResponseCode.SUCCESS, (probe.what, remark)
    else:
        assert not remark.startswith("header field"), (probe.what, remark)
    assert len(remark) < 1000, probe.what


async def check_closings(served: Serving, probes: Iterator[Probe]) -> int:
    """Put probes to the server, each behind a good request on a connection of its own."""
    closed = 0
    good = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, opaque=1)
    for probe in probes:
        async with await served.connect() as client:
            await client.send_bytes(encode_frame(good) + probe.frame)
            assert [answer.code for answer in await client.rest()] == [ResponseCode.SUCCESS], probe.what
        closed += 1
    return closed


@pytest.mark.trio
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_whatever_is_in_the_fields_each_request_gets_its_answer(
    encoding: Encoding, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_beside_others(caplog) as served:
        assert await check_answers(served, probes_of(encoding, row_probes, field_probes)) > 4000


@pytest.mark.trio
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_whatever_is_in_the_body_each_request_gets_its_answer(
    encoding: Encoding, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_beside_others(caplog) as served:
        assert await check_answers(served, probes_of(encoding, body_probes)) > 2000


@pytest.mark.trio
@pytest.mark.parametrize("encoding", [Encoding.JSON, Encoding.MSGPACK])
async def test_a_field_that_is_none_closes_the_connection(encoding: Encoding, caplog: pytest.LogCaptureFixture) -> None:
    async with served_beside_others(caplog) as served:
        assert await check_closings(served, probes_of(encoding, nested_probes)) > 500


@pytest.mark.trio
async def test_a_request_may_fill_a_frame(caplog: pytest.LogCaptureFixture) -> None:
    bodies = [row for row in REQUESTS.values() if row.request_body is not None]
    room = MAX_FRAME - 2000
    async with served_beside_others(caplog) as served:
        probes = (probe(row, good_fields(row), Encoding.JSON, "all it can hold", body=bytes(room)) for row in bodies)
        assert await check_answers(served, islice(probes, 5)) == 5
