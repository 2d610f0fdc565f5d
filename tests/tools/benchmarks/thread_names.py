"""A mitmproxy script that writes down which thread is which: `mitmdump -s thread_names.py`.

At SIGUSR1 it writes the threads of its process, by the number that `/proc` has of them, into the
file that `OBSMASK_THREADS` names.
"""

import json
import os
import signal
import threading
from pathlib import Path

VARIABLE = "OBSMASK_THREADS"
"""The environment variable that names the file."""


def running() -> None:
    signal.signal(signal.SIGUSR1, _write)


def _write(*_: object) -> None:
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    file = Path(os.environ[VARIABLE])
    part = file.with_suffix(".part")
    part.write_text(json.dumps(names))
    part.replace(file)
