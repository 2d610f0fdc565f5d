"""Clearing by the provider: what it takes out of a request that asks it to clear old tool results.

Where reasoning is bound to what precedes it, a changed result may be refused. A provider's own
clearing is no change, as it compares what was sent. So a request asks for it, and says by `keep`
where it ends: at the tool uses that stay. The provider remembers nothing, each request is cleared
anew; with as many tool uses as stand behind the boundary, its cut is the boundary.

The boundary moves by the same rule as ever, under the same promise (`masking.window.decide`). It
reckons with what the provider clears: every result before the cut, errors and short ones included,
but those of excluded tools.
"""

from dataclasses import replace
from functools import lru_cache

from masking.conversation import Conversation
from masking.model import Decision, Replacement, ToolResult
from masking.window.boundary import (
    Boundary,
    BoundaryPosition,
    BoundaryPrices,
    lay_out,
    window_edge,
)
from masking.window.decide import (
    Clearing,
    ConversationContext,
    Limits,
    WindowDecisions,
    begin_past,
    find_behind,
    find_sent_moves,
    find_tool_reason,
    leave_whole,
    measure_candidates,
)
from masking.window.placeholder import Rendering
from masking.window.policy import MaskPolicy

_PLACEHOLDER = "[Old tool result cleared by the provider]"
"""What a provider puts in place of a result is documented nowhere; we assume this length."""

_RENDERING = Rendering(_PLACEHOLDER, must_shrink=False)


def decide_clearing(
    conversation: Conversation,
    policy: MaskPolicy,
    prices: BoundaryPrices,
    context: ConversationContext,
    limits: Limits,
) -> WindowDecisions:
    """Decide every tool result of a request that may ask its provider to clear old ones.

    The conversation's past says what was cleared at its earlier requests.
    """
    results, past = conversation.results, context.past
    # A request that passed unseen restarts the cached prefix, so the past begins anew.
    if past is None or context.anchor.answers > past.last.answers + 1:
        past = begin_past(context)
    excluded, policy = _find_excluded(conversation, policy), _without_pins(policy)

    # 1. What each result is, as if it were old enough, and where the boundary stands then.
    layout = lay_out(conversation)
    evaluated = [_evaluate(result, policy) for result in results]
    candidates = measure_candidates(evaluated, layout, conversation.history)
    cleared: dict[int, list[int]] = {}
    for move in past.moves:
        known = layout.requests[move.anchor.answers].results
        places = cleared.setdefault(move.anchor.answers, [])
        places += [place for place, _, _ in move.results if place < known]
    sent = find_sent_moves(past, cleared, context, limits)
    boundary = Boundary.at_last(layout, candidates, policy, prices, sent, conversation.history)
    if limits.asks_summary and boundary.allows_whole():
        return leave_whole(conversation)

    # 2. A provider clears by calls. So where the model has not read a result of an old call, the
    # cut stands before that call, in this one request.
    edge, last = window_edge(policy, conversation.turns), conversation.last_answer
    unread = [r.turn for r in results if r.turn is not None and r.element > last]

    def cut(position: BoundaryPosition) -> tuple[int, list[Decision]]:
        turn = min((position.turn, *unread))
        placed = find_behind(conversation, edge, BoundaryPosition(turn, len(results)))
        return turn, [
            decision if reason is None else Decision(decision.result, reason)
            for decision, reason in zip(evaluated, placed, strict=True)
        ]

    # 3. It moves where that clears anything new, and asks where that saves anything: in a window
    # that slides there may be only a few short results.
    earlier = {place for places in cleared.values() for place in places}
    position, fresh = past.position, list[int]()
    if boundary.decide():
        _, decisions = cut(boundary.position)
        fresh = [n for n, d in enumerate(decisions) if d.reason == "cleared" and n not in earlier]
        position = boundary.position if fresh else position
    turn, decisions = cut(position)
    tokens = sum(candidates[n].saving for n, d in enumerate(decisions) if d.reason == "cleared")
    if tokens <= 0:
        _, decisions = cut(BoundaryPosition(0, 0))
        past = past.add(context, position, (), _RENDERING, slides=prices.slides)
        return WindowDecisions(tuple(decisions), past)
    past = past.add(context, position, fresh, _RENDERING, slides=prices.slides)
    clearing = Clearing(_count_uses(conversation, turn), tuple(sorted(excluded)), int(tokens))
    return WindowDecisions(tuple(decisions), replace(past, cleared=True), clearing=clearing)


@lru_cache(maxsize=64)
def _without_pins(policy: MaskPolicy) -> MaskPolicy:
    """Return a policy without what other results keep: a provider knows no such rule."""
    return replace(policy, keep_last_k_per_tool=None, keep_latest_turns=0, keep_last_images=0)


def _find_excluded(conversation: Conversation, policy: MaskPolicy) -> frozenset[str]:
    """Return the names of tools whose results the policy keeps, of all tools in a request."""
    tools = conversation.wire.find_tools(conversation.body)
    schemas = tools if isinstance(tools, list) else []
    named = [each.get("name") for each in schemas if isinstance(each, dict)]
    named += [call.tool for element in conversation.elements for call in element.calls]
    names = {name for name in named if isinstance(name, str)}
    globs = policy.keep_tools, policy.mask_tools
    return frozenset(name for name in names if find_tool_reason(name, *globs))


def _evaluate(result: ToolResult, policy: MaskPolicy) -> Decision:
    """Decide a tool result as if it were before the cut.

    What a provider clears stays in the request, so a replacement says only what the model gets:
    nothing of the result, nor of what its client has added to it.
    """
    globs = policy.keep_tools, policy.mask_tools
    if result.tool is not None and (named := find_tool_reason(result.tool, *globs)):
        return Decision(result, named)
    tails = result.tails or ("",) * len(result.texts)
    texts = [
        Replacement(slot, text + tail, "" if number else _PLACEHOLDER)
        for number, (slot, text, tail) in enumerate(
            zip(result.slots, result.texts, tails, strict=True)
        )
    ]
    images = map(result.replace_image, result.images)
    return Decision(result, "cleared", (*texts, *images))


def _count_uses(conversation: Conversation, turn: int) -> int:
    """Return how many tool uses there are from a turn on, parallel ones each."""
    elements = conversation.elements
    answers = ([elements[at] for at in answer] for answer in conversation.answers)
    turns = [answer for answer in answers if any(each.is_turn for each in answer)]
    return sum(len(each.calls) for answer in turns[turn:] for each in answer if each.is_turn)
