"""A process that appends is killed, again and again; what it had acknowledged is there, under its own offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from killing import kill_again_and_again

KILLS = 25  # in each mode; `python tests/helpers/killing.py --kills 500` for more
SEED = 20_261_118


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(mode: str, tmp_path: Path) -> None:
    print(kill_again_and_again(tmp_path / "store", mode, KILLS, SEED))
