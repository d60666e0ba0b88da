"""Where this process is in the network, as Linux tells it under /proc/net."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.namesrv.networks import Address, Subnet, Surroundings

_LOOPBACKS: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

# Flags of a route, from linux/route.h.
_GATEWAY: Final = 0x2
_REJECT: Final = 0x200


def read_surroundings(folder: Path = Path("/proc/net")) -> Surroundings:
    """The subnets of all interfaces and the default gateways; raises `OSError` where the system does not tell."""
    routes = [*_ipv4_routes(folder / "route"), *_ipv6_routes(folder / "ipv6_route")]
    routes = [route for route in routes if not route.flags & _REJECT]
    own = {route.subnet: None for route in routes if not route.flags & _GATEWAY and route.subnet.prefixlen}
    gateways = {route.gateway for route in routes if route.flags & _GATEWAY and not route.subnet.prefixlen}
    return Surroundings((*_LOOPBACKS, *own), frozenset(gateways))


class _Route(NamedTuple):
    subnet: Subnet
    gateway: Address
    flags: int


def _ipv4_routes(path: Path) -> Iterator[_Route]:
    """Iface Destination Gateway Flags RefCnt Use Metric Mask ...; addresses are words of this machine."""
    for line in path.read_text().splitlines()[1:]:
        _, destination, gateway, flags, _, _, _, mask, *_ = line.split()
        yield _Route(ip_network(f"{_ipv4(destination)}/{_ipv4(mask)}"), _ipv4(gateway), int(flags, 16))


def _ipv4(word: str) -> IPv4Address:
    return IPv4Address(struct.pack("=I", int(word, 16)))


def _ipv6_routes(path: Path) -> Iterator[_Route]:
    """Destination and its length, source and its length, gateway, metric, two counters, flags, interface."""
    if not path.exists():  # IPv6 is switched off
        return
    for line in path.read_text().splitlines():
        destination, length, _, _, gateway, _, _, _, flags, *_ = line.split()
        subnet = ip_network((bytes.fromhex(destination), int(length, 16)))
        yield _Route(subnet, IPv6Address(bytes.fromhex(gateway)), int(flags, 16))
