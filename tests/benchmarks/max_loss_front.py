"""What the promise costs on recorded conversations, the clairvoyant under it beside the rule.

`python -m tests.benchmarks.max_loss_front FILE [MAX_LOSS ...]`, gzipped JSON lines: texts and
sizes are those of `tests.benchmarks.boundary`, in which the rule decides here, too.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from masking.measures.price_list import Ratios
from masking.replay.first_masked import NEVER, find_first_behind
from masking.strategies.boundary import Boundary, find_boundaries
from masking.strategies.policy import CERTAIN, MaskPolicy
from masking.tune.max_loss_front import Account, Front, draw_growth, draw_nothing
from masking.tune.optimum import Growth
from tests.benchmarks.boundary import PRICES, WINDOW, read_conversations
from tests.schedules import Conversation, Prices


def draw(talks: Sequence[Conversation], prices: Prices, losses: Sequence[float]) -> Front:
    """Return the front of all conversations together."""
    fronts = (_draw_one(talk, prices, losses) for talk in talks)
    return functools.reduce(Front.__add__, fronts, draw_nothing(losses))


def _draw_one(talk: Conversation, prices: Prices, losses: Sequence[float]) -> Front:
    policies = [
        MaskPolicy(
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
    return draw_growth(_find_growth(talk), rule, Ratios(*prices), losses)


def _find_growth(talk: Conversation) -> Growth:
    edges = [Boundary(max(0, r.turns - WINDOW), r.results) for r in talk.requests]
    return Growth(
        sizes=[request.size for request in talk.requests],
        offsets=[result.offset for result in talk.results],
        savings=[result.saving for result in talk.results],
        ripe=_find_masked(talk, edges),
    )


def _find_masked(talk: Conversation, boundaries: Sequence[Boundary]) -> list[int]:
    first = find_first_behind(
        talk.results, boundaries, [r.turns for r in talk.requests], MaskPolicy(window_turns=WINDOW)
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
        for loss, *accounts in zip(losses, front.rule, front.clairvoyant, strict=True):
            cells = " | ".join(_render(account, front.optimum) for account in accounts)
            print(f"| {prices.read}, {prices.write} | {loss:g} | {cells} |")


def _render(account: Account, optimum: float) -> str:
    return f"{account.paid / optimum:.4f} ({account.worst_end:.3f}/{account.worst:.3f})"


if __name__ == "__main__":
    main()
