from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.storage.errors import DiskFullError
from pocketmq.storage.retention import (
    CleaningPlan,
    CleaningReason,
    Disk,
    FullDisk,
    Segment,
    index_files_to_delete,
    parse_delete_when,
    plan_cleaning,
)
from pocketmq.storage.settings import StoreSettings

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

MIDNIGHT_MS = 1_790_640_000_000  # 2026-09-29 00:00:00 UTC
NOON_MS = MIDNIGHT_MS + 12 * HOUR_MS
CLEAN_HOUR_MS = MIDNIGHT_MS + 4 * HOUR_MS

LOG = Path("/store/commitlog")
QUEUES = Path("/store/consumequeue")

# A segment of 100 bytes makes the sums readable.
SETTINGS = StoreSettings(mapped_file_size_commit_log=100)


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        set_timezone(patch, "UTC")
        yield
    time.tzset()


def set_timezone(patch: pytest.MonkeyPatch, name: str) -> None:
    patch.setenv("TZ", name)
    time.tzset()


def disk(percent: int, path: Path = LOG) -> Disk:
    return Disk(path, used_bytes=percent * 1000, free_bytes=(100 - percent) * 1000)


def disk_with_free(free_bytes: int, path: Path = LOG) -> Disk:
    """A disk that is half full, so that only limits in bytes can matter, however little is free."""
    return Disk(path, used_bytes=free_bytes, free_bytes=free_bytes)


UNKNOWN = Disk(LOG, 0, 0)
EMPTY = disk(0)


def segments(count: int, age_ms: int = 0, now_ms: int = NOON_MS) -> list[Segment]:
    return [Segment(100, now_ms - age_ms) for _ in range(count)]


def expired(count: int, now_ms: int = NOON_MS) -> list[Segment]:
    return segments(count, 72 * HOUR_MS, now_ms)


def plan(
    files: Sequence[Segment], *disks: Disk, settings: StoreSettings = SETTINGS, now_ms: int = NOON_MS
) -> CleaningPlan:
    return plan_cleaning(files, disks or (EMPTY,), settings, now_ms)


# The disk.


@pytest.mark.parametrize(
    ("used", "free", "percent"),
    [(0, 0, -1), (0, 1000, 0), (1, 999, 1), (750, 250, 75), (751, 249, 76), (999, 1, 100), (5, 0, 100)],
)
def test_the_used_share_of_a_disk_is_rounded_up(used: int, free: int, percent: int) -> None:
    assert Disk(LOG, used, free).used_percent == percent


# Age.


def test_nothing_is_deleted_when_nothing_presses() -> None:
    assert plan(expired(5)) == CleaningPlan(0, None, ())


@pytest.mark.parametrize(("age_ms", "deleted"), [(72 * HOUR_MS - 1, 0), (72 * HOUR_MS, 3), (-DAY_MS, 0)])
def test_a_segment_expires_when_the_reserved_time_is_over(age_ms: int, deleted: int) -> None:
    files = segments(4, age_ms, CLEAN_HOUR_MS)
    assert plan(files, now_ms=CLEAN_HOUR_MS).delete == deleted


def test_the_first_segment_that_has_not_expired_ends_the_pass() -> None:
    files = [*expired(2), *segments(1), *expired(3)]
    assert plan_cleaning(files, [EMPTY], SETTINGS, NOON_MS, manual=True).delete == 2


@pytest.mark.parametrize("count", [0, 1])
def test_the_last_segment_stays_whatever_presses(count: int) -> None:
    settings = replace(SETTINGS, store_max_bytes=1, store_min_free_bytes=10_000)
    assert plan(expired(count, CLEAN_HOUR_MS), disk(100), settings=settings, now_ms=CLEAN_HOUR_MS).delete == 0


def test_a_pass_deletes_a_batch_at_most() -> None:
    files = expired(50, CLEAN_HOUR_MS)
    assert plan(files, now_ms=CLEAN_HOUR_MS).delete == 10
    assert plan(files, settings=replace(SETTINGS, delete_file_batch_max=3), now_ms=CLEAN_HOUR_MS).delete == 3
    assert plan(segments(50), disk(100)).delete == 10
    assert plan(segments(50), settings=replace(SETTINGS, store_max_bytes=1)).delete == 10
    assert plan(segments(50), settings=replace(SETTINGS, store_min_free_bytes=10**9)).delete == 10


