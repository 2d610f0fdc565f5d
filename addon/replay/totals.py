"""Sessions under three policies (everything sent, a sliding window, the chosen), and their sums.

Sums can be added, and no request is kept. Sums of money are in both units: it takes all
conversations to know whether every price is known.
"""

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from addon.records.words import Currency, find_common_currency
from addon.replay.references import SessionReferences
from addon.replay.replay import ReplayedRequest, ReplaySettings, Session, replay_side_by_side
from addon.replay.reread import (
    NEVER,
    NO_REREADS,
    Reference,
    Rereads,
    count_left_out,
    count_rereads,
)
from masking.accounting import NO_BILL, Bill
from masking.model import CHANGES
from masking.prices import Source
from masking.tokens import TokenCounter

# Three policies


class ComparedRequest(NamedTuple):
    """A request with the window sliding and under the chosen policy, and what its calls refer to.

    Both have the bill of sending everything, as the bill before masking. `left_out_rereads` are the
    calls that refer to what the chosen policy left out at arrival, `*_rereads` the others.
    """

    sliding: ReplayedRequest
    chosen: ReplayedRequest
    sliding_rereads: Rereads = NO_REREADS
    chosen_rereads: Rereads = NO_REREADS
    left_out_rereads: Rereads = NO_REREADS

    @property
    def conversation(self) -> int:
        """The number of its conversation, which is unique in a session."""
        return self.chosen.entry.conversation


def name_conversations(name: str, numbers: Collection[int]) -> dict[int, str]:
    """Return the names of a session's conversations: the session's, numbered if it has several."""
    return {number: f"{name} #{number}" if len(numbers) > 1 else name for number in numbers}


def compare_requests(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
    *,
    with_sliding: bool = True,
    with_roads: bool = False,
    references: SessionReferences | None = None,
) -> Iterator[ComparedRequest]:
    """Replay a session; yield its requests in order.

    Without the sliding window, which takes as long as the chosen policy, that stands in its place.
    The other roads are those beside the chosen policy.
    The session is read once more to find its references, unless they are given.
    """
    by_request = (references or SessionReferences(session)).find(settings)
    policies = (settings, replace(settings, slides=True)) if with_sliding else (settings,)
    for chose, *others in replay_side_by_side(
        session, policies, counter, passed_over, with_roads=with_roads
    ):
        slid = others[0] if others else chose
        found = by_request.get(chose.number, ())
        rereads = _count(found, chose)
        yield ComparedRequest(
            slid,
            chose,
            rereads if slid is chose else _count(found, slid),
            rereads,
            _count_left_out(found, chose),
        )


def _count(references: Sequence[Reference], request: ReplayedRequest) -> Rereads:
    """Return the calls that refer to what their request no longer showed.

    Each request is looked at, because some strategies show a result again that they had replaced.
    """
    if not references:
        return NO_REREADS
    return count_rereads(references, _first_masked(request), request.left_out)


def _count_left_out(references: Sequence[Reference], request: ReplayedRequest) -> Rereads:
    """Return the calls that refer to what was left out of their request at arrival."""
    if not references or not request.left_out:
        return NO_REREADS
    return count_left_out(references, _first_masked(request), request.left_out)


def _first_masked(request: ReplayedRequest) -> Sequence[int]:
    return [0 if reason in CHANGES else NEVER for reason in request.reasons]


# Sums


class BilledPrice(NamedTuple):
    """What requests of a model were billed at.

    entry, borrowed_from, standard_for: as in `Pricing`; the entry by its name.
    """

    model: str | None
    read: float
    write: float
    source: Source
    entry: str | None
    borrowed_from: str | None = None
    standard_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTotals:
    """What shortening long results when they arrived did to some requests; bills say what it saved.

    results, chars: the results that were shortened, and what was left out of them; each counts
        once in its conversation.
    tokens: what was left out of the prompts; at each request.
    rereads: the calls that refer to what was left out.
    """

    results: int = 0
    chars: int = 0
    tokens: float = 0.0
    rereads: Rereads = NO_REREADS

    def __add__(self, other: "ArrivalTotals") -> "ArrivalTotals":
        """Return the totals of two groups of requests together."""
        return ArrivalTotals(
            results=self.results + other.results,
            chars=self.chars + other.chars,
            tokens=self.tokens + other.tokens,
            rereads=self.rereads + other.rereads,
        )


NO_ARRIVAL = ArrivalTotals()


class WorstBill(NamedTuple):
    """The highest bill of a conversation so far, relative to that of sending everything.

    `max_loss` bounds it. `request` is the first request at which it was that high, counted from 0.
    """

    part: float
    request: int


