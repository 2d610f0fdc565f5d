"""What the promise costs: the bill relative to that of the cheapest schedule, for each `max_loss`.

`python -m tests.tools.benchmarks.session_front PATH ...` reads recordings and conversations under
the shipped configuration.

Beside it is the bill of the clairvoyant, who knows how a conversation goes on and keeps the same
promise: no rule can do better. The boundary's rule decides by estimated tokens, as in the addon.
Bills are in counted tokens, with a cache that matches whole messages and has no minimum, or that is
read before the messages alone once the boundary has moved, so that the cheapest schedule can be
found exactly. Each segment of a session counts as a conversation.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from addon.commands.work import read_sessions
from addon.replay.replay import ReplaySettings, Session
from addon.replay.reread import NEVER
from addon.replay.session_index import Segment, index_session
from addon.replay.tune.fast_replay import (
    EvaluatedSegment,
    evaluate_segment,
    find_first_masked,
    find_first_masked_sliding,
)
from masking.accounting.cost import AS_MUCH, worst_bill
from masking.prices import Pricing
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import BoundaryPrices, MaskPolicy, price_boundary
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.cheapest_schedule import (
    ConversationSizes,
    apply_moves,
    find_cheapest,
    find_costs,
)

NO_PROMISE = 1_000.0
"""A `max_loss` that is never reached."""

LOSSES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, NO_PROMISE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BillTotals:
    """The bills of conversations together, and the worst of them relative to sending everything.

    paid: in input-token equivalents.
    worst_end: the highest bill of any conversation at its end, relative to sending everything.
    worst: the highest bill at any request.
    """

    paid: float = 0.0
    worst_end: float = 0.0
    worst: float = 0.0

    def __add__(self, other: "BillTotals") -> "BillTotals":
        """Return the totals of two groups of conversations together."""
        return BillTotals(
            paid=self.paid + other.paid,
            worst_end=max(self.worst_end, other.worst_end),
            worst=max(self.worst, other.worst),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxLossFront:
    """Bills of conversations: everything sent, the cheapest schedule, and two for each promise.

    `rule` and `clairvoyant` have totals for each of `losses`, in order.
    """

    losses: tuple[float, ...]
    everything: float
    optimum: float
    rule: tuple[BillTotals, ...]
    clairvoyant: tuple[BillTotals, ...]

    def __add__(self, other: "MaxLossFront") -> "MaxLossFront":
        """Return the front of two groups of conversations together, for the same losses."""
        return MaxLossFront(
            losses=self.losses,
            everything=self.everything + other.everything,
            optimum=self.optimum + other.optimum,
            rule=_add(self.rule, other.rule),
            clairvoyant=_add(self.clairvoyant, other.clairvoyant),
        )


def make_empty_front(losses: Sequence[float] = LOSSES) -> MaxLossFront:
    """Return the front of no conversations."""
    none = tuple(BillTotals() for _ in losses)
    return MaxLossFront(losses=tuple(losses), everything=0, optimum=0, rule=none, clairvoyant=none)


def add_fronts(fronts: Iterable[MaxLossFront], losses: Sequence[float] = LOSSES) -> MaxLossFront:
    """Return the front of all sessions together: what each of these losses yields."""
    return functools.reduce(MaxLossFront.__add__, fronts, make_empty_front(losses))


def find_session_front(
    session: Session, settings: ReplaySettings, losses: Sequence[float] = LOSSES
) -> MaxLossFront:
    """Return the front of a session's segments."""
    counter = TokenCounter()
    front = make_empty_front(losses)
    for segment in index_session(session, settings, counter).segments:
        priced = price_boundary(
            segment.pricing,
            slides=settings.price_settings.slides,
            marks=segment.conversation.marks,
        )
        prices = dataclasses.replace(priced, steps=())  # the clairvoyant knows none, either
        evaluated = evaluate_segment(segment, settings.policy, prices, counter)
        sizes = _find_sizes(segment, evaluated, settings.policy, prices)
        schedules = [
            find_first_masked(
                segment, evaluated, dataclasses.replace(settings.policy, max_loss=loss), prices
            )
            for loss in losses
        ]
        front += find_conversation_front(sizes, schedules, segment.pricing, losses)
    return front


