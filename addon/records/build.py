"""From an answered request to its record.

Every engine's requests come through here, so what a record says of a request is said once: a new
field is a line in `record.py`, and one in the paragraph below that its fact belongs to.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from addon.records.record import RequestRecord
from addon.stages import Answered, Measured, Priced
from addon.version import VERSION
from masking.accounting import (
    DEFAULT_SPREAD,
    Entry,
    Sizes,
    TokenKinds,
    count_repeats,
)
from masking.arrival import Truncated
from masking.config import Settings
from masking.prices import Pricing, fits_window
from masking.wire import Usage

RECORD_SCHEMA = 4
"""The version of a record's fields. Up to version 3 a line has null for what is not known, and all
that is 0 or false. In version 2 `result_reasons` had letters, which are not read. Records without a
version are of version 1, which lacks `result_reasons`, `price_entry`, and the fields of
`describe_software`."""

_SIZES = tuple(field.name for field in dataclasses.fields(Sizes))
_SECOND_DIGITS, _TOKEN_DIGITS, _DOLLAR_DIGITS = 3, 1, 8
_FIRST_REFUSAL = 400


def make_record(answered: Answered, entry: Entry | None) -> RequestRecord:
    """Return the record of a request that has ended; `entry` is its ledger entry.

    A field that is left out is as by default.
    """
    rewritten, measured, usage = answered.rewritten, answered.measured, answered.usage or Usage()
    received, priced = rewritten.received, rewritten.priced
    fields: dict[str, object] = {
        **describe_software(received.settings),
        # As it arrived
        "run": received.run.name,
        "tag": received.run.tag,
        "time": received.time.isoformat(timespec="milliseconds"),
        "host": received.host,
        "path": received.path,
        "format": received.wire.name,
        "purpose": received.purpose,
        "client": received.client,
        "session": received.session,
        "label": received.settings.label or None,
        "subscription": received.subscription,
        "replay": received.replay,
        # As it went on
        "masking": _name_masking(answered),
        "group": rewritten.group,
        "passed_through": rewritten.passed_through,
        "resent": rewritten.resent,
        "prefix": rewritten.prefix,
        "binding": rewritten.binding,
        "account": rewritten.account,
        "tried": rewritten.tried,
        "clearing": rewritten.clearing,
        "dropping": rewritten.dropping,
        "bytes_before": rewritten.bytes_before,
        "bytes_after": rewritten.bytes_after,
        "hook_us": rewritten.hook_us,
        # As it was answered
        "status": answered.status,
        "error": answered.error,
        "input_transformations": dict(answered.transformations) or None,
        "cleared_tool_uses": answered.cleared and answered.cleared.tool_uses,
        "cleared_tokens": answered.cleared and answered.cleared.tokens,
        "conversation_id": answered.conversation_id,
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "written_tokens": usage.written,
        "written_long_tokens": usage.written_long,
        "completion_tokens": usage.completion,
        "reasoning_tokens": usage.reasoning,
        "quota": answered.quota or None,
        "quota_account": answered.quota_account,
        "learns_quota": answered.quota_account is not None
        and received.settings.metrics.quota_saving,
    }
    seconds = answered.first_chunk_seconds
    if seconds is not None and (answered.status or 0) < _FIRST_REFUSAL:  # a refusal is no answer
        fields["first_chunk_seconds"] = round(seconds, _SECOND_DIGITS)
    if priced is not None:
        found = priced.pricing.entry
        fields |= {
            "model": priced.model,
            "stream": priced.stream,
            "slides": priced.prices.slides,
            **describe_pricing(priced.pricing),
            "price_entry": found and (found.seller, found.model),
            "price_borrowed_from": priced.pricing.borrowed_from,
            "service_tier": priced.pricing.tier,
            "price_is_standard": priced.pricing.tier is not None and priced.pricing.is_standard,
            "model_window_tokens": priced.pricing.window,
        }
    if (left_out := rewritten.left_out) is not None:
        fields |= _describe_left_out(left_out, priced)
    if measured is not None:
        fields |= {name: getattr(measured.sizes, name) for name in _SIZES}
        fields["folder"] = measured.folder
        fields["fits_unmasked"] = _fits_unmasked(answered, measured)
    if priced is not None and usage.completion is not None and usage.prompt is not None:
        dollars = priced.pricing.price_answer(usage.completion, usage.prompt)
        fields["answer_dollars"] = _round_dollars(dollars)
    if entry is not None:
        fields |= describe_entry(entry)
        if measured is not None:
            masked = entry.masked_before or frozenset()
            fields["rereads"] = rereads = count_repeats(measured.repeated, masked)
            if measured.shortened and entry.masked_before is not None:
                gone = masked | measured.shortened
                fields["arrival_rereads"] = count_repeats(measured.repeated, gone) - rereads
                fields["arrival_quotes"] = measured.quotes
    return RequestRecord.model_validate(fields)


def _describe_left_out(left_out: Truncated, priced: Priced | None) -> Mapping[str, object]:
    """Return what was left out of a request of which the provider holds the history.

    What is new in it would have been written to the cache, and what was left out before, read.
    """
    fields: dict[str, object] = {}
    if left_out.results:
        fields["shortened"] = left_out.results
        fields["left_out_tokens"] = left_out.tokens
    if priced is None:
        return fields
    pricing = priced.pricing
    saved = left_out.tokens * pricing.write + left_out.before * pricing.read
    dollars = pricing.in_dollars(saved)
    return {
        **fields,
        "arrival_saved_tokens": round(saved, _TOKEN_DIGITS),
        "arrival_saved_tokens_error": round(DEFAULT_SPREAD * saved, _TOKEN_DIGITS),
        "arrival_saved_dollars": _round_dollars(dollars),
    }


def _name_masking(answered: Answered) -> str:
    if not answered.rewritten.received.settings.strategies.can_change:
        return "off"
    return "observed" if answered.rewritten.observed else "on"


def _fits_unmasked(answered: Answered, measured: Measured) -> bool | None:
    """Whether the request as the agent wrote it would fit its model's window; None if unknown.

    What the provider counted of the prompt that was sent shows how many tokens the model makes.
    """
    rewritten, sizes = answered.rewritten, measured.sizes
    window = rewritten.priced.pricing.window if rewritten.priced else None
    unmasked = sizes.request_tokens_before
    if window is None or unmasked is None:
        return None
    was_unmasked = rewritten.observed or not rewritten.received.answers_masked
    sent = unmasked if was_unmasked else sizes.request_tokens_after
    counted = answered.usage and answered.usage.prompt
    if counted and sent:
        return fits_window(unmasked * counted / sent, window, counted=True)
    return fits_window(unmasked, window)


# What it cost


def describe_pricing(pricing: Pricing) -> Mapping[str, object]:
    """Return the fields of a record that say what a cached and a written token were billed at."""
    return {
        "price_source": pricing.source,
        "price_read_ratio": pricing.read,
        "price_write_ratio": pricing.write,
    }


def describe_entry(entry: Entry) -> Mapping[str, object]:
    """Return the fields of a record that say what a request cost; null for what is not known."""
    bill, tokens, dollars = entry.bill, entry.bill.tokens, entry.bill.dollars
    is_priced = bill.is_in_dollars
    fields: dict[str, object] = {
        "conversation": entry.conversation,
        "boundary_moved": entry.move is not None,
        "move_price_tokens": entry.move and round(entry.move.price, _TOKEN_DIGITS),
        "boundary_held": entry.is_frozen,
        "predicted_cached_tokens": entry.cost.predicted,
        "cached_tokens_basis": entry.cost.basis,
        "tokens_by_kind_before": _round_kinds(bill.prompt_before),
        "cost_tokens_before": round(tokens.before, _TOKEN_DIGITS),
        "cost_dollars_before": _round_dollars(dollars.before if is_priced else None),
        "tokens_by_kind_after": _round_kinds(bill.prompt_after),
        "cost_tokens_after": round(tokens.after, _TOKEN_DIGITS),
        "cost_dollars_after": _round_dollars(dollars.after if is_priced else None),
        "saved_tokens_error": round(tokens.error, _TOKEN_DIGITS),
        "saved_tokens_error_by_chance": round(tokens.margin.chance, _TOKEN_DIGITS),
        "roads": {
            name: (
                round(road.tokens.after, _TOKEN_DIGITS),
                round(road.tokens.error, _TOKEN_DIGITS),
            )
            for name, road in bill.roads.items()
        }
        or None,
    }
    if entry.left_out is not None:
        fields |= {
            "arrival_saved_tokens": round(tokens.at_arrival, _TOKEN_DIGITS),
            "arrival_saved_tokens_error": round(tokens.arrival_margin.width, _TOKEN_DIGITS),
            "arrival_saved_dollars": _round_dollars(dollars.at_arrival if is_priced else None),
        }
    return fields


def _round_kinds(kinds: TokenKinds) -> tuple[int, int, int]:
    return round(kinds.uncached), round(kinds.read), round(kinds.written)


def _round_dollars(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars, _DOLLAR_DIGITS)


# By which software


class _Described(NamedTuple):
    settings: Settings
    fields: Mapping[str, object]


_MOST_DESCRIBED = 16
"""More settings than these are hardly in force at a time: those of the file, and of its rules."""

_described: dict[int, _Described] = {}


def describe_software(settings: Settings) -> Mapping[str, object]:
    """Return the fields of a record that say by which software it was made, and its settings."""
    # By identity: a digest of all settings, or only their hash, takes longer than the record.
    found = _described.get(id(settings))
    if found is not None and found.settings is settings:
        return found.fields
    fields = {
        "record_schema": RECORD_SCHEMA,
        "software_version": VERSION,
        "config_digest": settings.digest,
    }
    if len(_described) >= _MOST_DESCRIBED:
        _described.clear()
    _described[id(settings)] = _Described(settings, fields)
    return fields
