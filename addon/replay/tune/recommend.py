"""Which settings to use, of a grid of settings that are tried on recorded sessions.

Of the settings that keep the promise, the front are those that no other beats in both cost and
affected calls (re-reads and quotes). To choose among them, each affected call is counted as one
more request, at the average cost of a request when everything is sent. No window is chosen that is
too short for recordings to show what it costs (see `LEAST_WINDOW`).

Of the settings within a hundredth of the cheapest, the present ones are kept; else the shipped ones
are taken; else those that differ least from the present ones. Whether errors are kept is not
changed: no affected call shows what an agent learns from them.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, product
from typing import NamedTuple

from addon.replay.replay import ReplaySettings, Session
from addon.replay.reread import Rereads
from addon.replay.session_index import SessionIndex, index_session
from addon.replay.tune.fast_replay import BilledRequest, BilledSession, FastReplay
from masking.accounting import AS_MUCH, worst_bill
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy

# What is tried

LEAST_WINDOW = 5
"""The shortest window that is recommended. A recording made without masking shows which calls refer
to what would have been masked. It does not show what an agent would have missed without asking for
it again, and that matters more the shorter the window is."""


class Tuning(NamedTuple):
    """The settings of a policy that are tuned, under their names in the configuration.

    `max_loss` is None if the window slides at every turn, whatever that does to a prompt cache.
    """

    enabled: bool
    window_turns: int
    keep_errors: bool
    keep_last_k_per_tool: int
    min_chars: int
    max_loss: float | None
    keep_latest_turns: int = 0

    @property
    def is_window_long_enough(self) -> bool:
        """Whether the window is long enough for recordings to show what it costs an agent."""
        return not self.enabled or not 0 < self.window_turns < LEAST_WINDOW

    def apply(self, settings: ReplaySettings) -> ReplaySettings:
        """Return the settings with these values in them.

        If the settings let the window slide and these values do not, the prices of the price list
        decide where the boundary is.
        """
        price_settings = settings.price_settings
        if price_settings.cache_pricing == "none":
            price_settings = dataclasses.replace(price_settings, cache_pricing="auto")
        kept = settings.policy.max_loss if self.max_loss is None else self.max_loss
        policy = dataclasses.replace(settings.policy, **{**self._asdict(), "max_loss": kept})
        return dataclasses.replace(
            settings,
            strategies=dataclasses.replace(settings.strategies, schema1=policy),
            price_settings=price_settings,
            slides=self.max_loss is None,
        )

    def count_changes(self, other: "Tuning") -> int:
        """Return the number of settings in which it differs from another."""
        return sum(mine != its for mine, its in zip(self, other, strict=True))


def tuning_of(settings: ReplaySettings) -> Tuning:
    """Return the tuned values of settings."""
    policy, slides = settings.policy, settings.boundary_slides
    return Tuning(
        enabled=policy.enabled,
        window_turns=policy.window_turns,
        keep_errors=policy.keep_errors,
        keep_last_k_per_tool=max(0, policy.keep_last_k_per_tool or 0),
        min_chars=policy.min_chars,
        max_loss=None if slides else policy.max_loss,
        keep_latest_turns=max(0, policy.keep_latest_turns),
    )


DEFAULTS = tuning_of(ReplaySettings(strategies=Strategies(schema1=MaskPolicy(enabled=True))))
"""The shipped values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The values to try for each setting, in every combination.

    Keeping the last K of each tool is not tried: keeping the latest of each target costs as much
    and loses less.
    """

    window_turns: tuple[int, ...] = (LEAST_WINDOW, 6, 8, 12, 16, 20, 24)
    keep_errors: tuple[bool, ...] = (True, False)
    keep_last_k_per_tool: tuple[int, ...] = (0,)
    min_chars: tuple[int, ...] = (0, 500, 2_000)
    max_loss: tuple[float | None, ...] = (0.05, 0.1, 0.2, None)
    keep_latest_turns: tuple[int, ...] = (0, 24, 40)

    def combine(self) -> Iterator[Tuning]:
        """Yield the combinations."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (Tuning(True, *combination) for combination in product(*values))


