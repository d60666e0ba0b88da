"""How fast the store takes and gives messages, against the least that could be done with the same bytes.

    python benchmarks/storage.py [--rounds 15] [--folder DIR] [--only append,batch,read,recovery,queues,memory]

Each figure has a reference that runs beside it, in turns, in the same process:

- *bare*: a loop that packs the header of a record with one `struct` and copies the body into warm pages of a mapping;
- *copy*: the bytes of all records of a batch copied into warm pages at once;
- *slice*: the bytes of all records sliced out of the mapping at once;
- *join*: `b"".join` of slices, one for each record;
- *crc32*: a bare CRC over the same bytes.

A share is the median of what it was in each round, where both were disturbed alike. Times are the best of all rounds.
What a second thread does in a real store (pages made ready, queues written) is done between the measurements.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from pocketmq.protocol.hashes import crc32
from pocketmq.protocol.message import MessageRecord
from pocketmq.protocol.records_body import pack_records_body, unpack_records_body
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.reading import ReadRequest
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Store

TOPIC: Final = "BenchTopic"
HOST: Final = ("127.0.0.1", 10911)
SETTINGS: Final = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH)
MIB: Final = 1 << 20

Run = Callable[[], object]


def seconds(run: Run) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


class Figure:
    """A row of the table: something, its reference, and what is to be reached."""

    def __init__(self, name: str, run: Run, reference_name: str, reference: Run, messages: int, goal: float) -> None:
        self.name = name
        self.run = run
        self.reference_name = reference_name
        self.reference = reference
        self.messages = messages
        self.goal = goal
        self.rounds: list[tuple[float, float]] = []

    def measure(self) -> None:
        """One round: the thing between two runs of its reference."""
        before = seconds(self.reference)
        ours = seconds(self.run)
        self.rounds.append((ours, (before + seconds(self.reference)) / 2))

    @property
    def share(self) -> float:
        return median(reference / ours for ours, reference in self.rounds)

    @property
    def best(self) -> float:
        """Seconds for one message."""
        return min(ours for ours, _ in self.rounds) / self.messages

    def __str__(self) -> str:
        reference = min(reference for _, reference in self.rounds) / self.messages
        return (
            f"{self.name:44}{1e9 * self.best:>9.0f}{1e-3 / self.best:>10.0f}   {self.reference_name:7}"
            f"{1e9 * reference:>8.0f}{_share(self.share):>9}   {_share(self.goal)}"
        )


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 2 else f"{share:.1f} x"


def print_figures(figures: list[Figure]) -> None:
    print(f"{'':44}{'ns/msg':>9}{'k msg/s':>10}   {'against':7}{'ns/msg':>8}{'share':>9}   goal")
    for figure in figures:
        print(figure)
    print()


@contextmanager
def store_in(folder: Path, settings: StoreSettings = SETTINGS) -> Iterator[Store]:
    root = Path(tempfile.mkdtemp(prefix="pocketmq-bench-", dir=folder))
    try:
        with Store(root, settings) as store:
            yield store
    finally:
        shutil.rmtree(root)


def tend(store: Store) -> None:
    """What the second thread of a store does."""
    store.log.prepare_ahead()
    store.index.prepare_ahead()
    store.queues.write_out()


# --- appending ---


def messages(count: int, queues: int = 4, size: int = 100) -> list[MessageRecord]:
    return [
        MessageRecord(
            TOPIC,
            bytes(size),
            number % queues,
            1_700_000_000_000,
            ("127.0.0.1", 50000),
            0,
            HOST,
            properties_text=f"UNIQ_KEY\x010A000001C35018B4AAC2{number:012X}\x02TAGS\x01Tag{number % 7}\x02",
        )
        for number in range(count)
    ]


def bare_loop(view: memoryview, body: bytes, count: int) -> Run:
    """The least that a record takes: one pack, one copy."""
    pack_into = struct.Struct(">iiiiiqqiq8sq8siqi").pack_into
    host, size = bytes(8), 88 + len(body)

    def run() -> None:
        position = 0
        for number in range(count):
            pack_into(
                view, position, size, 7, 7, 1, 0, number, position, 0, 1_700_000_000_000, host, 1_700_000_000_000, host,
                0, 0, len(body),
            )  # fmt: skip
            view[position + 88 : position + size] = body
            position += size

    return run


def appends(store: Store, records: list[MessageRecord], burst: int) -> Run:
    append, publish = store.append, store.publish
    bursts = [records[start : start + burst] for start in range(0, len(records), burst)]

    def run() -> None:
        for records_of_burst in bursts:
            for record in records_of_burst:
                append(record)
            publish()

    return run


@contextmanager
def warm_pages(folder: Path, size: int) -> Iterator[MappedFile]:
    """A mapping whose pages are all there and have been written before."""
    path = folder / f"pocketmq-warm-{os.getpid()}"
    file = MappedFile(path, size, "--", create=True)
    file.prepare(size)
    file.data[:] = 1
    try:
        yield file
    finally:
        file.delete()


def measure_appends(folder: Path, rounds: int) -> list[Figure]:
    records = messages(1024)
    with store_in(folder) as store, warm_pages(folder, 8 * MIB) as warm:
        bare = bare_loop(warm.view, bytes(100), len(records))
        figures = [
            Figure(f"append 100 B, bursts of {burst}", appends(store, records, burst), "bare", bare, 1024, goal)
            for burst, goal in ((256, 0.12), (16, 0.07), (1, 0.0))
        ]
        for _ in range(rounds):
            for figure in figures:
                tend(store)
                figure.measure()
    return figures


# --- batches ---


def batch_body(count: int, size: int) -> bytes:
    """The body of a SEND_RECORDS request."""
    bodies = Spans.of([bytes(size)] * count)
    properties = Spans.of(
        [b"UNIQ_KEY\x010A000001C35018B4AAC2%012X\x02TAGS\x01Tag%d\x02" % (n, n % 7) for n in range(count)]
    )
    run, lengths = encode_records(TOPIC.encode(), 0, bodies, properties, born_timestamp=1_700_000_000_000)
    return pack_records_body(run, lengths)


def batches(store: Store, body: bytes, count: int, times: int) -> Run:
    topic = TOPIC.encode()

    def run() -> None:
        for _ in range(times):
            store.append_records(unpack_records_body(body, count, topic, 0), HOST, HOST)
            store.publish()

    return run


def measure_batches(folder: Path, rounds: int) -> list[Figure]:
    small, large = batch_body(1000, 100), batch_body(1000, 1024)
    with store_in(folder) as store, warm_pages(folder, 8 * MIB) as warm:
        records = messages(1000)
        large_bytes = np.frombuffer(large, np.uint8)

        def copy() -> None:
            for _ in range(4):
                warm.data[: len(large)] = large_bytes

        figures = [
            Figure(
                "batch of 1000 x 100 B, checked",
                batches(store, small, 1000, 1),
                "single",
                appends(store, records, 256),
                1000,
                3,
            ),
            Figure("batch of 1000 x 1 KiB, checked", batches(store, large, 1000, 4), "copy", copy, 4000, 0.04),
        ]
        for _ in range(rounds):
            for figure in figures:
                tend(store)
                figure.measure()
    return figures


# --- reading ---


def measure_reads(folder: Path, rounds: int) -> list[Figure]:
    figures = []
    for queues, goal, name in ((1, 0.10, "slice"), (4, 0.50, "join")):
        with store_in(folder) as store:
            for record in messages(1000 * queues, queues):
                store.append(record)
            store.publish()
            tend(store)
            request = ReadRequest(TOPIC, 0, 0, 1000, max_bytes=4 * MIB)
            entries = store.queues.create(TOPIC, 0).entries(0, 1000)
            starts = entries["physical_offset"].tolist()
            ends = (entries["physical_offset"] + entries["size"]).tolist()
            view = store.log.files.at(0).view
            places = list(zip(starts, ends, strict=True))

            def slice_out(view: memoryview = view, start: int = starts[0], end: int = ends[-1]) -> None:
                for _ in range(20):
                    bytes(view[start:end])

            def join(view: memoryview = view, places: list[tuple[int, int]] = places) -> None:
                for _ in range(20):
                    b"".join([view[start:end] for start, end in places])

            def read(store: Store = store, request: ReadRequest = request) -> None:
                for _ in range(20):
                    store.read(request)

            reference = slice_out if queues == 1 else join
            figure = Figure(f"read 1000 x 100 B, {queues} queues in turns", read, name, reference, 20_000, goal)
            for _ in range(rounds):
                figure.measure()
            figures.append(figure)
    return figures


# --- recovery ---


def measure_recovery(folder: Path) -> None:
    """A crash with a whole segment of 1-KiB messages that nothing was saved of, and a clean stop with ten."""
    body = batch_body(1000, 1024)
    topic = TOPIC.encode()
    root = Path(tempfile.mkdtemp(prefix="pocketmq-bench-", dir=folder))
    try:
        store = Store(root, SETTINGS)
        while store.log.end < 1 << 30:
            store.append_records(unpack_records_body(body, 1000, topic, 0), HOST, HOST)
            store.publish()
        view = store.log.files.at(0).view
        bare = min(seconds(lambda: crc32(view)) for _ in range(3))
        size = store.log.end
        store.abandon()
        shutil.rmtree(root / "config", ignore_errors=True)
        store = Store(root, SETTINGS)
        took, report = store.report.seconds, store.report
        print(
            f"recovery after a crash: {took:.2f} s for {size / 2**30:.2f} GiB, {report.records} messages "
            f"({took / (size / 2**30):.2f} s/GiB; bare crc32 of a segment {bare:.2f} s; goal 5 s/GiB)"
        )
        clean: list[tuple[float, float]] = []
        for _ in range(3):
            store.close()
            begin = time.perf_counter()
            store = Store(root, SETTINGS)
            clean.append((time.perf_counter() - begin, store.report.seconds))
        print(f"start after a clean stop of the same store: {1000 * min(clean)[0]:.0f} ms\n")
        store.close()
    finally:
        shutil.rmtree(root)


# --- what grows ---


def measure_growth(folder: Path, rounds: int) -> None:
    """The cost of an append with many queues, and with many segments behind it."""
    few, many = messages(10_000, 1), messages(10_000, 10_000)
    small = replace(SETTINGS, mapped_file_size_commit_log=4 * MIB)
    with store_in(folder) as one, store_in(folder) as ten_thousand, store_in(folder, small) as segments:
        base, spread = appends(one, few, 256), appends(ten_thousand, many, 256)
        spread()
        while len(segments.log.files.offsets) < 10:
            appends(segments, few, 256)()
        for store in (one, ten_thousand, segments):
            tend(store)
        figures = [
            Figure("append, 10,000 queues in turns, bursts of 256", spread, "1 queue", base, 10_000, 1.0),
            Figure("append, 10 segments and more", appends(segments, few, 256), "1 queue", base, 10_000, 1.0),
        ]
        for _ in range(rounds):
            for figure in figures:
                for store in (one, ten_thousand, segments):
                    tend(store)
                figure.measure()
    print_figures(figures)


def measure_memory(folder: Path) -> None:
    """In a process of its own: what 10,000 queues take, without the pages of mapped files."""
    command = [sys.executable, __file__, "--only", "resident", "--folder", str(folder)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_resident(folder: Path) -> None:
    with store_in(folder) as store:
        for _ in range(3):
            appends(store, messages(10_000, 10_000), 256)()
            tend(store)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        own = int(status["RssAnon"].split()[0]) / 1024
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        peak = int(status["VmHWM"].split()[0]) / 1024
        print(
            f"10,000 queues: {own:.0f} MB resident without mapped files (goal 100), {descriptors} descriptors, "
            f"peak with mapped files {peak:.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the stores are put")
    parser.add_argument("--only", default="append,batch,read,recovery,queues,memory")
    options = parser.parse_args()
    wanted = options.only.split(",")
    figures: list[Figure] = []
    if "append" in wanted:
        figures += measure_appends(options.folder, options.rounds)
    if "batch" in wanted:
        figures += measure_batches(options.folder, options.rounds)
    if "read" in wanted:
        figures += measure_reads(options.folder, options.rounds)
    if figures:
        print_figures(figures)
    if "queues" in wanted:
        measure_growth(options.folder, max(options.rounds // 3, 3))
    if "recovery" in wanted:
        measure_recovery(options.folder)
    if "memory" in wanted:
        measure_memory(options.folder)
    if "resident" in wanted:
        print_resident(options.folder)


if __name__ == "__main__":
    main()
