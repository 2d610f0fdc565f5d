"""`obsmask status --json`: everything that was reckoned, with the units in the names."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from addon.commands.status_groups import Groups
from addon.metrics.holdout import Holdout
from addon.metrics.record import RequestRecord
from addon.metrics.sums import BillSum, RedactionSum, Waits
from addon.metrics.tally import Tally


def render_json(groups: Groups, since: datetime, source: Path) -> str:
    """Return what was reckoned as JSON; null is what is not known."""
    told = {
        "records": str(source),
        "since": since.isoformat(timespec="seconds"),
        "time_zone": since.tzname(),
        "replayed": groups.replayed,
        "requests_left_out": groups.left_out,
        "total": describe_tally(groups.total),
        "holdout": describe_holdout(groups.holdout),
        "by": groups.by,
        "groups": [{"key": key, **describe_tally(tally)} for key, tally in groups.sort()],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def describe_holdout(holdout: Holdout) -> Mapping[str, object]:
    """Return each measure of a conversation, for those masked and those held out."""
    return {
        f"{name.replace('-', '').replace(' ', '_')}_per_conversation": {
            "masked": difference.masked._asdict(),
            "held_out": difference.held_out._asdict(),
            "is_more_than_chance": difference.is_telling if difference.is_told else None,
        }
        for name, difference in holdout.compare().items()
    }


def describe_tally(tally: Tally) -> Mapping[str, object]:
    """Return everything that some requests come to."""
    return {
        "requests": tally.count,
        "requests_by_masking": dict(tally.requests),
        "failures_by_masking": {
            masking: {
                "failures": tally.count_failures(masking),
                "by_cause": {w: n for (m, w), n in tally.failures.items() if m == masking},
            }
            for masking in tally.requests
        },
        "conversations": len(tally.conversations),
        "conversations_that_need_masking": len(tally.outgrown),
        "observed_as_if_masked": tally.observed and describe_tally(tally.observed),
        "resent_requests_by_outcome": dict(tally.resent),
        "passed_through_requests": dict(tally.passed_through),
        "tool_results": tally.results,
        "masked_results": tally.masked,
        "masked_images": tally.images,
        "redacted_results": tally.redacted,
        "reduced_results": tally.reduced,
        "dropped_results": tally.dropped,
        "rereads": tally.rereads,
        "summary_requests_left_whole": tally.summaries,
        "kept_results_by_reason": dict(tally.kept),
        "tokens_before": tally.tokens_before,
        "tokens_after": tally.tokens_after,
        "requests_without_counted_tokens": tally.uncounted,
        "prompt_tokens_reported": tally.prompt_tokens,
        "cached_tokens_reported": tally.cached_tokens,
        "cost_in_input_tokens": _describe_bill(tally.tokens),
        "cost_in_dollars": _describe_bill(tally.dollars),
        "cost_in_input_tokens_where_no_price_is_known": _describe_bill(tally.unpriced),
        "subscription_requests": tally.subscriptions,
        "requests_by_host_with_assumed_prices": dict(tally.assumed),
        "dearest_request": _describe_request(tally.dearest),
        "redaction": _describe_redaction(tally.redaction),
        "reductions_by_stage": dict(tally.reductions),
        "first_chunk_without_move": _describe_waits(tally.waits),
        "first_chunk_after_move": _describe_waits(tally.waits_after_move),
    }


def _describe_bill(bill: BillSum) -> Mapping[str, object]:
    return {
        "requests": bill.requests,
        "before": bill.before,
        "after": bill.after,
        "saved": bill.saved,
        "saved_error": bill.error,
        "saved_share": bill.saved_share,
        "saved_share_error": bill.saved_share_error,
    }


def _describe_redaction(redaction: RedactionSum) -> Mapping[str, object]:
    return {
        "requests": redaction.requests,
        "results": redaction.results,
        "redacted_results": redaction.redacted,
        "redacted_share": redaction.share,
        "results_by_scenario": redaction.scenarios,
    }


def _describe_waits(waits: Waits) -> Mapping[str, object]:
    return {
        "answers": len(waits.seconds),
        "median_seconds": waits.find_percentile(50),
        "percentile_90_seconds": waits.find_percentile(90),
    }


_TOLD = (
    *("time", "host", "model", "client", "tag", "conversation_id", "request_tokens_after"),
    *("cost_tokens_before", "cost_tokens_after", "cost_dollars_before", "cost_dollars_after"),
)


def _describe_request(record: RequestRecord | None) -> Mapping[str, object] | None:
    return None if record is None else {name: getattr(record, name) for name in _TOLD}
