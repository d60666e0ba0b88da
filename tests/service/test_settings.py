"""Settings: which source counts, what a text may be, and that everything wrong is told at once, with where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import PocketMQError
from pocketmq.service.addresses import Address
from pocketmq.service.errors import ServiceError, SettingsError
from pocketmq.service.settings import Loaded, changed, load, names, to_texts
from pocketmq.storage import FlushDiskType, StoreSettings


class Role(Enum):
    ASYNC_MASTER = 0
    SLAVE = 1
    MASTER = 0  # noqa: PIE796 - another name of the first


LOCAL = Address("127.0.0.1", 10911)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One field of each kind."""

    broker_name: str = "broker-a"
    broker_ip1: str | None = field(default=None, metadata={"name": "brokerIP1"})
    namesrv_addr: str = ""
    listen_port: int = 10911
    listen: Address = LOCAL
    metrics_listen: Address | None = None
    sample_ratio: float = 0.5
    timeout: float | None = 3.0
    broker_role: Role = Role.ASYNC_MASTER
    slave_read_enable: bool = False
    tls_server_mode: str = field(default="permissive", metadata={"name": "tls.server.mode"})

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port < 65536:
            raise ValueError("listenPort has to be from 0 to 65535")


NAMES = dict(zip(Sample.__dataclass_fields__, names(Sample), strict=True))


@dataclass(frozen=True)
class Small:
    queue_nums: int = 8
    topic: str = "T"


def loaded(**sources: Any) -> Sample:
    (settings,), notes = load(Sample, **sources)
    assert not notes
    assert isinstance(settings, Sample)
    return settings


def problems(*classes: type[Any], **sources: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(*classes or (Sample,), **sources)
    return str(caught.value).split("\n")


def written(folder: Path, text: str, name: str = "broker.conf") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# --- names


def test_the_names_are_those_of_rocketmq() -> None:
    assert names(Sample) == (
        "brokerName",
        "brokerIP1",
        "namesrvAddr",
        "listenPort",
        "listen",
        "metricsListen",
        "sampleRatio",
        "timeout",
        "brokerRole",
        "slaveReadEnable",
        "tls.server.mode",
    )


def test_classes_of_other_modules_are_understood() -> None:
    settings, other = load(StoreSettings, Small, options=["flushDiskType=async_flush", "maxMessageSize=1", "topic=U"])[
        0
    ]
    assert settings == StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, max_message_size=1)
    assert other == Small(topic="U")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(StoreSettings):
    broker_role: Role = Role.SLAVE


def test_a_class_may_extend_one_of_another_module() -> None:
    (settings,), _ = load(Extended, options=["flushDiskType=ASYNC_FLUSH", "brokerRole=MASTER"])
    assert settings == Extended(flush_disk_type=FlushDiskType.ASYNC_FLUSH, broker_role=Role.ASYNC_MASTER)


@pytest.mark.parametrize("kind", [list[str], bytes, object, Path, dict[str, int] | None])
def test_a_field_of_another_kind_is_a_mistake_of_the_class(kind: Any) -> None:
    with pytest.raises(TypeError, match="a setting cannot be a"):
        names(make_dataclass("Wrong", [("paths", kind, None)], frozen=True))


# --- sources


def test_without_sources_there_are_the_defaults() -> None:
    assert load(Sample, Small) == Loaded((Sample(), Small()), ())


SOURCES: list[tuple[str, dict[str, Any]]] = [
    ("broker-a", {}),
    ("from file", {"file": "brokerName = from file"}),
    ("from environment", {"environ": {"POCKETMQ_BROKER_NAME": "from environment"}}),
    ("from option", {"options": ["brokerName=earlier", "brokerName=from option"]}),
    ("from flag", {"given": {"brokerName": "from flag"}}),
]


@pytest.mark.parametrize("strongest", range(len(SOURCES)), ids=[text for text, _ in SOURCES])
def test_a_flag_counts_more_than_an_option_then_come_environment_file_and_default(
    strongest: int, tmp_path: Path
) -> None:
    sources = {name: source for _, given in SOURCES[: strongest + 1] for name, source in given.items()}
    if "file" in sources:
        sources["file"] = written(tmp_path, sources["file"])
    assert loaded(**sources) == Sample(broker_name=SOURCES[strongest][0])


