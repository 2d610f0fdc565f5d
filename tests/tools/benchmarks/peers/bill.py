"""What the requests of a conversation cost as they reached the provider, at six pairs of prices.

One prefix cache for every side: the one of `obsmask replay`, where everything is sent. So the bill
depends on the bytes that arrived, and not on who made them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from addon.replay.replay import RecordedRequest, ReplaySettings
from addon.replay.session_index import index_session
from addon.replay.tune.fast_replay import FastReplay
from masking.prices import PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.peers_rule import set_price


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
    settings = ReplaySettings(
        strategies=Strategies(schema1=MaskPolicy()), price_settings=PriceSettings((1.0, 1.0))
    )
    index = index_session(session, settings, counter)
    return [
        sum(request.cost for request in FastReplay(set_price(index, price), counter).plain)
        for price in TRUE_PRICES
    ]
