"""Whether masking does harm: the conversations that are masked beside those that are held out.

Three questions, in this order: which conversations can be compared (`Holdout`), by how much each
measure differs and how sure that is (`measure_effects`), and what a user should read
(`Verdict`, `render_verdict`).

The hold-out decides by a digest of a conversation's opening, which no outcome can influence, so the
two groups differ by chance and by masking alone. A conversation is what was drawn, so it is the
unit, however many requests it has. Conversations that begin with the same texts are drawn together
and have the same id, so they are one unit, too.

Until the first result is masked, or would be, both groups have been sent the same. So a
conversation counts from that request on, and one that never comes to it does not count: it cannot
show anything, and would only add noise (counterfactual triggering: Kohavi, Tang and Xu, Trustworthy
Online Controlled Experiments, chapter 20).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from math import ceil, exp, expm1, floor, fsum, inf, log, log1p, log10, sqrt
from operator import mul
from typing import Literal, NamedTuple

from addon.records.record import RequestRecord
from addon.records.tally import as_sent
from addon.records.words import render_dollars

# Which conversations are compared

Alike = tuple[str, str | None, str | None]
"""The configuration, the client and the model: only conversations that share all are compared."""

YOUNG = timedelta(hours=1)
"""A conversation counts once masking began so long ago: most are over by then.

That it is over would be no sound rule, as masking may be why one is not.
"""


_NOT_FOR_CONTENT = (
    *(HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN),
    *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS),
)
"""Statuses between 400 and 500 that say nothing of what was in the request."""


@dataclass(slots=True)
class Figures:
    """What a conversation came to, from the request on at which masking began, or would have begun.

    began: when that was; None if the time is not known.
    tokens_at_start: how long that request was, before masking; None if it was not counted.
    refusals: requests that the provider refused for what was in them, also if it then took them
        unmasked.
    failures: requests that failed otherwise, as a provider that is overloaded fails.
    rereads: calls that repeat one whose result was masked or shortened, or would have been.
    output_tokens: as the provider counted them; None if it never did.
    dollars, input_tokens: what the prompts cost that were sent; None if that is not known.
    """

    is_held_out: bool
    alike: Alike
    began: datetime | None = None
    tokens_at_start: int | None = None
    requests: int = 0
    refusals: int = 0
    failures: int = 0
    rereads: int = 0
    output_tokens: int | None = None
    dollars: float | None = 0.0
    input_tokens: float | None = None

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        self.rereads += (record.rereads or 0) + (record.arrival_rereads or 0)
        record = as_sent(record)
        self.requests += 1
        status = record.status or 0
        if record.resent is not None or (400 <= status < 500 and status not in _NOT_FOR_CONTENT):
            self.refusals += 1
        elif record.failed:
            self.failures += 1
        if record.completion_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + record.completion_tokens
        if record.cost_tokens_after is not None:  # else the provider did not take it
            self.input_tokens = (self.input_tokens or 0.0) + record.cost_tokens_after
            cost = record.cost_dollars_after
            self.dollars = None if cost is None or self.dollars is None else self.dollars + cost


@dataclass(slots=True)
class _Conversation:
    """A conversation of a configuration: its figures once masking began in it, or would have."""

    config_digest: str
    is_held_out: bool
    switched: bool = False
    figures: Figures | None = None


class LeftOut(NamedTuple):
    """How many conversations are not compared, and why.

    unmasked: masking changed nothing in them, and would have changed nothing.
    young: masking began, or would have begun, within the last hour.
    switched: they have requests of both groups.
    unmatched: there is no conversation in the other group with their configuration, client and
        model.
    """

    unmasked: int = 0
    young: int = 0
    switched: int = 0
    unmatched: int = 0


_NONE_LEFT_OUT = LeftOut()


class Holdout:
    """The conversations of both groups, from their records.

    most: how many conversations are kept; those met later are not. None is all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._met: dict[str, _Conversation] = {}
        self._is_run = False

    def add(self, record: RequestRecord) -> None:
        """Count a request for an answer, if its conversation is masked or held out."""
        is_held_out = record.group == "holdout"
        is_compared = is_held_out or record.masking == "on"
        is_answer = record.purpose in (None, "answer") and record.passed_through is None
        if record.conversation_id is None or not (is_compared and is_answer):
            return
        digest = record.config_digest or ""
        found = self._met.get(record.conversation_id)
        if found is None:
            if len(self._met) == self._most:
                return
            found = self._met[record.conversation_id] = _Conversation(digest, is_held_out)
            self._is_run |= is_held_out
        # It belongs to the configuration that it began with. What it does after a change of that is
        # cut off, in both groups at the same moment.
        if found.config_digest != digest:
            return
        found.switched |= found.is_held_out != is_held_out
        if found.figures is None:
            if not _is_masked(record):
                return
            alike = digest, record.client, record.model
            time, tokens = _parse_time(record.time), record.request_tokens_before
            found.figures = Figures(is_held_out, alike, time, tokens)
        found.figures.add(record)

    def compare(self, now: datetime) -> "Verdict | None":
        """Return what both groups say at a time; None if there is no hold-out."""
        if not self._is_run:
            return None
        kept: list[Figures] = []
        unmasked = young = switched = 0
        for one in self._met.values():
            if one.switched:
                switched += 1
            elif one.figures is None:
                unmasked += 1
            elif one.figures.began is not None and now - one.figures.began < YOUNG:
                young += 1
            else:
                kept.append(one.figures)
        matched = _match(kept)
        left_out = LeftOut(unmasked, young, switched, len(kept) - len(matched))
        return judge(matched, left_out)


