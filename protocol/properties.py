"""Message properties: one text of `name 0x01 value 0x02` pairs, without escapes.

Writers differ in whether the last pair is closed by its 0x02, so readers take both forms and whoever appends
closes the text first. Like Java's reader, ours passes over pairs without a name or a value, and the last of
several equal names counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.errors import LocalProtocolError

# The length of the encoded text travels as a signed 16-bit number.
MAX_PROPERTIES_BYTES = 32767

_NAME_END = "\x01"
_VALUE_END = "\x02"


class Property:
    """The names that RocketMQ gives a meaning."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    UNIQ_KEY = "UNIQ_KEY"

    # Where a retried, delayed or half message came from.
    RETRY_TOPIC = "RETRY_TOPIC"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"

    TRANSACTION_PREPARED = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    TRANSACTION_ID = "__transactionId__"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"

    # The last two travel between client and broker only.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"

    # Added by a consumer after the pull, never stored.
    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    CONSUME_START_TIME = "CONSUME_START_TIME"

    # Added by the broker.
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    CLUSTER = "CLUSTER"

    # Old or internal.
    BUYER_ID = "BUYER_ID"
    TRANSFER_FLAG = "TRANSFER_FLAG"
    CORRECTION_FLAG = "CORRECTION_FLAG"
    MQ2_FLAG = "MQ2_FLAG"
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
    DUP_INFO = "DUP_INFO"

    # Request and reply.
    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    TTL = "TTL"
    ARRIVE_TIME = "ARRIVE_TIME"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    MSG_TYPE = "MSG_TYPE"

    INSTANCE_ID = "INSTANCE_ID"

    # The ordering key, read by clients only; each client spells it its own way.
    SHARDING_KEY = "__SHARDINGKEY"
    SHARDING_KEY_GO = "SHARDING_KEY"
    SHARDING_KEY_NODE = "__SHARDING_KEY"

    # Timer messages. Of the first three, seconds win over milliseconds, and those over the time of delivery.
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
    TIMER_DELETE_UNIQ_KEY = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
    START_DELIVER_TIME = "__STARTDELIVERTIME"

    POP_CK = "POP_CK"
    POP_CK_OFFSET = "POP_CK_OFFSET"
    FIRST_POP_TIME = "1ST_POP_TIME"

    # Inner batches and light queues.
    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"

    # Set by the proxy.
    BORN_HOST = "__BORNHOST"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"
    TRACE_CONTEXT = "TRACE_CONTEXT"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

    CRC32 = "__CRC32#"
    TRANSIENT_PREFIX = "__RMQ.TRANSIENT."


def encode_properties(properties: Mapping[str, str | None]) -> str:
    """The text of the properties in their order. A property that is None is left out."""
    pairs = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    text = "".join(pairs)
    # Counting finds a separator inside any name or value without looking at each.
    if text.count(_NAME_END) != len(pairs) or text.count(_VALUE_END) != len(pairs):
        raise LocalProtocolError("a property name or value contains 0x01 or 0x02")
    if "" in properties:
        raise LocalProtocolError("a property has an empty name")
    return text


def decode_properties(text: str) -> dict[str, str]:
    """The properties that Java's reader finds in a text; there is no text that it refuses."""
    properties = {}
    for pair in text.split(_VALUE_END):
        name, _, value = pair.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def append_property(text: str, name: str, value: str) -> str:
    """The text with one more property, which wins over an earlier one of the same name."""
    if text and not text.endswith(_VALUE_END):
        text += _VALUE_END
    return text + encode_properties({name: value})


def find_property(text: str, name: str) -> str | None:
    """`decode_properties(text).get(name)` without making the dictionary."""
    if not name or _NAME_END in name or _VALUE_END in name:
        return None
    fenced = f"\x02{text}\x02"
    opening = f"\x02{name}\x01"
    found = fenced.rfind(opening)
    while found >= 0:
        start = found + len(opening)
        if value := fenced[start : fenced.index(_VALUE_END, start)]:
            return value
        found = fenced.rfind(opening, 0, found)
    return None
