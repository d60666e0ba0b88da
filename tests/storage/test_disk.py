"""Bringing bytes and names to disk, and what a full disk is called."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from disks import full_disk, watched_syncs

from pocketmq.storage.disk import free_bytes, full_disk_named, make_folder, sync_data, sync_folder
from pocketmq.storage.errors import DiskFullError


def test_the_data_of_a_file_is_synced_through_its_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with watched_syncs() as syncs, path.open("wb") as file:
        sync_data(file.fileno())
    assert (syncs.data_of(path), len(syncs)) == (1, 1)


def test_the_names_in_a_folder_are_synced_through_the_folder(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        sync_folder(tmp_path)
    assert (syncs.names_in(tmp_path), len(syncs)) == (1, 1)


def next_descriptor() -> int:
    """The number that the system would give to a file: the lowest that is free."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_a_failed_sync_is_told_and_leaves_no_descriptor_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fail)
    before = next_descriptor()
    with pytest.raises(OSError, match="the disk is broken"):
        sync_folder(tmp_path)
    assert next_descriptor() == before


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_is_no_folder_cannot_be_synced_as_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        sync_folder(tmp_path / name)


# Folders.


def test_a_folder_is_made_with_those_above_it_and_each_name_is_synced(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        make_folder(tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c").is_dir()
    assert [syncs.names_in(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a/b")] == [1, 1, 1]
    assert len(syncs) == 3


def test_a_folder_that_is_there_costs_nothing(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        make_folder(tmp_path)
    assert len(syncs) == 0


def test_a_folder_that_another_thread_makes_meanwhile_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_answers = [False]
    monkeypatch.setattr(Path, "is_dir", lambda path: old_answers.pop() if old_answers else os.path.isdir(path))
    (tmp_path / "a").mkdir()
    with watched_syncs() as syncs:
        make_folder(tmp_path / "a")
    assert syncs.names_in(tmp_path) == 1


def test_a_file_in_the_way_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises((FileExistsError, NotADirectoryError)):
        make_folder(tmp_path / "a/b")


def test_a_folder_that_a_full_disk_has_no_room_for_is_told_as_such(tmp_path: Path) -> None:
    with full_disk("mkdir"), pytest.raises(DiskFullError, match="storePathRootDir") as raised:
        make_folder(tmp_path / "a/b")
    assert raised.value.path == tmp_path / "a"


# Room.


def usage(available: int, fragment: int) -> os.statvfs_result:
    """What the system says of a disk; root may write more than others, and in larger blocks than it counts in."""
    return os.statvfs_result((8192, fragment, 1000, available + 50, available, 0, 0, 0, 0, 255))


@pytest.mark.parametrize(("available", "fragment", "expected"), [(0, 4096, 0), (10, 4096, 40960), (7, 512, 3584)])
def test_free_is_what_an_ordinary_user_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: int, fragment: int, expected: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: usage(available, fragment))
    assert free_bytes(tmp_path) == expected


def test_free_where_nothing_is_yet_is_what_is_free_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", {tmp_path: usage(3, 1)}.__getitem__)
    assert free_bytes(tmp_path / "not/there") == 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", ["file", "not/there/file"])
def test_no_space_left_is_told_with_path_free_bytes_and_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: usage(5, 1))
    problem = OSError(number, os.strerror(number))
    with (
        pytest.raises(
            DiskFullError, match=r"file: the disk is full, 5 bytes are free; .* change someSetting"
        ) as raised,
        full_disk_named(tmp_path / name, "someSetting"),
    ):
        raise problem
    error = raised.value
    assert (error.path, error.free_bytes, error.setting) == (tmp_path / name, 5, "someSetting")
    assert error.__cause__ is problem


@pytest.mark.parametrize(
    "problem", [OSError(errno.EIO, "broken"), PermissionError(errno.EACCES, "no"), ValueError("other")]
)
def test_other_problems_stay_what_they_are(tmp_path: Path, problem: Exception) -> None:
    with pytest.raises(type(problem)) as raised, full_disk_named(tmp_path / "file", "someSetting"):
        raise problem
    assert raised.value is problem


def test_without_a_problem_nothing_is_told(tmp_path: Path) -> None:
    with full_disk_named(tmp_path / "not/there/file", "someSetting"):
        pass
