"""The settings that the two programs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pocketmq.service.addresses import Address
from pocketmq.service.errors import SettingsError
from pocketmq.service.logs import LogLevel

_HTTP_HOST: Final = "127.0.0.1"
_HTTP_DISTANCE: Final = 2  # a broker's own port is 10911; RocketMQ takes 10909 and 10912 as well


@dataclass(frozen=True, slots=True)
class HttpListen:
    """Where health and metrics are served: HOST:PORT, `off`, or `auto`, which is on this machine, next to the program.

    `auto` takes the program's own port and 2, and any free port if that is 0: programs live side by side.
    """

    where: Address | Literal["auto", "off"] = "auto"

    @classmethod
    def parse(cls, text: str) -> HttpListen:
        match text.strip().lower():
            case "auto" | "off" as word:
                return cls(word)
        try:
            return cls(Address.parse(text))
        except ValueError as error:
            raise ValueError(f"{error}, or auto, or off") from None

    def __str__(self) -> str:
        return str(self.where)

    def address(self, listen_port: int) -> Address | None:
        """The address for a program that listens on this port itself; none if nothing is served."""
        if self.where == "off":
            return None
        if self.where != "auto":
            return self.where
        port = listen_port and listen_port + _HTTP_DISTANCE
        if port > 65535:
            raise SettingsError(f"httpListen: auto is port {port}, and the last one is 65535; write HOST:PORT or off")
        return Address(_HTTP_HOST, port)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """What every program has. RocketMQ has neither setting."""

    log_level: LogLevel = LogLevel.INFO
    """The least important lines that are logged."""

    http_listen: HttpListen = HttpListen()
    """Where health and metrics are served."""
