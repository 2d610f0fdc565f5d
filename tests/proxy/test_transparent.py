"""What a network for one command needs of the machine, and what is said where that is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from addon.proxy import transparent
from addon.proxy.environment import CA_VARIABLES, trusting_environment
from addon.proxy.transparent import PACKAGES, Missing, find_missing


@pytest.fixture
def able(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux that lacks nothing, as far as it is asked; where its programs are."""
    for program in PACKAGES:
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    tun, restricted = tmp_path / "tun", tmp_path / "apparmor_restrict_unprivileged_userns"
    tun.touch()
    restricted.write_text("0\n")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(transparent, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(transparent, "_TUN", tun)
    monkeypatch.setattr(transparent, "_RESTRICTED", restricted)
    return tmp_path


def refuse(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, 1, "", says)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_machine_that_has_all_lacks_nothing(able: Path) -> None:
    assert find_missing() is None


@pytest.mark.parametrize(("program", "package"), PACKAGES.items())
def test_a_program_that_is_missing_is_named_with_its_package(
    able: Path, program: str, package: str
) -> None:
    (able / program).unlink()
    assert f"--transparent needs {program}, of the package {package}" == str(find_missing())


def test_what_else_can_be_missing_is_named(able: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "unshare: unshare failed: Operation not permitted\n")
    assert str(find_missing()) == (
        "--transparent needs user namespaces (unshare: unshare failed: Operation not permitted)"
    )
    (able / "apparmor_restrict_unprivileged_userns").write_text("1\n")
    assert find_missing() == Missing(
        "needs user namespaces, which AppArmor forbids here",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    )
    monkeypatch.setattr(transparent, "_TUN", able / "none")
    assert str(find_missing()).endswith(f"which you may not open: sudo chmod 666 {able / 'none'}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "ordinary user" in str(find_missing())
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "--transparent needs Linux" == str(find_missing())


def test_its_environment_names_authorities_and_no_proxy() -> None:
    before = {
        "HTTPS_PROXY": "http://a.test:1",
        "all_proxy": "http://a.test:1",
        "NO_PROXY": "b",
        "PATH": "/bin",
        "PIP_CERT": "/old.pem",
    }
    bundle = Path("/bundle.pem")
    expected = dict.fromkeys((*CA_VARIABLES, "PIP_CERT"), "/bundle.pem")
    assert {"PATH": "/bin", **expected} == trusting_environment(bundle, before)
