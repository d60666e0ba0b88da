"""What brokers tell a NameServer, in all forms that they have for it, and a NameServer's state without a server."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from pocketmq.namesrv.handlers import handlers_for
from pocketmq.namesrv.key_values import KeyValues
from pocketmq.namesrv.routes import LeaderChange
from pocketmq.namesrv.saving import Saver
from pocketmq.namesrv.settings import NamesrvSettings
from pocketmq.namesrv.state import State
from pocketmq.protocol.bodies import DataVersion, TopicQueues
from pocketmq.protocol.codes import CommandFlag, Encoding, RequestCode, version_ordinal
from pocketmq.protocol.command import Command
from pocketmq.protocol.fields import decode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.hashes import body_crc
from pocketmq.protocol.requests import REQUESTS
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.handlers import Dispatcher, Request

V3_0_10 = 36
V4_9_7, V5_5_0 = version_ordinal(4, 9, 7), version_ordinal(5, 5, 0)

FOUR = TopicQueues(4, 4, 6, 0)
FIRST = DataVersion(counter=1, timestamp=1000)
SECOND = DataVersion(counter=2, timestamp=2000)


class Form(Enum):
    """How the body of a registration is written."""

    JSON = "JSON"
    COMPRESSED = "zlib"
    ALONE = "the topics alone, before 3.0.11"


# --- what a broker sends


def registration(
    name: str = "broker-a",
    address: str = "10.0.0.1:10911",
    topics: Mapping[str, TopicQueues] | Iterable[str] = ("T",),
    *,
    id: int = 0,
    cluster: str = "c",
    data_version: DataVersion = FIRST,
    filter_servers: tuple[str, ...] = (),
    form: Form = Form.JSON,
    version: int | None = None,
    encoding: int = Encoding.JSON,
    **fields: str,
) -> Command:
    """A request to register a broker; `fields` are ext fields that replace the usual ones, or come in addition."""
    queues = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, FOUR)
    version = version or (V3_0_10 if form is Form.ALONE else V4_9_7)
    body = registration_body(queues, data_version, filter_servers, form, version)
    usual = {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": cluster,
        "haServerAddr": f"{address.rpartition(':')[0]}:10912",
        "brokerId": str(id),
        "bodyCrc32": str(body_crc(body)),
    }
    return Command(RequestCode.REGISTER_BROKER, usual | fields, body, 1, version=version, encoding=encoding)


def registration_body(
    topics: Mapping[str, TopicQueues],
    data_version: DataVersion = FIRST,
    filter_servers: tuple[str, ...] = (),
    form: Form = Form.JSON,
    version: int = V4_9_7,
) -> bytes:
    """The topics of a broker, written as a broker of that version writes them."""
    if form is Form.COMPRESSED:
        return zlib.compress(b"".join(_blocks(topics, data_version, filter_servers, version)), 9)
    wrapper = {
        "dataVersion": data_version.to_value(),
        "topicConfigTable": {name: _topic_config(name, queues) for name, queues in topics.items()},
    }
    alone = form is Form.ALONE
    document = wrapper if alone else {"filterServerList": filter_servers, "topicConfigSerializeWrapper": wrapper}
    return json.dumps(document, separators=(",", ":")).encode()


def _topic_config(name: str, queues: TopicQueues) -> dict[str, Any]:
    return {
        "order": False,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def _blocks(
    topics: Mapping[str, TopicQueues], data_version: DataVersion, filter_servers: tuple[str, ...], version: int
) -> Iterable[bytes]:
    yield _block(data_version.to_json().decode())
    yield struct.pack(">i", len(topics))
    for name, (read, write, perm, _) in topics.items():
        yield _block(f"{name} {read} {write} {perm} SINGLE_TAG" + (" " if version >= 413 else ""))
    yield _block(json.dumps(filter_servers))
    if version >= 413:
        yield struct.pack(">i", 0)


def _block(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


# --- a NameServer without a server


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def settings_of(**settings: Any) -> NamesrvSettings:
    """Settings given by attribute; unless they say otherwise, no file is kept, and any port will do."""
    settings.setdefault("kv_config_path", "")
    settings.setdefault("listen_port", 0)
    return NamesrvSettings(**settings)


class Desk:
    """A state, its clock, and those who ask. Its key-values are kept in memory; settings are given by attribute."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.changes: list[LeaderChange] = []
        key_values = KeyValues()
        self.state = State(
            settings=settings_of(**settings),
            key_values=key_values,
            saver=Saver(None, key_values.to_json),
            now=self.clock,
            started=self.clock.now,
            leader_changed=self.changes.append,
        )
        self._dispatch = Dispatcher(handlers_for(self.state))

    def ask(self, command: Command, channel: Channel | None = None) -> Command:
        """What a command is answered that comes from this channel, or from a new one."""
        channel = channel or caller()
        self._dispatch(command._replace(flag=command.flag & ~CommandFlag.ONEWAY), channel)
        (answer,) = FrameDecoder().feed(channel.take_outbox())
        return answer

    def register(self, *registrations: Command, channel: Channel | None = None) -> None:
        """Register brokers, for tests that are about something else."""
        for command in registrations:
            answer = self.ask(command, channel)
            assert answer.code == 0, answer.remark


def caller(host: str = "127.0.0.1", port: int = 4321) -> Channel:
    """A channel whose other end is at this address."""
    return Channel((host, port))


def asking(code: int, body: bytes = b"", *, version: int = V4_9_7, encoding: int = 0, **fields: str) -> Command:
    """A request with these ext fields."""
    return Command(code, fields, body, 1, version=version, encoding=encoding)


def request(command: Command, channel: Channel | None = None) -> Request[Any]:
    """A command as a handler sees it: read from a frame, with its header decoded."""
    (received,) = FrameDecoder().feed(encode_frame(command))
    header = decode_header(REQUESTS[command.code].request, received.ext_fields)
    return Request(received, header, channel or caller())
