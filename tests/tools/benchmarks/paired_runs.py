"""What masking does to whether a task succeeds, from paired runs that others made and published.

    python -m tests.tools.benchmarks.paired_runs SWEAGENT.csv OPENHANDS.csv [--write PAGE]

`pairs.py` says what is in the files. The tables are printed, and with `--write` put into a page,
between their marks.

A pair that only one side solves is won or lost by masking: McNemar's exact test says how likely so
uneven a split is by chance. The other intervals hold 95%: Wilson's of a share of solved tasks, and
the bootstrap's of a difference or a ratio, which draws tasks, because five models that ran one task
are not five independent pairs. It needs the extra `lab`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from typing import NamedTuple

from masking.prices import Pricing
from masking.window.boundary import Candidate, RequestSize
from tests.support.pages import fill_tables
from tests.support.priced import PricedPolicy, find_boundaries
from tests.support.schedules import (
    Conversation,
    Masks,
    costs_of,
    find_edges,
    masks_of_edges,
)
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.pairs import (
    SWEAGENT_WINDOW,
    Experiment,
    Pair,
    Run,
    find_openhands,
    find_repeated,
    find_sweagent,
    read_runs,
)

CAP = 249
"""A run of so many turns was ended by the limit of its scaffold, which is 250 in both."""

DRAWS = 9_999
"""How often the bootstrap draws tasks."""

# What they say


class Estimate(NamedTuple):
    """A number, and the interval that holds it with 95%."""

    value: float
    low: float
    high: float


def estimate_share(count: int, of: int) -> Estimate:
    """Return a share with Wilson's interval."""
    from scipy.stats import binomtest  # takes two seconds

    interval = binomtest(count, of).proportion_ci(method="wilson")
    return Estimate(count / of, interval.low, interval.high)


def estimate_ratio(amounts: Sequence[tuple[str, float, float]]) -> Estimate:
    """Return a ratio of sums, of two tasks or more.

    amounts: what a pair adds above and below, with its task.
    """
    from scipy.stats import bootstrap

    tasks: dict[str, tuple[float, float]] = {}
    for task, above, below in amounts:
        so_far = tasks.get(task, (0.0, 0.0))
        tasks[task] = so_far[0] + above, so_far[1] + below
    columns = tuple(zip(*tasks.values(), strict=True))

    drawn = bootstrap(
        columns,
        lambda above, below, axis: above.sum(axis) / below.sum(axis),
        paired=True,
        n_resamples=DRAWS,
        batch=500,
        method="percentile",
        rng=1,
    )
    low, high = drawn.confidence_interval
    return Estimate(fsum(columns[0]) / fsum(columns[1]), float(low), float(high))


