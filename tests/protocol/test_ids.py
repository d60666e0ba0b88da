"""Hosts, offset ids and unique ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from fixtures import vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.ids import (
    OffsetId,
    UniqueIdParts,
    UniqueIds,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    pack_host,
    unpack_host,
)

# 2026-11-01 00:00 UTC and a moment later that month.
NOVEMBER = 1793491200000
NOW = 1794974978236


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Local time is UTC; the test may move it with `setenv("TZ", …)` and `time.tzset()`."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield patch
    time.tzset()


def text_of_ip(packed: str) -> str:
    return str(ip_address(bytes.fromhex(packed)))


def test_offset_ids_are_those_of_java() -> None:
    for case in vectors("ids", "offsetid"):
        expect = case["expect"]
        assert encode_offset_id((text_of_ip(case["ip"]), case["port"]), int(case["offset"])) == expect["id"]
        back = OffsetId((text_of_ip(expect["ip"]), expect["port"]), int(expect["offset"]))
        assert decode_offset_id(expect["id"]) == back


def test_offset_ids_decode_as_in_java() -> None:
    for case in vectors("ids", "decodeid"):
        expect = case["expect"]
        if "error" in expect or "G" in case["id"]:  # Java reads any other character as the digit -1
            with pytest.raises(RemoteProtocolError):
                decode_offset_id(case["id"] or "")
        else:
            back = OffsetId((text_of_ip(expect["ip"]), expect["port"]), int(expect["offset"]))
            assert decode_offset_id(case["id"]) == back


@pytest.mark.parametrize(
    ("host", "offset", "message_id"),
    [
        (("127.0.0.1", 10911), 0, "7F00000100002A9F0000000000000000"),
        (("192.168.1.10", 10911), 123456789, "C0A8010A00002A9F00000000075BCD15"),
        (("10.0.0.2", 10911), 1024, "0A00000200002A9F0000000000000400"),
    ],
)
def test_an_offset_id_is_host_and_physical_offset(host: tuple[str, int], offset: int, message_id: str) -> None:
    assert encode_offset_id(host, offset) == message_id
    assert decode_offset_id(message_id) == (host, offset)


@pytest.mark.parametrize("host", [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", -1), ("1.2.3.4", 65536)])
def test_only_addresses_and_ports_make_a_host(host: tuple[str, int]) -> None:
    with pytest.raises(LocalProtocolError):
        pack_host(host)


@pytest.mark.parametrize("offset", [2**63, -(2**63) - 1])
def test_a_physical_offset_has_64_bits(offset: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_offset_id(("127.0.0.1", 1), offset)


@given(st.ip_addresses().map(str), st.integers(0, 65535))
def test_hosts_survive_the_round_trip(ip: str, port: int) -> None:
    mapped = getattr(ip_address(ip), "ipv4_mapped", None)
    assert unpack_host(pack_host((ip, port))) == (str(mapped or ip_address(ip)), port)


@given(st.text(max_size=60) | st.text("0123456789abcdefABCDEF ", min_size=30, max_size=58))
def test_garbage_is_no_id(text: str) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        try:
            decode(text)
        except RemoteProtocolError:
            pass
        else:
            assert len(text) in (32, 56)


@pytest.mark.usefixtures("zone")
def test_unique_ids_read_as_in_java() -> None:
    for case in vectors("ids", "uniq"):
        expect = case["expect"]
        if "error" in expect or len(case["id"]) == 34:  # Java passes over digits behind the id
            with pytest.raises(RemoteProtocolError):
                decode_unique_id(case["id"] or "")
        else:
            parts = decode_unique_id(case["id"])
            assert ip_address(parts.ip) == ip_address(expect["ipText"])
            assert parts.pid == expect["pid"]
            assert parts.born_ms(expect["now"]) == expect["nearlyTime"]


@pytest.mark.usefixtures("zone")
def test_a_unique_id_tells_who_made_it_and_when() -> None:
    ids = UniqueIds(bytes([10, 0, 1, 2]), 0x12345, 0xDEADBEEF)
    made = ids.next(NOW)
    assert made == f"0A0001022345DEADBEEF{NOW - NOVEMBER:08X}0000"
    assert decode_unique_id(made) == UniqueIdParts("10.0.1.2", 0x2345, 0xDEADBEEF, NOW - NOVEMBER, 0)
    assert decode_unique_id(made).born_ms(NOW + 1) == NOW


def test_an_ipv6_unique_id_has_56_digits() -> None:
    made = UniqueIds(bytes(15) + b"\x01", 1, 2).next(NOW)
    assert len(made) == 56
    assert decode_unique_id(made).ip == "::1"


def test_the_counter_sets_ids_of_one_moment_apart_and_wraps() -> None:
    ids = UniqueIds(bytes(4), 1, 2)
    made = [ids.next(NOW) for _ in range(65537)]
    assert len(set(made[:65536])) == 65536
    assert made[65536] == made[0]


@pytest.mark.usefixtures("zone")
def test_time_starts_again_with_every_month_and_may_step_back() -> None:
    ids = UniqueIds(bytes(4), 1, 2)
    moments = [NOVEMBER - 1, NOVEMBER, NOVEMBER + 5, NOVEMBER - 1]
    october = 31 * 86_400_000
    elapsed = [decode_unique_id(ids.next(moment)).elapsed_ms for moment in moments]
    assert elapsed == [october - 1, 0, 5, october - 1]


def test_the_month_begins_at_local_midnight(zone: pytest.MonkeyPatch) -> None:
    zone.setenv("TZ", "XXX-8")  # eight hours east of Greenwich
    time.tzset()
    elapsed = decode_unique_id(UniqueIds(bytes(4), 1, 2).next(NOVEMBER)).elapsed_ms
    assert elapsed == 8 * 3_600_000


def test_december_is_followed_by_january(zone: pytest.MonkeyPatch) -> None:
    january = 1798761600000
    ids = UniqueIds(bytes(4), 1, 2)
    assert decode_unique_id(ids.next(january - 1)).elapsed_ms == 31 * 86_400_000 - 1
    assert decode_unique_id(ids.next(january)).elapsed_ms == 0
