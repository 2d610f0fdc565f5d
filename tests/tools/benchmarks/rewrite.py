"""What rewriting costs, in ratios measured in one run: `python -m tests.tools.benchmarks.rewrite`.

The body is what an agent sends after 200 tool turns: source code, logs, JSON and listings, 1 MB
together; there is a line for each wire format. Every round times all the functions, one after the
other, and the fastest counts, because the machine may be shared.

A second table has a session that grows by a turn a request, in a process that remembers what it has
read: what it takes to decode a request, to decide, and to cut. Its last requests are timed, in CPU
time of the thread, and the first of them also in a process that has not met any of its texts. A
third table has what parts of that first request take.
"""

import inspect
import json
import math
import random
import time
from asyncio import base_events, tasks
from collections.abc import Callable, Iterator
from statistics import median

import orjson

from masking.config import parse_settings
from masking.edit.json_list import cut_list
from masking.memory import BoundaryMemory
from masking.proof import Prover
from masking.reduction import ReductionOptions
from masking.request_cache import RequestCache
from masking.rewrite import Strategies, read_request
from masking.tokens.estimate import ESTIMATOR
from masking.window import MaskPolicy
from tests.support.places import CONFIG
from tests.support.priced import at_prices, rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
)

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
    return _spell(_tell(writer, turns, TOTAL_CHARS))


def _spell(told: Told) -> bytes:
    request = {**told.document, "stream": True}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _tell(writer: Writer, turns: int, chars: int) -> Told:
    random_ = random.Random(8)
    sizes = [random_.lognormvariate(0, 1) for _ in range(turns)]
    texts = tool_outputs(random_)
    steps: list[Step] = [User("You are an agent. " * 200 + "Mend the failing tests.")]
    for turn, size in enumerate(sizes):
        call = Ask(f"call_{turn}", "shell", {"command": f"sed -n {turn}p file"})
        text = next(texts)[: max(20, int(size / sum(sizes) * chars))]
        steps += [Model((call,)), Tools((Give(f"call_{turn}", text),))]
    return writer.tell(*steps)


def tool_outputs(random_: random.Random) -> Iterator[str]:
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


def _read_shipped() -> MaskPolicy:
    settings = parse_settings(CONFIG.read_bytes())
    assert settings is not None
    return settings.policy


def measure(writer: Writer) -> dict[str, float]:
    """Return how long each case takes on a format, as a multiple of its base."""
    shipped = _read_shipped()
    priced = at_prices(shipped, cache_read_ratio=0.1, cache_write_ratio=1.25)
    nothing = MaskPolicy(enabled=True, window_turns=TURNS, skip_if_not_shorter=True)
    reduction = Strategies(reduction=ReductionOptions(enabled=True))
    wire, body = writer.wire, build_body(writer)
    times = compare(
        {
            "orjson.loads": lambda: orjson.loads(body),
            "json.loads": lambda: json.loads(body),
            "mask": lambda: rewrite_request(body, shipped, wire),
            "priced": lambda: rewrite_request(body, priced, wire),
            "reduce": lambda: rewrite_request(read_request(body, wire), reduction),
            "nothing": lambda: rewrite_request(body, nothing, wire),
        }
    )
    return {name: times[name] / times[base] for name, base in BASES.items()}


GROWING = {"45 kB": (25, 35_000), "0.95 MB": (200, 810_000)}
"""By its size, the turns and the characters of a session."""

REQUESTS = 12
"""How many of a session's last requests are timed."""


def grow(writer: Writer, turns: int, chars: int) -> list[bytes]:
    """Return the last requests of a session."""
    whole = _tell(writer, turns, chars)
    step = (len(whole.items) - 1) // turns
    ends = (len(whole.items) - step * left for left in range(REQUESTS, -1, -1))
    return [_spell(whole.until(end)) for end in ends]


