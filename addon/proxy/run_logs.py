"""The logs of proxies that commands start: a private file each, of which the latest are kept."""

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from addon.places import make_folder, open_private

_KEPT = 20

LISTENING = re.compile(r"HTTP\(S\) proxy[^\n]* listening at \S*:(\d+)")
"""What mitmproxy's log says of a plain proxy, with the port."""


def open_log(state: Path) -> Path:
    """Return a new, empty log in `logs` of the state folder. Raises OSError."""
    folder = state / "logs"
    make_folder(folder)
    for old in sorted(folder.glob("*.log"))[: 1 - _KEPT]:
        old.unlink(missing_ok=True)
    log = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}.log"
    os.close(open_private(str(log), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return log


def find_ports(state: Path) -> Iterator[int]:
    """Yield the ports of the proxies that have a log in the state folder, the latest first.

    Most of them have ended since, and another program may listen there.
    """
    for log in sorted((state / "logs").glob("*.log"), reverse=True):
        with contextlib.suppress(OSError):
            if found := LISTENING.search(log.read_text(encoding="utf-8", errors="replace")):
                yield int(found[1])
