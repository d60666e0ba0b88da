"""Logs: nothing that a peer sends makes a second line or speaks to the terminal, and what lasts is told once."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.service.logs import LogLevel, Once, configure

logger = logging.getLogger("pocketmq.service")


@contextmanager
def configured(level: LogLevel) -> Iterator[io.StringIO]:
    """What is logged from this level on; afterwards logging is what it was."""
    root = logging.getLogger("pocketmq")
    before = root.level, root.handlers[:]
    stream = io.StringIO()
    try:
        configure(level, stream)
        yield stream
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]


def logged(message: str, *arguments: object) -> str:
    """The message as it was written, without its time."""
    with configured(LogLevel.INFO) as stream:
        logger.info(message, *arguments)
    match = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO pocketmq\.service: (.*)\n", stream.getvalue())
    assert match is not None
    return match[1]


# --- lines


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("标签 😀 é", "标签 😀 é"),
        (r"back\slash 'quotes' {braces} 100%", r"back\slash 'quotes' {braces} 100%"),
        ("x\n2026-01-01 00:00:00,000 INFO forged", r"x\n2026-01-01 00:00:00,000 INFO forged"),
        ("a\r\nb", r"a\r\nb"),
        ("a\tb\0", r"a\tb\x00"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),
        ("a\x0b\x0c\x1c\x1d\x1eb", r"a\x0b\x0c\x1c\x1d\x1eb"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("user\u202egnp.exe\u2066", r"user\u202egnp.exe\u2066"),
        ("\udcff\ud83d", r"\udcff\ud83d"),
    ],
)
def test_what_a_terminal_or_a_reader_of_lines_obeys_is_escaped(text: str, written: str) -> None:
    assert logged(text) == logged("%s", text) == written


@given(st.text(st.characters()))
def test_any_text_is_one_line_that_can_be_encoded(text: str) -> None:
    line = logged("topic %s", text)
    assert (line.splitlines(), line.encode().decode()) == ([line], line)


def test_the_name_of_a_logger_is_escaped_too() -> None:
    with configured(LogLevel.INFO) as stream:
        logging.getLogger("pocketmq.a\nb").info("x")
    assert stream.getvalue().endswith(r" INFO pocketmq.a\nb: x" + "\n")


def test_a_traceback_is_indented_and_never_looks_like_another_message() -> None:
    with configured(LogLevel.INFO) as stream:
        try:
            raise ValueError("bad\n2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\u2028\udcff")
        except ValueError:
            logger.exception("failed", stack_info=True)
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith(" ERROR pocketmq.service: failed")
    assert r"    2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\u2028\udcff" in rest
    assert "    Stack (most recent call last):" in rest
    assert {line[:4] for line in rest} == {"    "}


# --- levels and streams


@pytest.mark.parametrize(
    ("level", "written"),
    [
        (LogLevel.DEBUG, ["d", "i", "w", "e", "c"]),
        (LogLevel.INFO, ["i", "w", "e", "c"]),
        (LogLevel.WARNING, ["w", "e", "c"]),
        (LogLevel.ERROR, ["e", "c"]),
        (LogLevel.CRITICAL, ["c"]),
    ],
)
def test_what_is_below_the_level_is_not_written(level: LogLevel, written: list[str]) -> None:
    with configured(level) as stream:
        for method, message in (
            (logger.debug, "d"),
            (logger.info, "i"),
            (logger.warning, "w"),
            (logger.error, "e"),
            (logger.critical, "c"),
        ):
            method(message)
    assert [line[-1] for line in stream.getvalue().splitlines()] == written


def test_to_configure_again_replaces_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    with configured(LogLevel.ERROR) as stream:
        configure(LogLevel.INFO)
        logger.info("to stderr")
    assert stream.getvalue() == ""
    assert capsys.readouterr().err.endswith(" INFO pocketmq.service: to stderr\n")


# --- once


def test_only_the_first_time_is_the_first() -> None:
    once = Once()
    assert [once.first(key) for key in ("a", "b", "a", ("a", 1), "b", ("a", 1))] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]


def test_what_is_over_is_new_when_it_returns() -> None:
    once = Once()
    once.forget("never seen")
    assert once.first("a")
    once.forget("a")
    assert once.first("a")
    assert not once.first("a")


def test_of_too_many_keys_the_oldest_are_forgotten() -> None:
    once = Once(limit=3)
    assert all(once.first(key) for key in range(4))
    assert repr(once) == "<Once 3 of 3 keys>"
    assert not any(once.first(key) for key in (1, 2, 3))
    assert once.first(0)
    assert once.first(1)


def test_what_is_remembered_stays_small() -> None:
    once = Once(limit=10)
    for key in range(1000):
        once.first(key)
    assert repr(once) == "<Once 10 of 10 keys>"
    assert repr(Once()) == "<Once 0 of 1000 keys>"
