"""`obsmask status` in a terminal: what the requests came to, row by row."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from addon.commands.status_period import find_local_time
from addon.metrics.holdout import Holdout
from addon.metrics.holdout_words import list_lines
from addon.metrics.record import RequestRecord
from addon.metrics.sums import Waits
from addon.metrics.tally import Tally
from addon.metrics.tally_line import (
    BOUND,
    count_requests,
    count_summaries,
    explain_passed,
    find_form,
    find_why_untouched,
    list_outgrown,
    list_rereads,
    render_bill,
    render_observed,
    render_resent,
)
from addon.request import one_line

Rows = Iterator[str]


def render_overview(tally: Tally, holdout: Holdout) -> Table:
    """Return what all requests came to: a row for each thing to know, none for what is not so."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for label, describe in _ROWS.items():
        for number, line in enumerate(describe(tally)):
            table.add_row("" if number else label, Text(line))
    for number, line in enumerate(list_lines(holdout)):
        table.add_row("" if number else "Held out", Text(line))
    return table


def render_counts(counts: Counter[str]) -> str:
    """Return `9 x 429, 3 x 500`, the most frequent first."""
    return ", ".join(f"{count:,} x {one_line(what)}" for what, count in counts.most_common())


def _describe_requests(tally: Tally) -> Rows:
    count = len(tally.conversations)
    within = f" in {count:,} conversation{'' if count == 1 else 's'}" if count else ""
    yield f"{tally.count:,}{within}"


def _describe_tokens(tally: Tally) -> Rows:
    before, after = tally.tokens_before, tally.tokens_after
    if before == after:
        yield f"{after:,} sent"
    else:
        yield f"{after:,} sent, {before - after:,} not sent ({after / before - 1:+.0%})"
    if tally.uncounted:
        yield f"not counted in {count_requests(tally.uncounted)}"
    if tally.prompt_tokens:
        share = tally.cached_tokens / tally.prompt_tokens
        yield f"{tally.prompt_tokens:,} as the providers counted, {share:.0%} of them cached"


def _describe_prompts(tally: Tally) -> Rows:
    """Yield what the prompts cost; the rows of amounts that may as well be 0 say so."""
    if tally.dollars.requests:
        notes = ["at API prices"] if tally.subscriptions else []
        form = find_form(tally.dollars.before)
        priced = f"{count_requests(tally.dollars.requests)} of known prices: "
        bill = render_bill(tally.dollars, form, *notes)
        yield f"{priced}{bill}" if tally.unpriced.requests else bill
        if tally.dollars.error:
            before, error = (form.format(n) for n in (tally.dollars.before, tally.dollars.error))
            yield f"unmasked they would have cost {before} ±{error}, which is estimated"
    if tally.unpriced.requests:
        bill = render_bill(tally.unpriced, "{:,.0f}", unit=" input tokens")
        yield f"{count_requests(tally.unpriced.requests)} of no known price: {bill}"


def _describe_untouched(tally: Tally) -> Rows:
    if tally.count and not tally.changed:
        yield str(find_why_untouched(tally))


def _describe_observed(tally: Tally) -> Rows:
    if tally.observed is not None:
        yield f"{count_requests(tally.observed.count)}: {render_observed(tally.observed)}"


def _describe_failures(tally: Tally) -> Rows:
    width = max(3, *map(len, tally.requests), 0)
    for masking in ("on", "observed", "off"):
        if requests := tally.requests[masking]:
            failed = tally.count_failures(masking)
            causes = Counter({why: n for (m, why), n in tally.failures.items() if m == masking})
            rate = f" ({failed / requests:.1%}): {render_counts(causes)}" if failed else ""
            yield f"masking {masking:{width}} {failed:,} of {count_requests(requests)}{rate}"


def _describe_resent(tally: Tally) -> Rows:
    if tally.resent:
        yield render_resent(tally)


