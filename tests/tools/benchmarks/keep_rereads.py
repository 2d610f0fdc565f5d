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

from addon.commands.workers import open_processes
from addon.replay.references import SessionReferences
from addon.replay.replay import Session
from masking.prices import Pricing
from masking.tokens import TokenCounter
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import TRUE_PRICES, read_shipped
from tests.tools.benchmarks.billing import bill_requests, follow, sum_up


class Paid(NamedTuple):
    """What a session costs under a policy, relative to sending everything, and its re-reads."""

    bill: float
    rereads: int


Pair = tuple[Paid, Paid]
"""Without and with `keep_rereads`."""


def measure(session: Session) -> list[Pair]:
    """Return what a session pays at each price; it is one conversation."""
    policy, counter = read_shipped().policy, TokenCounter()
    references = SessionReferences(session)

    def pay(price: Pricing, *, keeps: bool) -> Paid:
        rule = follow(replace(policy, keep_rereads=keeps))
        paid, whole, rereads = sum_up(bill_requests(session, rule, price, counter, references))
        return Paid(paid / whole if whole else 1.0, rereads.repeated)

    return [(pay(price, keeps=False), pay(price, keeps=True)) for price in TRUE_PRICES]


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
