r"""The configuration of a broker or NameServer as text: one `name=value\n` per setting.

RocketMQ writes neither comments nor escapes here, so a backslash is just a backslash. What people may put
into such a text is allowed for: blank lines, comments, blanks around the name.
"""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError


def parse_config_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Settings by name; of two with the same name the last one counts."""
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"configuration is not UTF-8 at byte {error.start}") from None
    lines = (line.strip("\r\t ") for line in text.split("\n"))
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {name.rstrip("\t "): value.lstrip("\t ") for name, _, value in pairs}


def write_config_text(settings: Mapping[str, str]) -> bytes:
    """The text of settings; a name or value that would not come back the same is refused."""
    return b"".join(_line(name, value) for name, value in settings.items())


def _line(name: str, value: str) -> bytes:
    try:
        line = f"{name}={value}\n".encode()
    except UnicodeEncodeError:
        line = b""
    if parse_config_text(line) != {name: value}:
        raise LocalProtocolError(f"cannot be a line of configuration: {name!r} = {value!r}")
    return line
