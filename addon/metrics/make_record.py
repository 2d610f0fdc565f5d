"""Makes the record of a request that has come to its end."""

import dataclasses

from addon.metrics.ledger_fields import describe_entry, describe_pricing
from addon.metrics.record import RequestRecord
from addon.metrics.software import describe_software
from addon.metrics.window_fields import describe_window
from addon.stages import Answered, Measured, Priced, Received, Rewritten
from masking.accounting import Entry, Sizes, count_masked_repeats
from masking.tokens import ENCODING_NAME, is_exact_for
from masking.wire import Usage


def make_record(answered: Answered, entry: Entry | None) -> RequestRecord:
    """Return the record of a request; `entry` is its entry in the ledger."""
    rewritten, measured, usage = answered.rewritten, answered.measured, answered.usage or Usage()
    fields: dict[str, object] = {
        **describe_software(rewritten.received.settings),
        **_describe_received(rewritten.received),
        **_describe_rewritten(rewritten),
        **(_describe_priced(rewritten.priced) if rewritten.priced else {}),
        **({} if measured is None else _describe_sizes(measured.sizes)),
        **{f"{name}_tokens": getattr(usage, name) for name in _USAGE_FIELDS},
        **describe_entry(entry),
        **describe_window(answered),
        "conversation_id": answered.conversation_id,
        "status": answered.status,
        "error": answered.error,
        **_describe_first_chunk(answered),
        "rereads": _count_rereads(measured, entry),
        "net_unpriced": entry.savings.unpriced if entry else None,
    }
    if fields.get("request_tokens_before") is not None:
        model = rewritten.priced.model if rewritten.priced else None
        fields |= {"tokenizer": ENCODING_NAME, "tokenizer_exact": is_exact_for(model)}
    return RequestRecord.model_validate(fields)


_SIZES = tuple(field.name for field in dataclasses.fields(Sizes))
_SECOND_DIGITS = 3
_FIRST_REFUSAL = 400
_USAGE_FIELDS = ("prompt", "cached", "written", "written_long", "completion", "reasoning")


def _describe_received(received: Received) -> dict[str, object]:
    return {
        "run": received.run.name,
        "tag": received.run.tag,
        "time": received.time.isoformat(timespec="milliseconds"),
        "host": received.host,
        "path": received.path,
        "format": received.wire.name,
        "purpose": received.purpose,
        "client": received.client,
        "label": received.settings.label or None,
        "subscription": received.subscription,
        "replay": received.replay,
    }


def _describe_rewritten(rewritten: Rewritten) -> dict[str, object]:
    return {
        "masking": _find_masking(rewritten),
        "group": rewritten.group,
        "passed_through": rewritten.passed_through,
        "resent": rewritten.resent,
        "prefix": rewritten.prefix,
        "binding": rewritten.binding,
        "bytes_before": rewritten.bytes_before,
        "bytes_after": rewritten.bytes_after,
        "hook_us": rewritten.hook_us,
    }


def _find_masking(rewritten: Rewritten) -> str:
    if not rewritten.received.settings.strategies.can_change:
        return "off"
    return "observed" if rewritten.observed else "on"


def _describe_sizes(sizes: Sizes) -> dict[str, object]:
    return {name: getattr(sizes, name) for name in _SIZES}


def _count_rereads(measured: Measured | None, entry: Entry | None) -> int | None:
    """Count the re-reads of a request that the provider took; None for any other."""
    if measured is None or entry is None:
        return None
    return count_masked_repeats(measured.repeated, entry.masked_before or ())


def _describe_first_chunk(answered: Answered) -> dict[str, object]:
    """Return how long the first piece of an answer took; a refusal is no answer."""
    seconds = answered.first_chunk_seconds
    if seconds is None or (answered.status or 0) >= _FIRST_REFUSAL:
        return {}
    return {"first_chunk_seconds": round(seconds, _SECOND_DIGITS)}


def _describe_priced(priced: Priced) -> dict[str, object]:
    entry = priced.pricing.entry
    return {
        "model": priced.model,
        "stream": priced.stream,
        "cache_read_ratio": priced.prices.read,
        "cache_write_ratio": priced.prices.write,
        **describe_pricing(priced.pricing),
        "price_entry": entry and (entry.seller, entry.model),
    }
