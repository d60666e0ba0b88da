"""Sources: properties as Java reads them, TOML, options, and the environment's words for settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.service.sources import (
    Entry,
    Source,
    foreign_variables,
    parse_options,
    parse_properties,
    parse_toml,
    read_environment,
    read_file,
    variable,
)

# As RocketMQ ships it.
BROKER_CONF = b"""\
# Licensed to the Apache Software Foundation (ASF) under one or more
#  limitations under the License.

brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def pairs(source: Source) -> list[tuple[str, str]]:
    assert not source.problems
    return [(entry.name, entry.text) for entry in source.entries]


def properties(text: str) -> list[tuple[str, str]]:
    return pairs(parse_properties(text.encode(), "f"))


# --- properties


def test_the_file_that_rocketmq_ships_is_read() -> None:
    source = parse_properties(BROKER_CONF, "broker.conf")
    assert dict(pairs(source)) == {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
    }
    assert source.entries[0] == Entry("brokerClusterName", "DefaultCluster", "broker.conf line 4")


# What java.util.Properties says to the same texts.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \t\f\r\n\r", []),
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a\tb\fc", [("a", "b\fc")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        (" \t\fa = b ", [("a", "b ")]),
        ("a = = b", [("a", "= b")]),
        ("a  :=b", [("a", "=b")]),
        ("a=b=c:d e", [("a", "b=c:d e")]),
        ("=b", [("", "b")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("a=1\r\nb=2\rc=3\n\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("a=x\u2028b\x85c\x0bd", [("a", "x\u2028b\x85c\x0bd")]),
        ("# a=1\n ! b=2\n#\n!\nc=3#4!", [("c", "3#4!")]),
        ("#a\\\nb=1", [("b", "1")]),
        ("a#b=1", [("a#b", "1")]),
        ("a=1,\\\n  2,\\\r\n\t3", [("a", "1,2,3")]),
        ("a\\\n  b=1", [("ab", "1")]),
        ("a=1\\\n#2", [("a", "1#2")]),
        ("a=1\\\n\nb=2", [("a", "1"), ("b", "2")]),
        ("a=1\\\n  \nb=2", [("a", "1"), ("b", "2")]),
        ("a=1\\", [("a", "1")]),
        ("a=1\\\n", [("a", "1")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\\\\\\nb=2", [("a", "1\\b=2")]),
        ("\\\n# b=2\nc=3", [("c", "3")]),
        ("\\\n\\\na=1", [("a", "1")]),
        (r"a=\t\n\r\f", [("a", "\t\n\r\f")]),
        (r"a=\a\b\z\"\'\8", [("a", "abz\"'8")]),
        (r"a\=b\:c\ d\#=\=", [("a=b:c d#", "=")]),
        (r"\#a=1", [("#a", "1")]),
        ("a=\\ 1 ", [("a", " 1 ")]),
        (r"a=\u0041\u00e9\u00E9\u20acz", [("a", "Aéé€z")]),
        (r"a=\ud83d\ude00", [("a", "😀")]),
        (r"a=\\u0041", [("a", r"\u0041")]),
        (r"\u0061\u003db=1", [("a=b", "1")]),
        (r"a=\u000a\u0000\ufeff", [("a", "\n\0\ufeff")]),
        ("a=标签 😀", [("a", "标签 😀")]),
    ],
)
def test_properties_are_read_as_by_java(text: str, expected: list[tuple[str, str]]) -> None:
    assert properties(text) == expected


def test_a_byte_order_mark_and_a_lone_backslash_say_nothing() -> None:
    assert properties("\ufeffa=1\n\\") == [("a", "1")]


def test_a_setting_knows_the_line_that_it_begins_on() -> None:
    source = parse_properties(b"# a\n\na=1\r\nb=2,\\\n3\n \\\n c=4\n", "f")
    assert [entry.origin for entry in source.entries] == ["f line 3", "f line 4", "f line 7"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (rb"path=C:\users", r"\u is followed by four hexadecimal digits; a backslash is written \\"),
        (rb"path=\u00e", r"\u is followed by four hexadecimal digits; a backslash is written \\"),
        (rb"\uzzzz=1", r"\u is followed by four hexadecimal digits; a backslash is written \\"),
        (rb"a=\ud83d", r"half a character: \uD800 to \uDFFF come in pairs"),
        (rb"a=\ude00\ud83d", r"half a character: \uD800 to \uDFFF come in pairs"),
        (b"a=\xff", "this is not UTF-8"),
        (b"\xe9=1", "this is not UTF-8"),
        (b"a=\xed\xa0\x80", "this is not UTF-8"),
    ],
)
def test_lines_that_cannot_be_read_are_named_and_the_others_are_read(line: bytes, problem: str) -> None:
    source = parse_properties(b"b=1\n" + line + b"\n" + line + b"\nc=2\n", "f")
    assert source.problems == [f"f line 2: {problem}", f"f line 3: {problem}"]
    assert [entry.name for entry in source.entries] == ["b", "c"]


def test_a_comment_may_be_in_any_encoding() -> None:
    assert pairs(parse_properties("# 主\na=1".encode("gbk"), "f")) == [("a", "1")]


def escaped(text: str, units: bool) -> str:
    r"""The text as Java's `Properties.store` writes it: either with `\uXXXX` or only with what would be misread."""
    if units:
        data = text.encode("utf-16-be")
        return "".join(rf"\u{data[at]:02x}{data[at + 1]:02X}" for at in range(0, len(data), 2))
    words = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"}
    return "".join(
        words.get(character, f"\\{character}" if character in " =:#!\\" else character) for character in text
    )


texts = st.text(st.sampled_from(" =:#!\\\t\n\r\fau\u2028") | st.characters(codec="utf-8"))


@given(st.lists(st.tuples(texts.filter(bool), texts, st.booleans())), st.sampled_from(["\n", "\r\n", "\r"]))
def test_what_was_escaped_is_read_back(settings: list[tuple[str, str, bool]], end: str) -> None:
    lines = [f"{escaped(name, units)}={escaped(text, units)}{end}" for name, text, units in settings]
    assert properties("".join(lines)) == [(name, text) for name, text, _ in settings]


@given(st.binary() | st.lists(st.sampled_from([b"\\", b"\n", b"u", b"0041", b"\xff", b"=", b"a"])).map(b"".join))
def test_any_bytes_are_settings_or_problems_with_a_line(data: bytes) -> None:
    source = parse_properties(data, "f")
    assert all(problem.startswith("f line ") for problem in source.problems)
    for entry in source.entries:
        assert entry.origin.startswith("f line ")
        assert f"{entry.name}{entry.text}".encode().decode() == entry.name + entry.text


# --- TOML


def test_the_values_of_toml_are_texts() -> None:
    data = b"""\
brokerName = "broker-a"  # a comment
path = 'C:\\users'
listenPort = 10_911
brokerId = 0x10
ratio = 0.75
autoCreateTopicEnable = true
slaveReadEnable = false
empty = ""
"""
    assert pairs(parse_toml(data, "f")) == [
        ("brokerName", "broker-a"),
        ("path", r"C:\users"),
        ("listenPort", "10911"),
        ("brokerId", "16"),
        ("ratio", "0.75"),
        ("autoCreateTopicEnable", "true"),
        ("slaveReadEnable", "false"),
        ("empty", ""),
    ]


@pytest.mark.parametrize(
    "text", ["tls.server.mode='x'", "'tls.server.mode'='x'", "[tls]\nserver.mode='x'", "tls={server={mode='x'}}"]
)
def test_the_names_of_tables_are_joined_by_dots(text: str) -> None:
    assert pairs(parse_toml(text.encode(), "f")) == [("tls.server.mode", "x")]


def test_other_values_are_named_and_the_rest_is_read() -> None:
    source = parse_toml(b"a = [1]\nb = 1\nc = 2026-01-01\n[[t.d]]\ne = 1\n", "f.toml")
    assert source.problems == [
        f"f.toml: {name}: a setting is a string, a number or a boolean" for name in ("a", "c", "t.d")
    ]
    assert source.entries == [Entry("b", "1", "f.toml")]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a = 1\nb =\n", r"f: Invalid value \(at line 2, column 4\)"),
        (b"deleteWhen = 04\n", r"f: .*\(at line 1, column \d+\)"),
        (b"a = 1\na = 2\n", r"f: Cannot overwrite a value \(at line 2, column 6\)"),
        (b"a = " + b"9" * 5000, "f: Exceeds the limit .*"),
        (b"a = 1\nb = '\xff'\n", "f line 2: this is not UTF-8"),
        (b"\xef\xbb\xbfa = 1\n\xff", "f line 2: this is not UTF-8"),
    ],
)
def test_what_is_not_toml_is_one_problem(data: bytes, problem: str) -> None:
    source = parse_toml(data, "f")
    assert not source.entries
    (only,) = source.problems
    assert re.fullmatch(problem, only)


