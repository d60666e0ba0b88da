"""What a broker may tell of itself, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.namesrv import registration
from pocketmq.namesrv.registration import Registration, RegistrationError, check, check_address, check_name, is_name
from pocketmq.protocol.bodies import TopicQueues
from pocketmq.protocol.errors import PocketMQError

PLAIN = Registration("DefaultCluster", "broker-a", 0, "10.0.0.1:10911", {})


def refused(**changes: Any) -> str:
    """Why the plain registration with these changes is refused."""
    with pytest.raises(RegistrationError) as caught:
        check(PLAIN._replace(**changes))
    return str(caught.value)


# --- names


@pytest.mark.parametrize("name", ["a", "broker-a", "host.example.org", "%RETRY%group", "a|b", "A_9", "x" * 255])
def test_topics_grammar_and_the_dot_make_a_name(name: str) -> None:
    assert is_name(name)
    check_name("topic", name)


@pytest.mark.parametrize(
    "name",
    ["", "x" * 256, "a b", "a\n", "\na", "a,b", "a:b", 'a"', "a\\", "a/b", "a;b", "{a}", "ä", "١", "\ud800", "a\0"],
)
def test_nothing_else_is_a_name(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(RegistrationError, match="is no name for a topic"):
        check_name("topic", name)


def test_a_refusal_shows_little_of_what_it_refuses() -> None:
    with pytest.raises(RegistrationError) as caught:
        check_name("topic", "\n" * 1_000_000)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
    with pytest.raises(RegistrationError) as caught:
        check_address("x" * 1_000_000)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=300))
def test_any_text_is_a_name_or_is_refused(text: str) -> None:
    if is_name(text):
        check_name("topic", text)
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(' ,:;"\\{}')
    else:
        with pytest.raises(RegistrationError):
            check_name("topic", text)


# --- addresses


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1:10911",
        "localhost:1",
        "broker-a.example.org:65535",
        "[::1]:10911",
        "::1:10911",
        "a_b:1",
        "x" * 249 + ":1",
    ],
)
def test_a_host_and_a_port_make_an_address(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        ":10911",
        "localhost",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:99999",
        "localhost:123456",
        "localhost:-1",
        "localhost:+1",
        "localhost:1 ",
        "localhost:1\n",
        "localhost:١",
        "local host:1",
        "a,b:1",
        "a;b:1",
        'a"b:1',
        "a\\b:1",
        "{a}:1",
        "ä:1",
        "a\0:1",
        "x" * 250 + ":1",
    ],
)
def test_nothing_else_is_an_address(address: str) -> None:
    with pytest.raises(RegistrationError, match="is no address"):
        check_address(address)


@given(st.text(max_size=300))
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    try:
        check_address(text)
    except RegistrationError:
        return
    host, _, port = text.rpartition(":")
    assert host
    assert 0 < int(port) < 65536


# --- whole registrations


def test_a_refusal_is_an_error_of_pocketmq() -> None:
    assert issubclass(RegistrationError, PocketMQError)


def test_a_broker_is_silent_for_two_minutes_unless_it_says_otherwise() -> None:
    assert PLAIN.timeout == registration.DEFAULT_TIMEOUT == 120


def test_a_plain_registration_is_fine() -> None:
    check(PLAIN)


def test_a_registration_with_everything_is_fine() -> None:
    check(
        PLAIN._replace(
            broker_id=2**63 - 1,
            ha_address="10.0.0.1:10912",
            zone_name="zone-1",
            filter_servers=("10.0.0.1:1",),
            networks={"lan": "192.168.0.5:10911"},
            topics={"not a name, which is left out and not refused": TopicQueues(4, 4, 6, 0)},
        )
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cluster": "a:b"}, "'a:b' is no name for a cluster"),
        ({"cluster": ""}, "'' is no name for a cluster"),
        ({"broker_name": "a,b"}, "'a,b' is no name for a broker"),
        ({"broker_id": -1}, "the id of a broker is not negative, as -1 is"),
        ({"address": "10.0.0.1"}, "'10.0.0.1' is no address"),
        ({"ha_address": "x" * 10_000}, "is no address"),
        ({"networks": {"lan": "10.0.0.1:1", "dmz": "nowhere"}}, "'nowhere' is no address"),
        ({"filter_servers": ("10.0.0.1:1", "nowhere")}, "'nowhere' is no address"),
        ({"filter_servers": ("10.0.0.1:1",) * 65}, "64 filter servers at most"),
        ({"zone_name": "a,b"}, "'a,b' is no name for a zone"),
    ],
)
def test_the_refusal_names_the_cause(changes: dict[str, Any], problem: str) -> None:
    assert problem in refused(**changes)


def test_what_a_broker_leaves_empty_is_not_looked_at() -> None:
    check(PLAIN._replace(ha_address="", zone_name=""))


def test_topics_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MAX_TOPICS", 2)
    topics = {name: TopicQueues(4, 4, 6, 0) for name in "abc"}
    assert refused(topics=topics) == "a broker registers 2 topics at most, and not 3"
    del topics["c"]
    check(PLAIN._replace(topics=topics))
