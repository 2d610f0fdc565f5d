"""Programs that are built with GnuTLS, as Debian's are: they read variables of their own."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from addon.commands.diagnosis.finding import Finding, note
from addon.proxy.environment import WGET_VARIABLE

_SECONDS = 20.0

_VARIABLES: Mapping[str, str] = {"git": "GIT_SSL_CAINFO", "wget": WGET_VARIABLE}
"""By which each finds authorities."""


def check_gnutls(environment: Mapping[str, str], mend: str | None) -> Iterator[Finding]:
    """Yield which of them do not trust the proxy, in an environment that leads to one of ours."""
    for name, variable in _VARIABLES.items():
        if not environment.get(variable) and uses_gnutls(name, environment):
            yield note(
                f"{name} is built with GnuTLS, and {variable} is not set: it fails at hosts that "
                "the proxy opens",
                mend,
            )


def uses_gnutls(name: str, environment: Mapping[str, str]) -> bool:
    """Whether the program of this name on the search path speaks TLS by GnuTLS."""
    program = shutil.which(name, path=environment.get("PATH"))
    try:
        return program is not None and b"libgnutls" in _read_part(name, program)
    except (OSError, subprocess.SubprocessError):
        return False


def _read_part(name: str, program: str) -> bytes:
    """Return the part of a program that speaks TLS: git has one of its own for that."""
    if name != "git":
        return Path(program).read_bytes()
    told = subprocess.run(  # noqa: S603 - what an agent would start by its name
        [program, "--exec-path"], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    # It is linked with a libcurl that names its own TLS.
    part = (Path(told.stdout.strip()) / "git-remote-https").read_bytes()
    return part.replace(b"libcurl-gnutls", b"libgnutls")
