"""Graduated reduction: old observations are masked, else old messages summarised, else dropped.

The rule: do no more than the budget requires, and never part a call from its results. This module
decides what is to be done, `ReductionPlan` says it, and `edit` does it.
Source: history-reducer-design.md.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from masking.conversation import Conversation
from masking.elements import Element
from masking.model import Replacement, ToolResult
from masking.strategies.dispatch_blocks import find_blocks, mask_observation
from masking.strategies.history_summary import render_summary
from masking.strategies.pairs import Pairs, close_over_pairs, find_pairs, keeps_pairs
from masking.strategies.reduction_plan import ReductionPlan
from masking.strategies.role_order import (
    keep_answers_whole,
    keep_before_summary,
    keep_opening,
    keeps_order,
)
from masking.strategies.texts import count_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOptions:
    """When a history is reduced, and to what. Sizes are in code points.

    enabled: off, nothing is ever reduced.
    max_input_chars: the budget for the texts of all messages together; 0 or less is off.
    preserve_recent_raw_turns: how many of the last messages that are not the system's stay as they
        are, with what is paired with them; 0 or less for none.
    summary_max_chars: the longest summary; 0 or less for none.
    observation_masking: off, the stage that masks is left out.
    max_observation_chars: the longest placeholder; one character always stays.
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


def plan_reduction(
    conversation: Conversation,
    options: ReductionOptions,
    settled: Container[int] = frozenset(),
    sources: Conversation | None = None,
) -> ReductionPlan:
    """Decide what becomes of a conversation that is over its budget.

    Kept are the system's elements, the last of the others, and what is paired with one of them.
    The first stage masks the tool results that are not kept, the second replaces all that is not
    kept by a summary, the third drops it. The last stage is final even if it leaves too much.

    If another strategy has changed the conversation, `settled` are the places of the tool results
    that are its placeholders, which are not masked again, and `sources` is the same request with
    the texts that a summary may quote.
    """
    size = count_chars(conversation.elements)
    plan = ReductionPlan(size_before=size, size_after=size)
    is_short = len(conversation.elements) <= _FEWEST
    if not options.enabled or is_short or not 0 < options.max_input_chars < size:
        return plan
    history = _read(conversation, options, settled, sources or conversation)
    for stage in (_mask, _summarize):
        plan = stage(history, plan)
        if plan.size_after <= options.max_input_chars and _is_sound(history, plan):
            return plan
    cut = _truncate(history, plan)
    return cut if _is_sound(history, cut) else set_aside(cut)


def leaves_nobody(conversation: Conversation, plan: ReductionPlan) -> bool:
    """Whether only the system would still speak: providers refuse such a request."""
    left = (e for at, e in enumerate(conversation.elements) if at not in plan.dropped)
    return plan.summary is None and all(element.speaker == "system" for element in left)


def set_aside(plan: ReductionPlan) -> ReductionPlan:
    """Return the plan without its last stage, which must not be carried out: it does nothing."""
    return replace(plan, dropped=frozenset(), size_after=plan.size_before)


_FEWEST = 2
"""Elements that are never reduced, however long."""


class _History(NamedTuple):
    """A conversation, and the positions of what of it is kept."""

    conversation: Conversation
    sources: Conversation
    settled: Container[int]
    options: ReductionOptions
    pairs: Pairs
    kept: frozenset[int]


def _read(
    conversation: Conversation,
    options: ReductionOptions,
    settled: Container[int],
    sources: Conversation,
) -> _History:
    pairs = find_pairs(conversation)
    recent = _find_kept(conversation.elements, options.preserve_recent_raw_turns)
    kept = close_over_pairs(recent, pairs)
    return _History(
        conversation=conversation,
        sources=sources,
        settled=settled,
        options=options,
        pairs=pairs,
        kept=keep_answers_whole(conversation, kept),
    )


