"""A conversation sent through all sides at once, each request to one after the other."""

import http.client
import json
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from addon.proxy.server import HOST
from addon.replay.replay import RecordedRequest
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat
from masking.wire.messages import MESSAGES
from tests.tools.benchmarks.peers.processes import Target, settle
from tests.tools.benchmarks.peers.recorder import Arrival, Recorder
from tests.tools.benchmarks.peers.sides import KEY

TIMEOUT_SECONDS = 120.0
_HEADERS = {
    "content-type": "application/json",
    "authorization": f"Bearer {KEY}",
    "x-api-key": KEY,
    "anthropic-version": "2023-06-01",
}


class Outcome(NamedTuple):
    """What became of a request: its status, how long it took, and what reached the provider.

    status: None if there was no answer; `problem` then has the error's name.
    """

    status: int | None
    seconds: float
    arrivals: tuple[Arrival, ...]
    problem: str = ""


class Played(NamedTuple):
    """What became of a conversation on one side, request by request, and its CPU seconds."""

    outcomes: Sequence[Outcome]
    cpu_seconds: float


class Road:
    """A connection to a side that stays open, as a client keeps it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: http.client.HTTPConnection | None = None

    def send(self, recorded: RecordedRequest) -> tuple[int | None, float, str]:
        """Send a request and read the answer; return its status, the seconds, and what failed."""
        host, url = locate(self._target, recorded)
        started = time.perf_counter()
        status, problem = None, ""
        try:
            status = self._ask(url, host, recorded.body)
        except (OSError, http.client.HTTPException) as error:
            problem = type(error).__name__
            self.close()
        return status, time.perf_counter() - started, problem

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, url: str, host: str, body: bytes) -> int:
        # As clients do, notice that a server has hung up on a connection that was idle.
        if self._connection is not None and _has_ended(self._connection.sock):
            self.close()
        if self._connection is None:
            port = self._target.port
            self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_SECONDS)
        headers = _HEADERS | ({"host": host} if self._target.takes_urls else {})
        self._connection.request("POST", url, body, headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


class Address(NamedTuple):
    """Where a request goes; to a forward proxy, `path` is the whole URL."""

    host: str
    path: str


USUAL = {
    "chat": Address("api.openai.com", "/v1/chat/completions"),
    "messages": Address("api.anthropic.com", "/v1/messages"),
}
"""Where the requests of a conversation go that names no address, as one in JSON."""


def locate(target: Target, recorded: RecordedRequest) -> Address:
    """Return the host of a request, and its path or URL as a side is told it."""
    wire = recorded.wire.name
    host, path = recorded.host or USUAL[wire].host, recorded.path or USUAL[wire].path
    base = f"http://{host}" if target.takes_urls else target.bases.get(wire, "")
    return Address(host, f"{base}{path}")


def _has_ended(connection: socket.socket | None) -> bool:
    return connection is None or bool(select.select([connection], [], [], 0)[0])


def warm_up(targets: Mapping[str, Target], provider: Recorder, wire: str) -> None:
    """Let each side load what it loads with its first request; what becomes of it is no matter."""
    recorded = WARM_UPS[wire]
    for target in targets.values():
        road = Road(target)
        road.send(recorded)
        road.close()
    provider.take()


def _make(wire: WireFormat, call: object, result: object) -> RecordedRequest:
    question = {"role": "user", "content": "List the files."}
    request = {"model": "none", "max_tokens": 9, "messages": [question, call, result]}
    return RecordedRequest(body=json.dumps(request).encode(), when=datetime.now(UTC), wire=wire)


_LISTED = "\n".join(f"-rw-r--r-- 1 user user {7 * n} Jan 1 00:00 file-{n}.txt" for n in range(99))
_FUNCTION = {"name": "bash", "arguments": "{}"}
_CALL = {"id": "call_1", "type": "function", "function": _FUNCTION}
_USE = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": _LISTED}
WARM_UPS = {
    "chat": _make(
        CHAT,
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": _LISTED},
    ),
    "messages": _make(
        MESSAGES,
        {"role": "assistant", "content": [_USE]},
        {"role": "user", "content": [_RESULT]},
    ),
}
"""A small request in each format."""


def play(
    requests: Sequence[RecordedRequest], targets: Mapping[str, Target], provider: Recorder
) -> Mapping[str, Played]:
    """Send a conversation through these sides, another one first for each of its requests."""
    roads = {name: Road(target) for name, target in targets.items()}
    pids = [pid for target in targets.values() for pid in target.pids]
    before = settle(pids)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in targets}
    provider.take()
    for number, recorded in enumerate(requests):
        for name in _rotate(list(targets), number):
            status, seconds, problem = roads[name].send(recorded)
            outcome = Outcome(status, seconds, tuple(provider.take()), problem)
            outcomes[name].append(outcome)
    for road in roads.values():
        road.close()
    after = settle(pids)
    taken = {pid: after[pid] - before[pid] for pid in pids}
    return {
        name: Played(outcomes[name], sum(taken[pid] for pid in target.pids))
        for name, target in targets.items()
    }


def _rotate(names: Sequence[str], by: int) -> Iterator[str]:
    begin = by % len(names)
    yield from (*names[begin:], *names[:begin])
