"""What the page keeps of a request: sizes, amounts and reasons; never content."""

from collections.abc import Mapping
from typing import NamedTuple

from addon.metrics.record import RequestRecord
from addon.request import one_line
from masking.accounting import PARTS

_MOST_LETTERS = 4_000
"""A longer row of the masking map is not kept, so that no request can take much memory."""


class ShownRequest(NamedTuple):
    """A request as the page shows it; None is what is not known.

    observed: whether it left as the agent wrote it, and the rest says what masking would have done.
    failed: the status or the interruption, if it failed.
    why: why it went on untouched.
    resent: what came of sending it once more as the agent wrote it, if it was.
    sent, spared: the tokens that were sent, and those that masking took out.
    prompt, cached: the tokens that the provider reported.
    tokens_before, tokens_after, dollars_before, dollars_after: its bill, unmasked and as sent.
    parts: what `sent` is composed of, in the order of `PARTS`.
    moved: whether the boundary moved.
    move_price: what that cost, in input tokens.
    row: its row of the masking map.
    """

    time: str
    observed: bool
    failed: str | None
    why: str | None
    resent: str | None
    results: int
    masked: int
    sent: int | None
    spared: int | None
    parts: tuple[int, ...] | None
    prompt: int | None
    cached: int | None
    tokens_before: float | None
    tokens_after: float | None
    dollars_before: float | None
    dollars_after: float | None
    moved: bool
    move_price: float | None
    row: str | None

    @property
    def is_billed(self) -> bool:
        """Whether it has a bill."""
        return self.tokens_before is not None and self.tokens_after is not None


def show(record: RequestRecord) -> ShownRequest:
    """Return what the page keeps of a record."""
    row = record.result_reasons
    before, after = record.request_tokens_before, record.request_tokens_after
    return ShownRequest(
        time=record.time,
        observed=record.masking == "observed",
        failed=str(record.error or record.status) if record.failed else None,
        why=record.passed_through and one_line(record.passed_through),
        resent=record.resent,
        results=record.tool_results or 0,
        masked=sum(filter(None, (record.masked, record.redacted, record.reduced, record.dropped))),
        sent=after,
        spared=None if before is None or after is None else before - after,
        parts=None if (parts := record.composition) is None else _list_parts(parts),
        prompt=record.prompt_tokens,
        cached=record.cached_tokens,
        tokens_before=record.cost_tokens_before,
        tokens_after=record.cost_tokens_after,
        dollars_before=record.cost_dollars_before,
        dollars_after=record.cost_dollars_after,
        moved=bool(record.boundary_moved),
        move_price=record.move_price_tokens,
        row=row if row is None or len(row) <= _MOST_LETTERS else None,
    )


def _list_parts(parts: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(parts.get(part, 0) for part in PARTS)
