"""The settings: RocketMQ's numbers, and the sizes of files that make no sense."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest

from pocketmq.storage.settings import FlushDiskType, StoreSettings

# As the specification has them. The two limits in bytes are ours; so is SYNC_FLUSH as the default.
DEFAULTS = {
    "mapped_file_size_commit_log": 1_073_741_824,
    "mapped_file_size_consume_queue": 6_000_000,
    "max_hash_slot_num": 5_000_000,
    "max_index_num": 20_000_000,
    "message_index_enable": True,
    "max_message_size": 4_194_304,
    "message_delay_level": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flush_disk_type": FlushDiskType.SYNC_FLUSH,
    "flush_interval_commit_log": 500,
    "flush_commit_log_least_pages": 4,
    "flush_commit_log_thorough_interval": 10_000,
    "sync_flush_timeout": 5_000,
    "flush_interval_consume_queue": 1_000,
    "flush_consume_queue_least_pages": 2,
    "flush_consume_queue_thorough_interval": 60_000,
    "file_reserved_time": 72,
    "delete_when": "04",
    "disk_max_used_space_ratio": 75,
    "disk_space_clean_forcibly_ratio": 85,
    "disk_space_warning_level_ratio": 90,
    "clean_file_forcibly_enable": True,
    "clean_resource_interval": 10_000,
    "delete_commit_log_files_interval": 100,
    "delete_file_batch_max": 10,
    "store_max_bytes": 0,
    "store_min_free_bytes": 0,
    "max_transfer_bytes_on_message_in_memory": 262_144,
    "max_transfer_count_on_message_in_memory": 32,
    "max_transfer_bytes_on_message_in_disk": 65_536,
    "max_transfer_count_on_message_in_disk": 8,
    "access_message_in_memory_max_ratio": 40,
    "max_filter_message_size": 16_000,
    "max_msgs_num_batch": 64,
}


def test_the_defaults_are_those_of_the_specification() -> None:
    assert asdict(StoreSettings()) == DEFAULTS


def test_an_index_file_has_the_size_of_the_specification() -> None:
    assert StoreSettings().index_file_size == 420_000_040
    assert StoreSettings(max_hash_slot_num=50, max_index_num=200).index_file_size == 40 + 50 * 4 + 200 * 20


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("mapped_file_size_consume_queue", 0, "mappedFileSizeConsumeQueue has to be a multiple of 20"),
        ("mapped_file_size_consume_queue", -20, "mappedFileSizeConsumeQueue"),
        ("mapped_file_size_consume_queue", 19, "mappedFileSizeConsumeQueue"),
        ("mapped_file_size_consume_queue", 6_000_001, "mappedFileSizeConsumeQueue"),
        ("mapped_file_size_commit_log", 0, "too small"),
        ("mapped_file_size_commit_log", -1, "too small"),
        ("max_hash_slot_num", 0, "too small"),
        ("max_index_num", 1, "too small"),  # number 0 is never used
    ],
)
def test_files_that_could_hold_nothing_are_refused(name: str, value: int, problem: str) -> None:
    change: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=problem):
        StoreSettings(**change)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mapped_file_size_consume_queue", 20),
        ("mapped_file_size_commit_log", 1),
        ("max_hash_slot_num", 1),
        ("max_index_num", 2),
    ],
)
def test_the_smallest_files_are_allowed(name: str, value: int) -> None:
    change: dict[str, Any] = {name: value}
    assert getattr(StoreSettings(**change), name) == value


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        StoreSettings().delete_when = "05"  # type: ignore[misc]


def test_flush_types_have_the_names_of_rocketmq() -> None:
    assert FlushDiskType("ASYNC_FLUSH") is FlushDiskType.ASYNC_FLUSH
    assert [kind.value for kind in FlushDiskType] == ["SYNC_FLUSH", "ASYNC_FLUSH"]
