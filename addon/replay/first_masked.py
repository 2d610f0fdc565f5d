"""For each tool result of a segment, the first request that masks it.

Once masked, a result stays so: one number for each result says what every request looks like.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from addon.replay.session_index import Segment
from masking.accounting import Piece, mask_pieces
from masking.history import History
from masking.model import Decision
from masking.tokens import TokenCounter
from masking.window import (
    FREE,
    Boundary,
    BoundaryPrices,
    Candidate,
    MaskPolicy,
    PinnedResults,
    RequestSize,
    evaluate,
    measure_candidates,
    window_edge,
)

NEVER = sys.maxsize
"""The number of a request that never comes."""


class EvaluatedSegment(NamedTuple):
    """What would be decided about a segment's tool results if all were old enough.

    `candidates` has the results as the boundary sees them, `pieces` the prompt with all of them
    masked.
    """

    decisions: tuple[Decision, ...]
    candidates: list[Candidate]
    pieces: list[Piece]


def evaluate_segment(
    segment: Segment, policy: MaskPolicy, prices: BoundaryPrices, counter: TokenCounter
) -> EvaluatedSegment:
    """Evaluate a segment's tool results.

    Policies that differ only in when the boundary moves have the same outcome.
    """
    conversation = segment.conversation
    decisions = tuple(evaluate(conversation.results, policy, prices, History()))
    return EvaluatedSegment(
        decisions,
        measure_candidates(decisions, segment.layout, History()),
        mask_pieces(segment.conversation, decisions, counter),
    )


def find_first_masked(
    segment: Segment, evaluated: EvaluatedSegment, policy: MaskPolicy, prices: BoundaryPrices
) -> list[int]:
    """Return, for each tool result, the first request of the segment that masks it."""
    if prices.slides:
        return find_first_masked_sliding(segment, evaluated, policy)
    layout = segment.layout
    boundary = Boundary(evaluated.candidates, policy, prices, layout.marked)
    # The boundary counts each answer of the assistant as a request, and nothing between two answers
    # moves it. So at each request it stands where it stands at the next answer.
    answers = [request.answers for request in segment.requests]
    newly_masked = list_newly_masked(boundary, layout.requests)
    by_request = ((bisect_left(answers, n), places) for n, places in enumerate(newly_masked))
    return _find_first_masked(segment, evaluated, by_request)


def find_first_masked_sliding(
    segment: Segment, evaluated: EvaluatedSegment, policy: MaskPolicy
) -> list[int]:
    """Return the same for a boundary that moves to the window's edge at every request."""
    candidates = [
        Candidate(result.turn, 0, 0, result.tool, result.target, len(result.images))
        for result in segment.conversation.results
    ]
    requests = [RequestSize(0, request.turns, request.results) for request in segment.requests]
    before = segment.layout.turns
    if any(
        c.turn is not None and c.turn >= turns for c, turns in zip(candidates, before, strict=True)
    ):
        found = list_masked_sliding(candidates, requests, policy)
    else:
        found = list_newly_masked(Boundary(candidates, policy, FREE), requests)
    return _find_first_masked(segment, evaluated, enumerate(found))


def list_newly_masked(
    boundary: Boundary, requests: Sequence[RequestSize]
) -> Iterator[Sequence[int]]:
    """Yield for each request the places of the results that it is the first to mask."""
    for request in requests:
        boundary.begin(request)
        boundary.decide()
        yield boundary.newly_masked()
        boundary.send()


def list_masked_sliding(
    candidates: Sequence[Candidate], requests: Sequence[RequestSize], policy: MaskPolicy
) -> Iterator[Sequence[int]]:
    """Yield for each request the places of all results that a sliding window masks.

    A result may stand before its own call, and only the call says which tool it is of. So each
    request is looked at by itself, in a time of requests times results.
    """
    for _, turns, count in requests:
        edge, pinned = window_edge(policy, turns), PinnedResults(policy)
        for place, result in enumerate(candidates[:count]):
            turn = result.turn
            is_called = turn is not None and turn < turns
            pinned.add(place, result.tool if is_called else None, result.images)
            if turn is not None and is_called and result.target is not None:
                pinned.add_latest(place, turn, result.target)
        reasons = pinned.reasons(edge)
        yield [
            place
            for place, result in enumerate(candidates[:count])
            if result.turn is not None and result.turn < edge and place not in reasons
        ]


def _find_first_masked(
    segment: Segment, evaluated: EvaluatedSegment, masked: Iterable[tuple[int, Sequence[int]]]
) -> list[int]:
    """Return the first request for each place, from requests in order and the places they mask."""
    first = [NEVER] * len(evaluated.decisions)
    for request, places in masked:
        for place in places:
            if evaluated.decisions[place].reason == "masked" and request < len(segment.requests):
                first[place] = min(first[place], request)
    return first
