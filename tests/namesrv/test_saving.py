"""The file of the key-value configuration, on a real file system."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from registering import asking, caller, request
from serving import eventually

from pocketmq.namesrv.key_values import KeyValues
from pocketmq.namesrv.saving import Saver, load
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.remoting.channel import Channel
from pocketmq.service.errors import ServiceError

PUT = asking(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")


class Saving:
    """Key-values, their saver, and a channel on which changes are asked for."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.key_values = KeyValues()
        self.saver = Saver(path, self.key_values.to_json)
        self.channel = caller()
        self.scope = trio.CancelScope()
        self.ended = trio.Event()

    def change(self, key: str, value: str, channel: Channel | None = None) -> None:
        self.key_values.put("n", key, value)
        answer = self.saver.answer_when_saved(request(PUT, channel or self.channel))
        assert not isinstance(answer, Command)

    def answers(self) -> list[Command]:
        """The answers that came since this was last asked."""
        return list(FrameDecoder().feed(self.channel.take_outbox()))

    async def answer(self) -> Command:
        self.channel.sent(self.channel.outgoing)
        await eventually(lambda: self.channel.outgoing > 0)
        (answer,) = self.answers()
        return answer

    def saved(self) -> dict[str, str]:
        return dict(load(self.path).namespace("n") or {})

    async def run(self) -> None:
        with self.scope:
            await self.saver.run()
        self.ended.set()


@asynccontextmanager
async def saving(path: Path | None) -> AsyncIterator[Saving]:
    """A saver at work, for the length of a block."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            made = Saving(path)
            nursery.start_soon(made.run)
            yield made
            made.scope.cancel()


class Gate:
    """Holds up whoever makes a file last, until it is opened."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.is_open = threading.Event()

    def __call__(self, descriptor: int) -> None:
        self.is_reached.set()
        assert self.is_open.wait(30)


@contextmanager
def gated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(os, "fsync", gate)
    try:
        yield gate
    finally:
        gate.is_open.set()


# --- writing


@pytest.mark.trio
async def test_a_change_is_answered_when_it_is_in_the_file(tmp_path: Path) -> None:
    async with saving(tmp_path / "kvConfig.json") as made:
        for value in ("v", "w"):
            made.change("k", value)
            assert made.answers() == []
            assert (await made.answer()).code == 0
            assert made.saved() == {"k": value}
            await trio.testing.wait_all_tasks_blocked()  # for the next change
    assert os.listdir(tmp_path) == ["kvConfig.json"]


@pytest.mark.trio
async def test_folders_are_made_for_the_file(tmp_path: Path) -> None:
    async with saving(tmp_path / "a" / "b" / "kvConfig.json") as made:
        made.change("k", "v")
        assert (await made.answer()).code == 0
        assert made.saved() == {"k": "v"}


@pytest.mark.trio
async def test_changes_that_come_while_the_file_is_written_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[object] = []
    replace: Callable[..., None] = os.replace

    def note(*paths: Any) -> None:
        replaced.append(paths)
        replace(*paths)

    monkeypatch.setattr(os, "replace", note)
    with gated(monkeypatch) as gate:
        async with saving(tmp_path / "kvConfig.json") as made:
            made.change("first", "v")
            await eventually(gate.is_reached.is_set)
            for number in range(100):
                made.change(str(number), "v")
            assert made.answers() == replaced == []
            gate.is_open.set()
            await eventually(lambda: len(replaced) == 2)
            received: list[Command] = []
            while len(received) < 101:
                received += made.answers()
                await trio.lowlevel.checkpoint()
            assert {answer.code for answer in received} == {0}
            assert made.saved().keys() == {"first", *map(str, range(100))}
    assert len(replaced) == 2


@pytest.mark.trio
async def test_without_a_path_a_change_is_answered_at_once() -> None:
    made = Saving(None)
    answer = made.saver.answer_when_saved(request(PUT))
    assert isinstance(answer, Command)
    assert answer.code == 0
    await made.saver.save()


