"""The life of a program: it serves until it is told to stop, and its exit code says how it ended."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import trio

from pocketmq.service.errors import ServiceError

logger = logging.getLogger("pocketmq.service")


def run(serve: Callable[[], Awaitable[object]], shutdown: Callable[[], object]) -> int:
    """Serve until that ends, and return the exit code of the program.

    The first SIGTERM or SIGINT calls `shutdown`, which may be as soon as `serve` waits for anything, and lets `serve`
    end; the second one cancels it. The code is 0 if it ended, 128 and the number of the signal if it was cancelled, and
    1 if it failed: the text of a `ServiceError` is logged as it is, anything else with a traceback.
    """
    code = 0
    try:
        code = trio.run(_supervise, serve, shutdown)
    except* ServiceError as group:
        code = 1
        for error in _leaves(group):
            for line in str(error).splitlines():
                logger.error("%s", line)
    except* Exception:
        code = 1
        logger.critical("the program failed", exc_info=True)
    return code


async def _supervise(serve: Callable[[], Awaitable[object]], shutdown: Callable[[], object]) -> int:
    serving = trio.CancelScope()
    received: list[signal.Signals] = []

    async def obey(signals: AsyncIterator[int]) -> None:
        async for number in signals:
            received.append(signal.Signals(number))
            if len(received) == 1:
                logger.info("%s: finishing what has begun; a second signal ends at once", received[0].name)
                shutdown()
            else:
                logger.warning("%s: ending at once", received[-1].name)
                serving.cancel()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals)
            with serving:
                await serve()
            nursery.cancel_scope.cancel()
    return 128 + received[1] if serving.cancelled_caught else 0


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, which nurseries nest."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
