"""What a broker tells of itself when it registers, and what is refused of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pocketmq.protocol.bodies import DataVersion, TopicQueues
from pocketmq.protocol.errors import PocketMQError

DEFAULT_TIMEOUT: Final = 120.0
"""Seconds of silence after which a member is taken to be gone, unless it names another number."""

MAX_TOPICS: Final = 100_000
"""Topics of one broker. A mistake can make them in a loop; this is far more than a broker has."""

MAX_FILTER_SERVERS: Final = 64
"""They are in the answer to everybody who asks for a route, though no broker since 4.9 has any."""

# RocketMQ's grammar of topics, and the dot: a broker's name is a topic too, and by default it is the host's. Clients
# in Go cut what they are answered at `,` and `:`, so anything else in here would end up as somebody's wrong address.
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_.-]{1,255}")
_ADDRESS: Final = re.compile(r"(?:(?![\",;\\{}])[!-~]){1,249}:(?P<port>[0-9]{1,5})")


class RegistrationError(PocketMQError):
    """A registration is refused; the text names the cause."""


class Registration(NamedTuple):
    """What a member tells of itself and of its topics."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    topics: Mapping[str, TopicQueues]
    data_version: DataVersion = DataVersion()
    ha_address: str = ""
    timeout: float = DEFAULT_TIMEOUT
    acting_master: bool | None = None
    """Whether a slave stands in for a master that is gone; None is a broker of 4.x, which knows no such thing."""
    zone_name: str | None = None
    filter_servers: tuple[str, ...] = ()
    networks: Mapping[str, str] = {}
    """Further addresses, by the name of the network that each is meant for."""
    fingerprint: bytes = b""
    """Equal for equal registrations, as far as the caller can tell; empty is like no other."""


def is_name(text: str) -> bool:
    """Whether clients can be told of something with this name."""
    return _NAME.fullmatch(text) is not None


def check_name(kind: str, name: str) -> None:
    """Raise `RegistrationError` for what is no name."""
    if not is_name(name):
        raise RegistrationError(f"{name!r:.80} is no name for a {kind}: up to 255 of a-z A-Z 0-9 % | _ - . make one")


def check_address(address: str) -> None:
    """Raise `RegistrationError` for what is no address that clients can be told."""
    form = _ADDRESS.fullmatch(address)
    if form is None or not 0 < int(form["port"]) < 65536:
        raise RegistrationError(f"{address!r:.80} is no address; a broker is reached at HOST:PORT")


def check(registration: Registration) -> None:
    """Raise `RegistrationError` for what is wrong with a registration, but for its topics' names."""
    check_name("cluster", registration.cluster)
    check_name("broker", registration.broker_name)
    if registration.broker_id < 0:
        raise RegistrationError(f"the id of a broker is not negative, as {registration.broker_id} is")
    if registration.zone_name:
        check_name("zone", registration.zone_name)
    if len(registration.filter_servers) > MAX_FILTER_SERVERS:
        raise RegistrationError(f"a broker has {MAX_FILTER_SERVERS} filter servers at most")
    own = registration.address, *filter(None, [registration.ha_address])
    for address in (*own, *registration.networks.values(), *registration.filter_servers):
        check_address(address)
    if len(registration.topics) > MAX_TOPICS:
        raise RegistrationError(f"a broker registers {MAX_TOPICS} topics at most, and not {len(registration.topics)}")
