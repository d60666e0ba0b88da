"""What brokers ask of a NameServer: to be registered, to be remembered, to be forgotten."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

from pocketmq.namesrv import answers
from pocketmq.namesrv.key_values import ORDER_TOPICS
from pocketmq.namesrv.networks import parse_addresses
from pocketmq.namesrv.registration import DEFAULT_TIMEOUT, Registration, RegistrationError
from pocketmq.namesrv.routes import Registered, Removed, version_of
from pocketmq.namesrv.state import State
from pocketmq.protocol.bodies import (
    BrokerMemberGroupResponse,
    DataVersion,
    KVTable,
    QueueData,
    RegisteredTopics,
    TopicQueues,
    TopicRouteData,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.hashes import body_crc
from pocketmq.protocol.headers.admin import TopicRequest
from pocketmq.protocol.headers.namesrv import (
    BrokerHeartbeatRequest,
    BrokerIdentityRequest,
    BrokerMemberGroupRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from pocketmq.remoting.errors import Refusal
from pocketmq.remoting.handlers import Request

logger = logging.getLogger("pocketmq.namesrv")

_SHOWN: Final = 8  # topics in one line of the log


def register_broker(state: State, request: Request[RegisterBrokerRequest]) -> Command:
    """Enter a broker, its addresses and its topics. Every 30 s it comes again, and mostly says nothing new."""
    header, now = request.header, state.now()
    fingerprint = _fingerprint(request.command, header)
    registered = state.routes.renew(header.broker_name, header.broker_id, fingerprint, request.channel, now)
    if registered is None:
        try:
            registration = _registration(request.command, header, fingerprint)
            replace = state.settings.delete_topic_with_broker_registration
            registered = state.routes.register(registration, request.channel, now, replace_topics=replace)
        except (RegistrationError, RemoteProtocolError) as error:
            _log_refusal(state, request, error)
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        _log_registered(state, header, registered)
    return request.reply(_response_header(registered), _order_topics(state))


def unregister_broker(state: State, request: Request[BrokerIdentityRequest]) -> Command:
    removed = state.routes.unregister(request.header.broker_name, request.header.broker_addr)
    forget(state, [removed] if removed else [], "it unregistered")
    return request.reply()


def query_data_version(state: State, request: Request[BrokerIdentityRequest]) -> Command:
    """Whether the broker's topics are others than those it registered; a sign of life at the same time."""
    version = DataVersion.from_json(request.command.body)
    known = state.routes.heard_from(request.header.broker_name, request.header.broker_addr, state.now())
    changed = known is None or version_of(known) != version_of(version)
    return request.reply(QueryDataVersionResponse(changed), known.to_json() if known else b"")


def broker_heartbeat(state: State, request: Request[BrokerHeartbeatRequest]) -> Command:
    state.routes.heard_from(request.header.broker_name, request.header.broker_addr, state.now())
    return request.reply()


def member_group(state: State, request: Request[BrokerMemberGroupRequest]) -> Command:
    group = answers.member_group(state.routes, request.header.cluster_name, request.header.broker_name)
    return request.reply(body=BrokerMemberGroupResponse(broker_member_group=group).to_json())


def register_topic(state: State, request: Request[TopicRequest]) -> Command:
    """Enter one topic at brokers that are registered."""
    route = TopicRouteData.from_json(request.command.body)
    try:
        state.routes.add_topic(request.header.topic, {data.broker_name: _queues(data) for data in route.queue_datas})
    except (RegistrationError, RemoteProtocolError) as error:
        _log_refusal(state, request, error)
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return request.reply()


def forget(state: State, members: Iterable[Removed], reason: str) -> None:
    """What is to be done about members that were removed."""
    for broker_name, broker_id, address, leader_change in members:
        logger.info("broker %s/%d at %s is no longer registered: %s", broker_name, broker_id, address, reason)
        if leader_change is not None:
            state.leader_changed(leader_change)


def _queues(data: QueueData) -> TopicQueues:
    return TopicQueues(data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag).check()


def _fingerprint(command: Command, header: RegisterBrokerRequest) -> bytes:
    digest = blake2b(command.body, digest_size=16)
    digest.update(repr((header, command.version)).encode(errors="surrogatepass"))
    return digest.digest()


def _registration(command: Command, header: RegisterBrokerRequest, fingerprint: bytes) -> Registration:
    body = command.body
    if header.body_crc32 and body_crc(body) != header.body_crc32:
        raise RegistrationError(f"crc32 not match: {body_crc(body)} of the body, {header.body_crc32} in the header")
    topics = RegisteredTopics.decode(body, command.version) if body else RegisteredTopics(DataVersion(), {}, ())
    timeout_ms = header.heartbeat_timeout_millis or 0
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        topics=topics.topics,
        data_version=topics.data_version,
        ha_address=header.ha_server_addr,
        timeout=timeout_ms / 1000 if timeout_ms > 0 else DEFAULT_TIMEOUT,
        acting_master=header.enable_acting_master,
        zone_name=header.zone_name,
        filter_servers=topics.filter_servers,
        networks=parse_addresses(header.addresses or ""),
        fingerprint=fingerprint,
    )


def _response_header(registered: Registered) -> RegisterBrokerResponse:
    """A slave is told where its master is."""
    master = registered.master
    return RegisterBrokerResponse() if master is None else RegisterBrokerResponse(master.ha_address, master.address)


def _order_topics(state: State) -> bytes:
    topics = state.key_values.namespace(ORDER_TOPICS)
    if topics is None or not state.settings.return_order_topic_config_to_broker:
        return b""
    return KVTable(table=topics).to_json()


def _log_registered(state: State, header: RegisterBrokerRequest, registered: Registered) -> None:
    broker = f"broker {header.broker_name}/{header.broker_id}"
    if registered.holder is not None and state.once.first(("ahead", broker, header.broker_addr)):
        logger.warning("%s at %s is ignored: %s is ahead of it", broker, header.broker_addr, registered.holder)
    if registered.replaced is not None and state.once.first(("replaced", broker, header.broker_addr)):
        message = "%s is at %s now, and was at %s: are there two with this name and id?"
        logger.warning(message, broker, header.broker_addr, registered.replaced)
    if registered.left_cluster is not None and state.once.first(("cluster", broker, header.cluster_name)):
        logger.warning("%s is in cluster %s now, and was in %s", broker, header.cluster_name, registered.left_cluster)
    if (misnamed := registered.misnamed) and state.once.first(("topics", broker, hash(misnamed))):
        message = "%s has %d topics that are left out, as no client could use their names: %.300r"
        logger.warning(message, broker, len(misnamed), misnamed[:_SHOWN])
    if registered.is_new:
        logger.info("%s is registered at %s", broker, header.broker_addr)
    if registered.leader_change is not None:
        state.leader_changed(registered.leader_change)


def _log_refusal(state: State, request: Request[Any], error: Exception) -> None:
    """A broker tries again every 30 s for as long as it is refused."""
    if state.once.first(("refused", request.channel.address[0], str(error))):
        logger.warning("refused what %s registers: %s", request.channel.name, error)