def test_cleaning_by_hand_does_not_wait_for_the_hour_but_spares_what_has_not_expired() -> None:
    by_hand = plan_cleaning([*expired(2), *segments(3)], [EMPTY], SETTINGS, NOON_MS, manual=True)
    assert by_hand == CleaningPlan(2, CleaningReason.MANUAL, ())


# The hours.


@pytest.mark.parametrize(
    ("when", "hour_ms", "cleans"),
    [
        ("04", 4 * HOUR_MS - 1, False),
        ("04", 4 * HOUR_MS, True),
        ("04", 5 * HOUR_MS - 1, True),
        ("04", 5 * HOUR_MS, False),
        ("00;23", 0, True),
        ("00;23", 23 * HOUR_MS, True),
        ("00;23", 12 * HOUR_MS, False),
    ],
)
def test_expired_segments_go_during_the_whole_of_each_clean_hour(when: str, hour_ms: int, cleans: bool) -> None:
    now_ms = MIDNIGHT_MS + hour_ms
    made = plan(expired(3, now_ms), settings=replace(SETTINGS, delete_when=when), now_ms=now_ms)
    assert (made.delete, made.reason) == ((2, CleaningReason.CLEAN_HOUR) if cleans else (0, None))


# POSIX turns the sign round: XXX-8 is eight hours east of Greenwich.
@pytest.mark.parametrize(("timezone", "utc_hour"), [("XXX-8", 20), ("XXX+5", 9), ("XXX-5:30", 23)])
def test_the_clean_hour_is_a_local_one(monkeypatch: pytest.MonkeyPatch, timezone: str, utc_hour: int) -> None:
    set_timezone(monkeypatch, timezone)
    now_ms = MIDNIGHT_MS + utc_hour * HOUR_MS
    assert plan(expired(3, now_ms), now_ms=now_ms).reason is CleaningReason.CLEAN_HOUR
    assert plan(expired(3, now_ms), now_ms=now_ms + HOUR_MS).reason is None


@pytest.mark.parametrize(
    ("text", "hours"),
    [("04", {4}), ("4", {4}), ("0;12;23", {0, 12, 23}), ("04;04", {4}), ("04;16;", {4, 16})],
)
def test_hours_are_read_from_a_list(text: str, hours: set[int]) -> None:
    assert parse_delete_when(text) == hours


@pytest.mark.parametrize("text", ["", ";", "24", "-1", "+4", "004", "4,5", "04;;05", "04; 05", "4.0", "four", "٤"])
def test_what_is_not_a_list_of_hours_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="deleteWhen"):
        parse_delete_when(text)


# The shares of the disk.


@pytest.mark.parametrize(
    ("percent", "deleted", "reason", "full"),
    [
        (75, 0, None, False),
        (76, 2, CleaningReason.DISK_FILLING, False),
        (85, 2, CleaningReason.DISK_FILLING, False),
        (86, 4, CleaningReason.DISK_FORCED, False),
        (90, 4, CleaningReason.DISK_FORCED, False),
        (91, 4, CleaningReason.DISK_FORCED, True),
        (100, 4, CleaningReason.DISK_FORCED, True),
    ],
)
@pytest.mark.parametrize("other", [EMPTY, disk(75)])
@pytest.mark.parametrize("first", [True, False])
def test_a_share_presses_once_it_is_passed_on_either_disk(
    percent: int, deleted: int, reason: CleaningReason | None, full: bool, other: Disk, first: bool
) -> None:
    pressed = disk(percent, QUEUES)
    made = plan([*expired(2), *segments(3)], *((pressed, other) if first else (other, pressed)))
    assert (made.delete, made.reason) == (deleted, reason)
    assert made.full == ((FullDisk(QUEUES, pressed.free_bytes, "diskSpaceWarningLevelRatio"),) if full else ())


def test_a_disk_that_nothing_is_known_of_lets_expired_segments_go_and_writes_go_on() -> None:
    settings = replace(SETTINGS, store_min_free_bytes=1000)
    made = plan([*expired(2), *segments(3)], UNKNOWN, settings=settings)
    assert made == CleaningPlan(2, CleaningReason.DISK_FILLING, ())


def test_without_forced_cleaning_only_expired_segments_go_and_writes_are_refused_all_the_same() -> None:
    # The share from which expired segments go is set above the one that forces: the lower of them counts.
    settings = replace(SETTINGS, clean_file_forcibly_enable=False, disk_max_used_space_ratio=95)
    files = [*expired(2), *segments(3)]
    assert plan(files, disk(85), settings=settings).delete == 0
    assert plan(files, disk(86), settings=settings).delete == 2
    made = plan(files, disk(91), settings=settings)
    assert (made.delete, made.reason) == (2, CleaningReason.DISK_FILLING)
    assert made.full


