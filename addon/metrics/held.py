"""Why a message on a WebSocket passed whose provider holds the history: what records say."""

from collections.abc import Mapping
from typing import Literal

Held = Literal["pass", "unknown", "bound", "alone", "unmasked", "answering"]
"""pass: the configuration leaves WebSockets alone. unknown: the client is not known to fall back to
HTTP. bound: masking would cost the model its reasoning. alone: the client was to fall back, and did
not. unmasked: masking is off or only observed. answering: an answer was under way.
"""

HELD: Mapping[Held, str] = {
    "pass": 'the provider holds the history (websocket.mode = "pass")',
    "unknown": "the provider holds the history (a client not known to fall back to HTTP)",
    "bound": "the provider holds the history (and the model binds its reasoning)",
    "alone": "the provider holds the history (the client did not fall back to HTTP)",
    "unmasked": "the provider holds the history (a WebSocket is left alone unless masking is on)",
    "answering": "the provider holds the history (an answer was under way)",
}
