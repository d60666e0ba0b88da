"""Threads in tests: what fails in one of them fails the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

# Long enough for any machine; who reaches it has hung.
PATIENCE = 30.0


def run_together(*functions: Callable[[], None]) -> None:
    """Run each in a thread of its own, wait for all, and raise what the first of them raised."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for outcome in [pool.submit(function) for function in functions]:
            outcome.result(PATIENCE)


def run_meanwhile(function: Callable[[], object], patience: float = 0.05) -> threading.Thread:
    """Let another thread run, to its end or until it has to wait for something that the caller holds."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(patience)
    return thread
