"""Listeners of a program, and how many connections the system lets it have."""

from __future__ import annotations

import errno
import logging
import resource
from collections.abc import Sequence
from typing import Final

import trio

from pocketmq.service.addresses import Address
from pocketmq.service.errors import ServiceError

logger = logging.getLogger("pocketmq.service")

_ATTEMPTS: Final = 20  # to find a port that is free at every address of a name


async def open_listeners(address: Address, setting: str) -> list[trio.SocketListener]:
    """Listen at an address, whose port may be 0 for any that is free; an error names the setting it came from."""
    try:
        return await _open(address)
    except (OSError, UnicodeError) as error:  # a UnicodeError is about a name that cannot be one
        cause = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        raise ServiceError(f"cannot listen on {address}: {cause}; change {setting}") from error


async def _open(address: Address) -> list[trio.SocketListener]:
    for _ in range(_ATTEMPTS):
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
        port = bound(listeners).port
        if {bound([listener]).port for listener in listeners} == {port}:
            return listeners
        # A name with two addresses, and each got a port of its own: one of them may be free at both.
        for listener in listeners:
            listener.socket.close()
        try:
            return await trio.open_tcp_listeners(port, host=address.host)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no port is free at all of its addresses; {_ATTEMPTS} were tried")


def bound(listeners: Sequence[trio.SocketListener]) -> Address:
    """Where the first one listens, with the port that it really has."""
    host, port = listeners[0].socket.getsockname()[:2]
    return Address(host, port)


def raise_descriptor_limit() -> int:
    """Let the process have as many open files as it may allow itself, and return how many; a connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS has a hard limit that is none, and another that it enforces
            logger.info("the limit of open files stays %d: %s", soft, error)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
