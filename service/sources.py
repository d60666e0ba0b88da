r"""Where the texts of settings come from: files, options and the environment.

RocketMQ's `.conf` files are Java's properties files:

- a line is a name, then `=`, `:` or a blank, then a text; blanks around the separator and before the name are dropped;
- a line whose first character is `#` or `!` is a comment;
- a line that ends with a backslash goes on in the next one, without the blanks that begin that one;
- `\t`, `\n`, `\r`, `\f` and `\uXXXX` are what they are elsewhere, and any other character after a backslash is itself.

Java takes their bytes for ISO 8859-1; here they are UTF-8, as editors write them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """One setting as it was found; the origin is for people."""

    name: str
    text: str
    origin: str


class Source(NamedTuple):
    """What one place says, in its order, and what of it could not be read: everything wrong is told at once."""

    entries: Sequence[Entry] = ()
    problems: Sequence[str] = ()


# --- files


def read_file(path: Path) -> Source:
    """The settings of a file: TOML if its name ends in `.toml`, and properties if it does not."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Source(problems=[f"the file {path} cannot be read: {error.strerror}"])
    return parse_toml(data, str(path)) if path.suffix == ".toml" else parse_properties(data, str(path))


def parse_properties(data: bytes, origin: str) -> Source:
    """The settings of a properties file; of two with the same name the last one counts."""
    entries, problems = [], []
    for number, line in _logical_lines(data.decode("utf-8-sig", "surrogateescape")):
        place = f"{origin} line {number}"
        try:
            name, text = _split_property(line)
            entries.append(Entry(_unescape(name), _unescape(text), place))
        except ValueError as error:
            problems.append(f"{place}: {error}")
    return Source(entries, problems)


_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_PROPERTY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MEANINGS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, each in one piece, with the number of its first part."""
    line, first = "", 0
    for number, part in enumerate(_LINE_END.split(text), 1):
        part = part.lstrip(_BLANKS)
        if not line:
            if part.startswith(("#", "!")):
                continue
            first = number
        goes_on = _goes_on(part)
        line += part[:-1] if goes_on else part
        if line and not goes_on:
            yield first, line
            line = ""
    if line:
        yield first, line


def _goes_on(line: str) -> bool:
    """Whether the backslash at the end, if any, is one itself: of two the first escapes the second."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_property(line: str) -> tuple[str, str]:
    if any("\udc80" <= character <= "\udcff" for character in line):  # so Python decodes what it cannot
        raise ValueError("this is not UTF-8")
    match = _PROPERTY.fullmatch(line)
    assert match is not None, "a logical line never ends inside an escape"
    return match[1], match[2]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_meaning, text)
    try:
        return units.encode("utf-16", "surrogatepass").decode("utf-16")  # \ud83d\ude00 is one character
    except UnicodeDecodeError:
        raise ValueError(r"half a character: \uD800 to \uDFFF come in pairs") from None


def _meaning(escape: re.Match[str]) -> str:
    digits, character = escape.groups()
    if digits is not None:
        return chr(int(digits, 16))
    if character == "u":
        raise ValueError(r"\u is followed by four hexadecimal digits; a backslash is written \\")
    return _MEANINGS.get(character, character)


def parse_toml(data: bytes, origin: str) -> Source:
    """The settings of a TOML file; the names of tables and of what is in them are joined by dots."""
    import tomllib  # most files are properties, and a program starts sooner without

    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        return Source(problems=[f"{origin} line {number}: this is not UTF-8"])
    except ValueError as error:  # mostly TOMLDecodeError; thousands of digits are refused in Python's own words
        return Source(problems=[f"{origin}: {error}"])
    entries, problems = [], []
    for name, value in _flatten(table):
        if isinstance(value, str | int | float):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            entries.append(Entry(name, text, origin))
        else:
            problems.append(f"{origin}: {name}: a setting is a string, a number or a boolean")
    return Source(entries, problems)


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


# --- options and the environment


def parse_options(options: Sequence[str]) -> Source:
    """The settings in options of the form NAME=VALUE."""
    entries = [
        Entry(name.strip(), text, "-o")
        for name, equals, text in (option.partition("=") for option in options)
        if equals
    ]
    return Source(entries, [f"-o: {option!r:.80} is no NAME=VALUE" for option in options if "=" not in option])


PREFIX: Final = "POCKETMQ_"
_ALIASES: Final = {"namesrvAddr": "NAMESRV_ADDR"}  # as RocketMQ's own programs read it
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def variable(name: str) -> str:
    """The environment's word for a setting: `brokerIP1` is POCKETMQ_BROKER_IP1."""
    return PREFIX + _WORD_START.sub("_", name).replace(".", "_").upper()


def read_environment(environ: Mapping[str, str], names: Collection[str]) -> Source:
    """The settings of these names that the environment has; of two for the same name the last one counts."""
    places = [(name, _ALIASES[name]) for name in sorted(names) if name in _ALIASES]
    places += [(name, variable(name)) for name in sorted(names)]
    return Source([Entry(name, environ[place], place) for name, place in places if place in environ])


def foreign_variables(environ: Mapping[str, str], names: Collection[str]) -> list[str]:
    """The variables that look as if they were settings, and are none of these names."""
    ours = {variable(name) for name in names}
    return sorted(place for place in environ if place.startswith(PREFIX) and place not in ours)
