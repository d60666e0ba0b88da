"""How fast a run of records becomes columns and back, against a plain loop over the same bytes.

    python benchmarks/columns.py [--messages 8000] [--body 100] [--rounds 25]

Every row is the best of its rounds.
"""

from __future__ import annotations

import argparse
import struct
import time
from collections.abc import Callable

import numpy as np

from pocketmq.protocol.columns import RecordColumns, record_starts
from pocketmq.protocol.property_columns import PropertyColumns
from pocketmq.protocol.records_body import pack_records_body, unpack_records_body
from pocketmq.protocol.runs import encode_records, patch_records
from pocketmq.protocol.spans import Spans

TOPIC = b"TopicTest"
QUEUE_ID = 3
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])

_FIXED = struct.Struct(">iIiiiqqiq8sq8siqi")


def naive_loop(run: bytes, *, with_properties: bool) -> list[tuple[object, ...]]:
    """What one writes first: a record at a time, IPv4 only."""
    rows: list[tuple[object, ...]] = []
    position = 0
    while position < len(run):
        fields = _FIXED.unpack_from(run, position)
        topic_at = position + _FIXED.size + fields[-1]
        properties_at = topic_at + 1 + run[topic_at]
        text = run[properties_at + 2 : position + fields[0]].decode()
        pairs = dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair) if with_properties else text
        rows.append((*fields, run[position + _FIXED.size : topic_at], run[topic_at + 1 : properties_at], pairs))
        position += fields[0]
    return rows


def fixed_fields(columns: RecordColumns) -> RecordColumns:
    """The columns that nearly every reader wants."""
    _ = columns.queue_id, columns.flag, columns.queue_offset, columns.physical_offset
    _ = columns.born_timestamp, columns.store_timestamp, columns.reconsume_times
    return columns


def tags_and_keys(columns: RecordColumns) -> None:
    for name in (b"TAGS", b"KEYS"):
        columns.property_column(name).compact()


def property_map(columns: RecordColumns) -> None:
    properties = columns.property_columns.distinct()
    properties.names.compact()
    properties.values.compact()


def cases(messages: int, body_size: int) -> dict[str, Callable[[], object]]:
    """The rows of the table, over one run of records."""
    random = np.random.default_rng(seed=1)
    bodies = Spans.of([random.bytes(body_size) for _ in range(messages)])
    properties = Spans.of(
        [
            b"UNIQ_KEY\x010A000001C35018B4AAC2%012X\x02TAGS\x01Tag%d\x02KEYS\x01order-%d\x02WAIT\x01true\x02"
            % (number, number % 7, number)
            for number in range(messages)
        ]
    )
    body_list, property_list = bodies.tolist(), properties.tolist()

    def encode(body_spans: Spans, property_spans: Spans) -> tuple[object, object]:
        return encode_records(TOPIC, QUEUE_ID, body_spans, property_spans, born_timestamp=1_700_000_000_000)

    run_array, lengths = encode_records(TOPIC, QUEUE_ID, bodies, properties, born_timestamp=1_700_000_000_000)
    run, request = run_array.tobytes(), pack_records_body(run_array, lengths)
    starts = record_starts(run)
    writable, numbers = bytearray(run), np.arange(messages)

    def columns() -> RecordColumns:
        return RecordColumns(run, starts)

    def patch() -> None:
        patch_records(
            writable,
            starts,
            queue_offset=numbers,
            physical_offset=starts,
            store_timestamp=1_700_000_000_000,
            born_host=HOST,
            store_host=HOST,
        )

    def unpack() -> RecordColumns:
        return unpack_records_body(request, messages, TOPIC, QUEUE_ID)

    def ingest() -> None:
        unpacked = unpack()
        unpacked.tags_code()
        unpacked.index_hashes()

    return {
        "naive loop, properties as text": lambda: naive_loop(run, with_properties=False),
        "naive loop, properties as dict": lambda: naive_loop(run, with_properties=True),
        "starts (walk)": lambda: record_starts(run),
        "columns made (shape checked)": columns,
        "+ fixed fields": lambda: fixed_fields(columns()),
        "+ fixed fields, bodies": lambda: fixed_fields(columns()).bodies.compact(),
        "+ tags and keys": lambda: tags_and_keys(columns()),
        "+ properties split": lambda: PropertyColumns.parse(columns().properties),
        "+ properties as map": lambda: property_map(columns()),
        "+ tags code": lambda: columns().tags_code(),
        "+ index hashes": lambda: columns().index_hashes(),
        "+ CRC checked": lambda: columns().crc_matches(),
        "encode from columns": lambda: encode(bodies, properties),
        "encode from lists": lambda: encode(Spans.of(body_list), Spans.of(property_list)),
        "patch": patch,
        "SEND_RECORDS body checked": unpack,
        "+ tags code, index hashes": ingest,
    }


def best_time(run: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=8000)
    parser.add_argument("--body", type=int, default=100, help="bytes in each body")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    rows = cases(options.messages, options.body)
    times = {name: best_time(run, options.rounds) for name, run in rows.items()}
    naive = times["naive loop, properties as text"]
    print(f"{options.messages} messages of {options.body} bytes{'':7}{'M msg/s':>10}{'ns/msg':>10}{'x naive':>10}")
    for name, seconds in times.items():
        per_message = seconds / options.messages
        print(f"{name:34}{1e-6 / per_message:>10.2f}{1e9 * per_message:>10.0f}{naive / seconds:>10.1f}")


if __name__ == "__main__":
    main()
