"""Where the process is in the network, told by files like those of Linux, and by those of this machine."""

from __future__ import annotations

import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from pocketmq.namesrv.surroundings import read_surroundings

LOOPBACKS = [ip_network("127.0.0.0/8"), ip_network("::1/128")]

TITLES = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def word(address: str) -> str:
    """An IPv4 address as a number of this machine."""
    return f"{int.from_bytes(ip_address(address).packed, sys.byteorder):08X}"


def route(destination: str, gateway: str = "0.0.0.0", flags: int = 1) -> str:
    subnet = ip_network(destination)
    mask = str(subnet.netmask)
    words = map(word, (str(subnet.network_address), gateway, mask))
    first, second, third = words
    return f"eth0\t{first}\t{second}\t{flags:04X}\t0\t0\t0\t{third}\t0\t0\t0   \n"


def route6(destination: str, gateway: str = "::", flags: int = 1) -> str:
    subnet = ip_network(destination)
    packed, length = subnet.network_address.packed.hex(), f"{subnet.prefixlen:02x}"
    via = ip_address(gateway).packed.hex()
    return f"{packed} {length} {'0' * 32} 00 {via} 00000400 00000001 00000000 {flags:08x}     eth0\n"


def folder(path: Path, routes: str, routes6: str | None = None) -> Path:
    (path / "route").write_text(TITLES + routes)
    if routes6 is not None:
        (path / "ipv6_route").write_text(routes6)
    return path


# A container as Docker makes it, line by line as its kernel tells it.
DOCKER = """\
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0                                                         \n\
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0                                                         \n\
"""


@pytest.mark.skipif(sys.byteorder == "big", reason="the file was written by a machine of the other kind")
def test_the_files_of_a_container_are_read(tmp_path: Path) -> None:
    found = read_surroundings(folder(tmp_path, DOCKER))
    assert list(found.subnets) == [*LOOPBACKS, ip_network("172.17.0.0/16")]
    assert found.gateways == {ip_address("172.17.0.1")}


def test_subnets_and_default_gateways_of_both_families_are_found(tmp_path: Path) -> None:
    routes = route("0.0.0.0/0", "10.0.0.1", 3) + route("10.0.0.0/24") + route("192.168.0.0/16")
    routes6 = route6("fd00::/64") + route6("::/0", "fd00::1", 3) + route6("fe80::/64")
    found = read_surroundings(folder(tmp_path, routes, routes6))
    subnets = ["10.0.0.0/24", "192.168.0.0/16", "fd00::/64", "fe80::/64"]
    assert list(found.subnets) == [*LOOPBACKS, *map(ip_network, subnets)]
    assert found.gateways == {ip_address("10.0.0.1"), ip_address("fd00::1")}


def test_what_is_behind_a_gateway_is_no_own_subnet_and_only_a_default_gateway_counts(tmp_path: Path) -> None:
    found = read_surroundings(folder(tmp_path, route("10.0.0.0/24") + route("10.9.0.0/16", "10.0.0.9", 3)))
    assert list(found.subnets) == [*LOOPBACKS, ip_network("10.0.0.0/24")]
    assert found.gateways == frozenset()
    assert found.is_outside(ip_address("10.9.0.1"))
    assert not found.is_outside(ip_address("10.0.0.9"))


def test_a_default_route_without_a_gateway_makes_nobody_a_neighbour(tmp_path: Path) -> None:
    found = read_surroundings(folder(tmp_path, route("0.0.0.0/0")))
    assert list(found.subnets) == LOOPBACKS
    assert found.is_outside(ip_address("10.0.0.1"))


def test_routes_that_reject_say_nothing(tmp_path: Path) -> None:
    routes = route("10.0.0.0/8", flags=0x201) + route("0.0.0.0/0", "10.0.0.1", 0x203)
    found = read_surroundings(
        folder(tmp_path, routes, route6("::/0", flags=0x200200) + route6("fd00::/8", flags=0x201))
    )
    assert (list(found.subnets), found.gateways) == (LOOPBACKS, frozenset())


def test_a_subnet_of_two_interfaces_is_one(tmp_path: Path) -> None:
    found = read_surroundings(folder(tmp_path, route("10.0.0.0/24") * 2))
    assert list(found.subnets) == [*LOOPBACKS, ip_network("10.0.0.0/24")]


def test_ipv6_may_be_switched_off(tmp_path: Path) -> None:
    assert ip_network("10.0.0.0/24") in read_surroundings(folder(tmp_path, route("10.0.0.0/24"))).subnets


def test_without_a_network_there_is_the_loopback(tmp_path: Path) -> None:
    assert list(read_surroundings(folder(tmp_path, "", "")).subnets) == LOOPBACKS


def test_a_system_that_does_not_tell_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_surroundings(tmp_path)


@pytest.mark.skipif(not Path("/proc/net/route").exists(), reason="this system tells in another way")
def test_this_machines_loopback_is_never_outside() -> None:
    found = read_surroundings()
    assert not found.is_outside(ip_address("127.0.0.1"))
    assert not found.is_outside(ip_address("127.1.2.3"))
    assert not found.is_outside(ip_address("::1"))