def test_each_setting_comes_from_the_strongest_source_that_has_it(tmp_path: Path) -> None:
    settings = loaded(
        file=written(tmp_path, "brokerName=f\nlistenPort=1\nbrokerRole=SLAVE\nbrokerIP1=f\n"),
        environ={"POCKETMQ_LISTEN_PORT": "2", "POCKETMQ_BROKER_ROLE": "MASTER", "POCKETMQ_BROKER_IP1": "e"},
        options=["brokerRole=SLAVE", "brokerIP1=o"],
        given={"brokerIP1": "g"},
    )
    assert settings == Sample(broker_name="f", listen_port=2, broker_role=Role.SLAVE, broker_ip1="g")


def test_a_toml_file_has_the_same_names(tmp_path: Path) -> None:
    text = (
        "brokerName = 'a'\nlistenPort = 1\nsampleRatio = 1e-3\nslaveReadEnable = true\ntls.server.mode = 'enforcing'\n"
    )
    assert loaded(file=written(tmp_path, text, "broker.toml")) == Sample(
        broker_name="a", listen_port=1, sample_ratio=0.001, slave_read_enable=True, tls_server_mode="enforcing"
    )


def test_namesrv_addr_is_honoured() -> None:
    assert loaded(environ={"NAMESRV_ADDR": "a:1;b:2"}).namesrv_addr == "a:1;b:2"
    assert loaded(environ={"NAMESRV_ADDR": "a:1", "POCKETMQ_NAMESRV_ADDR": "b:2"}).namesrv_addr == "b:2"
    assert load(Small, environ={"NAMESRV_ADDR": "a:1"}) == ((Small(),), ())


def test_a_name_of_its_own_works_in_every_source(tmp_path: Path) -> None:
    expected = Sample(tls_server_mode="disabled")
    assert loaded(file=written(tmp_path, "tls.server.mode = disabled")) == expected
    assert loaded(environ={"POCKETMQ_TLS_SERVER_MODE": "disabled"}) == expected
    assert loaded(options=["tls.server.mode=disabled"]) == expected
    assert loaded(given={"tls.server.mode": "disabled"}) == expected


# --- texts


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [
        ("broker_name", "", ""),
        ("broker_name", " \t a b \n", "a b"),
        ("broker_name", "标签", "标签"),
        ("broker_ip1", "10.0.0.1", "10.0.0.1"),
        ("broker_ip1", "", None),
        ("broker_ip1", " \t", None),
        ("listen_port", "0", 0),
        ("listen_port", " 007 ", 7),
        ("listen_port", "+7", 7),
        ("listen", " [::1]:9 ", Address("::1", 9)),
        ("metrics_listen", "localhost:9", Address("localhost", 9)),
        ("metrics_listen", " ", None),
        ("sample_ratio", "1", 1.0),
        ("sample_ratio", " -1.5e-3 ", -0.0015),
        ("sample_ratio", "+.5", 0.5),
        ("sample_ratio", "5.", 5.0),
        ("timeout", "0.25", 0.25),
        ("timeout", "", None),
        ("broker_role", "SLAVE", Role.SLAVE),
        ("broker_role", " slave ", Role.SLAVE),
        ("broker_role", "Master", Role.ASYNC_MASTER),
        ("slave_read_enable", "true", True),
        ("slave_read_enable", " TRUE ", True),
        ("slave_read_enable", "False", False),
    ],
)
def test_a_text_is_read_by_the_kind_of_its_setting(attribute: str, text: str, value: object) -> None:
    change: dict[str, Any] = {attribute: value}
    settings = loaded(options=[f"{NAMES[attribute]}={text}"])
    assert settings == changed(Sample(), {NAMES[attribute]: text}) == Sample(**change)
    assert type(getattr(settings, attribute)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("brokerName", "\udcff", r"'\udcff' is not UTF-8"),
        ("brokerIP1", "a\ud83d", r"'a\ud83d' is not UTF-8"),
        ("listenPort", "", "'' is no whole number"),
        ("listenPort", "1.0", "'1.0' is no whole number"),
        ("listenPort", "1_000", "'1_000' is no whole number"),
        ("listenPort", "0x10", "'0x10' is no whole number"),
        ("listenPort", "٣", "'٣' is no whole number"),
        ("listenPort", "10911L", "'10911L' is no whole number"),
        ("listenPort", "1 2", "'1 2' is no whole number"),
        ("sampleRatio", "", "'' is no number"),
        ("sampleRatio", ".", "'.' is no number"),
        ("sampleRatio", "nan", "'nan' is no number"),
        ("sampleRatio", "-inf", "'-inf' is no number"),
        ("sampleRatio", "1e999", "'1e999' is no number"),
        ("sampleRatio", "1_0.0", "'1_0.0' is no number"),
        ("timeout", "3s", "'3s' is no number"),
        ("brokerRole", "", "'' is none of ASYNC_MASTER, SLAVE, MASTER"),
        ("brokerRole", "0", "'0' is none of ASYNC_MASTER, SLAVE, MASTER"),
        ("slaveReadEnable", "", "'' is neither true nor false"),
        ("slaveReadEnable", "1", "'1' is neither true nor false"),
        ("slaveReadEnable", "yes", "'yes' is neither true nor false"),
    ],
)
def test_a_text_of_another_kind_is_refused_by_its_name(name: str, text: str, problem: str) -> None:
    assert problems(options=[f"{name}={text}"]) == [f"-o: {name}: {problem}"]
    with pytest.raises(SettingsError) as caught:
        changed(Sample(), {name: text})
    assert str(caught.value) == f"{name}: {problem}"


