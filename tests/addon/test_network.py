"""Which proxy comes behind ours, where one of ours may be named, or one that is gone."""

import json
import socket
from collections.abc import Iterator

import pytest

from addon.commands.main import main
from addon.network import Address, find_free_port
from addon.proxy.environment import REPLACED
from addon.proxy.network import describe, find_upstream
from addon.proxy.upstream import Upstream

COMPANY = "http://proxy.corp.example:3128"


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def own(port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def find(environment: dict[str, str], *own: Address) -> Upstream:
    upstream = find_upstream(environment, own)
    assert upstream is not None
    return upstream


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_proxy_on_this_machine_is_used_while_it_is_there(port: int, host: str) -> None:
    assert f"http://{host}:{port}" == find({"HTTPS_PROXY": f"{host}:{port}"}, *own(1)).url


def test_a_proxy_on_this_machine_that_is_gone_is_named() -> None:
    url = f"http://127.0.0.1:{find_free_port()}"
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
    assert COMPANY == find({"HTTPS_PROXY": COMPANY}).url


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
    assert line == describe(find(named))
    other = {**named, "http_proxy": "http://other:1"}
    assert f"{line} (http_proxy names another, not used)" == describe(find(other))
