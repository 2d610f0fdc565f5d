"""How long a provider is taken to remember a prompt that is not sent again."""

from collections.abc import Mapping

from masking.wire.chat import find_cache_lifetimes

_SECONDS = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
"""As requests spell it; `in_memory` and whatever else there may be asks for nothing longer."""

_DOUBT = 1.2
"""Part of the time by which a pause must exceed it: what is cold is never known for sure."""


def find_lifetime(body: Mapping[str, object], usual: float) -> float:
    """Return after how many seconds a request's prompt has most likely been forgotten.

    `usual` is the provider's own time; what the request asks for holds where it is longer.
    """
    asked = (_SECONDS.get(spelling, 0.0) for spelling in find_cache_lifetimes(body))
    return _DOUBT * max([usual, *asked])
