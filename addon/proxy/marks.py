"""What was decided, written on the flow: for mitmproxy's own interfaces, and for recordings.

A long conversation has hundreds of decisions, so none is written on a flow that nobody sees again.
"""

from collections import Counter
from collections.abc import Sequence

from mitmproxy import http

from masking.model import CHANGES, REASONS, Decision

METADATA = "observation_masking"


def mark(flow: http.HTTPFlow, decisions: Sequence[Decision]) -> None:
    """Write each decision on the flow, and a comment if anything was changed; never content."""
    flow.metadata[METADATA] = [_describe(decision) for decision in decisions]
    changed = [decision for decision in decisions if decision.reason in CHANGES]
    if changed:
        counts = Counter(decision.reason for decision in changed)
        what = ", ".join(f"{reason} {count}" for reason, count in counts.items())
        before = sum(decision.chars_before for decision in changed)
        after = sum(decision.chars_after for decision in changed)
        flow.comment = f"{what} tool results: {before:,} -> {after:,} characters"
        if images := sum(decision.images_masked for decision in changed):
            flow.comment += f", {images} images"


def mark_resent(flow: http.HTTPFlow) -> None:
    """Say in the flow's comment that its request was taken as the client wrote it."""
    flow.comment = "sent as the client wrote it, after a 400 to the masked request"


def was_changed(flow: http.HTTPFlow) -> bool:
    """Whether the flow's mark says that anything in its request was changed."""
    marked = flow.metadata.get(METADATA)
    decisions = marked if isinstance(marked, list) else []
    return any(isinstance(each, dict) and each.get("reason") in CHANGES for each in decisions)


def _describe(decision: Decision) -> dict[str, str | int | None]:
    result = decision.result
    return {
        "call_id": _storable(result.call_id),
        "tool": _storable(result.tool),
        "turn": result.turn,
        "strategy": REASONS[decision.reason].strategy,
        "reason": decision.reason,
        "chars_before": decision.chars_before,
        "chars_after": decision.chars_after,
        "images_masked": decision.images_masked,
    }


def _storable(name: str | None) -> str | None:
    """Return a name in a form that a flow file can hold: UTF-8 has no lone surrogates."""
    return None if name is None else name.encode("utf-8", "replace").decode()
