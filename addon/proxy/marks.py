"""What the addon writes on a flow: what was decided, and the client's own body.

The decisions are for mitmproxy's own interfaces, and for recordings. A long conversation has
hundreds, so none is written on a flow that nobody sees again. The client's own body of a changed
request is content: it is kept because a user asked for a recording, and only in that recording.
"""

import zlib
from collections import Counter
from collections.abc import Sequence

from mitmproxy import http
from mitmproxy.options import Options

from addon.counts import pluralize
from masking.model import CHANGES, REASONS, Decision

METADATA = "observation_masking"
METADATA_ORIGINAL = "observation_masking_original"
METADATA_MESSAGES = "observation_masking_original_messages"

_LEVEL = 1
"""For zlib: 1 MB in some 10 ms. Higher levels take five times as long for a tenth less."""


def mark(flow: http.HTTPFlow, decisions: Sequence[Decision]) -> None:
    """Write each decision on the flow, and a comment if anything was changed; never content."""
    flow.metadata[METADATA] = [_describe(decision) for decision in decisions]
    changed = [decision for decision in decisions if decision.reason in CHANGES]
    if changed:
        counts = Counter(decision.reason for decision in changed)
        what = ", ".join(
            f"{reason} {pluralize(count, 'tool result')}" for reason, count in counts.items()
        )
        before = sum(decision.chars_before for decision in changed)
        after = sum(decision.chars_after for decision in changed)
        flow.comment = f"{what}: {before:,} -> {after:,} characters"
        if images := sum(decision.images_masked for decision in changed):
            flow.comment += f", {pluralize(images, 'image')}"


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


def is_recording(options: Options) -> bool:
    """Whether mitmproxy writes all flows to a file as they arrive (`-w`)."""
    return bool(getattr(options, "save_stream_file", None))  # an addon's: it may not be there


def are_flows_kept(options: Options) -> bool:
    """Whether flows are seen again when they have passed: in a file, or where they are listed.

    mitmdump lists none. mitmproxy and mitmweb do, and have an option for the order.
    """
    is_exported = bool(getattr(options, "hardump", ""))
    return is_recording(options) or is_exported or hasattr(options, "view_order")


def keep_original(flow: http.HTTPFlow, body: bytes) -> None:
    """Keep a request's decoded body as the client wrote it; the first one given stays."""
    flow.metadata.setdefault(METADATA_ORIGINAL, zlib.compress(body, _LEVEL))


def drop_original(flow: http.HTTPFlow) -> None:
    """Drop what was kept of a request that went out as the client wrote it after all."""
    flow.metadata.pop(METADATA_ORIGINAL, None)


def keep_original_message(flow: http.HTTPFlow, place: int, body: bytes) -> None:
    """Keep the client's own body of the WebSocket message at a place of the flow's messages."""
    kept = flow.metadata.setdefault(METADATA_MESSAGES, {})
    kept.setdefault(str(place), zlib.compress(body, _LEVEL))


def find_original_message(flow: http.HTTPFlow, place: int) -> bytes | None:
    """Return the body that was kept of a WebSocket message, as `find_original` does."""
    kept = flow.metadata.get(METADATA_MESSAGES)
    return _decompress(kept.get(str(place))) if isinstance(kept, dict) else None


def has_original_messages(flow: http.HTTPFlow) -> bool:
    """Whether the body of any WebSocket message was kept."""
    return bool(flow.metadata.get(METADATA_MESSAGES))


def find_original(flow: http.HTTPFlow) -> bytes | None:
    """Return the body that was kept, decoded; None if there is none.

    Raises ValueError if it is damaged.
    """
    return _decompress(flow.metadata.get(METADATA_ORIGINAL))


def _decompress(kept: object) -> bytes | None:
    if not isinstance(kept, bytes):
        return None
    try:
        return zlib.decompress(kept)
    except zlib.error as error:
        raise ValueError(f"the client's own body is damaged: {error}") from None
