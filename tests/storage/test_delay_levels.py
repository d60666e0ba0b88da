"""Delay levels: the setting, and when a message is due."""

from __future__ import annotations

import pytest

from pocketmq.storage.delay_levels import Delays, deliver_timestamp, parse_delay_levels
from pocketmq.storage.settings import StoreSettings

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def test_the_default_is_that_of_rocketmq() -> None:
    minutes = tuple(number * MINUTE for number in (*range(1, 11), 20, 30))
    expected = (SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, *minutes, HOUR, 2 * HOUR)
    assert parse_delay_levels(StoreSettings().message_delay_level) == expected
    assert len(expected) == 18


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("1s", (SECOND,)),
        ("1s 2m 3h 4d", (SECOND, 2 * MINUTE, 3 * HOUR, 4 * DAY)),
        ("10d 1s", (10 * DAY, SECOND)),
        ("0s 007m", (0, 7 * MINUTE)),
        ("+5s -1m", (5 * SECOND, -MINUTE)),
        ("1s  ", (SECOND,)),  # Java's split drops empty parts at the end
        ("999999999999999s", (999_999_999_999_999 * SECOND,)),
    ],
)
def test_each_part_is_a_number_and_a_unit(text: str, delays: Delays) -> None:
    assert parse_delay_levels(text) == delays


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " 1s",
        "1s  2s",
        "1s,2s",
        "1",
        "s",
        "1S",
        "1ms",
        "1 s",
        "1.5s",
        "1_0s",
        "0x1s",
        "1s\t2s",
        "1s\n",
        "٣s",
        "999999999999999d",
    ],
)
def test_what_is_no_list_of_delays_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="messageDelayLevel"):
        parse_delay_levels(text)


@pytest.mark.parametrize(
    ("level", "expected"),
    [(1, 1_100), (2, 5_100), (3, 10_100), (4, 10_100), (1_000_000, 10_100), (0, 1_100), (-1, 1_100)],
)
def test_a_message_is_due_after_its_level_and_one_above_the_last_counts_as_the_last(level: int, expected: int) -> None:
    assert deliver_timestamp((1_000, 5_000, 10_000), level, 100) == expected


def test_an_unknown_level_waits_a_second_whatever_the_first_level_is() -> None:
    assert deliver_timestamp((60_000,), 0, 100) == 1_100
