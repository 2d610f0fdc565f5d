"""All that puts a record, or the sums of some requests, into words.

The log, the line at the end of `obsmask run`, `obsmask status`, the page and the tables of
`obsmask replay` take their words from here.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from addon.config_commands import Advice
from addon.passed import Passed, name_of
from addon.records.record import RequestRecord
from addon.records.tally import (
    BillSum,
    RunTally,
    Savings,
    Tally,
    Totals,
    read_savings,
    read_total_savings,
)
from addon.request import one_line
from masking.accounting import is_about_nothing
from masking.model import REASONS
from masking.wire import OnHistoryEdit

# Amounts, and what was saved


TOKENS = "{:,.0f}"
"""How an amount of input tokens is written."""

_DOLLARS = "${:,.4f}"
_MANY_DOLLARS = 10

_WORTH_MENTIONING = 0.01
"""The part of a bill by which a warm cache must change it to be mentioned."""


def dollar_format(dollars: float) -> str:
    """Return how amounts of up to so many dollars are written."""
    return "${:,.2f}" if dollars >= _MANY_DOLLARS else _DOLLARS


def render_error(share: float, form: str) -> str:
    """Return a margin of error in percent, to follow its amount; nothing if it is 0."""
    rendered = form.format(100 * share)
    return f" ±{rendered}" if float(rendered) else ""


def render_change(before: int, after: int) -> str:
    """Return two token counts and their difference: `12,000 -> 3,000 tokens (-75%)`."""
    if before == after:
        return f"{before:,} tokens"
    share = after / before - 1
    shown = f"{share:+.0%}" if abs(share) >= 0.005 else "less than 1%"
    return f"{before:,} -> {after:,} tokens ({shown})"


def render_bill(bill: BillSum, form: str, note: str | None = None, unit: str = "") -> str:
    """Return what was saved: `$0.9301 of $4.2100 saved (22% ±1, at API prices)`.

    It is `cost $3.2799, about as unmasked` if the margin of error is as large as the amount.

    form: how an amount is written, such as `dollar_format` returns.
    note: what else to know of the amounts.
    unit: what follows the last of them.
    """
    if not bill.is_certain:
        about = ", about as unmasked" if bill.saved else ""
        return f"cost {form.format(bill.after)}{unit}{about}" + (f" ({note})" if note else "")
    amount, before = form.format(abs(bill.saved)), f"{form.format(bill.before)}{unit}"
    amounts = f"{amount} of {before} saved" if bill.saved > 0 else f"{amount} lost on {before}"
    return f"{amounts} {_render_share(bill, note)}"


def _render_would_be_bill(bill: BillSum, form: str, note: str | None, unit: str = "") -> str:
    """Return what would have been saved: `saved $0.9301 of $4.2100 (22% ±1)`."""
    amount, before = form.format(abs(bill.saved)), f"{form.format(bill.before)}{unit}"
    if not bill.is_certain:
        return f"cost about as much, {before}" + (f" ({note})" if note else "")
    amounts = f"saved {amount} of {before}" if bill.saved > 0 else f"lost {amount} on {before}"
    return f"{amounts} {_render_share(bill, note)}"


def _render_share(bill: BillSum, note: str | None) -> str:
    """Return the part of a bill that was saved or lost, and the note: `(22% ±1, at API prices)`."""
    share, error = bill.saved_share or 0.0, bill.saved_share_error or 0.0
    return f"({abs(share):.0%}{render_error(error, '{:.0f}')}{f', {note}' if note else ''})"


def render_uncertain(bill: BillSum) -> str | None:
    """Return what a cell says where nothing was saved for certain: `0`, or `about 0`; else None."""
    if bill.is_certain:
        return None
    return "about 0" if bill.saved else "0"


def render_net(bill: BillSum, unit: str) -> str:
    """Return what was saved, with its margin: `$0.0930 ±0.0100 (22%)`; `about 0` within it."""
    if (uncertain := render_uncertain(bill)) is not None:
        return uncertain
    form, end = (dollar_format(bill.before), "") if unit == "usd" else (TOKENS, " input tokens")
    sign = "-" if bill.saved < 0 else ""
    share = f" ({abs(bill.saved_share or 0.0):.0%})"
    return f"{sign}{form.format(abs(bill.saved))}{_render_off(bill.error, form)}{end}{share}"


def render_savings(savings: Savings) -> str:
    """Return what masking saved: `+$1.2000 ±0.1000`, or in input tokens unless all is priced.

    It is `about 0` if the error is as large as the amount.
    """
    if savings.dollars is None or savings.unpriced:
        saved, error = savings.tokens, savings.tokens_error
        form, end = TOKENS, " input tokens"
    else:
        saved, error = savings.dollars, savings.dollars_error or 0.0
        form, end = _DOLLARS, ""
    if is_about_nothing(saved, error):
        return "about 0"
    sign = "-" if saved < 0 else "+"
    return f"{sign}{form.format(abs(saved))}{_render_off(error, form)}{end}"


def render_saved_percent(before: float, saved: float, error: float) -> str:
    """Return the part of a cost that was saved: `+22.1% ±1.2`; `about 0` within its margin."""
    if not before:
        return ""
    if is_about_nothing(saved, error):
        return "about 0"
    return f"{100 * saved / before:+.1f}%{render_error(error / before, '{:.1f}')}"


def _render_off(error: float, form: str) -> str:
    """Return a margin of error, to follow its amount: ` ±0.0100`; nothing if it is 0."""
    shown = form.replace("$", "").format(error)
    return f" ±{shown}" if float(shown.replace(",", "")) else ""


# A request


def render_line(record: RequestRecord) -> str:
    """Return the log's line about a request."""
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
        off = f"masking off, {record.tool_results} tool results"
        return ", ".join((off, *_render_request_bill(record)))
    time = f"{(record.hook_us or 0) / 1000:.1f} ms"
    outcome = ", ".join((*_render_changes(record), *_render_request_bill(record), time))
    if record.masking == "observed":
        held_out = "" if record.group is None else ", held out"
        return f"observed{held_out}: would have {outcome}"
    return outcome


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


