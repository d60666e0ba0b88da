"""Requests that wait for their answers on one connection, in one direction.

Each side of a connection numbers its own requests, so the numbers of the two directions overlap; only the response
bit of a frame says to whose table it belongs. A waiter is whatever the caller wants back when the answer comes.
"""

from __future__ import annotations

import math
from typing import Final, Generic, TypeVar

Waiter = TypeVar("Waiter")

_OPAQUE_MASK: Final = 0x7FFFFFFF


class PendingRequests(Generic[Waiter]):
    """Opaque number -> waiter and deadline. Knows no clock: the caller says what time it is."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Waiter, float]] = {}
        self._last_opaque = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_opaque(self) -> int:
        """A number that no waiting request has."""
        opaque = (self._last_opaque + 1) & _OPAQUE_MASK
        while opaque in self._waiting:
            opaque = (opaque + 1) & _OPAQUE_MASK
        self._last_opaque = opaque
        return opaque

    def add(self, opaque: int, waiter: Waiter, deadline: float = math.inf) -> None:
        self._waiting[opaque] = (waiter, deadline)

    def pop(self, opaque: int) -> Waiter | None:
        """The waiter of an answer; None for an answer nobody waits for (any more)."""
        entry = self._waiting.pop(opaque, None)
        return None if entry is None else entry[0]

    def earliest_deadline(self) -> float:
        return min((deadline for _, deadline in self._waiting.values()), default=math.inf)

    def expire(self, now: float) -> list[Waiter]:
        """Take out and return the waiters whose deadline has passed."""
        late = [opaque for opaque, (_, deadline) in self._waiting.items() if deadline <= now]
        return [self._waiting.pop(opaque)[0] for opaque in late]

    def clear(self) -> list[Waiter]:
        """Take out and return every waiter: the connection is gone."""
        waiters = [waiter for waiter, _ in self._waiting.values()]
        self._waiting.clear()
        return waiters
