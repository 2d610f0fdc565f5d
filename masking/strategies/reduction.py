"""Graduated reduction: old observations are masked, or else old messages summed up, or else cut.

The rule: do no more than the budget asks for, and never part a call from its results. Here it is
decided what is to be done; `ReductionPlan` says it, and does it to a list of messages.
Source: history-reducer-design.md.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from masking.model import ChatMessage, Replacement, ToolResult
from masking.strategies.dispatch_blocks import find_blocks, mask_observation
from masking.strategies.history_summary import render_summary
from masking.strategies.pairs import Pairs, close_over_pairs, find_pairs, find_position, keeps_pairs
from masking.strategies.reduction_plan import InvariantStatus, ReductionPlan, ReductionStage
from masking.strategies.texts import count_chars
from masking.wire.chat import find_tool_results


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOptions:
    """When a history is reduced, and to what. Sizes are code points.

    enabled: off, nothing ever is.
    max_input_chars: the budget, for the texts of all messages together; 0 or less is off.
    preserve_recent_raw_turns: so many of the last messages that are not the system's stay as they
        are, with whatever is paired with them; 0 or less, none of them.
    summary_max_chars: the length of a summary, at most; 0 or less, none is made.
    observation_masking: off, the stage that masks is left out.
    max_observation_chars: the length of a placeholder, at most; one character always stays.
    """

    enabled: bool = False
    max_input_chars: int = 400_000
    preserve_recent_raw_turns: int = 4
    summary_max_chars: int = 1_400
    observation_masking: bool = True
    max_observation_chars: int = 80

    @property
    def reduces(self) -> bool:
        """Whether these options can reduce anything at all."""
        return self.enabled and self.max_input_chars > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionResult:
    """A conversation as it was reduced, and how.

    reduced: whether anything about the messages is different.
    dropped_count: how many of them are gone; a summary that came is not set off against them.
    invariant_status: "fallback" where the last stage was reached, whether or not that was enough.
    masked_count, masked_chars: the results that the first stage masked and the characters that
        took away, also where a later stage then removed these results altogether.
    reduction_stage: the last stage that was needed; None where none was.
    """

    messages: list[ChatMessage]
    reduced: bool
    dropped_count: int
    invariant_status: InvariantStatus
    masked_count: int
    masked_chars: int
    reduction_stage: ReductionStage | None

    @property
    def final_size(self) -> int:
        """The size of the messages in code points, be it within the budget or not."""
        return count_chars(self.messages)


def reduce_history(messages: list[ChatMessage], options: ReductionOptions) -> ReductionResult:
    """Bring a conversation within its budget.

    Pure: no message is mutated, those that stay as they are are shared. The very same list comes
    back where nothing is different: reduction is off, there are two messages at most, they are
    within the budget, or there is nothing that may go.

    The first stage masks the tool results that are not kept, the second puts a summary in the
    place of all that is not kept, the third leaves only what is kept: the messages of roles system
    and developer, the last of the others, and what is paired with one of them. The last stage is
    final even where it leaves too much.

    Masked is a content that is a string, and of one that is a list of nothing but text parts each
    text by itself; no part is added, removed or emptied. Other contents stay, as do texts that
    would not get shorter. What is not text has no size.
    """
    plan = plan_reduction(messages, options)
    return ReductionResult(
        messages=plan.apply(messages),
        reduced=plan.changes,
        dropped_count=len(plan.dropped),
        invariant_status=plan.invariant_status,
        masked_count=plan.masked_count,
        masked_chars=plan.masked_chars,
        reduction_stage=plan.stage,
    )


def plan_reduction(
    messages: list[ChatMessage],
    options: ReductionOptions,
    settled: Container[int] = frozenset(),
    sources: list[ChatMessage] | None = None,
) -> ReductionPlan:
    """Decide what `reduce_history` does.

    Where another strategy has been at the messages: `settled` are the tool results that are its
    placeholders, counted from 0, which are not masked again; `sources` the same messages with
    whatever texts of them a summary may quote. Raises ValueError where these have other results.
    """
    size = count_chars(messages)
    plan = ReductionPlan(size_before=size, size_after=size)
    if not options.enabled or len(messages) <= _FEWEST or not 0 < options.max_input_chars < size:
        return plan
    history = _read(messages, options, settled, messages if sources is None else sources)
    for stage in (_mask, _summarize):
        plan = stage(history, plan)
        if plan.size_after <= options.max_input_chars and _is_sound(history, plan):
            return plan
    cut = _truncate(history, plan)
    return cut if _is_sound(history, cut) else set_aside(cut)


_FEWEST = 2
"""Messages that are never reduced, however long."""

_SYSTEM_ROLES = ("system", "developer")


class _History(NamedTuple):
    """A conversation, and what of it is kept; `left_out` are the positions of all else."""

    messages: list[ChatMessage]
    sources: list[ChatMessage]
    settled: Container[int]
    options: ReductionOptions
    results: tuple[ToolResult, ...]
    pairs: Pairs
    kept: frozenset[int]
    left_out: tuple[int, ...]


def _read(
    messages: list[ChatMessage],
    options: ReductionOptions,
    settled: Container[int],
    sources: list[ChatMessage],
) -> _History:
    pairs = find_pairs(messages)
    kept = close_over_pairs(_find_kept(messages, options.preserve_recent_raw_turns), pairs)
    return _History(
        messages=messages,
        sources=sources,
        settled=settled,
        options=options,
        results=find_tool_results({"messages": messages}).results,
        pairs=pairs,
        kept=kept,
        left_out=tuple(position for position in range(len(messages)) if position not in kept),
    )


def _find_kept(messages: Sequence[object], recent: int) -> list[int]:
    """Return the positions that are kept whatever they are paired with."""
    others = [at for at, message in enumerate(messages) if not is_system(message)]
    gone = frozenset(others[:-recent] if recent > 0 else others)
    return [at for at in range(len(messages)) if at not in gone]


def is_system(message: object) -> bool:
    """Whether a message is one of those that a reduction always keeps."""
    return isinstance(message, dict) and message.get("role") in _SYSTEM_ROLES


def _is_sound(history: _History, plan: ReductionPlan) -> bool:
    messages = history.messages
    return keeps_pairs(history.pairs, plan.apply(messages), plan.order(len(messages)))


def _mask(history: _History, plan: ReductionPlan) -> ReductionPlan:
    if not history.options.observation_masking:
        return plan
    masked = tuple(filter(None, map(tuple, _find_replacements(history))))
    replacements = tuple(replacement for found in masked for replacement in found)
    chars = sum(len(r.text) - len(r.placeholder) for r in replacements)
    return replace(
        plan,
        stage="masking",
        replacements=replacements,
        masked_count=len(masked),
        masked_chars=chars,
        size_after=plan.size_before - chars,
    )


def _find_replacements(history: _History) -> Iterator[Iterator[Replacement]]:
    max_chars = history.options.max_observation_chars
    for place, result in enumerate(history.results):
        if find_position(result) not in history.kept and place not in history.settled:
            yield _replace_texts(result, max_chars)


def _replace_texts(result: ToolResult, max_chars: int) -> Iterator[Replacement]:
    """Yield what becomes of a result: a content that is more than text stays as it is."""
    if result.kind == "other" or _has_block_across_parts(result):
        return
    for place, text in enumerate(result.texts):
        masked = mask_observation(text, max_chars)
        if masked != text:
            yield Replacement(result.path_of_text(place), text, masked)


def _has_block_across_parts(result: ToolResult) -> bool:
    """Whether a dispatch result begins in one text part and ends in another."""
    in_parts = sum(len(find_blocks(text)) for text in result.texts)
    return len(result.texts) > 1 and len(find_blocks(result.text)) > in_parts


def _summarize(history: _History, plan: ReductionPlan) -> ReductionPlan:
    if not history.left_out or history.options.summary_max_chars <= 0:
        return plan
    left_out = [history.sources[position] for position in history.left_out]
    outcomes = tuple(_find_outcomes(history))
    summary = render_summary(left_out, outcomes, history.options.summary_max_chars)
    cut = _truncate(history, plan)
    return replace(
        cut,
        stage="summarization",
        summary=summary,
        summary_at=sum(1 for _ in takewhile(is_system, history.messages)),
        size_after=cut.size_after + len(summary),
    )


def _find_outcomes(history: _History) -> Iterator[ToolResult]:
    """Yield the results that a summary may quote: of those left out, all but placeholders."""
    sources = find_tool_results({"messages": history.sources}).results
    for place, (source, result) in enumerate(zip(sources, history.results, strict=True)):
        is_placeholder = place in history.settled and source.texts == result.texts
        if find_position(source) not in history.kept and not is_placeholder:
            yield source


def _truncate(history: _History, plan: ReductionPlan) -> ReductionPlan:
    kept = (history.messages[position] for position in history.kept)
    return replace(
        plan,
        stage="fallback",
        replacements=(),
        dropped=frozenset(history.left_out),
        summary=None,
        size_after=count_chars(kept),
    )


def set_aside(plan: ReductionPlan) -> ReductionPlan:
    """Return what is left of a last stage that must not be carried out: nothing is done."""
    return replace(plan, dropped=frozenset(), size_after=plan.size_before)
