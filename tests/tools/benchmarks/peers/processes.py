"""A peer's process, and what its whole family has taken of the CPU (Linux)."""

import contextlib
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from addon.proxy.server import HOST

START_SECONDS = 300.0
STOP_SECONDS = 30.0
_QUIET_SECONDS = 0.3
_TRIES = 20
_IDLE_SHARE = 0.1
"""What a process that waits may take of a CPU for its clocks."""


class Target(NamedTuple):
    """Where requests are sent: a port of loopback, and a side's processes behind it.

    takes_urls: whether it is a forward proxy, which is told the whole URL.
    bases: what precedes the path of a request, by its wire format.
    """

    port: int
    pids: tuple[int, ...] = ()
    takes_urls: bool = False
    bases: Mapping[str, str] = MappingProxyType({})


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, port: int, ready: str, **variables: str
) -> Iterator[int]:
    """Run a peer with a home of its own; once it answers `GET ready` on a port, yield its pid.

    Where `ready` is empty, it is enough that it takes connections.
    Raises RuntimeError, with the end of its log, if it does not start.
    """
    log = folder / "peer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=make_environment(folder, variables),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(port, ready):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start:\n{_read_end(log)}")
            time.sleep(0.1)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def make_environment(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return all of the environment that a peer gets."""
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return {"PATH": os.environ.get("PATH", ""), **home, **variables}


def answers(port: int, path: str) -> bool:
    """Whether something on a port of loopback answers a request, or takes a connection."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        if not path:
            connection.connect()
            return True
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def read_cpu(pid: int) -> float:
    """Return the CPU seconds, user and system, of a process and all that it has started."""
    family, parents = {pid}, {int(stat[0]): int(stat[2]) for stat in _read_all()}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    ticks = sum(sum(map(int, stat[3:7])) for stat in _read_all() if int(stat[0]) in family)
    return ticks / os.sysconf("SC_CLK_TCK")


def settle(pids: Collection[int]) -> dict[int, float]:
    """Return the CPU seconds of each, once the work that comes after a request is done."""
    before = {pid: read_cpu(pid) for pid in pids}
    for _ in range(_TRIES):
        time.sleep(_QUIET_SECONDS)
        now = {pid: read_cpu(pid) for pid in pids}
        if all(now[pid] - before[pid] < _QUIET_SECONDS * _IDLE_SHARE for pid in pids):
            return now
        before = now
    return before


def _read_all() -> Iterator[tuple[str, ...]]:
    """Yield of each process: id, state, parent, and its times: own and of its dead children."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text()
                fields = stat.rpartition(")")[2].split()
                yield folder.name, fields[0], fields[1], *fields[11:15]


def _read_end(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
