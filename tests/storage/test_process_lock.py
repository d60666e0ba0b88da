"""The lock of a store, against other processes and this one, and the mark that tells of a crash."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from pocketmq.storage import disk
from pocketmq.storage.errors import StoreLockedError, StoreUnusableError
from pocketmq.storage.process_lock import StoreLock, mark_running, mark_stopped, was_running

# What a broker of RocketMQ does, without any code of ours: lock the first byte, say so, stay until told to go.
OTHER_BROKER = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)
    except OSError:
        print("refused", flush=True)
    else:
        print("locked", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@contextmanager
def other_broker(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that tries to lock a file, and how it fared."""
    command = [sys.executable, "-ISc", OTHER_BROKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def other_broker_says(path: Path) -> str:
    with other_broker(path) as (_, answer):
        return answer


# The lock.


def test_a_locked_store_keeps_another_process_out_until_it_is_released(path: Path) -> None:
    lock = StoreLock.acquire(path)
    assert other_broker_says(path) == "refused"
    lock.release()
    assert other_broker_says(path) == "locked"


def test_another_process_keeps_us_out_until_it_is_dead(path: Path) -> None:
    with other_broker(path) as (process, answer):
        assert answer == "locked"
        with pytest.raises(StoreLockedError, match=r"lock: another process has the store open; stop that broker or"):
            StoreLock.acquire(path)
        process.kill()
        process.wait()
        StoreLock.acquire(path).release()


def test_the_file_holds_the_word_that_rocketmq_writes(path: Path) -> None:
    path.write_bytes(b"????")
    StoreLock.acquire(path).release()
    assert path.read_bytes() == b"lock"


def test_a_process_locks_a_store_only_once_and_being_refused_loses_nothing(path: Path) -> None:
    lock = StoreLock.acquire(path)
    for _ in range(2):
        with pytest.raises(StoreLockedError, match=r"lock: this process has the store open already; close it there"):
            StoreLock.acquire(path)
    assert other_broker_says(path) == "refused"
    lock.release()
    StoreLock.acquire(path).release()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_another_name_of_the_file_is_the_same_lock(path: Path, link: Any) -> None:
    lock = StoreLock.acquire(path)
    other_name = path.with_name("other")
    link(path, other_name)
    with pytest.raises(StoreLockedError):
        StoreLock.acquire(other_name)
    assert other_broker_says(path) == "refused"
    lock.release()


def test_two_stores_can_be_open_at_once(tmp_path: Path) -> None:
    locks = [StoreLock.acquire(tmp_path / name) for name in ("a", "b")]
    for lock in locks:
        lock.release()


def test_of_many_threads_one_gets_the_lock(path: Path) -> None:
    barrier = Barrier(8)

    def attempt(_: int) -> StoreLock | None:
        barrier.wait()
        try:
            return StoreLock.acquire(path)
        except StoreLockedError:
            return None

    with ThreadPoolExecutor(8) as threads:
        (lock,) = (lock for lock in threads.map(attempt, range(8)) if lock)
    assert other_broker_says(path) == "refused"
    lock.release()


def test_releasing_twice_does_not_release_what_was_locked_since(path: Path) -> None:
    first = StoreLock.acquire(path)
    first.release()
    second = StoreLock.acquire(path)
    first.release()
    assert other_broker_says(path) == "refused"
    second.release()


def test_a_lock_tells_its_state(path: Path) -> None:
    lock = StoreLock.acquire(path)
    assert repr(lock) == f"<StoreLock '{path}' held>"
    lock.release()
    assert repr(lock) == f"<StoreLock '{path}' released>"


def fail_with(number: int) -> Any:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EACCES, errno.EAGAIN])
def test_both_ways_of_saying_that_it_is_locked_are_understood(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "lockf", fail_with(number))
    with pytest.raises(StoreLockedError):
        StoreLock.acquire(path)


def test_a_disk_without_locks_is_not_taken_for_a_locked_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "lockf", fail_with(errno.ENOLCK))
        with pytest.raises(StoreUnusableError, match=r"lock: cannot be locked: No locks available; choose"):
            StoreLock.acquire(path)
    StoreLock.acquire(path).release()


def test_a_lock_that_could_not_be_written_is_not_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", fail_with(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            StoreLock.acquire(path)
    assert other_broker_says(path) == "locked"
    StoreLock.acquire(path).release()


def test_a_missing_folder_is_the_callers_affair(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreLock.acquire(tmp_path / "none" / "lock")


# The mark of a running store.


@pytest.fixture
def abort(tmp_path: Path) -> Path:
    return tmp_path / "abort"


def test_a_store_is_marked_from_start_to_stop(abort: Path) -> None:
    assert not was_running(abort)
    mark_running(abort)
    assert was_running(abort)
    assert abort.read_text() == str(os.getpid())
    mark_stopped(abort)
    assert not was_running(abort)
    assert not list(abort.parent.iterdir())


@pytest.mark.parametrize("left_over", [b"", b"8468", b"\xff\x00"])
def test_whatever_a_mark_says_it_tells_of_a_crash_and_is_kept_as_backup(abort: Path, left_over: bytes) -> None:
    abort.write_bytes(left_over)
    assert was_running(abort)
    mark_running(abort)
    assert abort.read_text() == str(os.getpid())
    assert abort.with_name("abort.bak").read_bytes() == left_over
    mark_stopped(abort)
    assert abort.with_name("abort.bak").read_bytes() == left_over


def test_a_backup_is_no_mark(abort: Path) -> None:
    abort.with_name("abort.bak").write_bytes(b"8468")
    assert not was_running(abort)


def test_removing_a_mark_that_is_not_there_is_fine(abort: Path) -> None:
    mark_stopped(abort)
    assert not was_running(abort)


@pytest.mark.parametrize("failing_call", [1, 2, 3])
def test_a_crash_while_marking_leaves_the_mark_of_an_earlier_crash(
    abort: Path, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    calls = itertools.count(1)

    def sync(_: object) -> None:
        if next(calls) == failing_call:
            fail_with(errno.EIO)()

    abort.write_bytes(b"8468")
    monkeypatch.setattr(disk, "sync_data", sync)
    monkeypatch.setattr(disk, "sync_folder", sync)
    with pytest.raises(OSError, match="Input/output error"):
        mark_running(abort)
    assert was_running(abort)


def test_the_mark_and_its_name_are_on_disk_before_the_call_returns(
    abort: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_data", lambda _: synced.append(f"data, mark there: {was_running(abort)}"))
    monkeypatch.setattr(disk, "sync_folder", lambda _: synced.append(f"folder, mark there: {was_running(abort)}"))
    mark_running(abort)
    mark_stopped(abort)
    assert synced == ["data, mark there: True", "folder, mark there: True", "folder, mark there: False"]