def test_a_segment_that_expired_does_not_count_as_forced_out() -> None:
    assert plan(expired(3, CLEAN_HOUR_MS), disk(99), now_ms=CLEAN_HOUR_MS).reason is CleaningReason.CLEAN_HOUR
    assert plan(expired(3), disk(99)).reason is CleaningReason.DISK_FILLING


def limit_of(presses: Callable[[Disk], bool]) -> int:
    """The highest share of a disk that does not press yet."""
    return max(percent for percent in range(101) if not presses(disk(percent)))


@pytest.mark.parametrize(("ratio", "limit"), [(-5, 10), (10, 10), (11, 11), (80, 80), (96, 85)])
def test_the_share_for_expired_segments_is_kept_in_its_range(ratio: int, limit: int) -> None:
    settings = replace(SETTINGS, disk_max_used_space_ratio=ratio)
    assert limit_of(lambda filled: plan(expired(2), filled, settings=settings).delete > 0) == limit


@pytest.mark.parametrize(("ratio", "limit"), [(0, 30), (30, 30), (31, 31), (85, 85), (86, 85), (100, 85)])
def test_the_share_that_forces_is_kept_in_its_range(ratio: int, limit: int) -> None:
    settings = replace(SETTINGS, disk_space_clean_forcibly_ratio=ratio)
    assert limit_of(lambda filled: plan(segments(2), filled, settings=settings).delete > 0) == limit


@pytest.mark.parametrize(("ratio", "limit"), [(0, 35), (35, 35), (36, 36), (90, 90), (91, 90), (100, 90)])
def test_the_share_that_refuses_is_kept_in_its_range(ratio: int, limit: int) -> None:
    settings = replace(SETTINGS, disk_space_warning_level_ratio=ratio)
    assert limit_of(lambda filled: plan([], filled, settings=settings).full != ()) == limit


def test_a_share_that_refuses_also_forces_when_it_is_the_lower_one() -> None:
    settings = replace(SETTINGS, disk_space_warning_level_ratio=50, disk_space_clean_forcibly_ratio=80)
    assert plan(segments(3), disk(51), settings=settings).reason is CleaningReason.DISK_FORCED
    assert refusals([50, 51, 50, 51], settings) == [False, True, False, True]


# Refusing and accepting again.


def refusals(percents: Sequence[int], settings: StoreSettings = SETTINGS) -> list[bool]:
    return [bool(full) for full in refusing_disks([[disk(percent)] for percent in percents], settings)]


def refusing_disks(passes: Sequence[Sequence[Disk]], settings: StoreSettings) -> list[tuple[FullDisk, ...]]:
    full: tuple[FullDisk, ...] = ()
    seen = []
    for disks in passes:
        full = plan_cleaning(segments(3), disks, settings, NOON_MS, full).full
        seen.append(full)
    return seen


@pytest.mark.parametrize(
    ("percents", "refused"),
    [
        ([86, 90, 86], [False, False, False]),
        ([91, 90, 86, 85, 86, 90], [True, True, True, False, False, False]),
        ([91, 85, 91], [True, False, True]),
        ([91, 86, 95, 86, 10], [True, True, True, True, False]),
    ],
)
def test_writes_once_refused_stay_refused_until_the_disk_is_well_below(
    percents: list[int], refused: list[bool]
) -> None:
    assert refusals(percents) == refused


def test_a_disk_that_never_was_full_is_not_held_to_the_limit_of_one_that_was() -> None:
    seen = refusing_disks(
        [[disk(91), disk(87, QUEUES)], [disk(86), disk(87, QUEUES)], [disk(85), disk(87, QUEUES)]], SETTINGS
    )
    assert [[full.path for full in full_disks] for full_disks in seen] == [[LOG], [LOG], []]


def test_of_two_full_disks_each_has_to_come_down_by_itself() -> None:
    seen = refusing_disks(
        [[disk(91), disk(92, QUEUES)], [disk(85), disk(88, QUEUES)], [disk(85), disk(85, QUEUES)]], SETTINGS
    )
    assert [[full.path for full in full_disks] for full_disks in seen] == [[LOG, QUEUES], [QUEUES], []]


