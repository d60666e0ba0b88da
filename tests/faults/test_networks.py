"""Callers on several networks, behind real NAT: each is told the address of a broker that it can reach.

A NameServer and a broker run in containers of a host, or in what looks like ones to them. They are asked for from the
host, from its LAN and from another container, without a line of configuration for any of these. The broker is a stand-
in: it registers, and says its name to whoever reaches it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import networked
import pytest
from namespaces import DockerHost, Machine, docker_like, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

BROKER_PORT: Final = 10911
NETWORKED: Final = networked.__file__


@contextmanager
def process(machine: Machine, *arguments: str, ready: str) -> Iterator[None]:
    """A program of ours on a machine, for the length of a block; it is there when it has said that it is ready."""
    running = machine.popen(sys.executable, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with running:
        try:
            assert running.stdout is not None
            said = []
            while ready not in (line := running.stdout.readline()):
                said.append(line)
                assert line, f"it ended instead of being ready: {''.join(said)}"
            yield
        finally:
            running.terminate()


@contextmanager
def cluster(networks: str, further: str) -> Iterator[DockerHost]:
    """A NameServer and a broker in two containers, their ports published."""
    with docker_like() as docker:
        namesrv, broker, _ = docker.containers
        docker.publish(namesrv, networked.NAMESRV_PORT)
        docker.publish(broker, BROKER_PORT)
        options = ("--listen", "0.0.0.0", "-o", "kvConfigPath=", "-o", f"networks={networks}")
        own = f"{docker.address_of(broker)}:{BROKER_PORT}"
        with (
            process(namesrv, "-m", "pocketmq.namesrv", *options, ready="listens on"),
            process(broker, NETWORKED, "broker", docker.address_of(namesrv), own, further, ready="registered"),
        ):
            yield docker


def call(machine: Machine, namesrv: str) -> list[str]:
    """The address that a caller on a machine is told, and what it meets there."""
    return machine.run(sys.executable, NETWORKED, "caller", namesrv).splitlines()


def test_from_the_host_from_the_lan_and_from_a_container_the_broker_is_reached() -> None:
    with cluster("published=outside", f"published={DockerHost.LAN_ADDRESS}:{BROKER_PORT}") as docker:
        namesrv, broker, another = docker.containers
        published = [f"{DockerHost.LAN_ADDRESS}:{BROKER_PORT}", "broker-a"]
        internal = [f"{docker.address_of(broker)}:{BROKER_PORT}", "broker-a"]
        assert call(docker.host, "127.0.0.1") == published
        assert call(docker.host, DockerHost.LAN_ADDRESS) == published
        assert call(docker.lan, DockerHost.LAN_ADDRESS) == published
        assert call(another, docker.address_of(namesrv)) == internal
        assert call(namesrv, "127.0.0.1") == internal


def test_the_host_and_the_lan_may_have_addresses_of_their_own() -> None:
    networks = f"lan={DockerHost.PEER_ADDRESS}/32;host=outside"
    further = f"lan={DockerHost.LAN_ADDRESS}:{BROKER_PORT};host=127.0.0.1:{BROKER_PORT}"
    with cluster(networks, further) as docker:
        assert call(docker.host, "127.0.0.1") == [f"127.0.0.1:{BROKER_PORT}", "broker-a"]
        assert call(docker.lan, DockerHost.LAN_ADDRESS) == [f"{DockerHost.LAN_ADDRESS}:{BROKER_PORT}", "broker-a"]


def test_without_rules_everybody_is_told_what_was_registered_and_the_lan_does_not_get_there() -> None:
    with cluster("", f"published={DockerHost.LAN_ADDRESS}:{BROKER_PORT}") as docker:
        own = f"{docker.address_of(docker.containers[1])}:{BROKER_PORT}"
        assert call(docker.lan, DockerHost.LAN_ADDRESS) == [own, "Network is unreachable"]
        assert call(docker.host, "127.0.0.1") == [own, "broker-a"]  # who routes the containers' packets reaches them
