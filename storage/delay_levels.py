"""Delay levels: how long a delayed message waits, by the number of its level, from 1 on.

The setting is a text such as `1s 5s 10m 2h`: level 1 waits one second, and so on. It is read as strictly as RocketMQ
reads it: one blank between the parts, a whole number and one of the four units.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Delays: TypeAlias = tuple[int, ...]
"""In milliseconds, that of level 1 first."""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_PART = re.compile(r"([+-]?[0-9]{1,15})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNKNOWN_LEVEL_MS = 1_000
_MOST_MS = 2**62


def parse_delay_levels(text: str) -> Delays:
    """The delays that the setting names. Raises `ValueError`."""
    delays = []
    for part in text.rstrip(" ").split(" "):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"messageDelayLevel: {part!r} is not a number with one of the units s, m, h, d")
        delay = int(match[1]) * _UNIT_MS[match[2]]
        if abs(delay) > _MOST_MS:
            raise ValueError(f"messageDelayLevel: {part!r} is more than the time of a message has room for")
        delays.append(delay)
    return tuple(delays)


def deliver_timestamp(delays: Delays, level: int, store_timestamp: int) -> int:
    """When a message of that level is due. A level above the last counts as the last, an unknown one as a second."""
    if level > len(delays):
        level = len(delays)
    return store_timestamp + (delays[level - 1] if level > 0 else _UNKNOWN_LEVEL_MS)
