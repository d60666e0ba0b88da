"""A whole NameServer on real sockets."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from registering import V4_9_7, V5_5_0, Form, asking, registration, settings_of
from serving import RawClient, eventually

from pocketmq.namesrv import server as servers
from pocketmq.namesrv.networks import Networks, Surroundings
from pocketmq.namesrv.server import NameServer
from pocketmq.protocol.bodies import TopicRouteData
from pocketmq.protocol.codes import Encoding, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.service.addresses import Address
from pocketmq.service.errors import ServiceError
from pocketmq.service.listening import bound, open_listeners
from pocketmq.service.options import HttpListen, ServiceSettings

ROUTE, CLUSTER = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO
PUT = asking(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
GET = asking(RequestCode.GET_KV_CONFIG, namespace="n", key="k")
NO_HTTP = ServiceSettings(http_listen=HttpListen("off"))


class Running:
    """A NameServer that serves."""

    def __init__(self, server: NameServer) -> None:
        self.server = server
        self.address = Address("", 0)
        self.ended = trio.Event()
        self.scope = trio.CancelScope()
        self._streams: list[trio.SocketStream] = []

    async def run(self, *, task_status: trio.TaskStatus[Address]) -> None:
        with self.scope:
            await self.server.serve(task_status=task_status)
        self.ended.set()

    async def connect(self) -> RawClient:
        """A client, which is closed at the end of the block at the latest."""
        self._streams.append(await trio.open_tcp_stream(*self.address))
        return RawClient(self._streams[-1])

    async def ask(self, command: Command) -> Command:
        """What a client is answered that has a connection of its own for this."""
        async with await self.connect() as client:
            return await client.request(command)

    async def route(self, topic: str = "T") -> dict[int, str] | None:
        """The addresses of the only broker of a topic, if there is one."""
        answer = await self.ask(asking(ROUTE, topic=topic))
        assert answer.code in (0, 17)
        return dict(TopicRouteData.from_json(answer.body).broker_datas[0].broker_addrs) if answer.code == 0 else None

    def close(self) -> None:
        for stream in self._streams:
            stream.socket.close()


@asynccontextmanager
async def running(service: ServiceSettings = NO_HTTP, **settings: Any) -> AsyncIterator[Running]:
    """A NameServer on a port of this machine, for the length of a block; then it is told to stop."""
    made = Running(NameServer(settings_of(**settings), service))
    async with trio.open_nursery() as nursery:
        made.address = await nursery.start(made.run)
        try:
            yield made
        finally:
            made.close()
            made.server.shutdown()


async def until_gone(namesrv: Running, id: int, topic: str = "T") -> None:
    """Return when the broker of a topic has no member with this id any more."""
    while id in (await namesrv.route(topic) or {}):
        pass


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# --- conversations


@pytest.mark.trio
@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize(
    ("form", "version"),
    [
        (Form.JSON, V4_9_7),
        (Form.JSON, V5_5_0),
        (Form.COMPRESSED, V4_9_7),
        (Form.COMPRESSED, V5_5_0),
        (Form.ALONE, 36),
    ],
)
async def test_a_broker_registers_and_clients_find_it(encoding: Encoding, form: Form, version: int) -> None:
    async with running() as namesrv, await namesrv.connect() as broker, await namesrv.connect() as client:
        command = registration(form=form, version=version, encoding=encoding)
        answer = await broker.request(command)
        assert (answer.code, answer.opaque, answer.encoding, answer.is_response) == (0, 1, encoding, True)
        for each in Encoding:
            found = await client.request(asking(ROUTE, topic="T", encoding=each))
            assert (found.code, found.encoding) == (0, each)
            route = TopicRouteData.from_json(found.body)
            assert [data.broker_addrs for data in route.broker_datas] == [{0: "10.0.0.1:10911"}]
            assert [data.read_queue_nums for data in route.queue_datas] == [4]


@pytest.mark.trio
async def test_every_request_is_answered_in_its_order() -> None:
    async with running() as namesrv, await namesrv.connect() as broker, await namesrv.connect() as client:
        await broker.request(registration())
        codes = [ROUTE, CLUSTER, RequestCode.GET_UNIT_TOPIC_LIST, RequestCode.SEND_MESSAGE, ROUTE]
        topics = ["T", "", "", "", "nowhere"]
        requests = [asking(code, topic=topic) for code, topic in zip(codes, topics, strict=True)] * 400
        async with trio.open_nursery() as nursery:
            numbered = [command._replace(opaque=opaque) for opaque, command in enumerate(requests)]
            nursery.start_soon(client.send, *numbered)
            answers = await client.receive_many(len(requests))
        assert [answer.opaque for answer in answers] == list(range(2000))
        assert [answer.code for answer in answers[:5]] == [0, 0, 0, 3, 17]


@pytest.mark.trio
async def test_who_wants_no_answer_gets_none() -> None:
    async with running() as namesrv, await namesrv.connect() as broker:
        await broker.send(registration()._replace(flag=2), asking(ROUTE, topic="T")._replace(opaque=7))
        answer = await broker.receive()
        assert (answer.opaque, answer.code) == (7, 0)


@pytest.mark.trio
async def test_msgpack_is_accepted_where_it_is_offered() -> None:
    async with running() as namesrv:
        assert (await namesrv.ask(asking(ROUTE, topic="T", PMQ_SER="2"))).ext_fields["PMQ_SER"] == "2"
        assert "PMQ_SER" not in (await namesrv.ask(asking(ROUTE, topic="T"))).ext_fields


@pytest.mark.trio
async def test_garbage_ends_its_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as namesrv, await namesrv.connect() as broker:
        await broker.request(registration())
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, struct.pack(">II", 16 * 1024 * 1024, 0)):
            async with await namesrv.connect() as client:
                await client.send_bytes(garbage)
                assert await client.rest() == []
        assert await namesrv.route() == {0: "10.0.0.1:10911"}
        assert len(caplog.records) == 3


# --- brokers go


@pytest.mark.trio
async def test_a_broker_goes_with_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running() as namesrv, await namesrv.connect() as client:
        async with await namesrv.connect() as broker:
            await broker.request(registration())
            assert (await client.request(asking(ROUTE, topic="T"))).code == 0
        await eventually(lambda: any("its connection ended" in message for message in messages(caplog)))
        assert (await client.request(asking(ROUTE, topic="T"))).code == 17
        assert "broker broker-a/0 at 10.0.0.1:10911 is no longer registered: its connection ended" in messages(caplog)


@pytest.mark.trio
async def test_a_broker_that_is_cut_off_goes_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running() as namesrv:
        broker = await namesrv.connect()
        await broker.request(registration())
        assert isinstance(broker.stream, trio.SocketStream)
        broker.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await broker.stream.aclose()
        await eventually(lambda: any("its connection ended" in message for message in messages(caplog)))
        assert await namesrv.route() is None


@pytest.mark.trio
async def test_a_broker_that_has_a_newer_connection_stays() -> None:
    async with running() as namesrv, await namesrv.connect() as newer:
        async with await namesrv.connect() as older:
            await older.request(registration())
            await older.request(registration("broker-b", "10.0.0.2:10911", ["U"]))
            await newer.request(registration())
        await until_gone(namesrv, 0, topic="U")
        assert await namesrv.route() == {0: "10.0.0.1:10911"}


@pytest.mark.trio
async def test_a_silent_broker_goes(mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    mock_clock.autojump_threshold = 0.02  # seconds without anything to do, and with nothing under way
    async with running() as namesrv, await namesrv.connect() as broker:
        await broker.request(registration(heartbeatTimeoutMillis="15000"))
        await trio.sleep(14)
        assert (await broker.request(asking(ROUTE, topic="T"))).code == 0
        await trio.sleep(12)
        assert (await broker.request(asking(ROUTE, topic="T"))).code == 17
        gone = "broker broker-a/0 at 10.0.0.1:10911 is no longer registered: nothing was heard from it in time"
        assert gone in messages(caplog)


# --- leaders


async def hear(listener: trio.SocketListener) -> list[Command]:
    """What one connection brings until it ends."""
    async with RawClient(await listener.accept()) as heard:
        return await heard.rest()


@pytest.mark.trio
async def test_brokers_are_told_of_a_new_leader_if_that_is_set() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, running() as namesrv, await namesrv.connect() as slave:
        own = str(bound([listener]))
        await slave.request(registration(address=own, id=1))
        async with await namesrv.connect() as master:
            await master.request(registration())
        await until_gone(namesrv, 0)
        assert (
            await slave.request(asking(RequestCode.UPDATE_NAMESRV_CONFIG, b"notifyMinBrokerIdChanged=true"))
        ).code == 0
        async with await namesrv.connect() as master:
            await master.request(registration())
            (came,) = await hear(listener)
            assert (came.code, came.ext_fields["minBrokerAddr"]) == (905, "10.0.0.1:10911")
        (went,) = await hear(listener)
        assert (went.code, went.ext_fields["offlineBrokerAddr"], went.ext_fields["minBrokerAddr"]) == (
            905,
            "10.0.0.1:10911",
            own,
        )


@pytest.mark.trio
async def test_nobody_is_told_that_others_went_when_it_is_the_nameserver_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        heard: list[Command] = []

        async def listen() -> None:
            while True:
                heard.extend(await hear(listener))

        nursery.start_soon(listen)
        reached, opened = gate(monkeypatch)
        async with running(notify_min_broker_id_changed=True, kv_config_path=str(tmp_path / "kv.json")) as namesrv:
            slave, master = await namesrv.connect(), await namesrv.connect()
            await slave.request(registration(address=str(bound([listener])), id=1))
            await master.request(registration())
            await eventually(lambda: len(heard) == 1)
            await slave.send(PUT)  # the slave's connection lasts until this is saved, and the master's does not
            await eventually(reached.is_set)
            namesrv.server.shutdown()
            assert await master.rest() == []
            await trio.testing.wait_all_tasks_blocked(0.05)
            opened.set()
            assert [answer.code for answer in await slave.rest()] == [0]
            namesrv.close()
            await namesrv.ended.wait()
        assert len(heard) == 1
        nursery.cancel_scope.cancel()


# --- health


def http_port(caplog: pytest.LogCaptureFixture) -> int:
    (port,) = re.findall(r"health is told at http://127\.0\.0\.1:(\d+)/", "\n".join(messages(caplog)))
    return int(port)


async def page(port: int, path: str) -> tuple[int, str]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = b"".join([data async for data in stream]).decode().partition("\r\n\r\n")
    return int(head.split()[1]), body.strip()


@pytest.mark.trio
async def test_health_says_whether_routes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(ServiceSettings(), need_wait_for_service=True, wait_seconds_for_service=1000) as namesrv:
        port = http_port(caplog)
        assert await page(port, "/livez") == (200, "ok")
        code, reason = await page(port, "/readyz")
        assert (code, reason.startswith("name server not ready: brokers may register for ")) == (503, True)
        assert (await namesrv.ask(asking(ROUTE, topic="T"))).remark == reason
        await namesrv.ask(asking(RequestCode.UPDATE_NAMESRV_CONFIG, b"needWaitForService=false"))
        assert await page(port, "/readyz") == (200, "ok")


@pytest.mark.trio
async def test_metrics_count_brokers_topics_and_requests(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("prometheus_client")
    caplog.set_level(logging.INFO)
    async with running(ServiceSettings()) as namesrv, await namesrv.connect() as broker:
        await broker.request(registration(topics=["T", "U"]))
        await broker.request(registration(address="10.0.0.2:10911", id=1))
        code, text = await page(http_port(caplog), "/metrics")
        assert code == 200
        assert {
            'pocketmq_namesrv_brokers{role="master"} 1.0',
            'pocketmq_namesrv_brokers{role="slave"} 1.0',
            "pocketmq_namesrv_topics 2.0",
            "pocketmq_namesrv_connections 1.0",
            'pocketmq_namesrv_requests_total{request="REGISTER_BROKER"} 2.0',
        } <= set(text.splitlines())


@pytest.mark.trio
async def test_a_nameserver_that_stops_is_not_ready(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    reached, opened = gate(monkeypatch)
    async with running(ServiceSettings(), kv_config_path=str(tmp_path / "kv.json")) as namesrv:
        client = await namesrv.connect()
        await client.send(PUT)
        await eventually(reached.is_set)
        namesrv.server.shutdown()
        assert await page(http_port(caplog), "/readyz") == (503, "it is being stopped")
        assert await page(http_port(caplog), "/livez") == (200, "ok")
        opened.set()


# --- the end


def gate(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Saving stops at the first event until the second is set."""
    reached, opened = threading.Event(), threading.Event()

    def wait(descriptor: int) -> None:
        reached.set()
        assert opened.wait(30)

    monkeypatch.setattr(os, "fsync", wait)
    return reached, opened