def list_tunings(present: Tuning, grid: Grid) -> tuple[Tuning, ...]:
    """Return what to try, without duplicates: the present settings, masking off, and the grid."""
    return tuple(dict.fromkeys([present, switch_off(present), *grid.combine()]))


def switch_off(tuning: Tuning) -> Tuning:
    """Return the settings with masking off: everything is sent."""
    return tuning._replace(enabled=False)


# What it yields


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Sums over requests, except for `worst`.

    assumed: the requests whose prices were assumed.
    cost: in input-token equivalents.
    dollars: None if a price is not known.
    moves: the requests that masked a result which was not masked before.
    worst: the highest bill of any conversation at any of its requests, relative to that of sending
        everything.
    rereads, left_out: calls that refer to what is masked, and to what is left out at arrival.
    shortened, left_out_chars: the results that are shortened, and what is left out of them.
    """

    requests: int = 0
    assumed: int = 0
    tokens: int = 0
    cost: float = 0.0
    dollars: float | None = 0.0
    moves: int = 0
    worst: float = 0.0
    rereads: Rereads = field(default_factory=Rereads)
    left_out: Rereads = field(default_factory=Rereads)
    shortened: int = 0
    left_out_chars: int = 0

    def __add__(self, other: "Outcome") -> "Outcome":
        """Return the outcome of two groups of sessions together."""
        known = self.dollars is not None and other.dollars is not None
        return Outcome(
            requests=self.requests + other.requests,
            assumed=self.assumed + other.assumed,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            moves=self.moves + other.moves,
            worst=max(self.worst, other.worst),
            rereads=self.rereads + other.rereads,
            left_out=self.left_out + other.left_out,
            shortened=self.shortened + other.shortened,
            left_out_chars=self.left_out_chars + other.left_out_chars,
        )


def sum_up(billed: BilledSession, plain: Sequence[BilledRequest], index: SessionIndex) -> Outcome:
    """Return what a policy yields on a session; `plain` are the requests with everything sent."""
    requests = billed.requests
    worst_bills = (
        worst_bill((requests[at].cost for at in own), (plain[at].cost for at in own))
        for own in index.conversations
    )
    known = [request.dollars for request in requests if request.dollars is not None]
    return Outcome(
        requests=len(requests),
        assumed=sum(len(s.requests) for s in index.segments if s.pricing.source == "assumed"),
        tokens=sum(request.tokens for request in requests),
        cost=sum(request.cost for request in requests),
        dollars=sum(known) if len(known) == len(requests) else None,
        moves=sum(request.moved for request in requests),
        worst=max(((bill or AS_MUCH).part for bill in worst_bills), default=0.0),
        rereads=billed.rereads,
        left_out=billed.left_out,
        shortened=len(billed.shortened),
        left_out_chars=sum(billed.shortened.values()),
    )


# What is chosen

_AS_GOOD = 1.01
"""Costs that differ by a smaller factor are taken as equal."""

_MARGIN = 0.02
"""How far a loss may exceed the promise: the boundary's rule works with estimated tokens, and does
not know a cache's minimum and blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Settings that were tried; the present ones and `off` (everything is sent) are among them.

    Costs are in US dollars if every request's price is known, else in input-token equivalents. To
    keep the promise, no conversation's bill may at any request exceed `1 + promise` times that of
    sending everything by more than 0.02. That is measured, whatever `max_loss` the settings have.
    """

    outcomes: Mapping[Tuning, Outcome]
    present: Tuning
    promise: float

    @property
    def off(self) -> Tuning:
        """The settings that send everything."""
        return switch_off(self.present)

    @property
    def in_dollars(self) -> bool:
        """Whether costs are in dollars."""
        return all(outcome.dollars is not None for outcome in self.outcomes.values())

    @property
    def costs(self) -> dict[Tuning, float]:
        """What each of the settings cost."""
        dollars = {t: o.dollars for t, o in self.outcomes.items() if o.dollars is not None}
        return dollars if self.in_dollars else {t: o.cost for t, o in self.outcomes.items()}

    @property
    def costs_with_rereads(self) -> dict[Tuning, float]:
        """The costs with each affected call as one more request, at the cost of one unmasked."""
        costs = self.costs
        each = costs[self.off] / max(1, self.outcomes[self.off].requests)
        return {t: cost + self.outcomes[t].rereads.affected * each for t, cost in costs.items()}

    @property
    def kept(self) -> list[Tuning]:
        """The settings that kept the promise."""
        return [tuning for tuning in self.outcomes if self.keeps_promise(tuning)]

    def keeps_promise(self, tuning: Tuning) -> bool:
        """Whether no conversation's bill ever exceeded what the promise allows."""
        return self.outcomes[tuning].worst <= 1 + self.promise + _MARGIN


