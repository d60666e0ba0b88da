"""Deleting what is old, as `retention.py` decides: here are the facts gathered and the deletions done.

Blocks on the disk; not for the thread that owns the store.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from pocketmq.storage.disk import sync_folder
from pocketmq.storage.retention import Disk, Segment, index_files_to_delete, plan_cleaning
from pocketmq.storage.store import Store

logger = logging.getLogger("pocketmq.storage")


def clean(store: Store, *, manual: bool = False) -> int:
    """Delete the segments that are due, with what leads to them, and let the store know of full disks.

    Returns how many segments went.
    """
    files = store.log.files
    offsets = files.offsets
    segments = [_segment(files.path_of(offset)) for offset in offsets]
    disks = [_disk(path) for path in (store.paths.commit_log, store.paths.consume_queues) if path.is_dir()]
    decision = plan_cleaning(segments, disks, store.settings, store.now_ms(), store.full_disks, manual)
    # Whoever wants room, what readers have not seen yet stays.
    seen = sum(offset + files.file_size <= store.last_published for offset in offsets)
    count = min(decision.delete, seen)
    for offset in offsets[:count]:
        files.delete(offset)
        logger.info("deleted %s: %s", files.path_of(offset), decision.reason and decision.reason.value)
        _pause(store)
    if count:
        sync_folder(store.paths.commit_log)  # first: what came back without its queues nobody would find
        _delete_what_leads_nowhere(store)
        disks = [_disk(disk.path) for disk in disks]
        decision = plan_cleaning(segments[count:], disks, store.settings, store.now_ms(), store.full_disks)
    store.refuse(decision.full)
    return count


def _delete_what_leads_nowhere(store: Store) -> None:
    """Delete the files of queues and index that only lead to segments that are gone."""
    least = store.log.min_offset
    store.queues.delete_files_before(least, lambda: _pause(store))
    store.index.delete_first(index_files_to_delete([file.header.end_physical for file in store.index.files], least))
    store.forget_deleted_topics()


def _segment(path: Path) -> Segment:
    status = path.stat()
    return Segment(status.st_blocks * 512, status.st_mtime_ns // 1_000_000)


def _disk(path: Path) -> Disk:
    usage = os.statvfs(path)
    used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return Disk(path, used, usage.f_bavail * usage.f_frsize)


def _pause(store: Store) -> None:
    time.sleep(store.settings.delete_commit_log_files_interval / 1000)
