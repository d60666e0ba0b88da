"""The power fails, again and again: a real ext4 file system stops in the middle of what it is doing.

What reaches its disk is what was flushed, and whatever else the system had got round to. Then the file system is
mounted again, which replays its journal, and the store is opened.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from appender import Ack, Life
from killing import Appender, Ledger, audit
from mounting import Ext4, cut_power, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CUTS = 10
SEED = 20_261_118
LONGEST_LIFE = 0.3


@pytest.mark.parametrize("block_size", [1024, 4096])
def test_sync_flush_loses_nothing_that_was_acknowledged(block_size: int, tmp_path: Path) -> None:
    acknowledged, lost = cut_again_and_again(tmp_path, "sync", block_size)
    print(f"{CUTS} cuts, {acknowledged} messages acknowledged, {len(lost)} lost")
    assert acknowledged
    assert lost == []


def test_acknowledging_before_the_flush_loses_messages_and_so_the_test_above_proves_something(tmp_path: Path) -> None:
    acknowledged, lost = cut_again_and_again(tmp_path, "careless", 4096)
    print(f"{CUTS} cuts, {acknowledged} messages acknowledged, {len(lost)} lost")
    assert lost


def cut_again_and_again(folder: Path, mode: str, block_size: int) -> tuple[int, list[Ack]]:
    """The loop: how many messages were acknowledged, and which were lost. Whatever is left has to be whole."""
    chance, ledger, place = Random(SEED), Ledger(), folder / "disk"
    disk = Ext4(folder / "image", 128 << 20, block_size)
    acknowledged, lost, gaps = 0, [], set()
    with Appender() as appender:
        for number in range(1, CUTS + 1):
            life = Life(str(place / "store"), mode, number, SEED)
            with disk.mounted(place):
                # Some cuts come while the store is being opened, and recovered from the cut before.
                seconds, from_first_ack = chance.uniform(0, LONGEST_LIFE), chance.random() < 0.8
                acks = appender.live(life, seconds, cut=lambda: cut_power(place), from_first_ack=from_first_ack)
            ledger.note(acks)
            acknowledged += len(acks)
            if chance.random() < 0.8 or number == CUTS or mode == "careless":
                with disk.mounted(place):
                    found = audit(place / "store", mode, ledger, everything=number == CUTS)
                lost += found.lost
                # Of a burst that nobody was told of, any page may be missing; but no other problem may be left.
                gaps |= {f"no record can be read from {gap.start} to {gap.end}" for gap in found.gaps}
                assert {problem.what for problem in found.problems} <= gaps
    return acknowledged, lost
