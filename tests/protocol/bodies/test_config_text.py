"""Configuration as lines of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies import parse_config_text, write_config_text
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("a=1\n", {"a": "1"}),
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=\n", {"a": ""}),
        ("a\n", {"a": ""}),
        ("a=b=c\n", {"a": "b=c"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("# note\n! note\n\n \t\n a = 1 \n", {"a": "1"}),
        ("a=#1\n", {"a": "#1"}),
        ("path=C:\\new\\u0041\\\nb=2\n", {"path": "C:\\new\\u0041\\", "b": "2"}),
        ("url=http://x:1/?a=b&c\n", {"url": "http://x:1/?a=b&c"}),
        ("名=值\n", {"名": "值"}),
        ("a=1\x0b2\u20283\x85\n", {"a": "1\x0b2\u20283\x85"}),  # only a line feed ends a line
    ],
)
def test_lines_are_settings(text: str, settings: dict[str, str]) -> None:
    assert parse_config_text(text.encode()) == settings
    assert parse_config_text(memoryview(bytearray(text.encode()))) == settings


def test_settings_are_written_in_their_order() -> None:
    assert write_config_text({"b": "2", "a": "", "c": "x = y"}) == b"b=2\na=\nc=x = y\n"
    assert write_config_text({}) == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [("a=b", ""), ("a", "1\n2"), ("a", " 1"), ("a", "1 "), (" a", "1"), ("#a", "1"), ("!a", "1"), ("a", "\ud83d")],
)
def test_what_would_not_read_back_is_refused(name: str, value: str) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be a line of configuration"):
        write_config_text({"fine": "1", name: value})


names = st.text(st.characters(codec="utf-8", exclude_characters="\n=#! \t\r"), min_size=1, max_size=10)
values = st.text(st.characters(codec="utf-8", exclude_characters="\n \t\r"), max_size=10)


@given(st.dictionaries(names, values, max_size=5))
def test_settings_come_back(settings: dict[str, str]) -> None:
    assert parse_config_text(write_config_text(settings)) == settings


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3))
def test_any_settings_come_back_or_are_refused(settings: dict[str, str]) -> None:
    try:
        text = write_config_text(settings)
    except LocalProtocolError:
        return
    assert parse_config_text(text) == settings


@given(st.binary(max_size=40))
def test_any_bytes_are_settings_or_not_utf_8(data: bytes) -> None:
    try:
        settings = parse_config_text(data)
    except RemoteProtocolError:
        assert "\ufffd" in data.decode(errors="replace")
    else:
        assert data.decode().count("\n") + 1 >= len(settings)


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(RemoteProtocolError, match="not UTF-8 at byte 2"):
        parse_config_text(b"a=\xff")
