"""What the sessions of logs cost, and what they would have cost: sums, by agent, model and length.

Sums can be added, and no session is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import NamedTuple

from addon.replay.logs.session import Account, CostOnly
from addon.replay.totals import Totals
from masking.accounting import NO_BILL, Bill


class LoggedSession(NamedTuple):
    """A session of a log that was replayed.

    turns: its tool turns, at most, in one request.
    began: when the first request that counts was sent.
    models: the totals of each model's requests.
    cost_only: why nothing is said of the saving; the totals then have it all the same.
    difference: by how much what was rebuilt differs from what was reported, as a part of that.
    is_counted: whether a provider counted any of its requests; else all amounts are estimates.
    accounts: the totals under each kind of account, where what may be masked depends on that.
    unread: kinds of entries that were not understood.
    """

    agent: str
    project: str | None
    began: datetime
    turns: int
    is_side: bool
    models: Mapping[str | None, Totals]
    cost_only: CostOnly | None = None
    difference: float | None = None
    is_counted: bool = True
    accounts: Mapping[Account, Totals] = {}
    unread: frozenset[str] = frozenset()


@dataclass(slots=True)
class Group:
    """Sessions that have something in common.

    bound, held: as in `Totals`.
    """

    sessions: int = 0
    bill: Bill = NO_BILL
    bound: int = 0
    held: int = 0

    def add(self, bill: Bill, bound: int = 0, held: int = 0) -> None:
        """Add a session."""
        self.sessions += 1
        self.bill += bill
        self.bound += bound
        self.held += held


LENGTHS = (10, 30, 100)
"""Sessions are told apart by whether they have more tool turns than these."""

_DEVIATIONS = 2
"""Standard errors on either side of an estimate: 19 of 20 are within."""


@dataclass(slots=True)
class LogAnswer:
    """What sessions of logs cost and would have cost, as far as they were replayed.

    sessions, bill: how many they are, and theirs; without those that were masked or shortened
        already: what they would have cost is not in their logs. They are in `cost_only` alone.
    by_model: by agent and model; a session counts for each of its models.
    by_length: by the number of lengths that a session is longer than.
    cost_only: the sessions that count for their cost alone, by reason.
    hidden: sums over the sessions that count for both, such as masked results and re-reads.
    accounts: what would have been saved by each kind of account, of the sessions in which that
        matters.
    uncounted: how many sessions no provider counted.
    bound: in how many sessions a result stayed because reasoning is bound to it.
    unread: in how many sessions entries of a kind were not understood.
    """

    sessions: int = 0
    bill: Bill = NO_BILL
    by_model: dict[tuple[str, str | None], Group] = field(default_factory=dict)
    by_length: dict[int, Group] = field(default_factory=dict)
    cost_only: dict[CostOnly, Group] = field(default_factory=dict)
    accounts: dict[Account, Group] = field(default_factory=dict)
    hidden: Totals = field(default_factory=Totals)
    uncounted: int = 0
    bound: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    _squares: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, session: LoggedSession) -> None:
        """Add a session."""
        is_known = session.cost_only is None
        whole = NO_BILL
        for model, totals in session.models.items():
            bill = totals.bill if is_known else totals.bill.without_saving()
            whole += bill
            if session.cost_only == "shortened":
                continue
            group = self.by_model.setdefault((session.agent, model), Group())
            group.add(bill, totals.bound, totals.held)
            if is_known:
                self.hidden += totals
        self.unread.update(session.unread)
        if session.cost_only is not None:
            self.cost_only.setdefault(session.cost_only, Group()).add(whole)
        if session.cost_only == "shortened":
            return
        self.sessions += 1
        self.uncounted += not session.is_counted
        self.bound += any(totals.bound for totals in session.models.values())
        self.bill += whole
        length = sum(session.turns > each for each in LENGTHS)
        self.by_length.setdefault(length, Group()).add(whole)
        for account, totals in session.accounts.items() if is_known else ():
            self.accounts.setdefault(account, Group()).add(totals.bill)
        cost, saved = whole.dollars.before, whole.dollars.saved
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
        n, cost = self.sessions, self.bill.dollars.before
        if n >= sessions or not cost:
            return 0.0
        if n < 2:
            return 1.0
        ratio = self.bill.dollars.saved / cost
        saved, both, squares = self._squares
        left = max(0.0, saved - 2 * ratio * both + ratio * ratio * squares)
        variance = (1 - n / sessions) * n * left / (n - 1) / (cost * cost)
        return _DEVIATIONS * sqrt(variance)

    def list_models(self) -> Sequence[tuple[str, str | None, Group]]:
        """Return the sums by agent and model, the most expensive first."""
        rows = [(agent, model, group) for (agent, model), group in self.by_model.items()]
        return sorted(
            rows, key=lambda row: (-row[2].bill.dollars.before, -row[2].bill.unpriced.before)
        )

    def find_best_agent(self) -> str | None:
        """Return the agent with which most would have been saved; None if nothing was."""
        saved: defaultdict[str, float] = defaultdict(float)
        for (agent, _), group in self.by_model.items():
            dollars, unpriced = group.bill.dollars, group.bill.unpriced
            saved[agent] += dollars.saved if group.bill.is_in_dollars else unpriced.saved * 1e-9
        best = max(saved, key=saved.__getitem__, default=None)
        return best if best is not None and saved[best] > 0 else None
