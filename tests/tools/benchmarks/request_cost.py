"""What a request costs the proxy in CPU: `python -m tests.tools.benchmarks.request_cost` (Linux).

An agent's session that grows by two messages a request goes through four real mitmdumps in turn:
alone, alone but streaming its answers, with masking on, and with masking off. The settings are the
shipped ones, all records are written, and both sides speak TLS. The first request of each session
is new to the proxy and is not counted. mitmdump holds a streamed answer back until it is complete;
the addon has it streamed, which costs mitmdump time of its own, and so does the second proxy.

Time is CPU time by the kernel's count, for each thread, so another load on the machine changes
little. The share of the addon is what it adds, as a part of what mitmdump took alone for the same
requests in the same round. Medians are printed, and the least and the most.
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from addon.proxy.server import ADDON, HOST, Proxy, running_proxy
from tests.tools.benchmarks import thread_names
from tests.tools.benchmarks.rewrite import build_body
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Reply

SCRIPTS = Path(__file__).parent
PROXIES: Mapping[str, tuple[tuple[Path, ...], tuple[str, ...]]] = {
    "alone": ((), ()),
    "streaming": ((SCRIPTS / "stream_answers.py",), ()),
    "on": ((ADDON,), ()),
    "off": ((ADDON,), ("--set", "mask_set=schema1.enabled=false")),
}
"""Each proxy: its scripts, and its other arguments."""

GROWTHS = 10
"""The requests of a session that are counted."""

EVENTS = 20
"""The pieces of an answer, which come one by one."""

_EVENT_SECONDS = 0.001
_SERVER = "localhost"
_QUIET_SECONDS = 0.4
"""Longer than requests wait to become records together."""

_QUIET_MS = 1.0


class Session(NamedTuple):
    """How large a session is: tool turns before its first request, and bytes in its middle."""

    name: str
    turns: int
    size: int


SESSIONS = (Session("45 kB", 20, 45_000), Session("0.95 MB", 200, 950_000))

Times = Mapping[str, float]
"""CPU time by the name of the thread, in milliseconds."""


class Target(NamedTuple):
    """A running proxy, and a connection through it that stays open."""

    proxy: Proxy
    names: Path
    connection: http.client.HTTPSConnection

    def send(self, body: bytes) -> None:
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        self.connection.request("POST", "/v1/chat/completions", body, headers)
        self.connection.getresponse().read()

    def settle(self) -> Times:
        """Return what each thread has taken, once the work that comes after a request is done."""
        before = self._read()
        while True:
            time.sleep(_QUIET_SECONDS)
            now = self._read()
            if sum(now.values()) - sum(before.values()) < _QUIET_MS:
                return self._name(now)
            before = now

    def _read(self) -> dict[str, float]:
        taken = {}
        for task in Path(f"/proc/{self.proxy.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has ended
                taken[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e6
        return taken

    def _name(self, taken: Mapping[str, float]) -> Times:
        self.names.unlink(missing_ok=True)
        os.kill(self.proxy.pid, signal.SIGUSR1)
        while not self.names.exists():
            time.sleep(0.01)
        names = json.loads(self.names.read_text())
        times: dict[str, float] = {}
        for number, each in taken.items():
            # The threads of a pool differ in a number at the end.
            name = names.get(number, "other").rstrip("-_0123456789 ")
            times[name] = times.get(name, 0.0) + each
        return times


class Answers(BaseHTTPRequestHandler):
    """A provider that streams a short answer, and reports a usage."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        self.rfile.read(size)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        words = ({"choices": [{"index": 0, "delta": {"content": " word"}}]} for _ in range(EVENTS))
        usage = {"prompt_tokens": size // 4, "completion_tokens": EVENTS}
        for each in (*words, {"choices": [], "usage": usage}):
            event = f"data: {json.dumps(each)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            time.sleep(_EVENT_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's own name
        """Say nothing."""


def tell(session: Session, number: int) -> Iterator[bytes]:
    """Yield the requests of a session, which shares no text with one of another number."""
    request: dict[str, Any] = json.loads(build_body(turns=session.turns + GROWTHS))
    messages = request["messages"]
    scale = session.size / 1_050_000
    for message in messages:
        if message["role"] == "tool":
            text = message["content"]
            message["content"] = f"{number} {text[: int(len(text) * scale)]}"
    for end in range(len(messages) - 2 * GROWTHS, len(messages) + 1, 2):
        told = {**request, "stream": True, "messages": messages[:end]}
        yield json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def measure(target: Target, bodies: Iterable[bytes]) -> Times:
    """Send a session; return the CPU time of a request by thread, without the first."""
    first, *others = bodies
    target.send(first)
    before = target.settle()
    for body in others:
        target.send(body)
    after = target.settle()
    return {name: (after[name] - before.get(name, 0.0)) / len(others) for name in after}


@contextlib.contextmanager
def running_targets(folder: Path) -> Iterator[Mapping[str, Target]]:
    """Run the proxies before one provider."""
    provider = Provider(lambda _: Reply(), tls_folder=folder / "tls")  # makes the certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "tls" / "provider-leaf.pem")
    server = ThreadingHTTPServer((HOST, 0), Answers)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(_running(folder / name, name, provider.ca, server))
            for name in PROXIES
        }


@contextlib.contextmanager
def _running(
    folder: Path, name: str, ca: Path | None, server: ThreadingHTTPServer
) -> Iterator[Target]:
    folder.mkdir()
    names = folder / "threads.json"
    env = {
        **{key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ},
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        thread_names.VARIABLE: str(names),
    }
    (script, *others), more = (*PROXIES[name][0], SCRIPTS / "thread_names.py"), PROXIES[name][1]
    arguments = ["--set", f"ssl_verify_upstream_trusted_ca={ca}", *more]
    for other in others:
        arguments += ["-s", str(other)]
    with running_proxy(folder, *arguments, script=script, env=env) as proxy:
        context = ssl.create_default_context(cafile=proxy.ca)
        connection = http.client.HTTPSConnection(HOST, proxy.port, context=context)
        connection.set_tunnel(_SERVER, server.server_port)
        yield Target(proxy, names, connection)
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="sessions through each proxy")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, running_targets(Path(name)) as targets:
        for session in SESSIONS:
            found: dict[str, list[Times]] = {each: [] for each in targets}
            for number in range(rounds):
                bodies = [*tell(session, number)]
                for each, target in targets.items():
                    found[each].append(measure(target, bodies))
            show(session, found)


def show(session: Session, found: Mapping[str, list[Times]]) -> None:
    """Print what was found for the sessions of a size."""
    alone = [sum(times.values()) for times in found["alone"]]
    print(f"{session.name}: CPU of a request in ms, and the share of the addon")
    for name, each in found.items():
        totals = [sum(times.values()) for times in each]
        print(f"  {name:10} {_spread(totals, '.2f')}", end="")
        if name != "alone":
            shares = [(t - a) / a for t, a in zip(totals, alone, strict=True)]
            print(f"   share {_spread(shares, '.2f')}", end="")
        threads = {
            thread: statistics.median(t.get(thread, 0.0) for t in each) for thread in each[-1]
        }
        spelled = (f"{n} {ms:.2f}" for n, ms in sorted(threads.items(), key=_negate) if ms >= 0.005)
        print(f"   {', '.join(spelled)}")
    sys.stdout.flush()


def _negate(item: tuple[str, float]) -> float:
    return -item[1]


def _spread(values: list[float], form: str) -> str:
    least, most = min(values), max(values)
    return f"{statistics.median(values):{form}} ({least:{form}} to {most:{form}})"


if __name__ == "__main__":
    main()
