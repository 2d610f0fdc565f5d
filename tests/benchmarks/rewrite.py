"""What rewriting costs, in ratios measured in one run: `python -m tests.benchmarks.rewrite`.

The body is what an agent sends after 200 tool turns: source code, logs, JSON and listings, 1 MB
together; there is a line for each wire format. Every round times all the functions, one after the
other, and the fastest counts, because the machine may be shared.
"""

import inspect
import json
import math
import random
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
from tests.wire_conversations import WRITERS, Ask, Give, Model, Step, Tools, User, Writer

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


def build_body(writer: Writer = WRITERS[0], turns: int = TURNS) -> bytes:
    """Return a request of so many tool turns, as JavaScript and Python clients spell it."""
    random_ = random.Random(8)
    sizes = [random_.lognormvariate(0, 1) for _ in range(turns)]
    texts = _tool_outputs(random_)
    steps: list[Step] = [User("You are an agent. " * 200 + "Mend the failing tests.")]
    for turn, size in enumerate(sizes):
        call = Ask(f"call_{turn}", "shell", {"command": f"sed -n {turn}p file"})
        text = next(texts)[: max(20, int(size / sum(sizes) * TOTAL_CHARS))]
        steps += [Model((call,)), Tools((Give(f"call_{turn}", text),))]
    request = {**writer.tell(*steps).document, "stream": True}
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
    """Return each function's shortest time in seconds."""
    times = dict.fromkeys(functions, math.inf)
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def measure(writer: Writer) -> dict[str, float]:
    """Return how long each case takes on a format, as a multiple of its base."""
    settings = parse_settings(CONFIG.read_bytes()) or Namespace(schema1=MaskPolicy())
    shipped: MaskPolicy = settings.schema1
    priced = replace(shipped, cache_read_ratio=0.1, cache_write_ratio=1.25)
    nothing = MaskPolicy(enabled=True, window_turns=TURNS, skip_if_not_shorter=True)
    reduction = Strategies(reduction=ReductionOptions(enabled=True))
    wire, body = writer.wire, build_body(writer)
    times = compare(
        {
            "orjson.loads": lambda: orjson.loads(body),
            "json.loads": lambda: json.loads(body),
            "mask": lambda: rewrite_request(body, shipped, wire),
            "priced": lambda: rewrite_request(body, priced, wire),
            "reduce": lambda: change_request(body, read_request(body, wire), reduction),
            "nothing": lambda: rewrite_request(body, nothing, wire),
        }
    )
    return {name: times[name] / times[base] for name, base in BASES.items()}


def main() -> None:
    heads = [f"{name} / {base}" for name, base in BASES.items()]
    print(f"{TURNS} tool turns, {TOTAL_CHARS:,} characters; in multiples of what stands behind /")
    print(f"{'':18}  " + "  ".join(heads))
    for writer in WRITERS:
        found = measure(writer)
        cells = (f"{found[name]:{len(head)}.2f}" for name, head in zip(BASES, heads, strict=True))
        print(f"{writer.name:18}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
