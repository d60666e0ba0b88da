"""Where a program listens, as one text: `HOST:PORT`, and `[HOST]:PORT` for an IPv6 address."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(
    r"""(?: \[ (?P<v6> [0-9a-fA-F.]* : [0-9a-fA-F.:]* (?: % [\w.-]+ )? ) \] | (?P<name> [\w.-]+ ) )
        (?: : (?P<port> \d{1,5} ) )?""",
    re.VERBOSE | re.ASCII,  # a name in another script has an ASCII form too: xn--...
)


class Address(NamedTuple):
    """A host and a port; `parse` reads what `str` gives."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> Address:
        """The address in a text, which may leave the port out if there is a default."""
        form = _FORM.fullmatch(text.strip())
        port = _port(form, default_port)
        if form is None or port is None:
            forms = "HOST:PORT or [IPV6]:PORT" if default_port is None else "HOST, HOST:PORT or [IPV6]:PORT"
            raise ValueError(f"{text!r:.80} is no address; write {forms} with a port from 0 to 65535")
        return cls(form["v6"] or form["name"], port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _port(form: re.Match[str] | None, default_port: int | None) -> int | None:
    if form is None or form["port"] is None:
        return default_port
    port = int(form["port"])
    return port if port < 65536 else None