# --- files


def test_the_name_of_a_file_tells_its_format(tmp_path: Path) -> None:
    toml, conf = tmp_path / "broker.toml", tmp_path / "broker.conf"
    toml.write_text("\ufeffbrokerName = 'a'\n")
    conf.write_text("brokerName = 'a'\n")
    assert read_file(toml) == Source([Entry("brokerName", "a", str(toml))], [])
    assert read_file(conf) == Source([Entry("brokerName", "'a'", f"{conf} line 1")], [])


@pytest.mark.parametrize("name", ["broker.conf", "broker.toml"])
def test_a_file_that_cannot_be_read_is_a_problem_with_its_cause(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert read_file(path) == Source((), [f"the file {path} cannot be read: No such file or directory"])
    path.mkdir()
    assert read_file(path) == Source((), [f"the file {path} cannot be read: Is a directory"])
    path.rmdir()
    path.symlink_to(path)
    assert read_file(path) == Source((), [f"the file {path} cannot be read: Too many levels of symbolic links"])


# --- options


def test_an_option_is_a_name_and_a_text() -> None:
    source = parse_options(["a=1", " b = 2 ", "c=", "d=e=f", "=g", "a=3"])
    assert pairs(source) == [("a", "1"), ("b", " 2 "), ("c", ""), ("d", "e=f"), ("", "g"), ("a", "3")]
    assert {entry.origin for entry in source.entries} == {"-o"}


def test_options_that_are_none_are_named() -> None:
    source = parse_options(["a", "b=1", "", "x" * 1000])
    assert source.entries == [Entry("b", "1", "-o")]
    assert source.problems[:2] == ["-o: 'a' is no NAME=VALUE", "-o: '' is no NAME=VALUE"]
    assert len(source.problems[2]) < 120


# --- the environment


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("brokerName", "POCKETMQ_BROKER_NAME"),
        ("brokerIP1", "POCKETMQ_BROKER_IP1"),
        ("listenPort", "POCKETMQ_LISTEN_PORT"),
        ("namesrvAddr", "POCKETMQ_NAMESRV_ADDR"),
        ("enableSQL92Filter", "POCKETMQ_ENABLE_SQL92_FILTER"),
        ("controllerDLegerGroup", "POCKETMQ_CONTROLLER_D_LEGER_GROUP"),
        ("allAckInSyncStateSet", "POCKETMQ_ALL_ACK_IN_SYNC_STATE_SET"),
        ("tls.server.mode", "POCKETMQ_TLS_SERVER_MODE"),
        ("x", "POCKETMQ_X"),
    ],
)
def test_the_environment_has_a_word_for_each_setting(name: str, expected: str) -> None:
    assert variable(name) == expected
    assert read_environment({expected: " text "}, ["other", name]) == Source([Entry(name, " text ", expected)])


