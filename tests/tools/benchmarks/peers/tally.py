"""What was found about one side, summed up over conversations and rounds."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from addon.replay.replay import RecordedRequest
from masking.tokens import TokenCounter
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.peers.bill import Arrived, bill
from tests.tools.benchmarks.peers.harm import Harm, References, count_harm
from tests.tools.benchmarks.peers.outside import WIRES, Difference, compare
from tests.tools.benchmarks.peers.recorder import Arrival
from tests.tools.benchmarks.peers.traffic import Outcome, Played


@dataclass(slots=True)
class Tally:
    """Sums of one side in one wire format.

    costs: at each pair of prices, in tokens at the price of a plain one.
    harms: at each pair of prices; the same at all, but for a side that is told them.
    refused: requests with an answer of 4xx by the provider; failed: other bad ends, by what it was.
    lost: requests of which nothing reached the provider.
    added: milliseconds that each request took more than without a proxy.
    cpu: for each conversation its milliseconds of the CPU, and its requests.
    """

    costs: list[float] = field(default_factory=lambda: [0.0] * len(TRUE_PRICES))
    harms: list[Harm] = field(default_factory=lambda: [Harm()] * len(TRUE_PRICES))
    requests: int = 0
    refused: int = 0
    lost: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    added: list[float] = field(default_factory=list)
    cpu: list[tuple[float, int]] = field(default_factory=list)

    def add_bill(
        self, name: str, requests: Sequence[RecordedRequest], played: Played, counter: TokenCounter
    ) -> None:
        """Bill what the provider took of a conversation."""
        taken = [
            _record(recorded, arrival)
            for recorded, outcome in zip(requests, played.outcomes, strict=True)
            for arrival in outcome.arrivals
            if arrival.problem is None
        ]
        for place, cost in enumerate(bill(Arrived(name, taken), counter)):
            self.costs[place] += cost

    def add_harm(self, references: References, played: Played) -> None:
        """Count the calls of a conversation that refer to what the provider was not sent."""
        harm = count_harm(references, find_taken(played.outcomes))
        self.harms = [each.plus(harm) for each in self.harms]

    def add_outcomes(self, played: Played, references: Sequence[bytes | None]) -> None:
        """Count what became of the requests, and how they differ from what they are held against.

        `references` has a body for each request; None where there is none.
        """
        for outcome, reference in zip(played.outcomes, references, strict=True):
            self.requests += 1
            self.refused += any(arrival.problem for arrival in outcome.arrivals)
            self.lost += not outcome.arrivals
            if outcome.status != 200:
                self.failed[outcome.problem or str(outcome.status)] += 1
            if outcome.arrivals and reference is not None:
                self.differences.append(compare(reference, outcome.arrivals[0].body))

    def add_times(self, played: Played, direct: Played) -> None:
        """Add the times of a conversation."""
        self.added += [
            1000 * (ours.seconds - plain.seconds)
            for ours, plain in zip(played.outcomes, direct.outcomes, strict=True)
            if ours.status is not None
        ]
        self.cpu.append((1000 * played.cpu_seconds, len(played.outcomes)))

    def find_cpu(self) -> tuple[float, float, float]:
        """Return the CPU time of a request: mean, and least and most of a conversation, in ms."""
        each = [ms / count for ms, count in self.cpu]
        mean = sum(ms for ms, _ in self.cpu) / sum(count for _, count in self.cpu)
        return mean, min(each), max(each)

    def find_added(self) -> tuple[float, float, float]:
        """Return what a request took more: the median, and the 5th and 95th percentile, in ms."""
        ordered = sorted(self.added)
        at = round(0.05 * (len(ordered) - 1))
        return statistics.median(ordered), ordered[at], ordered[-1 - at]


def find_bodies(outcomes: Sequence[Outcome]) -> list[bytes | None]:
    """Return for each request the body that reached the provider first."""
    return [each.arrivals[0].body if each.arrivals else None for each in outcomes]


def find_taken(outcomes: Sequence[Outcome]) -> list[bytes | None]:
    """Return for each request the body that the provider took."""
    taken = [[one.body for one in each.arrivals if one.problem is None] for each in outcomes]
    return [bodies[-1] if bodies else None for bodies in taken]


def _record(recorded: RecordedRequest, arrival: Arrival) -> RecordedRequest:
    return RecordedRequest(
        body=arrival.body,
        when=recorded.when,
        account=recorded.account,
        wire=WIRES[arrival.dialect],
        path=recorded.path,
    )