def find_conversation_front(
    sizes: ConversationSizes,
    rule: Sequence[Sequence[int]],
    pricing: Pricing,
    losses: Sequence[float],
) -> MaxLossFront:
    """Return the front of one conversation.

    `rule` has for each loss the request from which on the rule masks each tool result.
    """
    whole = find_costs(sizes, [NEVER] * len(sizes.ripe), pricing)

    def bill(first_masked: Sequence[int]) -> BillTotals:
        return _add_up(find_costs(sizes, first_masked, pricing), whole)

    def bill_cheapest(max_loss: float) -> BillTotals:
        return bill(apply_moves(sizes, find_cheapest(sizes, pricing, max_loss)))

    return MaxLossFront(
        losses=tuple(losses),
        everything=_add_up(whole, whole).paid,
        optimum=bill_cheapest(math.inf).paid,
        rule=tuple(bill(first_masked) for first_masked in rule),
        clairvoyant=tuple(bill_cheapest(loss) for loss in losses),
    )


def _add_up(costs: Sequence[float], whole: Sequence[float]) -> BillTotals:
    *_, paid = accumulate(costs)
    *_, everything = accumulate(whole)
    return BillTotals(
        paid=paid,
        worst_end=paid / everything if everything else 1.0,
        worst=(worst_bill(costs, whole) or AS_MUCH).part,
    )


def _find_sizes(
    segment: Segment, evaluated: EvaluatedSegment, policy: MaskPolicy, prices: BoundaryPrices
) -> ConversationSizes:
    sizes = [*accumulate((piece.tokens for piece in segment.pieces), initial=0)]
    places = [result.element + 1 for result in segment.conversation.results]
    requests = [sizes[request.messages + 1] for request in segment.requests]
    offsets = [sizes[at] for at in places]
    ripe = find_first_masked_sliding(segment, evaluated, policy)
    readable = math.inf
    if prices.reads_at == "marks":
        readable = sizes[1] if segment.conversation.marks.in_head else 0
    elif prices.reads_at == "request ends":
        first = min(offsets, default=0)
        readable = max((size for size in requests if size <= first), default=0)
    return ConversationSizes(
        requests=requests,
        offsets=offsets,
        savings=[*_find_savings(segment, evaluated, places, ripe)],
        ripe=ripe,
        readable=readable,
    )


def _find_savings(
    segment: Segment, evaluated: EvaluatedSegment, places: Sequence[int], ripe: Sequence[int]
) -> Iterator[int]:
    """Yield what masking each result saves; of several in one piece, the first saves for all."""
    saved: set[int] = set()
    for at, request in zip(places, ripe, strict=True):
        is_first = request < NEVER and at not in saved
        yield segment.pieces[at].tokens - evaluated.pieces[at].tokens if is_first else 0
        if is_first:
            saved.add(at)


def _add(some: Sequence[BillTotals], others: Sequence[BillTotals]) -> tuple[BillTotals, ...]:
    return tuple(a + b for a, b in zip(some, others, strict=True))


CAVEAT = (
    "Bills in tokens, relative to that of the cheapest schedule, which is known only afterwards. "
    "The clairvoyant knows the future, too, and keeps the promise. Worst is the most by which a "
    "conversation's bill exceeded that of sending everything, in the end and at any request. The "
    "rule keeps the promise in estimated tokens."
)

_WORST = ("worst\nin the end", "worst\never")


def render_front(front: MaxLossFront) -> Table:
    """Return a row for each `max_loss`: the bills of the rule, and of the clairvoyant."""
    title = f"Sending everything: {front.everything / front.optimum:.4f} of the cheapest schedule"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    table.add_column("max_loss", no_wrap=True)
    for name in ("rule", *_WORST, "clairvoyant", *_WORST):
        table.add_column(name, justify="right", no_wrap=True)
    for loss, rule, best in zip(front.losses, front.rule, front.clairvoyant, strict=True):
        cells = (*_describe_totals(rule, front.optimum), *_describe_totals(best, front.optimum))
        table.add_row("none" if loss >= NO_PROMISE else f"{loss:g}", *cells)
    return table


def _describe_totals(totals: BillTotals, optimum: float) -> tuple[str, ...]:
    return (
        f"{totals.paid / optimum:.4f}",
        f"{totals.worst_end - 1:+.1%}",
        f"{totals.worst - 1:+.1%}",
    )


def main() -> None:
    shipped = read_shipped()
    settings = ReplaySettings(
        strategies=Strategies(schema1=shipped.policy), price_settings=shipped.price_settings
    )
    sessions = read_sessions(map(Path, sys.argv[1:]))
    front = add_fronts(find_session_front(session, settings) for session in sessions)
    if not front.everything:
        sys.exit("no request that costs anything")
    console = Console()
    console.print(render_front(front))
    console.print(CAVEAT, highlight=False)


if __name__ == "__main__":
    main()
