"""`pocketmq namesrv`, which is `python -m pocketmq.namesrv` too."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pocketmq.service.addresses import Address
from pocketmq.service.command import config_option, listen_option, read_settings, setting_option


@click.command()
@config_option
@listen_option(9876)
@setting_option
def namesrv(file: Path | None, listen: Address | None, options: tuple[str, ...]) -> None:
    """Run a NameServer, which tells where topics are."""
    # Here, as whoever only wants the help should not wait for an event loop to be loaded.
    from pocketmq.namesrv.server import NameServer
    from pocketmq.namesrv.settings import WITHOUT_EFFECT, NamesrvSettings
    from pocketmq.service.listening import raise_descriptor_limit
    from pocketmq.service.program import run

    settings, service = read_settings(
        NamesrvSettings, file=file, options=options, listen=listen, without_effect=WITHOUT_EFFECT
    )
    raise_descriptor_limit()
    server = NameServer(settings, service)
    sys.exit(run(server.serve, server.shutdown))
