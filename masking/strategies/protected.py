"""Tool results behind the boundary that stay because of others: the last of a tool, the latest."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from masking.model import ToolResult
from masking.reasons import KeepReason
from masking.strategies.boundary_fold import Boundary
from masking.strategies.policy import MaskPolicy

AFTER_NAMES = ("last_images", "latest")
"""The reasons that depend on other results and come after a policy's names."""


def find_protected(
    known: Sequence[ToolResult], boundary: Boundary, policy: MaskPolicy
) -> dict[int, KeepReason]:
    """Return what is kept behind the boundary, as of when the boundary last moved."""
    last = dict.fromkeys(_find_last_of_each_tool(known, policy.keep_last_k_per_tool or 0), "last_k")
    images = dict.fromkeys(_find_last_with_images(known, policy.kept_images), "last_images")
    latest = dict.fromkeys(_find_latest_of_each_target(known, boundary, policy), "latest")
    return cast(dict[int, KeepReason], {**latest, **images, **last})


def _find_last_of_each_tool(results: Sequence[ToolResult], k: int) -> Iterator[int]:
    seen: Counter[str] = Counter()
    for place in range(len(results) - 1, -1, -1) if k > 0 else ():
        tool = results[place].tool
        if tool is not None and seen[tool] < k:
            seen[tool] += 1
            yield place


def _find_last_with_images(results: Sequence[ToolResult], k: int) -> Iterator[int]:
    """Yield the results that hold the last K images."""
    left = k
    for place in range(len(results) - 1, -1, -1):
        if left <= 0:
            return
        if results[place].images:
            left -= len(results[place].images)
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