async def refuses(address: Address) -> bool:
    """Whether nobody listens there."""
    try:
        async with await trio.open_tcp_stream(*address):
            return False
    except OSError:
        return True


@pytest.mark.trio
async def test_a_shutdown_answers_what_was_asked_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kv.json"
    reached, opened = gate(monkeypatch)
    async with running(kv_config_path=str(path)) as namesrv:
        writing, waiting = await namesrv.connect(), await namesrv.connect()
        await writing.send(PUT)
        await eventually(reached.is_set)
        await waiting.send(PUT._replace(ext_fields={**PUT.ext_fields, "key": "l"}), asking(ROUTE, topic="T"))
        assert (await waiting.receive()).code == 17
        namesrv.server.shutdown()
        while not await refuses(namesrv.address):
            await trio.lowlevel.checkpoint()
        assert not namesrv.ended.is_set()
        opened.set()
        assert [answer.code for answer in await writing.rest()] == [0]
        assert [answer.code for answer in await waiting.rest()] == [0]
        namesrv.close()
        await namesrv.ended.wait()
    assert json.loads(path.read_bytes()) == {"configTable": {"n": {"k": "v", "l": "v"}}}


@pytest.mark.trio
async def test_a_shutdown_may_come_before_it_serves() -> None:
    server = NameServer(settings_of(), NO_HTTP)
    server.shutdown()
    server.shutdown()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            address = await nursery.start(server.serve)
    assert await refuses(address)


