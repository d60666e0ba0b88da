"""The process ends at the worst moments, each on purpose. `test_kill.py` finds them by chance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from storing import BORN_HOST, SMALL, SMALL_ASYNC, STORE_HOST, Clock, batch, flush, message, opened, read_all

from pocketmq.protocol import runs
from pocketmq.protocol.spans import write_at
from pocketmq.storage.index import Index
from pocketmq.storage.mapped_file import MappedFile
from pocketmq.storage.recovery import _Recovery
from pocketmq.storage.settings import StoreSettings
from pocketmq.storage.store import Store
from pocketmq.storage.verify import verify


def file_keys(store: Store) -> None:
    """Let the index have all that waits for it: who asks for anything does."""
    assert store.query("T", "no such key", 1) == []


def test_keys_are_found_though_the_headers_of_several_index_files_were_never_written(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    for number in range(10):
        store.append(message(unique=f"key-{number}"))
    flush(store)
    store.save_progress()
    for number in range(10, 200):
        store.append(message(unique=f"key-{number}"))
    flush(store)
    file_keys(store)
    assert len(store.index.files) > 2
    store.abandon()
    with opened(tmp_path) as store:
        for number in range(200):
            assert [record.queue_offset for record in store.query("T", f"key-{number}", 10)] == [number]


def test_an_index_file_that_was_created_and_has_no_length_yet_is_no_obstacle(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    store.append(message(unique="key"))
    flush(store)
    file_keys(store)
    [name] = [path.name for path in (tmp_path / "index").iterdir()]
    store.abandon()
    (tmp_path / "index" / f"{int(name) + 1}").touch()
    with opened(tmp_path) as store:
        assert len(store.query("T", "key", 10)) == 1


def test_an_end_between_dropping_index_entries_and_their_count_does_not_damage_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path, SMALL)
    for number in range(10):
        store.append(message(unique=f"key-{number}"))
        flush(store)
        if number == 5:
            store.save_progress()
    file_keys(store)
    store.index.sync()  # it counts more now than the checkpoint knows of
    store.abandon()

    def clear_and_end(file: MappedFile, start: int) -> None:
        clear(file, start)
        raise KeyboardInterrupt

    clear = MappedFile.clear
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "clear", clear_and_end)
        with pytest.raises(KeyboardInterrupt):
            Store(tmp_path, SMALL)
    with opened(tmp_path) as store:
        assert all(len(store.query("T", f"key-{number}", 10)) == 1 for number in range(10))
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("writes", range(5))
@pytest.mark.parametrize("before", [[], [b"before"]], ids=["at the beginning of the log", "later"])
def test_of_a_batch_whose_fields_were_not_all_filled_in_only_complete_records_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, before: list[bytes]
) -> None:
    store = Store(tmp_path, SMALL_ASYNC)
    for body in before:
        store.append(message(body))
    flush(store)
    columns = batch([b"one", b"two"])
    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_at", ending_after(writes))
        with pytest.raises(KeyboardInterrupt):
            store.append_records(columns, BORN_HOST, STORE_HOST)
    store.abandon()
    with opened(tmp_path, SMALL_ASYNC) as store:
        records = read_all(store)
        # Where the log begins, a record is complete without its physical offset: it is 0.
        assert [bytes(record.body) for record in records] in (before, [b"one"])
        assert all((record.born_host, record.store_host) == (BORN_HOST, STORE_HOST) for record in records)
        assert all(record.store_timestamp > 0 for record in records)


def ending_after(count: int) -> Callable[..., None]:
    """`write_at`, so often; then the process ends."""

    def write(*arguments: Any) -> None:
        nonlocal count
        count -= 1
        if count < 0:
            raise KeyboardInterrupt
        write_at(*arguments)

    return write


def test_the_first_message_of_an_index_file_is_found_by_its_time(tmp_path: Path) -> None:
    # The file tells of it how long after the last message of the file before it was stored, as RocketMQ's do.
    clock = Clock()
    with Store(tmp_path, SMALL, now_ms=clock) as store:
        while len(store.index.files) < 2 or store.index.files[-1].header.next_entry > 2:
            clock.now_ms += 100_000
            store.append(message(unique=f"key-{clock.now_ms}"))
            flush(store)
            file_keys(store)
        found = store.query("T", f"key-{clock.now_ms}", 10, clock.now_ms, clock.now_ms)
        assert [record.store_timestamp for record in found] == [clock.now_ms]


# A second end, while the store is being opened after the first.


def ending(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("settings", [SMALL, SMALL_ASYNC])
def test_an_end_while_the_log_is_read_from_before_the_checkpoint_leaves_no_key_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: StoreSettings
) -> None:
    """No queue reaches as far as the checkpoint, for the topic of the newest messages was deleted."""
    store = Store(tmp_path, settings)
    for number in range(200):
        store.append(message(unique=f"key-{number}"))
    for _ in range(5):
        store.append(message(topic="U"))
    flush(store)
    store.save_progress()
    store.delete_topic("U")
    store.append(message(unique="key-200"))
    flush(store)
    store.abandon()
    with monkeypatch.context() as patch:
        patch.setattr(Index, "sync", ending)  # queues are on disk then, and the index is not
        with pytest.raises(KeyboardInterrupt):
            Store(tmp_path, settings)
    with opened(tmp_path, settings) as store:
        assert [number for number in range(201) if len(store.query("T", f"key-{number}", 5)) != 1] == []


def test_an_end_while_a_damaged_index_is_mended_leaves_no_key_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, SMALL)
    for number in range(50):
        store.append(message(unique=f"key-{number}"))
    flush(store)
    store.save_progress()
    store.abandon()
    [path] = (tmp_path / "index").iterdir()
    with path.open("r+b") as file:
        file.seek(40 + 4 * SMALL.max_hash_slot_num + 20 * 10 + 12)
        file.write(b"\xff" * 4)
    with monkeypatch.context() as patch:
        patch.setattr(_Recovery, "_scan", ending)
        with pytest.raises(KeyboardInterrupt):
            Store(tmp_path, SMALL)
    with opened(tmp_path) as store:
        assert [number for number in range(50) if len(store.query("T", f"key-{number}", 5)) != 1] == []


def test_nothing_is_filed_twice_though_the_last_index_file_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path, SMALL)
    for number in range(SMALL.max_index_num - 1):
        store.append(message(unique=f"key-{number}"))
    for _ in range(3):
        store.append(message(unique=None))
        flush(store)
        store.save_progress()
        store.abandon()
        store = Store(tmp_path, SMALL)
    [file] = store.index.files
    hashes, offsets, problem = file.check()
    assert (len(set(zip(hashes.tolist(), offsets.tolist(), strict=True))), problem) == (len(hashes), None)
    assert file.room == 0
    store.close()
    assert verify(tmp_path, SMALL) == []


def test_a_topic_that_lost_its_last_page_is_no_topic(tmp_path: Path) -> None:
    """Without properties, a record has nothing else behind its body that could tell."""
    store = Store(tmp_path, SMALL)
    store.append(message(b"x" * (4096 - 88 - 1 - 8), topic="Topic-ABCDEFGHIJ", unique=None))
    flush(store)
    store.abandon()
    [segment] = [path for path in (tmp_path / "commitlog").iterdir() if path.name == "0" * 20]
    with segment.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    with opened(tmp_path) as store:
        assert store.log.end == 0
        assert len(store.queues) == 0