@pytest.mark.trio
async def test_nothing_is_written_that_nobody_waits_for(tmp_path: Path) -> None:
    made = Saving(tmp_path / "kvConfig.json")
    made.key_values.put("n", "k", "v")
    await made.saver.save()
    assert os.listdir(tmp_path) == []


# --- when it cannot be written


@pytest.mark.trio
async def test_the_answer_says_why_a_change_is_not_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kvConfig.json"
    path.mkdir()
    async with saving(path) as made:
        made.change("k", "v")
        answer = await made.answer()
    assert answer.code == 1
    assert answer.remark == f"changed until this NameServer ends, but {path} could not be written: Is a directory"
    (record,) = caplog.records
    assert record.getMessage() == f"the key-value configuration is {answer.remark}"


@pytest.mark.trio
async def test_a_full_disk_leaves_the_old_file_and_is_no_problem_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with saving(tmp_path / "kvConfig.json") as made:
        made.change("k", "v")
        await made.answer()
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", fail)
            made.change("l", "w")
            answer = await made.answer()
        assert answer.code == 1
        assert (answer.remark or "").endswith("could not be written: No space left on device")
        assert made.saved() == {"k": "v"}
        made.change("m", "x")
        assert (await made.answer()).code == 0
        assert made.saved() == {"k": "v", "l": "w", "m": "x"}


@pytest.mark.trio
async def test_a_cancel_waits_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(monkeypatch) as gate:
        async with saving(tmp_path / "kvConfig.json") as made:
            made.change("k", "v")
            await eventually(gate.is_reached.is_set)
            made.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not made.ended.is_set()
            gate.is_open.set()
            await made.ended.wait()
            assert [answer.code for answer in made.answers()] == [0]
    assert made.saved() == {"k": "v"}
    assert os.listdir(tmp_path) == ["kvConfig.json"]


@pytest.mark.trio
async def test_a_cancel_waits_for_a_change_that_just_came(tmp_path: Path) -> None:
    async with saving(tmp_path / "kvConfig.json") as made:
        await trio.testing.wait_all_tasks_blocked()
        made.change("k", "v")
        made.scope.cancel()
        await made.ended.wait()
        assert [answer.code for answer in made.answers()] == [0]
    assert made.saved() == {"k": "v"}


@pytest.mark.trio
async def test_who_has_gone_is_no_reason_not_to_save(tmp_path: Path) -> None:
    async with saving(tmp_path / "kvConfig.json") as made:
        gone = caller()
        made.change("k", "v", gone)
        gone.end("the test wants it so")
        made.change("l", "w")
        assert (await made.answer()).code == 0
        assert made.saved() == {"k": "v", "l": "w"}
        assert gone.take_outbox() == b""


# --- reading


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    for path in (None, tmp_path / "kvConfig.json", tmp_path / "no" / "folder" / "kvConfig.json"):
        assert load(path).to_json() == KeyValues().to_json()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:8"}}}',
        b'{\n\t"configTable":{\n\t\t"ORDER_TOPIC_CONFIG":{\n\t\t\t"T":"broker-a:8"\n\t\t}\n\t}\n}',
    ],
    ids=["compact", "pretty"],
)
def test_rocketmqs_own_file_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(data)
    assert load(path).namespace("ORDER_TOPIC_CONFIG") == {"T": "broker-a:8"}


@pytest.mark.parametrize("data", [b"", b'{"configTable":{"n":{"k"', b'{"configTable":7}', b"\xff" * 20, b"\0" * 4096])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(data)
    with pytest.raises(ServiceError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path} is damaged: ")
    assert text.endswith("; mend it, move it away, or name another file as kvConfigPath")
    assert path.read_bytes() == data


def test_a_path_that_is_no_file_is_named_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path, cause in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "kvConfig.json", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(ServiceError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path} cannot be read: {cause}; ")