def test_a_disk_that_nothing_is_known_of_any_more_refuses_no_writes() -> None:
    assert [bool(full) for full in refusing_disks([[disk(91)], [UNKNOWN], [disk(86)]], SETTINGS)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("frees", "refused"),
    [
        ([500, 499, 500, 599, 600, 500, 499], [False, True, True, True, False, False, True]),
        ([1, 600], [True, False]),
    ],
)
def test_writes_are_refused_below_the_least_room_until_there_is_room_for_a_segment_more(
    frees: list[int], refused: list[bool]
) -> None:
    settings = replace(SETTINGS, store_min_free_bytes=500)
    seen = refusing_disks([[disk_with_free(free)] for free in frees], settings)
    assert [bool(full) for full in seen] == refused
    assert {full.setting for full_disks in seen for full in full_disks} == {"storeMinFreeBytes"}


def test_a_least_room_smaller_than_a_segment_has_to_double_before_writes_go_on() -> None:
    settings = replace(SETTINGS, store_min_free_bytes=10)
    seen = refusing_disks([[disk_with_free(free)] for free in (9, 19, 20)], settings)
    assert [bool(full) for full in seen] == [True, True, False]


def test_each_limit_that_refuses_is_named_and_has_its_own_past() -> None:
    settings = replace(
        SETTINGS, store_min_free_bytes=11_000
    )  # 89 percent of the disk, and 100 bytes less for a segment
    seen = refusing_disks([[disk(89)], [disk(90)], [disk(91)], [disk(88)], [disk(85)]], settings)
    assert [[full.setting for full in full_disks] for full_disks in seen] == [
        [],
        ["storeMinFreeBytes"],
        ["diskSpaceWarningLevelRatio", "storeMinFreeBytes"],
        ["diskSpaceWarningLevelRatio"],
        [],
    ]


def test_a_full_disk_makes_an_error_that_says_where_and_what_to_change() -> None:
    error = FullDisk(LOG, 7, "storeMinFreeBytes").error()
    assert isinstance(error, DiskFullError)
    assert (error.path, error.free_bytes, error.setting) == (LOG, 7, "storeMinFreeBytes")


# The limits in bytes.


@pytest.mark.parametrize(
    ("limit", "deleted"), [(0, 0), (-1, 0), (500, 0), (499, 1), (400, 1), (399, 2), (100, 4), (1, 4)]
)
def test_a_commit_log_above_its_limit_loses_its_oldest_segments_whatever_their_age(limit: int, deleted: int) -> None:
    made = plan(segments(5), settings=replace(SETTINGS, store_max_bytes=limit, clean_file_forcibly_enable=False))
    assert (made.delete, made.reason) == (deleted, CleaningReason.ABOVE_MAX_BYTES if deleted else None)


def test_what_counts_is_the_room_that_segments_take_on_disk() -> None:
    sparse = [Segment(10, NOON_MS), Segment(0, NOON_MS), Segment(100, NOON_MS), Segment(30, NOON_MS)]
    assert plan(sparse, settings=replace(SETTINGS, store_max_bytes=130)).delete == 1
    assert plan(sparse, settings=replace(SETTINGS, store_max_bytes=129)).delete == 3


@pytest.mark.parametrize(("free", "deleted"), [(600, 0), (599, 1), (500, 1), (499, 2), (301, 3), (1, 4)])
def test_segments_make_way_before_the_least_room_is_reached(free: int, deleted: int) -> None:
    settings = replace(SETTINGS, store_min_free_bytes=500)
    made = plan(segments(5), disk_with_free(10_000, QUEUES), disk_with_free(free), settings=settings)
    assert (made.delete, made.reason) == (deleted, CleaningReason.BELOW_MIN_FREE if deleted else None)


def test_the_rule_that_asks_for_most_segments_is_followed() -> None:
    settings = replace(SETTINGS, store_max_bytes=450, store_min_free_bytes=500)
    assert plan(segments(5), disk_with_free(599), settings=settings).reason is CleaningReason.ABOVE_MAX_BYTES
    assert plan(segments(5), disk_with_free(499), settings=settings).reason is CleaningReason.BELOW_MIN_FREE
    assert plan([*expired(4), *segments(1)], disk(76), settings=settings).reason is CleaningReason.DISK_FILLING


# The index.


