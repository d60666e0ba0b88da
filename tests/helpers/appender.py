"""A program that appends to a store until it is killed, and reports every message that the store acknowledged.

It takes one command a line: a `Life` in JSON begins one, `kill` ends it as `kill -9` does. A life is a process of its
own, forked from this one, which has done all the importing; so a life costs milliseconds. Reports go to the standard
output, as frames of one size, several in one write but never more than the system writes at once: a frame is there
or it is not. This program itself reports when a life is over, and ends, with a life that is left, when its input does.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import NamedTuple

from storing import BORN_HOST, STORE_HOST, message

from pocketmq.protocol.columns import RecordColumns
from pocketmq.protocol.runs import encode_records
from pocketmq.protocol.spans import Spans
from pocketmq.storage import indexing
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Appended, Store
from pocketmq.storage.workers import Workers

TOPICS = ("Alpha", "Beta", "%RETRY%Gamma")
QUEUES = 4
SIZES = (0, 10, 100, 100, 300, 5_000)

FRAME = struct.Struct(">qHHqqq8s")
FRAMES_AT_ONCE = 4096 // FRAME.size  # PIPE_BUF

# Instead of the number of a message: a life begins, or is over.
BEGUN, OVER = -1, -2

# Small files, and queues and checkpoints that are written often: a life of a tenth of a second sees all of it.
SYNC = StoreSettings(
    mapped_file_size_commit_log=256 * 1024,
    mapped_file_size_consume_queue=20 * 200,
    max_hash_slot_num=500,
    max_index_num=2_000,
    flush_interval_consume_queue=10,
    flush_consume_queue_least_pages=0,
    flush_consume_queue_thorough_interval=40,
)
ASYNC = replace(SYNC, flush_disk_type=FlushDiskType.ASYNC_FLUSH, flush_interval_commit_log=10)

# Acknowledges what it has not flushed, and does not flush for a long time: this is to lose messages with the power.
CARELESS = replace(
    ASYNC,
    flush_interval_commit_log=600_000,
    flush_interval_consume_queue=600_000,
    flush_consume_queue_thorough_interval=600_000,
)
MODES = {"sync": SYNC, "async": ASYNC, "careless": CARELESS}


class Life(NamedTuple):
    """What one life is to do; another number gives other messages."""

    root: str
    mode: str
    number: int
    seed: int


class Ack(NamedTuple):
    """A message that was acknowledged: where it is, and a digest of its body."""

    number: int
    topic: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp: int
    digest: bytes

    @property
    def key(self) -> str:
        return key_of(self.number)

    @property
    def place(self) -> tuple[str, int, int]:
        return TOPICS[self.topic], self.queue_id, self.queue_offset


def key_of(number: int) -> str:
    return f"{number:032X}"


def digest(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=8).digest()


def main() -> None:
    for line in sys.stdin:
        life = Life(**json.loads(line))
        child = os.fork()
        if not child:
            sys.stdin.close()
            append_until_killed(life)
        sys.stdin.readline()
        # Nobody else waits for the child: until `waitpid` the number is its own, even if it has ended by itself.
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        send(FRAME.pack(OVER, 0, 0, os.waitstatus_to_exitcode(status), 0, 0, b""))


def append_until_killed(life: Life) -> None:
    """The life of a child. An error is printed and ends it."""
    send(FRAME.pack(BEGUN, 0, 0, 0, 0, 0, b""))
    chance = Random(f"{life.seed} {life.number}")
    numbers = iter(range(life.number << 32, (life.number + 1) << 32))
    settings = MODES[life.mode]
    indexing._ENOUGH = 20  # so that the end often comes while the index is written
    with Store(Path(life.root), settings) as store, Workers(store):
        while True:
            acks: list[Ack] = []
            for _ in range(chance.randint(1, 4)):
                acks += append_some(store, chance, numbers)
            store.publish()
            if settings.flush_disk_type is FlushDiskType.SYNC_FLUSH:
                if not store.wait_durable(store.log.end, timeout=60):
                    raise TimeoutError("the disk takes too long")
                store.publish()
            for start in range(0, len(acks), FRAMES_AT_ONCE):
                send(b"".join(FRAME.pack(*ack) for ack in acks[start : start + FRAMES_AT_ONCE]))


def append_some(store: Store, chance: Random, numbers: Iterator[int], sizes: Sequence[int] = SIZES) -> list[Ack]:
    """A few single messages to any queues, or a batch to one, with bodies of these sizes."""
    if chance.random() < 0.7:
        return [append_one(store, chance, next(numbers), sizes) for _ in range(chance.randint(1, 12))]
    topic, queue_id = chance.randrange(len(TOPICS)), chance.randrange(QUEUES)
    messages = [(next(numbers), chance.randbytes(chance.choice(sizes))) for _ in range(chance.randint(2, 24))]
    appended = store.append_records(batch(topic, queue_id, messages), BORN_HOST, STORE_HOST)
    places = physical_offsets(messages, appended)
    return [
        Ack(number, topic, queue_id, appended.queue_offset + row, place, appended.store_timestamp, digest(body))
        for row, ((number, body), place) in enumerate(zip(messages, places, strict=True))
    ]


def append_one(store: Store, chance: Random, number: int, sizes: Sequence[int]) -> Ack:
    topic, queue_id = chance.randrange(len(TOPICS)), chance.randrange(QUEUES)
    body = chance.randbytes(chance.choice(sizes))
    keys = f"{number:X} every"
    done = store.append(message(body, TOPICS[topic], queue_id, tag="A", keys=keys, unique=key_of(number)))
    return Ack(number, topic, queue_id, done.queue_offset, done.physical_offset, done.store_timestamp, digest(body))


def batch(topic: int, queue_id: int, messages: list[tuple[int, bytes]]) -> RecordColumns:
    properties = Spans.of([f"UNIQ_KEY\x01{key_of(number)}\x02TAGS\x01B\x02".encode() for number, _ in messages])
    bodies = Spans.of([body for _, body in messages])
    run, _ = encode_records(TOPICS[topic].encode(), queue_id, bodies, properties, born_timestamp=1_700_000_000_000)
    return RecordColumns(run)


def physical_offsets(messages: list[tuple[int, bytes]], appended: Appended) -> Iterator[int]:
    """Where the messages of a batch are: they lie back to back, and differ in their bodies only."""
    rest = (appended.end - appended.physical_offset - sum(len(body) for _, body in messages)) // len(messages)
    place = appended.physical_offset
    for _, body in messages:
        yield place
        place += rest + len(body)


def send(frames: bytes) -> None:
    os.write(1, frames)


if __name__ == "__main__":
    main()
