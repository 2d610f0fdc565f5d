"""Records of requests that were observed only: as they were sent, and as if they were masked."""

from collections.abc import Mapping

from addon.metrics.record import RequestRecord

_CHANGED = (
    *("masked", "masked_images", "redacted", "reduced", "dropped", "dropped_messages"),
    "rereads",
)
_PAIRS = (
    *("tool_chars", "json_chars", "tool_tokens", "request_tokens", "bytes"),
    *("cost_tokens", "cost_dollars"),
)
_ERRORS = ("saved_tokens_error", "saved_tokens_error_by_chance", "saved_dollars_error")
_NOTHING: Mapping[str, object] = {
    **dict.fromkeys(_CHANGED, 0),
    **dict.fromkeys(_ERRORS, 0.0),
    "kept": {},
    "reduction_stage": None,
    "reduction_status": None,
    "redaction_scenarios": None,
    "boundary_moved": False,
    "move_price_tokens": None,
}


def as_sent(record: RequestRecord) -> RequestRecord:
    """Return what is true of the request that left; the record itself if that says so already."""
    if record.masking != "observed":
        return record
    same = {f"{name}_after": getattr(record, f"{name}_before") for name in _PAIRS}
    nothing = {name: value for name, value in _NOTHING.items() if getattr(record, name) is not None}
    sent = {"composition": _compose_as_sent(record)}
    return record.model_copy(update={**same, **nothing, **sent})


def _compose_as_sent(record: RequestRecord) -> Mapping[str, int] | None:
    """Return what the prompt was composed of; None if masking would have dropped messages."""
    parts, whole = record.composition, record.request_tokens_before
    if parts is None or whole is None or record.dropped_messages:
        return None
    # What masking would have taken out are tool results, which left whole.
    others = {part: tokens for part, tokens in parts.items() if part != "placeholders"}
    results = whole - sum(others.values()) + others.get("results", 0)
    return {**others, **({"results": results} if results else {})}


def as_masked(record: RequestRecord) -> RequestRecord:
    """Return what would be true if it had been masked.

    How long its answer took to begin is true of the request that left.
    """
    return record.model_copy(update={"masking": "on", "first_chunk_seconds": None})
