"""What carries a request to a model, as the masker sees it: each engine has its own."""

from collections.abc import Sequence
from typing import Protocol

from addon.metrics.stages import Received, Rewritten
from masking.model import Decision


class Carrier(Protocol):
    """A request on its way, which can be read, and replaced by another.

    `size` is in bytes as on the wire, but for the compression of a WebSocket. `wire_body` is the
    body as on the wire, where another request with it can be sent; None where none can be.
    """

    @property
    def size(self) -> int: ...

    @property
    def most_bytes(self) -> int:
        """About how long the body is at most, decoded."""

    @property
    def wire_body(self) -> bytes | None: ...

    def read(self) -> bytes:
        """Return the decoded body. Raises WireError if it must not or cannot be read."""

    def measure(self, body: bytes) -> int:
        """Return the `size` that the request would have with another body."""

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Write down what was decided, where the engine has a place for it."""

    def replace(self, body: bytes, received: Received) -> None:
        """Send another body in place of the client's, which a recording keeps."""


def leave_untouched(carrier: Carrier, received: Received) -> Rewritten:
    """Return a request that goes on as it came, with what is known so far."""
    size = carrier.size
    observed = received.settings.mode == "observe"
    return Rewritten(received=received, bytes_before=size, bytes_after=size, observed=observed)
