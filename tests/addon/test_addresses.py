"""Which addresses are this machine, to a client and to a server; how they are read and written."""

import socket

import pytest

from addon.network import (
    DEFAULT_ADDRESS,
    DEFAULT_URL,
    LOOPBACK_NAMES,
    Address,
    bracket,
    find_free_port,
    is_loopback,
    is_this_machine,
    is_unspecified,
    read_address,
    read_ip,
)
from tests.support.marks import as_one_test

LOOPBACK = (
    *LOOPBACK_NAMES,
    *("LOCALHOST.", "a.localhost", "a.b.LocalHost.", "127.0.0.2", "[::1]", "::ffff:127.0.0.1"),
)
UNSPECIFIED = ("0.0.0.0", "::", "[::]", "::ffff:0.0.0.0")
ELSEWHERE = (
    *("127.example.com", "localhost.example", "notlocalhost", "10.0.0.1", "fe80::1", "0.0.0.1"),
    *("", ".", "[", "127.0.0.1.example.com"),
)


@as_one_test
@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_this_machine_and_nothing_that_others_reach(host: str) -> None:
    assert (True, True, False) == (is_loopback(host), is_this_machine(host), is_unspecified(host))


@pytest.mark.parametrize("host", UNSPECIFIED)
def test_an_unspecified_address_leads_here_and_lets_others_in(host: str) -> None:
    assert (False, True, True) == (is_loopback(host), is_this_machine(host), is_unspecified(host))


@as_one_test
@pytest.mark.parametrize("host", ELSEWHERE)
def test_every_other_host_is_another_machine(host: str) -> None:
    assert (False, False, False) == (
        is_loopback(host),
        is_this_machine(host),
        is_unspecified(host),
    )


@as_one_test
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1.", "10.0.0.1"),
        ("example.com", None),
        ("10.0.0", None),
    ],
)
def test_an_ip_address_is_told_from_a_name(host: str, expected: str | None) -> None:
    address = read_ip(host)
    assert expected == (address and str(address))


def test_only_an_address_of_ipv6_gets_brackets() -> None:
    assert ["127.0.0.1", "a.example", "[::1]"] == [*map(bracket, ("127.0.0.1", "a.example", "::1"))]
    assert "[::1]:80" == str(Address("::1", 80))


def test_a_proxy_listens_on_loopback_unless_it_is_asked_otherwise() -> None:
    assert "http://127.0.0.1:8080" == DEFAULT_URL
    assert DEFAULT_ADDRESS == read_address(DEFAULT_URL)


def test_a_free_port_can_be_had() -> None:
    with socket.create_server(("127.0.0.1", find_free_port())) as server:
        assert 10_000 <= server.getsockname()[1] < 32_768


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [find_free_port() for _ in range(3)]
    monkeypatch.setattr("random.sample", lambda *_: ports)
    with pytest.raises(OSError, match="no port is free"):
        find_free_port()


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        ("http://localhost:9090/", Address("localhost", 9090), "http://localhost:9090"),
        ("[::1]:8080", Address("::1", 8080), "http://[::1]:8080"),
    ],
)
def test_an_address_is_read(text: str, address: Address, url: str) -> None:
    assert (address, url) == (read_address(text), read_address(text).url)


@as_one_test
@pytest.mark.parametrize(
    "text",
    ["", "8080", "localhost", "localhost:none", "localhost:99999", "ftp://localhost:1", "a:1/b"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"as 127.0.0.1:8080: {text}$"):
        read_address(text)
