"""Which versions are installed."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version

from addon.commands.doctor.report import Finding, note, ok

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
