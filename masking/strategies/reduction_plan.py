"""What is to become of a conversation that is too long: the outcome of a reduction, as edits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from masking.model import Edits, Replacement

ReductionStage = Literal["masking", "summarization", "fallback"]
InvariantStatus = Literal["ok", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionPlan:
    """The edits of a reduction; an element that none of them names stays what it is.

    size_before, size_after: code points of all texts.
    stage: the last stage that was needed; None where none was.
    replaced: by the place of a tool result, what becomes of its texts.
    dropped: the positions of the elements that go.
    summary, summary_at: the text of a new element of the user's, None where there is none, and
        its position, before the drop and after it, as all that precedes it is kept.
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
        """What is to be done; nothing where the plan changes nothing."""
        replacements = tuple(r for found in self.replaced.values() for r in found)
        return Edits(replacements, self.dropped, self.summary, self.summary_at)
