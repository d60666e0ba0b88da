"""Headers of the NameServer's requests, and of those between brokers."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pocketmq.protocol.fields import Int32, Int64, Wire


class RegisterBrokerRequest(NamedTuple):
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    zone_name: Annotated[str | None, Wire("__ZONE_NAME")] = None
    addresses: Annotated[str | None, Wire("PMQ_ADDRS")] = None


class RegisterBrokerResponse(NamedTuple):
    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityRequest(NamedTuple):
    """Which broker it is: to unregister it, or to compare its data version."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponse(NamedTuple):
    changed: bool


class BrokerHeartbeatRequest(NamedTuple):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class NotifyMinBrokerIdChangeRequest(NamedTuple):
    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class GetRouteInfoRequest(NamedTuple):
    topic: str = ""  # as in RocketMQ, nothing is to be found under no name
    accept_standard_json_only: bool | None = None


class BrokerMemberGroupRequest(NamedTuple):
    cluster_name: str
    broker_name: str


class ClusterRequest(NamedTuple):
    cluster: str


class BrokerNameRequest(NamedTuple):
    broker_name: str


class WipeWritePermResponse(NamedTuple):
    wipe_topic_count: Int32


class AddWritePermResponse(NamedTuple):
    add_topic_count: Int32


class DeleteTopicFromNamesrvRequest(NamedTuple):
    topic: str
    cluster_name: str | None = None


class PutKvConfigRequest(NamedTuple):
    namespace: str
    key: str
    value: str


class KvConfigRequest(NamedTuple):
    namespace: str
    key: str


class KvConfigResponse(NamedTuple):
    value: str | None = None


class NamespaceRequest(NamedTuple):
    namespace: str
