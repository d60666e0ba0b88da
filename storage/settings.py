"""The settings of a store: RocketMQ's names, spelled the Python way, and RocketMQ's numbers unless said otherwise.

`mapped_file_size_commit_log` is RocketMQ's `mappedFileSizeCommitLog`, and so on. As there, times are in milliseconds
and sizes in bytes where nothing else is said. Sizes of files are not written into the files: whoever opens a
directory has to know those that it was written with.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pocketmq.storage.layout import QUEUE_ENTRY_SIZE, index_file_size


class FlushDiskType(Enum):
    """When an append counts as done."""

    SYNC_FLUSH = "SYNC_FLUSH"  # once it is on disk: survives a loss of power
    ASYNC_FLUSH = "ASYNC_FLUSH"  # once it is in the page cache: survives the end of the process


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store is laid out, flushed, cleaned and read."""

    # Files.
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * QUEUE_ENTRY_SIZE
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True

    # Messages.
    max_message_size: int = 4 * 1024 * 1024
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

    # Flushing. RocketMQ's default is ASYNC_FLUSH; here nothing acknowledged is lost unless one asks for it.
    flush_disk_type: FlushDiskType = FlushDiskType.SYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    sync_flush_timeout: int = 5_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000

    # Retention. The two limits in bytes are ours, and off when 0.
    file_reserved_time: int = 72  # hours
    delete_when: str = "04"  # local hours, separated by ;
    disk_max_used_space_ratio: int = 75  # percent
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_file_batch_max: int = 10
    store_max_bytes: int = 0
    store_min_free_bytes: int = 0

    # Reading.
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40  # percent of the memory
    max_filter_message_size: int = 16_000
    max_msgs_num_batch: int = 64

    def __post_init__(self) -> None:
        if self.mapped_file_size_consume_queue % QUEUE_ENTRY_SIZE or self.mapped_file_size_consume_queue <= 0:
            raise ValueError(f"mappedFileSizeConsumeQueue has to be a multiple of {QUEUE_ENTRY_SIZE}")
        if self.mapped_file_size_commit_log <= 0 or self.max_hash_slot_num <= 0 or self.max_index_num <= 1:
            raise ValueError("a size of the store's files is too small to hold anything")

    @property
    def index_file_size(self) -> int:
        return index_file_size(self.max_hash_slot_num, self.max_index_num)