@pytest.mark.trio
async def test_a_shutdown_may_come_twice() -> None:
    async with running() as namesrv:
        namesrv.server.shutdown()
        namesrv.server.shutdown()
        await namesrv.ended.wait()
        namesrv.server.shutdown()


@pytest.mark.trio
async def test_a_cancel_ends_everything_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(ServiceSettings()) as namesrv, await namesrv.connect() as client:
        await client.request(registration())
        namesrv.scope.cancel()
        await namesrv.ended.wait()
        assert await client.rest() == []
        assert await refuses(namesrv.address)
        assert await refuses(Address("127.0.0.1", http_port(caplog)))


# --- the start


async def failure(service: ServiceSettings = NO_HTTP, **settings: Any) -> str:
    """Why a NameServer does not start."""
    with pytest.raises(ServiceError) as caught:
        await NameServer(settings_of(**settings), service).serve()
    return str(caught.value)


@pytest.mark.trio
async def test_a_port_that_is_taken_is_told_with_what_to_change() -> None:
    async with running() as namesrv:
        port = namesrv.address.port
        expected = f"cannot listen on 127.0.0.1:{port}: Address already in use; change "
        assert await failure(listen_port=port) == f"{expected}--listen, or bindAddress and listenPort"
        taken = ServiceSettings(http_listen=HttpListen(namesrv.address))
        assert await failure(taken) == f"{expected}httpListen"
        assert await namesrv.route() is None


