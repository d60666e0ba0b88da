"""Subscription expressions: which tags a text such as `TagA || TagB` names.

The rules are those of RocketMQ's `FilterAPI`: nothing, the empty text and exactly `*` mean every message.
Otherwise the text is split at `||`, parts are trimmed and empty ones dropped. So ` * ` is a tag called `*`, a
blank text names no tag and matches nothing, and a text of separators alone is an error. Only the type `TAG`
is read here; any other (`SQL92`) takes the text as it is.
"""

from __future__ import annotations

from typing import Final

from pocketmq.protocol.errors import ProtocolError

TAG: Final = "TAG"
SQL92: Final = "SQL92"
ALL: Final = "*"

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim() removes: not U+00A0, not U+3000


class SubscriptionError(ProtocolError):
    """An expression means nothing; whose fault that is depends on who wrote it."""


def check_expression(expression: str | None, expression_type: str) -> str:
    """The expression as it is sent: every message when nothing was asked for by tags."""
    if expression:
        return expression
    if expression_type == TAG:
        return ALL
    raise SubscriptionError(f"an expression of type {expression_type!r} must not be empty")


def tags_of(expression: str) -> frozenset[str]:
    """The tags that a tag expression names; none when it means every message, or none."""
    if expression == ALL:
        return frozenset()
    parts = expression.split("||")
    if not any(parts):
        raise SubscriptionError(f"no tag in {expression!r}")
    return frozenset(part.strip(_JAVA_BLANKS) for part in parts) - {""}
