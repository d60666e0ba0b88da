"""The NameServer as it runs: its listeners, and what it does without being asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import trio

from pocketmq.namesrv.broker_requests import forget
from pocketmq.namesrv.handlers import handlers_for
from pocketmq.namesrv.notices import MAX_CHANGES, tell_all
from pocketmq.namesrv.routes import MASTER, LeaderChange
from pocketmq.namesrv.saving import Saver, load
from pocketmq.namesrv.settings import NamesrvSettings
from pocketmq.namesrv.state import State
from pocketmq.namesrv.surroundings import read_surroundings
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.handlers import Service
from pocketmq.remoting.server import Server, ServerOptions
from pocketmq.service.addresses import Address
from pocketmq.service.errors import ServiceError
from pocketmq.service.health import health_pages
from pocketmq.service.http import serve_http
from pocketmq.service.listening import bound, open_listeners
from pocketmq.service.metrics import Measure
from pocketmq.service.options import ServiceSettings

logger = logging.getLogger("pocketmq.namesrv")

_GRACE: Final = 5.0  # seconds for answers that are under way when it stops; none takes long


class NameServer:
    """One NameServer: `serve` runs it until `shutdown`, once."""

    def __init__(self, settings: NamesrvSettings, service: ServiceSettings | None = None) -> None:
        self._settings = settings
        self._service = service or ServiceSettings()
        self._stopping = trio.Event()

    async def serve(self, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve, and report the address once that has begun. Raises `ServiceError` where it cannot begin."""
        settings = self._settings
        own, http = Address(settings.bind_address, settings.listen_port), self._service.http_listen
        changes, changes_to_tell = trio.open_memory_channel[LeaderChange](MAX_CHANGES)
        with ExitStack() as sockets:
            state = self._state(changes)
            listeners = await _listen(own, "--listen, or bindAddress and listenPort", sockets)
            address = bound(listeners)
            http_address = http.address(settings.listen_port)
            http_listeners = await _listen(http_address, "httpListen", sockets) if http_address else []
            async with trio.open_nursery() as nursery:
                if http_listeners:
                    pages = health_pages(lambda: self._why_not_ready(state), lambda: measures(state))
                    await nursery.start(serve_http, http_listeners, pages)
                    logger.info("health is told at http://%s/", bound(http_listeners))
                nursery.start_soon(_look_around, state)
                nursery.start_soon(state.saver.run)
                nursery.start_soon(tell_all, changes_to_tell)
                async with trio.open_nursery() as serving:
                    options = ServerOptions(idle_timeout=settings.server_channel_max_idle_time_seconds)
                    server = Server(_Registry(state), options)
                    await serving.start(server.serve, listeners)
                    logger.info("the NameServer listens on %s", address)
                    task_status.started(address)
                    await self._stopping.wait()
                    server.shutdown(_GRACE)
                nursery.cancel_scope.cancel()

    def shutdown(self) -> None:
        """Accept nothing more, answer what was asked, and end."""
        self._stopping.set()

    def _state(self, changes: trio.MemorySendChannel[LeaderChange]) -> State:
        def leader_changed(change: LeaderChange) -> None:
            # When this NameServer ends, every connection does: that says nothing about who leads.
            if state.settings.notify_min_broker_id_changed and not self._stopping.is_set():
                try:
                    changes.send_nowait(change)
                except trio.WouldBlock:
                    if state.once.first("changes"):
                        logger.warning("some brokers are not told who leads: too much else is to be told first")

        key_values = load(self._settings.kv_config_file)
        state = State(
            settings=self._settings,
            key_values=key_values,
            saver=Saver(self._settings.kv_config_file, key_values.to_json),
            now=trio.current_time,
            started=trio.current_time(),
            leader_changed=leader_changed,
        )
        _read_surroundings(state)
        return state

    def _why_not_ready(self, state: State) -> str | None:
        return "it is being stopped" if self._stopping.is_set() else state.why_not_ready()


async def _listen(address: Address, setting: str, sockets: ExitStack) -> list[trio.SocketListener]:
    listeners = await open_listeners(address, setting)
    for listener in listeners:
        sockets.enter_context(listener.socket)
    return listeners


class _Registry(Service):
    """What the server serves."""

    def __init__(self, state: State) -> None:
        self.handlers = handlers_for(state)
        self._state = state

    def opened(self, channel: Channel) -> None:
        self._state.connections += 1

    def closed(self, channel: Channel) -> None:
        self._state.connections -= 1
        forget(self._state, self._state.routes.lost(channel), "its connection ended")


async def _look_around(state: State) -> None:
    """From time to time, look for brokers that have gone silent, and whether the network has changed."""
    while True:
        await trio.sleep(state.settings.scan_not_active_broker_interval / 1000)
        forget(state, state.routes.expire(state.now()), "nothing was heard from it in time")
        try:
            _read_surroundings(state)
        except ServiceError as error:
            if state.once.first(str(error)):
                logger.warning("%s; until then the network is taken to be as it was", error)


def _read_surroundings(state: State) -> None:
    if state.settings.networks.need_surroundings:
        try:
            state.surroundings = read_surroundings()
        except OSError as error:
            message = f"networks: the rule outside needs to know the routes of this machine, and {error}; write CIDRs"
            raise ServiceError(message) from error


def measures(state: State) -> Iterator[Measure]:
    """The numbers of a NameServer."""
    ids = [id for broker in state.routes.brokers.values() for id in broker.members]
    roles = [({"role": "master"}, ids.count(MASTER)), ({"role": "slave"}, len(ids) - ids.count(MASTER))]
    yield Measure("pocketmq_namesrv_brokers", "gauge", "Registered brokers.", roles)
    yield Measure("pocketmq_namesrv_topics", "gauge", "Topics with a route.", [({}, len(state.routes.topics))])
    yield Measure("pocketmq_namesrv_connections", "gauge", "Open connections.", [({}, state.connections)])
    served = [({"request": name}, count) for name, count in sorted(state.served.items())]
    yield Measure("pocketmq_namesrv_requests_total", "counter", "Requests, by code.", served)
