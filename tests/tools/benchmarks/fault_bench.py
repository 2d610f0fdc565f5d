"""The proxies and providers of `tests.tools.benchmarks.faults`: plain ones, and ours."""

import json
import os
import socket
import socketserver
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from addon.proxy.server import ADDON, HOST, Proxy, running_proxy
from tests.tools.benchmarks import http2_faults
from tests.tools.benchmarks.beside_plain import STREAMING
from tests.tools.benchmarks.fault_list import Action, act

SECONDS = 20.0


class Seen(NamedTuple):
    """What a client gets, and whether that ended with a reset."""

    data: bytes
    was_reset: bool


class Provider(socketserver.ThreadingTCPServer):
    """Answers each request as `actions` says."""

    daemon_threads = True
    allow_reuse_address = True
    actions: Sequence[Action] = ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who hang up."""


class Connection(socketserver.StreamRequestHandler):
    server: Provider

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self.rfile.read(length)
        act(self.connection, self.server.actions)


class Bench:
    """A plain proxy, one that streams its answers, and ours, before two providers.

    provider: speaks HTTP/1.1. other: speaks HTTP/2, before proxies of its own.
    """

    def __init__(
        self,
        provider: Provider,
        other: http2_faults.Provider,
        folder: Path,
        stack: ExitStack,
    ) -> None:
        self.provider, self.other, self.folder = provider, other, folder
        (folder / "plain.py").touch()
        self.plain = stack.enter_context(start(self, "plain", folder / "plain.py"))
        self.streaming = stack.enter_context(start(self, "streaming", STREAMING))
        self.ours = stack.enter_context(start(self, "ours"))
        mode = f"reverse:https://{HOST}:{other.server_address[1]}"
        options = ("--mode", mode, "--set", "ssl_insecure=true")
        plain = start(self, "plain-http2", folder / "plain.py", *options)
        self.plain_http2 = stack.enter_context(plain)
        streams = start(self, "streaming-http2", STREAMING, *options)
        self.streaming_http2 = stack.enter_context(streams)
        self.ours_http2 = stack.enter_context(start(self, "ours-http2", ADDON, *options))


@contextmanager
def start(
    bench: Bench, name: str, script: Path = ADDON, *options: str, **variables: str
) -> Iterator[Proxy]:
    folder = bench.folder / name
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    if "--mode" not in options:
        mode = f"reverse:http://{HOST}:{bench.provider.server_address[1]}"
        options = ("--mode", mode, *options)
    with running_proxy(folder, *options, script=script, env=env | variables) as proxy:
        yield proxy


def exchange(port: int, actions: Sequence[Action], *, leaves: bool = False) -> Seen:
    """Send something, and return what comes; if it `leaves`, the client does not wait for that."""
    got = b""
    with socket.create_connection((HOST, port), SECONDS) as client:
        try:
            act(client, actions)
            while not leaves and (piece := client.recv(65_536)):
                got += piece
        except ConnectionError:
            return Seen(got, True)
        except OSError:  # closed by ourselves
            return Seen(got, False)
    return Seen(got, False)


def find_records(folder: Path) -> Path:
    return folder / "state" / "observation-masking" / "requests.jsonl"


def count_records(folder: Path) -> int:
    """Return how many records a file has. Raises ValueError for a line that cannot be read."""
    lines = find_records(folder).read_bytes().split(b"\n")
    return sum(1 for line in lines[:-1] if json.loads(line))


def read_errors(folder: Path) -> list[str | None]:
    """Return what each record of a file says of why its answer did not come to its end."""
    path = find_records(folder)
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["error"] for line in lines]


def is_sound(folder: Path) -> bool:
    """Whether the log has no traceback, and the record file no line that cannot be read."""
    if find_records(folder).exists():
        count_records(folder)
    return "Traceback" not in (folder / "mitmdump.log").read_text()


def has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
