"""What it costs to keep what was asked for again, and how many re-reads it spares.

`python -m tests.tools.benchmarks.keep_rereads FILES` (.flow, JSON, JSON lines, gzipped or not, or
folders) replays every session with the shipped settings, without and with `keep_rereads`, at six
prices. Bills are relative to sending everything: the mean of conversations, and the worst. A
re-read is a call that repeats earlier ones whose results are all masked. It is counted as recorded:
what an agent would have asked for had it seen more, no replay knows.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from addon.commands.work import read_sessions
from addon.commands.workers import open_processes
from addon.replay.replay import ReplaySettings, Session
from addon.replay.session_index import index_session
from addon.replay.tune.fast_replay import FastReplay
from masking.prices import PriceSettings, Pricing
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.tools.benchmarks.assumed import TRUE_PRICES, read_shipped
from tests.tools.benchmarks.peers_rule import set_price


class Paid(NamedTuple):
    """What a session costs under a policy, relative to sending everything, and its re-reads."""

    bill: float
    rereads: int


Pair = tuple[Paid, Paid]
"""Without and with `keep_rereads`."""


def measure(session: Session) -> list[Pair]:
    """Return what a session pays at each price; it is one conversation."""
    policy, counter = read_shipped().policy, TokenCounter()
    without, keeping = (replace(policy, keep_rereads=keeps) for keeps in (False, True))
    index = index_session(session, ReplaySettings(strategies=Strategies(schema1=policy)), counter)
    found = []
    for price in TRUE_PRICES:
        fast_replay = FastReplay(set_price(index, price), counter)
        found.append((_pay(fast_replay, without, price), _pay(fast_replay, keeping, price)))
    return found


def _pay(fast_replay: FastReplay, policy: MaskPolicy, price: Pricing) -> Paid:
    price_settings = PriceSettings(price.ratios)
    billed = fast_replay.replay(
        ReplaySettings(strategies=Strategies(schema1=policy), price_settings=price_settings)
    )
    whole = sum(request.cost for request in fast_replay.plain)
    cost = sum(request.cost for request in billed.requests)
    return Paid(cost / whole if whole else 1.0, billed.rereads.repeated)


def render(price: Pricing, pairs: Sequence[Pair]) -> str:
    """Return the row of a price."""
    sums = []
    for paid in zip(*pairs, strict=True):
        bills = [each.bill for each in paid]
        sums.append((fmean(bills), max(bills), sum(each.rereads for each in paid)))
    dearer = max(keeping.bill - without.bill for without, keeping in pairs)
    (mean, worst, rereads), (kept_mean, kept_worst, kept_rereads) = sums
    cells = (
        f"{price.read:g}, {price.write:g}",
        *(f"{mean:.3f}", f"{kept_mean:.3f}", f"{worst:.3f}", f"{kept_worst:.3f}"),
        *(f"{dearer:+.3f}", f"{rereads:,}", f"{kept_rereads:,}"),
    )
    return f"| {' | '.join(cells)} |"


def run(sessions: Sequence[Session]) -> None:
    """Print the table."""
    with open_processes() as executor:
        measured = list(executor.map(measure, sessions))
    print("| read, write | mean | kept | worst | kept | dearer by | re-reads | kept |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for at, price in enumerate(TRUE_PRICES):
        print(render(price, [found[at] for found in measured]))


if __name__ == "__main__":
    run([*read_sessions(map(Path, sys.argv[1:]))])
