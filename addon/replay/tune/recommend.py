"""Which settings to use, of many that were tried.

Of the settings that keep the promise, the front are those that no other beats in both cost and
affected calls (re-reads and quotes). To choose among them, each affected call is counted as one
more request, at the average cost of a request when everything is sent. No window is chosen that is
too short for recordings to show what it costs (see `addon.replay.tune.grid`).

Of the settings within a hundredth of the cheapest, the present ones are kept; else the shipped ones
are taken; else those that differ least from the present ones. Whether errors are kept is not
changed: no affected call shows what an agent learns from them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from addon.replay.tune.grid import DEFAULTS, Tuning, switch_off
from addon.replay.tune.outcome import Outcome

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


def find_pareto_front(sweep: Sweep) -> list[Tuning]:
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
    present, reckoned = sweep.present, sweep.costs_with_rereads
    alike = (t for t in sweep.kept if t.keep_errors == present.keep_errors)
    open_to_choice = [tuning for tuning in alike if tuning.is_window_long_enough]
    limit = _AS_GOOD * min(reckoned[tuning] for tuning in open_to_choice)
    return min(
        (tuning for tuning in open_to_choice if reckoned[tuning] <= limit),
        key=lambda t: (t != present, t != DEFAULTS, t.count_changes(present), reckoned[t]),
    )
