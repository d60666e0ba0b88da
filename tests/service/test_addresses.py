"""Addresses: what is one, what is none, and that writing and reading agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.service.addresses import Address

names = st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True)
addresses = st.builds(Address, names | st.ip_addresses().map(str), st.integers(0, 65535))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("broker-a.example_1:65535", "broker-a.example_1", 65535),
        ("  localhost:80\n", "localhost", 80),
        ("localhost:00080", "localhost", 80),
        ("[::]:9876", "::", 9876),
        ("[::1]:1", "::1", 1),
        ("[2001:DB8::ffff:192.0.2.1]:1", "2001:DB8::ffff:192.0.2.1", 1),
        ("[fe80::1%eth0.5]:1", "fe80::1%eth0.5", 1),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address.parse(text, 1) == (host, port)


@pytest.mark.parametrize(("text", "host"), [("localhost", "localhost"), ("10.0.0.1", "10.0.0.1"), ("[::1]", "::1")])
def test_the_port_may_be_left_out_if_there_is_a_default(text: str, host: str) -> None:
    assert Address.parse(text, 9876) == (host, 9876)
    with pytest.raises(
        ValueError, match=r"is no address; write HOST:PORT or \[IPV6\]:PORT with a port from 0 to 65535"
    ):
        Address.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ":",
        ":9876",
        "localhost:",
        "localhost:http",
        "localhost:-1",
        "localhost:+1",
        "localhost: 1",
        "localhost:65536",
        "localhost:000001",
        "localhost:٣",
        "::1",
        "::1:9876",
        "1.2.3.4:1:2",
        "[]:1",
        "[localhost]:1",
        "[::1",
        "::1]:1",
        "[::1]1",
        "[::1%]:1",
        "[::g]:1",
        "a b:1",
        "a:1;b:2",
        "a;b:1",
        "a,b:1",
        "*:1",
        "http://localhost:80",
        "me@localhost:80",
        "a\0b:1",
        "a\u2028b:1",
        "\udcff:1",
        "bücher.example:1",
    ],
)
def test_what_is_no_address_is_shown_with_the_form_of_one(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no address; write HOST, HOST:PORT or \[IPV6\]:PORT with a port"
    ) as caught:
        Address.parse(text, 9876)
    assert str(caught.value).startswith(repr(text))


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match="is no address") as caught:
        Address.parse(":" * 10_000)
    assert len(str(caught.value)) < 200


@given(addresses)
def test_an_address_that_was_written_is_read(address: Address) -> None:
    assert Address.parse(str(address)) == address


@given(st.text(st.sampled_from("a1:.[]% -")) | st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = Address.parse(text, 1)
    except ValueError as error:
        refusal = str(error)
    else:
        assert Address.parse(str(address)) == address
        return
    assert "is no address" in refusal
