"""`obsmask doctor` beside real proxies, of real runtimes: what it says is what is the case."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from mitmproxy.certs import CertStore

from addon.commands.doctor.client import try_interpreter
from addon.commands.doctor.report import broken, note
from addon.proxy.authorities import write_bundle
from addon.proxy.environment import client_environment
from addon.proxy.server import Proxy, running_proxy
from tests.live.harness import ON, SECONDS, environment
from tests.support.ports import hold_port

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node")


class Found(NamedTuple):
    code: int
    findings: Sequence[dict[str, str]]

    def levels(self, topic: str) -> list[str]:
        return [each["level"] for each in self.findings if each["topic"] == topic]

    def says(self, topic: str) -> str:
        return "\n".join(each["says"] for each in self.findings if each["topic"] == topic)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's home with an authority of mitmproxy's, and a configuration."""
    home = tmp_path_factory.mktemp("home")
    CertStore.from_store(home / ".mitmproxy", "mitmproxy", 2048)
    (home / "mine.toml").write_bytes(ON)
    return home


@pytest.fixture(scope="module")
def proxy(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy of ours that the user has started."""
    folder, confdir = tmp_path_factory.mktemp("proxy"), home / ".mitmproxy"
    arguments = ("--set", f"mask_config={home}/mine.toml")
    with running_proxy(folder, *arguments, env=environment(home), confdir=confdir) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bundle(home: Path) -> Path:
    return write_bundle(home / "bundle.pem", [home / ".mitmproxy" / "mitmproxy-ca-cert.pem"])


def ask(home: Path, *arguments: str | Path, **variables: str) -> Found:
    """Run doctor in an environment that has nothing but these variables."""
    command = [sys.executable, "-m", "addon.commands.main", "doctor", "--json", "--config"]
    done = subprocess.run(
        [*command, home / "mine.toml", *arguments],
        env=environment(home, XDG_DATA_HOME=str(home / "data"), **variables),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stderr == ""
    return Found(done.returncode, json.loads(done.stdout)["findings"])


def script(home: Path, interpreter: str) -> Path:
    path = home / f"agent-of-{Path(interpreter).name}"
    path.write_text(f"#!{interpreter}\n")
    path.chmod(0o755)
    return path


def test_a_python_trusts_the_proxy_in_the_environment_of_run(home: Path) -> None:
    found = ask(home, "--", script(home, sys.executable))
    assert found.code == 0
    assert ["ok"] == found.levels("Command")
    assert found.says("Command").endswith("trusts the proxy's certificate")


@needs_node
def test_a_node_trusts_the_proxy_in_the_environment_of_run(home: Path) -> None:
    found = ask(home, "--", script(home, str(NODE)))
    assert found.code == 0
    assert ["ok"] == found.levels("Command")
    assert found.says("Command").endswith("trusts the proxy's certificate")


def test_in_the_environment_of_a_running_proxy_all_is_well(
    home: Path, proxy: Proxy, bundle: Path
) -> None:
    variables = client_environment(proxy.url, bundle)
    found = ask(home, "--", script(home, sys.executable), **variables)
    assert found.code == 0
    assert ["ok"] == found.levels("Proxy")
    assert "ON: keeps the results of the last 2 rounds of tool calls" in found.says("Proxy")
    assert ["ok"] == found.levels("Command")
    assert ["ok", "ok"] == found.levels("Certificates")


@pytest.mark.parametrize(
    "runtime", [pytest.param(sys.executable, id="Python"), pytest.param(NODE, marks=needs_node)]
)
def test_a_runtime_without_the_authority_does_not_trust_the_proxy(
    home: Path, proxy: Proxy, runtime: str
) -> None:
    variables = {"HTTPS_PROXY": proxy.url, "https_proxy": proxy.url}
    found = ask(home, "--", script(home, runtime), **variables)
    assert found.code == 1
    assert "broken" == found.levels("Command")[0]
    assert "does not trust the proxy's certificate" in found.says("Command")
    assert "Not set: SSL_CERT_FILE, REQUESTS_CA_BUNDLE, NODE_EXTRA_CA_CERTS." in found.says(
        "Certificates"
    )


@pytest.fixture(scope="module")
def foreign(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy of ours with an authority of its own, as on another machine."""
    with running_proxy(tmp_path_factory.mktemp("foreign"), env=environment(home)) as proxy:
        yield proxy


def test_a_proxy_with_another_authority_is_found(home: Path, foreign: Proxy, bundle: Path) -> None:
    """The bundle has the user's own."""
    found = ask(home, **client_environment(foreign.url, bundle))
    assert found.code == 1
    assert ["note", "broken"] == found.levels("Certificates")[:2]
    assert "has another authority than" in found.says("Certificates")


def test_a_bundle_with_the_authority_of_another_machines_proxy_will_do(
    home: Path, foreign: Proxy, tmp_path: Path
) -> None:
    mounted = write_bundle(tmp_path / "mounted.pem", [foreign.ca])
    variables = client_environment(foreign.url, mounted)
    found = ask(home, "--", script(home, sys.executable), **variables)
    assert found.code == 0
    assert ["note", "ok"] == found.levels("Certificates")
    assert "was not tried" in found.says("Command")
    assert ["ok"] == found.levels("Proxy")
    assert "keeps records where it runs" in found.says("What is stored")


def test_a_proxy_that_is_gone_is_broken(home: Path, bundle: Path) -> None:
    url = f"http://127.0.0.1:{hold_port()}"
    found = ask(home, **client_environment(url, bundle))
    assert found.code == 1
    assert ["broken"] == found.levels("Proxy")
    assert "no proxy answers: Connection refused" in found.says("Proxy")


def test_a_proxy_of_somebody_elses_is_told_apart(home: Path, tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "nothing.py").touch()
    with running_proxy(tmp_path, script=tmp_path / "nothing.py", env=environment(home)) as proxy:
        found = ask(home, **client_environment(proxy.url, bundle))
    assert ["note"] == found.levels("Proxy")
    assert "a proxy, but not this one" in found.says("Proxy")


def test_a_proxy_that_does_not_start_is_broken(home: Path) -> None:
    """As where the user's options of mitmproxy have a mistake."""
    options = home / ".mitmproxy" / "config.yaml"
    options.write_text("connection_strategy: nonsense\nbody_size_limit: nonsense\n")
    found = ask(home, "--", script(home, sys.executable))
    options.unlink()
    assert found.code == 1
    assert "mitmdump did not start" in found.says("Command")


def test_what_cannot_be_started_or_fails_otherwise_is_not_called_untrusting(tmp_path: Path) -> None:
    failing = tmp_path / "python3"
    failing.write_text("#!/bin/sh\necho nothing is here >&2; exit 1\n")
    failing.chmod(0o755)
    (found,) = try_interpreter(failing, "it", "https://x.test", {"PATH": ""})
    assert broken("it gets no answer through the proxy: nothing is here") == found
    (found,) = try_interpreter(tmp_path / "none", "it", "https://x.test", {"PATH": ""})
    assert note("Could not test whether it trusts the proxy's certificate") == found