def pareto_front(sweep: Sweep) -> list[Tuning]:
    """Return the front, the cheapest first.

    Settings are left out that are at most a hundredth cheaper than others with fewer affected
    calls.
    """
    costs = sweep.costs

    def order(tuning: Tuning) -> tuple[int, float, int]:
        affected = sweep.outcomes[tuning].rereads.affected
        return affected, costs[tuning], tuning.count_changes(sweep.present)

    front: list[Tuning] = []
    least = math.inf
    for tuning in sorted(sweep.kept, key=order):
        if costs[tuning] * _AS_GOOD < least:
            least = costs[tuning]
            front.append(tuning)
    return front[::-1]


def recommend(sweep: Sweep) -> Tuning:
    """Return the settings to use; masking off is always one of the choices."""
    present, costs = sweep.present, sweep.costs_with_rereads
    alike = (t for t in sweep.kept if t.keep_errors == present.keep_errors)
    open_to_choice = [tuning for tuning in alike if tuning.is_window_long_enough]
    limit = _AS_GOOD * min(costs[tuning] for tuning in open_to_choice)
    return min(
        (tuning for tuning in open_to_choice if costs[tuning] <= limit),
        key=lambda t: (t != present, t != DEFAULTS, t.count_changes(present), costs[t]),
    )


# At arrival


def switch_arrival(settings: ReplaySettings, *, enabled: bool) -> ReplaySettings:
    """Return the settings with shortening at arrival on or off."""
    strategies = settings.strategies
    arrival = dataclasses.replace(strategies.arrival, enabled=enabled)
    return dataclasses.replace(
        settings, strategies=dataclasses.replace(strategies, arrival=arrival)
    )


# On many sessions

Batch = tuple[Tuning, ...]
"""The settings of one task, which tries them on one session: it is decoded once for all of them."""


def split_into_batches(tunings: Sequence[Tuning], parts: int) -> list[Batch]:
    """Return the settings in so many batches, of which each takes about as long."""
    return [tuple(tunings[part::parts]) for part in range(parts)]


def try_tunings(
    session: Session, settings: ReplaySettings, tunings: Iterable[Tuning]
) -> list[Outcome]:
    """Return what each tuning yields on a session; `settings` has everything that is not tuned."""
    counter = TokenCounter()
    index = index_session(session, settings, counter)
    fast_replay = FastReplay(index, counter)
    return [
        sum_up(fast_replay.replay(tuning.apply(settings)), fast_replay.plain, index)
        for tuning in tunings
    ]


def add_outcomes(
    tunings: Sequence[Tuning], batches: Sequence[Batch], found: Iterable[Sequence[Outcome]]
) -> dict[Tuning, Outcome]:
    """Return what each tuning yields on all sessions together.

    `found` has the outcomes of the first session, batch by batch, then those of the next one. That
    order makes the sums the same, whichever process did the work.
    """
    sums = {tuning: Outcome() for tuning in tunings}
    for batch, outcomes in zip(cycle(batches), found, strict=False):
        for tuning, outcome in zip(batch, outcomes, strict=True):
            sums[tuning] += outcome
    return sums
