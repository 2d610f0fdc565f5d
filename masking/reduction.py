"""Graduated reduction: old observations are masked, else old messages summarized, else dropped.

No more is done than the budget requires, and a call is never parted from its results. More is kept
where a provider asks for an order of roles, never less. What is to be done is decided here, as
edits; `masking.edit` does it. Source: history-reducer-design.md.

An observation is the reduction's word for a tool's output. A pair is an element of the assistant
with calls, and an element with results of them.
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from masking.conversation import Conversation, bind, find_answers
from masking.history import History
from masking.history_summary import find_blocks, render_summary
from masking.model import Decision, Edits, Element, Replacement, ToolResult, replacements_of
from masking.setting import describes_settings, setting
from masking.window.placeholder import clip
from masking.wire.format import WireFormat

ReductionStage = Literal["masking", "summarization", "fallback"]

_FEWEST = 2
"""Elements that are never reduced, however long."""


@describes_settings
@dataclass(frozen=True, kw_only=True)
class ReductionOptions:
    """Settings for reduction. Sizes are in characters (code points).

    Of a placeholder, one character always stays.
    """

    enabled: bool = setting(
        False,
        "Fit a history that is too long into a budget: mask old results, else replace old "
        "messages with a summary, else drop them. Runs last. Nothing else removes messages.",
    )
    max_input_chars: int = setting(
        400_000,
        "The budget: characters of all texts; 0 turns this off.",
    )
    preserve_recent_raw_turns: int = setting(
        4,
        "This many of the last messages stay, with what is paired with them, and so do system "
        "messages and results that the model hasn't read.",
    )
    summary_max_chars: int = setting(
        1_400,
        "The longest summary; 0 drops old messages right away.",
    )
    observation_masking: bool = setting(
        True,
        "`false` skips the first stage.",
    )
    max_observation_chars: int = setting(
        80,
        "The longest placeholder of the first stage.",
    )

    @cached_property
    def reduces(self) -> bool:
        """Whether these options can reduce anything at all."""
        return self.enabled and self.max_input_chars > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionPlan:
    """The edits of a reduction; all other elements stay as they are.

    size_before, size_after: the code points of all texts.
    stage: the last stage that was needed; None if none was.
    replaced: what is decided on the results that are masked, by their places.
    dropped: the positions of the elements that are dropped.
    summary, summary_at: a new element of the user's, None if there is none, and its position,
        which is the same before and after the drop, because everything before it is kept.
    masked_count, masked_chars: the results that the first stage masked, and the characters that
        this removed, even if a later stage then dropped these results.
    """

    size_before: int
    size_after: int
    stage: ReductionStage | None = None
    replaced: Mapping[int, Decision] = field(default_factory=dict)
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
    def edits(self) -> Edits:
        """What is to be done; nothing if the plan changes nothing."""
        replacements = replacements_of(self.replaced.values())
        return Edits(replacements, self.dropped, self.summary, self.summary_at)


def plan_reduction(
    conversation: Conversation,
    options: ReductionOptions,
    settled: Container[int] = frozenset(),
    sources: Conversation | None = None,
) -> ReductionPlan:
    """Plan how to bring a conversation within its budget.

    Kept are the system's elements, the last of the others, the results behind the last answer, and
    what is paired with one of these.
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
    reduction = _Reduction(conversation, options, settled, sources or conversation)
    for stage in (reduction.mask, reduction.summarize):
        plan = stage(plan)
        if plan.size_after <= options.max_input_chars and reduction.is_sound(plan):
            return plan
    last = reduction.truncate(plan)
    return last if reduction.is_sound(last) else set_aside(last)


def leaves_system_alone(conversation: Conversation, plan: ReductionPlan) -> bool:
    """Whether only the system would still speak: providers refuse such a request."""
    left = (e for at, e in enumerate(conversation.elements) if at not in plan.dropped)
    return plan.summary is None and all(element.speaker == "system" for element in left)


def set_aside(plan: ReductionPlan) -> ReductionPlan:
    """Return the plan without its last stage, which must not be carried out: it does nothing."""
    return replace(plan, dropped=frozenset(), size_after=plan.size_before)


def count_chars(elements: Iterable[Element]) -> int:
    """Return the size of the elements: the code points of all their texts."""
    chars = 0
    for element in elements:
        chars += sum(map(len, element.texts))
        for result in element.results:
            chars += sum(map(len, (*result.texts, *result.tails)))
    return chars


