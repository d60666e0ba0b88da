"""What the command lines of the programs have in common."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pocketmq.service.addresses import Address
from pocketmq.service.errors import SettingsError
from pocketmq.service.logs import configure
from pocketmq.service.options import ServiceSettings
from pocketmq.service.settings import load

logger = logging.getLogger("pocketmq.service")

Function = TypeVar("Function", bound=Callable[..., object])

config_option: Final = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Settings: RocketMQ's .conf format, or TOML if the name ends in .toml.",
)
setting_option: Final = click.option(
    "-o", "options", multiple=True, metavar="NAME=VALUE", help="Any setting, under RocketMQ's name."
)


def listen_option(default_port: int) -> Callable[[Function], Function]:
    """The option --listen, as an `Address` or None."""

    def parse(context: click.Context, parameter: click.Parameter, text: str | None) -> Address | None:
        try:
            return None if text is None else Address.parse(text, default_port)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    text = f"Where to listen; the port is {default_port} unless given. 0.0.0.0 lets other machines in."
    return click.option("--listen", metavar="HOST[:PORT]", callback=parse, help=text)


def read_settings(
    settings: type[Any],
    *,
    file: Path | None,
    options: Sequence[str],
    listen: Address | None,
    without_effect: Collection[str] = (),
) -> tuple[Any, ServiceSettings]:
    """The settings of a program, from everywhere they may be; what is wrong with them is a usage error.

    From here on the program logs. `listen` stands for `bindAddress` and `listenPort`.
    """
    where = {} if listen is None else {"bindAddress": listen.host, "listenPort": str(listen.port)}
    try:
        (own, service), notes = load(
            settings,
            ServiceSettings,
            file=file,
            environ=os.environ,
            options=options,
            given=where,
            without_effect=without_effect,
        )
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    configure(service.log_level)
    for note in notes:
        logger.warning("%s", note)
    return own, service