def _is_masked(record: RequestRecord) -> bool:
    """Whether masking changed a request, or would have; one that was refused for it, too."""
    changed = record.masked, record.redacted, record.reduced, record.dropped
    return any(changed) or record.resent is not None


def _parse_time(recorded: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(recorded)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _match(figures: Iterable[Figures]) -> list[Figures]:
    """Return the conversations that have one like them in the other group."""
    groups: dict[Alike, list[Figures]] = {}
    for one in figures:
        groups.setdefault(one.alike, []).append(one)
    both = (those for those in groups.values() if len({one.is_held_out for one in those}) > 1)
    return [one for those in both for one in those]


# By how much they differ, and how sure that is
#
# Counts and costs of conversations are about log-normal, so their logarithms are compared: by the
# coefficient of masking in a linear model that also has one for each kind of conversation
# (`Alike`), and one for how long the conversation was when masking began. That length explains a
# tenth to a third of how requests and costs vary, and masking has no part in it. A count that is
# often 0 is compared by log(1 + count). The variance is pooled, because without harm it is the same
# in both groups: one that is estimated from a few conversations held out, none of which had a
# failure, would be 0. A ratio of means and Welch's test were tried beside it and found harm where
# there is none up to five times as often as they should; a permutation test of the means hardly
# ever found any. `tests/tools/benchmarks/harm_verdict.py` has the figures of this one.
#
# A user looks every day. So the interval is not Student's, which is true at one look, but the one
# of Lindon, Ham, Tingley and Bojinov, Anytime-Valid Linear Models (2022, arXiv:2210.08589): with
# the stated probability the truth is in the intervals of all looks. It comes from a likelihood
# ratio, of effects drawn from a normal distribution to no effect.


CONFIDENCE = 0.95
"""The probability that all intervals of all measures hold at every look."""

LEAST = 10
"""With fewer conversations in a group there are no intervals.

Nor is there one of a count that is not 0 in fewer, of both groups.
"""

POWER = 0.8
"""How often a difference is found that is called one that would have been seen."""

_POWER_QUANTILE = 0.8416
"""The standard normal quantile of `POWER`."""

_PRECISION = 4.0
"""The inverse of the variance of the effects in the likelihood ratio, in residual variances.

It decides with how many conversations the interval is the tightest, not whether it is true: here
with about fifty held out of two hundred and fifty. The width changes little around that.
"""

SPREAD = 1.2
"""The standard deviation of the logarithm of the requests, where there are too few to measure it.

It was 1.0 to 1.6 in recorded conversations of several coding agents.
"""


class Measure(NamedTuple):
    """Something that masking may make worse by making it more.

    read: returns it of a conversation; None if it is not known.
    is_count: whether it may be 0, and the difference is a number; else it is a ratio.
    """

    name: str
    read: Callable[[Figures], float | None]
    is_count: bool = False


REQUESTS = Measure("requests", lambda figures: figures.requests)
REFUSALS = Measure("refused requests", lambda figures: figures.refusals, is_count=True)
FAILURES = Measure("failed requests", lambda figures: figures.failures, is_count=True)
REREADS = Measure("re-reads", lambda figures: figures.rereads, is_count=True)
OUTPUT = Measure("output tokens", lambda figures: figures.output_tokens)
DOLLARS = Measure("cost in dollars", lambda figures: figures.dollars)
INPUT_TOKENS = Measure("cost in input tokens", lambda figures: figures.input_tokens)

_COMPARED = 6
"""The measures that are compared at once; each has its share of the error that is allowed."""

_ERROR = (1 - CONFIDENCE) / _COMPARED


class Effect(NamedTuple):
    """A measure of the masked conversations beside that of those held out.

    masked, held_out: how many conversations have it.
    log_masked: the mean of its logarithm in the masked ones; with `is_count` of 1 more.
    log_difference: by how much that is more than in conversations held out that are alike, and
        were as long when masking began.
    standard_error: of the difference; 0 if all conversations are the same.
    critical: how many of them are beyond chance, at any look; infinite with too few conversations.
    """

    measure: Measure
    masked: int
    held_out: int
    log_masked: float
    log_difference: float
    standard_error: float
    critical: float

    @property
    def has_interval(self) -> bool:
        """Whether there are enough conversations, and not all of them are the same."""
        return self.standard_error > 0 and self.critical < inf

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """1 if the masked ones have certainly more, -1 if less, 0 if nobody can tell."""
        margin = self.critical * self.standard_error
        if not self.has_interval or abs(self.log_difference) <= margin:
            return 0
        return 1 if self.log_difference > 0 else -1

    @property
    def typical_masked(self) -> float:
        """The geometric mean of the masked conversations."""
        return self._unscale(self.log_masked)

    @property
    def typical_held_out(self) -> float:
        """That of conversations held out that are alike."""
        return self._unscale(self.log_masked - self.log_difference)

    @property
    def difference(self) -> float:
        """By how much the masked ones have more: a number for a count, or else a fraction."""
        return self._as_difference(self.log_difference)

    @property
    def low(self) -> float:
        """The least difference that agrees with the conversations."""
        low = self._as_difference(self.log_difference - self.critical * self.standard_error)
        # The masked ones cannot have fewer than none.
        return max(low, -self.typical_held_out) if self.measure.is_count else low

    @property
    def high(self) -> float:
        """The largest difference that agrees with them."""
        return self._as_difference(self.log_difference + self.critical * self.standard_error)

    @property
    def detectable(self) -> float:
        """The least rise that would be seen in four of five such comparisons, in the same unit."""
        return self._as_difference((self.critical + _POWER_QUANTILE) * self.standard_error)

    def _unscale(self, logarithm: float) -> float:
        return expm1(logarithm) if self.measure.is_count else exp(logarithm)

    def _as_difference(self, logarithm: float) -> float:
        if not self.measure.is_count:
            return expm1(logarithm)
        return exp(self.log_masked - self.log_difference) * expm1(logarithm)


_ROUNDING = 1e-12
"""What is left by rounding is less, in parts of what it is left of."""


def find_critical(size: float, freedom: int, error: float) -> float:
    """Return how many standard errors are beyond chance at any look; infinite if none are yet.

    size: the number of conversations a difference rests on: `1 / (1 / masked + 1 / held_out)`,
        summed over kinds of conversations, less what the length has in common with the side.
    freedom: the degrees of freedom of the residual variance.
    error: the probability that chance goes beyond it at any look.
    """
    # Where the likelihood ratio of the paper's t-statistic is 1 / error, solved for t:
    # shrink**.5 * ((1 + t²/freedom) / (1 + shrink * t²/freedom)) ** ((freedom + 1) / 2)
    shrink = _PRECISION / (_PRECISION + size)
    growth = exp(-log(error * error * shrink) / (freedom + 1))
    rest = 1 - growth * shrink
    return sqrt(freedom * (growth - 1) / rest) if rest > 0 else inf


def measure_effect(measure: Measure, table: Iterable[Figures]) -> Effect | None:
    """Return how a measure differs; None if no kind of conversation has it in both groups."""
    kinds: dict[Alike, list[tuple[bool, float | None, float]]] = {}
    for figures in table:
        value = measure.read(figures)
        if value is not None and (value > 0 or measure.is_count):
            scaled = log1p(value) if measure.is_count else log(value)
            length = log(figures.tokens_at_start) if figures.tokens_at_start else None
            row = (not figures.is_held_out, length, scaled)
            kinds.setdefault(figures.alike, []).append(row)
    compared = [rows for rows in kinds.values() if len({is_masked for is_masked, _, _ in rows}) > 1]
    if not compared:
        return None

    # Least squares: each column as what it differs by from its mean in the kind, which takes the
    # place of a coefficient of each kind. Where the length is not known it is taken for the mean.
    sides: list[float] = []
    lengths: list[float] = []
    values: list[float] = []
    for rows in compared:
        known = [length for _, length, _ in rows if length is not None] or [0.0]
        side_mean = sum(is_masked for is_masked, _, _ in rows) / len(rows)
        length_mean, value_mean = sum(known) / len(known), sum(row[2] for row in rows) / len(rows)
        for is_masked, length, value in rows:
            sides.append(is_masked - side_mean)
            lengths.append(0.0 if length is None else length - length_mean)
            values.append(value - value_mean)
    size, in_common, spread = _dot(sides, sides), _dot(sides, lengths), _dot(lengths, lengths)
    weighed, by_length, squares = _dot(sides, values), _dot(lengths, values), _dot(values, values)
    freedom = len(values) - len(compared) - 1
    explained = 0.0
    if spread * size - in_common**2 > _ROUNDING * max(1.0, spread) * size:
        # What the length explains is taken out of the other two columns.
        size -= in_common**2 / spread
        weighed -= in_common * by_length / spread
        explained = by_length**2 / spread
        freedom -= 1
    difference = weighed / size
    residual = squares - explained - size * difference**2

    of_masked = [value for rows in compared for is_masked, _, value in rows if is_masked]
    masked, held_out = len(of_masked), len(values) - len(of_masked)
    # What rounding leaves where all are the same is no spread.
    scale = sum(value**2 for rows in compared for _, _, value in rows)
    if residual <= max(_ROUNDING * squares, _ROUNDING**2 * scale):
        residual = 0.0
    is_enough = min(masked, held_out) >= LEAST and freedom > 0
    if measure.is_count:  # of what is rare, chance is not like a normal distribution
        is_enough &= sum(value > 0 for rows in compared for _, _, value in rows) >= LEAST
    return Effect(
        measure,
        masked,
        held_out,
        sum(of_masked) / masked,
        difference,
        sqrt(residual / max(freedom, 1) / size),
        find_critical(size, freedom, _ERROR) if is_enough else inf,
    )


def _dot(one: list[float], other: list[float]) -> float:
    return fsum(map(mul, one, other))


def measure_effects(table: Iterable[Figures]) -> list[Effect]:
    """Return how each measure differs.

    What they cost is in dollars if the price of all is known, or else in input tokens.
    """
    table = list(table)
    money = DOLLARS if all(one.dollars is not None for one in table) else INPUT_TOKENS
    measures = REQUESTS, REFUSALS, FAILURES, REREADS, OUTPUT, money
    return [effect for each in measures if (effect := measure_effect(each, table))]


# What a user should read


SEEN = 0.5
"""It can tell if it would have seen a rise in requests by so much."""


Kind = Literal["harm", "none seen", "cannot tell"]


class Verdict(NamedTuple):
    """What both groups say about harm.

    masked, held_out: how many conversations are compared.
    needed: how many held-out ones it takes, about, to see a rise in requests by half.
    """

    kind: Kind
    masked: int
    held_out: int
    effects: tuple[Effect, ...]
    needed: int
    left_out: LeftOut

    @property
    def requests(self) -> Effect | None:
        """The effect on requests; None with too few conversations for an interval."""
        return next(
            (each for each in self.effects if each.measure is REQUESTS and each.has_interval), None
        )


def judge(table: Iterable[Figures], left_out: LeftOut = _NONE_LEFT_OUT) -> Verdict:
    """Return what the figures of conversations say; each kind of them should be in both groups."""
    table = list(table)
    held_out = sum(one.is_held_out for one in table)
    masked = len(table) - held_out
    effects = tuple(measure_effects(table))
    verdict = Verdict("cannot tell", masked, held_out, effects, 0, left_out)
    requests = verdict.requests
    if any(each.direction > 0 for each in effects):
        kind: Kind = "harm"
    elif requests and requests.detectable <= SEEN:
        kind = "none seen"
    else:
        kind = "cannot tell"
    return verdict._replace(kind=kind, needed=count_needed(masked, held_out, requests))


_USUAL_SHARE, _USUAL_COUNT = 0.2, 10
"""The part of the conversations that is held out, and how many it takes to know better."""


def count_needed(
    masked: int, held_out: int, requests: Effect | None = None, rise: float = SEEN
) -> int:
    """Return how many conversations must be held out to see a rise in requests, mostly.

    They vary as those of `requests`, or by `SPREAD`; the groups keep their proportion.
    """
    share = (held_out + _USUAL_SHARE * _USUAL_COUNT) / (masked + held_out + _USUAL_COUNT)
    size_of_each = 1 - share  # what a conversation held out adds to the size of the comparison
    spread = SPREAD
    if requests is not None:
        kinds_cost = (requests.masked + requests.held_out) / requests.masked / requests.held_out
        spread = requests.standard_error / sqrt(kinds_cost)
    count = 2.0 * LEAST
    for _ in range(20):  # converges in a few steps, as the critical value hardly changes
        critical = find_critical(count * size_of_each, ceil(count / share), _ERROR)
        count = (spread * (critical + _POWER_QUANTILE) / log1p(rise)) ** 2 / size_of_each
        count = max(count, LEAST)
    return _round_up(count)


def _round_up(count: float) -> int:
    """Return a number that is not more exact than it can be: two digits that count."""
    unit = 10.0 ** max(0, floor(log10(count)) - 1)
    return int(ceil(count / unit) * unit)


_HARMS: Mapping[str, str] = {
    "requests": "took {} more requests ({})",
    "refused requests": "had {} more refused requests ({})",
    "failed requests": "had {} more failed requests ({})",
    "re-reads": "repeated {} more calls whose results were masked ({})",
    "output tokens": "wrote {} more output tokens ({})",
    "cost in dollars": "cost {} more ({})",
    "cost in input tokens": "cost {} more ({})",
}


def render_verdict(verdict: Verdict) -> str:
    """Return the verdict in a sentence, to follow `Harm:`."""
    held_out = f"{verdict.held_out:,} held-out conversation{'' if verdict.held_out == 1 else 's'}"
    if verdict.kind == "harm":
        harms = [_render_harm(each) for each in verdict.effects if each.direction > 0]
        return f"masked conversations {' and '.join(harms)}"
    requests = verdict.requests
    if requests is None:
        return (
            f"cannot tell yet: {held_out} so far; it takes about {verdict.needed:,} to see "
            "requests rise by half"
        )
    rise = _render_rise(requests.detectable)
    if verdict.kind == "none seen":
        return (
            f"none seen in {verdict.masked:,} masked and {held_out}; would have seen requests "
            f"rise {rise}"
        )
    return (
        f"cannot tell yet: {held_out} would only show requests rising {rise}; it takes about "
        f"{verdict.needed:,} to see them rise by half"
    )


def _render_harm(effect: Effect) -> str:
    """Return a certain rise: `took 18% more requests (5% to 34%)`."""
    numbers = effect.difference, effect.low, effect.high
    form = _render_number if effect.measure.is_count else _render_share
    rise, low, high = map(form, numbers)
    return _HARMS[effect.measure.name].format(rise, f"{low} to {high}")


def _render_share(share: float) -> str:
    return f"{round(100 * share):,}%"


def _render_number(number: float) -> str:
    return f"{number:,.2f}"


def _render_rise(share: float) -> str:
    """Return `by 44%`, `4.6-fold`."""
    return f"by {_render_share(share)}" if share < 1 else f"{1 + share:,.1f}-fold"


class ShownEffect(NamedTuple):
    """A measure in words."""

    name: str
    masked: str
    held_out: str
    difference: str


def describe_effects(verdict: Verdict) -> list[ShownEffect]:
    """Return each measure in words."""
    return [
        ShownEffect(
            each.measure.name,
            _render_typical(each.measure, each.typical_masked),
            _render_typical(each.measure, each.typical_held_out),
            _render_interval(each),
        )
        for each in verdict.effects
    ]


def _render_typical(measure: Measure, amount: float) -> str:
    if measure is DOLLARS:
        return render_dollars(amount)
    if measure.is_count:
        return _render_number(max(0.0, amount))
    return f"{amount:,.1f}" if amount < 100 else f"{amount:,.0f}"


def _render_interval(effect: Effect) -> str:
    """Return the difference: `+18% (+5% to +34%), more than chance`."""
    if effect.measure.is_count and not (effect.typical_masked or effect.typical_held_out):
        return "none in either"
    if not effect.has_interval:
        return "too few to tell"
    numbers = effect.difference, effect.low, effect.high
    if effect.measure.is_count:
        shown = [f"{number:+,.2f}" for number in numbers]
    else:
        shown = [f"{round(100 * number):+,}%" for number in numbers]
    certain = ", more than chance" if effect.direction else ""
    return f"{shown[0]} ({shown[1]} to {shown[2]}){certain}"


NOTE = (
    "a typical conversation (geometric mean), from where masking began or would have; "
    f"{CONFIDENCE:.0%} sure, for all ranges together and however often you look"
)

_WHY_LEFT_OUT: Mapping[str, str] = {
    "unmasked": "with nothing to mask",
    "young": "in which masking began within the last hour",
    "switched": "that switched sides",
    "unmatched": "whose configuration, client and model only one group has",
}


def render_left_out(left_out: LeftOut) -> str:
    """Return how many conversations are not compared, and why; empty if none."""
    counts = [
        f"{count:,} {_WHY_LEFT_OUT[name]}" for name, count in left_out._asdict().items() if count
    ]
    return f"not compared: {', '.join(counts)}" if counts else ""


def list_harm(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict, what it rests on, and what is not compared, line by line."""
    yield render_verdict(verdict)
    if verdict.requests is not None:
        for name, masked, held_out, difference in describe_effects(verdict):
            yield f"{name}: {masked} masked, {held_out} held out: {difference}"
        yield NOTE
    if left_out := render_left_out(verdict.left_out):
        yield left_out


def dump_harm(verdict: Verdict) -> Mapping[str, object]:
    """Return every figure, for JSON. An infinite or unknown one is null."""
    requests = verdict.requests
    return {
        "verdict": verdict.kind.replace(" ", "_"),
        "sentence": render_verdict(verdict),
        "confidence": CONFIDENCE,
        "masked_conversations": verdict.masked,
        "held_out_conversations": verdict.held_out,
        "held_out_conversations_needed_to_see_half_more_requests": verdict.needed,
        "detectable_rise_in_requests": requests and requests.detectable,
        "conversations_left_out": verdict.left_out._asdict(),
        "measures": {
            each.measure.name.replace("-", "").replace(" ", "_"): _dump_effect(each)
            for each in verdict.effects
        },
    }


def _dump_effect(effect: Effect) -> Mapping[str, object]:
    known = effect.has_interval
    return {
        "masked_conversations": effect.masked,
        "held_out_conversations": effect.held_out,
        "masked_typical": effect.typical_masked,
        "held_out_typical": effect.typical_held_out,
        "difference_is": "number" if effect.measure.is_count else "fraction",
        "difference": effect.difference,
        "low": effect.low if known else None,
        "high": effect.high if known else None,
        "detectable_rise": effect.detectable if known else None,
        "is_more_than_chance": effect.direction != 0 if known else None,
    }
