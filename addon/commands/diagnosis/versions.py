"""Which versions are installed, and whether another installation stands before this one."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from addon.commands.diagnosis.finding import Finding, note, ok

_SECONDS = 20.0
_PROGRAM = "obsmask"
_PINNED = "mitmproxy 11 pins cryptography, h11, h2 and tornado to versions with known weaknesses"


def check_versions() -> Iterator[Finding]:
    """Yield the versions that this command runs with."""
    mitmproxy = version("mitmproxy")
    yield ok(
        f"observation-masking {version('observation-masking')}, mitmproxy {mitmproxy}, "
        f"Python {platform.python_version()} ({sys.prefix})"
    )
    if int(mitmproxy.partition(".")[0]) < 12:
        yield note(f"{_PINNED}: install this with Python 3.12 or newer")


def check_installations(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield other installations on the search path; the first is what a shell starts."""
    own = version("observation-masking")
    found = list(dict.fromkeys(_find_programs(environment)))
    others = [(path, _ask_version(path)) for path in found if not _is_own(path)]
    for path, other in others:
        if other != own:
            first = "comes before this one on" if path == found[0] else "is on"
            yield note(f"{path}, of version {other or 'unknown'}, {first} the search path")


def _find_programs(environment: Mapping[str, str]) -> Iterator[Path]:
    for folder in environment.get("PATH", "").split(os.pathsep):
        if folder and (found := shutil.which(_PROGRAM, path=folder)):
            yield Path(found).resolve()


def _is_own(path: Path) -> bool:
    return path.is_relative_to(Path(sys.prefix).resolve()) or path == Path(sys.argv[0]).resolve()


def _ask_version(program: Path) -> str | None:
    """Return what a program says is its version; None if it says none."""
    try:
        done = subprocess.run(  # noqa: S603 - what the user would start by its name
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\w+)+", done.stdout)
    return found[0] if found else None
