"""Log lines that stay lines, and conditions that are logged once although they last."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from types import TracebackType
from typing import Final, TextIO

# What a terminal obeys, what some reader of the log takes for the end of a line, what turns the direction of a text
# around, and what has no encoding.
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_UNSAFE: Final = (*_CONTROLS, *range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_ESCAPED: Final = {code: repr(chr(code))[1:-1] for code in _UNSAFE}

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogLevel(Enum):
    """How much a line of the log matters."""

    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR
    CRITICAL = logging.CRITICAL


def configure(level: LogLevel, stream: TextIO | None = None) -> None:
    """Write what PocketMQ logs from this level on to the stream (stderr if none is given)."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("pocketmq")
    logger.handlers[:] = [handler]
    logger.setLevel(level.value)


class _LineFormatter(logging.Formatter):
    """Names and texts of peers are logged, so a message is one line, and a traceback never looks like another."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_ESCAPED)

    def formatException(self, ei: _ExceptionInfo) -> str:
        return _indent(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indent(super().formatStack(stack_info))


def _indent(text: str) -> str:
    return "\n".join(f"    {line.translate(_ESCAPED)}" for line in text.split("\n"))


class Once:
    """Tells the first time from the others, for conditions that return with every heartbeat.

    Of more keys than `limit` the oldest are forgotten: what is remembered of peers has to end somewhere.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Once {len(self._known)} of {self._limit} keys>"

    def first(self, key: Hashable) -> bool:
        """Whether the key is new; from now on it is not."""
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return True

    def forget(self, key: Hashable) -> None:
        """Take the key for new again, because the condition is over."""
        self._known.pop(key, None)
