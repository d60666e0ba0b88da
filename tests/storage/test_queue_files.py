"""The files of a consume queue: stretches of bytes in a row of sparse files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from disks import full_disk

from pocketmq.storage import disk, queue_files
from pocketmq.storage.errors import DiskFullError, StoreUnusableError
from pocketmq.storage.layout import segment_name
from pocketmq.storage.queue_files import QueueFiles

SIZE = 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "consumequeue" / "T" / "0"


@pytest.fixture
def files(folder: Path) -> QueueFiles:
    return QueueFiles(folder, SIZE)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files and folders that were brought to disk, in order."""
    names: list[str] = []
    sync_data, sync_folder = disk.sync_data, disk.sync_folder

    def watched_data(descriptor: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync_data(descriptor)

    def watched_folder(path: Path) -> None:
        names.append(path.name)
        sync_folder(path)

    monkeypatch.setattr(queue_files, "sync_data", watched_data)
    monkeypatch.setattr(queue_files, "sync_folder", watched_folder)
    return names


def reloaded(files: QueueFiles) -> QueueFiles:
    again = QueueFiles(files.folder, files.file_size)
    again.load()
    return again


def test_a_queue_without_a_folder_has_no_files(files: QueueFiles) -> None:
    files.load()
    assert files.offsets == []
    assert files.read(0, 40) == bytes(40)
    assert not files.folder.exists()


def test_what_is_written_is_read(files: QueueFiles) -> None:
    files.write(0, b"a" * 100)
    files.write(100, b"b" * 40)
    assert files.read(0, 140) == b"a" * 100 + b"b" * 40
    assert files.read(80, 40) == b"a" * 20 + b"b" * 20
    assert files.read(120, 20) == b"b" * 20


def test_a_new_file_has_its_full_length_and_is_named_by_its_offset(files: QueueFiles) -> None:
    files.write(300, b"x")
    assert [path.name for path in files.folder.iterdir()] == [segment_name(300)]
    assert (files.folder / segment_name(300)).stat().st_size == SIZE
    assert files.offsets == [300]


def test_files_are_found_again_in_order(files: QueueFiles) -> None:
    for position in 0, 100, 200:
        files.write(position, b"x")
    (files.folder / "notes.txt").write_text("not ours")
    assert reloaded(files).offsets == [0, 100, 200]
    assert (files.folder / "notes.txt").exists()


def test_an_empty_last_file_is_what_a_crash_leaves_and_goes(files: QueueFiles) -> None:
    files.write(0, b"x")
    (files.folder / segment_name(100)).touch()
    assert reloaded(files).offsets == [0]
    assert not (files.folder / segment_name(100)).exists()


def test_a_file_of_another_size_is_refused(files: QueueFiles) -> None:
    files.write(0, b"x")
    (files.folder / segment_name(100)).write_bytes(bytes(60))
    with pytest.raises(StoreUnusableError, match="60 bytes, not 100 as mappedFileSizeConsumeQueue says"):
        reloaded(files)


def test_a_missing_file_reads_as_zeros(files: QueueFiles) -> None:
    for position in 0, 100, 200:
        files.write(position, b"x" * 100)
    (files.folder / segment_name(100)).unlink()
    assert files.read(80, 140) == b"x" * 20 + bytes(100) + b"x" * 20


def test_behind_the_last_file_are_zeros(files: QueueFiles) -> None:
    files.write(0, b"x" * 100)
    assert files.read(90, 30) == b"x" * 10 + bytes(20)


def test_data_is_read_up_to_where_the_disk_has_any(folder: Path) -> None:
    files = QueueFiles(folder, 1 << 20)
    files.write(0, b"x" * 30)
    files.write(8192, b"y" * 30)
    data = files.read_data(0)
    assert data.rstrip(b"\0") == (b"x" * 30).ljust(8192, b"\0") + b"y" * 30
    assert len(data) < 1 << 17
    assert files.read_data(0, 8000).rstrip(b"\0") == bytes(192) + b"y" * 30
    assert files.read_data(0, 1 << 19) == b""


# Bringing to disk.


def test_a_first_sync_brings_the_files_and_their_names_to_disk(files: QueueFiles, synced: list[str]) -> None:
    files.write(0, b"x" * 100)
    files.write(100, b"x")
    assert not files.is_synced
    assert files.sync() == {files.folder.parent, files.folder.parent.parent}
    assert sorted(synced[:2]) == [segment_name(0), segment_name(100)]
    assert synced[2:] == ["0"]
    assert files.is_synced


def test_a_later_sync_brings_only_what_has_changed(files: QueueFiles, synced: list[str]) -> None:
    files.write(0, b"x" * 100)
    files.write(100, b"x")
    files.sync()
    synced.clear()
    files.write(101, b"y")
    assert files.sync() == set()
    assert synced == [segment_name(100)]
    assert files.sync() == set()
    assert synced == [segment_name(100)]


def test_pages_that_wait_are_counted(folder: Path) -> None:
    files = QueueFiles(folder, 1 << 20)
    assert files.unsynced_pages == 0
    files.write(0, bytes(4095))
    assert files.unsynced_pages == 0
    files.write(4095, bytes(4097))
    assert files.unsynced_pages == 2
    files.sync()
    assert files.unsynced_pages == 0


def test_a_full_disk_is_named_and_the_same_may_be_written_again(files: QueueFiles) -> None:
    files.write(0, b"x" * 60)
    for name in "open", "ftruncate", "pwrite":
        with (
            full_disk(name),
            pytest.raises(DiskFullError, match=f"{segment_name(100)}: the disk is full.*ConsumeQueue"),
        ):
            files.write(100, b"y" * 60)
    files.write(100, b"y" * 60)
    assert reloaded(files).offsets == files.offsets == [0, 100]
    assert files.read(0, 200) == (b"x" * 60).ljust(100, b"\0") + (b"y" * 60).ljust(100, b"\0")


def test_a_disk_too_full_for_a_folder_is_named_too(files: QueueFiles) -> None:
    with full_disk("mkdir"), pytest.raises(DiskFullError, match="the disk is full"):
        files.write(0, b"x")
    files.write(0, b"x")
    assert files.read(0, 1) == b"x"


def test_a_write_goes_on_where_the_system_stopped(files: QueueFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, place: pwrite(descriptor, data[:7], place))
    files.write(10, bytes(range(50)))
    assert files.read(10, 50) == bytes(range(50))


# Cutting and deleting.


@pytest.mark.parametrize(
    ("position", "left"),
    [(300, [0, 100, 200]), (299, [0, 100, 200]), (220, [0, 100, 200]), (200, [0, 100]), (120, [0, 100]), (0, [])],
)
def test_a_cut_leaves_nothing_behind_it(files: QueueFiles, position: int, left: list[int]) -> None:
    for start in 0, 100, 200:
        files.write(start, b"x" * 100)
    files.cut(position)
    assert files.offsets == left
    assert reloaded(files).offsets == left
    assert files.read(0, 300) == (b"x" * position).ljust(300, b"\0")


def test_a_cut_is_brought_to_disk_by_the_next_sync(files: QueueFiles, synced: list[str]) -> None:
    files.write(0, b"x" * 100)
    files.sync()
    synced.clear()
    files.cut(40)
    assert not files.is_synced
    files.sync()
    assert synced == [segment_name(0)]


def test_a_cut_where_nothing_stands_writes_nothing(files: QueueFiles) -> None:
    files.write(0, b"x" * 40)
    files.sync()
    files.cut(40)
    assert files.is_synced
    QueueFiles(files.folder.with_name("1"), SIZE).cut(0)


def test_the_first_file_can_be_deleted_also_if_it_is_gone_already(files: QueueFiles) -> None:
    for start in 0, 100, 200:
        files.write(start, b"x" * 100)
    files.delete_first()
    (files.folder / segment_name(100)).unlink()
    files.delete_first()
    assert files.offsets == [200]
    files.sync()
    assert [path.name for path in files.folder.iterdir()] == [segment_name(200)]
