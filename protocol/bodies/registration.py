"""How a broker registers its topics at a NameServer: one body, three encodings.

1. JSON, the usual one.
2. Compressed: zlib of blocks, each an int32 length and that many bytes: the data version (JSON), a count and
   as many topics (text, see `_topic`), the filter servers (JSON), and from 5.0 a count and as many mappings
   of static topics (JSON). It carries neither the topics' system flags nor their order.
3. Before 3.0.11: the topics alone, in JSON.

The request's `compressed` field cannot be trusted: 5.x brokers deny it. The first byte tells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.model import Body, body
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.codes import MessageFlag, version_ordinal
from pocketmq.protocol.compression import decompress
from pocketmq.protocol.errors import RemoteProtocolError

_ZLIB: Final = 0x78
# A frame could inflate to a thousand times its size; uncompressed, no body is larger than a frame.
_MAX_INFLATED: Final = 16 * 1024 * 1024
_MAX_BLOCK: Final = 64 * 1024  # far more than a topic and its attributes take, and read at once
_MAX_BLOCKS: Final = 100_000  # topics of one broker: so many take most of a second
_TOPICS_ALONE_BEFORE: Final = 37  # 3.0.11
_MAPPINGS_SINCE: Final = version_ordinal(5, 0, 0)
_TOPIC: Final = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "attributes")
_INT32: Final = struct.Struct(">i")


@body
class RegisterBrokerBody(Body):
    """The topics of a broker."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: tuple[str, ...] = ()

    @staticmethod
    def decode(data: bytes | memoryview, version: int) -> RegisterBrokerBody:
        """Read any of the encodings; `version` is that of the request's header."""
        if data and data[0] == _ZLIB:
            blocks = decompress(data, MessageFlag.COMPRESSED, _MAX_INFLATED)
            return RegisterBrokerBody.from_value(_blocks_as_json(_Blocks(blocks), version))
        if version < _TOPICS_ALONE_BEFORE:
            topics = TopicConfigSerializeWrapper.from_json(data)
            return RegisterBrokerBody(topic_config_serialize_wrapper=topics)
        return RegisterBrokerBody.from_json(data)


def _blocks_as_json(blocks: _Blocks, version: int) -> dict[str, Any]:
    """The second encoding brought into the shape of the first."""
    wrapper = {
        "dataVersion": fastjson.loads(blocks.one()),
        "topicConfigTable": _by_name("topicName", map(_topic, blocks.many())),
    }
    filter_servers = fastjson.loads(blocks.one())
    if version >= _MAPPINGS_SINCE:
        wrapper["topicQueueMappingInfoMap"] = _by_name("topic", map(fastjson.loads, blocks.many()))
    blocks.end()
    return {"filterServerList": filter_servers, "topicConfigSerializeWrapper": wrapper}


def _by_name(member: str, values: Iterator[Any]) -> dict[str, Any]:
    try:
        return {str(value[member]): value for value in values}
    except (KeyError, TypeError):
        raise RemoteProtocolError(f"register body: expected objects with {member}") from None


def _topic(data: bytes) -> dict[str, Any]:
    """`name readQueues writeQueues perm filterType`, from 5.0 a blank and the attributes in JSON or nothing."""
    items = data.decode(errors="replace").split(" ", 5)
    if len(items) < 5:
        raise RemoteProtocolError(f"register body: not a topic: {data[:80]!r}")
    topic: dict[str, Any] = dict(zip(_TOPIC, items, strict=False))
    if attributes := topic.pop("attributes", None):
        topic["attributes"] = fastjson.loads(attributes)
    return topic


class _Blocks:
    """A cursor over length-prefixed blocks."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def one(self) -> bytes:
        return self._take(self._integer())

    def many(self) -> Iterator[bytes]:
        count = self._integer()
        if not 0 <= count <= _MAX_BLOCKS:
            raise RemoteProtocolError(f"register body: {count} blocks in a row: {_MAX_BLOCKS} are read")
        for _ in range(count):
            yield self.one()

    def end(self) -> None:
        if self._at != len(self._data):
            raise RemoteProtocolError(f"register body: {len(self._data) - self._at} bytes too many")

    def _integer(self) -> int:
        number: int = _INT32.unpack(self._take(_INT32.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if not 0 <= size <= _MAX_BLOCK or self._at > len(self._data):
            raise RemoteProtocolError(f"register body: no block of {size} bytes at {start}")
        return self._data[start : self._at]
