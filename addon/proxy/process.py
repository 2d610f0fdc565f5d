"""The proxy of `obsmask run`: a process of its own, and the log that it leaves.

Its code takes most of a second to load. So `obsmask` starts the process as soon as it sees that it
will run an agent, and finds out meanwhile what the proxy is to do. Nothing here may take long to
load itself: neither mitmproxy nor `masking`.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from addon.network import LOOPBACK_HOST, Address
from addon.places import make_folder, open_private
from addon.proxy.environment import make_files_absolute

if TYPE_CHECKING:
    from addon.proxy.health import Health

_Found = TypeVar("_Found")

START_SECONDS = 300.0

LISTENING = re.compile(r"proxy[^\n]* listening at \S*:(\d+)")
"""mitmproxy's log line of a proxy in any mode, with its port."""

_POLL_SECONDS = 0.01
_LOG_CHARS = 2_000


def wait_for_start(
    name: str,
    process: "subprocess.Popen[bytes]",
    read_log: Callable[[], str],
    find: Callable[[str], _Found | None],
    seconds: float = START_SECONDS,
) -> _Found:
    """Wait until a process has started: until `find` returns something, given its log so far.

    Raises RuntimeError, with the end of the log, if the process ends before, or takes too long.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if (found := find(read_log())) is not None:
            return found
        time.sleep(_POLL_SECONDS)
    log = read_log()[-_LOG_CHARS:].strip()
    raise RuntimeError(f"{name} did not start: {log.removeprefix('obsmask: ')}")


def find_port(log: str, sign: re.Pattern[str] = LISTENING) -> int | None:
    """Return the port that a log says a proxy listens at; None if it does not say so."""
    found = sign.search(log)
    return int(found[1]) if found else None


# The process

_SERVE = (sys.executable, "-P", "-u", "-m", "addon.proxy.server")
_RUN_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_KEPT_LOGS = 20


class ProxyProcess:
    """Loads a proxy, starts it, starts it again on the same port, and stops it.

    The proxy runs in a session of its own, so that what is typed at the terminal does not reach it.
    It also ends when the process that started it is gone, as its standard input then ends.

    address: where it listens, on loopback; port 0 until it has started, unless one is given.
    folder: its working directory.
    log: the file that gets its output.
    enter: what its command begins with, if it is to run in a network of its own.
    launched: when its process was first started, by `time.monotonic`.
    """

    def __init__(self, folder: Path, log: Path, port: int = 0, enter: Sequence[str] = ()) -> None:
        self.log, self.launched = log, time.monotonic()
        self.address = Address(LOOPBACK_HOST, port)
        self._enter, self._has_served = enter, False
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._is_told = False
        self._log_begin = 0

    def load(self) -> None:
        """Start the process: it loads what it needs, and waits for `start`. Raises OSError."""
        self._load()

    def start(self, arguments: Sequence[str], bundle: Path, modes: Sequence[str] = ()) -> "Health":
        """Have it serve, wait until it masks, and return its health.

        arguments: mitmdump's, without those for where it listens.
        bundle: the authorities that it trusts.
        modes: mitmdump's, beside that of a plain proxy.

        Raises RuntimeError, with the end of its log, if it does not start.
        """
        process = self._process or self._load()
        host, port = self.address  # any free port at first, the same one later
        place = ["--listen-host", host, "--listen-port", str(port)]
        place += [part for mode in (f"regular@{port}", *modes) for part in ("--mode", mode)]
        told = json.dumps({"arguments": [*place, *arguments], "bundle": str(bundle)})
        self._is_told = True
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and its log says why
                process.stdin.write(f"{told}\n".encode())
        try:
            self.address, health = wait_for_start(
                "the proxy", process, self._read_log, _find_masking, _RUN_START_SECONDS
            )
        except RuntimeError:
            self.stop()
            raise
        self._has_served = True
        return health

    def forget(self, process: int) -> bool:
        """Return whether this is the id of its process, which has ended and been waited for."""
        if self._process is None or self._process.pid != process:
            return False
        self._process.returncode = 0  # nobody can wait for it again
        self._process = None
        return True

    def stop(self) -> None:
        """Let it write the records of what it has served, and end it."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # which closes its standard input, and waits
            if not self._may_have_served:
                process.kill()
                return
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    @property
    def _may_have_served(self) -> bool:
        """Whether it was told to serve, and has started before, so that it may have records."""
        return self._is_told and self._has_served

    def close(self) -> None:
        """End it without a wait, if it still starts, and leave no empty log behind."""
        if self._may_have_served and self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # with which it ends as soon as it has started
        else:
            self.stop()
        with contextlib.suppress(OSError):
            if self.log.stat().st_size == 0:
                self.log.unlink()

    def _load(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as output:
            self._log_begin, self._is_told = output.tell(), False
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*self._enter, *_SERVE],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=make_files_absolute(os.environ),
                start_new_session=True,
            )
        return self._process

    def _read_log(self) -> str:
        return self.log.read_bytes()[self._log_begin :].decode(errors="replace")


def _find_masking(log: str) -> "tuple[Address, Health] | None":
    """Return where a proxy listens, and its health, once it answers as one that masks."""
    port = find_port(log)
    if port is None:
        return None
    from addon.proxy.health import check_health

    address = Address(LOOPBACK_HOST, port)
    try:
        health = check_health(address)
    except OSError:
        return None
    return (address, health) if health else None


# Its log


def open_log(state: Path) -> Path:
    """Return a new, empty log in `logs` of the state folder; only the latest logs are kept.

    Raises OSError.
    """
    folder = state / "logs"
    make_folder(folder)
    for old in sorted(folder.glob("*.log"))[: 1 - _KEPT_LOGS]:
        old.unlink(missing_ok=True)
    log = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}.log"
    os.close(open_private(str(log), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return log
