"""From which request on each result is masked, worked out backwards and apart from the core.

The core keeps the same rules as results arrive. Here each result is looked at with those that come
after it, and the boundary's positions are given.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence

from addon.replay.reread import NEVER
from masking.model import Target
from masking.window import BoundaryPosition, MaskPolicy
from masking.window.boundary import Candidate


def find_first_behind(
    results: Sequence[Candidate],
    boundaries: Sequence[BoundaryPosition],
    turns: Sequence[int],
    policy: MaskPolicy,
) -> list[int]:
    """Return for each result the number of the request from which on its place is masked.

    `boundaries` and `turns` have the boundary and the number of tool turns at each request, oldest
    first; neither goes back. Whether a result may be masked at all is not asked here. The last K
    of a tool, the last images and the latest of a target are those before the boundary, as in
    `masking.window`.
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
