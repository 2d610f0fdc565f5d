"""What a client is told, and that the page on deployment says the same."""

import re
from pathlib import Path

import pytest

from addon.proxy.environment import client_environment, make_files_absolute
from tests.support.places import ROOT

URL = "http://127.0.0.1:8080"
BUNDLE = Path("/bundle.pem")


def test_a_client_learns_the_proxy_and_whom_to_trust() -> None:
    told = client_environment(URL, BUNDLE)
    said = {URL, str(BUNDLE), "/bundle.wgetrc", "localhost,127.0.0.1,::1", "1", "{}"}
    assert said == {*told.values()}
    assert {"HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO"} <= {*told}


def test_what_clients_read_beside_is_replaced_where_it_is_set() -> None:
    before = {"ALL_PROXY": "socks5://elsewhere:1", "PIP_CERT": "/other.pem", "NO_PROXY": "corp"}
    told = client_environment(URL, BUNDLE, before)
    assert {"ALL_PROXY": URL, "PIP_CERT": str(BUNDLE)}.items() <= told.items()
    assert {"ALL_PROXY", "PIP_CERT"} == told.keys() - client_environment(URL, BUNDLE).keys()


def test_no_variable_changes_what_a_client_says_about_itself() -> None:
    """Each says where to connect to, or whom to trust, or is a note of ours."""
    kinds = re.compile(r"proxy|cert|bundle|cainfo|wgetrc|^obsmask_", re.IGNORECASE)
    assert [] == [name for name in client_environment(URL, BUNDLE) if not kinds.search(name)]


def test_authorities_are_found_from_any_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"SSL_CERT_FILE": "own.pem", "SSL_CERT_DIR": "a::/b", "PIP_CERT": "/c", "HOME": "d"}
    assert {
        "SSL_CERT_FILE": f"{tmp_path}/own.pem",
        "SSL_CERT_DIR": f"{tmp_path}/a:/b",
        "PIP_CERT": "/c",
        "HOME": "d",
    } == make_files_absolute(given)


def test_the_page_names_each_variable() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text()
    named = {*re.findall(r"`([A-Z_]+)(?:=\S+)?`", page)}
    assert {name.upper() for name in client_environment(URL, BUNDLE)} <= named
