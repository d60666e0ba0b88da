"""The pages of a program, called as the HTTP server calls them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from pocketmq.service import health
from pocketmq.service.health import health_pages
from pocketmq.service.http import Page, Pages, Request
from pocketmq.service.metrics import Measure

CLIENTS = Measure("clients", "gauge", "Connections that are open.", [({}, 3)])


async def page_of(pages: Pages, path: str) -> Page:
    page = pages[path](Request("GET", path, {}))
    return page if isinstance(page, Page) else await page


def pages_of(reason: str | None = None) -> Pages:
    return health_pages(lambda: reason, lambda: [CLIENTS])


@pytest.mark.trio
async def test_whoever_answers_is_live_ready_or_not() -> None:
    for reason in (None, "the store is recovering"):
        assert await page_of(pages_of(reason), "/livez") == Page(200, b"ok\n")


@pytest.mark.trio
async def test_readiness_is_asked_each_time_and_its_absence_has_a_reason() -> None:
    reasons = iter(["the store is recovering", None, "stopping"])
    pages = health_pages(lambda: next(reasons), list)
    assert await page_of(pages, "/readyz") == Page(503, b"the store is recovering\n")
    assert await page_of(pages, "/readyz") == Page(200, b"ok\n")
    assert await page_of(pages, "/readyz") == Page(503, b"stopping\n")


@pytest.mark.trio
async def test_the_metrics_are_what_prometheus_reads() -> None:
    page = await page_of(pages_of(), "/metrics")
    assert (page.status, page.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"\nclients 3.0\n" in page.body
    assert b"\nprocess_open_fds " in page.body


@pytest.mark.trio
async def test_measures_are_taken_by_the_loop_and_written_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def measures() -> Iterator[Measure]:
        threads.append(threading.current_thread())
        yield CLIENTS

    def render(measures: tuple[Measure, ...]) -> bytes:
        threads.append(threading.current_thread())
        return repr(measures).encode()

    monkeypatch.setattr(health, "render", render)
    page = await page_of(health_pages(lambda: None, measures), "/metrics")
    assert page.body == repr((CLIENTS,)).encode()
    first, second = threads
    assert first is threading.current_thread()
    assert second is not first


@pytest.mark.trio
async def test_however_many_ask_one_thread_is_kept_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = threading.Lock()

    def render(measures: tuple[Measure, ...]) -> bytes:
        assert busy.acquire(blocking=False)
        trio.from_thread.run(trio.testing.wait_all_tasks_blocked)
        busy.release()
        return b""

    monkeypatch.setattr(health, "render", render)
    pages = pages_of()
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(page_of, pages, "/metrics")


@pytest.mark.trio
async def test_without_the_library_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    page = await page_of(pages_of(), "/metrics")
    assert page.status == 501
    assert page.body.endswith(b" needs an optional dependency; install it with: pip install 'pocketmq[metrics]'\n")


@pytest.mark.trio
async def test_the_first_page_lists_the_others() -> None:
    assert await page_of(pages_of(), "/") == Page(200, b"/livez\n/readyz\n/metrics\n")
