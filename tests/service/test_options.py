"""The settings that the programs share."""

from __future__ import annotations

import pytest

from pocketmq.service.addresses import Address
from pocketmq.service.errors import SettingsError
from pocketmq.service.logs import LogLevel
from pocketmq.service.options import HttpListen, ServiceSettings
from pocketmq.service.settings import changed, load, to_texts


def loaded(*options: str) -> ServiceSettings:
    ((settings,), _) = load(ServiceSettings, options=options)
    assert isinstance(settings, ServiceSettings)
    return settings


def test_the_defaults_are_what_they_are_called() -> None:
    assert to_texts(ServiceSettings()) == {"logLevel": "INFO", "httpListen": "auto"}


@pytest.mark.parametrize(
    ("text", "listen_port", "address"),
    [
        ("auto", 9876, Address("127.0.0.1", 9878)),
        ("auto", 10911, Address("127.0.0.1", 10913)),
        ("auto", 65533, Address("127.0.0.1", 65535)),
        ("auto", 0, Address("127.0.0.1", 0)),
        ("off", 9876, None),
        ("0.0.0.0:8080", 9876, Address("0.0.0.0", 8080)),
        ("[::1]:0", 9876, Address("::1", 0)),
        ("auto:80", 9876, Address("auto", 80)),
    ],
)
def test_the_place_of_the_pages_follows_the_port_of_the_program_or_does_not(
    text: str, listen_port: int, address: Address | None
) -> None:
    settings = loaded(f"httpListen={text}")
    assert settings.http_listen.address(listen_port) == address
    assert str(settings.http_listen) == text
    assert changed(ServiceSettings(), to_texts(settings)) == settings


def test_words_may_be_written_in_any_case() -> None:
    assert loaded("httpListen= OFF", "logLevel=debug") == ServiceSettings(
        http_listen=HttpListen("off"), log_level=LogLevel.DEBUG
    )


def test_there_is_no_port_behind_the_last() -> None:
    with pytest.raises(SettingsError, match="httpListen: auto is port 65536"):
        HttpListen().address(65534)


@pytest.mark.parametrize("text", ["", "localhost", "8080", ":8080", "localhost:", "localhost:65536", "on", "::1"])
def test_what_is_no_place_is_refused_with_what_may_be_written(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^-o: httpListen: .* HOST:PORT .*, or auto, or off$"):
        loaded(f"httpListen={text}")


@pytest.mark.parametrize("level", ["", "LOUD", "WARN", "10", "NOTSET"])
def test_what_is_no_level_is_refused_with_those_that_there_are(level: str) -> None:
    with pytest.raises(SettingsError, match=r"^-o: logLevel: .* is none of DEBUG, INFO, WARNING, ERROR, CRITICAL$"):
        loaded(f"logLevel={level}")
