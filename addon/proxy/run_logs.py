"""The logs of proxies that commands start: a private file each, of which the latest are kept."""

import os
from datetime import UTC, datetime
from pathlib import Path

from addon.metrics.private_files import make_folder, open_private

_KEPT = 20


def open_log(state: Path) -> Path:
    """Return a new, empty log in `logs` of the state folder. Raises OSError."""
    folder = state / "logs"
    make_folder(folder)
    for old in sorted(folder.glob("*.log"))[: 1 - _KEPT]:
        old.unlink(missing_ok=True)
    log = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}.log"
    os.close(open_private(str(log), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return log
