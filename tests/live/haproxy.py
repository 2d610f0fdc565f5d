"""A real HAProxy before several proxies, as the documentation configures it."""

import contextlib
import csv
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.harness import SECONDS, eventually
from tests.support.places import ROOT
from tests.support.ports import hold_port

PROGRAM = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
NEEDS_HAPROXY = pytest.mark.skipif(PROGRAM is None, reason="no haproxy: apt-get install haproxy")
DOCUMENTED = ROOT / "docs" / "haproxy.cfg"


@dataclass(frozen=True)
class HAProxy:
    """A running HAProxy: where agents find it, and the socket that takes commands.

    port: for clients of a proxy. reverse_port: for those that take a base URL.
    """

    port: int
    reverse_port: int
    socket: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tell(self, command: str) -> str:
        """Give a command; return what is said to it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(self.socket))
            connection.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    @property
    def answers(self) -> bool:
        """Whether it takes commands; its socket is there a moment before it does."""
        with contextlib.suppress(OSError):
            self.tell("show info")
            return True
        return False

    def read_servers(self) -> dict[str, tuple[str, int]]:
        """Return the state of each server, and how many connections it has."""
        lines = self.tell("show stat").removeprefix("# ").splitlines()
        rows = [row for row in csv.DictReader(lines) if row["pxname"] == "proxies"]
        rows = [row for row in rows if row["svname"] != "BACKEND"]
        return {row["svname"]: (row["status"], int(row["scur"])) for row in rows}

    def await_states(self, states: Sequence[str]) -> None:
        """Wait until the servers, in order, are in these states."""
        eventually(lambda: [s for s, _ in self.read_servers().values()] == [*states] or None)


@contextlib.contextmanager
def running_haproxy(
    folder: Path, ports: Sequence[int], reverse_ports: Sequence[int]
) -> Iterator[HAProxy]:
    """Run it with the documented configuration, with other addresses; wait until all are up."""
    assert PROGRAM is not None
    running = HAProxy(hold_port(), hold_port(), folder / "haproxy.sock")
    config = DOCUMENTED.read_text(encoding="utf-8")
    places = (8081, 8082, 8083, 8091, 8092, 8093, 8080, 8090)
    actual = (*ports, *reverse_ports, running.port, running.reverse_port)
    port_at = dict(zip(places, actual, strict=True))
    config = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: str(port_at[int(found[0])]), config)
    config = re.sub(r"(stats socket) \S+", rf"\1 {running.socket}", config)
    (folder / "haproxy.cfg").write_text(config, encoding="utf-8")
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "-db", "-f", str(folder / "haproxy.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: running.answers or process.poll() is not None or None)
        assert process.poll() is None, (folder / "haproxy.log").read_text()
        running.await_states(["UP"] * len(ports))
        yield running
    finally:
        process.terminate()
        process.wait(SECONDS)
