"""Starts mitmdump with the addon as a user would, for as long as a block lasts."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ADDON = Path(__file__).parents[1] / "mask.py"
HOST = "127.0.0.1"
START_SECONDS = 300.0

MITMDUMP = (sys.executable, "-u", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()")
"""This environment's own mitmdump, wherever its scripts are installed, with an unbuffered log."""

_LISTENING = re.compile(r"listening at \S*:(\d+)")
_MASKING = re.compile(
    _LISTENING.pattern + r".*observation-masking \S+ (?:ON|OFF|OBSERVING)", re.DOTALL
)
"""Listening does not prove that the addon is there: mitmdump ends after it if an option is bad."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running mitmdump: its port, its certificate authority, and what it has logged so far."""

    pid: int
    port: int
    ca: Path
    log_file: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


@contextmanager
def running_proxy(
    folder: Path,
    *arguments: str,
    script: Path = ADDON,
    env: dict[str, str] | None = None,
    confdir: Path | None = None,
) -> Iterator[Proxy]:
    """Run mitmdump with a script on a free port of loopback; `folder` gets its log and its CA.

    With `confdir`, the CA is the one that is there. Leaving the block ends it and waits for that,
    so what it writes is complete then. Raises RuntimeError, with the end of its log, if it does
    not start.
    """
    confdir, log = confdir or folder / "mitmproxy", folder / "mitmdump.log"
    command = [*MITMDUMP, "--listen-host", HOST, "--listen-port", "0", "-s", str(script)]
    command += ["--set", f"confdir={confdir}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=folder, env=env
        )
    try:
        port = _await_port(process, log, _MASKING if script == ADDON else _LISTENING)
        yield Proxy(process.pid, port, confdir / "mitmproxy-ca-cert.pem", log)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(START_SECONDS)


def _await_port(process: subprocess.Popen[bytes], log: Path, sign: re.Pattern[str]) -> int:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if ready := sign.search(log.read_text(errors="replace")):
            return int(ready[1])
        time.sleep(0.02)
    raise RuntimeError(f"mitmdump did not start:\n{log.read_text(errors='replace')[-2000:]}")
