"""Names, sizes and rows of the store's files: RocketMQ's files are made of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures import FIXTURE_SETTINGS, STORES, expand_store
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.storage.layout import (
    CHECKPOINT_SIZE,
    FILLER,
    FILLER_SIZE,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    StorePaths,
    index_file_size,
    index_name,
    is_index_name,
    pack_queue_entry,
    segment_name,
    segment_offset,
)
from pocketmq.storage.settings import StoreSettings

offsets = st.integers(0, 2**63 - 1)


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[StorePaths, Any]:
    path, expected = expand_store(request.param, tmp_path_factory.mktemp("store"))
    return StorePaths(path), expected


@given(offsets)
def test_a_segment_is_named_by_its_offset(offset: int) -> None:
    assert len(segment_name(offset)) == 20
    assert segment_offset(segment_name(offset)) == offset


@given(st.lists(offsets))
def test_segments_sort_by_name_as_by_offset(offsets: list[int]) -> None:
    assert sorted(map(segment_name, offsets)) == list(map(segment_name, sorted(offsets)))


@pytest.mark.parametrize(
    "name", ["", "0", "0" * 19, "0" * 21, "-" + "0" * 19, "0" * 19 + "a", "0" * 20 + "\n", "٠" * 20, "0" * 20 + ".tmp"]
)
def test_other_names_are_of_no_segment(name: str) -> None:
    assert segment_offset(name) is None


@given(st.integers(0, 4_000_000_000_000))
def test_an_index_file_is_named_by_a_local_time(now_ms: int) -> None:
    name = index_name(now_ms)
    assert is_index_name(name)
    assert name == time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + str(now_ms % 1000).zfill(3)


@pytest.mark.parametrize(("zone", "name"), [("UTC", "20261118041522001"), ("CST-8", "20261118121522001")])
def test_the_zone_of_an_index_name_is_the_local_one(monkeypatch: pytest.MonkeyPatch, zone: str, name: str) -> None:
    try:
        with monkeypatch.context() as patched:
            patched.setenv("TZ", zone)
            time.tzset()
            assert index_name(1_794_975_322_001) == name
    finally:
        time.tzset()


@pytest.mark.parametrize("name", ["", "2026", "0" * 16, "0" * 18, "0" * 16 + "x", "0" * 17 + "\n", "٠" * 17])
def test_other_names_are_of_no_index_file(name: str) -> None:
    assert not is_index_name(name)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_queue_entry_is_the_same_packed_and_as_a_row(physical_offset: int, size: int, tags_code: int) -> None:
    packed = pack_queue_entry(physical_offset, size, tags_code)
    assert packed == np.array([(physical_offset, size, tags_code)], QUEUE_ENTRY).tobytes()
    assert len(packed) == QUEUE_ENTRY_SIZE == QUEUE_ENTRY.itemsize


def test_a_filler_has_the_largest_size_there_is() -> None:
    assert np.frombuffer(FILLER, QUEUE_ENTRY).tolist() == [(0, FILLER_SIZE, 0)]
    assert np.iinfo(np.int32).max == FILLER_SIZE


def test_the_default_sizes_are_those_of_rocketmq() -> None:
    settings = StoreSettings()
    assert settings.mapped_file_size_commit_log == 1_073_741_824
    assert settings.mapped_file_size_consume_queue == 6_000_000
    assert settings.index_file_size == index_file_size(5_000_000, 20_000_000) == 420_000_040


def test_a_store_has_its_parts_where_rocketmq_puts_them(store: tuple[StorePaths, Any]) -> None:
    paths, expected = store
    assert [path.name for path in sorted(paths.commit_log.iterdir())] == [
        each["name"] for each in expected["commitLog"]
    ]
    assert [path.name for path in sorted(paths.index.iterdir())] == [each["name"] for each in expected["index"]]
    queues = {f"{path.parent.name}/{path.name}" for path in paths.consume_queues.glob("*/*")}
    assert queues == set(expected["consumeQueue"])
    assert set(expected["config"]) <= {path.name for path in paths.config.iterdir()}
    assert paths.checkpoint.stat().st_size == CHECKPOINT_SIZE
    assert paths.abort.exists() == (expected["abort"] is not None)
    assert paths.lock.stat().st_size == len(expected["lock"])


def test_the_names_of_segments_follow_from_each_other(store: tuple[StorePaths, Any]) -> None:
    paths, _ = store
    rows = [(paths.commit_log, FIXTURE_SETTINGS.mapped_file_size_commit_log)]
    rows += [(queue, FIXTURE_SETTINGS.mapped_file_size_consume_queue) for queue in paths.consume_queues.glob("*/*")]
    for folder, size in rows:
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == [segment_name(size * n) for n in range(len(files))]
        assert {file.stat().st_size for file in files} == {size}


def test_consume_queues_are_rows_of_entries(store: tuple[StorePaths, Any]) -> None:
    paths, expected = store
    for queue, entries in expected["consumeQueue"].items():
        data = b"".join(file.read_bytes() for file in sorted((paths.consume_queues / queue).iterdir()))
        rows = np.frombuffer(data, QUEUE_ENTRY)
        assert [[number, *rows[number].tolist()] for number, *_ in entries] == entries
        assert not rows[len(entries) :]["size"].any()


def test_index_files_are_header_slots_and_entries(store: tuple[StorePaths, Any]) -> None:
    paths, expected = store
    for each in expected["index"]:
        data = (paths.index / each["name"]).read_bytes()
        assert len(data) == FIXTURE_SETTINGS.index_file_size
        header = ("begin", "end", "beginPhy", "endPhy", "hashSlotCount", "indexCount")
        assert INDEX_HEADER.unpack_from(data) == tuple(each[field] for field in header)
        slots = np.frombuffer(data, INDEX_SLOT, FIXTURE_SETTINGS.max_hash_slot_num, INDEX_HEADER.size)
        assert {str(slot): int(slots[slot]) for slot in np.flatnonzero(slots)} == each["slots"]
        entries = np.frombuffer(data, INDEX_ENTRY, each["indexCount"], INDEX_HEADER.size + slots.nbytes)
        assert [list(entry) for entry in entries.tolist()] == each["entries"]


def test_paths_show_their_root() -> None:
    assert repr(StorePaths(Path("store"))) == "StorePaths('store')"