def _find_kept(elements: Sequence[Element], recent: int) -> list[int]:
    """Return the positions that are kept, whatever they are paired with."""
    others = [at for at, element in enumerate(elements) if element.speaker != "system"]
    gone = frozenset(others[:-recent] if recent > 0 else others)
    return [at for at in range(len(elements)) if at not in gone]


def _is_sound(history: _History, plan: ReductionPlan) -> bool:
    """Whether each pair is whole or wholly gone, and the provider takes what is left."""
    if not plan.dropped:
        return True
    conversation = history.conversation
    order = plan.edits.order(len(conversation.elements))
    summary = conversation.wire.read_element(plan.summary)
    after = [summary if at is None else conversation.elements[at] for at in order]
    has_pairs = keeps_pairs(history.pairs, after, order, conversation.wire)
    return has_pairs and keeps_order(conversation, after, order)


def _mask(history: _History, plan: ReductionPlan) -> ReductionPlan:
    if not history.options.observation_masking:
        return plan
    replaced = {
        place: replacements
        for place, result in enumerate(history.conversation.results)
        if result.element not in history.kept and place not in history.settled
        if (replacements := tuple(_replace_texts(result, history.options.max_observation_chars)))
    }
    chars = sum(len(r.text) - len(r.placeholder) for found in replaced.values() for r in found)
    return replace(
        plan,
        stage="masking",
        replaced=replaced,
        masked_count=len(replaced),
        masked_chars=chars,
        size_after=plan.size_before - chars,
    )


def _replace_texts(result: ToolResult, max_chars: int) -> Iterator[Replacement]:
    """Yield the replacements in a result; a content that is more than text stays as it is."""
    if result.kind == "other" or _has_block_across_parts(result):
        return
    for place, text in enumerate(result.texts):
        masked = mask_observation(text, max_chars)
        if masked != text:
            yield result.replace(place, masked)


def _has_block_across_parts(result: ToolResult) -> bool:
    """Whether a dispatch result begins in one text part and ends in another."""
    if len(result.texts) < 2:
        return False
    in_parts = sum(len(find_blocks(text)) for text in result.texts)
    return len(find_blocks(result.text)) > in_parts


def _summarize(history: _History, plan: ReductionPlan) -> ReductionPlan:
    conversation = history.conversation
    kept = keep_before_summary(conversation, history.kept, history.pairs)
    cut = _cut(history, plan, kept)
    if not cut.dropped or history.options.summary_max_chars <= 0:
        return plan
    left_out = [history.sources.elements[position] for position in sorted(cut.dropped)]
    outcomes = tuple(_find_outcomes(history, cut.dropped))
    summary = render_summary(left_out, outcomes, history.options.summary_max_chars)
    leading = takewhile(lambda element: element.speaker == "system", conversation.elements)
    return replace(
        cut,
        stage="summarization",
        summary=conversation.wire.user_message(summary),
        summary_at=sum(1 for _ in leading),
        size_after=cut.size_after + len(summary),
    )


def _find_outcomes(history: _History, dropped: Container[int]) -> Iterator[ToolResult]:
    """Yield the results that a summary may quote: those dropped, except for placeholders."""
    results = zip(history.sources.results, history.conversation.results, strict=True)
    for place, (source, result) in enumerate(results):
        is_placeholder = place in history.settled and source.texts == result.texts
        if source.element in dropped and not is_placeholder:
            yield source


def _truncate(history: _History, plan: ReductionPlan) -> ReductionPlan:
    return _cut(history, plan, keep_opening(history.conversation, history.kept))


def _cut(history: _History, plan: ReductionPlan, kept: frozenset[int]) -> ReductionPlan:
    """Drop all that is not kept."""
    elements = history.conversation.elements
    return replace(
        plan,
        stage="fallback",
        replaced={},
        dropped=frozenset(range(len(elements))) - kept,
        summary=None,
        size_after=count_chars(elements[position] for position in kept),
    )
