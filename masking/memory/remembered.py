"""The window where a conversation's past is known: what was masked stays so, one move is decided.

A result that was masked is masked again, in the same words, whatever the settings say now. No other
result is masked because of what is remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from masking.conversation import Conversation, find_answers
from masking.memory.boundary_memory import Move, Occasion, Past
from masking.model import Decision, Layout
from masking.strategies.boundary import find_next_move
from masking.strategies.boundary_fold import Boundary, Made
from masking.strategies.policy import MaskPolicy
from masking.strategies.window import (
    decide_by_boundary,
    find_maskable,
    judge,
    leave_whole,
    mask_again,
    may_be_whole,
)
from masking.window.placeholder import Rendering

_SEPARATE_SLIDES = 64
"""How many turns of a sliding window a user may go back before other settings un-mask a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """The decisions for a request, and the past that the next request will have.

    Without a past all that was remembered stays as it is.
    """

    decisions: tuple[Decision, ...]
    past: Past | None


def continue_past(
    conversation: Conversation,
    policy: MaskPolicy,
    layout: Layout,
    occasion: Occasion,
    *,
    held: bool = False,
    binds: bool = False,
    asks_summary: bool = False,
) -> Continued:
    """Decide every tool result of a request. If `held`, the boundary does not move.

    A request that `asks_summary` is left whole if it may be, and then nothing is remembered of it.

    If the model `binds` its reasoning to all that precedes it, nothing before reasoning in the
    request is masked anew, and what was masked when the reasoning was made stays masked.
    """
    past = _find_past(conversation, occasion, binds=binds)
    judged = judge(conversation, policy)
    again, masked = _mask_again(conversation, past, layout, judged, policy.rendering)
    for n, decision in again.items():
        judged[n] = decision
    made = Made(masked, met=past.met.answers, expired=occasion.state == "cold", held=held)
    history = conversation.history
    maskable = find_maskable(judged, layout, history)
    last_bound = find_last_bound(conversation) if binds else -1
    is_bound = any(conversation.results[place].element < last_bound for place in again)
    if asks_summary and not is_bound and may_be_whole(layout, maskable, policy, made):
        return Continued(decisions=leave_whole(conversation), past=None)
    moved = find_next_move(layout.requests, maskable, policy, made, layout.marked, history)

    def draw(moved: Boundary | None) -> tuple[tuple[Decision, ...], tuple[int, ...]]:
        boundary = moved or _find_last_boundary(past)
        drawn = decide_by_boundary(conversation, policy, boundary, judged, layout)
        decided = tuple(again.get(n) or _hold(d, moved) for n, d in enumerate(drawn))
        new = (n for n, d in enumerate(decided) if d.reason == "masked" and n not in again)
        return decided, tuple(new)

    decisions, fresh = draw(moved)
    if fresh and decisions[fresh[0]].result.element < last_bound:
        moved = None  # it would change a text before reasoning
        decisions, fresh = draw(moved)
    if binds:
        decisions = name_bound(decisions, last_bound)
    if moved and fresh:
        results = tuple(occasion.results[place] for place in fresh)
        move = Move(occasion.place, moved, results, policy.rendering)
        past = replace(past, moves=_add(past.moves, move, slides=policy.slides))
    return Continued(
        decisions=decisions, past=replace(past, last=occasion.place, sent=occasion.now)
    )


def name_bound(decisions: Sequence[Decision], last_bound: int) -> tuple[Decision, ...]:
    """Return the decisions; what is held before reasoning is held because that is bound to it.

    `last_bound` is the position of the last element with such reasoning.
    """
    return tuple(
        Decision(decision.result, "bound")
        if decision.reason == "held" and decision.result.element < last_bound
        else decision
        for decision in decisions
    )


def find_last_bound(conversation: Conversation) -> int:
    """Return the position of the last element with bound reasoning; -1 if there is none."""
    bound = (at for at, element in enumerate(conversation.elements) if element.is_bound)
    return max(bound, default=-1)


def _find_past(conversation: Conversation, occasion: Occasion, *, binds: bool) -> Past:
    """Return what is known of the conversation; a new past if that is nothing."""
    past, place = occasion.past, occasion.place
    if past is None or (binds and _was_passed_by(conversation, past, occasion)):
        return Past(met=place, last=place, sent=occasion.now)
    if all(move.names_results for move in past.moves):
        return past
    # It was written before results had digests. A text that comes back before bound reasoning is
    # refused, so there the places are trusted, once; elsewhere it costs one broken prefix.
    if not (binds and past.last.is_on(occasion.answers)):
        return replace(past, moves=())
    named = (
        move._replace(results=tuple(occasion.results[place] for place, _, _ in move.results))
        for move in past.moves
    )
    return replace(past, moves=tuple(named))


def _was_passed_by(conversation: Conversation, past: Past, occasion: Occasion) -> bool:
    """Whether reasoning was made at requests that did not come through here, and so were whole."""
    last, answers = past.last, occasion.answers
    if not last.is_on(answers) or len(answers) <= last.answers + 1:
        return False
    elements = conversation.elements
    made = find_answers(elements, in_runs=conversation.wire.answers_in_runs)
    unseen = [*made][last.answers + 1 :]
    return any(elements[at].is_bound for answer in unseen for at in answer)


def _add(moves: tuple[Move, ...], move: Move, *, slides: bool) -> tuple[Move, ...]:
    """Add a move. A sliding window moves at every turn, so its oldest moves are joined."""
    if slides and len(moves) >= _SEPARATE_SLIDES:
        for at, (one, other) in enumerate(pairwise(moves)):
            if one.rendering == other.rendering:
                joined = other._replace(
                    results=(*one.results, *other.results), unknown={**one.unknown, **other.unknown}
                )
                return (*moves[:at], joined, *moves[at + 2 :], move)
    return (*moves, move)


def _mask_again(
    conversation: Conversation,
    past: Past,
    layout: Layout,
    judged: Sequence[Decision],
    words: Rendering,
) -> tuple[dict[int, Decision], dict[int, list[int]]]:
    """Return the decisions on what was masked, by place; what can no longer be masked is left out.

    Also return the places that were masked at each request, without those of later results. What
    is `judged` to be masked, in the `words` of today, was masked alike if these were the words.
    """
    again: dict[int, Decision] = {}
    masked: dict[int, list[int]] = {}
    for move in past.moves:
        known = layout.requests[move.anchor.answers].results
        places = [n for n, _, _ in move.results if n < known and n not in again]
        kept: dict[int, Decision] = {}
        if move.rendering == words:
            kept = {n: judged[n] for n in places if judged[n].reason == "masked"}
        others = [n for n in places if n not in kept]
        if others:
            decisions = mask_again([conversation.results[n] for n in others], move.rendering)
            kept |= {n: d for n, d in zip(others, decisions, strict=True) if d.reason == "masked"}
        again |= kept
        masked[move.anchor.answers] = [*masked.get(move.anchor.answers, ()), *kept]
    return again, masked


def _find_last_boundary(past: Past) -> Boundary:
    return past.moves[-1].boundary if past.moves else Boundary(0, 0)


def _hold(decision: Decision, moved: Boundary | None) -> Decision:
    """Mask nothing new where nothing moves, though other settings would have masked it before."""
    if decision.reason == "masked" and moved is None:
        return Decision(decision.result, "held")
    return decision
