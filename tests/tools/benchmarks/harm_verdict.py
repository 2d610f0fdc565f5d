"""How far the verdict on harm can be trusted, on published runs with masking and without.

    python -m tests.tools.benchmarks.harm_verdict SWEAGENT.csv OPENHANDS.csv [--write PAGE]

`pairs.py` says what is in the files. Each comparison is as a hold-out would be: it draws tasks with
replacement, and holds some out, by a coin. Of a task held out it takes the run with everything
sent, of any other the masked one. As in the product, a run counts from where masking began, or
would have: by its turns beyond the window. The verdict's constants were chosen on SWE-agent's
runs alone.

Which part of the conversations counts as the longest (`harm.LONGEST`) was chosen by the table
`parts`: into SWE-agent's runs with everything sent it plants runs that go on until the limit, in so
few of the masked ones that nothing finds them, up to so many that nearly all find them. The part
that finds them most often, on average, is taken.

Without an effect, all are runs with everything sent, so that whatever is found is chance, at one
look or at one of those at the end of each day. It exits with 1 if harm is found there more often
than the verdict says, or in fewer than 95% of comparisons where OpenHands masked beyond 5 turns.
`--draws` is how many comparisons there are for each figure. The tables are printed, and with
`--write` put into a page, between their marks.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple

from addon.records.harm import (
    CONFIDENCE,
    Sides,
    Verdict,
    judge_figures,
    mark_longest,
    measure_effect,
)
from addon.records.holdout import Excluded, Figures
from tests.support.pages import fill_tables
from tests.tools.benchmarks.pairs import (
    SWEAGENT_WINDOW,
    Experiment,
    Pair,
    find_openhands,
    find_repeated,
    find_sweagent,
    read_runs,
)

SHARES = (0.2, 0.5)
"""Which part is held out."""

A_DAY, TASKS = 10, 500
SIZES = (100, 250, 500, 1000, 2500)
LEAST_POWER = 0.95
LIMIT = 250
"""The turns after which the scaffolds end a run."""

PARTS = (40, 30, 25, 20, 15, 12, 10, 8, 5)
"""A conversation is among the longest if it is in this part of them: a fortieth, and so on."""

PLANTED = (0.04, 0.08, 0.12, 0.16, 0.2)
"""Which part of the masked runs goes on until the limit."""

Choose = Callable[[Pair], float]
"""Returns the turns of a task that is not held out."""


def take_masked(pair: Pair) -> float:
    return pair.masked.turns


def take_raw(pair: Pair) -> float:
    return pair.raw.turns


def draw(
    rng: random.Random, pairs: Sequence[Pair], window: int, share: float, choose: Choose
) -> list[Figures]:
    """Return a conversation, or none if the run ended before masking began."""
    pair, is_held_out = rng.choice(pairs), rng.random() < share
    turns = (take_raw if is_held_out else choose)(pair) - window
    requests = max(1, round(turns))
    return [Figures(is_held_out, ("", None, None), requests=requests)] if turns > 0 else []


def look(
    seed: object, pairs: Sequence[Pair], window: int, share: float, choose: Choose, size: int
) -> Verdict:
    """Return the verdict on so many tasks."""
    rng = random.Random(str(seed))
    table = [one for _ in range(size) for one in draw(rng, pairs, window, share, choose)]
    return judge_figures(table, Excluded())


def look_daily(seed: object, pairs: Sequence[Pair], window: int, share: float) -> Iterator[Verdict]:
    """Yield the verdict at the end of each day, of runs with everything sent."""
    rng = random.Random(str(seed))
    table: list[Figures] = []
    for _ in range(TASKS // A_DAY):
        table += (one for _ in range(A_DAY) for one in draw(rng, pairs, window, share, take_raw))
        yield judge_figures(table, Excluded())


def is_harm(verdict: Verdict) -> bool:
    return verdict.kind == "harm"


class Row(NamedTuple):
    """How often something is found, and what that is."""

    name: str
    window: int
    share: float
    found: float
    cells: Sequence[str]

    def show(self) -> str:
        named = f"| {self.name} | {self.window} | {self.share:.0%} |"
        return f"{named} {' | '.join(self.cells)} |"


def cry_wolf(experiment: Experiment, window: int, share: float, draws: int) -> Row:
    """Return how often harm is found where there is none, at one look and at any."""
    name, _, pairs = experiment
    once = fmean(is_harm(look(n, pairs, window, share, take_raw, TASKS)) for n in range(draws))
    daily = fmean(any(map(is_harm, look_daily(n, pairs, window, share))) for n in range(draws))
    return Row(name, window, share, max(once, daily), [f"{once:.1%}", f"{daily:.1%}"])


def repeat(experiment: Experiment, share: float, draws: int) -> Row:
    """Return how often harm is found between two runs of the same tasks with everything sent."""
    pairs, window = experiment.pairs, 5
    once = fmean(
        is_harm(look(n, pairs, window, share, take_masked, len(pairs))) for n in range(draws)
    )
    return Row(f"{experiment.name}, run twice", window, share, once, [f"{once:.1%}", ""])


def find_effect(experiment: Experiment, window: int, share: float, draws: int) -> Row:
    """Return how often harm is found where runs were masked, and whether the ranges are true."""
    name, _, pairs = experiment
    verdicts = [look(n, pairs, window, share, take_masked, TASKS) for n in range(draws)]
    requests = [each.requests for each in verdicts if each.requests]
    longest = [each.longest for each in verdicts if each.longest]
    sides = [
        [log(turns - window) for pair in pairs if (turns := take(pair)) > window]
        for take in (take_masked, take_raw)
    ]
    truth = fmean(sides[0]) - fmean(sides[1])
    hold = fmean(abs(each.difference - truth) <= (each.margin or 0) for each in requests)
    found = fmean(map(is_harm, verdicts))
    return Row(
        name,
        window,
        share,
        found,
        [
            f"{exp(truth):.2f}",
            f"{exp(median(each.difference for each in requests)):.2f}",
            f"{hold:.0%}",
            f"{fmean(each.direction > 0 for each in requests):.0%}",
            f"{100 * median(each.masked for each in longest):.0f}% to "
            f"{100 * median(max(0.0, each.held_out) for each in longest):.0f}%",
            f"{fmean(each.direction > 0 for each in longest):.0%}",
            f"{found:.0%}",
        ],
    )


def show_planted(experiment: Experiment, window: int, draws: int) -> Iterator[str]:
    """Yield how often a rise in requests is found that was planted in runs with everything sent."""
    yield f"| requests | held out | {' | '.join(f'{size:,}' for size in SIZES)} |"
    yield f"|---|--:|{'--:|' * len(SIZES)}"
    for times in (1.2, 1.5, 2.0):

        def choose(pair: Pair, times: float = times) -> float:
            return window + times * (pair.raw.turns - window)

        for share in SHARES:
            found = [
                fmean(
                    is_harm(look(n, experiment.pairs, window, share, choose, size))
                    for n in range(draws)
                )
                for size in SIZES
            ]
            shown = " | ".join(f"{each:.0%}" for each in found)
            yield f"| {times:g} times | {share:.0%} | {shown} |"


def plant_limits(
    rng: random.Random, pairs: Sequence[Pair], window: int, share: float, planted: float
) -> Sides:
    """Return the requests of runs with everything sent, some of which go on until the limit."""
    sides: Sides = ([], [])
    for _ in range(TASKS):
        turns, is_held_out = rng.choice(pairs).raw.turns, rng.random() < share
        if not is_held_out and rng.random() < planted:
            turns = LIMIT
        if turns > window:
            sides[is_held_out].append(turns - window)
    return sides


def compare_parts(experiments: Sequence[Experiment], window: int, draws: int) -> Iterator[str]:
    """Yield how often runs that go on until the limit are found, by what counts as the longest."""
    found: dict[int, list[float]] = {part: [] for part in PARTS}
    for planted in PLANTED:
        sides = [
            plant_limits(random.Random(f"{n} {planted} {share}"), pairs, window, share, planted)
            for _, _, pairs in experiments
            for share in SHARES
            for n in range(draws)
        ]
        for part, rates in found.items():
            rates.append(
                fmean(
                    measure_effect([mark_longest(each, 1 / part)]).direction > 0 for each in sides
                )
            )
    yield f"| longest | {' | '.join(f'{planted:.0%}' for planted in PLANTED)} | mean |"
    yield f"|---|{'--:|' * (len(PLANTED) + 1)}"
    for part, rates in found.items():
        shown = " | ".join(f"{rate:.0%}" for rate in rates)
        yield f"| 1 in {part} | {shown} | {fmean(rates):.1%} |"


def measure_spread(experiments: Sequence[Experiment], window: int) -> Iterator[float]:
    """Yield the standard deviation of the logarithm of the requests, everything sent."""
    for each in experiments:
        counts = [pair.raw.turns - window for pair in each.pairs]
        yield stdev(log(count) for count in counts if count > 0)


def main() -> int:
    """Print the tables, and put them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweagent", type=Path)
    parser.add_argument("openhands", type=Path)
    parser.add_argument("--draws", type=int, default=300, metavar="N")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    draws: int = given.draws
    theirs, others = find_sweagent(read_runs(given.sweagent)), read_runs(given.openhands)
    harmful, harmless = find_openhands(others)

    chance = [
        cry_wolf(each, window, share, draws)
        for each, window in [*((each, SWEAGENT_WINDOW) for each in theirs), (harmful, 5)]
        for share in SHARES
    ]
    chance += (repeat(find_repeated(others), share, draws) for share in SHARES)
    effects = [
        find_effect(each, window, share, draws)
        for each, window in (
            *((each, SWEAGENT_WINDOW) for each in theirs),
            *((harmful, 5), (harmless, 36)),
        )
        for share in SHARES
    ]
    tables = {
        "chance": [
            "| runs | window | held out | harm found, one look | at any look |",
            "|---|--:|--:|--:|--:|",
            *(row.show() for row in chance),
        ],
        "effects": [
            "| runs | window | held out | requests, times | says | range holds | rise found "
            "| longest | found | harm |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *(row.show() for row in effects),
        ],
        "planted": [*show_planted(harmful, 5, draws)],
        "parts": [*compare_parts(theirs, SWEAGENT_WINDOW, 3 * draws)],  # they differ by little
    }
    for name, lines in tables.items():
        print(f"\n{name}", *lines, sep="\n")
    spread = measure_spread(theirs, SWEAGENT_WINDOW)
    print("\nspread of the logarithm of requests:", *(f"{each:.2f}" for each in spread))
    if given.write is not None:
        page: Path = given.write
        text = fill_tables(page.read_text(encoding="utf-8"), "verdict", tables)
        page.write_text(text, encoding="utf-8")
    # What so many draws find differs from the truth by chance: three standard errors are allowed.
    error = 1 - CONFIDENCE
    is_true = max(row.found for row in chance) <= error + 3 * sqrt(error * (1 - error) / draws)
    power = min(row.found for row in effects if row.name == harmful.name and row.window == 5)
    return int(not is_true or power < LEAST_POWER)


if __name__ == "__main__":
    sys.exit(main())
