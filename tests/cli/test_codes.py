from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from pocketmq.cli.main import main
from pocketmq.protocol.requests import REQUESTS


def run(*arguments: str, terminal: bool = False) -> Result:
    # rich takes a stream for a terminal when it is told so by the environment
    environment = {"FORCE_COLOR": "1" if terminal else None, "COLUMNS": "120"}
    return CliRunner(env=environment).invoke(main, arguments, prog_name="pocketmq")


def cells(result: Result) -> list[list[str]]:
    assert result.exit_code == 0
    return [line.split("\t") for line in result.output.splitlines()]


def test_codes_lists_every_request_once() -> None:
    titles, *rows = cells(run("codes"))
    assert titles == ["code", "name", "served by", "sent by"]
    assert [(int(code), name) for code, name, *_ in rows] == [(code, row.code.name) for code, row in REQUESTS.items()]


def test_codes_says_who_serves_and_who_sends_a_request() -> None:
    assert ["105", "GET_ROUTEINFO_BY_TOPIC", "namesrv"] in [row[:3] for row in cells(run("codes"))]
    assert all(served_by and sent_by for _, _, served_by, sent_by in cells(run("codes")))


@pytest.mark.parametrize("argument", ["31", "GET_MIN_OFFSET", "get_min_offset"])
def test_codes_shows_the_headers_of_a_request_by_code_or_name(argument: str) -> None:
    _, summary, titles, *fields = cells(run("codes", argument))
    assert summary[:3] == ["31", "GET_MIN_OFFSET", "broker"]
    assert titles == ["part of", "field", "type", "if absent"]
    assert ["request", "queueId", "int32", "refused"] in fields
    assert ["response", "offset", "int64", "refused"] in fields


def test_codes_shows_the_default_of_a_field_as_it_is_written_on_the_wire() -> None:
    fields = cells(run("codes", "SEND_MESSAGE"))
    assert ["request", "unitMode", "boolean", "false"] in fields
    assert ["request", "properties", "text", ""] in fields


def test_codes_shows_the_bodies_of_a_request_and_of_its_answer() -> None:
    assert ["request", "(body)", "body of a message", ""] in cells(run("codes", "SEND_MESSAGE"))
    assert ["response", "(body)", "JSON: consumerIdList", ""] in cells(run("codes", "38"))
    assert not [row for row in cells(run("codes", "GET_MAX_OFFSET")) if "(body)" in row]


def test_codes_draws_a_table_on_a_terminal() -> None:
    output = run("codes", "SEND_MESSAGE", terminal=True).output
    assert "\t" not in output
    assert "│ 10" in output


@pytest.mark.parametrize("argument", ["9999", "SEND_MESSAG", ""])
def test_an_unknown_code_is_named_with_the_next_step(argument: str) -> None:
    result = run("codes", argument)
    assert result.exit_code == 2
    assert f"no request has the code or name {argument!r}; list them all with: pocketmq codes" in result.output
