"""Whether git trusts the proxy: where it is built with GnuTLS it reads a variable of its own."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from addon.commands.diagnosis.finding import Finding, note

VARIABLE = "GIT_SSL_CAINFO"

_SECONDS = 20.0


def check_git(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is to be said of git in an environment that leads to a proxy of ours."""
    if environment.get(VARIABLE) or not uses_gnutls(environment):
        return
    yield note(
        f"git is built with GnuTLS, and {VARIABLE} is not set: git fails at hosts that the proxy "
        "opens",
        f'export {VARIABLE}="$SSL_CERT_FILE"',
    )


def uses_gnutls(environment: Mapping[str, str]) -> bool:
    """Whether the git on the search path speaks TLS by GnuTLS, as Debian's does."""
    git = shutil.which("git", path=environment.get("PATH"))
    if git is None:
        return False
    try:
        told = subprocess.run(  # noqa: S603 - what an agent would start by its name
            [git, "--exec-path"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        return b"gnutls" in (Path(told.stdout.strip()) / "git-remote-https").read_bytes()
    except (OSError, subprocess.SubprocessError):
        return False
