"""What a NameServer says unasked, heard by sockets that stand for brokers."""

from __future__ import annotations

import logging
import socket
from typing import NoReturn

import pytest
import trio

from pocketmq.namesrv.notices import tell_all, tell_brokers
from pocketmq.namesrv.routes import LeaderChange
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder

CHANGE = LeaderChange("broker-a", 1, "10.0.0.2:10911", "10.0.0.1:10911", None, ())
FIELDS = {
    "minBrokerId": "1",
    "brokerName": "broker-a",
    "minBrokerAddr": "10.0.0.2:10911",
    "offlineBrokerAddr": "10.0.0.1:10911",
}


class Resolver(trio.abc.HostnameResolver):
    """Knows no name."""

    async def getaddrinfo(self, host: object, *options: object, **more: object) -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, sockaddr: object, flags: int) -> NoReturn:
        raise NotImplementedError


class Broker:
    """Listens and hears."""

    def __init__(self, host: str = "127.0.0.1", family: int = socket.AF_INET) -> None:
        self._socket = trio.socket.socket(family)
        self._host = host

    async def __aenter__(self) -> Broker:
        await self._socket.bind((self._host, 0))
        self._socket.listen()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._socket.close()

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._socket.getsockname()[1]}"

    async def hear(self) -> list[Command]:
        """All that one connection brings."""
        with trio.fail_after(30):
            accepted, _ = await self._socket.accept()
            data = b""
            async with trio.SocketStream(accepted) as stream:
                while received := await stream.receive_some():
                    data += received
        return list(FrameDecoder().feed(data))


async def tell(*addresses: str) -> None:
    await tell_brokers(CHANGE._replace(to_tell=addresses))


@pytest.mark.trio
async def test_brokers_are_told_who_leads_now() -> None:
    async with Broker() as one, Broker() as two:
        await tell(one.address, two.address)
        for broker in (one, two):
            (heard,) = await broker.hear()
            assert heard.code == 905
            assert heard.ext_fields == FIELDS
            assert (heard.is_oneway, heard.encoding, heard.body) == (True, 0, b"")


@pytest.mark.trio
async def test_of_a_newcomer_they_are_told_where_it_replicates_from() -> None:
    async with Broker() as broker:
        await tell_brokers(LeaderChange("broker-a", 0, "h:1", None, "h:2", (broker.address,)))
        (heard,) = await broker.hear()
        fields = {"minBrokerId": "0", "brokerName": "broker-a", "minBrokerAddr": "h:1", "haBrokerAddr": "h:2"}
        assert heard.ext_fields == fields


@pytest.mark.trio
async def test_an_address_may_be_of_ipv6() -> None:
    try:
        async with Broker("::1", socket.AF_INET6) as broker:
            await tell(broker.address)
            assert [heard.ext_fields for heard in await broker.hear()] == [FIELDS]
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


@pytest.mark.trio
async def test_one_that_cannot_be_reached_is_logged_and_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Broker() as gone:
        nowhere = gone.address
    async with Broker() as broker:
        await tell(nowhere, broker.address)
        assert [heard.ext_fields for heard in await broker.hear()] == [FIELDS]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"broker {nowhere} was not told that id 1 leads now: no connection to ")


@pytest.mark.trio
@pytest.mark.parametrize("host", ["%", "..", "a..b", "xn--", "x" * 249, "[", "]", "::1%", "/", "-", "0:", "1.2.3.4.5"])
async def test_a_host_that_is_none_does_no_harm(host: str, caplog: pytest.LogCaptureFixture) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())
    with trio.fail_after(30):
        await tell(f"{host}:1")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.trio
async def test_changes_are_told_in_their_order() -> None:
    send, receive = trio.open_memory_channel[LeaderChange](2)
    async with Broker() as broker, trio.open_nursery() as nursery:
        for name in ("first", "second"):
            send.send_nowait(CHANGE._replace(broker_name=name, to_tell=(broker.address,)))
        nursery.start_soon(tell_all, receive)
        heard = [command for _ in range(2) for command in await broker.hear()]
        assert [command.ext_fields["brokerName"] for command in heard] == ["first", "second"]
        nursery.cancel_scope.cancel()
