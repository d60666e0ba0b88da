"""Machines of our own, as network namespaces: what runs in one has its own interfaces, routes and loopback.

For root on Linux with the tools `ip` and `nft`; `why_not` says what is missing. Whatever happens, none is left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from system import missing, run

_TOOLS: Final = ("ip", "nft")
_numbers = count(1)


@cache
def why_not() -> str | None:
    """Why there can be no machines of our own; None if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if absent := missing(_TOOLS):
        return f"there is no {' and no '.join(absent)}; on Debian or Ubuntu: apt install iproute2 nftables"
    try:
        with docker_like():
            pass
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made here: {error.stderr.strip().partition(chr(10))[0]}"
    return None


class Machine:
    """A network namespace. Its processes are started by `popen` and have to have ended before it goes."""

    def __init__(self, name: str) -> None:
        self.name = f"pmq{os.getpid()}-{next(_numbers)}-{name}"
        run("ip", "netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run("ip", "netns", "delete", self.name)

    def run(self, *command: str, input: str | None = None) -> str:
        """The output of a command that runs here."""
        return run("ip", "netns", "exec", self.name, *command, input=input)

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """A process that runs here; `ip` becomes that process."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], text=True, **options)

    def plug_in(self, interface: str, other: Machine, other_interface: str) -> None:
        """Lay a cable from here to another machine."""
        run(
            *("ip", "link", "add", interface, "netns", self.name, "type", "veth"),
            *("peer", "name", other_interface, "netns", other.name),
        )
        self.run("ip", "link", "set", interface, "up")
        other.run("ip", "link", "set", other_interface, "up")

    def set(self, name: str, value: int) -> None:
        """Change one of the kernel's settings for this machine."""
        self.run("sh", "-c", f"echo {value} > /proc/sys/{name}")


class DockerHost:
    """A host with containers on a bridge, as Docker sets it up, and another machine on its LAN.

    What is published of a container is reached at the host's address from the LAN, and at 127.0.0.1 from the host.
    """

    LAN_ADDRESS: Final = "192.168.77.1"
    PEER_ADDRESS: Final = "192.168.77.9"
    GATEWAY: Final = "172.30.0.1"

    def __init__(self, host: Machine, lan: Machine, containers: list[Machine]) -> None:
        self.host, self.lan, self.containers = host, lan, containers
        host.plug_in("lan0", lan, "eth0")
        host.run("ip", "address", "add", f"{self.LAN_ADDRESS}/24", "dev", "lan0")
        lan.run("ip", "address", "add", f"{self.PEER_ADDRESS}/24", "dev", "eth0")
        host.run("ip", "link", "add", "docker0", "type", "bridge")
        host.run("ip", "address", "add", f"{self.GATEWAY}/24", "dev", "docker0")
        host.run("ip", "link", "set", "docker0", "up")
        host.set("net/ipv4/ip_forward", 1)
        host.set("net/ipv4/conf/all/route_localnet", 1)
        for number, container in enumerate(containers):
            host.plug_in(f"veth{number}", container, "eth0")
            host.run("ip", "link", "set", f"veth{number}", "master", "docker0")
            container.run("ip", "address", "add", f"{self.address_of(container)}/24", "dev", "eth0")
            container.run("ip", "route", "add", "default", "via", self.GATEWAY)
        host.run("nft", "-f", "-", input=_NAT)

    def address_of(self, container: Machine) -> str:
        """The address of a container, for the others and the host."""
        return f"172.30.0.{2 + self.containers.index(container)}"

    def publish(self, container: Machine, port: int) -> None:
        """Let a port of a container be reached at the host."""
        target = f"tcp dport {port} dnat to {self.address_of(container)}"
        self.host.run("nft", f"add rule ip nat prerouting iifname lan0 {target}")
        self.host.run("nft", f"add rule ip nat output ip daddr {{ 127.0.0.1, {self.LAN_ADDRESS} }} {target}")


_NAT: Final = """
table ip nat {
    chain prerouting { type nat hook prerouting priority -100; }
    chain output { type nat hook output priority -100; }
    chain postrouting {
        type nat hook postrouting priority 100;
        ip saddr 172.30.0.0/24 oifname != "docker0" masquerade
        ip saddr 127.0.0.0/8 oifname "docker0" masquerade
    }
}
"""


@contextmanager
def docker_like() -> Iterator[DockerHost]:
    """A host with three containers, and a machine on its LAN."""
    with Machine("host") as host, Machine("lan") as lan, Machine("a") as a, Machine("b") as b, Machine("c") as c:
        yield DockerHost(host, lan, [a, b, c])
