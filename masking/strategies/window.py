"""Schéma 1: tool results older than a window of tool turns become placeholders."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from masking.conversation import Conversation
from masking.layout import lay_out
from masking.measures.token_estimate import estimate_tokens
from masking.model import (
    Decision,
    KeepReason,
    Layout,
    Maskable,
    ToolResult,
    make,
)
from masking.strategies.boundary import Boundary, find_boundary
from masking.strategies.error_signs import looks_like_error
from masking.strategies.placeholder import Rendering, Template, parse_template
from masking.strategies.policy import MaskPolicy


def decide(conversation: Conversation, policy: MaskPolicy) -> tuple[Decision, ...]:
    """Decide every tool result of a request, in order; one decision per result."""
    if not policy.masks:
        return tuple(Decision(result, "off") for result in conversation.results)
    view = _View(policy, parse_template(policy.placeholder_template), policy.must_shrink)
    if policy.slides:
        boundary = Boundary(policy.find_edge(conversation.turns), len(conversation.results))
        return _draw(conversation, view, boundary, conversation.results, None)
    layout = lay_out(conversation)
    judged = judge(conversation, policy)
    maskable = find_maskable(judged, layout)
    boundary = find_boundary(layout.requests, maskable, policy, layout.marked)
    return decide_by_boundary(conversation, policy, boundary, judged, layout)


def decide_by_boundary(
    conversation: Conversation,
    policy: MaskPolicy,
    boundary: Boundary,
    judged: Sequence[Decision],
    layout: Layout,
) -> tuple[Decision, ...]:
    """Decide every tool result of a request whose boundary is known; `judged` as by `judge`."""
    view = _View(policy, parse_template(policy.placeholder_template), policy.must_shrink)
    known = (
        conversation.results if policy.slides else _forget_early_calls(conversation.results, layout)
    )
    return _draw(conversation, view, boundary, known, judged)


def mask_again(results: Sequence[ToolResult], rendering: Rendering) -> list[Decision]:
    """Mask results in the same words as before, whatever the settings say now.

    A content that has become one which is never masked stays as it is.
    """
    policy = MaskPolicy(True, skip_if_not_shorter=rendering.must_shrink)
    view = _View(policy, parse_template(rendering.template), policy.must_shrink)
    return [
        Decision(result, "not_string") if result.kind == "other" else _mask(result, view)
        for result in results
    ]


def judge(
    conversation: Conversation, policy: MaskPolicy, again: Mapping[int, Decision] | None = None
) -> tuple[Decision, ...]:
    """Decide every tool result by what it is, as if each were old enough.

    `again` has the decisions on results that were masked before, by place.
    """
    view = _View(policy, parse_template(policy.placeholder_template), policy.must_shrink)
    decided = again or {}
    return tuple(
        decided.get(place) or _judge(result, view)
        for place, result in enumerate(conversation.results)
    )


def find_maskable(judged: Sequence[Decision], layout: Layout) -> list[Maskable]:
    """Return the tool results as the boundary sees them, in estimated tokens.

    `judged` is what `judge` returns for them.
    """
    known = _forget_early_calls([decision.result for decision in judged], layout)
    return [
        Maskable(result.turn, offset, _find_saving(d, size), result.tool, result.target)
        for d, result, offset, size in zip(judged, known, layout.offsets, layout.sizes, strict=True)
    ]


def _find_saving(decision: Decision, size: int) -> int:
    """Return what a decision saves, in estimated tokens; 0 if its placeholder is longer."""
    replaced = decision.replacements
    if not replaced or decision.result.kind != "string":  # what stays saves nothing
        size = sum(estimate_tokens(r.text) for r in replaced)
    return max(0, size - sum(estimate_tokens(r.placeholder) for r in replaced))


class _View(NamedTuple):
    """What every result is judged by, wherever it stands."""

    policy: MaskPolicy
    template: Template
    must_shrink: bool
    """As the policy has it; worked out once, as every result asks."""


def _forget_early_calls(results: Sequence[ToolResult], layout: Layout) -> list[ToolResult]:
    """Return the results, without tool and target if the call came after the result.

    These were unknown when the boundary last moved, and what was decided then must stand.
    """
    return [
        result._replace(tool=None, target=None)
        if result.turn is None or result.turn >= turns
        else result
        for result, turns in zip(results, layout.turns, strict=True)
    ]


def _draw(
    conversation: Conversation,
    view: _View,
    boundary: Boundary,
    known: Sequence[ToolResult],
    judged: Sequence[Decision] | None,
) -> tuple[Decision, ...]:
    """Decide by where a result stands, and by what it is only if that leaves it open."""
    edge = view.policy.find_edge(conversation.turns)
    protected = _find_protected(known[: boundary.results], boundary, view.policy)
    decisions = []
    for place, result in enumerate(conversation.results):
        reason = _find_reason_to_keep(place, result, edge, boundary) or protected.get(place)
        if reason is not None:
            decisions.append(Decision(result, reason))
        else:
            decisions.append(_judge(result, view) if judged is None else judged[place])
    return tuple(decisions)


def _find_protected(
    known: Sequence[ToolResult], boundary: Boundary, policy: MaskPolicy
) -> dict[int, KeepReason]:
    """Return what is kept behind the boundary, as of when the boundary last moved."""
    last = dict.fromkeys(_find_last_of_each_tool(known, policy.keep_last_k_per_tool or 0), "last_k")
    latest = dict.fromkeys(_find_latest_of_each_target(known, boundary, policy), "latest")
    return cast(dict[int, KeepReason], {**latest, **last})


def _find_last_of_each_tool(results: Sequence[ToolResult], k: int) -> Iterator[int]:
    seen: Counter[str] = Counter()
    for place in range(len(results) - 1, -1, -1) if k > 0 else ():
        tool = results[place].tool
        if tool is not None and seen[tool] < k:
            seen[tool] += 1
            yield place


def _find_latest_of_each_target(
    results: Sequence[ToolResult], boundary: Boundary, policy: MaskPolicy
) -> Iterator[int]:
    """Yield the latest result of each target, unless it is too old; in turns, as the window's."""
    if policy.keep_latest_turns <= 0:
        return
    oldest = boundary.turn + policy.window_turns - policy.keep_latest_turns
    called = (
        place for place, r in enumerate(results) if r.target is not None and r.turn is not None
    )
    latest = {results[place].target: place for place in called}
    yield from (place for place in latest.values() if (results[place].turn or 0) >= oldest)


