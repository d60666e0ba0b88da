"""What operators change at a NameServer, mostly through mqadmin."""

from __future__ import annotations

import logging
from typing import Any, Final

from pocketmq.namesrv.key_values import KeyValuesFullError
from pocketmq.namesrv.state import State
from pocketmq.protocol.bodies import KVTable, parse_config_text, write_config_text
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.namesrv import (
    AddWritePermResponse,
    BrokerNameRequest,
    DeleteTopicFromNamesrvRequest,
    KvConfigRequest,
    KvConfigResponse,
    NamespaceRequest,
    PutKvConfigRequest,
    WipeWritePermResponse,
)
from pocketmq.remoting.errors import Refusal
from pocketmq.remoting.handlers import Answer, Request
from pocketmq.service.errors import SettingsError
from pocketmq.service.settings import changed, names, to_texts

logger = logging.getLogger("pocketmq.namesrv")

_REMARK: Final = 2000  # characters of what is wrong with settings; there may be a line for each of them


def wipe_write_permission(state: State, request: Request[BrokerNameRequest]) -> Command:
    """Let no one send to a broker, until it registers topics that have changed."""
    count = state.routes.wipe_write_permission(request.header.broker_name)
    logger.info("%s took the permission to write from %d topics of broker %.300r", *_what(request, count))
    return request.reply(WipeWritePermResponse(count))


def add_write_permission(state: State, request: Request[BrokerNameRequest]) -> Command:
    count = state.routes.add_write_permission(request.header.broker_name)
    logger.info("%s gave the permission to write to %d topics of broker %.300r", *_what(request, count))
    return request.reply(AddWritePermResponse(count))


def _what(request: Request[BrokerNameRequest], count: int) -> tuple[str, int, str]:
    return request.channel.name, count, request.header.broker_name


def delete_topic(state: State, request: Request[DeleteTopicFromNamesrvRequest]) -> Command:
    header = request.header
    state.routes.delete_topic(header.topic, header.cluster_name)
    logger.info("%s deleted topic %.300r (cluster: %.300s)", request.channel.name, header.topic, header.cluster_name)
    return request.reply()


def put_key_value(state: State, request: Request[PutKvConfigRequest]) -> Answer:
    try:
        state.key_values.put(*request.header)
    except KeyValuesFullError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return state.saver.answer_when_saved(request)


def get_key_value(state: State, request: Request[KvConfigRequest]) -> Command:
    namespace, key = request.header
    value = state.key_values.get(namespace, key)
    if value is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace:.300} Key: {key:.300}")
    return request.reply(KvConfigResponse(value))


def delete_key_value(state: State, request: Request[KvConfigRequest]) -> Answer:
    state.key_values.delete(*request.header)
    return state.saver.answer_when_saved(request)


def get_namespace(state: State, request: Request[NamespaceRequest]) -> Command:
    namespace = request.header.namespace
    table = state.key_values.namespace(namespace)
    if table is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace:.300}")
    return request.reply(body=KVTable(table=table).to_json())


def get_settings(state: State, request: Request[Any]) -> Command:
    return request.reply(body=write_config_text(dict(sorted(to_texts(state.settings).items()))))


def change_settings(state: State, request: Request[Any]) -> Command:
    """Change what may be changed from outside, all of it or nothing, until the process ends."""
    texts = parse_config_text(request.command.body)
    if refused := (texts.keys() & names(type(state.settings))) - state.settings.changeable:
        those = ", ".join(sorted(refused))
        raise Refusal(ResponseCode.NO_PERMISSION, f"not to be changed while the NameServer runs: {those}")
    try:
        state.settings = changed(state.settings, texts)
    except SettingsError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)[:_REMARK]) from None
    logger.info("%s changed settings: %.300r", request.channel.name, texts)
    return request.reply()
