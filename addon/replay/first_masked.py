"""The request from which on each tool result of a segment is masked.

Once masked, a result stays so: one number for each result says what every request looks like.
"""

import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from addon.replay.session_index import Segment
from masking.accounting import Piece, mask_pieces
from masking.model import Decision, Maskable, Target
from masking.strategies.boundary import find_boundaries
from masking.strategies.boundary_fold import Boundary
from masking.strategies.policy import MaskPolicy
from masking.strategies.window import find_maskable, judge
from masking.tokens import TokenCounter

NEVER = sys.maxsize
"""A request that does not come."""


class Judged(NamedTuple):
    """What would be decided about a segment's tool results if all were old enough.

    `maskable` has the results as the boundary sees them, `pieces` the prompt with all of them
    masked.
    """

    decisions: tuple[Decision, ...]
    maskable: list[Maskable]
    pieces: list[Piece]


def judge_segment(segment: Segment, policy: MaskPolicy, counter: TokenCounter) -> Judged:
    """Judge a segment's tool results; the same for policies that differ only in the boundary."""
    decisions = tuple(judge(segment.conversation, policy))
    return Judged(
        decisions,
        find_maskable(decisions, segment.layout),
        mask_pieces(segment.conversation, decisions, counter),
    )


def find_first_masked(segment: Segment, judged: Judged, policy: MaskPolicy) -> list[int]:
    """Return for each tool result the request of the segment from which on it is masked.

    To the boundary's rule each message of the assistant is a request, and nothing after the last
    one decides anything. So the boundary is where it was at the next such message.
    """
    if policy.slides:
        return find_first_masked_sliding(segment, judged, policy)
    layout = segment.layout
    boundaries = find_boundaries(layout.requests, judged.maskable, policy, layout.marked)
    at_requests = [boundaries[request.answers] for request in segment.requests]
    return _find_first_masked(segment, judged, judged.maskable, at_requests, policy)


def find_first_masked_sliding(segment: Segment, judged: Judged, policy: MaskPolicy) -> list[int]:
    """Return the same for a boundary that moves to the window's edge at every request."""
    edges = [
        Boundary(policy.find_edge(request.turns), request.results) for request in segment.requests
    ]
    results = [
        Maskable(r.turn, 0, 0, r.tool, r.target, len(r.images))
        for r in segment.conversation.results
    ]
    return _find_first_masked(segment, judged, results, edges, policy)


def _find_first_masked(
    segment: Segment,
    judged: Judged,
    results: Sequence[Maskable],
    boundaries: Sequence[Boundary],
    policy: MaskPolicy,
) -> list[int]:
    turns = [request.turns for request in segment.requests]
    first = find_first_behind(results, boundaries, turns, policy)
    return [
        request if decision.reason == "masked" else NEVER
        for request, decision in zip(first, judged.decisions, strict=True)
    ]


def find_first_behind(
    results: Sequence[Maskable],
    boundaries: Sequence[Boundary],
    turns: Sequence[int],
    policy: MaskPolicy,
) -> list[int]:
    """Return for each result the number of the request from which on its place is masked.

    `boundaries` and `turns` have the boundary and the number of tool turns at each request, oldest
    first; neither goes back. Whether a result may be masked at all is not asked here. The last K
    of a tool, the last images and the latest of a target are those before the boundary, as in
    `masking.strategies.window`.
    """
    edges = [boundary.turn for boundary in boundaries]
    counts = [boundary.results for boundary in boundaries]
    later: defaultdict[str, list[int]] = defaultdict(list)
    later_images: list[int] = []
    superseded: dict[Target, int] = {}
    first = [NEVER] * len(results)
    for place in range(len(results) - 1, -1, -1):
        turn, tool, target = results[place].turn, results[place].tool, results[place].target
        arrived = bisect_left(counts, place + 1)
        released = 0
        if (images := results[place].images) and policy.kept_images:
            released = _count_as_later(later_images, arrived, policy.kept_images, images)
        if turn is None:
            continue
        known = max(arrived, bisect_right(turns, turn))
        if tool is not None and (policy.keep_last_k_per_tool or 0) > 0:
            k = policy.keep_last_k_per_tool or 0
            released = max(released, _count_as_later(later[tool], known, k))
        if target is not None and policy.keep_latest_turns > 0:
            age = turn + policy.keep_latest_turns - policy.window_turns
            released = max(released, min(superseded.get(target, NEVER), bisect_right(edges, age)))
            superseded[target] = min(known, superseded.get(target, NEVER))
        request = max(bisect_right(edges, turn), arrived, released)
        first[place] = request if request < len(boundaries) else NEVER
    return first


def _count_as_later(later: list[int], known: int, k: int, count: int = 1) -> int:
    """Return the request from which on there are K later ones; add `count` of this result.

    `later` has the requests from which on the later ones are known, the first K of them.
    """
    released = later[k - 1] if len(later) >= k else NEVER
    for _ in range(min(count, k)):
        insort(later, known)
    del later[k:]
    return released
