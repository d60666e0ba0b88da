"""The key-value configuration of a NameServer: namespace -> key -> value. It is all that outlives the process.

Little of it is ever used; `ORDER_TOPIC_CONFIG` says how many queues an ordered topic has at which brokers. As a file it
is RocketMQ's `kvConfig.json`, and either NameServer reads the other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.model import body
from pocketmq.protocol.errors import PocketMQError

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of ordered topics: topic -> `broker:queues;broker:queues`."""

MAX_SIZE: Final = 1024 * 1024
"""Characters of all namespaces, keys and values, and some for each entry: each change writes all of them."""

_ENTRY: Final = 64  # a namespace or a key takes that much, however short it is


class KeyValuesFullError(PocketMQError):
    """There is no room for another value."""


class KeyValues:
    """The configuration in memory."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]] = {}) -> None:
        self._namespaces = {name: dict(table) for name, table in namespaces.items()}
        self._size = sum(map(_size, namespaces))
        self._size += sum(_size(*item) for table in namespaces.values() for item in table.items())

    def __repr__(self) -> str:
        return f"<KeyValues {len(self._namespaces)} namespaces>"

    @classmethod
    def from_json(cls, data: bytes) -> KeyValues:
        """Read a file; raises `RemoteProtocolError`."""
        return cls(_File.from_json(data).config_table)

    def to_json(self) -> bytes:
        """What a file holds."""
        return _File(config_table=self._namespaces).to_json()

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """The keys and values of a namespace, if there is one."""
        return self._namespaces.get(name)

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; raises `KeyValuesFullError`."""
        before = self.get(namespace, key)
        more = _size(key, value) - (0 if before is None else _size(key, before))
        if namespace not in self._namespaces:
            more += _size(namespace)
        if more > 0 and self._size + more > MAX_SIZE:
            raise KeyValuesFullError(f"the key-value configuration is full: {MAX_SIZE} characters are kept")
        self._namespaces.setdefault(namespace, {})[key] = value
        self._size += more

    def delete(self, namespace: str, key: str) -> None:
        """Forget a key. An empty namespace stays, as in RocketMQ: it has an answer, if an empty one."""
        value = self._namespaces.get(namespace, {}).pop(key, None)
        if value is not None:
            self._size -= _size(key, value)


def _size(*texts: str) -> int:
    return _ENTRY + sum(map(len, texts))


@body
class _File(Body):
    config_table: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
