"""What to delete and when to refuse: decided from facts, so that it can be tested without a disk or a clock.

Messages are deleted in whole segments of the commit log, the oldest first, and never the last one: there are no
holes, and there is always a segment to write to. Several rules may ask for segments in one pass; the one that asks
for most is followed:

    deleteWhen                   in these hours                        those older than fileReservedTime
    by hand                      at any hour                           those older than fileReservedTime
    diskMaxUsedSpaceRatio        when a disk is fuller than this       those older than fileReservedTime
    diskSpaceCleanForciblyRatio  when a disk is fuller than this       all, a batch in each pass
    storeMaxBytes                when the commit log is larger         as many as are too much
    storeMinFreeBytes            when a disk has hardly more room      as many as are missing

Writes are refused when a disk is fuller than diskSpaceWarningLevelRatio or has less room than storeMinFreeBytes.
Each limit has a second one that is easier to reach: cleaning begins there, and once refused writes stay refused until
the disk is back there. Otherwise every freed page would let a few messages in.

The comparisons are those of RocketMQ's `CleanCommitLogService`; the two limits in bytes are ours.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Final

from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.settings import StoreSettings

_UNKNOWN: Final = -1
_MS_PER_HOUR: Final = 3_600_000
_HOUR: Final = re.compile(r"[0-9]|[01][0-9]|2[0-3]")


class CleaningReason(Enum):
    """Which rule asked for the segments that a pass deletes."""

    CLEAN_HOUR = "expired, and this is an hour of deleteWhen"
    MANUAL = "expired, and cleaning was asked for"
    DISK_FILLING = "expired, and a disk is above diskMaxUsedSpaceRatio"
    DISK_FORCED = "a disk is above diskSpaceCleanForciblyRatio"
    ABOVE_MAX_BYTES = "the commit log is above storeMaxBytes"
    BELOW_MIN_FREE = "a disk is close to storeMinFreeBytes"


@dataclass(frozen=True, slots=True)
class Disk:
    """The partition that a folder lies on. The bytes kept back for root are neither used nor free."""

    path: Path
    used_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> int:
        """Rounded up, so that a limit of whole percents is passed with the first byte; -1 when nothing is known."""
        total = self.used_bytes + self.free_bytes
        return -(-100 * self.used_bytes // total) if total > 0 else _UNKNOWN


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of the commit log: the bytes it takes on disk, and when it was last written to."""

    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A disk that is too full to write to, and the setting, in RocketMQ's spelling, that says so."""

    path: Path
    free_bytes: int
    setting: str

    def error(self) -> DiskFullError:
        return DiskFullError(self.path, self.free_bytes, self.setting)


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """How many of the oldest segments to delete now, and the disks because of which writes are refused."""

    delete: int
    reason: CleaningReason | None  # None when there is nothing to delete
    full: tuple[FullDisk, ...]


def plan_cleaning(
    segments: Sequence[Segment],
    disks: Collection[Disk],
    settings: StoreSettings,
    now_ms: int,
    was_full: Collection[FullDisk] = (),
    manual: bool = False,
) -> CleaningPlan:
    """Decide on one pass of cleaning.

    `segments` are those of the commit log, the oldest first; `disks` those of the commit log and of the consume
    queues. `was_full` is `full` of the plan before this one: what is refused now depends on what was refused then.
    """
    candidates = segments[:-1][: settings.delete_file_batch_max]
    claims = (
        *_claim_expired(candidates, disks, settings, now_ms, manual),
        *_claim_any_age(segments, candidates, disks, settings),
    )
    # Of equal claims the first counts: a segment that goes because of its age was not forced out.
    delete, reason = max(claims, key=lambda claim: claim[0])
    return CleaningPlan(delete, reason if delete else None, _full_disks(disks, settings, was_full))


def index_files_to_delete(end_physical_offsets: Iterable[int], min_physical_offset: int) -> int:
    """How many of the oldest index files know deleted messages only. The newest always stays."""
    older = tuple(end_physical_offsets)[:-1]
    return _count_leading(end < min_physical_offset for end in older)


def parse_delete_when(text: str) -> frozenset[int]:
    """The hours of `deleteWhen`; a `ValueError` if they are none.

    RocketMQ takes 24 and -1 as well, and then never cleans: nobody can want that. A `;` at the end is fine there, too.
    """
    hours = text.removesuffix(";").split(";")
    if not all(_HOUR.fullmatch(hour) for hour in hours):
        raise ValueError(f"deleteWhen has to be hours from 00 to 23 with ; between them, not {text!r}")
    return frozenset(int(hour) for hour in hours)


