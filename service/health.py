"""The pages that tell how a program fares, to people, to orchestrators and to Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus

import trio

from pocketmq.protocol.errors import MissingExtraError
from pocketmq.service.http import Page, Pages, Request
from pocketmq.service.metrics import CONTENT_TYPE, Measure, render


def health_pages(ready: Callable[[], str | None], measures: Callable[[], Iterable[Measure]]) -> Pages:
    """The pages of a program that says why it is not ready, if it is not, and what it has counted."""
    rendering = trio.Lock()  # however many ask, one thread is kept busy

    def index(request: Request) -> Page:
        return Page.of(HTTPStatus.OK, "\n".join(path for path in pages if path != "/"))

    def livez(request: Request) -> Page:
        """Live is who answers: the page is made by the loop that serves everybody."""
        return Page.of(HTTPStatus.OK, "ok")

    def readyz(request: Request) -> Page:
        reason = ready()
        return Page.of(HTTPStatus.OK, "ok") if reason is None else Page.of(HTTPStatus.SERVICE_UNAVAILABLE, reason)

    async def metrics(request: Request) -> Page:
        async with rendering:
            collected = tuple(measures())  # here and not in the thread: what is counted belongs to the loop
            try:
                text = await trio.to_thread.run_sync(render, collected, abandon_on_cancel=True)
            except MissingExtraError as error:
                return Page.of(HTTPStatus.NOT_IMPLEMENTED, str(error))
        return Page(HTTPStatus.OK, text, CONTENT_TYPE)

    pages: Pages = {"/": index, "/livez": livez, "/readyz": readyz, "/metrics": metrics}
    return pages