@pytest.mark.trio
async def test_a_start_that_fails_leaves_no_port_taken() -> None:
    (probe,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    free = probe.socket.getsockname()[1]
    await probe.aclose()
    async with running() as namesrv:
        assert "httpListen" in await failure(ServiceSettings(http_listen=HttpListen(namesrv.address)), listen_port=free)
    assert await refuses(Address("127.0.0.1", free))


@pytest.mark.trio
async def test_it_does_not_start_with_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_bytes(b'{"configTable":')
    assert (await failure(kv_config_path=str(path))).startswith(f"{path} is damaged: ")
    assert path.read_bytes() == b'{"configTable":'


@pytest.mark.trio
async def test_it_does_not_start_where_the_network_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "read_surroundings", unreadable)
    problem = await failure(networks=Networks.parse("host=outside"))
    assert problem.startswith("networks: the rule outside needs to know the routes of this machine, and ")
    assert problem.endswith("; write CIDRs")
    async with running(networks=Networks.parse("host=10.0.0.0/8")) as namesrv:
        assert await namesrv.route() is None


def unreadable() -> Surroundings:
    raise FileNotFoundError(2, "No such file or directory", "/proc/net/route")


@pytest.mark.trio
async def test_with_any_port_the_pages_get_any_port_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Address] = []

    async def note(address: Address, setting: str) -> list[trio.SocketListener]:
        asked.append(address)
        return await open_listeners(address, setting)

    monkeypatch.setattr(servers, "open_listeners", note)
    async with running(ServiceSettings()):
        assert asked == [("127.0.0.1", 0), ("127.0.0.1", 0)]  # the next one but one may well be taken


