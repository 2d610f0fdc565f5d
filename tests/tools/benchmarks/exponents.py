"""How CPU time grows with each shape that once cost more than its size: 1 is linear.

`python -m tests.tools.benchmarks.exponents` doubles each shape three times, fits the exponent of
the CPU time over the bytes, and exits with 1 if one exceeds 1.4: on a busy machine, linear work
comes to 1.1 to 1.3. The shapes of `tests.tools.benchmarks.shapes` are among them. The fastest of
three runs counts, because the machine may be shared. `--only` takes those with a word in their
name.

The tokens of texts that are one word to tiktoken's pattern are counted, too. Their bytes may take
four times as long as those of ordinary text, of what tools print, and no longer.
"""

import argparse
import json
import math
import random
import statistics
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from addon.proxy.mcp import EventStream
from masking.accounting.prompt import read_prompt
from masking.errors import ProofError
from masking.mcp import McpSettings, mask_payload_bytes
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.priced import at_prices, rewrite_request
from tests.support.wire_conversations import WRITERS, Writer
from tests.tools.benchmarks.rewrite import tool_outputs
from tests.tools.benchmarks.shapes import (
    POLICY,
    Message,
    list_shapes,
    long_names,
    small_turns,
    take_seconds,
    window_of_many_then_answers,
)

LIMIT = 1.4
SLOWEST = 4.0
SIZES = (2_000, 4_000, 8_000, 16_000)
TEXT_SIZES = (125_000, 250_000, 500_000, 1_000_000)

_MCP = McpSettings(enabled=True, max_chars=4_000)
_DEPTH = 900


class Work(NamedTuple):
    """A shape of some size: its bytes, and what is done with it."""

    size: int
    run: Callable[[], object]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of a shape")
    only = parser.parse_args().only
    worst = 0.0
    print(f"{'shape':46} {'kB':>7} {'ms':>8}   exponent, at most {LIMIT}")
    for name, build in _list_works():
        if only not in name:
            continue
        works = [build(size) for size in SIZES]
        times = [take_seconds(work.run) for work in works]
        logs = [[math.log(work.size) for work in works], [math.log(each) for each in times]]
        exponent = statistics.linear_regression(*logs).slope
        worst = max(worst, exponent)
        size, seconds = works[-1].size / 1000, times[-1] * 1000
        print(f"{name:46} {size:7,.0f} {seconds:8,.1f}   {exponent:.2f}", flush=True)
    return int(_show_texts(only) or worst > LIMIT)


def _show_texts(only: str) -> bool:
    """Show how counting the tokens of each text grows; return whether one exceeds its bounds."""
    print(f"\n{'tokens of':34} {'kB':>7} {'ms':>8}   exponent, at most {LIMIT}", end="")
    print(f"   per byte, in those of ordinary text, at most {SLOWEST}")
    base, exceeds = 0.0, False
    for name, text in _list_texts():
        if base and only not in name:
            continue
        pieces = [text[:size] for size in TEXT_SIZES]
        sizes = [len(piece.encode()) for piece in pieces]
        times = [take_seconds(partial(_count_anew, piece)) for piece in pieces]
        logs = [[*map(math.log, sizes)], [*map(math.log, times)]]
        exponent = statistics.linear_regression(*logs).slope
        base = base or times[-1] / sizes[-1]  # the first is ordinary
        ratio = times[-1] / sizes[-1] / base
        exceeds |= exponent > LIMIT or ratio > SLOWEST
        size, seconds = sizes[-1] / 1000, times[-1] * 1000
        print(
            f"{name:34} {size:7,.0f} {seconds:8,.1f}   {exponent:<19.2f}   {ratio:.2f}", flush=True
        )
    return exceeds


def _count_anew(text: str) -> int:
    return TokenCounter().count(text)


