"""What a request's tokens cost: by its settings, host, model, tier, cache marks and credential."""

from hashlib import blake2b

from addon.stages import Priced, Received
from masking.conversation import Request
from masking.memory import estimate_lifetime
from masking.prices import find_pricing
from masking.window import price_boundary


def price(received: Received, request: Request, model: str | None) -> Priced:
    """Price a request; `model` is the one that it names.

    Raises ConfigError for a price list that cannot be used, OSError for one that cannot be read.
    """
    marks, prices = request.marks, received.settings.price_settings
    pricing = find_pricing(
        prices,
        received.host,
        model,
        is_marked=marks.are_there,
        lifetime=marks.last_lifetime,
        tier=request.tier,
    )
    scope = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    return Priced(
        model=model,
        stream=received.wire.streams(request.document, received.path),
        cache_scope=scope.digest(),
        pricing=pricing,
        prices=price_boundary(pricing, slides=prices.slides, marks=marks),
        lifetime=estimate_lifetime(marks, pricing.cache.lifetime),
    )
