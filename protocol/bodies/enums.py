"""The enumerations inside bodies: names on the wire, ordinals from clients written in C++ or Go."""

from __future__ import annotations

from enum import IntEnum


class ConsumeType(IntEnum):
    """How a consumer gets its messages."""

    CONSUME_ACTIVELY = 0
    CONSUME_PASSIVELY = 1
    CONSUME_POP = 2


class MessageModel(IntEnum):
    """Whether every consumer of a group gets a message, or one of them."""

    BROADCASTING = 0
    CLUSTERING = 1


class ConsumeFromWhere(IntEnum):
    """Where a group without offsets begins; the middle three are obsolete and mean the first."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


class ConsumeResult(IntEnum):
    """What became of a message that a consumer was made to consume directly."""

    CR_SUCCESS = 0
    CR_LATER = 1
    CR_ROLLBACK = 2
    CR_COMMIT = 3
    CR_THROW_EXCEPTION = 4
    CR_RETURN_NULL = 5


class MessageRequestMode(IntEnum):
    """How a group takes the messages of a topic."""

    PULL = 0
    POP = 1


class TopicFilterType(IntEnum):
    """Whether messages of a topic carry one tag or several."""

    SINGLE_TAG = 0
    MULTI_TAG = 1
