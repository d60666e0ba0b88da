"""The settings of a NameServer, and RocketMQ's own files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures import captured_frames

from pocketmq.namesrv.networks import Networks
from pocketmq.namesrv.settings import WITHOUT_EFFECT, NamesrvSettings
from pocketmq.protocol.bodies import parse_config_text
from pocketmq.protocol.codes import RequestCode
from pocketmq.service.errors import ServiceError, SettingsError
from pocketmq.service.options import ServiceSettings
from pocketmq.service.settings import changed, load, names, to_texts

# What a real NameServer answers to whoever asks for its settings, of each release.
REAL = {
    frame.server: frame.body
    for frame in captured_frames()
    if frame.is_response and frame.request_code == RequestCode.GET_NAMESRV_CONFIG
}
# Where ours has another value, and why is in the settings' own text.
OURS = {"bindAddress": "127.0.0.1", "listenPort": "9876", "kvConfigPath": "~/namesrv/kvConfig.json"}


def test_what_is_not_given_has_a_value() -> None:
    assert to_texts(NamesrvSettings()) == {
        **OURS,
        "networks": "",
        "scanNotActiveBrokerInterval": "10000",
        "serverChannelMaxIdleTimeSeconds": "120",
        "deleteTopicWithBrokerRegistration": "false",
        "supportActingMaster": "false",
        "notifyMinBrokerIdChanged": "false",
        "configBlackList": "configBlackList;configStorePath;kvConfigPath",
        "orderMessageEnable": "false",
        "returnOrderTopicConfigToBroker": "true",
        "enableTopicList": "true",
        "enableAllTopicList": "true",
        "needWaitForService": "false",
        "waitSecondsForService": "45",
    }


def test_both_releases_were_asked() -> None:
    assert REAL.keys() == {"4.9.7", "5.5.0"}


@pytest.mark.parametrize("release", REAL)
def test_the_whole_configuration_of_a_real_nameserver_loads(tmp_path: Path, release: str) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_bytes(REAL[release])
    (settings, _), notes = load(NamesrvSettings, ServiceSettings, file=path, without_effect=WITHOUT_EFFECT)
    real, own = parse_config_text(REAL[release]), to_texts(settings)
    assert {name: own[name] for name in real.keys() & own.keys()} == {name: real[name] for name in real.keys() & own}
    noted = sorted(note.partition(": ")[2] for note in notes)
    assert noted == sorted(f"{name} has no effect here" for name in real.keys() - own.keys())


@pytest.mark.parametrize("release", REAL)
def test_our_values_are_those_of_a_real_nameserver_but_for_where_it_is(release: str) -> None:
    real, own = parse_config_text(REAL[release]), to_texts(NamesrvSettings())
    differing = {name for name in real.keys() & own.keys() if real[name] != own[name]}
    # It scans every 10 s, as 4.x does, and 5.x every 5 s.
    assert differing <= OURS.keys() | {"scanNotActiveBrokerInterval"}


def test_a_setting_has_an_effect_or_has_none() -> None:
    assert not WITHOUT_EFFECT & {*names(NamesrvSettings), *names(ServiceSettings)}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bind_address": ""}, "bindAddress is empty"),
        ({"kv_config_path": "kv\n.json"}, "kvConfigPath is no path that could be shown"),
        ({"listen_port": -1}, "listenPort: -1 is not from 0 to 65535"),
        ({"listen_port": 65536}, "listenPort: 65536 is not from 0 to 65535"),
        ({"scan_not_active_broker_interval": 0}, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ({"scan_not_active_broker_interval": -5}, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ({"scan_not_active_broker_interval": 10**99}, "scanNotActiveBrokerInterval is from 1 to 3600000"),
        ({"server_channel_max_idle_time_seconds": 0}, "serverChannelMaxIdleTimeSeconds is positive"),
    ],
)
def test_a_value_that_cannot_be_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        NamesrvSettings(**changes)


def test_networks_are_a_setting_with_a_text() -> None:
    settings = changed(NamesrvSettings(), {"networks": "lan=10.0.0.0/8;host=outside"})
    assert settings.networks == Networks.parse("lan=10.0.0.0/8;host=outside")
    assert to_texts(settings)["networks"] == "lan=10.0.0.0/8;host=outside"
    with pytest.raises(SettingsError, match="networks: 'lan' is no NET=RULE,RULE"):
        changed(NamesrvSettings(), {"networks": "lan"})


# --- the file of key-values


def test_the_file_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert NamesrvSettings().kv_config_file == tmp_path / "namesrv" / "kvConfig.json"


def test_the_file_may_be_elsewhere_or_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    assert NamesrvSettings(kv_config_path=str(path)).kv_config_file == path
    assert NamesrvSettings(kv_config_path="").kv_config_file is None


def test_a_home_folder_that_nobody_knows_is_told() -> None:
    with pytest.raises(ServiceError, match=r"kvConfigPath: '~nobody-has-this-name/kv\.json': .*write a path without ~"):
        _ = NamesrvSettings(kv_config_path="~nobody-has-this-name/kv.json").kv_config_file


# --- what may be changed from outside


def test_no_path_or_address_is_changed_from_outside() -> None:
    changeable = NamesrvSettings().changeable
    assert changeable < set(names(NamesrvSettings))
    fixed = {"bindAddress", "listenPort", "kvConfigPath", "networks", "configBlackList"}
    assert not changeable & (fixed | {"serverChannelMaxIdleTimeSeconds"})
    assert not NamesrvSettings(config_black_list="").changeable & fixed


def test_the_black_list_adds_to_what_is_not_changed() -> None:
    before = NamesrvSettings().changeable
    assert NamesrvSettings(config_black_list="enableTopicList;nonsense").changeable == before - {"enableTopicList"}