def won_and_lost(pairs: Sequence[Pair]) -> tuple[int, int, float]:
    """Return how many tasks only the masked run solves, how many only the other, and the p."""
    from scipy.stats import binomtest

    won = sum(pair.masked.solved > pair.raw.solved for pair in pairs)
    lost = sum(pair.masked.solved < pair.raw.solved for pair in pairs)
    return won, lost, float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def show_solved(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield how many tasks are solved with everything sent, and masked."""
    yield "| runs | window | pairs | solved, all sent | solved, masked | won, lost | p | points |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for name, window, pairs in experiments:
        raw, masked = (sum(run.solved for run in side) for side in _split(pairs))
        won, lost, p = won_and_lost(pairs)
        points = estimate_ratio([(t, m.solved - r.solved, 1) for t, r, m in pairs])
        yield (
            f"| {name} | {window} | {len(pairs):,} | {_as_share(estimate_share(raw, len(pairs)))} "
            f"| {_as_share(estimate_share(masked, len(pairs)))} | {won}, {lost} | {_as_p(p)} "
            f"| {100 * points.value:+.1f} ({100 * points.low:+.1f} to {100 * points.high:+.1f}) |"
        )


def show_work(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield how many turns the tasks take and what they cost, relative to everything sent."""
    yield (
        f"| runs | window | turns | {CAP} or more | 0 or 1 | cost, all tasks | cost, both solved |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, window, pairs in experiments:
        caps = [sum(run.turns >= CAP for run in side) for side in _split(pairs)]
        ends = [sum(run.turns <= 1 for run in side) for side in _split(pairs)]
        solved = [pair for pair in pairs if pair.raw.solved and pair.masked.solved]
        ratios = (
            estimate_ratio([(task, masked.turns, raw.turns) for task, raw, masked in pairs]),
            estimate_ratio([(task, masked.cost, raw.cost) for task, raw, masked in pairs]),
            estimate_ratio([(task, masked.cost, raw.cost) for task, raw, masked in solved]),
        )
        turns, costs, both = map(_as_ratio, ratios)
        counts = f"{caps[0]} to {caps[1]} | {ends[0]} to {ends[1]}"
        yield f"| {name} | {window} | {turns} | {counts} | {costs} | {both} |"


def _split(pairs: Sequence[Pair]) -> tuple[list[Run], list[Run]]:
    """Return the runs with everything sent, and those masked."""
    return [pair.raw for pair in pairs], [pair.masked for pair in pairs]


def _as_share(share: Estimate) -> str:
    return f"{share.value:.1%} ({100 * share.low:.0f} to {100 * share.high:.0f})"


def _as_ratio(ratio: Estimate) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _as_p(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else "below .01" if p >= 0.0001 else "below .0001"


# What the input would cost at other prices
#
# The files have a run's mean prompt, not its requests. So each run is modeled: its first prompt has
# `HEAD` tokens, and each turn adds what the model wrote and a result, the same at every turn, just
# so large that the mean comes out. In a masked run, results older than the window count nothing.


HEAD = 1_500
"""Tokens before the first turn: the shortest runs of SWE-agent have means a little above that."""


def model_run(run: Run, window: int | None = None, first: float = HEAD) -> Conversation:
    """Return a run as the boundary sees it, unmasked; one without turns has no requests.

    window: the results that its prompts still had, in tool turns; None if they had all.
    first: the tokens of its first prompt.
    """
    places = range(run.turns)
    shown = fsum(place if window is None else min(place, window) for place in places)
    head = min(first, run.prompt)
    growth = (run.prompt - head) * run.turns  # over all requests
    turns = fsum(places)
    written = min(run.written, growth / turns) if turns else 0.0
    result = (growth - written * turns) / shown if shown else 0.0
    step = written + result
    return Conversation(
        [RequestSize(head + step * place, place, place) for place in places],
        [
            Candidate(place, head + step * place + written, result, None)
            for place in range(run.turns - 1)
        ],
    )


class Billed(NamedTuple):
    """A modeled run, and what is masked in each of its requests."""

    run: Conversation
    masks: Sequence[Masks]

    def cost(self, prices: Pricing) -> float:
        """Return what its input costs, in uncached tokens."""
        return sum(costs_of(self.run, self.masks, prices))


def slide(run: Conversation, window: int) -> Billed:
    """Mask as the published runs did: at every turn."""
    return Billed(run, masks_of_edges(run, find_edges(run, window)))


def send_all(run: Conversation) -> Billed:
    """Mask nothing."""
    return Billed(run, masks_of_edges(run, [0] * len(run.requests)))


def wait(run: Conversation, window: int, prices: Pricing) -> Billed:
    """Mask as this project does: when it pays."""
    policy = PricedPolicy(
        enabled=True,
        window_turns=window,
        cache_read_ratio=prices.read,
        cache_write_ratio=prices.write,
    )
    boundaries = find_boundaries(run.requests, run.results, policy)
    return Billed(run, masks_of_edges(run, [turn for turn, _ in boundaries]))


def show_prices(pairs: Sequence[Pair], window: int) -> Iterator[str]:
    """Yield what the input of the masked runs costs, relative to everything sent."""
    yield "| cached, written token | masked at every turn | masked when it pays |"
    yield "|---|--:|--:|"
    raw = [send_all(model_run(pair.raw)) for pair in pairs]
    runs = [model_run(pair.masked, window) for pair in pairs]
    sliding = [slide(run, window) for run in runs]
    for prices in TRUE_PRICES:
        whole = fsum(each.cost(prices) for each in raw)
        slid = fsum(each.cost(prices) for each in sliding) / whole
        ours = fsum(wait(run, window, prices).cost(prices) for run in runs) / whole
        named = f"{prices.read:g}, {prices.write:g}{' (no cache)' * (prices.read >= 1)}"
        yield f"| {named} | {slid:.2f} | {ours:.2f} |"


def show_shares(experiments: Sequence[Experiment], window: int) -> Iterator[str]:
    """Yield which share of the input is read from the cache, token by token."""
    heads = HEAD, 0.0
    cells = (f"{side}, {head:,.0f}" for head in heads for side in ("all sent", "masked"))
    yield f"| runs | {' | '.join(cells)} |"
    yield "|---|--:|--:|--:|--:|"
    for name, _, pairs in experiments:
        shares = []
        for head in heads:
            raw = (model_run(pair.raw, first=head) for pair in pairs)
            masked = (model_run(pair.masked, window, head) for pair in pairs)
            shares.append(find_share([send_all(run) for run in raw]))
            shares.append(find_share([slide(run, window) for run in masked]))
        yield f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |"


def find_share(billed: Sequence[Billed]) -> float:
    """Return the share of the input tokens that are read from the cache."""
    uncached = fsum(each.cost(Pricing(0.0, 1.0)) for each in billed)
    return 1 - uncached / fsum(each.cost(Pricing(1.0, 1.0)) for each in billed)


def make_tables(sweagent: Path, openhands: Path) -> dict[str, Sequence[str]]:
    """Return all tables, by the names that the page marks them with."""
    theirs, others = find_sweagent(read_runs(sweagent)), read_runs(openhands)
    pooled = Experiment(
        "SWE-agent, all five", SWEAGENT_WINDOW, [pair for each in theirs for pair in each.pairs]
    )
    both = [*theirs, pooled, *find_openhands(others)]
    fifty = find_openhands(others, "-verified_50")
    coder = next(each.pairs for each in theirs if "Qwen3-Coder" in each.name)
    return {
        "solved": [*show_solved(both)],
        "work": [*show_work(both)],
        "windows, solved": [*show_solved(fifty)],
        "windows, work": [*show_work(fifty)],
        "repeated": [*show_solved([find_repeated(others)])],
        "prices": [*show_prices(coder, SWEAGENT_WINDOW)],
        "cached shares": [*show_shares(theirs, SWEAGENT_WINDOW)],
    }


def main() -> int:
    """Print the tables, and put them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweagent", type=Path)
    parser.add_argument("openhands", type=Path)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    tables = make_tables(given.sweagent, given.openhands)
    for name, lines in tables.items():
        print(f"\n{name}", *lines, sep="\n")
    if given.write is not None:
        page: Path = given.write
        page.write_text(
            fill_tables(page.read_text(encoding="utf-8"), "paired runs", tables), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
