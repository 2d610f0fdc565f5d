"""What the requests of a conversation cost as they reached the provider, at six pairs of prices.

One prefix cache for every side: the one of `obsmask replay`, where everything is sent. So the bill
depends on the bytes that arrived, and not on who made them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from addon.replay.replay import RecordedRequest
from masking.tokens import TokenCounter
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.billing import bill_requests, send_all, sum_up


@dataclass(frozen=True, slots=True)
class Arrived:
    """The requests of a conversation that the provider took; a `Session`."""

    name: str
    arrived: Sequence[RecordedRequest]

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield them in order."""
        yield from self.arrived


def bill(session: Arrived, counter: TokenCounter) -> list[float]:
    """Return what a session costs at each pair of prices, in tokens at the price of a plain one."""
    return [sum_up(bill_requests(session, send_all, price, counter)).whole for price in TRUE_PRICES]
