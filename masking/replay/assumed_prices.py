"""Which requests of a replay were billed by assumed prices."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from masking.replay.replay import ReplayedRequest


class AssumedPrice(NamedTuple):
    """The prices that were assumed for a model, and for how many requests.

    `maker` is where they come from, such as `gpt-4o of OpenAI`; None if the model is unknown.
    """

    model: str | None
    read: float
    write: float
    maker: str | None
    requests: int


def find_assumed_prices(requests: Iterable[ReplayedRequest]) -> list[AssumedPrice]:
    """Return what was assumed, the commonest first."""
    counts = Counter(
        (request.model, request.pricing.ratios, request.pricing.entry)
        for request in requests
        if request.pricing.source == "assumed"
    )
    return [
        AssumedPrice(model, *ratios, None if maker is None else str(maker), requests)
        for (model, ratios, maker), requests in counts.most_common()
    ]