# --- what outlives it, and what does not


@pytest.mark.trio
async def test_key_values_outlive_it_and_routes_do_not(tmp_path: Path) -> None:
    path = str(tmp_path / "kv.json")
    async with running(kv_config_path=path) as namesrv, await namesrv.connect() as broker:
        await broker.request(registration())
        assert (await broker.request(PUT)).code == 0
    async with running(kv_config_path=path) as namesrv:
        assert (await namesrv.ask(GET)).ext_fields == {"value": "v"}
        assert await namesrv.route() is None
        assert (await namesrv.ask(asking(RequestCode.DELETE_KV_CONFIG, namespace="n", key="k"))).code == 0
    async with running(kv_config_path=path) as namesrv:
        assert (await namesrv.ask(GET)).code == 22


@pytest.mark.trio
async def test_a_change_that_cannot_be_saved_says_so_and_serving_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "kv.json"
    async with running(kv_config_path=str(path)) as namesrv:
        (tmp_path / "folder").write_text("in the way")
        answer = await namesrv.ask(PUT)
        assert (answer.code, f"{path} could not be written" in (answer.remark or "")) == (1, True)
        assert (await namesrv.ask(GET)).ext_fields == {"value": "v"}
        (tmp_path / "folder").unlink()
        assert (await namesrv.ask(PUT)).code == 0
    assert len(caplog.records) == 1


@pytest.mark.trio
async def test_settings_that_were_changed_do_not_outlive_it() -> None:
    settings, change = settings_of(), b"enableTopicList=false"
    for _ in range(2):
        made = Running(NameServer(settings, NO_HTTP))
        async with trio.open_nursery() as nursery:
            made.address = await nursery.start(made.run)
            assert (await made.ask(asking(RequestCode.GET_UNIT_TOPIC_LIST))).code == 0
            assert (await made.ask(asking(RequestCode.UPDATE_NAMESRV_CONFIG, change))).code == 0
            assert (await made.ask(asking(RequestCode.GET_UNIT_TOPIC_LIST))).code == 1
            made.server.shutdown()


@pytest.mark.trio
async def test_nameservers_side_by_side_know_nothing_of_each_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(ServiceSettings()) as one, running(ServiceSettings()) as two:
        at_one, at_two = await one.connect(), await two.connect()
        await at_one.request(registration())
        assert (await one.route(), await two.route()) == ({0: "10.0.0.1:10911"}, None)
        await at_two.request(registration())
        one.close()
        one.server.shutdown()
        await one.ended.wait()
        assert (await at_two.request(asking(ROUTE, topic="T"))).code == 0


# --- networks


LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.mark.trio
async def test_a_change_of_the_network_is_noticed(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_clock.autojump_threshold = 0.02
    found = [Surroundings(LOOPBACK), Surroundings(LOOPBACK, frozenset({ip_address("127.0.0.1")}))]
    monkeypatch.setattr(servers, "read_surroundings", lambda: found.pop(0) if len(found) > 1 else found[0])
    async with running(networks=Networks.parse("host=outside")) as namesrv, await namesrv.connect() as broker:
        await broker.request(registration(PMQ_ADDRS="host=localhost:1"))
        assert await namesrv.route() == {0: "10.0.0.1:10911"}
        await trio.sleep(11)
        assert await namesrv.route() == {0: "localhost:1"}


@pytest.mark.trio
async def test_a_network_that_cannot_be_read_any_more_is_taken_to_be_as_it_was(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mock_clock.autojump_threshold = 0.02
    monkeypatch.setattr(servers, "read_surroundings", lambda: Surroundings())
    async with running(networks=Networks.parse("host=outside")) as namesrv, await namesrv.connect() as broker:
        monkeypatch.setattr(servers, "read_surroundings", unreadable)
        await broker.request(registration(PMQ_ADDRS="host=localhost:1"))
        await trio.sleep(35)
        assert await namesrv.route() == {0: "localhost:1"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the network is taken to be as it was" in caplog.text
