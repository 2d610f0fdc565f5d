"""What a replay came to: the cells of its tables, sentences, and JSON."""

from collections.abc import Mapping

from addon.counts import pluralize
from addon.records.words import Currency, render_saved_percent
from addon.replay.totals import ArrivalTotals, Totals
from masking.accounting import Bill, Money, is_about_nothing


def list_cells(totals: Totals, currency: Currency) -> Mapping[str, str]:
    """Return what tables say of some requests, by the columns that the terminal's table has.

    `arrival` and `masking` are the parts of what was saved that are by each of them.
    """
    money, render, rereads = (
        currency.choose(totals.bill),
        currency.render_bare,
        totals.chosen_rereads,
    )
    by_arrival = ""
    if totals.arrival.results:
        width = money.arrival_margin.width
        by_arrival = render_saved_percent(money.before, money.at_arrival, width)
    return {
        "requests": f"{totals.requests:,}",
        "tokens before": render_count(totals.bill.prompt_before.total),
        "tokens after": render_count(totals.bill.prompt_after.total),
        "all sent": render(money.before),
        "sliding": render(currency.choose(totals.sliding).after),
        "chosen": render(money.after),
        "saved": render_saved_percent(money.before, money.saved, money.error),
        "arrival": by_arrival,
        "masking": render_saved_percent(money.before, money.by_masking, money.by_masking_error),
        "re-reads": render_share(rereads.either, rereads.calls),
        "quotes": render_share(rereads.quoted, rereads.calls),
    }


def render_count(value: float) -> str:
    """Return a whole number: `12,345`."""
    return f"{value:,.0f}"


def render_share(count: int, calls: int) -> str:
    """Return the part of all calls that some are: `12.3%`; empty if there is no call."""
    return f"{count / calls:.1%}" if calls else ""


def explain_nothing(bill: Bill, bound: int, held: int) -> str:
    """Return why masking saved nothing of a bill; empty if it saved or lost.

    bound, held: as in `Totals`.
    """
    if bill.tokens.saved or not bill.tokens.requests:
        return ""
    if bound:
        return "binds its reasoning"
    return "does not pay yet" if held else "too short"


def describe_arrival(arrival: ArrivalTotals, calls: int, money: Money, currency: Currency) -> str:
    """Return what shortening at arrival left out and saved, and which calls refer to it.

    calls: all of them. money: of all requests. Empty if nothing was left out.
    """
    if not arrival.results:
        return ""
    by_arrival = _describe_saved(money.at_arrival, money.arrival_margin.width, currency)
    by_masking = _describe_saved(money.by_masking, money.by_masking_error, currency)
    counted = max(1, calls)
    return (
        f"At arrival {pluralize(arrival.results, 'long result')} would have been shortened by "
        f"{pluralize(arrival.chars, 'character')} in all. That would have {by_arrival}; "
        f"masking would have {by_masking}. Of {pluralize(calls, 'call')}, "
        f"{arrival.rereads.either / counted:.1%} repeat or name what was left out, and "
        f"{arrival.rereads.quoted / counted:.1%} quote it: the least to expect, because these "
        "agents had seen the results whole and had no reason to ask again."
    )


def _describe_saved(saved: float, error: float, currency: Currency) -> str:
    if not saved or is_about_nothing(saved, error):
        return "saved about nothing"
    return f"{'saved' if saved > 0 else 'lost'} {currency.render(abs(saved))}"


# As JSON


def dump_totals(totals: Totals) -> dict[str, object]:
    """Return the sums of some requests, as `--json` prints them; null is what is not known.

    All that is before or after masking has in it what was left out at arrival.
    """
    bill, currency = totals.bill, totals.currency
    money, recorded = currency.choose(bill), currency.choose(totals.recorded)
    chosen, sliding = totals.chosen_rereads, totals.sliding_rereads
    return {
        "window_turns": totals.window_turns,
        "requests": totals.requests,
        "tool_results": totals.tool_results,
        "masked_tool_results": totals.masked_tool_results,
        "tool_chars_before": totals.tool_chars_before,
        "tool_chars_after": totals.tool_chars_after,
        "tokens_before": round(bill.prompt_before.total),
        "tokens_after": round(bill.prompt_after.total),
        "cost_unit": "usd" if currency.is_dollars else "input_tokens",
        "cost_before": money.before,
        "cost_sliding": currency.choose(totals.sliding).after,
        "cost_after": money.after,
        "saved_error": money.error,
        "delta_percent": (money.after / money.before - 1) * 100 if money.before else None,
        "worst_percent": None if totals.worst is None else (totals.worst.part - 1) * 100,
        "calls": chosen.calls,
        "rereads": chosen.either,
        "quotes": chosen.quoted,
        "rereads_sliding": sliding.either,
        "quotes_sliding": sliding.quoted,
        "asked_again": money.asked_again,
        "arrival": dump_arrival(totals.arrival, money),
        "recorded": {
            "requests": recorded.requests,
            "cost_before": recorded.before,
            "cost_after": recorded.after,
            "saved_error": recorded.error,
        }
        if recorded.requests
        else None,
    }


def dump_arrival(arrival: ArrivalTotals, money: Money) -> dict[str, object] | None:
    """Return what shortening at arrival did, and saved of this; None if nothing was left out.

    Each result counts once in its conversation; its tokens, at each request.
    """
    if not arrival.results:
        return None
    return {
        "results": arrival.results,
        "left_out_chars": arrival.chars,
        "left_out_tokens": round(arrival.tokens),
        "saved": money.at_arrival,
        "saved_error": money.arrival_margin.width,
        "saved_by_masking": money.by_masking,
        "saved_by_masking_error": money.by_masking_error,
        "rereads": arrival.rereads.either,
        "quotes": arrival.rereads.quoted,
    }