class _Reduction:
    """The stages, over one conversation.

    `_kept` are the positions of the elements that no stage touches, and `_leading` is the number of
    the system's at the beginning.
    """

    def __init__(
        self,
        conversation: Conversation,
        options: ReductionOptions,
        settled: Container[int],
        sources: Conversation,
    ) -> None:
        self._conversation, self._sources = conversation, sources
        self._options, self._settled = options, settled
        # Kept are all of the system's, the last of the others, and the results that the model has
        # not read, with what these belong to.
        elements, recent = conversation.elements, options.preserve_recent_raw_turns
        self._pairs = find_pairs(elements, conversation.results, conversation.wire)
        others = [at for at, element in enumerate(elements) if element.speaker != "system"]
        self._leading = others[0] if others else len(elements)
        last = conversation.last_answer
        unread = {each.element for each in conversation.results if each.element > last}
        old = frozenset(others[:-recent] if recent > 0 else others) - unread
        self._kept = self._close(frozenset(range(len(elements))) - old)

    def mask(self, plan: ReductionPlan) -> ReductionPlan:
        """Replace the observations that are not kept."""
        if not self._options.observation_masking:
            return plan
        replaced = {
            place: Decision(result, "reduced", replacements)
            for place, result in enumerate(self._conversation.results)
            if result.element not in self._kept and place not in self._settled
            if (replacements := tuple(self._mask_texts(result)))
        }
        texts = [replacement for each in replaced.values() for replacement in each.replacements]
        chars = sum(len(each.text) - len(each.placeholder) for each in texts)
        return replace(
            plan,
            stage="masking",
            replaced=replaced,
            masked_count=len(replaced),
            masked_chars=chars,
            size_after=plan.size_before - chars,
        )

    def summarize(self, plan: ReductionPlan) -> ReductionPlan:
        """Replace all that is not kept by a summary, which the user says."""
        conversation, max_chars = self._conversation, self._options.summary_max_chars
        kept = self._kept
        if conversation.wire.role_order == "alternating":
            # The assistant must speak next. While another does, its answer before that is kept too.
            spoken = [at for at, e in enumerate(conversation.elements) if e.speaker == "assistant"]
            while (first := self._first_spoken(kept)) is not None and first not in spoken:
                before = [at for at in spoken if at < first]
                if not before:
                    break
                kept = self._close(kept | {before[-1]})
        rest = self._drop_others(plan, kept)
        if not rest.dropped or max_chars <= 0:
            return plan
        summary = render_summary(
            [self._sources.elements[at] for at in sorted(rest.dropped)],
            tuple(self._quotable(rest.dropped)),
            max_chars,
        )
        return replace(
            rest,
            stage="summarization",
            summary=conversation.wire.user_message(summary),
            summary_at=self._leading,
            size_after=rest.size_after + len(summary),
        )

    def truncate(self, plan: ReductionPlan) -> ReductionPlan:
        """Drop all that is not kept."""
        conversation, kept = self._conversation, self._kept
        elements = conversation.elements
        # Unless a provider lets anybody open a conversation, the user must: if somebody else would,
        # the user's last words before that are kept too.
        first = self._first_spoken(kept)
        may_open = conversation.wire.role_order == "any"
        if not (may_open or first is None or _is_users_own(elements[first])):
            openings = [at for at in range(first) if _is_users_own(elements[at])]
            kept |= {*openings[-1:]}
        return self._drop_others(plan, kept)

    def is_sound(self, plan: ReductionPlan) -> bool:
        """Whether each pair is whole or wholly gone, and the provider takes what is left."""
        if not plan.dropped:
            return True
        conversation, wire = self._conversation, self._conversation.wire
        order = plan.edits.order(len(conversation.elements))
        summary = wire.read_element(plan.summary)
        after = [summary if at is None else conversation.elements[at] for at in order]
        if not keeps_pairs(self._pairs, after, order, wire):
            return False
        if wire.role_order != "alternating":
            return True
        # What the client sent may not alternate either; only new neighbors are ours to answer for.
        return not any(
            (one.speaker == "assistant") == (other.speaker == "assistant")
            for (one, at), (other, then) in pairwise(zip(after, order, strict=True))
            if at is None or then is None or then != at + 1
        )

    def _mask_texts(self, result: ToolResult) -> Iterator[Replacement]:
        """Yield the replacements in a result; a content that is more than text stays as it is."""
        if result.kind == "other":
            return
        if len(result.texts) > 1:
            # A dispatch result that begins in one text and ends in another would be torn apart.
            whole = sum(len(find_blocks(text)) for text in result.texts)
            if len(find_blocks(result.text)) > whole:
                return
        for place, text in enumerate(result.texts):
            left_out = len(result.client_text(place)) - len(text)
            masked = mask_observation(text, self._options.max_observation_chars, left_out)
            if masked != text:
                yield result.replace(place, masked)

    def _quotable(self, dropped: Container[int]) -> Iterator[ToolResult]:
        """Yield the results that a summary may quote: those dropped, except for placeholders."""
        results = zip(self._sources.results, self._conversation.results, strict=True)
        for place, (source, result) in enumerate(results):
            is_placeholder = place in self._settled and source.texts == result.texts
            if source.element in dropped and not is_placeholder:
                yield source

    def _drop_others(self, plan: ReductionPlan, kept: frozenset[int]) -> ReductionPlan:
        elements = self._conversation.elements
        return replace(
            plan,
            stage="fallback",
            replaced={},
            dropped=frozenset(range(len(elements))) - kept,
            summary=None,
            size_after=count_chars(elements[position] for position in kept),
        )

    def _close(self, kept: frozenset[int]) -> frozenset[int]:
        """Return the positions in `kept`, and those of all that belongs to one of them.

        That is the rest of its answer, as a provider refuses reasoning without the words or calls
        that it led to, and these without it; and what is paired with it.
        """
        answers = self._conversation.answers
        kept = kept.union(*(answer for answer in answers if not kept.isdisjoint(answer)))
        return close_over_pairs(kept, self._pairs)

    def _first_spoken(self, kept: Collection[int]) -> int | None:
        """Return the first position that is kept after the leading elements of the system."""
        return min((at for at in kept if at >= self._leading), default=None)


