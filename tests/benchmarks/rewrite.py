"""What rewriting costs, in ratios measured in one run: `python -m tests.benchmarks.rewrite`.

The body is what an agent sends after 200 tool turns: source code, logs, JSON and listings, 1 MB
together. Every round times all the functions, one after the other, and the median round counts.
"""

import inspect
import json
import random
import statistics
import time
from argparse import Namespace
from asyncio import base_events, tasks
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson

from masking.config import parse_settings
from masking.rewrite import change_request, read_request, rewrite_request
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.reduction import ReductionOptions
from tests.places import CONFIG

TURNS = 200
TOTAL_CHARS = 1_000_000
ROUNDS = 40

BASES = {
    "mask": "orjson.loads",
    "priced": "orjson.loads",
    "reduce": "orjson.loads",
    "nothing": "json.loads",
}
"""What each case is compared with: a window that slides, one whose boundary moves when that pays, a
reduction, and a window that nothing has left."""


def build_body(turns: int = TURNS, total_chars: int = TOTAL_CHARS) -> bytes:
    """Return a request of so many tool turns, as JavaScript and Python clients spell it."""
    random_ = random.Random(8)
    sizes = [random_.lognormvariate(0, 1) for _ in range(turns)]
    texts = _tool_outputs(random_)
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You are an agent. " * 200},
        {"role": "user", "content": "Mend the failing tests."},
    ]
    for turn, size in enumerate(sizes):
        call = {"name": "shell", "arguments": json.dumps({"command": f"sed -n {turn}p file"})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}",
                "content": next(texts)[: max(20, int(size / sum(sizes) * total_chars))],
            },
        ]
    request = {"model": "gpt-4o", "messages": messages, "stream": True}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _tool_outputs(random_: random.Random) -> Iterator[str]:
    """Yield long texts of the kinds that tools print: files read, test runs, JSON, searches."""
    source = inspect.getsource(base_events) + inspect.getsource(tasks) + inspect.getsource(inspect)
    lines = source.splitlines()
    while True:
        start = random_.randrange(len(lines))
        read = (lines[start:] + lines) * 2
        yield "\n".join(f"{n:6}\t{line}" for n, line in enumerate(read, start))
        yield "".join(
            f"tests/test_{n % 13}.py::test_case[{n}-'a'] \x1b[32mPASSED\x1b[0m\t[{n % 100:3}%]\r\n"
            for n in range(3000)
        )
        yield "\n".join(read)
        yield json.dumps([{"id": n, "name": f"item {n}", "ok": "yes"} for n in range(2000)])
        yield "".join(
            f'./src/package_{n % 13}/module_{n}.py:{n}:\t"name": "café {n}", // naïve\n'
            for n in range(3000)
        )


def compare(functions: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return each function's median time in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    settings = parse_settings(CONFIG.read_bytes()) or Namespace(schema1=MaskPolicy())
    shipped: MaskPolicy = settings.schema1
    priced = replace(shipped, cache_read_ratio=0.1, cache_write_ratio=1.25)
    nothing = MaskPolicy(enabled=True, window_turns=TURNS, skip_if_not_shorter=True)
    reduction = Strategies(reduction=ReductionOptions(enabled=True))
    body = build_body()
    masked = sum(d.reason == "masked" for d in rewrite_request(body, shipped).decisions)
    ms = compare(
        {
            "orjson.loads": lambda: orjson.loads(body),
            "json.loads": lambda: json.loads(body),
            "mask": lambda: rewrite_request(body, shipped),
            "priced": lambda: rewrite_request(body, priced),
            "reduce": lambda: change_request(body, read_request(body), reduction),
            "nothing": lambda: rewrite_request(body, nothing),
        }
    )
    print(f"{len(body):,} bytes, {TURNS} tool turns, {masked} results masked")
    print(f"orjson.loads {ms['orjson.loads']:.2f} ms, json.loads {ms['json.loads']:.2f} ms")
    for name, base in BASES.items():
        print(f"{name:8} {ms[name]:.2f} ms = {ms[name] / ms[base]:.2f} x {base}")


if __name__ == "__main__":
    main()
