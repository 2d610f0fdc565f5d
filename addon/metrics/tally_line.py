"""What some requests come to, in one line: `81 requests, 1,204,113 tokens sent, ...`."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from addon.metrics.advice import Advice
from addon.metrics.amounts import render_error
from addon.metrics.held import HELD
from addon.metrics.sums import BillSum
from addon.metrics.tally import Tally
from addon.request import one_line
from masking.model import REASONS
from masking.wire import OnHistoryEdit

_MANY_DOLLARS = 10

_NAMED = 3
"""So many conversations are named at most."""


class Untouched(NamedTuple):
    """Why nothing was masked, and what would change that; None if nothing would."""

    because: str
    setting: str | None = None

    def __str__(self) -> str:
        return f"nothing masked, because {self.explain()}"

    def explain(self) -> str:
        """Return why, and what changes that."""
        end = "" if self.setting is None else f"; {self.setting} changes that"
        return f"{self.because}{end}"


def render_tally(tally: Tally, untouched: Untouched | None = None) -> str:
    """Return what some requests come to, in one line.

    In dollars where a price is known, else in input tokens. Where nothing was masked, it says why:
    `untouched`, or else what `find_why_untouched` finds.
    """
    return ", ".join(_render_parts(tally, untouched))


def find_why_untouched(tally: Tally) -> Untouched:
    """Return why no tool result was changed; of several causes, first what a setting ends."""
    if known := PASSED.keys() & tally.passed_through.keys():
        return explain_passed(tally, max(known, key=tally.passed_through.__getitem__))
    if tally.bound:
        ((binding, _),) = tally.bound.most_common(1)
        return BOUND[binding]
    if tally.requests["observed"] == tally.count:
        return Untouched("masking is only observed")
    if tally.requests["off"] == tally.count:
        return Untouched("masking is off")
    if tally.passed_through:
        ((why, passed),) = tally.passed_through.most_common(1)
        if tally.passed_through.total() == tally.count:
            return Untouched(f"every request passed through untouched: {one_line(why)}")
        if passed > tally.count / 2:  # the first request often holds no history, and does not pass
            some = f"{passed:,} of {count_requests(tally.count)}"
            return Untouched(f"{some} passed through untouched: {one_line(why)}")
    if not tally.results:
        return Untouched("no request held a tool result")
    return _find_why_kept(tally)


def explain_passed(tally: Tally, why: str) -> Untouched:
    """Return why requests passed through untouched, for a reason that a tally has.

    Where most of them hold bound reasoning, a setting that has them masked is not enough: results
    are then kept for that.
    """
    passed = PASSED.get(why) or Untouched(one_line(why))
    most = tally.passed_through[why] / 2
    binding = next((each for each in BOUND if tally.passed_bound[why, each] > most), None)
    if binding is None or passed.setting is None or passed in BOUND.values():
        return passed
    bound = BOUND[binding]
    both = None if bound.setting is None else f"{passed.setting}, with {bound.setting},"
    return Untouched(f"{passed.because}, and {bound.because}", both)


def render_bill(bill: BillSum, form: str, note: str | None = None, unit: str = "") -> str:
    """Return what was saved: `$0.9301 of $4.2100 saved (22% ±1, at API prices)`.

    It is `cost $3.2799, about as unmasked` if the margin of error is as large as the amount.

    form: how an amount is written, such as `find_form` returns.
    note: what else to know of the amounts.
    unit: what follows the last of them.
    """
    after = f"{form.format(bill.after)}{unit}"
    if not bill.is_telling:
        told = f"cost {after}" + ("" if bill.before == bill.after else ", about as unmasked")
        return told if note is None else f"{told} ({note})"
    share, error = bill.saved_share or 0.0, bill.saved_share_error or 0.0
    told = f"{abs(share):.0%}{render_error(error, '{:.0f}')}"
    amount, before = form.format(abs(bill.saved)), f"{form.format(bill.before)}{unit}"
    amounts = f"{amount} of {before} saved" if bill.saved > 0 else f"{amount} lost on {before}"
    return f"{amounts} ({told if note is None else f'{told}, {note}'})"


def render_observed(observed: Tally) -> str:
    """Return what masking would have done to requests that were observed only.

    `observed` counts them as if they had been masked. Where nothing would have been masked, it says
    why.
    """
    if not observed.changed:
        return (
            f"masking would have changed nothing, because {find_why_untouched(observed).explain()}"
        )
    done = []
    if before := observed.tokens_before:
        spared = before - observed.tokens_after
        done.append(f"left out {spared:,} of {before:,} tokens ({-spared / before:+.0%})")
    if observed.dollars.requests:
        note = "at API prices" if observed.subscriptions else None
        done.append(_render_reckoned(observed.dollars, find_form(observed.dollars.before), note))
    elif observed.tokens.requests:
        note = "no price is known"
        done.append(_render_reckoned(observed.tokens, "{:,.0f}", note, " input tokens"))
    return f"masking would have {' and '.join(done) or 'masked tool results'}"


def _render_reckoned(bill: BillSum, form: str, note: str | None, unit: str = "") -> str:
    """Return what would have been saved: `saved $0.9301 of $4.2100 (22% ±1)`."""
    amount, before = form.format(abs(bill.saved)), f"{form.format(bill.before)}{unit}"
    if not bill.is_telling:
        return f"cost about as much, {before}" + (f" ({note})" if note else "")
    share, error = bill.saved_share or 0.0, bill.saved_share_error or 0.0
    told = f"{abs(share):.0%}{render_error(error, '{:.0f}')}"
    amounts = f"saved {amount} of {before}" if bill.saved > 0 else f"lost {amount} on {before}"
    return f"{amounts} ({told if note is None else f'{told}, {note}'})"


def list_rereads(tally: Tally) -> Iterator[str]:
    """Yield how many calls repeated one whose result was masked, or would have been."""
    observed = tally.observed.rereads if tally.observed is not None else 0
    if tally.rereads:
        yield f"{_count_calls(tally.rereads)} repeated one whose result was masked"
    if observed:
        yield f"{_count_calls(observed)} repeated one whose result would have been masked"


def _count_calls(count: int) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{count:,} call{'' if count == 1 else 's'}"


def render_resent(tally: Tally) -> str:
    """Return how many requests were refused masked, and what came of sending them whole."""
    count, accepted = tally.resent.total(), tally.resent["accepted"]
    return f"{count_requests(count)} sent again whole after a 400 ({accepted:,} accepted)"


def find_form(dollars: float) -> str:
    """Return how to write amounts of up to so many dollars."""
    return "${:,.2f}" if dollars >= _MANY_DOLLARS else "${:,.4f}"


def count_requests(count: int) -> str:
    """Return `1 request`, `2 requests`."""
    return f"{count:,} request{'' if count == 1 else 's'}"


def count_summaries(count: int) -> str:
    """Return `1 request for a summary left whole`."""
    return f"{count:,} request{'' if count == 1 else 's'} for a summary left whole"


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
    for record in [*tally.outgrown.values()][-_NAMED:]:
        tokens, window = record.request_tokens_before, record.model_window_tokens
        sizes = "" if tokens is None or window is None else f", {tokens:,} tokens for {window:,}"
        yield f"{one_line(record.model or '?')} at {one_line(record.host)}{sizes}"


def _render_parts(tally: Tally, untouched: Untouched | None) -> Iterator[str]:
    yield count_requests(tally.count)
    if tally.failed:
        yield f"{tally.failed:,} failed"
    if tally.tokens_after:
        yield f"{tally.tokens_after:,} tokens sent"
    if tally.changed and tally.tokens_before:
        spared = tally.tokens_before - tally.tokens_after
        yield f"{spared:,} not sent ({-spared / tally.tokens_before:+.0%})"
    if tally.dollars.requests:
        note = "at API prices" if tally.subscriptions else None
        yield render_bill(tally.dollars, find_form(tally.dollars.before), note)
        if tally.unpriced.requests:
            yield f"no price known for {count_requests(tally.unpriced.requests)}"
    elif tally.changed and tally.tokens.requests:
        yield render_bill(tally.tokens, "{:,.0f}", "no price is known", " input tokens")
    if tally.count and not tally.changed and tally.requests["observed"] < tally.count:
        yield str(untouched or find_why_untouched(tally))
    if tally.summaries:
        yield count_summaries(tally.summaries)
    if tally.observed is not None:
        yield f"observed: {render_observed(tally.observed)}"


def _find_why_kept(tally: Tally) -> Untouched:
    """Return why tool results were kept; those in the window are no reason if others are older."""
    older = [(count, why) for why, count in tally.kept.items() if why != "in_window"]
    if tally.kept["held"]:
        return Untouched("moving the boundary does not pay yet")
    if not older:
        return Untouched("no tool result is older than the window")
    _, why = max(older)
    if why == "error":
        return _ERRORS
    return Untouched(f"the older tool results stay: {_SENTENCES.get(why) or one_line(why)}")


_SENTENCES: Mapping[str, str] = {reason: info.sentence for reason, info in REASONS.items()}

_DROPS = {"schema1.bound_reasoning": "drop"}
_MASKS_ERRORS = {"schema1.keep_errors": False}
BOUND: Mapping[OnHistoryEdit, Untouched] = {
    "refuses": Untouched("the model binds its reasoning to all that precedes it"),
    "drops": Untouched(
        "the model would lose its reasoning",
        Advice().set(_DROPS),
    ),
}
"""By what the provider does with reasoning once a text before it has changed."""

_HOLDS = "the provider holds the history of the agent's WebSocket"
_SENDS_TO_HTTP = {"websocket.mode": "auto"}
_HELD_BY_SETTING = Untouched(_HOLDS, Advice().set(_SENDS_TO_HTTP))

SIGNED = "signed (cch)"
"""Why claude-code's requests pass where no base URL leads it to the proxy."""

PASSED: Mapping[str, Untouched] = {
    SIGNED: Untouched("claude-code signs what it sends", "obsmask run -- claude"),
    HELD["pass"]: _HELD_BY_SETTING,
    HELD["unknown"]: Untouched(_HOLDS, Advice().set({"websocket.mode": "http"})),
    HELD["bound"]: BOUND["drops"],
    HELD["unmasked"]: Untouched(f"{_HOLDS}, which stays open unless masking is on"),
}
"""By why requests passed through untouched, where that can be changed."""

_ERRORS = Untouched("the older tool results look like errors", Advice().set(_MASKS_ERRORS))

CHANGES: Mapping[Untouched, Mapping[str, object]] = {
    BOUND["drops"]: _DROPS,
    _HELD_BY_SETTING: _SENDS_TO_HTTP,
    _ERRORS: _MASKS_ERRORS,
}
"""The settings that change it, where they do: a caller may know in which file."""
