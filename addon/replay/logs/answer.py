"""What the sessions of logs cost, and what they would have cost: sums, by agent, model and length.

Sums can be added, and no session is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import sqrt
from typing import NamedTuple

from addon.replay.logs.session import Account, CostOnly
from addon.replay.totals import ArrivalSummary, Totals, split_saving
from masking.accounting import NO_MARGIN, Margin


class LoggedSession(NamedTuple):
    """A session of a log that was replayed.

    turns: its tool turns, at most, in one request.
    began: when the first request that counts was sent.
    models: the totals of each model's requests.
    cost_only: why nothing is said of the saving; the totals then have it all the same.
    difference: by how much what was rebuilt differs from what was reported, as a part of that.
    is_counted: whether a provider counted any of its requests; else all amounts are estimates.
    is_bound: whether a result stayed because reasoning is bound to it.
    accounts: the totals under each kind of account, where what may be masked depends on that.
    unread: kinds of entries that were not understood.
    """

    agent: str
    name: str
    project: str | None
    began: datetime
    turns: int
    is_side: bool
    models: Mapping[str | None, Totals]
    cost_only: CostOnly | None = None
    difference: float | None = None
    is_counted: bool = True
    is_bound: bool = False
    accounts: Mapping[Account, Totals] = {}
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What requests cost, and what they would have; in dollars where the price is known.

    before: their cost. saved: what masking would have saved of it; `margin` is how far that may be
        off.
    arrival_saved: the part of `saved` that is by shortening long results when they arrived.
    answers: the price of the answers, which is in no other sum.
    unpriced, unpriced_saved: the same of requests without a price, in input tokens that cost as
        much.
    unpriced_requests, unpriced_answers: how many requests these are, and how many answers have no
        price.
    unknown_requests: how many requests `saved` says nothing of.
    """

    requests: int = 0
    before: float = 0.0
    saved: float = 0.0
    margin: Margin = NO_MARGIN
    arrival_saved: float = 0.0
    arrival_margin: Margin = NO_MARGIN
    answers: float = 0.0
    unpriced: float = 0.0
    unpriced_saved: float = 0.0
    unpriced_margin: Margin = NO_MARGIN
    unpriced_arrival_saved: float = 0.0
    unpriced_arrival_margin: Margin = NO_MARGIN
    unpriced_requests: int = 0
    unpriced_answers: int = 0
    unknown_requests: int = 0

    def __add__(self, other: "Money") -> "Money":
        """Return both together."""
        return Money(
            requests=self.requests + other.requests,
            before=self.before + other.before,
            saved=self.saved + other.saved,
            margin=self.margin + other.margin,
            arrival_saved=self.arrival_saved + other.arrival_saved,
            arrival_margin=self.arrival_margin + other.arrival_margin,
            answers=self.answers + other.answers,
            unpriced=self.unpriced + other.unpriced,
            unpriced_saved=self.unpriced_saved + other.unpriced_saved,
            unpriced_margin=self.unpriced_margin + other.unpriced_margin,
            unpriced_arrival_saved=self.unpriced_arrival_saved + other.unpriced_arrival_saved,
            unpriced_arrival_margin=self.unpriced_arrival_margin + other.unpriced_arrival_margin,
            unpriced_requests=self.unpriced_requests + other.unpriced_requests,
            unpriced_answers=self.unpriced_answers + other.unpriced_answers,
            unknown_requests=self.unknown_requests + other.unknown_requests,
        )

    @property
    def is_priced(self) -> bool:
        """Whether there is an amount in dollars, or nothing at all."""
        return self.unpriced_requests < self.requests or not self.requests

    @property
    def is_saving_known(self) -> bool:
        """Whether there is a saving to speak of, be it none."""
        return self.unknown_requests < self.requests or not self.requests

    @property
    def after(self) -> float:
        """What they would have cost."""
        return self.before - self.saved


def measure_money(totals: Totals, *, is_saving_known: bool = True) -> Money:
    """Return the money in totals of one model; without a saving where that is not known."""
    before, after, arrival = totals.before, totals.after, totals.arrival
    part = 1 if is_saving_known else 0
    money = Money(
        requests=totals.requests,
        answers=totals.answer_dollars,
        unpriced_answers=totals.requests - totals.priced_answers,
        unknown_requests=0 if is_saving_known else totals.requests,
    )
    if before.dollars is None or after.dollars is None:
        return replace(
            money,
            unpriced=before.cost,
            unpriced_saved=part * (before.cost - after.cost),
            unpriced_margin=totals.margin.scale(part),
            unpriced_arrival_saved=part * arrival.cost,
            unpriced_arrival_margin=arrival.margin.scale(part),
            unpriced_requests=totals.requests,
        )
    return replace(
        money,
        before=before.dollars,
        saved=part * (before.dollars - after.dollars),
        margin=totals.dollar_margin.scale(part),
        arrival_saved=part * (arrival.dollars or 0.0),
        arrival_margin=arrival.dollar_margin.scale(part),
    )


@dataclass(slots=True)
class Group:
    """Sessions that have something in common."""

    sessions: int = 0
    money: Money = field(default_factory=Money)

    def add(self, money: Money) -> None:
        """Add a session."""
        self.sessions += 1
        self.money += money