def play(
    bodies: list[bytes], writer: Writer, policy: MaskPolicy, memory: BoundaryMemory | None
) -> tuple[float, float]:
    """Return the CPU time of the first request, and that of a later one: the median.

    Nothing is known of the first one, not even the tokens of its texts.
    """
    table, prover, strategies, times = RequestCache(), Prover(), Strategies(schema1=policy), []
    _forget_texts()
    for now, body in enumerate(bodies):
        start = time.thread_time()
        conversation = table.read(body, writer.wire, writer.path)
        known = memory.lookup(conversation, float(now), math.inf) if memory else None
        context = None if known is None else known.context
        rewrite = rewrite_request(conversation, strategies, context=context, prover=prover)
        if memory and known:
            memory.store(known, rewrite.past)
        times.append(time.thread_time() - start)
    return times[0], median(times[1:])


def measure_growing(writer: Writer, turns: int, chars: int) -> list[float]:
    """Return how long each case takes, as a multiple of `orjson.loads` of the last body."""
    slides = at_prices(_read_shipped())
    priced = at_prices(slides, cache_read_ratio=0.1, cache_write_ratio=1.25)
    bodies = grow(writer, turns, chars)
    base, found = math.inf, [math.inf] * 5
    for _ in range(SESSIONS):
        base = min(base, _time(lambda: orjson.loads(bodies[-1])))
        plays = [
            play(bodies, writer, policy, memory)
            for policy in (slides, priced)
            for memory in (None, BoundaryMemory())
        ]
        now = [*(later for _, later in plays), min(first for first, _ in plays[2:])]
        found = [*map(min, found, now)]
    return [each / base for each in found]


SESSIONS = 8


def show_growing() -> None:
    heads = ("slides", "and memory", "priced", "and memory", "priced, first met")
    for size, (turns, chars) in GROWING.items():
        print(f"\na session of {size}, warm; in multiples of orjson.loads")
        print(f"{'':18}  " + "  ".join(heads))
        for writer in WRITERS:
            found = zip(measure_growing(writer, turns, chars), heads, strict=True)
            cells = (f"{each:{len(head)}.2f}" for each, head in found)
            print(f"{writer.name:18}  " + "  ".join(cells), flush=True)


def measure_parts(writer: Writer, turns: int, chars: int) -> dict[str, float]:
    """Return what parts of a first request take, as multiples of `orjson.loads` of it.

    No request that is met for the first time takes less than these together.
    """
    wire, body = writer.wire, grow(writer, turns, chars)[0]
    pieces = next(cut_list(body, wire.list_paths)).elements
    items = [orjson.loads(piece) for piece in pieces]
    parts: dict[str, Callable[[], object]] = {
        "cut out": lambda: next(cut_list(body, wire.list_paths)),
        "decode": lambda: [orjson.loads(piece) for piece in pieces],
        "read": lambda: [wire.read_element(item) for item in items],
        "estimate": lambda: [wire.measure_element(item) for item in items],
    }
    base, found = math.inf, dict.fromkeys(parts, math.inf)
    for _ in range(ROUNDS):
        base = min(base, _time(lambda: orjson.loads(body)))
        for name, part in parts.items():
            _forget_texts()
            found[name] = min(found[name], _time(part))
    return {name: each / base for name, each in found.items()}


def _time(function: Callable[[], object]) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start


def _forget_texts() -> None:
    ESTIMATOR.forget()


def show_parts() -> None:
    for size, (turns, chars) in GROWING.items():
        print(f"\na request of {size}, met for the first time; in multiples of orjson.loads")
        for writer in WRITERS:
            found = measure_parts(writer, turns, chars).items()
            print(f"{writer.name:18}  " + "  ".join(f"{name} {each:.2f}" for name, each in found))


def main() -> None:
    heads = [f"{name} / {base}" for name, base in BASES.items()]
    print(f"{TURNS} tool turns, {TOTAL_CHARS:,} characters; in multiples of what stands behind /")
    print(f"{'':18}  " + "  ".join(heads))
    for writer in WRITERS:
        found = measure(writer)
        cells = (f"{found[name]:{len(head)}.2f}" for name, head in zip(BASES, heads, strict=True))
        print(f"{writer.name:18}  " + "  ".join(cells), flush=True)
    show_growing()
    show_parts()


if __name__ == "__main__":
    main()
