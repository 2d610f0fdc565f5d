"""The records of `obsmask status`, counted in groups, and how these are shown.

`render_overview` and `render_groups` are for a terminal, `render_json` is for programs.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from msgspec.structs import asdict
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from addon.commands.lines import fold
from addon.counts import pluralize
from addon.quota import Reading
from addon.records.harm import judge
from addon.records.harm_words import dump_harm, list_harm
from addon.records.holdout import Holdout
from addon.records.quota_use import QuotaUse
from addon.records.record import RequestRecord
from addon.records.tally import ArrivalSum, RedactionSum, Tally, Waits, read_bill
from addon.records.words import (
    BOUND,
    BOUND_UNTIL_TRIED,
    Currency,
    count_requests,
    explain_passed,
    find_currency,
    list_answers,
    list_clearings,
    list_drops,
    list_input,
    list_outgrown,
    list_quota,
    list_rereads,
    list_resent,
    list_summaries,
    list_unmasked,
    render_cache_change,
    render_observed,
    render_saved,
    render_uncertain,
    tell_roads,
)
from addon.request import one_line
from masking.accounting import Bill, Money, TokenKinds

# Groups


def find_day(record: RequestRecord) -> date | None:
    """Return the day of a record where the user is; None if its time is none."""
    return record.when and record.when.date()


KEYS: Mapping[str, Callable[[RequestRecord], str | None]] = {
    "day": lambda record: str(find_day(record) or "") or None,
    "model": lambda record: record.model,
    "host": lambda record: record.host,
    "client": lambda record: record.client,
    "label": lambda record: record.label,
    "tag": lambda record: record.tag,
}
"""By what requests can be grouped; None is what is not known."""


@dataclass(slots=True)
class Groups:
    """The sums of all requests, and of each group.

    by: one of `KEYS`.
    replayed: whether the requests of recordings are summed up, or those that were sent.
    left_out: how many there were of the others.
    holdout: the conversations that were held out, and those that were masked meanwhile.
    """

    by: str
    replayed: bool = False
    total: Tally = field(default_factory=Tally)
    tallies: dict[str | None, Tally] = field(default_factory=dict)
    left_out: int = 0
    holdout: Holdout = field(default_factory=Holdout)

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        if record.replay != self.replayed:
            self.left_out += 1
            return
        self.total.add(record)
        self.holdout.add(record)
        self.tallies.setdefault(KEYS[self.by](record), Tally()).add(record)

    def sort(self) -> list[tuple[str | None, Tally]]:
        """Return the groups: days in their order, others by their requests, most first."""
        if self.by == "day":
            return sorted(self.tallies.items(), key=lambda item: item[0] or "")
        return sorted(self.tallies.items(), key=lambda item: (-item[1].count, item[0] or ""))


def count_groups(records: Iterable[RequestRecord], by: str, *, replayed: bool = False) -> Groups:
    """Count records in groups. They are read once, and none is kept but the most expensive."""
    groups = Groups(by, replayed)
    for record in records:
        groups.add(record)
    return groups


# The overview: a row for each thing to know

Rows = Iterable[str]


def render_overview(tally: Tally, holdout: Holdout, width: int | None) -> Text:
    """Return the sums of all requests: a row for each thing to know, unless it is nothing.

    Lines are broken at words for a terminal of that `width`, but for commands, which are copied.
    """
    verdict = judge(holdout, datetime.now(UTC))
    rows = {label: [*describe(tally)] for label, describe in _ROWS.items()}
    rows["Harm"] = [*list_harm(verdict)] if verdict else []
    indent = max((len(label) for label, lines in rows.items() if lines), default=0) + 2
    if width is not None:
        rows = {
            label: [part for line in lines for part in fold(line, max(20, width - indent))]
            for label, lines in rows.items()
        }
    lines = [
        Text.assemble((f"{'' if number else label:{indent}}", "bold"), line)
        for label, lines in rows.items()
        for number, line in enumerate(lines)
    ]
    return Text("\n").join(lines)


def render_counts(counts: Counter[str]) -> str:
    """Return `9 x 429, 3 x 500`, the most frequent first."""
    return ", ".join(f"{count:,} x {one_line(what)}" for what, count in counts.most_common())


def _describe_requests(tally: Tally) -> Rows:
    count = len(tally.conversations)
    within = f" in {pluralize(count, 'conversation')}" if count else ""
    more = f", and {tally.token_counts:,} to count tokens alone" if tally.token_counts else ""
    yield f"{tally.count - tally.token_counts:,}{within}{more}"
    sent_whole = tally.requests["observed"]
    if 0 < sent_whole < tally.count:
        held_out = "" if tally.held_out is None else f", {tally.held_out.count:,} of them held out"
        yield f"{sent_whole:,} of them only observed{held_out}: their costs stand apart"


def _describe_cache(tally: Tally) -> Rows:
    if tally.prompt_tokens:
        share = tally.cached_tokens / tally.prompt_tokens
        yield f"{share:.0%} of the input was read from it, as the providers counted"
    if changed := render_cache_change(tally.masked_bill):
        yield changed


def _describe_observed(tally: Tally) -> Rows:
    if tally.dry_run is not None:
        yield f"{count_requests(tally.dry_run.count)}: {render_observed(tally.dry_run)}"
    if tally.held_out is not None:
        held_out = count_requests(tally.held_out.count)
        yield f"{held_out} held out: {render_observed(tally.held_out)}"


def _describe_failures(tally: Tally) -> Rows:
    width = max(3, *map(len, tally.requests), 0)
    for masking in ("on", "observed", "off"):
        if requests := tally.requests[masking]:
            failed = tally.count_failures(masking)
            causes = Counter({why: n for (m, why), n in tally.failures.items() if m == masking})
            rate = f" ({failed / requests:.1%}): {render_counts(causes)}" if failed else ""
            yield f"masking {masking:{width}} {failed:,} of {count_requests(requests)}{rate}"


def _describe_most_expensive(tally: Tally) -> Rows:
    if tally.most_expensive is not None:
        yield _render_cost(tally.most_expensive)
        yield _render_place(tally.most_expensive)


def _render_cost(record: RequestRecord) -> str:
    bill = read_bill(record)
    money, currency = bill.shown, find_currency(bill)
    unmasked = f", without masking {currency.render_bare(money.before)}" if money.saved else ""
    return f"{'' if currency.is_dollars else 'worth '}{currency.render(money.after)}{unmasked}"


def _render_place(record: RequestRecord) -> str:
    when = record.when
    time = f"{when:%a %d %b %Y %H:%M}, " if when else ""
    return f"{time}{one_line(record.model or '?')} at {one_line(record.host)}"


def _describe_redaction(tally: Tally) -> Rows:
    redaction = tally.redaction
    if redaction.results:
        share = f"{redaction.share or 0:.0%}"
        results = pluralize(redaction.results, "tool result")
        yield f"{redaction.redacted:,} of {results} sent ({share})"
        counts = zip(_SCENARIOS, redaction.scenarios, strict=True)
        told = ", ".join(f"{what} {count:,}" for what, count in counts if count)
        yield f"by what follows a named tool's result: {told or 'none was sent'}"


_SCENARIOS = ("an answer", "calls", "nothing", "the user and calls", "calls and an answer")
"""What follows a result in each scenario, scenario 1 first."""


def _describe_waits(tally: Tally) -> Rows:
    if tally.waits.seconds:
        yield _render_waits(tally.waits)
    if tally.waits_after_move.seconds:
        yield f"where the boundary moved, {_render_waits(tally.waits_after_move)}"


def _render_waits(waits: Waits) -> str:
    median, most = waits.percentile(50) or 0.0, waits.percentile(90) or 0.0
    count = len(waits.seconds)
    if count == 1:
        return f"{median:.2f} s, 1 response"
    return f"p50 {median:.2f} s, p90 {most:.2f} s, {count:,} responses"


def _describe_passed(tally: Tally) -> Rows:
    for why, count in tally.passed_through.most_common():
        words = explain_passed(tally, why).explain(shortens=tally.arrival.is_any)
        yield f"{count_requests(count)}: {words}"


def _describe_bound(tally: Tally) -> Rows:
    if tally.changed:  # else another row gives it as the reason why nothing was masked
        for binding, count in tally.bound.most_common():
            is_settled = binding == "may_refuse" and tally.takes_changes
            why = BOUND_UNTIL_TRIED if is_settled else BOUND[binding]
            yield f"{count_requests(count)}: {why.explain(shortens=tally.arrival.is_any)}"


def _describe_unpriced(tally: Tally) -> Rows:
    if unpriced := tally.bill.unpriced.requests:
        yield (
            f"{count_requests(unpriced)}, to models that aren't in the price list: obsmask prices "
            "says how old it is"
        )


def _describe_assumed(tally: Tally) -> Rows:
    for host, count in tally.assumed.most_common():
        yield f"{one_line(host)} in {count_requests(count)}: obsmask prices {one_line(host)}"


_ROWS: Mapping[str, Callable[[Tally], Rows]] = {
    "Plan": lambda tally: list_quota(tally, datetime.now(UTC), is_full=True),
    "Requests": _describe_requests,
    "Input": lambda tally: (line.removeprefix("input ") for line in list_input(tally)),
    "": list_unmasked,
    "Roads": lambda tally: filter(None, [tell_roads(tally)]),
    "Observed": _describe_observed,
    "Output": lambda tally: (line.removeprefix("output ") for line in list_answers(tally.bill)),
    "Cache": _describe_cache,
    "Failed": _describe_failures,
    "Sent again": list_resent,
    "Cleared": list_clearings,
    "Dropped": list_drops,
    "Most expensive": _describe_most_expensive,
    "Redacted": _describe_redaction,
    "Reduced": lambda tally: (
        f"{count_requests(count)} by {stage}" for stage, count in tally.reductions.most_common()
    ),
    "Re-reads": list_rereads,
    "Summaries": list_summaries,
    "Model's window": list_outgrown,
    "First token": _describe_waits,
    "Passed untouched": _describe_passed,
    "Kept results": _describe_bound,
    "No price": _describe_unpriced,
    "Prices assumed": _describe_assumed,
}
"""The lines of each row, by its label."""


# The table: a row and a bar for each group

MARKS = ("\N{FULL BLOCK}", "\N{LIGHT SHADE}")
ASCII_MARKS = ("#", "-")
"""What the two parts of a bar are made of."""

MIXED = "*"
"""Marks an amount that is not of all requests of its row."""

_LEAST_WIDTH, _MOST_WIDTH = 12, 40
_GAP = 2


def render_groups(groups: Groups, width: int, marks: tuple[str, str] = MARKS) -> Table:
    """Return a row for each group.

    Amounts are of what was not observed only, in dollars if the price of any request is known, else
    in input tokens. A bar is as long as the cost without masking, and its first part is what was
    paid. The bars take what is left of `width`, in characters; there are none where that is too
    little.
    """
    tallies = groups.sort()
    currency = find_currency(groups.total.bill)
    amounts = [_choose_money(tally, currency) for _, tally in tallies]
    rows = [
        (_name(groups.by, key), *_describe(tally, money, currency))
        for (key, tally), money in zip(tallies, amounts, strict=True)
    ]
    cost = "input\ncost" if currency.is_dollars else "worth, in\ninput tokens"
    if currency.borrowed_from:
        cost = "about,\ninput cost"
    headings = (
        *(f"\n{groups.by}", "\nrequests", "\nfailed", cost),
        *("without\nmasking", "\nsaved"),
    )
    table = Table(box=SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
    table.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    columns = zip(headings, *rows, strict=True)
    left = min(_MOST_WIDTH, width - sum(_GAP + _measure(column) for column in columns) - _GAP)
    if has_bars := left >= _LEAST_WIDTH:
        paid, saved = marks
        table.add_column(f"\n{paid} paid {saved} saved", no_wrap=True)
    longest = max((_find_size(money) for money in amounts), default=0.0)
    for (name, *cells), money in zip(rows, amounts, strict=True):
        bars = [_render_bar(money, left / longest if longest else 0.0, marks)] if has_bars else []
        table.add_row(Text(name), *cells, *bars)
    return table


def _choose_money(tally: Tally, currency: Currency) -> Money | None:
    """Return the money of a row: of what was masked or might have been; None if it has none.

    Where all was observed only, it is that of what was sent.
    """
    bill = tally.masked_bill if tally.masked_bill.tokens.requests else tally.bill
    money = currency.choose(bill)
    return money if money.requests else None


def _measure(column: Iterable[str]) -> int:
    return max(cell_len(line) for cell in column for line in cell.split("\n"))


def _find_size(money: Money | None) -> float:
    return 0.0 if money is None else max(money.before, money.after)


def _render_bar(money: Money | None, scale: float, marks: tuple[str, str]) -> str:
    """Return a bar with `scale` characters for a unit; one at least, if there is any cost."""
    paid, size = (
        max(1, round(cost * scale)) if cost else 0
        for cost in (money.after if money else 0.0, _find_size(money))
    )
    return marks[0] * paid + marks[1] * (size - paid)


def _name(by: str, key: str | None) -> str:
    if key is None:
        return f"no {by}" if by in ("label", "tag") else "not known"
    return f"{date.fromisoformat(key):%a %d %b}" if by == "day" else one_line(key)


def _describe(tally: Tally, money: Money | None, currency: Currency) -> tuple[str, ...]:
    counts = (f"{tally.count - tally.token_counts:,}", f"{tally.failed:,}")
    mark = MIXED if explain_mixed(tally, in_dollars=currency.is_dollars) else ""
    if money is None:  # in a table of dollars, a row without any
        unpriced = tally.masked_bill.unpriced
        saved = render_uncertain(unpriced) or f"{unpriced.saved_share or 0:.0%}"
        return (*counts, "", "", f"{saved}{mark}" if unpriced.requests else "")
    amounts = [currency.render_bare(amount) for amount in (money.after, money.before)]
    if tally.is_observed_only:
        return (*counts, amounts[0], "", "observed")
    return (*counts, *amounts, f"{render_saved(money, currency)}{mark}")


def list_mixed(groups: Groups) -> Iterator[str]:
    """Yield what the marked amounts of the table are of, row by row."""
    in_dollars = groups.total.bill.is_in_dollars
    for key, tally in groups.sort():
        if why := explain_mixed(tally, in_dollars=in_dollars):
            yield f"{MIXED} {_name(groups.by, key)}: {why}"


def explain_mixed(tally: Tally, *, in_dollars: bool) -> str | None:
    """Return of which requests a row's amounts are; None if they are of all.

    in_dollars: whether the table is in dollars.
    """
    said = []
    bill = tally.masked_bill
    if bill.dollars.requests and bill.unpriced.requests:
        said.append(
            f"the amounts are of {count_requests(bill.dollars.requests)}; "
            f"{bill.unpriced.requests:,} without a price"
        )
    elif bill.unpriced.requests and in_dollars:
        said.append("no price is known")
    observed = tally.requests["observed"]
    if 0 < observed < tally.count:
        all_ = count_requests(tally.count - tally.token_counts)
        said.append(f"{observed:,} of {all_} were only observed: the amounts are of the others")
    return "; ".join(said) or None


# JSON


def render_json(groups: Groups, since: datetime, source: Path, filters: Mapping[str, str]) -> str:
    """Return every figure as JSON, with the units in the names; null is what is not known."""
    verdict = judge(groups.holdout, datetime.now(UTC))
    document = {
        "records": str(source),
        "since": since.isoformat(timespec="seconds"),
        "time_zone": since.tzname(),
        "filters": filters,
        "replayed": groups.replayed,
        "requests_left_out": groups.left_out,
        "total": _dump_tally(groups.total),
        "harm": verdict and dump_harm(verdict),
        "quota": [
            _dump_quota(account, reading, groups.total.quota_use)
            for (account, _), reading in groups.total.quota.items()
        ],
        "by": groups.by,
        "groups": [{"key": key, **_dump_tally(tally)} for key, tally in groups.sort()],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _dump_quota(account: str, reading: Reading, use: QuotaUse) -> Mapping[str, object]:
    """Return the latest reading of a window of a plan's quota, and what masking did to it."""
    window, resets = reading.window, reading.resets
    kept = use.find_kept(account, window)
    return {
        "account": account,
        "window": window.name,
        "label": window.label,
        "minutes": window.minutes,
        "used": window.used,
        "used_at_this_pace": reading.pace,
        "read": reading.read.isoformat(timespec="seconds"),
        "resets": resets and resets.isoformat(timespec="seconds"),
        "kept_free_by_masking": kept and kept.share,
        "kept_free_error": kept and kept.error,
    }


