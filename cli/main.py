"""The `pocketmq` command, also installed as `pmq`. A subcommand is loaded when it is called, or when all are listed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

import click

_COMMANDS: Final[Mapping[str, str]] = {
    "codes": "pocketmq.cli.codes",
    "namesrv": "pocketmq.namesrv.command",
}
"""Each subcommand, and the module that has it under its own name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(cls=_Commands)
@click.version_option(package_name="pocketmq", message="%(prog)s %(version)s")
def main() -> None:
    """A pocket-sized Apache RocketMQ."""