def _render_request_bill(record: RequestRecord) -> Iterator[str]:
    if record.conversation is None:
        return
    yield f"{render_cost(record)}, {render_prices(record)}"
    if record.total_net_tokens:
        yield f"net {render_savings(read_savings(record))} in conversation {record.conversation}"
        yield f"{render_savings(read_total_savings(record))} in all"


def render_cost(record: RequestRecord) -> str:
    """Return what a request cost: `cost $0.0267 -> $0.0155 (-42% ±3)`, in tokens without a price.

    Of several amounts in tokens only the last has its unit. If what was saved may as well be
    nothing, the words say so: `cost $0.0155, about as unmasked`.
    """
    before, warm = record.cost_tokens_before or 0.0, record.cost_tokens_before_warm or 0.0
    after, error = record.cost_tokens_after or 0.0, record.saved_tokens_error or 0.0
    shown_before = _render_amount(before, record.cost_dollars_before)
    shown_warm = _render_amount(warm, record.cost_dollars_before_warm)
    shown_after = _render_amount(after, record.cost_dollars_after)
    if record.cost_dollars_after is None:
        shown_after += " input tokens"
    has_note = abs(before - warm) > _WORTH_MENTIONING * before
    note = f" ({shown_warm} with a warm cache)" if has_note else ""
    if before == after:
        return f"cost {shown_after}{note}"
    if is_about_nothing(before - after, error):
        return f"cost {shown_after}{note}, about as unmasked"
    change = after / before - 1 if before else 0.0
    off = render_error(error / before if before else 0.0, "{:.0f}")
    return f"cost {shown_before}{note} -> {shown_after} ({change:+.0%}{off})"


def _render_amount(tokens: float, dollars: float | None) -> str:
    return TOKENS.format(tokens) if dollars is None else _DOLLARS.format(dollars)


def render_prices(record: RequestRecord) -> str:
    """Return the prices, and where they come from: `cached at 0.5 (price list)`."""
    read, write = record.price_read_ratio or 0.0, record.price_write_ratio or 0.0
    written = f", written at {write:g}" if write != 1 else ""
    return f"cached at {read:g}{written} ({record.price_source})"


# Some requests, in a line


def render_tally(tally: Tally, unmasked: "WhyUnmasked | None" = None) -> str:
    """Return what some requests add up to: `81 requests, 1,204,113 tokens sent, ...`.

    In dollars where a price is known, else in input tokens. Where nothing was masked, it says why:
    `unmasked`, or else what `why_nothing_masked` finds.
    """
    return ", ".join(_list_sums(tally, unmasked))


def _list_sums(tally: Tally, unmasked: "WhyUnmasked | None") -> Iterator[str]:
    yield count_requests(tally.count)
    if tally.failed:
        yield f"{tally.failed:,} failed"
    if tally.tokens_after:
        yield f"{tally.tokens_after:,} tokens sent"
    if tally.changed and tally.tokens_before:
        not_sent = tally.tokens_before - tally.tokens_after
        yield f"{not_sent:,} not sent ({-not_sent / tally.tokens_before:+.0%})"
    if tally.dollars.requests:
        note = "at API prices" if tally.subscriptions else None
        yield render_bill(tally.dollars, dollar_format(tally.dollars.before), note)
        if tally.unpriced.requests:
            yield f"no price known for {count_requests(tally.unpriced.requests)}"
    elif tally.changed and tally.tokens.requests:
        yield render_bill(tally.tokens, TOKENS, "no price is known", " input tokens")
    if tally.count and not tally.changed and tally.requests["observed"] < tally.count:
        yield str(unmasked or why_nothing_masked(tally))
    if tally.summaries:
        yield count_summaries(tally.summaries)
    if tally.observed is not None:
        yield f"observed: {render_observed(tally.observed)}"


