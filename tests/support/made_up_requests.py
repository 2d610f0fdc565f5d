"""Requests on their way through the addon, with no proxy around them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from addon.stages import Priced, Received, Rewritten, Run
from masking.config import Settings
from masking.model import Decision
from masking.prices import Pricing
from masking.rewrite import Rewrite
from masking.window import BoundaryPrices
from masking.wire.chat import CHAT


class Carrier:
    """Carries a body, which it lets be replaced; `fault` is raised where that is read."""

    def __init__(self, body: bytes, fault: Exception | None = None) -> None:
        self.body, self.fault = body, fault

    @property
    def size(self) -> int:
        return len(self.body)

    most_bytes = size

    @property
    def betas(self) -> tuple[str, ...] | None:
        return None

    @property
    def wire_body(self) -> bytes | None:
        return self.body

    def read(self) -> bytes:
        if self.fault:
            raise self.fault
        return self.body

    def encode(self, body: bytes) -> bytes:
        return body

    def mark(self, decisions: Sequence[Decision]) -> None:
        """There is no flow to be marked."""

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        self.body = rewrite.body


def rewritten(**changes: object) -> Rewritten:
    received = Received(
        time=datetime(2026, 1, 1, tzinfo=UTC), run=Run("5eed0001"), host="h", path="/p", wire=CHAT,
        purpose="answer", client=None, subscription=False, account=b"",
        settings=Settings(), replay=False, answers_masked=True,
    )  # fmt: skip
    return Rewritten(received=received, bytes_before=10, bytes_after=10, **changes)  # type: ignore[arg-type]


def priced(model: str | None) -> Priced:
    return Priced(
        model=model, stream=False, cache_scope=b"", pricing=Pricing(0.1, 1.0),
        prices=BoundaryPrices(0.1, 1.0), lifetime=300.0,
    )  # fmt: skip
