"""The two threads that wait for the disk so that nobody else has to.

One flushes the log: with SYNC_FLUSH whenever somebody waits for it, all who wait at once, with ASYNC_FLUSH every now
and then. The other one gets pages and segments ready, writes and flushes queues and index, and cleans up. When each
step is due follows from the settings; the functions that decide it know no clock and no thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

from pocketmq.storage.cleaning import clean
from pocketmq.storage.errors import DiskFullError, StorageError
from pocketmq.storage.layout import PAGE
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Store

logger = logging.getLogger("pocketmq.storage")

# However busy a store is, no more than this of its log is dispatched again after a crash.
MOST_UNSAVED = 256 << 20

# How often the second thread looks whether something is due, in seconds, if nobody calls it.
_LOOK_INTERVAL = 0.1


def is_flush_due(settings: StoreSettings, end: int, flushed: int, since_last_ms: float) -> bool:
    """Whether an ASYNC_FLUSH log is to be flushed: enough pages are waiting, or they have waited long enough."""
    if end == flushed or since_last_ms < settings.flush_interval_commit_log:
        return False
    pages = end // PAGE - flushed // PAGE
    is_long_ago = since_last_ms >= settings.flush_commit_log_thorough_interval
    return pages >= settings.flush_commit_log_least_pages or is_long_ago


def is_save_due(settings: StoreSettings, unsaved_bytes: int, since_last_ms: float) -> bool:
    """Whether queues and index are to be brought to disk as a whole."""
    is_long_ago = since_last_ms >= settings.flush_consume_queue_thorough_interval
    return unsaved_bytes >= MOST_UNSAVED or (is_long_ago and unsaved_bytes > 0)


class Workers:
    """The threads of a store, from `with` to its end.

    `on_flushed` is called in the flushing thread, with the offset up to which the log is on disk; `on_failure` in
    either, once, when the disk has failed and the store has to be given up.
    """

    def __init__(
        self,
        store: Store,
        on_flushed: Callable[[int], None] = lambda _: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._stopping = False
        self._was_full = False
        self._told = False
        self._telling = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(step,), name=f"pocketmq-{name}", daemon=True)
            for name, step in (("flush", self._flush_step), ("keep", self._keep_step))
        ]
        now = time.monotonic() * 1000
        self._last_flush = self._last_write_out = self._last_save = self._last_clean = now
        self._saved = store.log.end

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._store.flush_wanted.set()
        self._store.log.attention.set()
        for thread in self._threads:
            thread.join()

    def _run(self, step: Callable[[], None]) -> None:
        """Do one step after the other until the end, or until one fails for another reason than a full disk."""
        try:
            while not self._stopping:
                step()
        except OSError as error:
            self._tell(self._store.fail(error))
        except StorageError as error:
            self._tell(error)
        except BaseException as error:
            # Without its threads a store acknowledges nothing any more: whoever waits has to know.
            self._tell(StorageError(f"a thread of the store ended with {error!r}"))
            raise

    def _tell(self, error: StorageError) -> None:
        with self._telling:
            is_first, self._told = not self._told, True
        if is_first:
            self._on_failure(error)

    def _flush_step(self) -> None:
        store, settings = self._store, self._store.settings
        if settings.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            store.flush_wanted.wait()
            store.flush_wanted.clear()
            # Also if the other thread was quicker: it tells nobody.
            self._on_flushed(store.flush())
            return
        time.sleep(min(settings.flush_interval_commit_log / 1000, _LOOK_INTERVAL))
        now = time.monotonic() * 1000
        if is_flush_due(settings, store.log.end, store.log.flushed, now - self._last_flush):
            self._last_flush = now
            self._on_flushed(store.flush())

    def _keep_step(self) -> None:
        self._store.log.attention.wait(_LOOK_INTERVAL)
        full = None
        for step in self._due_steps(time.monotonic() * 1000):
            try:
                step()
            except DiskFullError as error:
                # Whoever appends hears of it too; what could not be written is tried again.
                full = error
        if full is not None:
            if not self._was_full:
                logger.warning("%s", full)
            time.sleep(_LOOK_INTERVAL)
        self._was_full = full is not None

    def _due_steps(self, now: float) -> Iterator[Callable[[], object]]:
        """What is due. On a full disk each step fails for itself: there may be room for another."""
        store, settings = self._store, self._store.settings
        if now - self._last_clean >= settings.clean_resource_interval:
            self._last_clean = now
            yield partial(clean, store)
            yield store.empty_trash
        if now - self._last_write_out >= settings.flush_interval_consume_queue:
            self._last_write_out = now
            yield store.queues.write_out
            yield partial(store.queues.sync, settings.flush_consume_queue_least_pages)
        end = store.log.end
        if is_save_due(settings, end - self._saved, now - self._last_save):
            yield partial(self._save, now, end)
        yield store.log.prepare_ahead
        yield store.index.prepare_ahead

    def _save(self, now: float, end: int) -> None:
        self._store.save_progress()
        self._last_save, self._saved = now, end
