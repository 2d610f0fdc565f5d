"""How far the verdict on harm can be trusted, on simulated conversations with and without harm.

`python -m tests.tools.benchmarks.harm_verdict` prints three tables. The first says how often it
finds a difference where there is none, by a user who looks every day, beside what twice the
standard error of the means would find. The second says how often it finds a harm of a given size,
by the number of conversations. The third holds what it promises (`would have seen`, `it takes
about`) against what it then finds. It exits with 1 if it cries wolf more often than it says.

`--runs` is how many comparisons are simulated for each row. The conversations vary as recorded
conversations of coding agents do once the first result is masked: the logarithm of their requests
has a standard deviation of 1.2 (1.0 to 1.6 in those), of which the length at that moment explains a
tenth (a tenth to four), half of them repeat no call, output and cost grow with the requests, and
faults of the provider come in bursts.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, exp, log, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from addon.records.harm import (
    CONFIDENCE,
    POWER,
    REQUESTS,
    Figures,
    Verdict,
    count_needed,
    judge,
    measure_effect,
)

MEDIAN_REQUESTS, SPREAD, EXPLAINED = 28.0, 1.2, 0.1
REREADS_PER_REQUEST, FAILURES_PER_REQUEST, REFUSED = 0.045, 0.015, 0.01


class Harm(NamedTuple):
    """What masking does to a conversation; nothing by default.

    requests, rereads, output: times as many.
    runaways: this part of the conversations takes five times the requests.
    refused: this part of the conversations has a request more that is refused.
    """

    name: str = "none"
    requests: float = 1.0
    rereads: float = 1.0
    output: float = 1.0
    runaways: float = 0.0
    refused: float = 0.0


class Traffic(NamedTuple):
    """Conversations of some kind.

    share: the part that is held out.
    spread: the standard deviation of the logarithm of their requests.
    kinds: models, each of which has conversations five times as long as the one before.
    repeats: this part of the prompts is sent again, up to ten times.
    tail: instead of log-normal, requests have a Pareto tail of this exponent.
    """

    name: str
    share: float = 0.2
    spread: float = SPREAD
    kinds: int = 1
    repeats: float = 0.0
    tail: float = 0.0


USUAL = Traffic("usual")


def draw(rng: random.Random, traffic: Traffic, harm: Harm) -> Figures:
    """Return a conversation."""
    is_held_out = rng.random() < traffic.share
    done = Harm() if is_held_out else harm
    kind = rng.randrange(traffic.kinds)
    # How long it is when masking begins says a little of how long it will be, as in recorded ones.
    start = rng.gauss(0, 1)
    length = MEDIAN_REQUESTS * (
        rng.paretovariate(traffic.tail)
        if traffic.tail
        else exp(traffic.spread * (EXPLAINED**0.5 * start + rng.gauss(0, (1 - EXPLAINED) ** 0.5)))
    )
    if rng.random() < traffic.repeats:
        length *= rng.randint(2, 10)
    length *= done.requests * (5 if rng.random() < done.runaways else 1) * 5**kind
    requests = max(1, ceil(length - rng.random()))
    output = requests * rng.lognormvariate(log(300), 0.6) * done.output
    # Prompts grow from request to request, to where the agent compacts.
    tokens = round(15_000 * exp(0.5 * start))
    prompts = requests * (tokens + 300 * min(requests, 400)) * rng.lognormvariate(0, 0.5)
    rate = rng.gammavariate(0.45, REREADS_PER_REQUEST / 0.45) * done.rereads
    faults = rng.gammavariate(0.3, FAILURES_PER_REQUEST / 0.3)
    return Figures(
        is_held_out=is_held_out,
        alike=("", None, str(kind)),
        tokens_at_start=tokens,
        requests=requests,
        refusals=(rng.random() < REFUSED) + (rng.random() < done.refused),
        failures=draw_poisson(rng, requests * faults),
        rereads=draw_poisson(rng, requests * rate),
        output_tokens=max(1, round(output)),
        dollars=prompts * 1e-6 * 5**kind,
        input_tokens=prompts,
    )


def draw_poisson(rng: random.Random, mean: float) -> int:
    """Return a Poisson count; of a large mean one from the normal distribution."""
    if mean > 50:
        return max(0, round(rng.gauss(mean, mean**0.5)))
    count, product, least = 0, rng.random(), exp(-mean)
    while product > least:
        count, product = count + 1, product * rng.random()
    return count


def halve(figures: Figures) -> Figures:
    """Return a conversation that is still running."""
    return replace(
        figures,
        requests=ceil(figures.requests / 2),
        refusals=figures.refusals // 2,
        failures=figures.failures // 2,
        rereads=figures.rereads // 2,
        output_tokens=ceil((figures.output_tokens or 0) / 2),
        dollars=(figures.dollars or 0.0) / 3,
    )


# How often it cries wolf


A_DAY, DAYS = 10, 100


def look_daily(rng: random.Random, traffic: Traffic) -> Iterator[list[Figures]]:
    """Yield what is there at the end of each day; of the newest day, half is done."""
    done: list[Figures] = []
    for _ in range(DAYS):
        today = [draw(rng, traffic, Harm()) for _ in range(A_DAY)]
        yield [*done, *map(halve, today)]
        done += today


def differs_by_two_errors(table: list[Figures]) -> bool:
    """Whether a mean of the masked ones is larger by twice its standard error."""
    groups = [[one for one in table if one.is_held_out is side] for side in (False, True)]
    if min(map(len, groups)) < 10:
        return False
    reads: tuple[Callable[[Figures], float], ...] = (
        lambda one: one.requests,
        lambda one: one.refusals + one.failures,
        lambda one: one.rereads,
        lambda one: one.output_tokens or 0,
        lambda one: one.dollars or 0.0,
    )
    for read in reads:
        masked, held_out = ([read(one) for one in group] for group in groups)
        error = (stdev(masked) ** 2 / len(masked) + stdev(held_out) ** 2 / len(held_out)) ** 0.5
        if fmean(masked) - fmean(held_out) > 2 * error:
            return True
    return False


def cry_wolf(traffic: Traffic, runs: int) -> tuple[float, float, float]:
    """Return how often harm is found at any look, how often any difference, how often by means."""
    harms = differences = naive = 0
    for seed in range(runs):
        rng = random.Random(f"{traffic.name} {seed}")
        is_harm = is_any = is_naive = False
        for table in look_daily(rng, traffic):
            verdict = judge(table)
            is_harm |= verdict.kind == "harm"
            is_any |= any(each.direction for each in verdict.effects)
            is_naive = is_naive or differs_by_two_errors(table)
        harms, differences, naive = harms + is_harm, differences + is_any, naive + is_naive
    return harms / runs, differences / runs, naive / runs


NULLS = (
    USUAL,
    Traffic("half held out", share=0.5),
    Traffic("one in twenty held out", share=0.05),
    Traffic("three models", kinds=3),
    Traffic("prompts that repeat", repeats=0.2),
    Traffic("a Pareto tail", tail=0.8),
)

# How often it sees a harm

HARMS = (
    Harm("a fifth more requests", requests=1.2),
    Harm("half as many requests more", requests=1.5),
    Harm("twice the requests", requests=2.0),
    Harm("three times the requests", requests=3.0),
    Harm("one in ten takes five times the requests", runaways=0.1),
    Harm("twice the re-reads", rereads=2.0),
    Harm("four times the re-reads", rereads=4.0),
    Harm("a refused request in one of ten", refused=0.1),
    Harm("a refused request in one of three", refused=1 / 3),
    Harm("twice the output", output=2.0),
)
SIZES = (50, 100, 250, 500, 1000, 2500)


def find_harm(harm: Harm, runs: int) -> tuple[list[float], float]:
    """Return how often it is found, by size, and how often all intervals hold at all looks.

    Of counts, nobody knows the truth, so only the ratios are looked at.
    """
    found, hold = [0] * len(SIZES), 0
    is_known = not (harm.runaways or harm.refused)
    truth = {
        "requests": log(harm.requests),
        "output tokens": log(harm.requests * harm.output),
    }
    for seed in range(runs):
        rng = random.Random(f"{harm.name} {seed}")
        table: list[Figures] = []
        is_held = True
        for at, size in enumerate(SIZES):
            table += [draw(rng, USUAL, harm) for _ in range(size - len(table))]
            verdict = judge(table)
            found[at] += verdict.kind == "harm"
            is_held &= all(
                abs(each.log_difference - truth[each.measure.name])
                <= each.critical * each.standard_error
                for each in verdict.effects
                if each.measure.name in truth
            )
        hold += is_held
    return [count / runs for count in found], hold / runs if is_known else float("nan")


# Whether it keeps its promises


def see_detectable(size: int, runs: int) -> tuple[float, float]:
    """Return the rise that so many conversations would show, and how often they do."""
    rises = []
    for seed in range(50):
        rng = random.Random(f"promise {seed}")
        if requests := look_once(rng, size, 1.0).requests:
            rises.append(requests.detectable)
    rise = fmean(rises)
    return rise, see(size, 1 + rise, runs)


def see(size: int, times: float, runs: int) -> float:
    """Return how often so many times the requests are found in so many conversations."""
    found = 0
    for seed in range(runs):
        rng = random.Random(f"see {seed}")
        table = [draw(rng, USUAL, Harm(requests=times)) for _ in range(size)]
        effect = measure_effect(REQUESTS, table)
        found += effect is not None and effect.direction > 0
    return found / runs


def look_once(rng: random.Random, size: int, times: float) -> Verdict:
    """Return the verdict on so many conversations with so many times the requests."""
    return judge([draw(rng, USUAL, Harm(requests=times)) for _ in range(size)])


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, metavar="N")
    runs: int = parser.parse_args().runs

    print(f"No harm, looked at on each of {DAYS} days with {A_DAY} conversations, {runs} times:")
    print("| conversations | harm found | any difference found | by twice the error of the means |")
    print("|---|--:|--:|--:|")
    worst = 0.0
    for traffic in NULLS:
        harm, difference, naive = cry_wolf(traffic, runs)
        worst = max(worst, difference)
        print(f"| {traffic.name} | {harm:.1%} | {difference:.1%} | {naive:.0%} |", flush=True)

    sizes = " | ".join(f"{size:,}" for size in SIZES)
    print(f"\nHarm, with one conversation in five held out, {runs} times, found in so many:")
    print(f"| harm | {sizes} | intervals hold |")
    print(f"|---|{'--:|' * (len(SIZES) + 1)}")
    for planted in HARMS:
        found, hold = find_harm(planted, runs)
        shown = " | ".join(f"{share:.0%}" for share in found)
        holds = f"{hold:.0%}" if hold == hold else ""
        print(f"| {planted.name} | {shown} | {holds} |", flush=True)

    print(f"\nWhat it says it sees in {POWER:.0%} of comparisons, and in how many it does:")
    print("| conversations | rise in requests | seen |")
    print("|--:|--:|--:|")
    for size in (250, 500, 1000):
        rise, seen = see_detectable(size, runs)
        print(f"| {size:,} | {rise:.0%} | {seen:.0%} |", flush=True)
    needed = count_needed(0, 0)
    seen = see(needed * 5, 1.5, runs)
    print(f"| {needed * 5:,} ({needed:,} held out, as it says are needed) | 50% | {seen:.0%} |")

    # What so many runs find differs from the truth by chance: three standard errors are allowed.
    error = 1 - CONFIDENCE
    return int(worst > error + 3 * sqrt(error * (1 - error) / runs))


if __name__ == "__main__":
    sys.exit(main())
