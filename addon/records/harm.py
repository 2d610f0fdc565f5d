"""Whether masking does harm: what the conversations say that `holdout.py` compares.

Two measures make the verdict: how many requests a conversation takes, and how many conversations
are among the longest, as those are that go on until a limit ends them. In published runs with and
without masking they tell a harmful window from a harmless one (docs/measured/harm.md). All else is
shown as a figure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import ceil, exp, expm1, floor, inf, log, log1p, log10, sqrt
from statistics import fmean
from typing import Literal, NamedTuple

from addon.records.holdout import Alike, Excluded, Figures, Holdout

# By how much they differ, and how sure that is
#
# Requests are about log-normal, so their logarithms are compared, among conversations of one kind
# (`Alike`). The variance is pooled, because without harm it is the same in both groups.
#
# A user looks every day. So the interval is not Student's, which is true at one look, but the one
# of Lindon, Ham, Tingley and Bojinov, Anytime-Valid Linear Models (2022, arXiv:2210.08589): with
# the stated probability the truth is in the intervals of all looks. It comes from a likelihood
# ratio, of effects drawn from a normal distribution to no effect.
#
# `tests/tools/benchmarks/harm_verdict.py` holds all this to published runs, masked and not. The
# constants were chosen on those of SWE-agent alone.

CONFIDENCE = 0.95
"""The probability that both intervals hold at every look."""

LEAST = 10
"""With fewer conversations in a group, or fewer long ones in both, there is no interval."""

LONGEST = 1 / 15
"""This part of the conversations of a kind is among the longest, and all that are as long."""

SEEN = 0.5
"""It can tell if it would mostly have seen a rise in requests by so much."""

SPREAD = 1.2
"""The standard deviation of the logarithm of the requests, where there are too few to know it."""

_ERROR = (1 - CONFIDENCE) / 2
_POWER_QUANTILE = 0.8416
"""The standard normal quantile of four in five: how often a rise is found that "would be seen"."""
_PRECISION = 4.0
"""The inverse of the variance of the effects in the likelihood ratio, in residual variances."""
_ROUNDING = 1e-12
"""What rounding leaves is less, in parts of what it is left of."""


class Effect(NamedTuple):
    """A measure of the masked conversations beside that of those held out.

    masked: the mean in the masked ones.
    difference: by how much that is more than in conversations held out that are alike.
    standard_error: of the difference; 0 if all conversations are the same.
    critical: how many of them are beyond chance, at any look; infinite with too few conversations.
    """

    masked: float
    difference: float
    standard_error: float
    critical: float

    @property
    def held_out(self) -> float:
        return self.masked - self.difference

    @property
    def margin(self) -> float | None:
        """How far the difference may be off; None with too few, or if all are the same."""
        known = self.standard_error > 0 and self.critical < inf
        return self.critical * self.standard_error if known else None

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """1 if the masked ones have certainly more, -1 if less, 0 if nobody can tell."""
        if self.margin is None or abs(self.difference) <= self.margin:
            return 0
        return 1 if self.difference > 0 else -1


def find_critical(size: float, freedom: int) -> float:
    """Return how many standard errors are beyond chance at any look; infinite if none are yet.

    size: `1 / (1 / masked + 1 / held_out)`, summed over kinds of conversations.
    freedom: the degrees of freedom of the residual variance.
    """
    # Where the likelihood ratio of the paper's t-statistic is 1 / error, solved for t:
    # shrink**.5 * ((1 + t²/freedom) / (1 + shrink * t²/freedom)) ** ((freedom + 1) / 2)
    shrink = _PRECISION / (_PRECISION + size)
    growth = exp(-log(_ERROR * _ERROR * shrink) / (freedom + 1))
    rest = 1 - growth * shrink
    return sqrt(freedom * (growth - 1) / rest) if rest > 0 else inf


Sides = tuple[list[float], list[float]]
"""What the masked conversations of a kind have, and what those held out have."""


def measure_effect(kinds: Iterable[Sides]) -> Effect:
    """Return how a measure differs, by least squares with a coefficient for each kind."""
    kinds = [*kinds]
    size = difference = squares = 0.0
    for sides in kinds:
        means, counts = [*map(fmean, sides)], [*map(len, sides)]
        weight = counts[0] * counts[1] / sum(counts)
        size += weight
        difference += weight * (means[0] - means[1])
        squares += (
            sum(
                (value - mean) ** 2
                for side, mean in zip(sides, means, strict=True)
                for value in side
            )
            + weight * (means[0] - means[1]) ** 2
        )
    difference /= size
    residual = squares - size * difference**2
    of_masked, held_out = ([one for sides in kinds for one in sides[at]] for at in (0, 1))
    values = of_masked + held_out
    freedom = len(values) - len(kinds) - 1
    if freedom <= 0 or residual <= _ROUNDING * sum(value**2 for value in values):
        residual = 0.0
    is_enough = min(len(of_masked), len(held_out)) >= LEAST and sum(map(bool, values)) >= LEAST
    return Effect(
        fmean(of_masked),
        difference,
        sqrt(residual / freedom / size) if residual else 0.0,
        find_critical(size, freedom) if is_enough and freedom > 0 else inf,
    )


# What a user should read

Kind = Literal["harm", "none seen", "cannot tell"]


class Figure(NamedTuple):
    """A mean of a conversation, of which there is no verdict."""

    name: str
    masked: float
    held_out: float


class Verdict(NamedTuple):
    """What both groups say about harm.

    masked, held_out: how many conversations are compared.
    requests: of the logarithm of their requests; None if none are compared.
    longest: of the share that is among the longest of its kind, from `limit` requests on; that is
        None if kinds differ.
    needed: how many held-out ones it takes, about, to see a rise in requests by half.
    """

    masked: int
    held_out: int
    requests: Effect | None
    longest: Effect | None
    limit: int | None
    figures: tuple[Figure, ...]
    needed: int
    left_out: Excluded

    @property
    def kind(self) -> Kind:
        effects = self.requests, self.longest
        if any(each is not None and each.direction > 0 for each in effects):
            return "harm"
        rise = self.detectable_rise
        return "none seen" if rise is not None and rise <= SEEN else "cannot tell"

    @property
    def can_compare(self) -> bool:
        """Whether there are enough conversations for an interval."""
        return self.detectable_rise is not None

    @property
    def detectable_rise(self) -> float | None:
        """The least rise in requests that would mostly have been seen; None with too few."""
        if self.requests is None or self.requests.margin is None:
            return None
        return expm1((self.requests.critical + _POWER_QUANTILE) * self.requests.standard_error)


_FIGURES: Mapping[str, Callable[[Figures], float | None]] = {
    "refused requests": lambda one: one.refusals,
    "failed requests": lambda one: one.failures,
    "re-reads": lambda one: one.rereads,
    "output tokens": lambda one: one.output_tokens,
    "cost in dollars": lambda one: one.dollars,
    "cost in input tokens": lambda one: one.input_tokens,
}


def judge(holdout: Holdout, now: datetime) -> Verdict | None:
    """Return what both groups say at a time; None if there is no hold-out."""
    compared = holdout.find_compared(now)
    return compared and judge_figures(*compared)


def judge_figures(table: list[Figures], left_out: Excluded) -> Verdict:
    """Return what conversations say; each kind of them should be in both groups."""
    held_out = sum(one.is_held_out for one in table)
    counts = [*_split(table, lambda one: one.requests)]
    requests = longest = None
    limits = {_find_limit(masked + others, LONGEST) for masked, others in counts}
    if counts:
        requests = measure_effect(([*map(log, a)], [*map(log, b)]) for a, b in counts)
        longest = measure_effect(mark_longest(sides, LONGEST) for sides in counts)
    figures = []
    for name, read in _FIGURES.items():
        if kinds := [*_split(table, read)]:
            weights = [len(masked) for masked, _ in kinds]
            masked = fmean(one for sides in kinds for one in sides[0])
            figures.append(Figure(name, masked, fmean((fmean(b) for _, b in kinds), weights)))
    # What they cost is in dollars if the price of all is known, or else in input tokens.
    unwanted = "input tokens" if all(one.dollars is not None for one in table) else "dollars"
    return Verdict(
        len(table) - held_out,
        held_out,
        requests,
        longest,
        int(limits.pop()) if len(limits) == 1 else None,
        tuple(each for each in figures if each.name != f"cost in {unwanted}"),
        count_needed(len(table) - held_out, held_out, requests),
        left_out,
    )


def _split(table: Iterable[Figures], read: Callable[[Figures], float | None]) -> Iterator[Sides]:
    """Yield what the conversations of each kind have, if both groups have it."""
    kinds: dict[Alike, Sides] = {}
    for one in table:
        if (value := read(one)) is not None:
            kinds.setdefault(one.alike, ([], []))[one.is_held_out].append(value)
    yield from (sides for sides in kinds.values() if all(sides))


def _find_limit(requests: list[float], part: float) -> float:
    return sorted(requests, reverse=True)[ceil(part * len(requests)) - 1]


def mark_longest(sides: Sides, part: float) -> Sides:
    """Return 1 for each conversation of a kind that is in its longest part, and 0 for others."""
    limit = _find_limit(sides[0] + sides[1], part)
    masked, held_out = ([float(count >= limit) for count in side] for side in sides)
    return masked, held_out


def count_needed(masked: int, held_out: int, requests: Effect | None) -> int:
    """Return how many conversations must be held out to see requests rise by `SEEN`, mostly.

    They vary as those of `requests`, or by `SPREAD`; the groups keep their proportion.
    """
    share = (held_out + 2) / (masked + held_out + 10)  # a fifth, before there are any
    spread = SPREAD
    if requests is not None and requests.margin is not None:
        spread = requests.standard_error * sqrt(masked * held_out / (masked + held_out))
    count = 2.0 * LEAST
    for _ in range(20):  # converges in a few steps, as the critical value hardly changes
        critical = find_critical(count * (1 - share), ceil(count / share))
        count = (spread * (critical + _POWER_QUANTILE) / log1p(SEEN)) ** 2 / (1 - share)
        count = max(count, LEAST)
    unit = 10.0 ** max(0, floor(log10(count)) - 1)  # two digits that count
    return int(ceil(count / unit) * unit)