def test_what_a_class_says_about_its_own_text_is_told() -> None:
    (problem,) = problems(environ={"POCKETMQ_LISTEN": "::1"})
    assert problem.startswith("POCKETMQ_LISTEN: listen: '::1' is no address; write HOST:PORT")


@pytest.mark.parametrize("name", ["listenPort", "listen", "sampleRatio", "brokerRole", "slaveReadEnable"])
def test_a_very_long_text_is_shown_in_part(name: str) -> None:
    (problem,) = problems(given={name: "9" * 10_000 + "x"})
    assert 80 < len(problem) < 250
    assert problem.startswith(f"command line: {name}: '999")


def test_far_too_many_digits_are_no_number() -> None:
    assert problems(given={"listenPort": "9" * 10_000})[0].endswith(" is no whole number")
    assert changed(Sample(), {"sampleRatio": "0" * 10_000}).sample_ratio == 0


# --- problems


def test_errors_of_settings_are_errors_of_pocketmq() -> None:
    assert issubclass(SettingsError, ServiceError)
    assert issubclass(ServiceError, PocketMQError)


def test_everything_wrong_is_told_at_once_with_where_it_was(tmp_path: Path) -> None:
    file = written(tmp_path, "brokerNam=a\nlistenPort=x\npath=\\u\ntopic=\nqueueNums=y\nslaveReadEnable=true\n")
    assert problems(
        Sample,
        Small,
        file=file,
        environ={"POCKETMQ_BROKER_ROLE": "leader", "POCKETMQ_WHATEVER": "1"},
        options=["timeout", "sampleRatio=z", "queueNum=1"],
        given={"metricsListen": "nowhere"},
    ) == [
        rf"{file} line 3: \u is followed by four hexadecimal digits; a backslash is written \\",
        "-o: 'timeout' is no NAME=VALUE",
        f"{file} line 1: there is no setting 'brokerNam'; did you mean 'brokerName'?",
        "-o: there is no setting 'queueNum'; did you mean 'queueNums'?",
        f"{file} line 2: listenPort: 'x' is no whole number",
        "command line: metricsListen: 'nowhere' is no address; "
        "write HOST:PORT or [IPV6]:PORT with a port from 0 to 65535",
        "-o: sampleRatio: 'z' is no number",
        "POCKETMQ_BROKER_ROLE: brokerRole: 'leader' is none of ASYNC_MASTER, SLAVE, MASTER",
        f"{file} line 5: queueNums: 'y' is no whole number",
    ]


