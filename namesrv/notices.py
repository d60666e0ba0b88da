"""Telling brokers that the lowest id among them has changed: the one thing that a NameServer says unasked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable
from typing import Final

import trio

from pocketmq.namesrv.routes import LeaderChange
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.headers.namesrv import NotifyMinBrokerIdChangeRequest
from pocketmq.remoting.errors import RemotingError

logger = logging.getLogger("pocketmq.namesrv")

MAX_CHANGES: Final = 64
"""Changes that wait to be told. Of any more nobody is told: whoever reaches the port can bring them about."""

_TIMEOUT: Final = 3.0


async def tell_all(changes: AsyncIterable[LeaderChange]) -> None:
    """Tell one change after the other."""
    async for change in changes:
        await tell_brokers(change)


async def tell_brokers(change: LeaderChange) -> None:
    """Tell all that are to be told. One that cannot be reached asks by itself before long."""
    header = NotifyMinBrokerIdChangeRequest(
        change.lowest_id, change.broker_name, change.lowest_address, change.gone_address, change.ha_address
    )
    async with trio.open_nursery() as nursery:
        for address in change.to_tell:
            nursery.start_soon(_tell, address, header)


async def _tell(address: str, header: NotifyMinBrokerIdChangeRequest) -> None:
    from pocketmq.remoting.connection import open_connection  # which loads AnyIO, and hardly anybody needs it here

    host, _, port = address.replace("[", "").replace("]", "").rpartition(":")
    try:
        async with open_connection(host, int(port), timeout=_TIMEOUT, offer=False) as connection:
            connection.notify(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
    except RemotingError as error:
        logger.warning("broker %s was not told that id %s leads now: %s", address, header.min_broker_id, error)
