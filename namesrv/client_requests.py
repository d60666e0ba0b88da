"""What clients, tools and brokers want to know of a NameServer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pocketmq.namesrv import answers
from pocketmq.namesrv.key_values import ORDER_TOPICS
from pocketmq.namesrv.state import State
from pocketmq.protocol.bodies import TopicList
from pocketmq.protocol.codes import ResponseCode, version_ordinal
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.namesrv import ClusterRequest, GetRouteInfoRequest
from pocketmq.remoting.errors import Refusal
from pocketmq.remoting.handlers import Request

_STRICT_JSON_SINCE: Final = version_ordinal(4, 9, 4)


def route(state: State, request: Request[GetRouteInfoRequest]) -> Command:
    """Where a topic is. Clients before 4.9.4 get the ids of brokers as bare integers, unless they ask for JSON."""
    if (reason := state.why_not_ready()) is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, reason)
    header, settings = request.header, state.settings
    order_conf = state.key_values.get(ORDER_TOPICS, header.topic) if settings.order_message_enable else None
    found = answers.route_of(
        state.routes,
        header.topic,
        state.teller(request.channel),
        order_conf=order_conf,
        acting_masters=settings.support_acting_master,
    )
    if found is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, answers.why_no_route(state.routes, header.topic))
    is_strict = request.command.version >= _STRICT_JSON_SINCE or header.accept_standard_json_only
    return request.reply(body=found.to_json(bare_integer_keys=not is_strict))


def cluster_info(state: State, request: Request[Any]) -> Command:
    return request.reply(body=answers.cluster_info(state.routes, state.teller(request.channel)).to_json())


def all_topics(state: State, request: Request[Any]) -> Command:
    return _listed(request, state.settings.enable_all_topic_list, lambda: answers.all_topics(state.routes))


def topics_of_cluster(state: State, request: Request[ClusterRequest]) -> Command:
    return _some_topics(state, request, lambda: answers.topics_of_cluster(state.routes, request.header.cluster))


def system_topics(state: State, request: Request[Any]) -> Command:
    return _some_topics(state, request, lambda: answers.system_topics(state.routes, state.teller(request.channel)))


def unit_topics(state: State, request: Request[Any]) -> Command:
    return _some_topics(state, request, lambda: answers.unit_topics(state.routes))


def unit_subscribed_topics(state: State, request: Request[Any]) -> Command:
    return _some_topics(state, request, lambda: answers.unit_subscribed_topics(state.routes))


def unit_subscribed_other_topics(state: State, request: Request[Any]) -> Command:
    return _some_topics(state, request, lambda: answers.unit_subscribed_other_topics(state.routes))


def _some_topics(state: State, request: Request[Any], list_topics: Callable[[], TopicList]) -> Command:
    return _listed(request, state.settings.enable_topic_list, list_topics)


def _listed(request: Request[Any], is_enabled: bool, list_topics: Callable[[], TopicList]) -> Command:
    if not is_enabled:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "disable: this NameServer is set up not to list topics")
    return request.reply(body=list_topics().to_json())