def render_observed(observed: Tally) -> str:
    """Return what masking would have done to requests that were observed only.

    `observed` counts them as if they had been masked. Where nothing would have been masked, it says
    why.
    """
    if not observed.changed:
        return (
            f"masking would have changed nothing, because {why_nothing_masked(observed).explain()}"
        )
    done = []
    if before := observed.tokens_before:
        spared = before - observed.tokens_after
        done.append(f"left out {spared:,} of {before:,} tokens ({-spared / before:+.0%})")
    if observed.dollars.requests:
        note = "at API prices" if observed.subscriptions else None
        form = dollar_format(observed.dollars.before)
        done.append(_render_would_be_bill(observed.dollars, form, note))
    elif observed.tokens.requests:
        note = "no price is known"
        done.append(_render_would_be_bill(observed.tokens, TOKENS, note, " input tokens"))
    return f"masking would have {' and '.join(done) or 'masked tool results'}"


def count_requests(count: int) -> str:
    """Return `1 request`, `2 requests`."""
    return f"{count:,} request{'' if count == 1 else 's'}"


def count_summaries(count: int) -> str:
    """Return `1 request for a summary left whole`."""
    return f"{count_requests(count)} for a summary left whole"


def list_rereads(tally: Tally) -> Iterator[str]:
    """Yield how many calls repeated one whose result was masked, or would have been."""
    observed = tally.observed.rereads if tally.observed is not None else 0
    for count, was in ((tally.rereads, "was"), (observed, "would have been")):
        if count:
            calls = "1 call" if count == 1 else f"{count:,} calls"
            yield f"{calls} repeated one whose result {was} masked"


def render_resent(tally: Tally) -> str:
    """Return how many requests were refused masked, and how many were accepted unmasked."""
    count, accepted = tally.resent.total(), tally.resent["accepted"]
    return f"{count_requests(count)} sent again whole after a 400 ({accepted:,} accepted)"


_MOST_NAMED = 3
"""The conversations that `list_outgrown` names."""


def render_outgrown(tally: Tally) -> str:
    """Return how many conversations depend on masking, and what that means for a user."""
    count = len(tally.outgrown)
    fit = "conversation no longer fits its" if count == 1 else "conversations no longer fit their"
    return (
        f"{count:,} {fit} model without masking: switch it off only after the agent has made a "
        "summary (/compact)"
    )


def list_outgrown(tally: Tally) -> Iterator[str]:
    """Yield `render_outgrown`, if there are any, then a line for each of the last few."""
    if not tally.outgrown:
        return
    yield render_outgrown(tally)
    for record in [*tally.outgrown.values()][-_MOST_NAMED:]:
        tokens, window = record.request_tokens_before, record.model_window_tokens
        sizes = "" if tokens is None or window is None else f", {tokens:,} tokens for {window:,}"
        yield f"{one_line(record.model or '?')} at {one_line(record.host)}{sizes}"


# Why nothing was masked


class WhyUnmasked(NamedTuple):
    """Why nothing was masked, and what would change that; None if nothing would."""

    because: str
    setting: str | None = None

    def __str__(self) -> str:
        return f"nothing masked, because {self.explain()}"

    def explain(self) -> str:
        """Return why, and what changes that."""
        end = "" if self.setting is None else f"; {self.setting} changes that"
        return f"{self.because}{end}"


_DROPS = {"schema1.bound_reasoning": "drop"}
BOUND: Mapping[OnHistoryEdit, WhyUnmasked] = {
    "refuses": WhyUnmasked("the model binds its reasoning to all that precedes it"),
    "drops": WhyUnmasked("the model would lose its reasoning", Advice().set(_DROPS)),
}
"""By what the provider does with reasoning once a text before it has changed."""

_HOLDS = "the provider holds the history of the agent's WebSocket"
_SENDS_TO_HTTP = {"websocket.mode": "auto"}

PASSED: Mapping[Passed, WhyUnmasked] = {
    "signed": WhyUnmasked("claude-code signs what it sends", "obsmask run -- claude"),
    "pass": WhyUnmasked(_HOLDS, Advice().set(_SENDS_TO_HTTP)),
    "unknown": WhyUnmasked(_HOLDS, Advice().set({"websocket.mode": "http"})),
    "bound": BOUND["drops"],
    "unmasked": WhyUnmasked(f"{_HOLDS}, which stays open unless masking is on"),
}
"""By why requests passed through, where that can be changed, or can be said better."""

