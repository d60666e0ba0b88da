"""Kill a process that appends to a store, again and again, and see whether the store keeps its word.

The tests do this a few dozen times. For a longer run: `python tests/helpers/killing.py --kills 500`.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

from appender import BEGUN, FRAME, MODES, OVER, QUEUES, TOPICS, Ack, Life, digest

from pocketmq.protocol.message import RecordView, iter_records
from pocketmq.storage.reading import ReadRequest
from pocketmq.storage.scan import Gap
from pocketmq.storage.store import Store
from pocketmq.storage.verify import Problem, verify

LONGEST_LIFE = 0.15
PATIENCE = 30.0  # seconds; only a bug takes that long


class Appender:
    """The program `appender.py`, one life at a time."""

    def __init__(self) -> None:
        # OpenBLAS would start threads, and a process with threads is not to be forked.
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("appender.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:  # waits, once its input has ended
            pass

    def live(
        self, life: Life, seconds: float, *, cut: Callable[[], None] | None = None, from_first_ack: bool = False
    ) -> list[Ack]:
        """One life: all that it reported until it was killed, after so many seconds.

        The time counts from the moment when the store is being opened, or else from the first acknowledgement. `cut`
        takes the disk away before the life is killed, which may therefore fail in between.
        """
        self._send(json.dumps(life._asdict()))
        reports = self._read_until(lambda report: report.number == BEGUN, PATIENCE)
        if from_first_ack:
            reports += self._read_until(lambda _: True, PATIENCE)
        reports += self._read_until(lambda report: report.number == OVER, seconds)
        if cut is not None:
            cut()
        self._send("kill")
        reports += self._read_until(lambda report: report.number == OVER, PATIENCE)
        assert reports[-1].number == OVER
        assert cut is not None or reports[-1].queue_offset == -signal.SIGKILL, "it failed before it was killed"
        return [report for report in reports if report.number >= 0]

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def _read_until(self, is_awaited: Callable[[Ack], bool], seconds: float) -> list[Ack]:
        """What comes until a certain report has come, or in that time if it does not."""
        assert self._process.stdout is not None
        reports: list[Ack] = []
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and select.select([self._process.stdout], [], [], left)[0]:
            # Frames are written whole and many at once, but the pipe may hand out parts of a write.
            read = os.read(self._process.stdout.fileno(), 1 << 16)
            if not read:
                raise EOFError("the appender has ended")
            self._read += read
            whole = len(self._read) // FRAME.size * FRAME.size
            new = [Ack(*values) for values in FRAME.iter_unpack(self._read[:whole])]
            self._read = self._read[whole:]
            reports += new
            if any(map(is_awaited, new)):
                break
        return reports


class Audit(NamedTuple):
    """What an audit has found."""

    lost: list[Ack]
    gaps: list[Gap]
    problems: list[Problem]
    recovery_seconds: float


class Ledger:
    """What a store has acknowledged or shown so far, and whether it still says the same."""

    def __init__(self, *, by_key: bool = True) -> None:
        self.acks: list[Ack] = []
        self._by_key = by_key
        self._audited = 0
        self._read_to: dict[tuple[str, int], int] = {}
        self._seen: dict[tuple[str, int, int], tuple[str, bytes]] = {}  # by place: the key, and a digest of the body

    def note(self, acks: Iterable[Ack]) -> None:
        """Take down what was acknowledged. No place may be given to two messages."""
        for ack in acks:
            assert self._seen.setdefault(ack.place, (ack.key, ack.digest)) == (ack.key, ack.digest), ack
            self.acks.append(ack)

    def audit(self, store: Store, *, everything: bool = False) -> list[Ack]:
        """Compare a store with what is known of it: returns the messages that are lost, and forgets them.

        What was looked at in an earlier audit is left out unless `everything` is asked for.
        """
        if everything:
            self._audited = 0
            self._read_to.clear()
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                self._compare_queue(store, topic, queue_id)
        lost = [ack for ack in self.acks[self._audited :] if not self._finds(store, ack)]
        for ack in lost:
            del self._seen[ack.place]
        self.acks = [ack for ack in self.acks if ack.place in self._seen]
        self._audited = len(self.acks)
        return lost

    def _compare_queue(self, store: Store, topic: str, queue_id: int) -> None:
        """Read a queue: in order, nothing altered, and each place with the message that it has always had."""
        offset = self._read_to.get((topic, queue_id), 0)
        while offset < store.max_offset(topic, queue_id):
            result = store.read(ReadRequest(topic, queue_id, offset, 1000, max_bytes=1 << 20))
            for record in iter_records(result.to_bytes()):
                assert offset <= record.queue_offset < result.next_offset
                assert record.crc_ok()
                place, message = (topic, queue_id, record.queue_offset), describe(record)
                assert self._seen.setdefault(place, message) == message, place
                offset = record.queue_offset + 1
            offset = result.next_offset
        self._read_to[topic, queue_id] = offset

    def _finds(self, store: Store, ack: Ack) -> bool:
        """Whether a message is where it was promised to be, whole; then it must be found by its key, too."""
        topic, queue_id, queue_offset = ack.place
        record = store.record_at(ack.physical_offset)
        if record is None or describe(record) != (ack.key, ack.digest):
            return False
        assert (record.topic, record.queue_id, record.queue_offset) == ack.place, ack
        assert record.store_timestamp == ack.store_timestamp, ack
        assert store.store_time(topic, queue_id, queue_offset) == ack.store_timestamp, ack
        if self._by_key:
            found = store.query(topic, ack.key, 64, ack.store_timestamp, ack.store_timestamp)
            assert [hit.physical_offset for hit in found] == [ack.physical_offset], ack
        return True


def describe(record: RecordView) -> tuple[str, bytes]:
    return record.properties["UNIQ_KEY"], digest(record.body)


def audit(root: Path, mode: str, ledger: Ledger, *, everything: bool = False) -> Audit:
    """Open a store, compare it with the ledger, close it and check that its parts agree."""
    settings = MODES[mode]
    with Store(root, settings) as store:
        lost = ledger.audit(store, everything=everything)
        report = store.report
    return Audit(lost, report.gaps, verify(root, settings), report.seconds)


def kill_again_and_again(root: Path, mode: str, kills: int, seed: int) -> str:
    """The loop. Raises `AssertionError` with the first thing that is wrong; returns a summary."""
    chance, ledger = Random(seed), Ledger()
    milliseconds = []
    with Appender() as appender:
        for number in range(1, kills + 1):
            # Some lives are killed while the store is being opened; now and then that is one which was killed before.
            life, seconds = Life(str(root), mode, number, seed), chance.uniform(0, LONGEST_LIFE)
            ledger.note(appender.live(life, seconds, from_first_ack=chance.random() < 0.7))
            if chance.random() < 0.7 or number == kills:
                found = audit(root, mode, ledger, everything=number == kills)
                assert found[:3] == ([], [], []), f"life {number}: {found}"
                milliseconds.append(found.recovery_seconds * 1000)
    return (
        f"{kills} kills with {mode} flush, seed {seed}: {len(ledger.acks)} messages acknowledged, none lost; recovery "
        f"took {max(milliseconds):.0f} ms at most, {sum(milliseconds) / len(milliseconds):.0f} ms on average"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill a process that appends to a store, and audit what is left.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--mode", choices=("sync", "async"), default="sync")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(kill_again_and_again(Path(folder) / "store", arguments.mode, arguments.kills, arguments.seed))


if __name__ == "__main__":
    main()
