"""The checkpoint: the bytes of real brokers, what damage leaves of it, and what a crash leaves of a new one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from disks import tiny_writes
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.storage import disk
from pocketmq.storage.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pocketmq.storage.errors import DiskFullError, StoreUnusableError

OLD = Checkpoint(1_000_000, 2_000_000, 3_000_000, 4, 5, 6)
NEW = Checkpoint(1_000_007, 2_000_007, 3_000_007, 7, 8, 9)

# What brokers left behind: the first bytes of the file, and what they mean.
REAL = {
    "4.9.7 stopped": (
        "000001a1ecdf64b0 000001a1ece058be 000001a1ecde0330",
        Checkpoint(0x1A1ECDF64B0, 0x1A1ECE058BE, 0x1A1ECDE0330),
    ),
    "5.5.0 killed": (
        "000001a1ece074e9 000001a1ece04d0a 000001a1ecdeb6a5 0000000000000000 0000000000000000 00000000002ecc02",
        Checkpoint(0x1A1ECE074E9, 0x1A1ECE04D0A, 0x1A1ECDEB6A5, 0, 0, 0x2ECC02),
    ),
    "5.5.0 stopped": (
        "000001a1ece31509 000001a1ece0ea3e 000001a1ecdeb6a5 0000000000000000 00000000002ecebd 00000000002ecebd",
        Checkpoint(0x1A1ECE31509, 0x1A1ECE0EA3E, 0x1A1ECDEB6A5, 0, 0x2ECEBD, 0x2ECEBD),
    ),
}

real = pytest.mark.parametrize(("text", "checkpoint"), REAL.values(), ids=REAL.keys())


class PowerCutError(Exception):
    """The machine went off."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def page(text: str) -> bytes:
    return bytes.fromhex(text).ljust(4096, b"\0")


@real
def test_the_checkpoints_of_real_brokers_are_read(path: Path, text: str, checkpoint: Checkpoint) -> None:
    path.write_bytes(page(text))
    assert read_checkpoint(path) == checkpoint


@real
def test_a_new_file_has_the_bytes_that_a_real_broker_writes(path: Path, text: str, checkpoint: Checkpoint) -> None:
    write_checkpoint(path, checkpoint)
    assert path.read_bytes() == page(text)


@given(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 6))
def test_any_values_survive_the_round_trip(tmp_path_factory: pytest.TempPathFactory, values: tuple[int, ...]) -> None:
    path = tmp_path_factory.getbasetemp() / "checkpoint-of-any-values"
    write_checkpoint(path, Checkpoint(*values))
    assert astuple(read_checkpoint(path)) == values


@pytest.mark.parametrize(
    ("physic", "logics", "expected"),
    [
        (0, 0, 0),
        (5_000, 9_000, 2_000),
        (9_000, 5_000, 2_000),
        (2_999, 9_000, 0),
        (9_000, 0, 0),
        (-1, 9_000, 0),
        (3_001, 3_001, 1),
    ],
)
def test_trust_ends_three_seconds_before_the_earlier_of_log_and_queues(physic: int, logics: int, expected: int) -> None:
    assert Checkpoint(physic, logics, index_msg_timestamp=1).min_timestamp == expected


def test_a_missing_file_knows_nothing(path: Path) -> None:
    assert read_checkpoint(path) == Checkpoint()
    assert not path.exists()


@pytest.mark.parametrize("length", range(48))
def test_a_file_that_is_too_short_knows_nothing(path: Path, length: int) -> None:
    path.write_bytes(b"\x01" * length)
    assert read_checkpoint(path) == Checkpoint()


def test_any_bytes_read_as_something(path: Path) -> None:
    path.write_bytes(os.urandom(4096))
    assert read_checkpoint(path).min_timestamp >= 0
    path.write_bytes(b"\xff" * 4096)
    assert read_checkpoint(path).min_timestamp == 0


@pytest.mark.parametrize("use", [read_checkpoint, lambda path: write_checkpoint(path, NEW)])
def test_what_the_system_does_not_let_us_read_is_not_taken_for_damage(path: Path, use: Callable[[Path], Any]) -> None:
    path.mkdir()
    with pytest.raises((StoreUnusableError, IsADirectoryError), match="checkpoint"):
        use(path)


def test_the_rest_of_the_page_is_kept(path: Path) -> None:
    path.write_bytes(b"\x01" * 4096 + b"and more")
    write_checkpoint(path, NEW)
    assert read_checkpoint(path) == NEW
    assert path.read_bytes()[48:] == b"\x01" * 4048 + b"and more"


@pytest.mark.parametrize("length", [0, 1, 24, 47, 48, 49, 100, 4095])
def test_a_short_file_gets_its_full_length_and_keeps_what_follows_the_fields(path: Path, length: int) -> None:
    path.write_bytes(b"\x01" * length)
    write_checkpoint(path, NEW)
    assert read_checkpoint(path) == NEW
    assert path.read_bytes()[48:] == (b"\x01" * (length - 48)).ljust(4048, b"\0")


class Disk:
    """Writes down what is asked of the disk, and goes off before the step with a given number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps_left: int = 1000) -> None:
        self.steps: list[str] = []
        self._steps_left = steps_left
        for where, name in (os, "pwrite"), (disk, "sync_data"), (disk, "sync_folder"):
            monkeypatch.setattr(where, name, self._watched(name, getattr(where, name)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            if len(self.steps) == self._steps_left:
                raise PowerCutError
            self.steps.append(f"write {len(arguments[1])} at {arguments[2]}" if name == "pwrite" else name)
            return function(*arguments)

        return watched


def test_a_checkpoint_is_written_at_once_and_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(path, OLD)
    watched = Disk(monkeypatch)
    write_checkpoint(path, NEW)
    assert watched.steps == ["write 48 at 0", "sync_data"]


def test_a_new_file_is_on_disk_with_its_name_before_it_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Disk(monkeypatch)
    write_checkpoint(path, NEW)
    assert watched.steps == ["write 4096 at 0", "sync_data", "sync_folder", "write 48 at 0", "sync_data"]


@pytest.mark.parametrize("length", [None, 0, 20, 48, 1000, 4096])
@pytest.mark.parametrize("step", range(6))
def test_a_crash_leaves_the_old_checkpoint_or_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, length: int | None, step: int
) -> None:
    if length is not None:
        write_checkpoint(path, OLD)
        os.truncate(path, length)
    old = read_checkpoint(path)
    with monkeypatch.context() as patch:
        Disk(patch, step)
        try:
            write_checkpoint(path, NEW)
        except PowerCutError:
            assert read_checkpoint(path) in (old, NEW)
        else:
            assert read_checkpoint(path) == NEW
    write_checkpoint(path, NEW)
    assert read_checkpoint(path) == NEW
    assert path.stat().st_size == 4096


def test_a_full_disk_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", no_room)
    with pytest.raises(DiskFullError, match=r"checkpoint.*free some space or change storePathRootDir"):
        write_checkpoint(path, NEW)
    assert read_checkpoint(path) == Checkpoint()


def test_a_checkpoint_is_written_whole_though_the_system_takes_little_at_a_time(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "checkpoint", Checkpoint(1, 2, 3, 4, 5, 6)
    with tiny_writes(7):
        write_checkpoint(path, checkpoint)
    assert read_checkpoint(path) == checkpoint
    assert path.stat().st_size == 4096
