"""What a request's tokens cost, worked out once for all requests of a session."""

import threading
from hashlib import blake2b

from cachetools import LRUCache

from addon.stages import Priced, Received
from masking.config import Settings
from masking.conversation import Request
from masking.memory import estimate_lifetime
from masking.prices import find_pricing
from masking.window import price_boundary
from masking.wire import Marks

_MOST_MARKS = 8
_LONGEST_MARK = 32
"""What a request says beyond that is not remembered: nobody bounds it."""


class Pricer:
    """What a request's tokens cost; threads may share it.

    That depends on its settings, host, model, cache marks and credential alone, which are the same
    at each request of a session. So it is computed once, and the latest prices are remembered.
    """

    def __init__(self, most: int = 64) -> None:
        self._known: LRUCache[tuple[object, ...], tuple[Settings, Priced]] = LRUCache(most)
        self._lock = threading.Lock()

    def price(self, received: Received, request: Request, model: str | None) -> Priced:
        """Price a request; `model` is the one that it names.

        Raises ConfigError for a price list that cannot be used, OSError for one that cannot be
        read.
        """
        marks = request.marks
        streams = received.wire.streams(request.document, received.path)
        # Settings are told apart as objects: to compare what is in them takes longer than to price.
        # They are kept beside the prices, so that no other object can get their id.
        settings = received.settings
        key = (id(settings), received.host, model, received.account, marks, streams, request.tier)
        with self._lock:
            found = self._known.get(key)
        if found is not None:
            return found[1]
        priced = _price(received, marks, model, request.tier, streams=streams)
        lifetimes = marks.lifetimes
        if len(lifetimes) <= _MOST_MARKS and all(len(one) <= _LONGEST_MARK for one in lifetimes):
            with self._lock:
                self._known[key] = settings, priced
        return priced


def _price(
    received: Received, marks: Marks, model: str | None, tier: str | None, *, streams: bool
) -> Priced:
    prices = received.settings.price_settings
    pricing = find_pricing(
        prices,
        received.host,
        model,
        is_marked=marks.are_there,
        lifetime=marks.last_lifetime,
        tier=tier,
    )
    scope = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    return Priced(
        model=model,
        stream=streams,
        cache_scope=scope.digest(),
        pricing=pricing,
        prices=price_boundary(pricing, slides=prices.slides, marks=marks),
        lifetime=estimate_lifetime(marks, pricing.cache.lifetime),
    )
