"""What other connections wait for under load: `python -m tests.tools.benchmarks.load` (Linux).

Each load goes through a plain mitmdump and through one with the addon, in turn, `--rounds` times:
200 clients that stream answers, 20 bodies of 50 MB at once, 20 of 11.5 MB with 14,000 small tool
turns each. Meanwhile a client of another process asks for something small again and again. The
medians are printed, and their ratio. Seconds depend on what else the machine does; both sides see
the same.
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from addon.proxy.server import Proxy
from tests.tools.benchmarks.beside_plain import (
    Answers,
    Cost,
    measure,
    running_provider,
    running_side,
    send,
    send_at_once,
)

_CLIENTS, _EVENTS, _EVENT_SECONDS = 200, 20, 0.1
_STREAM = b'{"model": "gpt-4o", "stream": true, "messages": []}'


class Streams(Answers):
    """A provider that streams where it is asked for that."""

    is_stream = False

    def take(self, request: bytes) -> None:
        self.is_stream = request == _STREAM

    def answer(self, body: bytes) -> None:
        if not self.is_stream:
            return super().answer(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for number in range(_EVENTS):
            self.wfile.write(b'data: {"choices": [], "n": %d}\n\n' % number)
            time.sleep(_EVENT_SECONDS)
        return None


def build_turns(turns: int, size: int) -> bytes:
    """Return a conversation of so many tool turns, with results of so many bytes each."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Go on."}]
    for turn in range(turns):
        function = {"name": "shell", "arguments": "{}"}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = (f"line {turn} of what it wrote\n" * (size // 20))[:size]
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": text})
    return json.dumps({"model": "gpt-4o", "messages": messages}).encode()


def vary(body: bytes, count: int) -> list[bytes]:
    """Return so many conversations that differ from the first message on."""
    return [body.replace(b"Go on.", b"Go on, %d." % number, 1) for number in range(count)]


def stream_all(port: int) -> None:
    with ThreadPoolExecutor(_CLIENTS) as threads:
        list(threads.map(lambda _: send(port, _STREAM), range(_CLIENTS)))


LOADS: Mapping[str, Callable[[], Callable[[int], object]]] = {
    "200 streaming clients": lambda: stream_all,
    "20 bodies of 50 MB": lambda: _at_once(build_turns(50, 1_000_000)),
    "20 of 11.5 MB, 14,000 turns": lambda: _at_once(build_turns(14_000, 570)),
}


def _at_once(body: bytes) -> Callable[[int], object]:
    return lambda port: send_at_once(port, vary(body, 20))


def run(side: str, traffic: Callable[[int], object]) -> Cost:
    with running_provider(Streams) as provider, running_side(side, provider) as proxy:
        return measure(proxy, partial(_send, traffic, proxy))


def _send(traffic: Callable[[int], object], proxy: Proxy) -> None:
    traffic(proxy.port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the name of a load")
    given = parser.parse_args()
    print(f"{'load':28} {'':7} {'seconds':>8} {'CPU s':>8} {'peak MB':>8} {'longest ping, s':>16}")
    for name, prepare in LOADS.items():
        if given.only not in name:
            continue
        traffic = prepare()
        costs: dict[str, list[Cost]] = {"plain": [], "ours": []}
        for _ in range(given.rounds):
            for side, found in costs.items():
                found.append(run(side, traffic))
        middle = {side: _take_medians(found) for side, found in costs.items()}
        for side, cost in middle.items():
            _print(name, side, cost)
        ratios = (ours / plain for plain, ours in zip(*middle.values(), strict=True))
        _print(name, "ratio", Cost(*ratios))


def _take_medians(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))


def _print(name: str, side: str, cost: Cost) -> None:
    print(
        f"{name:28} {side:7} {cost.seconds:8.2f} {cost.cpu_seconds:8.2f} {cost.peak_mb:8.0f}"
        f" {cost.ping_seconds:16.3f}",
        flush=True,
    )


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    main()
