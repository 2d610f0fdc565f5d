"""How the time of a rewrite grows with a request, in shapes that once made it quadratic.

`python -m tests.tools.benchmarks.shapes` doubles each shape, times the rewrite under the prices
that are assumed for an unknown host, and fits the exponent: 1 is linear. It exits with 1 if one
exceeds 1.4. It measures CPU time, and the fastest of several runs counts, because the machine may
be shared.
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise

from tests.support.priced import PricedPolicy, rewrite_request
from tests.support.wire_conversations import WRITERS, Ask, Give, Model, Step, Tools, Writer, turns

Message = dict[str, object]

SIZES = (2_000, 4_000, 8_000, 16_000)
RUNS = 3
LIMIT = 1.4

POLICY = PricedPolicy(
    True,
    placeholder_template="[{tool_name}: {original_chars} chars masked]",
    skip_if_not_shorter=True,
    mask_text_parts=True,
    cache_read_ratio=0.1,
    cache_write_ratio=1.25,
    keep_latest_turns=24,
)


def main() -> int:
    worst = 0.0
    print(f"{'shape':38} {'kB':>7} {'ms':>8}   exponent")
    for name, writer, build in list_shapes():
        bodies = [json.dumps(writer.wrap(build(size))).encode() for size in SIZES]
        times = [
            take_seconds(partial(rewrite_request, body, POLICY, writer.wire)) for body in bodies
        ]
        exponent = _fit([len(body) for body in bodies], times)
        worst = max(worst, exponent)
        print(f"{name:38} {len(bodies[-1]) / 1000:7,.0f} {times[-1] * 1000:8,.1f}   {exponent:.2f}")
    return int(worst > LIMIT)


def list_shapes() -> Iterator[tuple[str, Writer, Callable[[int], list[Message]]]]:
    for name, build in SHAPES.items():
        yield name, WRITERS[0], build
    for name, tell in TOLD.items():
        for writer in WRITERS:
            yield f"{name}, {writer.name}", writer, partial(_spell, writer, tell)


def _spell(writer: Writer, tell: Callable[[int], list[Step]], size: int) -> list[Message]:
    return [item for step in tell(size) for item in writer.spell(step)]


def take_seconds(function: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def _fit(sizes: list[int], times: list[float]) -> float:
    """Return the median slope between neighbours, both axes in logarithms."""
    points = [
        (math.log(size), math.log(seconds)) for size, seconds in zip(sizes, times, strict=True)
    ]
    return statistics.median((b - a) / (y - x) for (x, a), (y, b) in pairwise(points))


def _call(
    call_id: str, tool: str = "shell", arguments: Mapping[str, object] | None = None
) -> Message:
    function = {"name": tool, "arguments": json.dumps(arguments or {})}
    return {"id": call_id, "type": "function", "function": function}


def _ask(*calls: Message) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [*calls]}


def _tell(call_id: str, content: object) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


_TEXT = "a line of output\n" * 8


def small_turns(size: int) -> list[Message]:
    turns = ((_ask(_call(f"c{n}")), _tell(f"c{n}", _TEXT)) for n in range(size))
    return [message for turn in turns for message in turn]


def window_of_many_then_answers(size: int) -> list[Message]:
    """One turn of many results in the window, then plain answers: each request looks ahead."""
    opening = [_ask(_call("a")), _tell("a", "x" * 100 * size)]
    calls = [_call(f"c{n}") for n in range(size)]
    results = [_tell(f"c{n}", _TEXT) for n in range(size)]
    answers: list[Message] = [{"role": "assistant", "content": "Yes."} for _ in range(size)]
    return [*opening, *small_turns(9), _ask(*calls), *results, *answers]


def _one_target(size: int) -> list[Message]:
    turns = (
        (_ask(_call(f"c{n}", "read", {"path": "a.py"})), _tell(f"c{n}", _TEXT)) for n in range(size)
    )
    return [message for turn in turns for message in turn]


def _many_targets_read_twice(size: int) -> list[Message]:
    def read(name: str, n: int) -> list[Message]:
        return [_ask(_call(name, "read", {"path": f"{n}.py"})), _tell(name, _TEXT)]

    once = [message for n in range(size // 2) for message in read(f"a{n}", n)]
    return [*once, *(message for n in range(size // 2) for message in read(f"b{n}", n))]


def long_names(size: int) -> list[Message]:
    """A tool's name and an id that are as long as the conversation."""
    name = "n" * size
    calls = [_call(name, name)]
    results = [_tell(name, _TEXT) for _ in range(100)]
    return [_ask(*calls), *results, *small_turns(40)]


def _many_parts(size: int) -> list[Message]:
    parts = [{"type": "text", "text": _TEXT} for _ in range(size)]
    return [_ask(_call("a")), _tell("a", parts), *small_turns(40)]


def _results_before_their_calls(size: int) -> list[Message]:
    early = [_tell(f"c{n}", _TEXT) for n in range(size)]
    return [*early, *(_ask(_call(f"c{n}")) for n in range(size)), *small_turns(40)]


def _one_id_for_all(size: int) -> list[Message]:
    turns = ((_ask(_call("call_0")), _tell("call_0", _TEXT)) for _ in range(size))
    return [message for turn in turns for message in turn]


def _answered_backwards(size: int) -> list[Step]:
    """One turn of many calls, whose results come in the opposite order."""
    calls = [Ask(f"c{n}", f"tool_{n}") for n in range(size)]
    results = [Give(call.call_id, _TEXT, call.tool) for call in reversed(calls)]
    return [Model((*calls,)), Tools((*results,)), *turns(40)]


def _one_id_in_a_turn(size: int) -> list[Step]:
    """One turn of many calls with one id, and a result for each."""
    return [Model((Ask("a"),) * size), Tools((Give("a", _TEXT),) * size), *turns(40)]


def _one_id_answered_early(size: int) -> list[Step]:
    """The same, but the results come before their calls."""
    return [Tools((Give("a", _TEXT),) * size), Model((Ask("a"),) * size), *turns(40)]


def _many_reminders(size: int) -> list[Step]:
    """A result that ends with many reminders, which claude-code appends."""
    text = _TEXT + "<system-reminder>Go on.</system-reminder>\n" * size
    return [Model((Ask("a"),)), Tools((Give("a", text),)), *turns(40)]


TOLD = {
    "answered backwards": _answered_backwards,
    "one id in a turn": _one_id_in_a_turn,
    "one id, answered early": _one_id_answered_early,
    "many reminders": _many_reminders,
}
"""Shapes that every format is measured with."""

SHAPES = {
    "small turns": small_turns,
    "a full window, then answers": window_of_many_then_answers,
    "one target again and again": _one_target,
    "many targets, read twice": _many_targets_read_twice,
    "long names": long_names,
    "a result of many parts": _many_parts,
    "results before their calls": _results_before_their_calls,
    "one id for all": _one_id_for_all,
}

if __name__ == "__main__":
    sys.exit(main())
