"""`pocketmq codes`: the table of requests, for people.

Tables are drawn on a terminal; anywhere else the same cells come as lines with tabs, for `cut` and `grep`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.fields import Field, codec
from pocketmq.protocol.requests import REQUESTS, Content, RequestSpec, Users

_SUMMARY: Final = ("code", "name", "served by", "sent by")
_FIELDS: Final = ("part of", "field", "type", "if absent")


@click.command()
@click.argument("code", metavar="[CODE_OR_NAME]", required=False)
def codes(code: str | None) -> None:
    """List the request codes, or show what one of them carries."""
    if code is None:
        _show(_SUMMARY, map(_summary, REQUESTS.values()))
    else:
        request = _find(code)
        _show(_SUMMARY, [_summary(request)])
        _show(_FIELDS, _fields(request))


def _find(code: str) -> RequestSpec:
    for request in REQUESTS.values():
        if code.upper() in (str(int(request.code)), request.code.name):
            return request
    raise click.UsageError(f"no request has the code or name {code!r}; list them all with: pocketmq codes")


def _summary(request: RequestSpec) -> Sequence[str]:
    served_by = ", ".join(role.value for role in request.served_by)
    sent_by = ", ".join(Users[letter].value for letter in request.users)
    return str(int(request.code)), request.code.name, served_by, sent_by


def _fields(request: RequestSpec) -> Iterable[Sequence[str]]:
    for which, header, body in (
        ("request", request.request, request.request_body),
        ("response", request.response, request.response_body),
    ):
        for field in codec(header).fields:
            yield which, field.wire, field.kind.value, _if_absent(field)
        if body is not None:
            yield which, "(body)", _body(body), ""


def _body(body: type[Body] | Content) -> str:
    return body.value if isinstance(body, Content) else f"JSON: {', '.join(body.members())}"


def _if_absent(field: Field) -> str:
    if field.required:
        return "refused"
    return "" if field.default is None else str(field.default).lower()


def _show(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console  # here, as `pocketmq --help` loads this module for its first line
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        for row in (columns, *rows):
            click.echo("\t".join(row))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    console.print(table)