def test_a_file_that_cannot_be_read_does_not_hide_the_rest(tmp_path: Path) -> None:
    assert problems(file=tmp_path, options=["listenPort=x"]) == [
        f"the file {tmp_path} cannot be read: Is a directory",
        "-o: listenPort: 'x' is no whole number",
    ]


def test_values_that_do_not_go_together_are_told_with_the_problems_of_others() -> None:
    assert problems(options=["listenPort=65536"]) == ["listenPort has to be from 0 to 65535"]
    assert problems(Small, Sample, options=["listenPort=-1", "queueNums=x", "y=z"])[1:] == [
        "-o: queueNums: 'x' is no whole number",
        "listenPort has to be from 0 to 65535",
    ]


def test_what_was_not_understood_is_not_judged_as_a_whole() -> None:
    assert problems(options=["listenPort=65536", "timeout=x"]) == ["-o: timeout: 'x' is no number"]


def test_what_does_not_count_need_not_make_sense(tmp_path: Path) -> None:
    assert loaded(file=written(tmp_path, "listenPort=x\nlistenPort=1")).listen_port == 1
    assert loaded(environ={"POCKETMQ_LISTEN_PORT": "x"}, given={"listenPort": "2"}).listen_port == 2


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("brokername", "brokerName"),
        ("BROKER_NAME", "brokerName"),
        ("broker.name", "brokerName"),
        ("brokerIp1", "brokerIP1"),
        ("lisenPort", "listenPort"),
        ("slaveReadEnabled", "slaveReadEnable"),
        ("tlsServerMode", "tls.server.mode"),
        ("haListenPor", "haListenPort"),
        ("USETLS", "useTLS"),
    ],
)
def test_an_unknown_setting_names_the_nearest_one(name: str, nearest: str) -> None:
    (problem,) = problems(options=[f"{name}=1"], without_effect=["haListenPort", "useTLS"])
    assert problem == f"-o: there is no setting {name!r}; did you mean {nearest!r}?"


def test_without_a_near_one_a_few_are_listed_and_many_are_counted() -> None:
    assert problems(Small, options=["=1"]) == ["-o: there is no setting ''; there are queueNums, topic"]
    (problem,) = problems(StoreSettings, options=["xyz=1"])
    assert problem == "-o: there is no setting 'xyz'; none of the 33 that there are has a name like it"
    (problem,) = problems(options=["x" * 1000 + "=1"])
    assert len(problem) < 300


# --- notes


def test_settings_without_effect_are_noted_wherever_they_are(tmp_path: Path) -> None:
    file = written(tmp_path, "haListenPort=10912\nbrokerName=b\n")
    environ = {"POCKETMQ_USE_TLS": "yes", "POCKETMQ_SEND_THREADS": "1", "POCKETMQ_CLUSTER": "c"}
    without_effect = frozenset(("haListenPort", "useTLS", "sendThreads", "pullThreads", "cluster"))
    values, notes = load(
        Sample, file=file, environ=environ, options=["pullThreads=any text"], without_effect=without_effect
    )
    assert values == (Sample(broker_name="b"),)
    assert notes == (
        f"{file} line 1: haListenPort has no effect here",
        "POCKETMQ_CLUSTER: cluster has no effect here",
        "POCKETMQ_SEND_THREADS: sendThreads has no effect here",
        "POCKETMQ_USE_TLS: useTLS has no effect here",
        "-o: pullThreads has no effect here",
    )


def test_variables_that_look_like_settings_are_noted_and_not_refused() -> None:
    environ = {"POCKETMQ_BROKERNAME": "a", "POCKETMQ_LISTEN_PORTS": "1", "POCKETMQ_XYZ": "", "BROKER_NAME": "c"}
    assert load(Sample, environ=environ) == Loaded(
        (Sample(),),
        (
            "POCKETMQ_BROKERNAME is no setting of this program; did you mean POCKETMQ_BROKER_NAME?",
            "POCKETMQ_LISTEN_PORTS is no setting of this program; did you mean POCKETMQ_LISTEN_PORT?",
            "POCKETMQ_XYZ is no setting of this program",
        ),
    )


