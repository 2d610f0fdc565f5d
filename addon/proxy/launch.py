"""Starts the proxy as a user would, and makes the environment in which clients use it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import certifi
import platformdirs
from mitmproxy import certs, options

ADDON = Path(__file__).parents[1] / "mask.py"
HOST = "127.0.0.1"
START_SECONDS = 60.0

MITMDUMP = (sys.executable, "-u", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()")
"""This environment's own mitmdump, wherever its scripts are installed, with an unbuffered log."""

_ADDING_VARIABLE = "NODE_EXTRA_CA_CERTS"
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", _ADDING_VARIABLE)
"""All but the last take the place of the public authorities."""

_LISTENING = re.compile(r"listening at \S*:(\d+)")
_MASKING = re.compile(_LISTENING.pattern + r".*observation-masking \S+ O(?:N|FF)", re.DOTALL)
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
    folder: Path, *arguments: str, script: Path = ADDON, env: dict[str, str] | None = None
) -> Iterator[Proxy]:
    """Run mitmdump with a script on a free port of loopback; `folder` gets its log and its CA.

    Leaving the block ends it and waits for that, so what it writes is complete then. Raises
    RuntimeError, with the end of its log, if it does not start.
    """
    confdir, log = folder / "mitmproxy", folder / "mitmdump.log"
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


def write_bundle(path: Path, authorities: Sequence[Path]) -> Path:
    """Write the public certificate authorities and these into one file."""
    path.write_bytes(b"\n".join(p.read_bytes() for p in (Path(certifi.where()), *authorities)))
    return path


def user_bundle() -> Path:
    """Write and return the user's own bundle: the authorities trusted so far, and mitmproxy's.

    Trusted so far are those in the files that the clients' variables name, and the public ones
    unless a variable replaces them. If mitmproxy has no authority yet, it is made, as on its first
    start. Raises OSError, with the variable's name, if a variable names no readable file.
    """
    confdir = Path(options.CONF_DIR).expanduser()
    certs.CertStore.from_store(confdir, options.CONF_BASENAME, options.KEY_SIZE)
    authority = confdir / f"{options.CONF_BASENAME}-ca-cert.pem"
    folder = platformdirs.user_data_path("observation-masking", appauthor=False)
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / "ca-bundle.pem"
    named = [name for name in _CA_VARIABLES if os.environ.get(name)]
    parts = [Path(certifi.where()).read_bytes()] if {*named} <= {_ADDING_VARIABLE} else []
    for part in (*map(_read_named, named), authority.read_bytes()):
        if not any(part in earlier for earlier in parts):  # a variable may name this very bundle
            parts.append(part)
    bundle.write_bytes(b"\n".join(parts))
    return bundle


def _read_named(variable: str) -> bytes:
    file = os.environ[variable]
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise OSError(f"{variable} names {file}: {error.strerror}") from None


def client_environment(url: str, bundle: Path) -> dict[str, str]:
    """Return the variables by which the known clients find the proxy and trust its CA."""
    return {
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        **dict.fromkeys(_CA_VARIABLES, str(bundle)),
        "NODE_USE_ENV_PROXY": "1",
    }