def _claim_expired(
    candidates: Sequence[Segment], disks: Collection[Disk], settings: StoreSettings, now_ms: int, manual: bool
) -> Iterator[tuple[int, CleaningReason]]:
    newest_ms = now_ms - settings.file_reserved_time * _MS_PER_HOUR
    expired = _count_leading(segment.modified_ms <= newest_ms for segment in candidates)
    if _local_hour(now_ms) in parse_delete_when(settings.delete_when):
        yield expired, CleaningReason.CLEAN_HOUR
    if manual:
        yield expired, CleaningReason.MANUAL
    if any(_is_filling(disk, settings) for disk in disks):
        yield expired, CleaningReason.DISK_FILLING


def _claim_any_age(
    segments: Sequence[Segment], candidates: Sequence[Segment], disks: Collection[Disk], settings: StoreSettings
) -> Iterator[tuple[int, CleaningReason]]:
    forcing = _forcing_percent(settings)
    if settings.clean_file_forcibly_enable and any(disk.used_percent > forcing for disk in disks):
        yield len(candidates), CleaningReason.DISK_FORCED
    # Whoever sets a limit in bytes wants it kept: these do not ask for cleanFileForciblyEnable.
    yield _count_to_free(candidates, _bytes_too_much(segments, settings)), CleaningReason.ABOVE_MAX_BYTES
    yield _count_to_free(candidates, _bytes_missing(disks, settings)), CleaningReason.BELOW_MIN_FREE


def _count_leading(answers: Iterable[bool]) -> int:
    return sum(takewhile(bool, answers))


def _count_to_free(candidates: Sequence[Segment], wanted_bytes: int) -> int:
    freed = 0
    for count, segment in enumerate(candidates):
        if freed >= wanted_bytes:
            return count
        freed += segment.size_bytes
    return len(candidates)


def _bytes_too_much(segments: Sequence[Segment], settings: StoreSettings) -> int:
    if settings.store_max_bytes <= 0:
        return 0
    return sum(segment.size_bytes for segment in segments) - settings.store_max_bytes


def _bytes_missing(disks: Collection[Disk], settings: StoreSettings) -> int:
    """What the disk with the least room lacks.

    It may be that of the consume queues, and segments of the log free nothing there at once. So this is a measure for
    one pass; the next one looks at the disks again.
    """
    enough = _enough_free_bytes(settings)
    return max((enough - disk.free_bytes for disk in disks if disk.used_percent != _UNKNOWN), default=0)


# The limits. As in RocketMQ a value outside of its range counts as the nearest inside. And as there, what a disk
# suffers above a lower limit it also suffers above a higher one, whichever way round they were set.


def _warning_percent(settings: StoreSettings) -> int:
    return _clamp(settings.disk_space_warning_level_ratio, 35, 90)


def _forcing_percent(settings: StoreSettings) -> int:
    return min(_clamp(settings.disk_space_clean_forcibly_ratio, 30, 85), _warning_percent(settings))


def _filling_percent(settings: StoreSettings) -> int:
    return min(_clamp(settings.disk_max_used_space_ratio, 10, 95), _forcing_percent(settings))


def _enough_free_bytes(settings: StoreSettings) -> int:
    """Where cleaning begins and refusing ends: storeMinFreeBytes and room for one more segment.

    Then old segments make way before a write is refused, and after a refusal it is not the next segment that leads to
    another. The room is never more than the limit itself: one of a few MB is meant for a small disk, where a whole
    segment may never be free.
    """
    room = min(settings.mapped_file_size_commit_log, settings.store_min_free_bytes)
    return settings.store_min_free_bytes + room


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _is_filling(disk: Disk, settings: StoreSettings) -> bool:
    # RocketMQ takes a disk that it knows nothing of for one that fills up, though never for a full one.
    return disk.used_percent == _UNKNOWN or disk.used_percent > _filling_percent(settings)


def _is_above_warning(disk: Disk, settings: StoreSettings, was_full: bool) -> bool:
    return disk.used_percent > (_forcing_percent(settings) if was_full else _warning_percent(settings))


def _is_below_min_free(disk: Disk, settings: StoreSettings, was_full: bool) -> bool:
    least = _enough_free_bytes(settings) if was_full else settings.store_min_free_bytes
    return disk.used_percent != _UNKNOWN and disk.free_bytes < least


_REFUSALS: Final[dict[str, Callable[[Disk, StoreSettings, bool], bool]]] = {
    "diskSpaceWarningLevelRatio": _is_above_warning,
    "storeMinFreeBytes": _is_below_min_free,
}


def _full_disks(
    disks: Collection[Disk], settings: StoreSettings, was_full: Collection[FullDisk]
) -> tuple[FullDisk, ...]:
    # Each disk and each limit has its own past: a disk that never was full is not kept to the stricter limit because
    # another one was.
    before = {(full.path, full.setting) for full in was_full}
    return tuple(
        FullDisk(disk.path, disk.free_bytes, setting)
        for disk in disks
        for setting, is_full in _REFUSALS.items()
        if is_full(disk, settings, (disk.path, setting) in before)
    )


def _local_hour(now_ms: int) -> int:
    return time.localtime(now_ms // 1000).tm_hour
