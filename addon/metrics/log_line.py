"""The line that tells a user what became of a request."""

from collections.abc import Iterator

from addon.metrics.amounts import (
    read_savings,
    read_total_savings,
    render_change,
    render_cost,
    render_prices,
    render_savings,
)
from addon.metrics.record import RequestRecord


def render_line(record: RequestRecord) -> str:
    """Return the line that tells a user what became of a request."""
    words = (
        "replay" if record.replay else None,
        f"[{record.label}]" if record.label else None,
        record.host,
        record.model or "?",
        record.status,
        record.error,
    )
    return f"{' '.join(str(word) for word in words if word)}: {_render_outcome(record)}"


def _render_outcome(record: RequestRecord) -> str:
    if record.passed_through is not None:
        return f"passed through untouched, {record.passed_through}"
    if record.tool_results is None:
        return "not measured"
    if record.masking == "off":
        words = (f"masking off, {record.tool_results} tool results", *_render_bill(record))
    else:
        time = f"{(record.hook_us or 0) / 1000:.1f} ms"
        words = (*_render_changes(record), *_render_bill(record), time)
    told = ", ".join(words)
    return told if record.masking != "observed" else f"{_render_group(record)}: would have {told}"


def _render_group(record: RequestRecord) -> str:
    return "observed" if record.group is None else "observed, held out"


def _render_changes(record: RequestRecord) -> Iterator[str]:
    yield f"masked {record.masked} of {record.tool_results} tool results"
    if (record.kept or {}).get("summary"):
        yield "left whole for a summary"
    if record.masked_images:
        yield f"{record.masked_images} images in them"
    if record.redacted:
        yield f"redacted {record.redacted}"
    if record.reduction_stage is not None:
        yield f"reduced by {record.reduction_stage}"
    if record.dropped_messages:
        yield f"dropped {record.dropped_messages} of {record.messages} messages"
    before, after = record.request_tokens_before, record.request_tokens_after
    if before is not None and after is not None:
        yield render_change(before, after)


def _render_bill(record: RequestRecord) -> Iterator[str]:
    if record.conversation is None:
        return
    yield f"{render_cost(record)}, {render_prices(record)}"
    if record.total_net_tokens:
        yield f"net {render_savings(read_savings(record))} in conversation {record.conversation}"
        yield f"{render_savings(read_total_savings(record))} in all"
