"""Schéma 1: tool results older than a window of tool turns become placeholders."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from masking.conversation import Conversation
from masking.history import History
from masking.layout import lay_out
from masking.model import Decision, Layout, Maskable, Replacement, ToolResult, make
from masking.prices import fits_window
from masking.reasons import KeepReason
from masking.strategies.asked_again import find_asked_again
from masking.strategies.boundary import allows_whole, find_boundary
from masking.strategies.boundary_fold import Boundary, Made
from masking.strategies.named_results import find_named
from masking.strategies.policy import MaskPolicy
from masking.strategies.protected import AFTER_NAMES, find_protected
from masking.tokens import estimate_tokens
from masking.window.placeholder import Rendering, Template, is_placeholder, parse_template
from masking.window.signs import looks_like_error


def decide(conversation: Conversation, policy: MaskPolicy) -> tuple[Decision, ...]:
    """Decide every tool result of a request, in order; one decision per result."""
    if not policy.masks:
        return tuple(Decision(result, "off") for result in conversation.results)
    history = conversation.history
    if policy.slides:
        edge = policy.find_edge(conversation.turns)
        judged = judge(conversation, policy, edge)
        boundary = Boundary(edge, len(conversation.results))
        return _draw(conversation, policy, boundary, conversation.results, judged)
    layout = lay_out(conversation)
    judged = judge(conversation, policy)
    maskable = find_maskable(judged, layout, history)
    boundary = find_boundary(layout.requests, maskable, policy, layout.marked, history)
    return decide_by_boundary(conversation, policy, boundary, judged, layout)


def decide_by_boundary(
    conversation: Conversation,
    policy: MaskPolicy,
    boundary: Boundary,
    judged: Sequence[Decision],
    layout: Layout,
) -> tuple[Decision, ...]:
    """Decide every tool result of a request whose boundary is known; `judged` as by `judge`."""
    known = conversation.results
    if policy.protects and not policy.slides:
        known = _forget_early_calls(known, layout)
    return _draw(conversation, policy, boundary, known, judged)


def may_be_whole(
    layout: Layout, maskable: Sequence[Maskable], policy: MaskPolicy, made: Made | None = None
) -> bool:
    """Whether a request may be sent with nothing masked: it fits the window, at a bearable price.

    Without what was `made`, earlier requests are taken to have been sent as the rule has it.
    """
    fits = fits_window(layout.requests[-1].size, policy.model_window)
    return fits and allows_whole(layout.requests, maskable, policy, made, layout.marked)


def leave_whole(conversation: Conversation) -> tuple[Decision, ...]:
    """Return the decisions for an agent's request for a summary: every result stays."""
    return tuple(Decision(result, "summary") for result in conversation.results)


def mask_again(results: Sequence[ToolResult], rendering: Rendering) -> list[Decision]:
    """Mask results in the same words as before, whatever the settings say now.

    A content that has become one which is never masked stays as it is.
    """
    policy = MaskPolicy(
        True,
        skip_if_not_shorter=rendering.must_shrink,
        # A list in which no image was masked was a string then.
        mask_text_parts=rendering.in_lists or not rendering.images,
        mask_images=rendering.images,
        min_chars=rendering.min_chars,
    )
    template = parse_template(rendering.template, rendering.arguments_chars)
    view = _View(policy, template, policy.must_shrink, policy.names_results)
    return [
        _mask(result, view) if _is_maskable(result, policy) else Decision(result, "not_string")
        for result in results
    ]


