"""What the promise costs on recorded conversations, for the rule and for the clairvoyant.

`python -m tests.tools.benchmarks.max_loss_front FILE [MAX_LOSS ...]` reads gzipped JSON lines.
Texts and sizes are those of `tests.tools.benchmarks.boundary`; the rule, too, decides by them.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from addon.replay.reread import NEVER
from masking.prices import Pricing
from masking.window import BoundaryPosition
from masking.window.policy import CERTAIN
from tests.support.first_behind import find_first_behind
from tests.support.priced import PricedPolicy, find_boundaries
from tests.support.schedules import Conversation
from tests.tools.benchmarks.boundary import PRICES, WINDOW, read_conversations
from tests.tools.benchmarks.cheapest_schedule import ConversationSizes
from tests.tools.benchmarks.session_front import (
    BillTotals,
    MaxLossFront,
    find_conversation_front,
    make_empty_front,
)


def draw(talks: Sequence[Conversation], prices: Pricing, losses: Sequence[float]) -> MaxLossFront:
    """Return the front of all conversations together."""
    fronts = (_draw_one(talk, prices, losses) for talk in talks)
    return functools.reduce(MaxLossFront.__add__, fronts, make_empty_front(losses))


def _draw_one(talk: Conversation, prices: Pricing, losses: Sequence[float]) -> MaxLossFront:
    policies = [
        PricedPolicy(
            enabled=True,
            window_turns=WINDOW,
            cache_read_ratio=prices.read,
            cache_write_ratio=prices.write,
            max_loss=loss / CERTAIN,  # sizes are exact here
        )
        for loss in losses
    ]
    rule = [
        _find_masked(talk, find_boundaries(talk.requests, talk.results, policy))
        for policy in policies
    ]
    return find_conversation_front(_find_sizes(talk), rule, prices, losses)


def _find_sizes(talk: Conversation) -> ConversationSizes:
    edges = [BoundaryPosition(max(0, r.turns - WINDOW), r.results) for r in talk.requests]
    return ConversationSizes(
        requests=[request.size for request in talk.requests],
        offsets=[result.offset for result in talk.results],
        savings=[result.saving for result in talk.results],
        ripe=_find_masked(talk, edges),
    )


def _find_masked(talk: Conversation, boundaries: Sequence[BoundaryPosition]) -> list[int]:
    first = find_first_behind(
        talk.results,
        boundaries,
        [r.turns for r in talk.requests],
        PricedPolicy(window_turns=WINDOW),
    )
    return [at if r.saving else NEVER for at, r in zip(first, talk.results, strict=True)]


def main() -> None:
    talks = list(read_conversations(Path(sys.argv[1])))
    losses = [float(loss) for loss in sys.argv[2:]] or [0.05, 0.1]
    print(f"{len(talks)} conversations; bills divided by the optimum's, (worst conversation at its")
    print("end / at any request against sending everything)")
    print("| read, write | max_loss | rule | clairvoyant |")
    print("|---|--:|--:|--:|")
    for prices in PRICES:
        front = draw(talks, prices, losses)
        for loss, *totals_of_both in zip(losses, front.rule, front.clairvoyant, strict=True):
            cells = " | ".join(_render(totals, front.optimum) for totals in totals_of_both)
            print(f"| {prices.read}, {prices.write} | {loss:g} | {cells} |")


def _render(totals: BillTotals, optimum: float) -> str:
    return f"{totals.paid / optimum:.4f} ({totals.worst_end:.3f}/{totals.worst:.3f})"


if __name__ == "__main__":
    main()
