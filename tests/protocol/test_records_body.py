from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fixtures import captured_frames
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.message import MAGIC_V2
from pocketmq.protocol.records_body import batch_columns, pack_records_body, unpack_records_body
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans

TOPIC, QUEUE_ID = b"Orders", 3
BODIES = [b"one", b"", b"three"]
PROPERTIES = [b"UNIQ_KEY\x01%d\x02TAGS\x01A\x02" % number for number in range(3)]

# Where the second of the three records lies in the body of the request.
SECOND = 3 * 4 + 91 + len(TOPIC) + len(BODIES[0]) + len(PROPERTIES[0])


def request(properties: list[bytes] = PROPERTIES, topic: bytes = TOPIC, **fields: Any) -> bytes:
    run, lengths = encode_records(
        topic, QUEUE_ID, Spans.of(BODIES), Spans.of(properties), **{"born_timestamp": 1, **fields}
    )
    return pack_records_body(run, lengths)


def unpack(body: bytes, count: int = 3) -> RecordColumns:
    return unpack_records_body(body, count, TOPIC, QUEUE_ID)


# --- SEND_RECORDS


def test_the_body_is_the_sizes_and_then_the_records() -> None:
    run, lengths = encode_records(TOPIC, QUEUE_ID, Spans.of(BODIES), Spans.of(PROPERTIES), born_timestamp=1)
    body = pack_records_body(run, lengths)
    assert body == struct.pack(">3i", *lengths.tolist()) + run.tobytes()


def test_what_the_client_packs_the_broker_accepts() -> None:
    columns = unpack(request())
    assert columns.bodies.tolist() == BODIES
    assert columns.properties.tolist() == PROPERTIES


def test_compressed_bodies_and_reconsume_times_are_no_matter() -> None:
    assert len(unpack(request(sys_flag=0x301, reconsume_times=2, flag=-1))) == 3


def replaced(offset: int, form: str, value: int) -> bytes:
    """The request with one number changed, counted from the start of its second record."""
    body = bytearray(request())
    struct.pack_into(form, body, SECOND + offset, value)
    return bytes(body)


@pytest.mark.parametrize(
    ("offset", "form", "value", "reason"),
    [
        (0, ">i", 90, "lengths do not agree"),
        (4, ">i", 0, "magic is unknown"),
        (4, ">I", 0xCBD43194, "magic is unknown"),
        (8, ">i", 1, "CRC"),
        (12, ">i", 4, "queue is not 3"),
        (20, ">q", 1, "not zero"),
        (28, ">q", 1, "not zero"),
        (36, ">i", 0x04, "transaction"),
        (36, ">i", 0x08, "transaction"),
        (36, ">i", 0x10, "lengths do not agree"),
        (48, ">q", 1, "not zero"),
        (56, ">q", 1, "not zero"),
        (64, ">q", 1 << 63, "not zero"),
        (76, ">q", -1, "not zero"),
        (84, ">i", -1, "lengths do not agree"),
        (89, ">B", ord("o"), "topic is not b'Orders'"),
    ],
)
def test_a_record_that_may_not_be_stored_is_named_with_the_reason(
    offset: int, form: str, value: int, reason: str
) -> None:
    form = form.upper() if value == 1 << 63 else form
    with pytest.raises(RemoteProtocolError, match=f"record 1 at byte {SECOND}: .*{reason}"):
        unpack(replaced(offset, form, value))


def test_a_record_of_version_2_is_refused() -> None:
    (record,) = second_records(lambda text: text)
    topic_at = 88 + len(BODIES[1])
    longer = bytearray(record[:topic_at] + b"\0" + record[topic_at:])
    struct.pack_into(">iI", longer, 0, len(longer), MAGIC_V2 & 0xFFFFFFFF)
    body = struct.pack(">i", len(longer)) + longer
    with pytest.raises(RemoteProtocolError, match="record 0 at byte 4: it is not of version 1"):
        unpack(body, 1)


def test_a_record_with_an_ipv6_host_is_refused() -> None:
    (record,) = second_records(lambda text: text)
    longer = bytearray(record[:56] + bytes(12) + record[56:])
    struct.pack_into(">i", longer, 0, len(longer))
    struct.pack_into(">i", longer, 36, 0x10)
    with pytest.raises(RemoteProtocolError, match="record 0 at byte 4: its hosts are not IPv4"):
        unpack(struct.pack(">i", len(longer)) + longer, 1)


def second_records(change: Callable[[bytes], bytes]) -> list[bytes]:
    """The second record alone, its properties changed."""
    run, _ = encode_records(TOPIC, QUEUE_ID, Spans.of(BODIES[1:2]), Spans.of([change(PROPERTIES[1])]), born_timestamp=1)
    return [run.tobytes()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no UNIQ_KEY"),
        (b"UNIQ_KEY\x01\x02", "no UNIQ_KEY"),
        (b"UNIQ_KEYS\x01x\x02", "no UNIQ_KEY"),
        (b"UNIQ_KEY\x01x\x02DELAY\x013\x02", "later delivery"),
        (b"TIMER_DELIVER_MS\x011\x02UNIQ_KEY\x01x", "later delivery"),
        (b"TIMER_DELAY_SEC\x011\x02UNIQ_KEY\x01x", "later delivery"),
        (b"UNIQ_KEY\x01x\x02TIMER_\x011", "later delivery"),
    ],
)
def test_properties_that_a_batch_may_not_have_are_refused(text: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"record 1 at byte {SECOND}: it .*{reason}"):
        unpack(request([PROPERTIES[0], text, PROPERTIES[2]]))


