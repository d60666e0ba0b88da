"""A store with the files of RocketMQ's sizes: 1 GiB, 6 MB and 420 MB long, and nearly all of it holes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storing import message, read_all

from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify
from pocketmq.storage.workers import Workers

LITTLE = 100_000_000


def room_of(root: Path) -> int:
    """The bytes that a folder takes on disk."""
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def lengths(root: Path) -> Iterator[tuple[str, int]]:
    for folder in ("commitlog", "consumequeue/T/0", "index"):
        for path in (root / folder).iterdir():
            yield folder, path.stat().st_size


def prepare(store: Store) -> None:
    """What the threads of a store do when nothing else is to be done; at the end of a test they may not have yet."""
    store.log.prepare_ahead()
    store.index.prepare_ahead()
    store.save_progress()


def test_an_idle_store_of_default_sizes_takes_little_room_on_disk(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        with Workers(store):
            pass
        prepare(store)
        assert room_of(tmp_path) < LITTLE
    assert verify(tmp_path, StoreSettings()) == []


def test_a_store_of_default_sizes_works_and_takes_little_room_on_disk(tmp_path: Path) -> None:
    bodies = [f"message {number}".encode() for number in range(100)]
    with Store(tmp_path) as store, Workers(store):
        for body in bodies:
            store.append(message(body, keys=body.decode().replace(" ", "-"), tag="A"))
        store.publish()
        assert store.wait_durable(store.log.end, timeout=60)
        store.publish()
        prepare(store)
        assert room_of(tmp_path) < LITTLE
    assert sorted(lengths(tmp_path)) == [
        ("commitlog", 1 << 30),
        ("consumequeue/T/0", 6_000_000),
        ("index", 420_000_040),
    ]
    assert verify(tmp_path, StoreSettings()) == []
    with Store(tmp_path) as store, Workers(store):
        assert [bytes(record.body) for record in read_all(store)] == bodies
        assert [record.queue_offset for record in store.query("T", "message-50", 10)] == [50]
        prepare(store)
        assert room_of(tmp_path) < LITTLE
