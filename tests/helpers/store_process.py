"""A store in a process of its own, which may die without taking the tests along.

It does one thing at a time, as it is told: an object of the class `Server` over there, called by pickles over pipes.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from appender import Ack, append_some
from killing import Ledger

from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.workers import Workers

_HERE = Path(__file__).parent

# Of messages, in bytes: a disk is to be full soon.
SIZES = (0, 100, 3_000, 30_000)


class Refusal(NamedTuple):
    """A `DiskFullError`: what it says, and what it says it with."""

    text: str
    path: Path
    free_bytes: int
    setting: str


class Server:
    """The store, what it has acknowledged so far, and what it can be told to do. In the other process."""

    def __init__(self, root: Path, settings: StoreSettings, seed: int) -> None:
        self._store = Store(root, settings)
        self._failures: list[str] = []
        self._workers = Workers(self._store, on_failure=lambda error: self._failures.append(repr(error)))
        self._workers.__enter__()
        self._chance = Random(seed)
        self._numbers = iter(range(seed << 32, (seed + 1) << 32))

    def append(self, bursts: int, sizes: Sequence[int] = SIZES) -> tuple[list[Ack], Refusal | None]:
        """Append bursts of messages of these sizes until one is refused: what was acknowledged, and the refusal."""
        acks: list[Ack] = []
        refusal = None
        for _ in range(bursts):
            burst: list[Ack] = []
            try:
                for _ in range(4):
                    burst += append_some(self._store, self._chance, self._numbers, sizes)
            except DiskFullError as error:
                refusal = Refusal(str(error), error.path, error.free_bytes, error.setting)
            self._store.publish()
            assert self._store.wait_durable(self._store.log.end, timeout=60), "the disk takes too long"
            self._store.publish()
            acks += burst
            if refusal is not None:
                break
        assert self._failures == []
        return acks, refusal

    def append_until_accepted(self, seconds: float) -> list[Ack]:
        """What happens by itself takes a moment."""
        deadline = time.monotonic() + seconds
        while True:
            acks, refusal = self.append(1)
            if refusal is None or time.monotonic() > deadline:
                return acks if refusal is None else []
            time.sleep(0.01)

    def lost(self, acks: list[Ack], by_key: bool) -> list[Ack]:
        """Which of these messages cannot be read; they must be found by their keys, too, if one wants to know."""
        ledger = Ledger(by_key=by_key)
        ledger.note(acks)
        return ledger.audit(self._store)

    def close(self) -> None:
        self._workers.__exit__()
        self._store.close()
        assert self._failures == []


class StoreProcess:
    """The process, from `with` to its end: it must end by itself, and well, unless it is killed."""

    def __init__(self, root: Path, settings: StoreSettings, seed: int) -> None:
        path = os.pathsep.join([str(_HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import store_process; store_process.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._start = root, settings, seed

    def __enter__(self) -> Self:
        try:
            self._ask(self._start)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        with self._process:  # waits for its end
            pass

    def append(self, bursts: int, sizes: Sequence[int] = SIZES) -> tuple[list[Ack], Refusal | None]:
        answer: tuple[list[Ack], Refusal | None] = self._ask(("append", bursts, sizes))
        return answer

    def append_until_accepted(self, seconds: float) -> list[Ack]:
        acks: list[Ack] = self._ask(("append_until_accepted", seconds))
        return acks

    def lost(self, acks: list[Ack], *, by_key: bool) -> list[Ack]:
        lost: list[Ack] = self._ask(("lost", acks, by_key))
        return lost

    def close(self) -> None:
        self._ask(("close",))
        assert self._process.wait(timeout=60) == 0

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise AssertionError(f"the process has ended with {self._process.wait()}") from None


def serve() -> None:
    """What the other process does."""
    server = Server(*pickle.load(sys.stdin.buffer))
    name, answer = "", None
    while True:
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.flush()
        if name == "close":
            return
        name, *arguments = pickle.load(sys.stdin.buffer)
        answer = getattr(server, name)(*arguments)