AS_MUCH = WorstBill(1.0, 0)
"""The worst bill of a conversation that costs nothing either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over requests; about 2.5 kB, however many requests there are.

    reported: the requests whose cached tokens the provider reported.
    masked_before: the requests with results that were masked already when they were recorded. They
        are looked for where the window slides, because it evaluates all results that have left it.
    bound, held: the requests with results that stay because reasoning is bound to them, or because
        masking doesn't pay yet.
    bill: under the chosen policy; `sliding` where the window slides at every turn.
    arrival: what was left out at arrival.
    recorded: of the requests that were masked already when they were recorded, as they were sent.
    worst: the worst bill of any conversation; None if none costs anything.
    prices: how many requests were billed at each.
    """

    window_turns: int = 0
    requests: int = 0
    reported: int = 0
    masked_before: int = 0
    bound: int = 0
    held: int = 0
    tool_results: int = 0
    masked_tool_results: int = 0
    tool_chars_before: int = 0
    tool_chars_after: int = 0
    bill: Bill = NO_BILL
    sliding: Bill = NO_BILL
    arrival: ArrivalTotals = NO_ARRIVAL
    recorded: Bill = NO_BILL
    worst: WorstBill | None = None
    chosen_rereads: Rereads = NO_REREADS
    sliding_rereads: Rereads = NO_REREADS
    prices: tuple[tuple[BilledPrice, int], ...] = ()

    @property
    def currency(self) -> Currency:
        """The currency to report in: dollars if every request has a known price."""
        return find_common_currency(self.bill)

    def __add__(self, other: "Totals") -> "Totals":
        """Return the totals of two groups of requests together."""
        sums = {
            name: add(getattr(self, name), getattr(other, name)) for name, add in _ADDING.items()
        }
        return Totals(**sums)


def _choose_worse(one: WorstBill | None, other: WorstBill | None) -> WorstBill | None:
    known = (bill for bill in (one, other) if bill is not None)
    return max(known, key=lambda bill: bill.part, default=None)


_Prices = tuple[tuple[BilledPrice, int], ...]


def _add_prices(some: _Prices, others: _Prices) -> _Prices:
    counts = Counter(dict(some))
    counts.update(dict(others))
    return tuple(counts.items())


_Add = Callable[[Any, Any], Any]

_ADD_OTHERS: Mapping[str, _Add] = {
    "window_turns": max,
    "worst": _choose_worse,
    "prices": _add_prices,
}
_ADDING: Mapping[str, _Add] = {
    each.name: _ADD_OTHERS.get(each.name, operator.add) for each in fields(Totals)
}
"""How each field is added."""


class ConversationTotals(NamedTuple):
    """A conversation: its name, and the totals of its requests."""

    name: str
    totals: Totals


class ConversationSums:
    """The totals of one conversation, as it grows by a request at a time."""

    def __init__(self, window_turns: int) -> None:
        self.totals = Totals(window_turns=window_turns)
        self._paid = self._whole = 0.0
        self._shortened: set[tuple[int, int]] = set()

    def add(self, compared: ComparedRequest) -> Totals:
        """Add the conversation's next request; return what it adds."""
        money = compared.chosen.entry.bill.tokens
        self._paid += money.after
        self._whole += money.before
        part = self._paid / self._whole if self._whole else None
        worst = None if part is None else WorstBill(part, self.totals.requests)
        own = _measure(compared, worst, self._measure_arrival(compared))
        self.totals += own
        return own

    def _measure_arrival(self, compared: ComparedRequest) -> ArrivalTotals:
        """Return what was left out of a request at arrival; results are those that are new."""
        chosen, tokens = compared.chosen, compared.chosen.entry.left_out
        if tokens is None:
            return NO_ARRIVAL
        found = {(compared.conversation, at): chars for at, chars in chosen.left_out.items()}
        new = found.keys() - self._shortened
        self._shortened |= new
        return ArrivalTotals(
            results=len(new),
            chars=sum(found[each] for each in new),
            tokens=tokens,
            rereads=compared.left_out_rereads,
        )


def _measure(compared: ComparedRequest, worst: WorstBill | None, arrival: ArrivalTotals) -> Totals:
    chosen, entry = compared.chosen, compared.chosen.entry
    sizes, pricing = chosen.sizes, chosen.pricing
    listed = None if pricing.entry is None else str(pricing.entry)
    whose = pricing.borrowed_from, pricing.standard_for
    price = BilledPrice(chosen.model, *pricing.ratios, pricing.source, listed, *whose)
    rereads = compared.chosen_rereads
    return Totals(
        requests=1,
        reported=entry.cost.basis == "reported",
        masked_before="already_masked" in compared.sliding.reasons,
        bound="bound" in chosen.reasons,
        held="held" in chosen.reasons,
        tool_results=sizes.tool_results,
        masked_tool_results=sizes.masked,
        tool_chars_before=sizes.tool_chars_before,
        tool_chars_after=sizes.tool_chars_after,
        bill=entry.bill.ask_again(rereads.affected + arrival.rereads.affected),
        sliding=compared.sliding.entry.bill,
        arrival=arrival,
        recorded=entry.recorded or NO_BILL,
        worst=worst,
        chosen_rereads=rereads,
        sliding_rereads=compared.sliding_rereads,
        prices=((price, 1),),
    )


def add_all(conversations: Iterable[ConversationTotals]) -> Totals:
    """Return the totals of conversations together, added in their order."""
    return sum((each.totals for each in conversations), start=Totals())


def assumed_prices(totals: Totals) -> list[tuple[BilledPrice, int]]:
    """Return the prices that were assumed, each with its requests, the commonest first.

    The entry is that of the model's maker; None if the model is unknown.
    """
    found = (each for each in totals.prices if each[0].source == "assumed")
    return sorted(found, key=lambda each: -each[1])
