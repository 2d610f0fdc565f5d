"""What the shipped configuration costs if no price is known, at six possible true prices.

`python -m tests.tools.benchmarks.assumed [--check] FILES` (.flow, JSON, JSON lines, gzipped or not,
or folders) replays every session as if its host and model were unknown, so that the boundary is
drawn by `assumed_prices`. It bills the session at each pair of true prices, relative to sending
everything: all sessions together, the mean of conversations, the worst conversation, and the worst
request of all. With `--check` it exits with 1 if a total exceeds 1.06 or a mean exceeds 1.0.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from addon.commands.workers import open_processes
from addon.places import shipped
from addon.replay.replay import Session
from masking.config import Settings, parse_settings
from masking.prices import Pricing
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.billing import bill_requests, follow
from tests.tools.benchmarks.boundary import find_worst_part

TRUE_PRICES = (
    Pricing(1.0, 1.0),
    Pricing(0.5, 1.0),
    Pricing(0.25, 1.0),
    Pricing(0.1, 1.0),
    Pricing(0.1, 1.25),
    Pricing(0.02, 1.0),
)
HIGHEST_TOTAL = 1.06
HIGHEST_MEAN = 1.0


class Paid(NamedTuple):
    """What one conversation costs, request by request, and what sending everything does."""

    costs: list[float]
    whole: list[float]


def read_shipped() -> Settings:
    """Return the settings of the shipped file."""
    settings = parse_settings(shipped("config.toml").read_bytes())
    if settings is None:
        raise ValueError("the shipped configuration has no table of ours")
    return settings


def pay(session: Session, believed: tuple[float, float] | None = None) -> list[list[Paid]]:
    """Return what each conversation of a session pays, for each pair of true prices.

    The boundary is drawn by the assumed prices, or by these.
    """
    settings, counter = read_shipped(), TokenCounter()
    believed = believed or settings.price_settings.assumed
    return [bill_session(session, settings.policy, true, believed, counter) for true in TRUE_PRICES]


def bill_session(
    session: Session,
    policy: MaskPolicy,
    true: Pricing,
    believed: tuple[float, float],
    counter: TokenCounter,
) -> list[Paid]:
    """Return what each conversation of a session pays where the boundary is drawn by a belief."""
    found: defaultdict[int, Paid] = defaultdict(lambda: Paid([], []))
    for entry, _ in bill_requests(session, follow(policy, believed), true, counter):
        costs, whole = found[entry.conversation]
        costs.append(entry.cost.after.cost)
        whole.append(entry.cost.before.cost)
    return [*found.values()]


class Row(NamedTuple):
    """Bills against sending everything: all together, the mean, the worst, the worst request."""

    total: float
    mean: float
    worst: float
    worst_request: float

    @property
    def holds(self) -> bool:
        """Whether it is as low as the project promises."""
        return self.total <= HIGHEST_TOTAL and self.mean <= HIGHEST_MEAN


def sum_up(paid: Sequence[Paid]) -> Row:
    """Return one row of the table; conversations that cost nothing are left out."""
    costing = [each for each in paid if sum(each.whole)]
    parts = [sum(each.costs) / sum(each.whole) for each in costing]
    return Row(
        total=sum(sum(each.costs) for each in costing) / sum(sum(each.whole) for each in costing),
        mean=fmean(parts),
        worst=max(parts),
        worst_request=max(find_worst_part(each.costs, each.whole) for each in costing),
    )


def measure(paths: Sequence[Path], believed: tuple[float, float] | None = None) -> list[Row]:
    """Return a row for each pair of true prices."""
    sessions = list(read_sessions(paths))
    task = partial(pay, believed=believed)
    with open_processes() as executor:
        found = list(executor.map(task, sessions))
    return [
        sum_up([paid for session in found for paid in session[at]])
        for at in range(len(TRUE_PRICES))
    ]


def main() -> int:
    checks = "--check" in sys.argv
    rows = measure([Path(name) for name in sys.argv[1:] if name != "--check"])
    assumed = "{:g}, {:g}".format(*read_shipped().price_settings.assumed)
    print(f"Bills where {assumed} is assumed, against sending everything")
    print("| truly | total | mean | worst | worst request |")
    print("|---|--:|--:|--:|--:|")
    for true, row in zip(TRUE_PRICES, rows, strict=True):
        prices = f"{true.read:g}, {true.write:g}{' (no cache)' * (true.read >= true.write)}"
        print(f"| {prices} | {' | '.join(f'{value:.3f}' for value in row)} |")
    return int(checks and not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main())