def _dump_tally(tally: Tally) -> Mapping[str, object]:
    """Return every sum over some requests."""
    return {
        "requests": tally.count,
        "requests_that_only_count_tokens": tally.token_counts,
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
        "observed_as_if_masked": tally.observed and _dump_tally(tally.observed),
        "held_out_as_if_masked": tally.held_out and _dump_tally(tally.held_out),
        "resent_requests_by_outcome": dict(tally.resent),
        "passed_through_requests": dict(tally.passed_through),
        "tool_results": tally.results,
        "masked_results": tally.masked,
        "masked_images": tally.images,
        "redacted_results": tally.redacted,
        "reduced_results": tally.reduced,
        "dropped_results": tally.dropped,
        "rereads": tally.rereads,
        "arrival": _dump_arrival(tally.arrival) if tally.arrival.is_any else None,
        "summary_requests_left_whole": tally.summaries,
        "kept_results_by_reason": dict(tally.kept),
        "tokens_before": tally.tokens_before,
        "tokens_after": tally.tokens_after,
        "requests_without_counted_tokens": tally.uncounted,
        "prompt_tokens_reported": tally.prompt_tokens,
        "cached_tokens_reported": tally.cached_tokens,
        "prompt_tokens_by_kind": _dump_kinds(tally.bill.prompt_before, tally.bill.prompt_after),
        "dollars_by_kind": _dump_kinds(tally.bill.dollars_before, tally.bill.dollars_after),
        "cost_in_input_tokens": _dump_money(tally.bill.tokens),
        "cost_in_dollars": _dump_money(tally.bill.dollars),
        "cost_in_input_tokens_where_no_price_is_known": _dump_money(tally.bill.unpriced),
        "cost_without_observed": _dump_bill(tally.masked_bill),
        "requests_at_borrowed_prices_by_seller": dict(tally.bill.borrowed),
        "requests_at_standard_prices_by_tier": dict(tally.bill.standard),
        "answers_with_a_price": tally.bill.answers,
        "answers_in_dollars": tally.bill.answer_dollars,
        "conversations_with_a_loss": sum(each.money.saved < 0 for each in tally.balances.values()),
        "requests_until_moves_pay_off": max(
            (wait for each in tally.balances.values() if (wait := each.pays_off_in)), default=None
        ),
        "subscription_requests": tally.bill.on_plan,
        "requests_by_host_with_assumed_prices": dict(tally.assumed),
        "dearest_request": tally.most_expensive
        and {name: getattr(tally.most_expensive, name) for name in _REQUEST_FIELDS},
        "redaction": _dump_redaction(tally.redaction),
        "reductions_by_stage": dict(tally.reductions),
        "first_chunk_without_move": _dump_waits(tally.waits),
        "first_chunk_after_move": _dump_waits(tally.waits_after_move),
    }