def test_of_the_environment_only_what_is_asked_for_is_read() -> None:
    environ = {"HOME": "/", "brokerName": "x", "BROKER_NAME": "x", "POCKETMQ_": "x", "POCKETMQ_BROKER_ID": "1"}
    assert read_environment(environ, ["brokerName", "listenPort"]) == Source([])


def test_namesrv_addr_is_honoured_and_the_longer_name_counts_more() -> None:
    environ = {"POCKETMQ_NAMESRV_ADDR": "a:1", "NAMESRV_ADDR": "b:2"}
    assert pairs(read_environment(environ, ["namesrvAddr"])) == [("namesrvAddr", "b:2"), ("namesrvAddr", "a:1")]
    assert read_environment({"NAMESRV_ADDR": "b:2"}, ["namesrvAddr"]) == Source(
        [Entry("namesrvAddr", "b:2", "NAMESRV_ADDR")]
    )
    assert read_environment(environ, ["brokerName"]) == Source([])


def test_the_order_of_the_environment_is_that_of_the_names() -> None:
    names = {f"name{number}" for number in range(100)}
    source = read_environment({variable(name): "" for name in names}, names)
    assert [entry.name for entry in source.entries] == sorted(names)


def test_variables_that_only_look_like_settings_are_found() -> None:
    environ = {"POCKETMQ_STORE": "", "POCKETMQ_BROKER_NAME": "", "NAMESRV_ADDR": "", "POCKETMQ_": "", "POCKETMQX": ""}
    assert foreign_variables(environ, ["brokerName"]) == ["POCKETMQ_", "POCKETMQ_STORE"]