@pytest.mark.parametrize("without_effect", [(), ("topic",)])
def test_a_setting_belongs_to_one_class_or_has_no_effect(without_effect: tuple[str, ...]) -> None:
    classes = (Small,) if without_effect else (Sample, Small, Sample)
    with pytest.raises(AssertionError, match="a setting belongs to one class, or has no effect"):
        load(*classes, without_effect=without_effect)


# --- settings that change


def test_settings_are_texts_by_their_names() -> None:
    assert to_texts(Sample()) == {
        "brokerName": "broker-a",
        "brokerIP1": "",
        "namesrvAddr": "",
        "listenPort": "10911",
        "listen": "127.0.0.1:10911",
        "metricsListen": "",
        "sampleRatio": "0.5",
        "timeout": "3.0",
        "brokerRole": "ASYNC_MASTER",
        "slaveReadEnable": "false",
        "tls.server.mode": "permissive",
    }


def test_what_is_changed_is_a_copy_and_the_rest_stays() -> None:
    before = Sample(broker_name="b", timeout=None)
    after = changed(before, {"listenPort": " 1 ", "tls.server.mode": "enforcing"})
    assert after == replace(before, listen_port=1, tls_server_mode="enforcing")
    assert before == Sample(broker_name="b", timeout=None)
    assert changed(before, {}) == before


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            {"listenPort": "x", "brokerNames": "1", "timeout": "y"},
            [
                "there is no setting 'brokerNames'; did you mean 'brokerName'?",
                "listenPort: 'x' is no whole number",
                "timeout: 'y' is no number",
            ],
        ),
        ({"broker_name": "b"}, ["there is no setting 'broker_name'; did you mean 'brokerName'?"]),
        ({"listenPort": "65536"}, ["listenPort has to be from 0 to 65535"]),
        ({"a\nb\u2028": ""}, [r"there is no setting 'a\nb\u2028'; " + f"there are {', '.join(sorted(names(Sample)))}"]),
    ],
)
def test_a_change_is_refused_as_a_whole(texts: Mapping[str, str], expected: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        changed(Sample(), texts)
    assert str(caught.value).split("\n") == expected


def test_a_peer_that_sends_very_many_or_very_long_names_gets_a_short_answer() -> None:
    with pytest.raises(SettingsError) as caught:
        changed(StoreSettings(), {"x" * 5_000_000: ""} | {f"fileReservedTim{number}": "" for number in range(50_000)})
    assert len(str(caught.value).split("\n")) == 12
    assert len(str(caught.value)) < 2000


stripped = st.text().map(str.strip)
addresses = st.builds(
    Address, st.from_regex(r"[a-z0-9.-]+", fullmatch=True) | st.ip_addresses().map(str), st.integers(0, 65535)
)
finite = st.floats(allow_nan=False, allow_infinity=False)
samples = st.builds(
    Sample,
    broker_name=stripped,
    broker_ip1=st.none() | stripped.filter(bool),
    listen_port=st.integers(0, 65535),
    listen=addresses,
    metrics_listen=st.none() | addresses,
    sample_ratio=finite,
    timeout=st.none() | finite,
    broker_role=st.sampled_from(Role),
    slave_read_enable=st.booleans(),
)


@given(samples, samples)
def test_settings_survive_as_texts(settings: Sample, others: Sample) -> None:
    texts = to_texts(settings)
    assert changed(others, texts) == settings
    assert loaded(given=texts) == settings
    assert loaded(options=[f"{name}={text}" for name, text in texts.items()]) == settings


@given(st.dictionaries(st.sampled_from([*names(Sample), "x"]), st.text(st.characters(), max_size=8)))
def test_any_texts_are_settings_or_lines_that_name_them(texts: dict[str, str]) -> None:
    try:
        settings = changed(Sample(), texts)
    except SettingsError as error:
        lines = str(error).splitlines()
    else:
        assert changed(Sample(), to_texts(settings)) == settings
        return
    assert 1 <= len(lines) <= len(texts)
    assert all(any(name in line for name in texts) for line in lines)