def _dump_bill(bill: Bill) -> Mapping[str, object]:
    return {
        "in_input_tokens": _dump_money(bill.tokens),
        "in_dollars": _dump_money(bill.dollars),
        "in_input_tokens_where_no_price_is_known": _dump_money(bill.unpriced),
    }


def _dump_kinds(before: TokenKinds, after: TokenKinds) -> Mapping[str, object]:
    return {"before": asdict(before), "after": asdict(after)}


def _dump_money(money: Money) -> Mapping[str, object]:
    return {
        "requests": money.requests,
        "before": money.before,
        "after": money.after,
        "saved": money.saved,
        "saved_error": money.error,
        "saved_share": money.saved_share,
        "saved_share_error": money.saved_share_error,
        "saved_at_arrival": money.at_arrival,
        "saved_at_arrival_error": money.arrival_margin.width,
        "calls_that_asked_again": money.asked_again,
    }


def _dump_arrival(arrival: ArrivalSum) -> Mapping[str, object]:
    return {
        "requests": arrival.requests,
        "shortened_results": arrival.results,
        "left_out_tokens": arrival.tokens,
        "saved_where_the_provider_holds_the_history": _dump_bill(arrival.held),
        "rereads": arrival.rereads,
        "quotes": arrival.quotes,
        "kept_long_results_by_reason": dict(arrival.kept),
    }


def _dump_redaction(redaction: RedactionSum) -> Mapping[str, object]:
    return {
        "requests": redaction.requests,
        "results": redaction.results,
        "redacted_results": redaction.redacted,
        "redacted_share": redaction.share,
        "results_by_scenario": redaction.scenarios,
    }


def _dump_waits(waits: Waits) -> Mapping[str, object]:
    return {
        "answers": len(waits.seconds),
        "median_seconds": waits.percentile(50),
        "percentile_90_seconds": waits.percentile(90),
    }


_REQUEST_FIELDS = (
    *("time", "host", "model", "client", "tag", "conversation_id", "request_tokens_after"),
    *("cost_tokens_before", "cost_tokens_after", "cost_dollars_before", "cost_dollars_after"),
    "price_borrowed_from",
)
