"""The file of the key-value configuration: read when the process starts, written anew with every change.

A change is answered when it is on disk. Changes that come while the file is being written are written together.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from pocketmq.namesrv.key_values import KeyValues
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.remoting.handlers import Answer, Later, Request
from pocketmq.service.errors import ServiceError

logger = logging.getLogger("pocketmq.namesrv")


def load(path: Path | None) -> KeyValues:
    """What the file holds; nothing if there is none. Raises `ServiceError`."""
    if path is None:
        return KeyValues()
    try:
        return KeyValues.from_json(path.read_bytes())
    except FileNotFoundError:
        return KeyValues()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except RemoteProtocolError as error:
        problem = f"is damaged: {error}"
    raise ServiceError(f"{path} {problem}; mend it, move it away, or name another file as kvConfigPath")


class Saver:
    """Writes the file. `run` is its task; without a path there is nothing to do, and changes are answered at once."""

    def __init__(self, path: Path | None, document: Callable[[], bytes]) -> None:
        self._path = path
        self._document = document
        self._waiting: list[Later] = []
        self._wake = trio.Event()

    def answer_when_saved(self, request: Request[Any]) -> Answer:
        """The answer to a request that has changed something."""
        if self._path is None:
            return request.reply()
        self._waiting.append(request.later())
        self._wake.set()
        return self._waiting[-1]

    async def run(self) -> None:
        """Save whatever was changed, until cancelled, but never in the middle."""
        while True:
            await self._wake.wait()
            with trio.CancelScope(shield=True):
                await self.save()

    async def save(self) -> None:
        """Write the file if somebody waits for that, and tell them."""
        self._wake = trio.Event()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        problem = await self._write(self._document())
        for later in waiting:
            request = later.request
            if problem is None:
                later.answer(request.reply())
            else:
                later.answer(request.reply(code=ResponseCode.SYSTEM_ERROR, remark=problem))

    async def _write(self, data: bytes) -> str | None:
        """What went wrong, if anything did."""
        assert self._path is not None
        try:
            await trio.to_thread.run_sync(_replace, self._path, data)
        except OSError as error:
            problem = f"changed until this NameServer ends, but {self._path} could not be written: {error.strerror}"
            logger.error("the key-value configuration is %s", problem)
            return problem
        return None


def _replace(path: Path, data: bytes) -> None:
    """Replace a file for good; a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
