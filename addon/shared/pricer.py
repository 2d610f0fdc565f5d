"""What a request's tokens cost, and the strategies that its settings ask for.

Both depend on its settings, host, model, cache marks and credential alone, which are the same at
each request of a session. So they are worked out once, and remembered.
"""

import threading
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from cachetools import LRUCache

from addon.metrics.stages import Priced, Received
from masking.config import Settings
from masking.memory import estimate_lifetime
from masking.prices import find_pricing
from masking.rewrite import Strategies
from masking.window import price_boundary
from masking.wire import Marks

_MOST_PRICED = 64
_MOST_MARKS = 8
_LONGEST_MARK = 32
"""What a request says beyond that is not remembered: nobody bounds it."""


class PricedRequest(NamedTuple):
    """The prices of a request, and its strategies; the settings that they come from."""

    settings: Settings
    priced: Priced
    strategies: Strategies


class Pricer:
    """Prices requests, and remembers the latest prices; threads may share it."""

    def __init__(self, most: int = _MOST_PRICED) -> None:
        self._known: LRUCache[tuple[object, ...], PricedRequest] = LRUCache(most)
        self._lock = threading.Lock()

    def price(
        self, received: Received, document: Mapping[str, object], model: str | None
    ) -> PricedRequest:
        """Price a decoded request; `model` is the one that it names.

        Raises ConfigError for a price list that cannot be used, OSError for one that cannot be
        read.
        """
        marks = received.wire.find_marks(document)
        streams = received.wire.streams(document, received.path)
        # Settings are told apart as objects: to compare what is in them takes longer than to price.
        # They are kept beside what comes of them, so that no others can take their number.
        settings = received.settings
        key = (id(settings), received.host, model, received.account, marks, streams)
        with self._lock:
            found = self._known.get(key)
        if found is None:
            found = _price(received, marks, model, streams=streams)
            if _is_bounded(marks):
                with self._lock:
                    self._known[key] = found
        return found


def _is_bounded(marks: Marks) -> bool:
    lifetimes = marks.lifetimes
    return len(lifetimes) <= _MOST_MARKS and all(len(each) <= _LONGEST_MARK for each in lifetimes)


def _price(received: Received, marks: Marks, model: str | None, *, streams: bool) -> PricedRequest:
    settings = received.settings
    prices = settings.price_settings
    pricing = find_pricing(
        prices,
        received.host,
        model,
        is_marked=marks.are_there,
        lifetime=marks.last_lifetime,
    )
    seed = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    priced = Priced(
        model=model,
        stream=streams,
        seed=seed.digest(),
        pricing=pricing,
        prices=price_boundary(pricing, slides=prices.slides, marks=marks),
        lifetime=estimate_lifetime(marks, pricing.cache.lifetime),
    )
    return PricedRequest(settings, priced, settings.strategies)
