"""Why a request passes through unchanged: names for the reasons that somebody acts on.

A record has the sentence, and so has `Rewritten.passed_through`: there are more reasons than these,
such as what is wrong with a body. Whoever wants to know which one it is asks `find_skip_reason`,
also for a record of an older file.
"""

from collections.abc import Mapping
from typing import Literal

from masking.wire import HELD_BY_RESPONSE, SIGNED

Held = Literal["pass", "unknown", "bound", "alone", "unmasked", "answering"]
"""Why a message on a WebSocket passes whose provider holds the history.

pass: the configuration leaves WebSockets alone. unknown: the client is not known to fall back to
HTTP. bound: masking would cost the model its reasoning. alone: the client was to fall back, and did
not. unmasked: masking is off or only observed. answering: an answer was under way.
"""

SkipReason = Held | Literal["signed", "response"]
"""signed: claude-code signed the request. response: it continues an earlier response, which the
provider holds."""

HELD: Mapping[Held, str] = {
    "pass": 'the provider holds the history (websocket.mode = "pass")',
    "unknown": "the provider holds the history (a client not known to fall back to HTTP)",
    "bound": "the provider holds the history (and the model binds its reasoning)",
    "alone": "the provider holds the history (the client did not fall back to HTTP)",
    "unmasked": "the provider holds the history (a WebSocket is left alone unless masking is on)",
    "answering": "the provider holds the history (an answer was under way)",
}

_NAMES: Mapping[str, SkipReason] = {
    **{sentence: name for name, sentence in HELD.items()},
    SIGNED: "signed",
    HELD_BY_RESPONSE: "response",
}


def find_skip_reason(sentence: str | None) -> SkipReason | None:
    """Return the name of the reason that a record gives; None for no reason, and for any other."""
    return _NAMES.get(sentence or "")
