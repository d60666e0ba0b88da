"""How programs end: errors in this process, signals in others."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import IO

import pytest
import trio

from pocketmq.service.errors import ServiceError, SettingsError
from pocketmq.service.program import run

# Serves until it is told to stop, but for `stubborn`, which then waits for its input with what it has begun.
PROGRAM = """
import logging, sys, trio
from pocketmq.service.program import run

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
told = trio.Event()

async def serve():
    print("serving", flush=True)
    await told.wait()
    print("told", flush=True)

async def stubborn():
    try:
        await serve()
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            print("cleaning", flush=True)
            await trio.lowlevel.wait_readable(sys.stdin)

sys.exit(run(stubborn if sys.argv[1:] else serve, told.set))
"""


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that serves; it is gone after the block."""
    command = [sys.executable, "-P", "-c", PROGRAM, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert line_of(process.stdout) == "serving"
            yield process
        finally:
            process.kill()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_program_finish(number: signal.Signals) -> None:
    with running() as process:
        process.send_signal(number)
        assert process.communicate(timeout=30) == (
            "told\n",
            f"INFO {number.name}: finishing what has begun; a second signal ends at once\n",
        )
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("first", "second", "code"), [(signal.SIGTERM, signal.SIGINT, 130), (signal.SIGINT, signal.SIGTERM, 143)]
)
def test_a_second_signal_ends_it_at_once_and_a_third_does_not_disturb_the_end(
    first: signal.Signals, second: signal.Signals, code: int
) -> None:
    with running("stubborn") as process:
        process.send_signal(first)
        assert line_of(process.stdout) == "told"
        assert line_of(process.stderr).startswith(f"INFO {first.name}: ")
        process.send_signal(second)
        assert line_of(process.stdout) == "cleaning"
        assert line_of(process.stderr) == f"WARNING {second.name}: ending at once"
        process.send_signal(first)
        assert line_of(process.stderr) == f"WARNING {first.name}: ending at once"
        assert process.communicate("\n", timeout=30) == ("", "")
        assert process.returncode == code


def test_a_hangup_is_nobodys_business() -> None:
    with running() as process:
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == -signal.SIGHUP


def test_the_handlers_are_left_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run(trio.lowlevel.checkpoint, never) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_shutdown_that_fails_ends_the_program(caplog: pytest.LogCaptureFixture) -> None:
    async def serve() -> None:
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep_forever()

    def shutdown() -> None:
        raise ZeroDivisionError

    assert run(serve, shutdown) == 1
    assert caplog.records[-1].getMessage() == "the program failed"


# --- errors


def never() -> None:
    raise AssertionError("nobody asked for it")


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def serve() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return serve


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """What was logged, and whether with a traceback."""
    assert {record.name for record in caplog.records} == {"pocketmq.service"}
    return [(record.getMessage(), record.exc_info is not None) for record in caplog.records]


TOLD = [("the port is taken", False), ("the file is unreadable", False), ("so is the other", False)]


@pytest.mark.parametrize(
    "error",
    [
        SettingsError("the port is taken\nthe file is unreadable\nso is the other"),
        ExceptionGroup(
            "of a nursery",
            [
                ServiceError("the port is taken"),
                ExceptionGroup("of another", [SettingsError("the file is unreadable\nso is the other")]),
            ],
        ),
    ],
)
def test_what_keeps_a_program_from_running_is_told_in_lines(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    assert run(raising(error), never) == 1
    assert lines(caplog) == TOLD
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


@pytest.mark.parametrize("error", [ZeroDivisionError(), ExceptionGroup("of a nursery", [ZeroDivisionError()])])
def test_any_other_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    assert run(raising(error), never) == 1
    assert lines(caplog) == [("the program failed", True)]
    assert "ZeroDivisionError" in caplog.text


def test_of_both_kinds_at_once_both_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert run(raising(ExceptionGroup("", [ZeroDivisionError(), ServiceError("the port is taken")])), never) == 1
    assert lines(caplog) == [("the port is taken", False), ("the program failed", True)]
    assert "ServiceError" not in caplog.text
