"""Which proxy comes behind ours, and which hosts it does not serve."""

import json
import socket
from collections.abc import Iterator, Mapping

import pytest

from addon.commands.main import main
from addon.network import Address
from addon.proxy.environment import REPLACED
from addon.proxy.upstream import NoProxy, Upstream, find_upstream, read_upstream
from tests.support.marks import as_one_test
from tests.support.ports import hold_port

COMPANY = "http://proxy.corp.example:3128"

NAMED = {
    "in upper case": ({"HTTPS_PROXY": COMPANY}, "HTTPS_PROXY", COMPANY),
    "in lower case": ({"https_proxy": COMPANY}, "https_proxy", COMPANY),
    "in both": ({"https_proxy": COMPANY, "HTTPS_PROXY": "http://b:1"}, "https_proxy", COMPANY),
    "for all schemes": ({"ALL_PROXY": COMPANY}, "ALL_PROXY", COMPANY),
    "for one and for all": (
        {"HTTPS_PROXY": COMPANY, "all_proxy": "socks5://b:1"},
        "HTTPS_PROXY",
        COMPANY,
    ),
    "for plain requests": ({"http_proxy": COMPANY}, "http_proxy", COMPANY),
    "an empty one before": ({"https_proxy": "", "HTTPS_PROXY": COMPANY}, "HTTPS_PROXY", COMPANY),
    "without a scheme": ({"HTTPS_PROXY": "corp:3128"}, "HTTPS_PROXY", "http://corp:3128"),
    "without a port": ({"HTTPS_PROXY": "http://corp/"}, "HTTPS_PROXY", "http://corp:80"),
    "over TLS": ({"HTTPS_PROXY": "https://corp"}, "HTTPS_PROXY", "https://corp:443"),
    "by an address": ({"HTTPS_PROXY": "http://[::1]:3128"}, "HTTPS_PROXY", "http://[::1]:3128"),
    "with a user": ({"HTTPS_PROXY": "http://me:pw@corp:1"}, "HTTPS_PROXY", "http://corp:1"),
}


@as_one_test
@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_the_proxy_that_is_named_is_found(case: tuple[Mapping[str, str], str, str]) -> None:
    environment, variable, url = case
    upstream = find(environment)
    assert (variable, url) == (upstream.variable, upstream.url)


def find(environment: Mapping[str, str]) -> Upstream:
    upstream = read_upstream(environment)
    assert upstream is not None
    return upstream


def test_without_a_proxy_there_is_none() -> None:
    assert read_upstream({"NO_PROXY": "corp", "HTTPS_PROXY": " "}) is None


AUTHORIZATIONS = {
    "none": ("corp:3128", None),
    "a name and a password": ("http://me:secret@corp:1", "Basic bWU6c2VjcmV0"),
    "signs that are encoded": ("me%40corp:p%3Aw%2F%C3%A9@corp:1", "Basic bWVAY29ycDpwOncvw6k="),
    "a token alone": ("http://token@corp:1", "Basic dG9rZW46"),
}


@pytest.mark.parametrize("case", AUTHORIZATIONS.values(), ids=AUTHORIZATIONS)
def test_the_user_is_read_from_the_address(case: tuple[str, str | None]) -> None:
    value, expected = case
    assert expected == find({"HTTPS_PROXY": value}).authorization


@pytest.mark.parametrize("value", ["http://me:secret@", "ftp://corp:1", "corp:99999", "http://x:y"])
def test_what_is_no_proxy_is_refused_without_its_value(value: str) -> None:
    expected = "^https_proxy names no proxy: expected an address as http://HOST:PORT$"
    with pytest.raises(ValueError, match=expected):
        read_upstream({"https_proxy": value})


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks4", "socks"])
def test_a_socks_proxy_is_refused_with_what_to_do(scheme: str) -> None:
    with pytest.raises(ValueError, match=r"^ALL_PROXY names a SOCKS proxy.* take ALL_PROXY out"):
        read_upstream({"ALL_PROXY": f"{scheme}://me:secret@corp:1080"})


def test_a_proxy_that_no_host_is_reached_by_is_none() -> None:
    """Whatever it is: it stops no start."""
    for proxy in ("socks5://corp:1080", "nonsense:x", COMPANY):
        assert None is read_upstream({"ALL_PROXY": proxy, "NO_PROXY": "a.test,*"})


def test_of_two_proxies_that_for_https_holds() -> None:
    upstream = find({"HTTPS_PROXY": COMPANY, "HTTP_PROXY": "http://other:1"})
    assert (COMPANY, "HTTP_PROXY") == (upstream.url, upstream.other)
    assert None is find({"HTTPS_PROXY": COMPANY, "HTTP_PROXY": COMPANY}).other
    assert None is find({"HTTPS_PROXY": COMPANY}).other


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("http_proxy", [True, False]),
        ("https_proxy", [False, True]),
        ("all_proxy", [True, True]),
    ],
)
def test_a_scheme_without_a_proxy_goes_directly(variable: str, expected: list[bool]) -> None:
    upstream = find({variable: COMPANY, "no_proxy": "intern"})
    schemes = ("http", "https")
    assert expected == [upstream.serves(each, "example.com", 443) for each in schemes]
    assert [False, False] == [upstream.serves(each, "intern", 443) for each in schemes]