def _is_users_own(element: Element) -> bool:
    """Whether the user speaks, and answers no call."""
    return element.speaker == "user" and not element.results


# Pairs

Pairs = Mapping[int, frozenset[int]]
"""By the position of an element with tool results, those of the elements that called for them."""


def find_pairs(
    elements: Sequence[Element], results: Iterable[ToolResult], wire: WireFormat
) -> dict[int, frozenset[int]]:
    """Bind the elements with tool results to those with their calls.

    Orphans, results without an id and calls without a result are in no pair.
    """
    turns = [
        frozenset(answer)
        for answer in find_answers(elements, in_runs=wire.answers_in_runs)
        if any(elements[at].is_turn for at in answer)
    ]
    pairs: dict[int, frozenset[int]] = {}
    for result in results:
        if result.turn is not None:
            known = pairs.get(result.element, frozenset())
            pairs[result.element] = known | turns[result.turn]
    return pairs


def close_over_pairs(kept: Collection[int], pairs: Pairs) -> frozenset[int]:
    """Return the positions in `kept`, and those of all that is paired with one of them."""
    closed = {*kept}
    before = -1
    while before < len(closed):
        before = len(closed)
        for result, calls in pairs.items():
            if result in closed or not closed.isdisjoint(calls):
                closed |= {result, *calls}
    return frozenset(closed)


def keeps_pairs(
    pairs: Pairs, after: Sequence[Element], origins: Sequence[int | None], wire: WireFormat
) -> bool:
    """Whether each pair is whole in what is left or gone from it, and none is new.

    `origins` are the positions that the elements had; None for one that had none.
    """
    there = frozenset(origins)
    expected = {
        result: calls
        for result, calls in pairs.items()
        if result in there or not there.isdisjoint(calls)
    }
    found = find_pairs(after, bind(History(), after, wire)[1], wire).items()
    return expected == {origins[r]: frozenset(origins[at] for at in calls) for r, calls in found}


# Observations

_COUNT = re.compile(r"\[(?:observation|dispatch output) masked — ([0-9]{1,20})")

_BEGINNINGS = ("[", "...")
"""A placeholder begins like this, however short it was clipped."""

_ANY_COUNT = "0" * 20
"""Digits to continue with if a placeholder was clipped before the end of its number."""


def mask_observation(text: str, max_chars: int, left_out: int = 0) -> str:
    """Return a placeholder, followed by the blocks of dispatch results in the text.

    left_out: the code points that are no longer in the text, because it was shortened at arrival.

    The placeholder is clipped to `max_chars` code points but never to nothing, because some
    providers refuse an empty result. Blocks are not clipped. The very same text comes back if the
    outcome would not be shorter, or if the text is already such an outcome, with any number.
    """
    blocks = find_blocks(text)
    outside = left_out + len(text) - sum(map(len, blocks))
    masked = _render_observation(str(outside), blocks, max_chars)
    if len(masked) >= len(text) or _could_have_rendered(text, blocks, max_chars):
        return text
    return masked


def _render_observation(outside: str, blocks: Sequence[str], max_chars: int) -> str:
    kind = "dispatch output" if blocks else "observation"
    placeholder = clip(f"[{kind} masked — {outside} chars]", max(1, max_chars))
    return "\n".join((placeholder, *blocks))


def _could_have_rendered(text: str, blocks: Sequence[str], max_chars: int) -> bool:
    if not text.startswith(_BEGINNINGS):
        return False
    count = _COUNT.match(text)
    digits = count[1] if count else ""
    counts = (digits, digits + _ANY_COUNT)
    return any(_render_observation(outside, blocks, max_chars) == text for outside in counts)
