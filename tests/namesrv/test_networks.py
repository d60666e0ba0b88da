"""Who is on which network, and the addresses that brokers have for each."""

from __future__ import annotations

import time
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.namesrv.networks import MAX_NETWORKS, Network, Networks, Surroundings, parse_addresses
from pocketmq.namesrv.registration import RegistrationError

# A container in a bridge network of its host.
BRIDGED = Surroundings(
    (ip_network("127.0.0.0/8"), ip_network("172.17.0.0/16"), ip_network("fd00::/64"), ip_network("fe80::/64")),
    frozenset({ip_address("172.17.0.1"), ip_address("fd00::1"), ip_address("fe80::1")}),
)


def on(setting: str, caller: str, surroundings: Surroundings = BRIDGED) -> tuple[str, ...]:
    return Networks.parse(setting).of(caller, surroundings)


# --- who is on which network


@pytest.mark.parametrize(
    ("caller", "networks"),
    [
        ("192.168.0.7", ("lan", "all")),
        ("192.168.1.7", ("all",)),
        ("10.1.2.3", ("office", "all")),
        ("fe80::1", ("link",)),
        ("fe80::1%eth0", ("link",)),
        ("2001:db8::1", ()),
        ("unknown", ()),
        ("", ()),
        ("1.2.3.4.5", ()),
    ],
)
def test_a_caller_is_on_the_networks_whose_cidr_holds_it(caller: str, networks: tuple[str, ...]) -> None:
    setting = "lan=192.168.0.0/24;office=10.1.0.0/16,10.2.0.0/16;link=fe80::/10;all=0.0.0.0/0"
    assert on(setting, caller) == networks


@pytest.mark.parametrize(
    ("caller", "is_outside"),
    [
        ("172.17.0.2", False),  # another container
        ("172.17.0.1", True),  # the host, and whoever the host forwards
        ("192.168.0.7", True),
        ("127.0.0.1", False),
        ("fd00::2", False),
        ("fd00::1", True),
        ("fe80::2%eth0", False),
        ("fe80::1%eth0", True),
        ("2001:db8::1", True),
        ("unknown", False),
    ],
)
def test_outside_is_no_own_subnet_or_the_gateway(caller: str, is_outside: bool) -> None:
    assert on("host=outside", caller) == (("host",) if is_outside else ())


def test_a_network_may_have_rules_of_both_kinds() -> None:
    setting = "host=172.17.0.9/32,outside"
    assert on(setting, "172.17.0.9") == on(setting, "1.2.3.4") == ("host",)
    assert on(setting, "172.17.0.8") == ()


def test_networks_come_in_the_order_of_the_setting() -> None:
    assert on("b=10.0.0.0/8;a=10.0.0.0/16", "10.0.0.1") == ("b", "a")
    assert on("a=10.0.0.0/16;b=10.0.0.0/8", "10.0.0.1") == ("a", "b")


def test_only_the_rule_outside_needs_surroundings() -> None:
    assert Networks.parse("a=10.0.0.0/8;b=outside").need_surroundings
    assert not Networks.parse("outside=10.0.0.0/8").need_surroundings
    assert not Networks().need_surroundings


# --- the setting as a text


@pytest.mark.parametrize("text", ["", ";", " ; "])
def test_no_text_is_no_network(text: str) -> None:
    assert Networks.parse(text) == Networks()


def test_blanks_do_not_matter() -> None:
    assert Networks.parse(" lan = 10.0.0.0/8 , outside ; ") == Networks.parse("lan=10.0.0.0/8,outside")


@given(
    st.dictionaries(
        st.text("abcXYZ0189_.%|-", min_size=1, max_size=20),
        st.tuples(
            st.lists(st.ip_addresses().map(ip_network), max_size=3).map(tuple),
            st.booleans(),
        ).filter(any),
        max_size=5,
    )
)
def test_the_text_of_networks_reads_back_the_same(rules: dict[str, tuple[tuple[object, ...], bool]]) -> None:
    networks = Networks(tuple(Network(name, subnets, outside) for name, (subnets, outside) in rules.items()))  # type: ignore[arg-type]
    assert Networks.parse(str(networks)) == networks


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lan", "'lan' is no NET=RULE,RULE"),
        ("lan=", "'lan=' is no NET=RULE,RULE"),
        ("=10.0.0.0/8", "'=10.0.0.0/8' is no NET=RULE,RULE"),
        ("l n=10.0.0.0/8", "is no NET=RULE,RULE"),
        ("lan=10.0.0.0/8,", "'' is no rule: write a CIDR such as 192.168.0.0/24, or outside"),
        ("lan=10.0.0.1/8", "'10.0.0.1/8' is no rule: .*has host bits set"),
        ("lan=inside", "'inside' is no rule"),
        ("lan=10.0.0.0/33", "'10.0.0.0/33' is no rule"),
        ("lan=10.0.0.0/8;lan=outside", "network 'lan' has its rules in two places; write lan=RULE,RULE"),
        (";".join(f"n{n}=10.0.0.0/8" for n in range(65)), "there are 65 networks; the limit is 64"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Networks.parse(text)


@pytest.mark.parametrize("text", ["x" * 100_000, "lan=" + "x" * 100_000, "lan=" + "1/" * 100_000, "\n" * 100_000 + "x"])
def test_the_refusal_shows_little_of_a_long_text(text: str) -> None:
    with pytest.raises(ValueError, match="is no ") as caught:
        Networks.parse(text)
    assert len(str(caught.value)) < 400


# --- what a broker registers


def test_further_addresses_are_read_by_network() -> None:
    assert parse_addresses("lan=192.168.0.5:10911;office=broker.example.org:1;v6=[fe80::1]:10911") == {
        "lan": "192.168.0.5:10911",
        "office": "broker.example.org:1",
        "v6": "[fe80::1]:10911",
    }
    assert parse_addresses("") == parse_addresses(";;") == {}
    assert parse_addresses("a=h:1;a=h:2;") == {"a": "h:2"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lan", "'lan' is no NET=HOST:PORT"),
        ("=h:1", "'=h:1' is no NET=HOST:PORT"),
        (" lan=h:1", "' lan=h:1' is no NET=HOST:PORT"),
        ("lan=", "'' is no address"),
        ("lan=h", "'h' is no address"),
        ("lan=h:0", "'h:0' is no address"),
        ("lan=h:1,office=h:2", "is no address"),
        ("lan=h:1\n", "is no address"),
        (";".join(f"n{n}=h:1" for n in range(MAX_NETWORKS + 1)), "there are 65 further addresses; the limit is 64"),
    ],
)
def test_wrong_addresses_are_refused_with_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(RegistrationError, match=problem):
        parse_addresses(text)


@given(st.text("alnetwork=;:.0129[]% ,", max_size=60))
def test_any_text_is_addresses_or_is_refused(text: str) -> None:
    try:
        addresses = parse_addresses(text)
    except RegistrationError:
        return
    assert all(int(address.rpartition(":")[2]) for address in addresses.values())


def test_a_megabyte_of_addresses_is_refused_unread() -> None:
    text = "".join(f"n{n % 10}=h:1;" for n in range(200_000))
    began = time.process_time()
    with pytest.raises(RegistrationError, match="200000 further addresses"):
        parse_addresses(text)
    assert time.process_time() - began < 0.2
