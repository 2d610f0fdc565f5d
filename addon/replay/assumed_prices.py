"""Which requests of a replay were billed by assumed prices."""

from typing import NamedTuple

from addon.replay.totals import Totals


class AssumedPrice(NamedTuple):
    """The prices that were assumed for a model, and for how many requests.

    `maker` is where they come from, such as `gpt-4o of OpenAI`; None if the model is unknown.
    """

    model: str | None
    read: float
    write: float
    maker: str | None
    requests: int


def find_assumed_prices(totals: Totals) -> list[AssumedPrice]:
    """Return what was assumed, the commonest first."""
    found = (each for each in totals.prices if each[0].source == "assumed")
    return [
        AssumedPrice(price.model, price.read, price.write, price.entry, requests)
        for price, requests in sorted(found, key=lambda each: -each[1])
    ]
