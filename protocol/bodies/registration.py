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
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple, Self

from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.common import DataVersion
from pocketmq.protocol.bodies.converters import BodyError, misfit
from pocketmq.protocol.bodies.model import Body, Names, body
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.codes import MessageFlag, version_ordinal
from pocketmq.protocol.compression import decompress
from pocketmq.protocol.errors import RemoteProtocolError

_ZLIB: Final = 0x78
# A frame could inflate to a thousand times its size; uncompressed, no body is larger than a frame.
_MAX_INFLATED: Final = 16 * 1024 * 1024
_MAX_BLOCK: Final = 64 * 1024  # far more than a topic and its attributes take, and read at once
_MAX_BLOCKS: Final = 100_000  # topics of one broker: so many take most of a second
_MAX_KINDS: Final = 64  # of topics, when each is looked up among those before: whoever chooses integers, chooses hashes
_TOPICS_ALONE_BEFORE: Final = 37  # 3.0.11
_MAPPINGS_SINCE: Final = version_ordinal(5, 0, 0)
_TOPIC: Final = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "attributes")
_INT32: Final = struct.Struct(">i")
_NUMBERS: Final = range(1 << 31)


@body
class RegisterBrokerBody(Body):
    """The topics of a broker."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: tuple[str, ...] = ()

    @staticmethod
    def decode(data: bytes | memoryview, version: int) -> RegisterBrokerBody:
        """Read any of the encodings; `version` is that of the request's header."""
        return RegisterBrokerBody.from_value(_as_json(data, version))


class TopicQueues(NamedTuple):
    """What a NameServer keeps of one topic at one broker."""

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int

    def check(self) -> Self:
        """The same; raises `BodyError` for a number that counts nothing, or is no int to a client in Java."""
        if not all(number in _NUMBERS for number in self):
            raise BodyError(f"the numbers of a topic are from 0 to {_NUMBERS[-1]}, not {tuple(self)}")
        return self


class RegisteredTopics(NamedTuple):
    """What a NameServer keeps of a `RegisterBrokerBody`."""

    data_version: DataVersion
    topics: Mapping[str, TopicQueues]
    filter_servers: tuple[str, ...]

    @staticmethod
    def decode(data: bytes | memoryview, version: int) -> RegisteredTopics:
        """Read any of the encodings, in a third of the time that the whole body takes."""
        digest = _Digest.from_value(_as_json(data, version, whole=False))
        data_version = replace(digest.wrapper.data_version, extra={})
        return RegisteredTopics(data_version, _queues(digest.wrapper.topics), digest.filter_server_list)


@body
class _TopicsUnread(Body):
    data_version: DataVersion = field(default_factory=DataVersion)
    topics: Annotated[Any, Names("topicConfigTable")] = field(default_factory=dict)


@body
class _Digest(Body):
    wrapper: Annotated[_TopicsUnread, Names("topicConfigSerializeWrapper")] = field(default_factory=_TopicsUnread)
    filter_server_list: tuple[str, ...] = ()


@body
class _Numbers(Body):
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_sys_flag: int = 0


_IN_ORDER: Final = itemgetter("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")


def _queues(table: Any) -> dict[str, TopicQueues]:
    """The queues of each topic. Most topics look like one that was read already."""
    if not isinstance(table, dict):
        raise misfit("an object", table).within(".topicConfigTable")
    if len(table) > _MAX_BLOCKS:
        raise BodyError(f"{len(table)} topics: {_MAX_BLOCKS} are read", ".topicConfigTable")
    known: dict[tuple[int, ...], TopicQueues] = {}
    topics = {}
    for name, value in table.items():
        try:
            topics[name] = known[_IN_ORDER(value)]
        except (KeyError, TypeError):  # the first of its kind, or not written as usual
            if value is not None:
                topics[name] = queues = _read_queues(name, value)
                if len(known) < _MAX_KINDS:
                    known[queues] = queues
    if not all(name.__class__ is str for name in topics):  # in the dialect a key may be anything
        raise BodyError("expected names of topics", ".topicConfigTable")
    return topics


def _read_queues(name: Any, value: Any) -> TopicQueues:
    try:
        numbers = _Numbers.from_value(value)
        queues = numbers.read_queue_nums, numbers.write_queue_nums, numbers.perm, numbers.topic_sys_flag
        return TopicQueues(*queues).check()
    except BodyError as error:
        raise error.within(f".topicConfigTable[{name!s:.80}]") from None


def _as_json(data: bytes | memoryview, version: int, *, whole: bool = True) -> Any:
    """Any of the encodings in the shape of the first; if not whole, blocks without attributes and mappings.

    A few kilobytes can inflate to many of those, and each may be written so that reading it takes long.
    """
    if data and data[0] == _ZLIB:
        return _blocks_as_json(_Blocks(decompress(data, MessageFlag.COMPRESSED, _MAX_INFLATED)), version, whole)
    document = fastjson.loads(data)
    is_alone = version < _TOPICS_ALONE_BEFORE and isinstance(document, dict)
    return {"topicConfigSerializeWrapper": document} if is_alone else document


def _blocks_as_json(blocks: _Blocks, version: int, whole: bool) -> dict[str, Any]:
    """The second encoding brought into the shape of the first."""
    wrapper = {
        "dataVersion": fastjson.loads(blocks.one()),
        "topicConfigTable": _by_name("topicName", (_topic(block, whole) for block in blocks.many())),
    }
    filter_servers = fastjson.loads(blocks.one())
    if version >= _MAPPINGS_SINCE:
        mappings = list(blocks.many())
        if whole:
            wrapper["topicQueueMappingInfoMap"] = _by_name("topic", map(fastjson.loads, mappings))
    blocks.end()
    return {"filterServerList": filter_servers, "topicConfigSerializeWrapper": wrapper}


def _by_name(member: str, values: Iterator[Any]) -> dict[str, Any]:
    try:
        return {str(value[member]): value for value in values}
    except (KeyError, TypeError):
        raise RemoteProtocolError(f"register body: expected objects with {member}") from None


def _topic(data: bytes, whole: bool) -> dict[str, Any]:
    """`name readQueues writeQueues perm filterType`, from 5.0 a blank and the attributes in JSON or nothing."""
    items = data.decode(errors="replace").split(" ", 5)
    if len(items) < 5:
        raise RemoteProtocolError(f"register body: not a topic: {data[:80]!r}")
    topic: dict[str, Any] = dict(zip(_TOPIC, items, strict=False))
    if (attributes := topic.pop("attributes", None)) and whole:
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
