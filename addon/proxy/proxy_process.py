"""A proxy of one's own: a process that masks when it is said to be there, and is gone in the end.

It runs in a session of its own, so that what is typed at the terminal does not reach it. It ends,
too, when the process that started it is gone: its standard input then is at its end.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from addon.proxy.environment import make_files_absolute
from addon.proxy.health_check import Address, Health, check_health
from addon.proxy.run_logs import LISTENING

_HOST = "127.0.0.1"
_SERVE = (sys.executable, "-P", "-u", "-m", "addon.proxy.serve")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02
_LOG_CHARS = 2_000

_LISTENING = {
    "proxy": LISTENING,
    "reverse": re.compile(r"reverse proxy[^\n]* listening at \S*:(\d+)"),
}
"""What mitmproxy's log says of each mode, with the port."""


class Ports(NamedTuple):
    """Where a proxy listens on loopback; `reverse` is 0 without a server of its own behind it."""

    proxy: int = 0
    reverse: int = 0


class ProxyProcess:
    """Starts a proxy, starts it again on the same ports, and stops it.

    reverse: the origin (`http://localhost:11434`) for which it also stands in reverse mode.
    folder: its working directory; `log` gets what it says.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        log: Path,
        reverse: str | None = None,
    ) -> None:
        self._arguments = arguments
        self._folder, self.log = folder, log
        self._reverse = reverse
        self._process: subprocess.Popen[bytes] | None = None
        self.ports = Ports()

    @property
    def address(self) -> Address:
        return Address(_HOST, self.ports.proxy)

    def start(self) -> Health:
        """Start it, wait until it masks, and return how it is.

        Raises RuntimeError, with the end of its log, if it does not start.
        """
        with self.log.open("ab") as output:
            told = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*_SERVE, *self._spell_modes(), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=make_files_absolute(os.environ),
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if (ports := self._read_ports(told)) and (health := _ask(ports)):
                self.ports = ports
                return health
            time.sleep(_POLL_SECONDS)
        self.stop()
        log = self._read_log(told)[-_LOG_CHARS:].strip()
        raise RuntimeError(f"the proxy did not start: {log.removeprefix('obsmask: ')}")

    def forget(self, process: int) -> bool:
        """Whether this is the id of its process, which has ended and been waited for."""
        if self._process is None or self._process.pid != process:
            return False
        self._process.returncode = 0  # nobody can wait for it again
        self._process = None
        return True

    def stop(self) -> None:
        """Let it finish what it records, and end it."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # which closes its standard input, and waits
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _spell_modes(self) -> list[str]:
        """Return the options that say where it listens: anywhere at first, later there again."""
        port, reverse_port = self.ports
        modes = ["--listen-host", _HOST, "--listen-port", str(port), "--mode", f"regular@{port}"]
        if self._reverse:
            # mitmproxy refuses two modes whose ports are both any.
            modes += ["--mode", f"reverse:{self._reverse}@{reverse_port or _find_free_port()}"]
        return modes

    def _read_ports(self, told: int) -> Ports | None:
        """Return where it listens, as soon as it says so."""
        log = self._read_log(told)
        found = {name: sign.search(log) for name, sign in _LISTENING.items()}
        if not found["proxy"] or (self._reverse and not found["reverse"]):
            return None
        return Ports(**{name: int(match[1]) for name, match in found.items() if match})

    def _read_log(self, told: int) -> str:
        return self.log.read_bytes()[told:].decode(errors="replace")


def _find_free_port() -> int:
    with socket.create_server((_HOST, 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _ask(ports: Ports) -> Health | None:
    try:
        return check_health(Address(_HOST, ports.proxy))
    except OSError:
        return None