_MASKS_ERRORS = {"schema1.keep_errors": False}
_ERRORS = WhyUnmasked("the older tool results look like errors", Advice().set(_MASKS_ERRORS))

CHANGES: Mapping[WhyUnmasked, Mapping[str, object]] = {
    BOUND["drops"]: _DROPS,
    PASSED["pass"]: _SENDS_TO_HTTP,
    _ERRORS: _MASKS_ERRORS,
}
"""The settings that change it, where they do: a caller may know in which file."""


def why_nothing_masked(tally: Tally) -> WhyUnmasked:
    """Return why no tool result was changed; of several causes, first what a setting ends."""
    passed = tally.passed_through
    if known := [why for why in passed if name_of(why) in PASSED]:
        return explain_passed(tally, max(known, key=passed.__getitem__))
    if tally.bound:
        ((binding, _),) = tally.bound.most_common(1)
        return BOUND[binding]
    if tally.requests["observed"] == tally.count:
        return WhyUnmasked("masking is only observed")
    if tally.requests["off"] == tally.count:
        return WhyUnmasked("masking is off")
    if passed:
        ((why, most),) = passed.most_common(1)
        # The first request often holds no history, and does not pass.
        if passed.total() == tally.count or most > tally.count / 2:
            is_every = passed.total() == tally.count
            some = "every request" if is_every else f"{most:,} of {count_requests(tally.count)}"
            return WhyUnmasked(f"{some} passed through untouched: {one_line(why)}")
    if not tally.results:
        return WhyUnmasked("no request held a tool result")
    if tally.kept["held"]:
        return WhyUnmasked("moving the boundary does not pay yet")
    # Those in the window are no reason if others are older.
    older = [(count, why) for why, count in tally.kept.items() if why != "in_window"]
    if not older:
        return WhyUnmasked("no tool result is older than the window")
    _, why = max(older)
    if why == "error":
        return _ERRORS
    return WhyUnmasked(f"the older tool results stay: {_SENTENCES.get(why) or one_line(why)}")


_SENTENCES: Mapping[str, str] = {reason: info.sentence for reason, info in REASONS.items()}


def explain_passed(tally: Tally, why: str) -> WhyUnmasked:
    """Return why requests passed through untouched, for a reason that a tally has.

    Where most of them hold bound reasoning, a setting that has them masked is not enough: results
    are then kept for that.
    """
    name = name_of(why)
    passed = (PASSED.get(name) if name else None) or WhyUnmasked(one_line(why))
    most = tally.passed_through[why] / 2
    binding = next((each for each in BOUND if tally.passed_bound[why, each] > most), None)
    if binding is None or passed.setting is None or passed in BOUND.values():
        return passed
    bound = BOUND[binding]
    both = None if bound.setting is None else f"{passed.setting}, with {bound.setting},"
    return WhyUnmasked(f"{passed.because}, and {bound.because}", both)


# A run of the proxy


def render_totals(totals: Totals) -> str:
    """Return the line at the end of a run: its requests, failures, and what masking did."""
    sent, replayed = totals.sent, totals.replayed
    again = f"{replayed.tally.count} replayed requests: {_render_run(replayed)}"
    if replayed.tally.count and not sent.tally.count:
        return again
    rates = ", ".join(
        f"{sent.tally.requests[masking]} with masking {masking} "
        f"({sent.tally.count_failures(masking)} failed)"
        for masking in ("on", "observed", "off")
        if sent.tally.requests[masking]
    )
    line = f"{sent.tally.count} requests: {rates or 'none'}; {_render_run(sent)}"
    return f"{line}; {again}" if replayed.tally.count else line


def _render_run(run: RunTally) -> str:
    return "; ".join(_list_run(run))


def _list_run(run: RunTally) -> Iterator[str]:
    tally = run.tally
    yield (
        f"{tally.masked} results masked, {render_change(tally.tokens_before, tally.tokens_after)}"
    )
    if tally.images:
        yield f"{tally.images} images masked in them"
    if tally.redacted:
        yield f"{tally.redacted} results redacted"
    if tally.rereads:
        yield f"{tally.rereads} re-reads of masked results"
    if bound := tally.kept["bound"]:
        yield f"{bound} results kept for bound reasoning"
    if tally.summaries:
        yield count_summaries(tally.summaries)
    for stage, count in tally.reductions.most_common():
        yield f"{count} reduced by {stage}"
    if run.savings.tokens:
        yield f"net {render_savings(run.savings)}"
    if run.held:
        yield f"{len(run.held)} conversations with a held boundary"
    if tally.outgrown:
        yield render_outgrown(tally)
    if tally.resent:
        yield render_resent(tally)
    if tally.passed_through:
        passed = ", ".join(f"{count} {why}" for why, count in tally.passed_through.most_common())
        yield f"passed through: {passed}"
    if tally.observed:
        yield f"observed: {render_observed(tally.observed)}"