def in_order(replacements: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Return the replacements of a result in the order of its parts."""

    def find_place(replacement: Replacement) -> list[int]:
        return [step for step in replacement.path if isinstance(step, int)]

    return tuple(sorted(replacements, key=find_place))


def judge(
    conversation: Conversation, policy: MaskPolicy, edge: int | None = None
) -> list[Decision]:
    """Decide the tool results by what they are, as if each were old enough.

    With an `edge`, no more than up to the last one of a turn before it.
    """
    view = _View(policy, policy.template, policy.must_shrink, policy.names_results)
    results = conversation.results
    if edge is not None:
        results = results[: _count_before(results, edge)]
    judged = conversation.history.map_each(_judge, results, view, is_same=_is_same)
    if policy.keep_rereads:
        # None of them is kept by its name: the earlier call would be, too, as it is the same.
        for place in [*find_asked_again(judged, policy.window_turns)]:
            judged[place] = Decision(judged[place].result, "reread")
    return judged


def _is_same(was: ToolResult, result: ToolResult) -> bool:
    """Whether what was judged holds; equal arguments may be spelled otherwise in a placeholder."""
    return was.arguments is result.arguments and was == result


def find_maskable(
    judged: Sequence[Decision], layout: Layout, history: History | None = None
) -> list[Maskable]:
    """Return the tool results as the boundary sees them, in estimated tokens.

    `judged` is what `judge` returns for them.
    """
    seen = [*zip(judged, layout.offsets, layout.sizes, layout.turns, strict=True)]
    return (History() if history is None else history).map_each(_find_maskable, seen)


def _find_maskable(seen: tuple[Decision, int, int, int]) -> Maskable:
    decision, offset, size, turns = seen
    saving = _find_saving(decision, size)
    result = _forget_early_call(decision.result, turns)
    images = len(result.images)
    return make(Maskable, (result.turn, offset, saving, result.tool, result.target, images))


def _count_before(results: Sequence[ToolResult], edge: int) -> int:
    """Return how many results there are up to the last one of a turn before the edge."""
    for count in range(len(results), 0, -1):
        turn = results[count - 1].turn
        if turn is not None and turn < edge:
            return count
    return 0


def _find_saving(decision: Decision, size: int) -> int:
    """Return what a decision saves, in estimated tokens; 0 if its placeholder is longer."""
    replaced, result = decision.replacements, decision.result
    if not replaced or result.kind != "string" or result.images:  # what stays saves nothing
        return max(0, sum(r.saves(estimate_tokens) for r in replaced))
    return max(0, size - sum(estimate_tokens(r.placeholder) for r in replaced))


class _View(NamedTuple):
    """What every result is judged by, wherever it stands."""

    policy: MaskPolicy
    template: Template
    must_shrink: bool
    names_results: bool
    """As the policy has them; worked out once, as every result asks."""


def _forget_early_calls(results: Sequence[ToolResult], layout: Layout) -> tuple[ToolResult, ...]:
    return tuple(map(_forget_early_call, results, layout.turns))


def _forget_early_call(result: ToolResult, turns: int) -> ToolResult:
    """Return a result, without tool and target if the call came after the result.

    These were unknown when the boundary last moved, and what was decided then must stand. `turns`
    is how many turns there were before the result.
    """
    if result.turn is None or result.turn >= turns:
        return result._replace(tool=None, target=None)
    return result


def _draw(
    conversation: Conversation,
    policy: MaskPolicy,
    boundary: Boundary,
    known: Sequence[ToolResult],
    judged: Sequence[Decision],
) -> tuple[Decision, ...]:
    """Decide by where a result stands, and by what it is only if that leaves it open."""
    edge = policy.find_edge(conversation.turns)
    protected: Mapping[int, KeepReason] = {}
    if policy.protects:
        protected = find_protected(known[: boundary.results], boundary, policy)
    decisions = []
    for place, result in enumerate(conversation.results):
        reason = _find_reason_to_keep(place, result, edge, boundary) or protected.get(place)
        if reason in AFTER_NAMES:  # what is named stays so, and that reason comes first
            reason = find_named(result, policy) or reason
        if reason is None:
            decisions.append(judged[place])
        else:
            decisions.append(make(Decision, (result, reason, (), None, False)))
    return tuple(decisions)


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
    policy = view.policy
    if view.names_results and (named := find_named(result, policy)):
        return Decision(result, named)
    is_maskable = _is_maskable(result, policy)
    if policy.keep_errors and _is_error(result, policy, is_maskable):
        return Decision(result, "error")
    return _mask(result, view) if is_maskable else Decision(result, "not_string")


def _masks_texts(result: ToolResult, policy: MaskPolicy) -> bool:
    return result.kind == "string" or (result.kind == "text_parts" and policy.mask_text_parts)


def _is_maskable(result: ToolResult, policy: MaskPolicy) -> bool:
    return _masks_texts(result, policy) or (policy.mask_images and bool(result.images))


def _is_error(result: ToolResult, policy: MaskPolicy, is_maskable: bool) -> bool:
    return result.is_error or (
        is_maskable and looks_like_error(result.text, policy.error_words_max_chars)
    )


def _mask(result: ToolResult, view: _View) -> Decision:
    call_id, tool, template = result.call_id or "", result.tool, view.template
    policy = view.policy
    must_shrink = view.must_shrink or result.kind == "text_parts"
    texts = result.texts if _masks_texts(result, policy) else ()
    left = [
        (place, text)
        for place, text in enumerate(texts)
        if not is_placeholder(result, place, template)
    ]
    # An image's placeholder makes a result no longer: what is masked twice is masked once.
    is_short = policy.min_chars > 0 and sum(len(text) for _, text in left) < policy.min_chars
    replacements = []
    reason: KeepReason = "already_masked"
    for place, text in left:
        if is_short:
            reason = "too_short"
            continue
        placeholder = template.render(call_id, tool, text, result.arguments)
        if must_shrink and not _is_shorter(placeholder, text):
            reason = "not_shorter"
        else:
            replacements.append(result.replace(place, placeholder))
    if policy.mask_images and result.images:
        images = map(result.replace_image, result.images)
        return Decision(result, "masked", in_order((*replacements, *images)))
    settled = "masked" if replacements else reason
    return make(Decision, (result, settled, tuple(replacements), None, False))


def _is_shorter(placeholder: str, text: str) -> bool:
    """Whether it is shorter in characters, which is quickly found, and in estimated tokens."""
    return len(placeholder) < len(text) and estimate_tokens(placeholder) < estimate_tokens(text)
