"""Settings: texts <-> frozen dataclasses.

A class of settings is a frozen dataclass whose fields all have defaults. RocketMQ's name of a field is the camelCase of
the attribute, unless `field(metadata={"name": ...})` says otherwise. A field is a `str`, `int`, `float`, `bool`, an
`Enum` (its text is the name of a member), or of any class whose `parse` reads a text, or raises a ValueError, and whose
`str` gives that text back. `X | None` is None when the text is empty. Blanks around a text are dropped.

What a flag gives counts more than an option, then come the environment, the file, and the default.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from pocketmq.service.errors import SettingsError
from pocketmq.service.sources import (
    PREFIX,
    Entry,
    Source,
    foreign_variables,
    parse_options,
    read_environment,
    read_file,
    variable,
)

Settings = TypeVar("Settings")

_FEW: Final = 12  # so many names may be listed in an error
_LONG: Final = 80  # no name has so many characters; what is looked for is cut here, as a peer may have sent it


class Loaded(NamedTuple):
    """An instance of each class, in their order, and lines for the log, which is set up only after this."""

    values: tuple[Any, ...]
    notes: tuple[str, ...]


def load(
    *classes: type[Any],
    file: Path | None = None,
    environ: Mapping[str, str] = {},
    options: Sequence[str] = (),
    given: Mapping[str, str] = {},
    without_effect: Collection[str] = (),
) -> Loaded:
    """The settings of a program; a `SettingsError` names everything that is wrong with them.

    `options` have the form NAME=VALUE; `given` holds by name what has a flag of its own. Names in `without_effect` are
    settings of RocketMQ that mean nothing here: they are noted. So are variables that look like settings and are none,
    because an environment is shared with other programs.
    """
    accepted = [*(name for cls in classes for name in names(cls)), *without_effect]
    assert len(accepted) == len(set(accepted)), "a setting belongs to one class, or has no effect"
    sources = (
        read_file(file) if file else Source(),
        read_environment(environ, accepted),
        parse_options(options),
        Source([Entry(name, text, "command line") for name, text in given.items()]),
    )
    entries = {entry.name: entry for source in sources for entry in source.entries}
    problems = [problem for source in sources for problem in source.problems]
    problems += [_at(entry, _unknown(name, accepted)) for name, entry in entries.items() if name not in accepted]
    built = [_replace(cls(), [entries[name] for name in names(cls) if name in entries]) for cls in classes]
    _refuse_if([*problems, *(problem for _, found in built for problem in found)])
    notes = [_at(entry, f"{name} has no effect here") for name, entry in entries.items() if name in without_effect]
    notes += [_foreign(place, accepted) for place in foreign_variables(environ, accepted)]
    return Loaded(tuple(settings for settings, _ in built), tuple(notes))


def names(cls: type[Any]) -> tuple[str, ...]:
    """RocketMQ's names of the settings of a class."""
    return tuple(_fields(cls))


def to_texts(settings: object) -> dict[str, str]:
    """All settings by RocketMQ's names, as texts that `load` and `changed` read back."""
    return {name: _text(getattr(settings, field.attribute)) for name, field in _fields(type(settings)).items()}


def changed(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """The settings with these replaced; a `SettingsError` names what is wrong with them, and a few unknown names.

    The texts may come from a peer, so what an error takes to find and to send has a limit.
    """
    known = names(type(settings))
    unknown = [_unknown(name, known) for name in islice((name for name in texts if name not in known), _FEW)]
    replaced, problems = _replace(settings, [Entry(name, text, "") for name, text in texts.items() if name in known])
    _refuse_if([*unknown, *problems])
    return replaced


def _replace(settings: Settings, entries: Iterable[Entry]) -> tuple[Settings, list[str]]:
    """The settings with what the entries say, or as they are and what is wrong with the entries."""
    fields, values, problems = _fields(type(settings)), {}, []
    for entry in entries:
        field = fields[entry.name]
        try:
            values[field.attribute] = field.parse(entry.text.strip())
        except ValueError as error:
            problems.append(_at(entry, f"{entry.name}: {error}"))
    if not problems:  # else a check of the whole would speak of values that were not meant
        try:
            return dataclasses.replace(settings, **values), []  # type: ignore[type-var]
        except ValueError as error:
            problems.append(str(error))
    return settings, problems


def _refuse_if(problems: Sequence[str]) -> None:
    if problems:
        raise SettingsError("\n".join(problems))


# --- words


def _at(entry: Entry, what: str) -> str:
    return f"{entry.origin}: {what}" if entry.origin else what


def _unknown(name: str, known: Collection[str]) -> str:
    if near := _nearest(name, known):
        advice = f"did you mean {near!r}?"
    elif len(known) <= _FEW:
        advice = f"there are {', '.join(sorted(known))}"
    else:
        advice = f"none of the {len(known)} that there are has a name like it"
    return f"there is no setting {name!r:.80}; {advice}"


def _foreign(place: str, known: Collection[str]) -> str:
    near = _nearest(place.removeprefix(PREFIX).replace("_", ""), known)
    return f"{place} is no setting of this program" + (f"; did you mean {variable(near)}?" if near else "")


def _nearest(name: str, known: Collection[str]) -> str | None:
    spellings = {candidate.lower(): candidate for candidate in sorted(known)}
    return next((spellings[near] for near in difflib.get_close_matches(name[:_LONG].lower(), spellings, n=1)), None)


# --- fields and their texts


class _Field(NamedTuple):
    attribute: str
    parse: Callable[[str], Any]


def _fields(cls: type[Any]) -> Mapping[str, _Field]:
    """The fields of a class by RocketMQ's names."""
    hints = get_type_hints(cls)
    return {_name(field): _Field(field.name, _parser(hints[field.name])) for field in dataclasses.fields(cls)}


def _name(field: dataclasses.Field[Any]) -> str:
    first, *rest = field.name.split("_")
    name: str = field.metadata.get("name") or first + "".join(word.capitalize() for word in rest)
    return name


def _parser(hint: Any) -> Callable[[str], Any]:
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return partial(_parse_optional, _parser(inner))
    if hint in _PARSERS:
        return _PARSERS[hint]
    if hasattr(hint, "parse"):
        return partial(hint.parse)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(_parse_member, hint)
    raise TypeError(f"a setting cannot be a {hint!r}")


def _parse_optional(parse: Callable[[str], Any], text: str) -> Any:
    return parse(text) if text else None


def _parse_member(enum: type[Enum], text: str) -> Enum:
    for name, member in enum.__members__.items():
        if name.lower() == text.lower():
            return member
    raise ValueError(f"{text!r:.80} is none of {', '.join(enum.__members__)}")


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r:.80} is neither true nor false")
    return text.lower() == "true"


def _parse_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # Python decodes what it cannot as halves of characters
        raise ValueError(f"{text!r:.80} is not UTF-8") from None
    return text


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,100}")  # far more digits are refused by Python too, in its own words
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _parse_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r:.80} is no whole number")
    return int(text)


def _parse_number(text: str) -> float:
    if not _NUMBER.fullmatch(text) or not math.isfinite(number := float(text)):
        raise ValueError(f"{text!r:.80} is no number")
    return number


_PARSERS: Final[Mapping[Any, Callable[[str], Any]]] = {
    str: _parse_text,
    int: _parse_integer,
    float: _parse_number,
    bool: _parse_boolean,
}


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum) and not hasattr(value, "parse"):
        return value.name
    return str(value)