def _find_reason_to_keep(
    place: int, result: ToolResult, edge: int, boundary: Boundary
) -> KeepReason | None:
    """Return the first reason that applies whatever the result is, in the contract's order."""
    if result.call_id is None:
        return "bad_id"
    if result.turn is None:
        return "orphan"
    if result.turn >= edge:
        return "in_window"
    return "held" if result.turn >= boundary.turn or place >= boundary.results else None


def _judge(result: ToolResult, view: _View) -> Decision:
    """Decide a result that is old enough, by what it is."""
    policy, kind = view.policy, result.kind
    is_maskable = kind == "string" or (kind == "text_parts" and policy.mask_text_parts)
    if policy.keep_errors and _is_error(result, policy, is_maskable):
        return Decision(result, "error")
    return _mask(result, view) if is_maskable else Decision(result, "not_string")


def _is_error(result: ToolResult, policy: MaskPolicy, is_maskable: bool) -> bool:
    return result.is_error or (
        is_maskable and looks_like_error(result.text, policy.error_words_max_chars)
    )


def _mask(result: ToolResult, view: _View) -> Decision:
    call_id, tool, template = result.call_id or "", result.tool, view.template
    min_chars = view.policy.min_chars
    is_short = min_chars > 0 and sum(map(len, result.texts)) < min_chars
    must_shrink = view.must_shrink or result.kind == "text_parts"
    replacements = []
    reason: KeepReason = "already_masked"
    for place, text in enumerate(result.texts):
        if template.could_have_rendered(text, call_id, tool):
            continue
        if is_short:
            reason = "too_short"
            continue
        placeholder = template.render(call_id, tool, text)
        if must_shrink and not _is_shorter(placeholder, text):
            reason = "not_shorter"
        else:
            replacements.append(result.replace(place, placeholder))
    settled = "masked" if replacements else reason
    return make(Decision, (result, settled, tuple(replacements), None, False))


def _is_shorter(placeholder: str, text: str) -> bool:
    """Whether it is shorter in characters, which is quickly found, and in estimated tokens."""
    return len(placeholder) < len(text) and estimate_tokens(placeholder) < estimate_tokens(text)
