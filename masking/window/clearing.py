"""Clearing by the provider: where its own clearing of old tool results begins, and what it clears.

Where reasoning is bound to what precedes it, a changed result may be refused. A provider's own
clearing is no change, as it compares what was sent. So a request asks for it, and says by `keep`
where it ends: at the tool uses that stay. The provider remembers nothing, each request is cleared
anew; with as many tool uses as stand behind the boundary, its cut is the boundary.

The boundary moves by the same rule as ever, under the same promise, reckoned with what the provider
clears: every result before the cut, errors and short ones included, but those of excluded tools.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from masking.conversation import Conversation
from masking.model import Decision, Element, Replacement, ToolResult
from masking.patterns import matches
from masking.tokens import estimate_tokens
from masking.window.boundary import Boundary, BoundaryPrices, Candidate, Layout, SentMoves, lay_out
from masking.window.decide import ConversationContext, Limits, Move, Past, add_move
from masking.window.placeholder import Rendering
from masking.window.policy import MaskPolicy

_PLACEHOLDER = "[Old tool result cleared by the provider]"
"""What a provider puts in place of a result is written nowhere. It is reckoned to be as long."""

_RENDERING = Rendering(_PLACEHOLDER, must_shrink=False)


class Clearing(NamedTuple):
    """What a provider is asked to clear: the results of all tool uses but the last `keep`.

    excluded: the tools whose results stay.
    tokens: how many that takes out of the prompt, by our estimate; more than none.
    """

    keep: int
    excluded: tuple[str, ...]
    tokens: int


class ClearingDecisions(NamedTuple):
    """What a request asks its provider to clear, and the past that its next request will have.

    clearing: None if nothing is to be cleared.
    settled: what that makes of the results before the cut, by place. What the provider clears stays
        in the request, so a replacement says only what the model gets.
    past: None if what is remembered stays as it is, as for a request that is left whole.
    """

    clearing: Clearing | None = None
    settled: Mapping[int, Decision] = MappingProxyType({})
    past: Past | None = None


def decide_clearing(
    conversation: Conversation,
    policy: MaskPolicy,
    prices: BoundaryPrices,
    context: ConversationContext,
    limits: Limits,
) -> ClearingDecisions:
    """Decide where a provider's clearing ends in a request.

    context: what is remembered of the conversation as one that is cleared.
    """
    results, past = conversation.results, context.past
    # What has passed without asking is cached as it was sent, so that is another beginning.
    if past is None or len(context.answers) > past.last.answers + 1:
        past = Past(met=context.anchor, last=context.anchor, sent=context.now)
    excluded = _find_excluded(conversation, policy)
    layout = lay_out(conversation)
    candidates = _measure_candidates(results, layout, excluded)
    masked: dict[int, list[int]] = {}
    for move in past.moves:
        known = layout.requests[move.anchor.answers].results
        places = [place for place, _, _ in move.results if place < known]
        masked[move.anchor.answers] = [*masked.get(move.anchor.answers, ()), *places]
    is_cold, is_frozen = context.state == "cold", limits.only is not None
    boundary = _ClearingBoundary.at_last(
        layout,
        candidates,
        _forget_pins(policy),
        prices,
        SentMoves(masked, past.met.answers, is_cold, is_frozen),
        conversation.history,
    )
    if limits.asks_summary and boundary.allows_whole():
        return ClearingDecisions()

    # A provider clears by calls. So where the model has not read a result of an old call, the cut
    # stands before that call, in this one request.
    last = conversation.last_answer
    uncut = min((r.turn for r in results if r.turn is not None and r.element > last), default=None)

    def cut(turn: int) -> int:
        return turn if uncut is None else min(turn, uncut)

    position, moves = past.position, past.moves
    if boundary.decide():
        earlier = {place for places in masked.values() for place in places}
        before = _find_before(results, cut(boundary.position.turn))
        fresh = [at for at in before if at not in earlier and results[at].tool not in excluded]
        if fresh:
            position = boundary.position
            ids = tuple(map(context.identify, fresh))
            move = Move(context.anchor, position, ids, _RENDERING)
            moves = add_move(moves, move, slides=prices.slides)
    past = replace(past, last=context.anchor, sent=context.now)
    turn = cut(position.turn)
    settled = {at: _settle(results[at], excluded, policy) for at in _find_before(results, turn)}
    tokens = sum(candidates[at].saving for at in settled)
    if tokens <= 0:  # few short results, in a window that slides: no reason to ask
        return ClearingDecisions(past=past)
    in_runs = conversation.wire.answers_in_runs
    keep = _count_uses(conversation.elements, turn, in_runs=in_runs)
    clearing = Clearing(keep, tuple(sorted(excluded)), int(tokens))
    return ClearingDecisions(clearing, settled, replace(past, moves=moves))


class _ClearingBoundary(Boundary):
    """The boundary of what a provider clears. A history keeps it apart from the window's."""


@lru_cache(maxsize=64)
def _forget_pins(policy: MaskPolicy) -> MaskPolicy:
    """Return a policy without what other results keep: a provider knows no such rule."""
    return replace(policy, keep_last_k_per_tool=None, keep_latest_turns=0, keep_last_images=0)


def _find_excluded(conversation: Conversation, policy: MaskPolicy) -> frozenset[str]:
    """Return the names of tools whose results the policy keeps, of all tools in a request."""
    if not (policy.keep_tools or policy.mask_tools):
        return frozenset()
    tools = conversation.wire.find_tools(conversation.body)
    schemas = tools if isinstance(tools, list) else []
    named = [each.get("name") for each in schemas if isinstance(each, dict)]
    named += [call.tool for element in conversation.elements for call in element.calls]
    return frozenset(
        name
        for name in named
        if isinstance(name, str)
        and (
            matches(name, policy.keep_tools)
            or (policy.mask_tools and not matches(name, policy.mask_tools))
        )
    )


def _measure_candidates(
    results: Sequence[ToolResult], layout: Layout, excluded: frozenset[str]
) -> list[Candidate]:
    placeholder = estimate_tokens(_PLACEHOLDER)
    return [
        Candidate(result.turn, offset, 0 if result.tool in excluded else size - placeholder, None)
        for result, offset, size in zip(results, layout.offsets, layout.sizes, strict=True)
    ]


def _find_before(results: Iterable[ToolResult], turn: int) -> Iterator[int]:
    """Yield the places of the results before the cut, if that stands before a turn."""
    for place, result in enumerate(results):
        if result.turn is not None and result.turn < turn:
            yield place


def _settle(result: ToolResult, excluded: frozenset[str], policy: MaskPolicy) -> Decision:
    tool = result.tool
    if tool is not None and tool in excluded:
        is_kept = matches(tool, policy.keep_tools)
        return Decision(result, "kept_tool" if is_kept else "unlisted_tool")
    path = (*result.list_path, result.element)
    texts = [
        Replacement((*path, *slot), text, "" if number else _PLACEHOLDER)
        for number, (slot, text) in enumerate(zip(result.slots, result.texts, strict=True))
    ]
    images = map(result.replace_image, result.images)
    return Decision(result, "cleared", (*texts, *images))


def _count_uses(elements: Iterable[Element], turn: int, *, in_runs: bool) -> int:
    """Return how many tool uses there are from a turn on, parallel ones each."""
    uses, turns, in_answer = 0, 0, False
    for element in elements:
        if element.speaker != "assistant":
            in_answer = False
        elif element.is_turn:
            turns += not in_answer
            in_answer = in_runs
            uses += len(element.calls) if turns > turn else 0
    return uses
