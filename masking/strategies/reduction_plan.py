"""What is to be done to a conversation that is too long: the outcome of a reduction, as edits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from masking.model import Edits, Replacement

ReductionStage = Literal["masking", "summarization", "fallback"]
InvariantStatus = Literal["ok", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionPlan:
    """The edits of a reduction; all other elements stay as they are.

    size_before, size_after: the code points of all texts.
    stage: the last stage that was needed; None if none was.
    replaced: the replacements, by the place of a tool result.
    dropped: the positions of the elements that are dropped.
    summary, summary_at: a new element of the user's, None if there is none, and its position,
        which is the same before and after the drop, because everything before it is kept.
    masked_count, masked_chars: see `ReductionResult`.
    """

    size_before: int
    size_after: int
    stage: ReductionStage | None = None
    replaced: Mapping[int, tuple[Replacement, ...]] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    summary: object = None
    summary_at: int = 0
    masked_count: int = 0
    masked_chars: int = 0

    @property
    def changes(self) -> bool:
        """Whether there is anything to be done."""
        return bool(self.replaced or self.dropped)

    @property
    def invariant_status(self) -> InvariantStatus:
        """See `ReductionResult`."""
        return "fallback" if self.stage == "fallback" else "ok"

    @property
    def edits(self) -> Edits:
        """What is to be done; nothing if the plan changes nothing."""
        replacements = tuple(r for found in self.replaced.values() for r in found)
        return Edits(replacements, self.dropped, self.summary, self.summary_at)
