"""Listeners on real sockets; names are resolved by the tests."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import trio

from pocketmq.service.addresses import Address
from pocketmq.service.errors import ServiceError
from pocketmq.service.listening import bound, open_listeners, raise_descriptor_limit

BOTH = ("127.0.0.1", "127.0.0.2")


class Resolver(trio.abc.HostnameResolver):
    """Every name has these addresses. On the last one the first so many ports are taken when they are asked for."""

    def __init__(self, *hosts: str, taken: int = 0) -> None:
        self.asked: list[int] = []
        self._hosts = hosts
        self._taken = taken
        self._sockets = ExitStack()

    def __enter__(self) -> Resolver:
        trio.socket.set_custom_hostname_resolver(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._sockets.close()

    async def getaddrinfo(  # type: ignore[override]
        self, host: object, port: int, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[tuple[socket.AddressFamily, int, int, str, tuple[str, int]]]:
        await trio.lowlevel.checkpoint()
        self.asked.append(port)
        if not self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if port and self._taken:
            self._taken -= 1
            taker = self._sockets.enter_context(socket.socket())
            taker.bind((self._hosts[-1], port))
            taker.listen()
        return [(socket.AF_INET, type, proto, "", (host, port)) for host in self._hosts]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


def close(listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        listener.socket.close()


@pytest.mark.trio
async def test_a_free_port_is_found_and_told() -> None:
    listeners = await open_listeners(Address("127.0.0.1", 0), "listenPort")
    address = bound(listeners)
    assert address.host == "127.0.0.1"
    async with await trio.open_tcp_stream(*address):
        await (await listeners[0].accept()).aclose()
    close(listeners)
    again = await open_listeners(address, "listenPort")
    assert bound(again) == address
    close(again)


@pytest.mark.trio
async def test_a_name_with_two_addresses_has_one_port() -> None:
    with Resolver(*BOTH):
        listeners = await open_listeners(Address("both", 0), "listenPort")
    first, second = (bound([listener]) for listener in listeners)
    assert (first.host, second.host) == BOTH
    assert first.port == second.port > 0
    close(listeners)


@pytest.mark.trio
async def test_a_port_that_is_taken_at_the_second_address_is_no_port_for_a_name() -> None:
    with Resolver(*BOTH, taken=2) as resolver:
        listeners = await open_listeners(Address("both", 0), "listenPort")
    assert [port > 0 for port in resolver.asked] == [False, True] * 3
    assert {bound([listener]).port for listener in listeners} == {resolver.asked[-1]}
    close(listeners)


@pytest.mark.trio
async def test_the_search_for_such_a_port_ends() -> None:
    expected = r"both:0: no port is free at all of its addresses; 20 were tried; change listenPort"
    with Resolver(*BOTH, taken=20), pytest.raises(ServiceError, match=expected):
        await open_listeners(Address("both", 0), "listenPort")


@pytest.mark.trio
async def test_nor_does_it_go_on_after_another_error() -> None:
    class Forgetful(Resolver):
        async def getaddrinfo(self, *arguments: Any) -> Any:
            self._hosts = () if self.asked else BOTH
            return await super().getaddrinfo(*arguments)

    with Forgetful() as resolver, pytest.raises(ServiceError, match="Name or service not known"):
        await open_listeners(Address("both", 0), "listenPort")
    assert len(resolver.asked) == 2


@pytest.mark.trio
async def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    listeners = await open_listeners(Address("127.0.0.1", 0), "listenPort")
    address = bound(listeners)
    with pytest.raises(ServiceError) as caught:
        await open_listeners(address, "httpListen")
    assert str(caught.value) == f"cannot listen on {address}: Address already in use; change httpListen"
    close(listeners)


@pytest.mark.trio
async def test_a_port_of_a_name_that_is_taken_at_one_of_its_addresses_is_not_replaced() -> None:
    listeners = await open_listeners(Address(BOTH[1], 0), "listenPort")
    port = bound(listeners).port
    with Resolver(*BOTH), pytest.raises(ServiceError, match=f"both:{port}: Address already in use"):
        await open_listeners(Address("both", port), "listenPort")
    close(listeners)


FAILURES = {
    "192.0.2.1": "Cannot assign requested address",  # reserved for documentation, so nobody's
    "x" * 64: "this is no name of a host",
    "\udc80": "this is no name of a host",
    "a..b": "this is no name of a host",
}


@pytest.mark.trio
@pytest.mark.parametrize(("host", "cause"), FAILURES.items())
async def test_what_cannot_be_listened_on_is_an_error_of_one_sentence(host: str, cause: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await open_listeners(Address(host, 9876), "listenPort")
    assert str(caught.value) == f"cannot listen on {host}:9876: {cause}; change listenPort"


@pytest.mark.trio
async def test_so_is_a_name_that_is_unknown() -> None:
    with Resolver(), pytest.raises(ServiceError, match="nowhere:0: Name or service not known; change listenPort"):
        await open_listeners(Address("nowhere", 0), "listenPort")


@pytest.mark.trio
async def test_so_is_a_port_that_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(port: int, *, host: str) -> list[trio.SocketListener]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(trio, "open_tcp_listeners", refuse)  # root may listen everywhere
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:80: Permission denied; change httpListen"):
        await open_listeners(Address("127.0.0.1", 80), "httpListen")


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A limit of open files below the hard one, which is the value."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_of_open_files_becomes_the_hard_one(low_limit: int) -> None:
    assert raise_descriptor_limit() == low_limit
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (low_limit, low_limit)
    assert raise_descriptor_limit() == low_limit


@pytest.mark.parametrize("error", [ValueError, OSError])
def test_a_limit_that_cannot_be_raised_stays(
    low_limit: int, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise error("not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        assert raise_descriptor_limit() == 512
