"""Which encoding and which extensions a connection may use.

Every connection starts with JSON headers. A PocketMQ client adds `PMQ_SER` to its first request: the encodings it
would like. A PocketMQ server answers that request with `PMQ_SER`, what it accepts, and `PMQ_CAP`, the extensions it
offers. A RocketMQ peer ignores the unknown field, and the connection stays as it was: nothing is ever tried out on a
peer that has not said that it understands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pocketmq.protocol.codes import Encoding

OFFER: Final = "PMQ_SER"
CAPABILITIES: Final = "PMQ_CAP"

_MSGPACK: Final = int(Encoding.MSGPACK)
_MSGPACK_TEXT: Final = str(_MSGPACK)

REFUSAL_REMEMBERED: Final = 600.0
"""Seconds for which an address that refused msgpack, or broke on it, is not offered it again."""


def accept(offer: str, capabilities: str) -> dict[str, str]:
    """The ext fields with which a server answers a request that carries an offer."""
    accepted = _MSGPACK_TEXT if _MSGPACK_TEXT in _items(offer) else str(int(Encoding.JSON))
    return {OFFER: accepted, CAPABILITIES: capabilities}


class Negotiation:
    """The client's side, for one connection."""

    def __init__(self, *, offer: bool = True) -> None:
        self.encoding = int(Encoding.JSON)
        self.capabilities: frozenset[str] = frozenset()
        self.is_accepted = False
        self.is_settled = not offer
        self._offer = offer
        self._awaiting: int | None = None
        self._msgpack_sent = False

    def request_fields(self, ext_fields: Mapping[str, str]) -> Mapping[str, str]:
        """The ext fields of a request that is answered: the first also carries the offer."""
        return {**ext_fields, OFFER: _MSGPACK_TEXT} if self._offer else ext_fields

    def sent(self, opaque: int) -> None:
        """Such a request is on its way."""
        if self._offer:
            self._offer = False
            self._awaiting = opaque
        else:
            self._msgpack_sent = self.encoding == _MSGPACK

    def response(self, opaque: int, ext_fields: Mapping[str, str], encoding: int) -> None:
        """Learn from a response until there is nothing more to learn (`is_settled`).

        There is, until the offer was answered and, if it was accepted, a response in msgpack has come.
        """
        if opaque == self._awaiting:
            self._awaiting = None
            self.is_accepted = OFFER in ext_fields
            self.capabilities = frozenset(_items(ext_fields.get(CAPABILITIES, "")))
            if _MSGPACK_TEXT in _items(ext_fields.get(OFFER, "")):
                self.encoding = _MSGPACK
            else:
                self.is_settled = True
        elif encoding == _MSGPACK:
            self.is_settled = True

    @property
    def broke_on_msgpack(self) -> bool:
        """Asked once the connection is lost: was msgpack in use and never answered? Then offer JSON only."""
        return self._msgpack_sent and not self.is_settled


class Refusals:
    """The addresses that are not to be offered msgpack for a while."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def remember(self, address: str, now: float) -> None:
        self._until = {known: until for known, until in self._until.items() if until > now}
        self._until[address] = now + REFUSAL_REMEMBERED

    def covers(self, address: str, now: float) -> bool:
        return self._until.get(address, now) > now


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]
