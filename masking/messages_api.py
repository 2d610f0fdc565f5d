"""The strategies as functions of a list of Chat Completions messages. All of them are pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from masking.conversation import Conversation, read_conversation, with_targets
from masking.edit.splice import apply_to_list
from masking.errors import WireError
from masking.model import ChatMessage, Edits, replacements_of
from masking.redaction import RedactionPolicy, decide_redactions
from masking.reduction import (
    ReductionOptions,
    ReductionStage,
    count_chars,
    plan_reduction,
)
from masking.window import FREE, BoundaryPrices, MaskPolicy, decide
from masking.wire import CHAT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionResult:
    """A reduced conversation, and how it was reduced.

    reduced: whether anything about the messages is different.
    dropped_count: how many messages were dropped; a summary is not subtracted.
    invariant_status: "fallback" if the last stage was reached, whether or not that was enough.
    masked_count, masked_chars: the results that the first stage masked and the characters that this
        removed, even if a later stage then dropped these results.
    reduction_stage: the last stage that was needed; None if none was.
    """

    messages: list[ChatMessage]
    reduced: bool
    dropped_count: int
    invariant_status: Literal["ok", "fallback"]
    masked_count: int
    masked_chars: int
    reduction_stage: ReductionStage | None

    @property
    def final_size(self) -> int:
        """The size of the messages in code points, within the budget or not."""
        return count_chars(map(CHAT.read_element, self.messages))


Messages = Sequence[Mapping[str, Any]]
"""Chat Completions messages, as a caller writes them; each is a dict."""


def read_messages(messages: Messages) -> Conversation:
    """Read messages as a request with nothing else in it."""
    return read_conversation({"messages": _as_list(messages)}, CHAT)


def _as_list(messages: Messages) -> list[ChatMessage]:
    """Return the very same list, or one of the same messages. Raises WireError for anything else.

    What is no message among messages is left alone, as in a request.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes | bytearray):
        raise WireError(f"expected a list of messages, got {type(messages).__name__}", "messages")
    return cast(list[ChatMessage], messages if isinstance(messages, list) else [*messages])


def edit_messages(conversation: Conversation, edits: Edits) -> list[ChatMessage]:
    """Return the messages after these edits; the unchanged ones are shared."""
    return cast(list[ChatMessage], apply_to_list(conversation.items, edits))


def mask_old_tool_results(
    messages: Messages, policy: MaskPolicy, prices: BoundaryPrices = FREE
) -> list[ChatMessage]:
    """Return the messages with old tool results replaced by placeholders.

    No message is added, removed, moved or mutated. The very same list comes back if the policy is
    off or nothing is masked; otherwise a new list, which shares the unmasked messages. Without
    prices masking is free, and the window slides at every turn. A policy is off until it is
    enabled, and with a window of 0 or less. Raises WireError for what is no list of messages.
    Source: the design document.
    """
    if not policy.masks:
        return _as_list(messages)
    conversation = with_targets(read_messages(messages), policy.wanted_arguments)
    replacements = replacements_of(decide(conversation, policy, prices).decisions)
    return edit_messages(conversation, Edits(replacements)) if replacements else _as_list(messages)


def redact_tool_results(messages: Messages, policy: RedactionPolicy) -> list[ChatMessage]:
    """Return the messages with the answered results of the named tools replaced.

    No message is added, removed, moved or mutated. The very same list comes back if the policy is
    off or nothing is redacted; otherwise a new list, which shares the other messages.
    """
    if not policy.redacts:
        return _as_list(messages)
    conversation = read_messages(messages)
    replacements = replacements_of(decide_redactions(conversation, policy).decisions)
    return edit_messages(conversation, Edits(replacements)) if replacements else _as_list(messages)


def reduce_history(messages: Messages, options: ReductionOptions) -> ReductionResult:
    """Shrink a conversation to its budget: mask, then summarize, then drop.

    No message is mutated; unchanged messages are shared. The very same list comes back if nothing
    changes: reduction is off, there are at most two messages, they are within the budget, or
    nothing may be dropped.

    A content is masked if it is a string, or a list of text parts alone; then each text is masked
    by itself, and no part is added, removed or emptied. Other contents stay, and so do texts that
    would not get shorter. What is not text has no size.
    """
    conversation = read_messages(messages)
    plan = plan_reduction(conversation, options)
    return ReductionResult(
        messages=edit_messages(conversation, plan.edits) if plan.changes else _as_list(messages),
        reduced=plan.changes,
        dropped_count=len(plan.dropped),
        invariant_status="fallback" if plan.stage == "fallback" else "ok",
        masked_count=plan.masked_count,
        masked_chars=plan.masked_chars,
        reduction_stage=plan.stage,
    )