def test_names_that_only_look_like_delays_are_no_matter() -> None:
    unpack(request([text + b"DELAYED\x01x\x02TIMER\x01x\x02DELAY\x01\x02x\x01DELAY\x02" for text in PROPERTIES]))


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 2, 4, 1000, 2**31 - 1])
def test_a_wrong_count_is_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError):
        unpack(request(), count)


@pytest.mark.parametrize("sizes", [(0, 0, 0), (-1, 2, 3), (2**31 - 1,) * 3, (-(2**31),) * 3])
def test_declared_sizes_that_do_not_fill_the_body_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(RemoteProtocolError, match="as declared"):
        unpack(struct.pack(">3i", *sizes) + request()[12:])


@pytest.mark.parametrize(("first", "second"), [(1, -1), (-1, 1), (10**6, -(10**6)), (-(10**6), 10**6)])
def test_declared_sizes_that_are_not_those_of_the_records_are_refused(first: int, second: int) -> None:
    body = request()
    sizes = np.frombuffer(body, ">i4", 3) + np.array([first, second, 0])
    with pytest.raises(RemoteProtocolError, match=r"record [012] at byte"):
        unpack(sizes.astype(">i4").tobytes() + body[12:])


def test_records_that_overlap_are_refused() -> None:
    """Two records declared at the place of one would be sound each; what they leave over is not declared by any."""
    (record,) = second_records(lambda text: text)
    size = len(record)
    with pytest.raises(RemoteProtocolError, match="its size is not the declared one"):
        unpack(struct.pack(">2i", 0, 2 * size) + record + record, 2)


def test_every_damaged_byte_is_refused_or_in_a_field_that_is_free() -> None:
    body = request()
    for position in range(len(body)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = body[:position] + bytes([body[position] ^ flip]) + body[position + 1 :]
            try:
                columns = unpack(damaged)
            except RemoteProtocolError:
                continue
            assert columns.bodies.tolist() == BODIES
            assert columns.topics.tolist() == [TOPIC] * 3


@given(st.binary(max_size=400), st.integers(-1, 5))
def test_garbage_gives_a_refusal(body: bytes, count: int) -> None:
    with pytest.raises(RemoteProtocolError):
        unpack(body, count)


# --- SEND_BATCH_MESSAGE

items = st.lists(
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.binary(max_size=50)), max_size=8
)


def encode_item(flag: int, body: bytes, properties: bytes) -> bytes:
    size = 22 + len(body) + len(properties)
    head = struct.pack(">5i", size, 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def test_the_known_item_is_read() -> None:
    known = "00000025 00000000 00000000 00000000 00000005 68656c6c6f 000a 54414753 01 54616741 02"
    batch = batch_columns(bytes.fromhex(known))
    assert batch.flag.tolist() == [0]
    assert batch.bodies.tolist() == [b"hello"]
    assert batch.properties.tolist() == [b"TAGS\x01TagA\x02"]


@given(items)
def test_the_items_of_a_batch_become_rows(rows: list[tuple[int, bytes, bytes]]) -> None:
    batch = batch_columns(b"".join(encode_item(*row) for row in rows))
    columns = (batch.flag.tolist(), batch.bodies.tolist(), batch.properties.tolist())
    assert list(zip(*columns, strict=True)) == rows


def test_a_batch_becomes_stored_records() -> None:
    rows = [(5, b"one", b"a\x01b\x02"), (-1, b"", b"")]
    batch = batch_columns(b"".join(encode_item(*row) for row in rows))
    run, _ = encode_records(TOPIC, QUEUE_ID, batch.bodies, batch.properties, flag=batch.flag, born_timestamp=9)
    columns = RecordColumns(run)
    assert columns.flag.tolist() == [5, -1]
    assert columns.bodies.tolist() == [b"one", b""]
    assert columns.properties.tolist() == [b"a\x01b\x02", b""]
    assert columns.born_timestamp.tolist() == [9, 9]


def captured_batches() -> list[bytes]:
    return [frame.body for frame in captured_frames() if frame.code == 320 and not frame.is_response]


def test_batches_of_real_clients_are_read_whole() -> None:
    batches = captured_batches()
    assert batches
    for body in batches:
        batch = batch_columns(body)
        rows = zip(batch.flag.tolist(), batch.bodies.tolist(), batch.properties.tolist(), strict=True)
        assert b"".join(encode_item(*row) for row in rows) == body


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda body: body[:-1], "record 1 at byte 29"),
        (lambda body: body + b"\0", "record 2 at byte 56"),
        (lambda body: body[:29] + struct.pack(">i", 21) + body[33:], "record 1 at byte 29"),
        (lambda body: body[:16] + struct.pack(">i", -1) + body[20:], "record 0 at byte 0: its lengths"),
        (
            lambda body: body[:16] + struct.pack(">i", 2**31 - 1) + body[20:],
            "record 0 at byte 0: its lengths",
        ),
        (lambda body: body[:45] + struct.pack(">i", 6) + body[49:], "record 1 at byte 29: its lengths"),
    ],
)
def test_a_damaged_batch_is_refused(damage: Callable[[bytes], bytes], reason: str) -> None:
    body = encode_item(0, b"abc", b"wxyz") + encode_item(0, b"defgh", b"")
    with pytest.raises(RemoteProtocolError, match=reason):
        batch_columns(damage(body))


@given(st.binary(max_size=200))
def test_garbage_is_a_batch_or_a_refusal(body: bytes) -> None:
    try:
        batch = batch_columns(body)
    except RemoteProtocolError:
        return
    assert sum(batch.bodies.lengths) + sum(batch.properties.lengths) + 22 * len(batch.flag) == len(body)
