"""How far the estimate of tokens is off, and what it costs.

`python -m tests.tools.benchmarks.token_estimate [FILES]`: FILES are gzipped JSON lines with
`messages`. Errors are relative to o200k_base's exact counts. Times are for the texts of a request
of 1 MB and 200 tool turns, relative to `orjson.loads` of it; each round takes both, one after the
other.
"""

import gzip
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from masking.tokens import TokenCounter, TokenEstimator, estimate_tokens
from tests.support.kinds import KINDS, make_text
from tests.tools.benchmarks.rewrite import build_body

LENGTHS = (300, 1_000, 3_000, 8_000, 20_000, 60_000, 200_000)
SEEDS = 3
ROUNDS = 60


class Errors(NamedTuple):
    """Relative errors of estimates: all together, and the absolute ones of single texts."""

    total: float
    mean: float
    p95: float
    worst: float


def measure_errors(texts: Sequence[str], counter: TokenCounter) -> Errors:
    """Compare the estimates of some texts with their exact counts, none of which may be 0."""
    pairs = [(estimate_tokens(text), counter.count(text)) for text in texts]
    errors = sorted(abs(estimated / exact - 1) for estimated, exact in pairs)
    return Errors(
        total=sum(estimated for estimated, _ in pairs) / sum(exact for _, exact in pairs) - 1,
        mean=statistics.fmean(errors),
        p95=errors[int(0.95 * (len(errors) - 1))],
        worst=errors[-1],
    )


def make_texts(kind: str, lengths: Sequence[int] = LENGTHS) -> list[str]:
    """Return made-up texts of a kind, short and long."""
    return [make_text(kind, chars, seed) for chars in lengths for seed in range(SEEDS)]


def read_texts(path: Path) -> Iterator[list[str]]:
    """Yield the texts of each conversation of a file: all that is longer than a name."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = _find_texts(json.loads(line)["messages"])
            yield [text for text in found if len(text) >= _SHORTEST]


_SHORTEST = 40


def _find_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _find_texts(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _find_texts(item)


def find_texts_of_request(body: bytes) -> list[str]:
    """Return the texts of a request as they are measured: contents, names with arguments."""
    texts: list[str] = []
    for message in orjson.loads(body)["messages"]:
        texts += [message["content"]] if message["content"] else []
        for call in message.get("tool_calls", ()):
            texts.append(call["function"]["name"] + call["function"]["arguments"])
    return texts


def time_ratios(body: bytes, rounds: int = ROUNDS) -> tuple[float, float]:
    """Return what the estimates of a request cost, warm and cold, relative to `orjson.loads`.

    It is CPU time, of the fastest round of each, because the machine may be shared.
    """
    units, warm, cold = [], [], []
    known = TokenEstimator()
    _time_estimates(body, known)
    for _ in range(rounds):
        start = time.thread_time()
        orjson.loads(body)
        units.append(time.thread_time() - start)
        warm.append(_time_estimates(body, known))
        cold.append(_time_estimates(body, TokenEstimator()))
    return min(warm) / min(units), min(cold) / min(units)


def _time_estimates(body: bytes, estimator: TokenEstimator) -> float:
    texts = find_texts_of_request(body)  # made anew: Python keeps the hash of a string
    start = time.thread_time()
    for text in texts:
        estimator.estimate(text)
    return time.thread_time() - start


def main() -> None:
    counter = TokenCounter()
    print("| kind | all together | mean | p95 | worst |")
    print("|---|--:|--:|--:|--:|")
    for kind in KINDS:
        print(_render(kind, measure_errors(make_texts(kind), counter)))
    for name in sys.argv[1:]:
        talks = [talk for talk in read_texts(Path(name)) if talk]
        texts = [text for talk in talks for text in talk]
        print(_render(f"texts of {Path(name).name}", measure_errors(texts, counter)))
        totals = [measure_errors(talk, counter).total for talk in talks]
        print(f"{len(totals)} conversations of {Path(name).name}: off by", end=" ")
        print(
            f"{statistics.fmean(map(abs, totals)):.1%} in the mean, {max(totals, key=abs):+.1%}",
            end=" ",
        )
        print("at the worst")
    warm, cold = time_ratios(build_body())
    print(f"1 MB, 200 tool turns: warm {warm:.2f} x orjson.loads (aim: 0.3), cold {cold:.0f} x")


def _render(name: str, errors: Errors) -> str:
    cells = f"{errors.total:+.1%} | {errors.mean:.1%} | {errors.p95:.1%} | {errors.worst:.1%}"
    return f"| {name} | {cells} |"


if __name__ == "__main__":
    main()
