"""Numbers with names, as RocketMQ counts them."""

from __future__ import annotations

import pytest

from pocketmq.protocol.codes import (
    VERSION,
    CommandFlag,
    Encoding,
    Language,
    MessageFlag,
    Permission,
    PullFlag,
    ResponseCode,
    version_ordinal,
)


def test_response_codes_are_those_of_rocketmq() -> None:
    named = {
        **dict(
            enumerate(["SUCCESS", "SYSTEM_ERROR", "SYSTEM_BUSY", "REQUEST_CODE_NOT_SUPPORTED", "TRANSACTION_FAILED"])
        ),
        10: "FLUSH_DISK_TIMEOUT",
        11: "SLAVE_NOT_AVAILABLE",
        12: "FLUSH_SLAVE_TIMEOUT",
        13: "MESSAGE_ILLEGAL",
        14: "SERVICE_NOT_AVAILABLE",
        15: "VERSION_NOT_SUPPORTED",
        16: "NO_PERMISSION",
        17: "TOPIC_NOT_EXIST",
        18: "TOPIC_EXIST_ALREADY",
        19: "PULL_NOT_FOUND",
        20: "PULL_RETRY_IMMEDIATELY",
        21: "PULL_OFFSET_MOVED",
        22: "QUERY_NOT_FOUND",
        23: "SUBSCRIPTION_PARSE_FAILED",
        24: "SUBSCRIPTION_NOT_EXIST",
        25: "SUBSCRIPTION_NOT_LATEST",
        26: "SUBSCRIPTION_GROUP_NOT_EXIST",
        27: "FILTER_DATA_NOT_EXIST",
        28: "FILTER_DATA_NOT_LATEST",
        29: "INVALID_PARAMETER",
        200: "TRANSACTION_SHOULD_COMMIT",
        201: "TRANSACTION_SHOULD_ROLLBACK",
        202: "TRANSACTION_STATE_UNKNOW",
        203: "TRANSACTION_STATE_GROUP_WRONG",
        204: "NO_BUYER_ID",
        205: "NOT_IN_CURRENT_UNIT",
        206: "CONSUMER_NOT_ONLINE",
        207: "CONSUME_MSG_TIMEOUT",
        208: "NO_MESSAGE",
        209: "POLLING_FULL",
        210: "POLLING_TIMEOUT",
        211: "BROKER_NOT_EXIST",
        212: "BROKER_DISPATCH_NOT_COMPLETE",
        213: "BROADCAST_CONSUMPTION",
        215: "FLOW_CONTROL",
        501: "NOT_LEADER_FOR_QUEUE",
        604: "ILLEGAL_OPERATION",
        1500: "GO_AWAY",
        3001: "USER_NOT_EXIST",
        3002: "POLICY_NOT_EXIST",
    }
    assert {int(code): code.name for code in ResponseCode if code >= 0} == named
    assert {int(code) for code in ResponseCode if code < 0} == {-1000, -1002, -1004, -1006}


def test_languages_are_numbered_as_in_rocketmq() -> None:
    names = "JAVA CPP DOTNET PYTHON DELPHI ERLANG RUBY OTHER HTTP GO PHP OMS RUST NODE_JS"
    assert {language.name: int(language) for language in Language} == {
        name: number for number, name in enumerate(names.split())
    }


def test_encodings_and_flags_are_numbered_as_in_rocketmq() -> None:
    assert [int(encoding) for encoding in (Encoding.JSON, Encoding.ROCKETMQ, Encoding.MSGPACK)] == [0, 1, 2]
    assert dict(CommandFlag.__members__) == {"RESPONSE": 1, "ONEWAY": 2}
    assert dict(Permission.__members__) == {"INHERIT": 1, "WRITE": 2, "READ": 4, "PRIORITY": 8}
    assert dict(PullFlag.__members__) == {
        "COMMIT_OFFSET": 1,
        "SUSPEND": 2,
        "SUBSCRIPTION": 4,
        "CLASS_FILTER": 8,
        "LITE_PULL": 16,
    }
    assert dict(MessageFlag.__members__) == {
        "COMPRESSED": 0x0001,
        "MULTI_TAGS": 0x0002,
        "TRANSACTION_PREPARED": 0x0004,
        "TRANSACTION_COMMIT": 0x0008,
        "TRANSACTION_MASK": 0x000C,
        "BORN_HOST_V6": 0x0010,
        "STORE_HOST_V6": 0x0020,
        "NEED_UNWRAP": 0x0040,
        "INNER_BATCH": 0x0080,
        "COMPRESSION_LZ4": 0x0100,
        "COMPRESSION_ZSTD": 0x0200,
        "COMPRESSION_ZLIB": 0x0300,
        "COMPRESSION_MASK": 0x0700,
    }


@pytest.mark.parametrize(
    ("release", "ordinal"),
    [
        ((4, 0, 0), 213),
        ((4, 5, 2), 317),
        ((4, 6, 0), 333),
        ((4, 9, 3), 399),
        ((4, 9, 4), 401),
        ((4, 9, 7), 407),
        ((5, 0, 0), 413),
        ((5, 3, 3), 479),
        ((5, 5, 0), 513),
    ],
)
def test_releases_are_counted_as_by_rocketmq(release: tuple[int, int, int], ordinal: int) -> None:
    assert version_ordinal(*release) == ordinal


def test_pocketmq_presents_itself_as_a_late_4_9() -> None:
    """It unlocks SQL92 (232) and strict JSON (401), and never brings the 5.x register layout (413)."""
    assert VERSION == version_ordinal(4, 9, 7) == 407