LENGTHS = (10, 30, 100)
"""Sessions are told apart by whether they have more tool turns than these."""

_DEVIATIONS = 2
"""Standard errors on either side of an estimate: 19 of 20 are within."""


@dataclass(slots=True)
class LogAnswer:
    """What sessions of logs cost and would have cost, as far as they were replayed.

    sessions: how many they are, without those that were masked or shortened already: what they
        would have cost is not in their logs. They are in `cost_only` alone.
    by_model: by agent and model; a session counts for each of its models.
    by_length: by the number of lengths that a session is longer than.
    cost_only: the sessions that count for their cost alone, by reason.
    hidden: sums over the sessions that count for both, such as masked results and re-reads.
    accounts: what would have been saved by each kind of account, of the sessions in which that
        matters.
    uncounted: how many sessions no provider counted.
    bound: in how many sessions a result stayed because reasoning is bound to it.
    unread: in how many sessions entries of a kind were not understood.
    borrowed: requests whose prices in dollars are somebody else's, by whose they are.
    standard: requests that are priced as if they were standard ones, by their tier of service.
    """

    sessions: int = 0
    total: Money = field(default_factory=Money)
    by_model: dict[tuple[str, str | None], Group] = field(default_factory=dict)
    by_length: dict[int, Group] = field(default_factory=dict)
    cost_only: dict[CostOnly, Group] = field(default_factory=dict)
    accounts: dict[Account, Group] = field(default_factory=dict)
    hidden: Totals = field(default_factory=Totals)
    uncounted: int = 0
    bound: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    borrowed: Counter[str] = field(default_factory=Counter)
    standard: Counter[str] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None
    _squares: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, session: LoggedSession) -> None:
        """Add a session."""
        is_known = session.cost_only is None
        whole = Money()
        for model, totals in session.models.items():
            money = measure_money(totals, is_saving_known=is_known)
            whole += money
            if session.cost_only == "shortened":
                continue
            self.by_model.setdefault((session.agent, model), Group()).add(money)
            for price, requests in totals.prices:
                if price.borrowed_from is not None:
                    self.borrowed[price.borrowed_from] += requests
                if price.standard_for is not None:
                    self.standard[price.standard_for] += requests
            if is_known:
                self.hidden += totals
        self.unread.update(session.unread)
        self.first = min(filter(None, (self.first, session.began)))
        self.last = max(filter(None, (self.last, session.began)))
        if session.cost_only is not None:
            self.cost_only.setdefault(session.cost_only, Group()).add(whole)
        if session.cost_only == "shortened":
            return
        self.sessions += 1
        self.uncounted += not session.is_counted
        self.bound += session.is_bound
        self.total += whole
        length = sum(session.turns > each for each in LENGTHS)
        self.by_length.setdefault(length, Group()).add(whole)
        for account, totals in session.accounts.items() if is_known else ():
            self.accounts.setdefault(account, Group()).add(measure_money(totals))
        cost, saved = whole.before, whole.saved
        self._squares = (
            self._squares[0] + saved * saved,
            self._squares[1] + saved * cost,
            self._squares[2] + cost * cost,
        )

    def sampling_error(self, sessions: int) -> float:
        """Return how far the part that is saved may be off because only some sessions were seen.

        sessions: how many there are in all. The estimate is a ratio of two sums, so its variance is
        that of what each session saved beside what it should have at that ratio (W. G. Cochran,
        "Sampling Techniques", 2.11). The sessions seen are the newest, not drawn by chance.
        """
        n, cost = self.sessions, self.total.before
        if n >= sessions or not cost:
            return 0.0
        if n < 2:
            return 1.0
        ratio = self.total.saved / cost
        saved, both, squares = self._squares
        left = max(0.0, saved - 2 * ratio * both + ratio * ratio * squares)
        variance = (1 - n / sessions) * n * left / (n - 1) / (cost * cost)
        return _DEVIATIONS * sqrt(variance)

    def list_models(self) -> Sequence[tuple[str, str | None, Group]]:
        """Return the sums by agent and model, the most expensive first."""
        rows = [(agent, model, group) for (agent, model), group in self.by_model.items()]
        return sorted(rows, key=lambda row: (-row[2].money.before, -row[2].money.unpriced))

    def summarize_arrival(self) -> ArrivalSummary | None:
        """Return what was left out at arrival, in the unit that is shown; None if nothing was."""
        arrival, money = self.hidden.arrival, self.total
        if not arrival.results:
            return None
        if money.is_priced:
            saved, margin = money.arrival_saved, money.arrival_margin
            return split_saving(arrival, money.saved, money.margin, saved, margin)
        saved, margin = money.unpriced_arrival_saved, money.unpriced_arrival_margin
        both = money.unpriced_saved, money.unpriced_margin
        return split_saving(arrival, *both, saved, margin)

    def find_best_agent(self) -> str | None:
        """Return the agent with which most would have been saved; None if nothing was."""
        saved: defaultdict[str, float] = defaultdict(float)
        for (agent, _), group in self.by_model.items():
            money = group.money
            saved[agent] += money.saved if money.is_priced else money.unpriced_saved * 1e-9
        best = max(saved, key=saved.__getitem__, default=None)
        return best if best is not None and saved[best] > 0 else None
