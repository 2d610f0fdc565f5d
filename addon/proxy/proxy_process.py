"""A proxy of one's own: a process that masks when it is said to be there, and is gone in the end.

It runs in a session of its own, so that what is typed at the terminal does not reach it. It ends,
too, when the process that started it is gone: its standard input then is at its end.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from addon.network import Address
from addon.proxy.environment import make_files_absolute
from addon.proxy.health_check import Health, check_health
from addon.proxy.run_logs import LISTENING

_HOST = "127.0.0.1"
_SERVE = (sys.executable, "-P", "-u", "-m", "addon.proxy.serve")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02
_LOG_CHARS = 2_000


class ProxyProcess:
    """Starts a proxy, starts it again on the same port, and stops it.

    address: where it listens, on loopback; port 0 until it has started.
    folder: its working directory; `log` gets what it says.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        log: Path,
    ) -> None:
        self._arguments = arguments
        self._folder, self.log = folder, log
        self._process: subprocess.Popen[bytes] | None = None
        self.address = Address(_HOST, 0)

    def start(self) -> Health:
        """Start it, wait until it masks, and return how it is.

        Raises RuntimeError, with the end of its log, if it does not start.
        """
        with self.log.open("ab") as output:
            told = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*_SERVE, *self._render_place(), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=make_files_absolute(os.environ),
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if (address := self._read_address(told)) and (health := _ask(address)):
                self.address = address
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

    def _render_place(self) -> list[str]:
        """Return the options that say where it listens: anywhere at first, later there again."""
        host, port = self.address
        return ["--listen-host", host, "--listen-port", str(port), "--mode", f"regular@{port}"]

    def _read_address(self, told: int) -> Address | None:
        """Return where it listens, as soon as it says so."""
        found = LISTENING.search(self._read_log(told))
        return Address(_HOST, int(found[1])) if found else None

    def _read_log(self, told: int) -> str:
        return self.log.read_bytes()[told:].decode(errors="replace")


def _ask(address: Address) -> Health | None:
    try:
        return check_health(address)
    except OSError:
        return None