@pytest.mark.parametrize(
    ("ends", "deleted"),
    [
        ([], 0),
        ([10], 0),
        ([10, 20], 1),
        ([100, 200], 0),
        ([99, 100, 200], 1),
        ([10, 20, 30], 2),
        ([10, 150, 20, 300], 1),
    ],
)
def test_index_files_go_once_all_they_know_is_deleted_but_never_the_newest(ends: list[int], deleted: int) -> None:
    assert index_files_to_delete(ends, 100) == deleted


# Whatever happens.

ages = st.integers(-2 * DAY_MS, 10 * DAY_MS)
commit_logs = st.lists(st.builds(Segment, st.integers(0, 100), ages.map(lambda age: NOON_MS - age)), max_size=15)
known_disks = st.builds(Disk, st.sampled_from([LOG, QUEUES]), st.integers(0, 2000), st.integers(1, 2000))
some_disks = st.lists(known_disks | st.just(UNKNOWN), max_size=2)
some_settings = st.builds(
    lambda **changes: replace(SETTINGS, **changes),
    delete_when=st.sampled_from(["04", "12"]),
    disk_max_used_space_ratio=st.integers(0, 100),
    disk_space_clean_forcibly_ratio=st.integers(0, 100),
    disk_space_warning_level_ratio=st.integers(0, 100),
    clean_file_forcibly_enable=st.booleans(),
    delete_file_batch_max=st.integers(1, 12),
    store_max_bytes=st.just(0) | st.integers(1, 1500),
    store_min_free_bytes=st.just(0) | st.integers(1, 2000),
)
FOR_AGE = {CleaningReason.CLEAN_HOUR, CleaningReason.MANUAL, CleaningReason.DISK_FILLING}


@given(commit_logs, some_disks, some_settings, st.booleans())
def test_the_last_segment_and_the_unexpired_stay_unless_forced(
    files: list[Segment], disks: list[Disk], settings: StoreSettings, manual: bool
) -> None:
    made = plan_cleaning(files, disks, settings, NOON_MS, manual=manual)
    assert 0 <= made.delete <= min(settings.delete_file_batch_max, max(len(files) - 1, 0))
    assert (made.reason is None) == (made.delete == 0)
    if made.reason in FOR_AGE:
        assert all(NOON_MS - file.modified_ms >= 72 * HOUR_MS for file in files[: made.delete])


@given(commit_logs, some_disks, st.booleans())
def test_nothing_unexpired_goes_when_nothing_may_be_forced(
    files: list[Segment], disks: list[Disk], manual: bool
) -> None:
    settings = replace(SETTINGS, clean_file_forcibly_enable=False)
    made = plan_cleaning(files, disks, settings, NOON_MS, manual=manual)
    assert all(NOON_MS - file.modified_ms >= 72 * HOUR_MS for file in files[: made.delete])


@given(commit_logs, known_disks, some_settings, st.integers(0, 2000), st.integers(0, 10))
def test_a_fuller_disk_or_a_later_day_never_spares_a_segment_or_a_write(
    files: list[Segment], before: Disk, settings: StoreSettings, more_bytes: int, days: int
) -> None:
    moved = min(more_bytes, before.free_bytes)
    after = Disk(before.path, before.used_bytes + moved, before.free_bytes - moved)
    first = plan_cleaning(files, [before], settings, NOON_MS)
    second = plan_cleaning(files, [after], settings, NOON_MS + days * DAY_MS)
    assert first.delete <= second.delete
    assert {full.setting for full in first.full} <= {full.setting for full in second.full}


@given(st.lists(known_disks, max_size=8), some_settings)
def test_a_disk_that_was_full_is_never_judged_more_mildly(passes: list[Disk], settings: StoreSettings) -> None:
    alone = [plan_cleaning([], [disk], settings, NOON_MS).full for disk in passes]
    in_turn = refusing_disks([[disk] for disk in passes], settings)
    assert all(set(first) <= set(second) for first, second in zip(alone, in_turn, strict=True))


@given(commit_logs, known_disks, some_settings)
def test_passes_repeated_on_one_moment_come_to_an_end_and_leave_the_last_segment(
    files: list[Segment], disk: Disk, settings: StoreSettings
) -> None:
    for _ in range(len(files) + 1):
        made = plan_cleaning(files, [disk], settings, NOON_MS)
        files = files[made.delete :]
        freed = min(100 * made.delete, disk.used_bytes)
        disk = Disk(disk.path, disk.used_bytes - freed, disk.free_bytes + freed)
    assert plan_cleaning(files, [disk], settings, NOON_MS).delete == 0