COVERED = {
    "the name": ("example.com", "example.com", 443),
    "one below it": ("example.com", "a.b.example.com", 443),
    "a dot before": (".example.com", "example.com", 443),
    "a dot before, and one below": (".example.com", "a.example.com", 443),
    "a star before": ("*.example.com", "a.example.com", 443),
    "other letters": ("Example.COM", "eXample.com", 443),
    "a dot behind": ("example.com", "example.com.", 443),
    "one of several": ("a.test, example.com", "example.com", 443),
    "spaces between": ("a.test example.com", "example.com", 443),
    "every host": ("*", "example.com", 443),
    "every host, by its address": ("a,*", "192.0.2.1", 443),
    "the port": ("example.com:8443", "example.com", 8443),
    "an address": ("192.0.2.1", "192.0.2.1", 443),
    "an address and a port": ("192.0.2.1:80", "192.0.2.1", 80),
    "a range": ("10.0.0.0/8", "10.1.2.3", 443),
    "a range of IPv6": ("2001:db8::/32", "2001:db8::1", 443),
    "an address of IPv6": ("2001:db8::1", "[2001:db8::1]", 443),
    "an address of IPv6 in brackets": ("[2001:db8::1]:443", "2001:db8::1", 443),
    "a dot behind the entry": ("e.test.", "e.test", 443),
    "a dot behind the entry, and a port": ("e.test.:443", "a.e.test.", 443),
    "an address with a dot behind": ("192.0.2.1.", "192.0.2.1", 443),
    "an address of IPv4 as one of IPv6": ("::ffff:10.0.0.1", "10.0.0.1", 443),
    "a range of IPv4 as one of IPv6": ("[::ffff:10.0.0.0]/104", "::ffff:10.1.2.3", 443),
    "a range of IPv6 in brackets": ("[2001:db8::]/32", "2001:db8::1", 443),
    "a name of another script": ("bücher.example", "xn--bcher-kva.example", 443),
    "a host of another script": ("xn--bcher-kva.example", "a.Bücher.example", 443),
    "this machine": ("", "localhost", 80),
    "this machine's address": ("", "127.0.0.1", 80),
    "another of its addresses": ("", "127.1.2.3", 80),
    "its address of IPv6": ("", "::1", 80),
    "a name below its own": ("", "tool.localhost", 80),
    "all of its addresses": ("", "0.0.0.0", 80),
}

NOT_COVERED = {
    "nothing": ("", "example.com", 443),
    "another name": ("example.com", "example.org", 443),
    "the end of a name": ("example.com", "notexample.com", 443),
    "one above": ("a.example.com", "example.com", 443),
    "another port": ("example.com:8443", "example.com", 443),
    "an address outside": ("10.0.0.0/8", "11.0.0.1", 443),
    "a name for a range": ("10.0.0.0/8", "ten.example", 443),
    "an address for a name": ("example.com", "192.0.2.1", 443),
    "another kind of address": ("0.0.0.0/0", "2001:db8::1", 443),
    "an address of IPv6, which ends as one of IPv4": ("10.0.0.1", "2001:db8::a00:1", 443),
    "a name that is none": ("ü..example", "u.example", 443),
    "all of IPv6 for IPv4": ("::/0", "10.0.0.1", 443),
    "no range": ("10.0.0.0/99", "10.0.0.1", 443),
}


@as_one_test
@pytest.mark.parametrize("case", COVERED.values(), ids=COVERED)
def test_no_proxy_covers(case: tuple[str, str, int]) -> None:
    names, host, port = case
    assert True is NoProxy(names).covers(host, port)


@as_one_test
@pytest.mark.parametrize("case", NOT_COVERED.values(), ids=NOT_COVERED)
def test_no_proxy_does_not_cover(case: tuple[str, str, int]) -> None:
    names, host, port = case
    assert False is NoProxy(names).covers(host, port)


# Where one of ours may be named, or one that is gone.


COMPANY = "http://proxy.corp.example:3128"


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def own(port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def find_beside(environment: dict[str, str], *own: Address) -> Upstream:
    """Return the proxy that comes behind ours, which listens at `own`."""
    upstream = find_upstream(environment, own)
    assert upstream is not None
    return upstream


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_proxy_on_this_machine_is_used_while_it_is_there(port: int, host: str) -> None:
    assert f"http://{host}:{port}" == find_beside({"HTTPS_PROXY": f"{host}:{port}"}, *own(1)).url


def test_a_proxy_on_this_machine_that_is_gone_is_named() -> None:
    url = f"http://127.0.0.1:{hold_port()}"
    with pytest.raises(ValueError, match=f"^https_proxy names {url}, where nothing listens.* --un"):
        find_upstream({"https_proxy": url})


def test_a_run_does_not_begin_where_its_network_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("https_proxy", "socks5://me:secret@corp:1")
    assert 1 == main(["run", "--", "echo", "started"])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert err.startswith("obsmask: https_proxy names a SOCKS proxy, ")


def test_a_proxy_elsewhere_is_not_asked() -> None:
    assert COMPANY == find_beside({"HTTPS_PROXY": COMPANY}).url


def test_a_proxy_does_not_come_behind_itself(port: int) -> None:
    assert find_upstream({"HTTPS_PROXY": f"http://localhost:{port}"}, own(port)) is None


def test_behind_itself_comes_what_its_variables_replaced(port: int) -> None:
    ours = f"http://127.0.0.1:{port}"
    for before, expected in (({"HTTPS_PROXY": COMPANY}, COMPANY), ({"ALL_PROXY": ours}, None)):
        environment = {"HTTPS_PROXY": ours, REPLACED: json.dumps(before)}
        found = find_upstream(environment, own(port))
        assert expected == (found and found.url)


def test_the_log_names_the_proxy_and_the_one_that_is_not_used() -> None:
    named = {"HTTPS_PROXY": "http://me:secret@corp:1"}
    line = "requests go on to the proxy http://corp:1, which HTTPS_PROXY names"
    assert line == str(find_beside(named))
    other = {**named, "http_proxy": "http://other:1"}
    assert f"{line} (http_proxy names another, not used)" == str(find_beside(other))