def _list_texts() -> Iterator[tuple[str, str]]:
    size, noise = TEXT_SIZES[-1], random.Random(1)
    outputs = tool_outputs(noise)
    ordinary = "".join(next(outputs)[: size // 5] for _ in range(5))
    yield "ordinary text", ordinary
    for name, unit in ONE_WORD.items():
        yield name, unit * (size // len(unit))
    for name, kind in ONE_KIND.items():
        yield f"random {name}", "".join(noise.choices(kind, k=size))


def _list_works() -> Iterator[tuple[str, Callable[[int], Work]]]:
    for name, writer, build in list_shapes():
        yield name, partial(_rewrite, writer, build, Strategies(schema1=POLICY))
    for name, (build, strategies) in REWRITTEN.items():
        yield name, partial(_rewrite, WRITERS[0], build, strategies)
    yield from OTHERS.items()


def _rewrite(
    writer: Writer, build: Callable[[int], list[Message]], strategies: Strategies, size: int
) -> Work:
    body = json.dumps(writer.wrap(build(size))).encode()

    def run() -> None:
        with suppress(ProofError):  # it tried as many calls as it may
            rewrite_request(read_request(body, writer.wire), strategies)

    return Work(len(body), run)


def _empty_messages(size: int) -> Work:
    """Elements that are no messages, which are measured all the same."""
    body = b'{"model": "gpt-4o", "messages": [' + b'"",' * 10 * size + b'""]}'

    def run() -> None:
        rewrite = rewrite_request(read_request(body), Strategies(schema1=POLICY))
        read_prompt(rewrite, TokenCounter())

    return Work(len(body), run)


def _deep_string(size: int) -> list[Message]:
    """A result at depth 100, whose text stands there twice: the exact road reads it."""
    deep: object = "text " * 10 * size
    for _ in range(100):
        deep = {"a": deep}
    turns = small_turns(40)
    turns[1]["deep"] = deep
    turns[1]["content"] = "text " * 10 * size
    return turns


def _deep_payload(size: int) -> Work:
    """An answer of many branches, each 900 deep."""
    branch = b"[" * _DEPTH + b"]" * _DEPTH
    branches = b",".join([branch] * (size // 100))
    body = b'{"jsonrpc": "2.0", "id": 1, "result": [' + branches + b"]}"
    return Work(len(body), partial(mask_payload_bytes, body, _MCP))


def _tiny_events(size: int) -> Work:
    stream = b"data: 1\n\n" * 50 * size
    return Work(len(stream), lambda: EventStream(bytes, min_bytes=4_000).feed(stream))


def _tiny_events_that_end_oddly(size: int) -> Work:
    stream = b"data: 1\r\r" * size
    return Work(len(stream), lambda: EventStream(bytes, min_bytes=4_000).feed(stream))


_LIBRARY = MaskPolicy(True)
_KEEPS_ALL = replace(POLICY, keep_last_k_per_tool=1_000_000)
_SUMS_UP = ReductionOptions(enabled=True, max_input_chars=1_000, summary_max_chars=10_000_000)

REWRITTEN: Mapping[str, tuple[Callable[[int], list[Message]], Strategies]] = {
    "a full window, then answers, at 0.02": (
        window_of_many_then_answers,
        Strategies(schema1=at_prices(POLICY, cache_read_ratio=0.02, cache_write_ratio=1.0)),
    ),
    "long names, the library's placeholder": (long_names, Strategies(schema1=_LIBRARY)),
    "the last million of each tool": (small_turns, Strategies(schema1=_KEEPS_ALL)),
    "a summary without end": (small_turns, Strategies(reduction=_SUMS_UP)),
    "a string at depth 100": (_deep_string, Strategies(schema1=POLICY)),
}
"""Requests, by how they are built and what is done with them."""

OTHERS: Mapping[str, Callable[[int], Work]] = {
    "elements that are no messages, counted": _empty_messages,
    "an answer of MCP, 900 deep": _deep_payload,
    "tiny events": _tiny_events,
    "tiny events that end oddly": _tiny_events_that_end_oddly,
}

ONE_WORD: Mapping[str, str] = {
    "braces and commas": "{},",
    "brackets and commas": "[],",
    "a letter": "a",
    "a capital letter": "A",
    "signs": "=-",
    "a sign": "=",
    "joiners": "\u200d",
    "an ideograph": "漢",
    "letters with marks": "a\u0301",
    "Thai": "ก็",
    "emoji": "😀",
    "digits": "7",
    "spaces": " ",
    "tabs": "\t",
    "newlines": "\n",
    "newlines of Windows": "\r\n",
    "slashes and newlines": "/\n",
}
"""Texts without end, by what they repeat: one word to the pattern, or nearly."""

ONE_KIND: Mapping[str, str] = {
    "letters": string.ascii_lowercase,
    "letters and capitals": string.ascii_letters,
    "signs": "{}[]()<>=!&|^%$#@,.;:",
    "blanks": " \t\n",
    "base64": f"{string.ascii_letters}{string.digits}+/",
    "ideographs": "".join(map(chr, range(0x4E00, 0x9FA0))),
    "emoji": "".join(map(chr, range(0x1F300, 0x1F6F0))),
}

if __name__ == "__main__":
    sys.exit(main())
