"""The proxy is there when it is said to be, gone afterwards, and trusted by who asks for it."""

import re
import socket
import ssl
from pathlib import Path

import certifi
import pytest
from mitmproxy.certs import CertStore

from addon.proxy.launch import client_environment, running_proxy, user_bundle, write_bundle
from tests.live.harness import environment, run_mitmdump
from tests.places import CONFIG, ROOT


def authority(folder: Path) -> Path:
    CertStore.from_store(folder, "some", 2048)
    return folder / "some-ca-cert.pem"


def certificates(bundle: Path) -> int:
    return bundle.read_text().count("BEGIN CERTIFICATE")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.live
def test_a_proxy_is_there_within_the_block_and_gone_behind_it(tmp_path: Path) -> None:
    with running_proxy(tmp_path, env=environment(tmp_path)) as proxy:
        socket.create_connection(("127.0.0.1", proxy.port)).close()
        assert "observation-masking" in proxy.log
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))


@pytest.mark.live
def test_a_proxy_is_gone_behind_a_block_that_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), running_proxy(tmp_path, env=environment(tmp_path)) as it:
        raise ZeroDivisionError
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", it.port))


@pytest.mark.live
def test_a_proxy_that_does_not_start_says_why(tmp_path: Path) -> None:
    launched = running_proxy(tmp_path, "--mode", "nonsense", env=environment(tmp_path))
    with pytest.raises(RuntimeError, match="nonsense"), launched:
        pass


def test_a_bundle_holds_the_public_authorities_and_the_others(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle.pem", [authority(tmp_path)])
    assert certificates(bundle) == certificates(Path(certifi.where())) + 1
    ssl.create_default_context(cafile=str(bundle))


@pytest.mark.live
def test_the_users_bundle_holds_the_authority_that_the_proxy_will_use(home: Path) -> None:
    bundle = user_bundle()
    assert certificates(bundle) == certificates(Path(certifi.where())) + 1
    used = (home / ".mitmproxy" / "mitmproxy-ca-cert.pem").read_text()
    assert used in bundle.read_text()
    run_mitmdump(home, "-n", "--set", f"confdir={home}/.mitmproxy")
    assert (home / ".mitmproxy" / "mitmproxy-ca-cert.pem").read_text() == used


def test_the_users_bundle_holds_what_the_user_trusted_before(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a second time adds nothing: the variable then names the bundle itself."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority(home)))
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(authority(home)))
    first = user_bundle()
    assert certificates(first) == 2
    monkeypatch.setenv("SSL_CERT_FILE", str(first))
    before = first.read_bytes()
    assert user_bundle().read_bytes() == before


def test_a_variable_that_names_no_file_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{home}/none.pem")
    problem = f"^REQUESTS_CA_BUNDLE names {home}/none.pem: No such file or directory$"
    with pytest.raises(OSError, match=problem):
        user_bundle()


def test_a_variable_that_adds_authorities_takes_the_place_of_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(authority(home)))
    assert certificates(Path(certifi.where())) + 2 == certificates(user_bundle())


def test_a_client_learns_the_proxy_and_whom_to_trust(tmp_path: Path) -> None:
    told = client_environment("http://127.0.0.1:8080", tmp_path / "bundle.pem")
    assert set(told.values()) == {"http://127.0.0.1:8080", str(tmp_path / "bundle.pem"), "1"}
    assert {"HTTPS_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"} <= set(told)


WRITTEN = [
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("*.md"),
    CONFIG,
    *(path for path in (ROOT / "addon").rglob("*.py") if "studio" not in path.parts),
]


def test_no_command_that_is_written_down_opens_the_proxy_to_other_machines() -> None:
    """Without a host of its own mitmdump listens on every interface; with `-n` on none."""
    start = re.compile(r"mitm(?:dump|web|proxy)\b[^`\n]* -\w* ?[^`\n]*mask\.py")
    commands = [found for path in WRITTEN for found in start.findall(path.read_text())]
    assert len(commands) > 3
    assert [] == [each for each in commands if not re.search(r" --listen-host | -n", each)]
