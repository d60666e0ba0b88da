"""The table of a NameServer's requests: code -> handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pocketmq.namesrv import admin_requests, broker_requests, client_requests
from pocketmq.namesrv.state import State
from pocketmq.protocol.codes import RequestCode
from pocketmq.remoting.handlers import Answer, Handler, Request

_R = RequestCode

_HANDLERS: Final[Mapping[RequestCode, Callable[[State, Request[Any]], Answer]]] = {
    _R.PUT_KV_CONFIG: admin_requests.put_key_value,
    _R.GET_KV_CONFIG: admin_requests.get_key_value,
    _R.DELETE_KV_CONFIG: admin_requests.delete_key_value,
    _R.REGISTER_BROKER: broker_requests.register_broker,
    _R.UNREGISTER_BROKER: broker_requests.unregister_broker,
    _R.GET_ROUTEINFO_BY_TOPIC: client_requests.route,
    _R.GET_BROKER_CLUSTER_INFO: client_requests.cluster_info,
    _R.WIPE_WRITE_PERM_OF_BROKER: admin_requests.wipe_write_permission,
    _R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: client_requests.all_topics,
    _R.DELETE_TOPIC_IN_NAMESRV: admin_requests.delete_topic,
    _R.REGISTER_TOPIC_IN_NAMESRV: broker_requests.register_topic,
    _R.GET_KVLIST_BY_NAMESPACE: admin_requests.get_namespace,
    _R.GET_TOPICS_BY_CLUSTER: client_requests.topics_of_cluster,
    _R.GET_SYSTEM_TOPIC_LIST_FROM_NS: client_requests.system_topics,
    _R.GET_UNIT_TOPIC_LIST: client_requests.unit_topics,
    _R.GET_HAS_UNIT_SUB_TOPIC_LIST: client_requests.unit_subscribed_topics,
    _R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: client_requests.unit_subscribed_other_topics,
    _R.UPDATE_NAMESRV_CONFIG: admin_requests.change_settings,
    _R.GET_NAMESRV_CONFIG: admin_requests.get_settings,
    _R.QUERY_DATA_VERSION: broker_requests.query_data_version,
    _R.ADD_WRITE_PERM_OF_BROKER: admin_requests.add_write_permission,
    _R.GET_BROKER_MEMBER_GROUP: broker_requests.member_group,
    _R.BROKER_HEARTBEAT: broker_requests.broker_heartbeat,
}


def handlers_for(state: State) -> dict[int, Handler]:
    """Handlers that serve from this state, and count what they serve."""
    return {int(code): _bind(state, code.name, handler) for code, handler in _HANDLERS.items()}


def _bind(state: State, name: str, handler: Callable[[State, Request[Any]], Answer]) -> Handler:
    def handle(request: Request[Any]) -> Answer:
        state.served[name] += 1
        return handler(state, request)

    return handle
