"""The proxy of `obsmask run`: a process of its own, and the log that it leaves.

Its code takes most of a second to load. So `obsmask` starts the process as soon as it sees that it
will run an agent, and finds out meanwhile what the proxy is to do. Nothing here may take long to
load itself: neither mitmproxy nor `masking`.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from addon.network import LOOPBACK_HOST, Address
from addon.places import (
    MEMORY_FILE,
    STATE_VARIABLE,
    describe_error,
    make_folder,
    open_private,
    state_folder,
)
from addon.proxy.environment import make_files_absolute
from addon.store import StoreError, copy_database

if TYPE_CHECKING:
    from addon.proxy.health import Health

_Found = TypeVar("_Found")

START_SECONDS = 300.0

LISTENING = re.compile(r"proxy[^\n]* listening at \S*:(\d+)")
"""mitmproxy's log line of a proxy in any mode, with its port."""

_POLL_SECONDS = 0.01
_LOG_CHARS = 2_000


class Process(Protocol):
    """What is asked of a process that was started; `subprocess.Popen` says what each does."""

    pid: int

    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...
    def wait(self, timeout: float) -> int: ...


def wait_for_start(
    name: str,
    process: Process,
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
    log = read_log()[-_LOG_CHARS:].strip() or "it has left no log"
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
    It also ends when the process that started it is gone, as its standard input then ends. What it
    does never depends on its log, which may be on a full disk: its port comes through a pipe.

    address: where it listens, on loopback; port 0 until it has started, unless one is given.
    folder: its working directory, where it keeps its files, and the file that gets its output.
    enter: what its command begins with, if it is to run in a network of its own.
    launched: when its process was first started, by `time.monotonic`.
    """

    def __init__(self, folder: "RunFolder", port: int = 0, enter: Sequence[str] = ()) -> None:
        self.folder, self.launched = folder, time.monotonic()
        self.address = Address(LOOPBACK_HOST, port)
        self._enter, self._has_served = enter, False
        self._process: subprocess.Popen[bytes] | None = None
        self._is_told, self._said = False, b""
        self._log_begin = 0

    def start(self, arguments: Sequence[str], bundle: Path, modes: Sequence[str] = ()) -> "Health":
        """Have it serve, wait until it masks, and return its health.

        arguments: mitmdump's, without those for where it listens.
        bundle: the authorities that it trusts.
        modes: mitmdump's, beside that of a plain proxy.

        Raises RuntimeError, with the end of its log, if it does not start.
        """
        process = self._process or self.load()
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
                "the proxy", process, self._read_log, self._find_masking, _RUN_START_SECONDS
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
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
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
        self.folder.close()

    def load(self) -> "subprocess.Popen[bytes]":
        """Start the process: it loads what it needs, and waits for `start`. Raises OSError."""
        with self.folder.open_log() as output:
            self._log_begin, self._is_told, self._said = output.tell(), False, b""
            self._process = process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*self._enter, *_SERVE],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=self.folder.path,
                env={**make_files_absolute(os.environ), STATE_VARIABLE: str(self.folder.path)},
                start_new_session=True,
            )
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
        return process

    def _read_log(self) -> str:
        return self.folder.read_log()[self._log_begin :].decode(errors="replace")

    def _find_masking(self, _: str) -> "tuple[Address, Health] | None":
        """Return where the proxy listens, and its health, once it answers as one that masks."""
        if self._process is not None and self._process.stdout is not None:
            self._said += self._process.stdout.read() or b""
        port = re.search(rb"^(\d+)\n", self._said, re.MULTILINE)
        if port is None:
            return None
        from addon.proxy.health import find_health

        address = Address(LOOPBACK_HOST, int(port[1]))
        health = find_health(address)
        return (address, health) if health else None


# Its files

_LEAST_BYTES = 100_000
"""A folder that takes less is full: a log and some records take as much."""


class RunFolder:
    """Where the proxy of a run keeps its files, its log among them, until `close`.

    It is the user's state folder. Where that takes nothing, as in a home that is full or read-only,
    it is a temporary one, which is removed at the end. If there is no room for that either, what
    cannot be written is lost, and the run goes on.

    path: the folder.
    log: the proxy's own; None if it has none.
    spare: the temporary folder; None unless something needs one.
    notice: a line for the user on what cannot be written where it belongs; else empty.

    Raises OSError if there is no folder at all, and RuntimeError if the user has no home.
    """

    def __init__(self) -> None:
        self.spare: Path | None = None
        self.notice = ""
        self.log: Path | None = None
        self.path = state_folder()
        try:
            _check_room(self.path)
        except OSError as error:
            try:
                spare = self.find_spare(error)
                _copy_known(self.path, spare)
                self.path = spare
            except OSError:
                if not self.path.is_dir():
                    raise
                self.notice = f"{describe_error(error)}. What this run cannot write is lost"
        with contextlib.suppress(OSError):
            self.log = _make_log(self.path)

    def find_spare(self, error: OSError) -> Path:
        """Return the temporary folder, which an error makes necessary. Raises that without one."""
        if self.spare is None:
            folder = None
            try:
                folder = Path(tempfile.mkdtemp(prefix="obsmask-"))
                _check_room(folder)
            except OSError:
                if folder is not None:
                    folder.rmdir()
                raise error from None
            self.spare = folder
            self.notice = (
                f"{describe_error(error)}. This run keeps its files in {folder}, and removes them "
                "at its end"
            )
        return self.spare

    def open_log(self) -> BinaryIO:
        """Open the log to append to it, or what takes its place if it cannot be written."""
        with contextlib.suppress(OSError):
            if self.log is not None:
                return self.log.open("ab")
        return open(os.devnull, "ab")  # noqa: PTH123 - no path, but a device

    def read_log(self) -> bytes:
        """Return the log so far."""
        with contextlib.suppress(OSError):
            if self.log is not None:
                return self.log.read_bytes()
        return b""

    def drop_log(self) -> None:
        """Leave no log behind."""
        with contextlib.suppress(OSError):
            if self.log is not None:
                self.log.unlink()

    def close(self) -> None:
        """Leave no empty log behind, and no temporary folder."""
        if not self.read_log():
            self.drop_log()
        if self.spare is not None:
            shutil.rmtree(self.spare, ignore_errors=True)


def _check_room(folder: Path) -> None:
    """Raise OSError, with the folder's name, if it cannot take a file of some size."""
    make_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            if file.write(bytes(_LEAST_BYTES)) < _LEAST_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def _copy_known(state: Path, spare: Path) -> None:
    """Copy what is known of conversations and accounts, and the history if there is room for it.

    A conversation that was masked and goes on is masked alike: else a model that binds its
    reasoning would refuse it.
    """
    with contextlib.suppress(OSError):
        for file in sorted(state.glob("*.sqlite3"), key=lambda each: each.name != MEMORY_FILE):
            copy = spare / file.name
            try:
                copy_database(file, copy)
            except StoreError:
                copy.unlink(missing_ok=True)


def _make_log(state: Path) -> Path:
    """Return a new, empty log in `logs` of the state folder; only the latest logs are kept."""
    folder = state / "logs"
    make_folder(folder)
    for old in sorted(folder.glob("*.log"))[: 1 - _KEPT_LOGS]:
        old.unlink(missing_ok=True)
    log = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}.log"
    os.close(open_private(str(log), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return log