def _describe_dearest(tally: Tally) -> Rows:
    if tally.dearest is not None:
        yield _render_cost(tally.dearest)
        yield _render_place(tally.dearest)


def _render_cost(record: RequestRecord) -> str:
    after, before = record.cost_dollars_after, record.cost_dollars_before
    form, unit = "${:,.4f}", ""
    if after is None or before is None:
        after, before = record.cost_tokens_after or 0.0, record.cost_tokens_before or 0.0
        form, unit = "{:,.0f}", " input tokens"
    unmasked = "" if before == after else f", unmasked {form.format(before)}"
    return f"{form.format(after)}{unmasked}{unit}"


def _render_place(record: RequestRecord) -> str:
    when = find_local_time(record.time)
    time = f"{when:%a %d %b %Y %H:%M}, " if when else ""
    sent = record.request_tokens_after
    size = "" if sent is None else f", {sent:,} tokens"
    return f"{time}{one_line(record.model or '?')} at {one_line(record.host)}{size}"


def _describe_redaction(tally: Tally) -> Rows:
    redaction = tally.redaction
    if redaction.results:
        share = f"{redaction.share or 0:.0%}"
        yield f"{redaction.redacted:,} of {redaction.results:,} tool results sent ({share})"
        counts = zip(_SCENARIOS, redaction.scenarios, strict=True)
        told = ", ".join(f"{what} {count:,}" for what, count in counts if count)
        yield f"by what follows a named tool's result: {told or 'none was sent'}"


_SCENARIOS = ("an answer", "calls", "nothing", "the user and calls", "calls and an answer")
"""What follows a result in each scenario, scenario 1 first."""


def _describe_reduction(tally: Tally) -> Rows:
    if tally.reductions:
        stages = (f"{count_requests(n)} by {stage}" for stage, n in tally.reductions.most_common())
        yield ", ".join(stages)


def _describe_summaries(tally: Tally) -> Rows:
    if tally.summaries:
        yield count_summaries(tally.summaries)


def _describe_waits(tally: Tally) -> Rows:
    if tally.waits.seconds:
        yield _render_waits(tally.waits)
    if tally.waits_after_move.seconds:
        yield f"where the boundary moved, {_render_waits(tally.waits_after_move)}"


def _render_waits(waits: Waits) -> str:
    median, most = waits.find_percentile(50) or 0.0, waits.find_percentile(90) or 0.0
    count = len(waits.seconds)
    if count == 1:
        return f"after {median:.2f} s in 1 answer"
    return f"within {median:.2f} s in half of {count:,} answers, within {most:.2f} s in 9 of 10"


def _describe_passed(tally: Tally) -> Rows:
    for why, count in tally.passed_through.most_common():
        yield f"{count_requests(count)}: {explain_passed(tally, why).explain()}"


def _describe_bound(tally: Tally) -> Rows:
    if tally.changed:  # else that is told as the reason why nothing was masked
        for binding, count in tally.bound.most_common():
            yield f"{count_requests(count)}: {BOUND[binding].explain()}"


def _describe_assumed(tally: Tally) -> Rows:
    for host, count in tally.assumed.most_common():
        yield f"{one_line(host)} in {count_requests(count)}: obsmask prices {one_line(host)}"


_ROWS: Mapping[str, Callable[[Tally], Rows]] = {
    "Requests": _describe_requests,
    "Tokens": _describe_tokens,
    "Prompts": _describe_prompts,
    "": _describe_untouched,
    "Observed": _describe_observed,
    "Failed": _describe_failures,
    "Sent again": _describe_resent,
    "Dearest request": _describe_dearest,
    "Redacted": _describe_redaction,
    "Reduced": _describe_reduction,
    "Re-reads": list_rereads,
    "Summaries": _describe_summaries,
    "Model's window": list_outgrown,
    "Answer begins": _describe_waits,
    "Passed untouched": _describe_passed,
    "Kept results": _describe_bound,
    "Prices assumed": _describe_assumed,
}
"""What each row tells, by its label."""
