"""A disk fills up under a store: it refuses, reads on, and goes on by itself when there is room again.

The store lives in another process. Written in the wrong order, a full disk kills it (SIGBUS), and that would be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from appender import Ack
from killing import Ledger
from mounting import Ext4, Filler, tmpfs, why_not
from store_process import Refusal, StoreProcess

from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

MIB = 1 << 20
SIZE = 32 * MIB
ENOUGH = 100_000  # bursts: more than fit
PATIENCE = 30.0  # seconds

# Many files that are soon full, or few that never are; nothing is deleted to make room.
SMALL_FILES = StoreSettings(
    mapped_file_size_commit_log=MIB,
    mapped_file_size_consume_queue=20 * 100,
    max_hash_slot_num=200,
    max_index_num=2_000,
    flush_interval_consume_queue=10,
    flush_consume_queue_thorough_interval=50,
    clean_resource_interval=3_600_000,
)
LARGE_FILES = replace(
    SMALL_FILES,
    mapped_file_size_commit_log=32 * MIB,
    mapped_file_size_consume_queue=20 * 300_000,
    max_hash_slot_num=100_000,
    max_index_num=1_000_000,
)
SETTING_NAMES = (
    "diskSpaceWarningLevelRatio",
    "mappedFileSizeCommitLog",
    "maxHashSlotNum and maxIndexNum",
    "storePathRootDir",
)
SETTINGS = pytest.mark.parametrize("settings", [SMALL_FILES, LARGE_FILES], ids=["small files", "large files"])


@contextmanager
def ext4(folder: Path, block_size: int) -> Iterator[Path]:
    with Ext4(folder / "image", SIZE, block_size).mounted(folder / "disk") as place:
        yield place


@contextmanager
def memory(folder: Path) -> Iterator[Path]:
    with tmpfs(folder / "disk", SIZE) as place:
        yield place


Disk = Callable[[Path], AbstractContextManager[Path]]
DISKS: dict[str, Disk] = {
    "tmpfs": memory,
    "ext4 of 1 KiB": lambda folder: ext4(folder, 1024),
    "ext4 of 4 KiB": lambda folder: ext4(folder, 4096),
}


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with DISKS[request.param](tmp_path) as place:
        yield place


def read_along(root: Path) -> None:
    """As a backup does; afterwards the system keeps large pieces of the files in memory, holes included."""
    for path in root.rglob("*"):
        if path.is_file():
            path.read_bytes()


def check_refusal(refusal: Refusal | None, root: Path) -> None:
    """It names the place, what is left, and what to change."""
    assert refusal is not None
    assert refusal.path.is_relative_to(root)
    assert refusal.free_bytes < 8 * MIB
    assert refusal.setting in SETTING_NAMES
    assert all(str(part) in refusal.text for part in refusal[1:])


def check_at_last(root: Path, settings: StoreSettings, acks: list[Ack]) -> None:
    ledger = Ledger()
    ledger.note(acks)
    with Store(root, settings) as store:
        assert ledger.audit(store) == []
    assert verify(root, settings) == []


@SETTINGS
def test_a_full_disk_is_refused_and_read_from_and_written_to_again_when_there_is_room(
    disk: Path, settings: StoreSettings
) -> None:
    root, filler = disk / "store", Filler(disk)
    with StoreProcess(root, settings, seed=1) as process:
        acks, refusal = process.append(5)
        assert refusal is None
        for left in (3 * MIB + 1024, 5 * 1024, 0):
            filler.fill(leave=left)
            read_along(root)
            more, refusal = process.append(ENOUGH)
            check_refusal(refusal, root)
            acks += more
            # What the store has prepared for itself is all that it has now.
            filler.fill()
            read_along(root)
            more, refusal = process.append(ENOUGH)
            check_refusal(refusal, root)
            acks += more
            assert process.lost(acks, by_key=False) == []
            filler.empty()
            more = process.append_until_accepted(PATIENCE)
            assert more
            acks += more
            more, refusal = process.append(3)
            assert refusal is None
            acks += more
            assert process.lost(acks, by_key=True) == []
        process.close()
    check_at_last(root, settings, acks)


@SETTINGS
def test_a_store_on_a_full_disk_can_be_opened_and_read(disk: Path, settings: StoreSettings) -> None:
    root, filler = disk / "store", Filler(disk)
    with StoreProcess(root, settings, seed=1) as process:
        acks, _ = process.append(5)
        filler.fill()
        more, refusal = process.append(ENOUGH)
        check_refusal(refusal, root)
        acks += more
        process.kill()
    filler.fill()
    read_along(root)
    with StoreProcess(root, settings, seed=2) as process:
        assert process.lost(acks, by_key=False) == []
        more, refusal = process.append(ENOUGH)
        check_refusal(refusal, root)
        acks += more
        filler.fill()
        assert process.lost(acks, by_key=False) == []
        filler.empty()
        more = process.append_until_accepted(PATIENCE)
        assert more
        acks += more
        assert process.lost(acks, by_key=True) == []
        process.close()
    check_at_last(root, settings, acks)


def test_a_store_is_closed_on_a_full_disk_and_nothing_is_lost(disk: Path) -> None:
    root, filler = disk / "store", Filler(disk)
    with StoreProcess(root, SMALL_FILES, seed=1) as process:
        acks, _ = process.append(5)
        filler.fill()
        more, refusal = process.append(ENOUGH)
        check_refusal(refusal, root)
        acks += more
        process.close()
    with StoreProcess(root, SMALL_FILES, seed=2) as process:
        assert process.lost(acks, by_key=False) == []
        filler.empty()
        more = process.append_until_accepted(PATIENCE)
        assert more
        process.close()
    check_at_last(root, SMALL_FILES, acks + more)


@pytest.mark.parametrize("killed", [False, True], ids=["running", "killed"])
def test_queues_and_index_that_find_no_room_are_completed_when_there_is_some(disk: Path, killed: bool) -> None:
    # The log has prepared room for many small messages, and index files are soon full.
    settings = replace(SMALL_FILES, mapped_file_size_commit_log=16 * MIB)
    root, filler = disk / "store", Filler(disk)
    with ExitStack() as stack:
        process = stack.enter_context(StoreProcess(root, settings, seed=1))
        acks, _ = process.append(5)
        assert process.lost(acks, by_key=True) == []  # now there is an index
        filler.fill()
        more, refusal = process.append(ENOUGH, sizes=[10])
        check_refusal(refusal, root)
        assert refusal is not None
        assert refusal.setting == "maxHashSlotNum and maxIndexNum"
        acks += more
        if killed:
            process.kill()
            filler.fill()
            process = stack.enter_context(StoreProcess(root, settings, seed=2))
        assert process.lost(acks, by_key=False) == []
        more, _ = process.append(1)
        assert killed or not more  # a start may have given back a little room
        acks += more
        filler.empty()
        more = process.append_until_accepted(PATIENCE)
        assert more
        acks += more
        assert process.lost(acks, by_key=True) == []
        process.close()
    check_at_last(root, settings, acks)


def test_a_disk_above_the_limit_is_refused_before_it_is_full(tmp_path: Path) -> None:
    settings = replace(SMALL_FILES, clean_resource_interval=20, clean_file_forcibly_enable=False)
    with memory(tmp_path) as disk, StoreProcess(disk / "store", settings, seed=1) as process:
        filler = Filler(disk)
        acks, refusal = process.append(5)
        assert refusal is None
        for _ in range(3):
            filler.fill(leave=SIZE // 10)
            more, refusal = process.append(ENOUGH)
            check_refusal(refusal, disk / "store")
            assert refusal is not None
            assert refusal.setting == "diskSpaceWarningLevelRatio"
            assert refusal.free_bytes > 0
            acks += more
            assert process.lost(acks, by_key=True) == []
            filler.empty()
            more = process.append_until_accepted(PATIENCE)
            assert more
            acks += more
        process.close()
        check_at_last(disk / "store", settings, acks)
