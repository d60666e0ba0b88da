"""Which of a broker's addresses a caller can reach.

A broker may register further addresses, each for a network that has a name: `lan=192.168.0.5:10911;office=...`. The
setting `networks` says who is on which network: `lan=192.168.0.0/24;host=outside`. A caller is told the address for the
first network that it is on and that the broker has an address for; without one, the address that was registered.

A rule is a CIDR, or `outside`: a caller in none of the NameServer's own subnets, or its default gateway. That is how a
container sees its host and everything behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from pocketmq.namesrv.registration import RegistrationError, check_address, is_name

OUTSIDE: Final = "outside"

MAX_NETWORKS: Final = 64
"""Networks in the setting, and further addresses of one broker."""

Address = IPv4Address | IPv6Address
Subnet = IPv4Network | IPv6Network


class Surroundings(NamedTuple):
    """Where the NameServer itself is."""

    subnets: tuple[Subnet, ...] = ()
    gateways: frozenset[Address] = frozenset()

    def is_outside(self, caller: Address) -> bool:
        return caller in self.gateways or not any(caller in subnet for subnet in self.subnets)


class Network(NamedTuple):
    """One network: its name, and the rules that say who is on it."""

    name: str
    subnets: tuple[Subnet, ...]
    is_outside: bool

    def holds(self, caller: Address, surroundings: Surroundings) -> bool:
        return any(caller in subnet for subnet in self.subnets) or (self.is_outside and surroundings.is_outside(caller))

    def __str__(self) -> str:
        rules = [*map(str, self.subnets), *([OUTSIDE] if self.is_outside else ())]
        return f"{self.name}={','.join(rules)}"


@dataclass(frozen=True, slots=True)
class Networks:
    """The setting `networks`, as one text: `net=rule,rule;net=rule`."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Networks:
        networks = tuple(_network(item) for item in text.split(";") if item.strip())
        names = [network.name for network in networks]
        if len(names) > MAX_NETWORKS:
            raise ValueError(f"there are {len(names)} networks; the limit is {MAX_NETWORKS}")
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"network {min(twice)!r} has its rules in two places; write {min(twice)}=RULE,RULE")
        return cls(networks)

    def __str__(self) -> str:
        return ";".join(map(str, self.networks))

    @property
    def need_surroundings(self) -> bool:
        return any(network.is_outside for network in self.networks)

    def of(self, caller: str, surroundings: Surroundings) -> tuple[str, ...]:
        """The names of the networks that a caller is on, in their order."""
        try:
            address = ip_address(caller.partition("%")[0])  # a link-local address comes with its interface
        except ValueError:
            return ()  # it was gone before it could be asked for its address
        return tuple(network.name for network in self.networks if network.holds(address, surroundings))


def _network(text: str) -> Network:
    name, equals, rules = (part.strip() for part in text.partition("="))
    if not equals or not is_name(name) or not rules:
        raise ValueError(f"{text.strip()!r:.80} is no NET=RULE,RULE")
    texts = [rule.strip() for rule in rules.split(",")]
    return Network(name, tuple(_subnet(rule) for rule in texts if rule != OUTSIDE), OUTSIDE in texts)


def _subnet(text: str) -> Subnet:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r:.80} is no rule: write a CIDR such as 192.168.0.0/24, or {OUTSIDE} ({error!s:.80})"
        ) from None


def parse_addresses(text: str) -> dict[str, str]:
    """The further addresses of a broker; raises `RegistrationError`."""
    items = [item for item in text.split(";") if item]
    if len(items) > MAX_NETWORKS:
        raise RegistrationError(f"there are {len(items)} further addresses; the limit is {MAX_NETWORKS}")
    addresses = {}
    for item in items:
        name, equals, address = item.partition("=")
        if not equals or not is_name(name):
            raise RegistrationError(f"{item!r:.80} is no NET=HOST:PORT")
        check_address(address)
        addresses[name] = address
    return addresses
