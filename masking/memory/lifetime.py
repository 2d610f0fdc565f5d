"""How long a provider is taken to remember a prompt that is not sent again."""

from masking.wire_format import Marks

_SECONDS = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
"""As requests spell it. `in_memory` and all other spellings ask for nothing longer."""

_DOUBT = 1.2
"""How many times the provider's time a pause must last: that a prefix is cold is only a guess."""


def find_lifetime(marks: Marks, usual: float) -> float:
    """Return the seconds after which a request's prompt has most likely been forgotten.

    `usual` is the provider's own time. What the request's marks ask for holds if it is longer.
    """
    asked = (_SECONDS.get(spelling, 0.0) for spelling in marks.lifetimes)
    return _DOUBT * max([usual, *asked])
