"""mitmdump in forks of a process that has loaded mitmproxy already, which takes most of a start.

Our own modules are loaded anew in each, because they may keep a state, such as a secret. How a
proxy starts from nothing is seen where `running_proxy` has no `start`.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_LOADED = """
import gc, json, os, signal, sys
gc.disable()
import mitmproxy.tools.dump
from mitmproxy.tools.main import mitmdump
import ahocorasick_rs, cachetools, msgspec, orjson, platformdirs, sqlite3, tomli  # ours need them
import pydantic.fields, pydantic.functional_validators, pydantic.type_adapter, pydantic.types
gc.freeze()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who asked sees how each ends
for line in sys.stdin:  # which ends with the tests
    if child := os.fork():
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()
    start = json.loads(line)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(start["log"], os.O_WRONLY | os.O_APPEND), 1)
    os.dup2(1, 2)
    os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["env"])
    sys.argv[1:] = start["arguments"]
    mitmdump()
    break
"""


def fork_mitmdump(arguments: Sequence[str], log: Path, env: Mapping[str, str] | None) -> "Fork":
    """Start mitmdump as `start_mitmdump` does."""
    log.write_bytes(b"")
    start = {
        "arguments": arguments,
        "log": str(log),
        "folder": str(log.parent),
        "env": dict(os.environ if env is None else env),
    }
    process = _load()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(start), file=process.stdin, flush=True)
    return Fork(int(process.stdout.readline()))


@cache
def _load() -> "subprocess.Popen[str]":
    """Start the process that is forked."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", _LOADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )


class Fork:
    """A process that another one has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._fd: int | None = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already
            self._fd = None

    def poll(self) -> int | None:
        """Return 0, whatever it ended with, once it has ended."""
        if self._fd is not None and select.select([self._fd], [], [], 0)[0]:
            os.close(self._fd)
            self._fd = None
        return 0 if self._fd is None else None

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None and self._fd is not None:
            signal.pidfd_send_signal(self._fd, sig)

    def wait(self, timeout: float) -> int:
        """Wait for its end. Raises TimeoutExpired if that takes longer."""
        if self._fd is not None and not select.select([self._fd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"{self.pid}", timeout)
        return self.poll() or 0
