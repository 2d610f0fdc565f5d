"""What is to become of the messages of a conversation, and the list of what they become."""

from dataclasses import dataclass
from typing import Literal, cast

from masking.edit.splice import replace_strings
from masking.model import ChatMessage, Replacement

ReductionStage = Literal["masking", "summarization", "fallback"]
InvariantStatus = Literal["ok", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionPlan:
    """The edits of a reduction; a message that none of them names stays what it is.

    size_before, size_after: code points of all texts.
    stage: the last stage that was needed; None where none was.
    replacements: strings in tool results, by their paths in a request, in its order.
    dropped: the positions of the messages that go.
    summary, summary_at: the text of a new message of the user's, None where there is none, and
        its position, before the drop and after it, as all that precedes it is kept.
    masked_count, masked_chars: see `ReductionResult`.
    """

    size_before: int
    size_after: int
    stage: ReductionStage | None = None
    replacements: tuple[Replacement, ...] = ()
    dropped: frozenset[int] = frozenset()
    summary: str | None = None
    summary_at: int = 0
    masked_count: int = 0
    masked_chars: int = 0

    @property
    def changes(self) -> bool:
        """Whether there is anything to be done."""
        return bool(self.replacements or self.dropped)

    @property
    def invariant_status(self) -> InvariantStatus:
        """See `ReductionResult`."""
        return "fallback" if self.stage == "fallback" else "ok"

    def order(self, count: int) -> list[int | None]:
        """Return the positions that stay of so many messages; None is where the summary comes."""
        kept: list[int | None] = [at for at in range(count) if at not in self.dropped]
        if self.summary is not None:
            kept.insert(self.summary_at, None)
        return kept

    def apply(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """Return the messages after these edits: the very same list where there are none."""
        if not self.changes:
            return messages
        body = replace_strings({"messages": messages}, self.replacements)
        edited = cast(list[ChatMessage], body["messages"])
        summary: ChatMessage = {"role": "user", "content": self.summary}
        return [summary if at is None else edited[at] for at in self.order(len(messages))]
