"""Programs that are built with GnuTLS are found by what they are linked with."""

from pathlib import Path

import pytest

from addon.commands.diagnosis.gnutls import check_gnutls, uses_gnutls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A search path with a git that says where its parts are, and a wget."""
    write(tmp_path / "git", f"#!/bin/sh\necho {tmp_path}\n")
    return tmp_path


def write(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("git", "wget", "expected"),
    [
        ("libcurl-gnutls.so.4", "libgnutls.so.30", ["git", "wget"]),
        ("libcurl.so.4", "libssl.so.3", []),
    ],
    ids=["Debian's", "with OpenSSL"],
)
def test_programs_are_told_apart(folder: Path, git: str, wget: str, expected: list[str]) -> None:
    write(folder / "git-remote-https", git)
    write(folder / "wget", wget)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    found = [each.says.split()[0] for each in check_gnutls(environment, None)]
    assert expected == found
    told = {**environment, "GIT_SSL_CAINFO": "/ca.pem", "SYSTEM_WGETRC": "/ca.wgetrc"}
    assert [] == [*check_gnutls(told, None)]


def test_what_is_not_there_is_not_built_with_gnutls(folder: Path) -> None:
    write(folder / "git", "#!/bin/sh\nexit 1\n")
    environment = {"PATH": str(folder)}
    assert [False, False] == [uses_gnutls(name, environment) for name in ("git", "wget")]
