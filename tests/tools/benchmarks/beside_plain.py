"""The same traffic through a plain mitmdump and through one with the addon: what both cost.

A provider of our own behind each, plain HTTP in reverse mode, all on loopback; Linux.
"""

import http.client
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from addon.proxy.server import ADDON, HOST, Proxy, running_proxy

PATH = "/v1/chat/completions"
ANSWER = b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
STREAMING = Path(__file__).with_name("stream_answers.py")
_PING_SECONDS = 0.02


class Cost(NamedTuple):
    """What some traffic cost: seconds, CPU seconds of the proxy, its peak in MB, longest ping."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    ping_seconds: float


class Answers(BaseHTTPRequestHandler):
    """A provider that reads a request, and answers it with its `body`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    body = ANSWER
    headers_of_it: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)

    def do_POST(self) -> None:
        left = int(self.headers["content-length"])
        self.take(self.rfile.read(left))
        self.answer(self.body)

    def do_GET(self) -> None:
        self.answer(b"{}")

    def take(self, request: bytes) -> None:
        """Take a request before it is answered."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's own name
        """Say nothing."""

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        for name, value in (*self.headers_of_it, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    request_queue_size = 500
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who hang up."""


@contextmanager
def running_provider(answers: type[BaseHTTPRequestHandler] = Answers) -> Iterator[int]:
    """Run a provider; yield its port."""
    with _Server((HOST, 0), answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def running_side(name: str, provider: int, *arguments: str) -> Iterator[Proxy]:
    """Run `plain`, `streaming` or `ours` before a provider, with a state folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "plain.py")
        script.touch()
        script = {"ours": ADDON, "streaming": STREAMING}.get(name, script)
        env = {**os.environ, "HOME": folder, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
        options = ("--mode", f"reverse:http://{HOST}:{provider}", *arguments)
        with running_proxy(Path(folder), *options, script=script, env=env) as proxy:
            yield proxy


def measure(proxy: Proxy, traffic: Callable[[], object]) -> Cost:
    """Let traffic pass while a client of another process asks for something small all the time."""
    send(proxy.port, b'{"messages": []}')  # what is loaded with the first request is loaded
    _settle(proxy)
    with _pinging(proxy.port) as worst:
        cpu, started = read_cpu(proxy), time.perf_counter()
        traffic()
        seconds = time.perf_counter() - started
        ping = worst()
    _settle(proxy)
    return Cost(seconds, read_cpu(proxy) - cpu, read_peak(proxy), ping)


def send(port: int, body: bytes, **headers: str) -> tuple[int, bytes]:
    """POST a body through a proxy; the status and the body of the answer."""
    client = http.client.HTTPConnection(HOST, port, timeout=600)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.request("POST", PATH, body, {"content-type": "application/json", **named})
    answer = client.getresponse()
    told = (answer.status, answer.read())
    client.close()
    return told


def send_at_once(port: int, bodies: list[bytes], **headers: str) -> None:
    """POST bodies through a proxy, each on a connection of its own, all at the same time."""
    with ThreadPoolExecutor(len(bodies)) as threads:
        list(threads.map(lambda body: send(port, body, **headers), bodies))


def read_cpu(proxy: Proxy) -> float:
    """Return the CPU seconds of a proxy so far."""
    fields = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_peak(proxy: Proxy) -> float:
    """Return the most memory that a proxy has had, in megabytes."""
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def _settle(proxy: Proxy) -> None:
    """Wait until nothing is left to be done."""
    before = -1.0
    while (now := read_cpu(proxy)) != before:
        before = now
        time.sleep(0.3)


@contextmanager
def _pinging(port: int) -> Iterator[Callable[[], float]]:
    """Ask for something small all the time; yield what stops that and returns the longest wait."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_ping, args=(port, theirs), daemon=True)
    process.start()
    ours.recv()

    def stop() -> float:
        ours.send(None)
        worst: float = ours.recv()
        return worst

    yield stop
    process.join()


def _ping(port: int, parent: Connection) -> None:
    client = http.client.HTTPConnection(HOST, port, timeout=600)
    worst = 0.0
    _ask(client)
    parent.send(None)
    while not parent.poll(_PING_SECONDS):
        worst = max(worst, _ask(client))
    parent.send(worst)


def _ask(client: http.client.HTTPConnection) -> float:
    started = time.perf_counter()
    client.request("GET", "/ping")
    client.getresponse().read()
    return time.perf_counter() - started
