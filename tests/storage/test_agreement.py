"""Entries and their records: the quick look accepts nothing that the thorough one would not."""

from __future__ import annotations

import struct
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from storing import message

from pocketmq.protocol.message import MessageRecord, encode_record_at
from pocketmq.storage.agreement import all_agree, which_agree
from pocketmq.storage.layout import QUEUE_ENTRY

START = 1 << 30  # where the segment begins in the log
FIRST = 2**33 + 7  # the number of the first entry
QUEUE = 3


class Segment:
    """Records back to back to the very end of the data, and the entries that lead to them."""

    def __init__(self, records: list[MessageRecord]) -> None:
        numbers = range(FIRST, FIRST + len(records))
        sizes = [len(encode_record_at(record, 0, 0, 0)) for record in records]
        starts = list(accumulate(sizes, initial=0))[:-1]
        self.data = bytearray().join(
            encode_record_at(record, number, START + start, 1)
            for record, number, start in zip(records, numbers, starts, strict=True)
        )
        entries = zip(starts, sizes, strict=True)
        self.entries = bytearray().join(struct.pack(">qiq", START + start, size, 5) for start, size in entries)
        self.numbers = np.array(numbers)

    def look(self, topic: bytes = b"T", queue: int = QUEUE) -> tuple[bool, list[bool]]:
        """What the quick look and the thorough one say."""
        data = np.frombuffer(self.data, np.uint8)
        entries = np.frombuffer(self.entries, QUEUE_ENTRY)
        offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
        inside = (offsets >= START) & (offsets < START + len(data))
        if not inside.all():
            return False, inside.tolist()
        places = offsets - START
        return (
            all_agree(data, places, entries, sizes, self.numbers, topic, queue),
            which_agree(data, places, offsets, sizes, self.numbers, topic, queue).tolist(),
        )


def segment(*sizes: int, topic: str = "T") -> Segment:
    return Segment([message(b"x" * size, topic, QUEUE, tag="A") for size in sizes])


@pytest.mark.parametrize("sizes", [[0], [10], [5000], [10] * 300, [0, 1, 2, 300, 70_000]])
def test_good_records_agree(sizes: list[int]) -> None:
    assert segment(*sizes).look() == (True, [True] * len(sizes))


@pytest.mark.parametrize("topic", ["x" * 127, "%RETRY%" + "x" * 121, "%RETRY%" + "x" * 200])
def test_only_records_of_version_1_are_agreed_on_quickly(topic: str) -> None:
    assert segment(10, 20, topic=topic).look(topic.encode()) == (len(topic) <= 127, [True, True])


def test_records_with_ipv6_hosts_take_the_longer_look() -> None:
    usual, host = message(queue_id=QUEUE), ("fd00::1", 9)
    for other in usual._replace(born_host=host), usual._replace(store_host=host):
        assert Segment([usual, other]).look() == (False, [True, True])


@pytest.mark.parametrize(
    ("topic", "queue"), [(b"U", QUEUE), (b"T2", QUEUE), (b"", QUEUE), (b"T", 4), (b"T", QUEUE | 1 << 24)]
)
def test_records_of_another_queue_do_not_agree(topic: bytes, queue: int) -> None:
    assert segment(10, 20, 30).look(topic, queue) == (False, [False] * 3)


def test_a_record_with_another_number_does_not_agree() -> None:
    for change in (1, 2**32, -1):
        some = segment(10, 20, 30)
        some.numbers[1] += change
        assert some.look() == (False, [True, False, True])


def test_a_record_that_does_not_end_with_the_data_does_not_agree() -> None:
    some = segment(10, 20, 30)
    some.data.pop()
    assert some.look() == (False, [True, True, False])


@given(
    sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4),
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=3),
    of_entries=st.booleans(),
)
def test_whatever_is_damaged_the_quick_look_agrees_to_nothing_that_the_thorough_one_does_not(
    sizes: list[int], damage: list[tuple[float, int]], of_entries: bool
) -> None:
    some = segment(*sizes)
    target = some.entries if of_entries else some.data
    for where, bit in damage:
        target[int(where * len(target))] ^= 1 << bit
    quick, thorough = some.look()
    assert not quick or all(thorough)


def test_each_bit_of_a_head_is_looked_at_by_both_alike() -> None:
    """Of a record of version 1 with IPv4 hosts both say the same, whichever bit of its frame is wrong."""
    good = segment(40, 40)
    first = len(good.data) // 2
    frame = [*range(88), *range(88 + 40, first)]
    for place in frame:
        for bit in range(8):
            some = segment(40, 40)
            some.data[place] ^= 1 << bit
            quick, thorough = some.look()
            # Either of the two bits for an IPv6 host leads elsewhere, and there the lengths do not add up.
            assert quick == all(thorough), (place, bit)
