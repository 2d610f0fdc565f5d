"""All that puts a record, or the sums of some requests, into words.

The log, the line at the end of `obsmask run`, `obsmask status`, the page and the tables of
`obsmask replay` take their words from here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, log10
from typing import NamedTuple

from msgspec.structs import replace

from addon.agents import CLAUDE_CODE
from addon.config_commands import Advice
from addon.counts import pluralize
from addon.quota import QuotaWindow
from addon.records.quota_use import QuotaUse
from addon.records.record import Bound, RequestRecord
from addon.records.tally import RunTally, Tally, Totals, read_bill
from addon.request import one_line
from addon.skip_reasons import SkipReason, find_skip_reason
from masking.accounting import NO_BILL, Bill, Money, is_about_nothing
from masking.model import REASONS
from masking.roads import ROADS, Road

# Amounts of money


@dataclass(frozen=True)
class Currency:
    """The unit in which a text reports money: dollars, or the input tokens that they would buy.

    is_dollars: whether it is dollars.
    borrowed_from: the sellers whose prices in dollars stand in for those of hosts that nobody
        knows, the most frequent first. Amounts are about right then.
    is_plan: whether a subscription pays, so that the dollars are what the API would cost.
    standard_for: the tiers of service whose requests are priced as if they were standard ones.
    """

    is_dollars: bool = True
    borrowed_from: tuple[str, ...] = ()
    is_plan: bool = False
    standard_for: tuple[str, ...] = ()

    def render(self, amount: float) -> str:
        """Return an amount that stands alone: `$0.43`, `about $0.43`, `12,300 input tokens`."""
        if not self.is_dollars:
            return f"{amount:,.0f} input tokens"
        return f"about {render_dollars(amount)}" if self.borrowed_from else render_dollars(amount)

    def render_bare(self, amount: float) -> str:
        """Return an amount that stands beside one from `render`: `$0.43`, `12,300`."""
        return render_dollars(amount) if self.is_dollars else f"{amount:,.0f}"

    def render_short(self, amount: float) -> str:
        """Return an amount where there is little room: `$0.43`, `12,300 tokens`."""
        return self.render_bare(amount) if self.is_dollars else f"{amount:,.0f} tokens"

    def choose(self, bill: Bill) -> Money:
        """Return a bill's money in this currency."""
        return bill.dollars if self.is_dollars else bill.tokens

    @property
    def name(self) -> str:
        """What amounts are of, beside an axis or over a column."""
        return "US dollars" if self.is_dollars else "input tokens"

    @property
    def full_name(self) -> str:
        """The same, and whose price it is, in the title of a table."""
        if not self.is_dollars:
            return f"{self.name} that are worth as much"
        return f"{self.name}, {self.basis}" if self.basis else self.name

    @property
    def basis(self) -> str:
        """Whose price it is, once for each text: `at OpenAI's price`; empty if it is the host's.

        Without dollars it is `no price is known`. Requests of a tier of service whose price is not
        known are told, too: `at the standard price, not that of priority`.
        """
        if not self.is_dollars:
            return "no price is known"
        if not self.standard_for:
            return self._sellers
        tiers = " or ".join(self.standard_for)
        return f"{self._sellers or 'at the standard price'}, not that of {tiers}"

    @property
    def _sellers(self) -> str:
        if not self.borrowed_from:
            return "at API prices" if self.is_plan else ""
        *others, last = (f"{seller}'s" for seller in self.borrowed_from[:_MOST_SELLERS])
        if len(self.borrowed_from) > _MOST_SELLERS:
            return "at the prices of the models' makers"
        sellers = f"{', '.join(others)} and {last}" if others else last
        return f"at {sellers} {'API ' if self.is_plan else ''}price{'s' if others else ''}"


DOLLARS = Currency()
INPUT_TOKENS = Currency(is_dollars=False)

_MOST_SELLERS = 3
"""The sellers that are named; of more, none is."""


def find_currency(bill: Bill) -> Currency:
    """Return in what the money of some requests is told: dollars if the price of any is known."""
    if not bill.is_in_dollars:
        return INPUT_TOKENS
    return Currency(
        borrowed_from=tuple(sorted(bill.borrowed, key=lambda one: -bill.borrowed[one])),
        is_plan=bool(bill.on_plan),
        standard_for=tuple(sorted(bill.standard)),
    )


def find_common_currency(bill: Bill) -> Currency:
    """Return in what the money of all requests is told: dollars if the price of each is known."""
    return find_currency(bill) if bill.is_all_in_dollars else INPUT_TOKENS


def render_dollars(dollars: float) -> str:
    """Return an amount: `$1,204`, `$12.30`, `$0.43`, `$0.042`, `$0.004`; below 0 `-$0.43`.

    From ten cents on there are no fractions of a cent; below that, two digits that count.
    """
    amount = abs(float(f"{dollars:.2g}")) if abs(dollars) < _CENTS_FROM else abs(dollars)
    if amount < _LEAST_DOLLARS:
        return "$0"
    if amount >= _CENTS_FROM:
        shown = f"{amount:,.{0 if amount >= _NO_CENTS_FROM else 2}f}"
    else:
        shown = f"{amount:.{1 - floor(log10(amount))}f}".rstrip("0")
    return f"{'-' if dollars < 0 else ''}${shown}"


_NO_CENTS_FROM, _CENTS_FROM, _LEAST_DOLLARS = 1_000, 0.1, 0.000_001


# What was saved


def render_error(share: float, form: str) -> str:
    """Return a margin of error in percent, to follow its amount; nothing if it is 0."""
    rendered = form.format(100 * share)
    return f" ±{rendered}" if float(rendered) else ""


def render_bill(money: Money, currency: Currency, *, is_dry_run: bool = False) -> str:
    """Return what input cost, what it would have cost without masking, and what that saved.

    `cost about $0.31 at OpenAI's price, without masking about $0.43: saved $0.12 (28% ±2)`, or
    `worth 406,469 input tokens (no price is known), without masking ...`. Where nothing was saved,
    or no more than the margin of error, it says so.

    is_dry_run: whether nothing was masked, and what is after masking is what would have been:
        `cost $0.43, with masking $0.31: would have saved $0.12 (28% ±2)`.
    """
    paid, other = (money.before, money.after) if is_dry_run else (money.after, money.before)
    verb = "cost" if currency.is_dollars else "worth"
    basis = currency.basis if currency.is_dollars or not currency.basis else f"({currency.basis})"
    cost = f"{verb} {currency.render(paid)} {basis}".rstrip()
    if not money.saved:
        return cost
    way = "with" if is_dry_run else "without"
    if not money.is_certain:
        return f"{cost}, about as much as {way} masking"
    other_cost = (
        f"about {currency.render_bare(other)}"
        if currency.borrowed_from
        else (currency.render_bare(other))
    )
    share = f"{abs(money.saved_share or 0.0):.0%}"
    error = render_error(money.saved_share_error or 0.0, "{:.0f}")
    what = ("would have " if is_dry_run else "") + ("saved" if money.saved > 0 else "lost")
    amount = currency.render_bare(abs(money.saved))
    return f"{cost}, {way} masking {other_cost}: {what} {amount} ({share}{error})"


def render_range(money: Money) -> str:
    """Return what is left of a saving if calls that asked again cost something, to follow it.

    `; 4% if each of the 12 calls that asked again cost one more request`, each as much as the
    average one without masking. Empty if no call did, or nothing was saved for certain.
    """
    if not (left := render_left(money)):
        return ""
    calls = f"each of the {money.asked_again:,} calls" if money.asked_again > 1 else "the one call"
    return f"; {left} if {calls} that asked again cost one more request"


def render_left(money: Money) -> str:
    """Return only the part that is left then, such as `4%`; empty where that is."""
    if not money.asked_again or not money.before or money.saved < 0 or not money.is_certain:
        return ""
    return f"{round(100 * find_left(money))}%"


def find_left(money: Money) -> float:
    """Return which part of a bill is still saved if each call that asked again cost one more."""
    return money.saved / money.before - money.asked_again / money.requests


def render_uncertain(money: Money) -> str | None:
    """Return what a cell says where nothing was saved for certain: `0`, or `about 0`; else None."""
    if money.is_certain:
        return None
    return "about 0" if money.saved else "0"


def render_saved(money: Money, currency: Currency) -> str:
    """Return what was saved, as a table says it: `$0.40 (44%)`; or `0`, or `about 0`."""
    if (uncertain := render_uncertain(money)) is not None:
        return uncertain
    return f"{currency.render_bare(money.saved)} ({money.saved_share or 0.0:.0%})"


def render_cache_change(bill: Bill) -> str | None:
    """Return what masking changed about what is read from the cache, and written to it.

    `masking had 690,000 fewer tokens read from it ($0.07), and 60,000 more written to it ($0.08)`.
    None if it changed nothing.
    """
    before, after = bill.prompt_before, bill.prompt_after
    paid_before, paid_after = bill.dollars_before, bill.dollars_after
    changes = (
        ("read from", after.read - before.read, paid_after.read - paid_before.read),
        ("written to", after.written - before.written, paid_after.written - paid_before.written),
    )
    told = [
        f"{abs(tokens):,.0f} {'more' if tokens > 0 else 'fewer'} tokens {what} it"
        + (f" ({render_dollars(abs(dollars))})" if bill.is_all_in_dollars else "")
        for what, tokens, dollars in changes
        if round(tokens)
    ]
    return f"masking had {', and '.join(told)}" if told else None


def list_saved(money: Money, currency: Currency, *, is_observed: bool = False) -> list[str]:
    """Return what was saved, and in short what there is to know of that; nothing without a bill."""
    if not money.before:
        return []
    would = ["would be saved"] if is_observed and money.is_certain else []
    left = [f"{left} if asked again"] if (left := render_left(money)) else []
    return [render_saved(money, currency), *would, *left]


def list_cost(bill: Bill, amount: float) -> list[str]:
    """Return what requests cost, as a table says it, and in short what there is to know of that.

    amount: of what `bill` shows, masked or not.
    """
    if not bill.shown.before:
        return []
    currency = find_currency(bill)
    if not currency.is_dollars:
        return [currency.render_bare(amount), "input tokens' worth"]
    unpriced = bill.unpriced.requests
    rest = [f"and {count_requests(unpriced)} without a price"] if unpriced else []
    return [currency.render(amount), *rest]


def render_headline(
    money: Money, currency: Currency, *, is_observed: bool = False, is_over: bool = True
) -> str:
    """Return what was saved, to stand above all: `About $0.30 (20%) saved; 10% if asked again`.

    is_observed: whether it would have been. is_over: whether nothing more is to come of it.
    """
    would = "would be " if is_observed else ""
    if not money.is_certain:
        nothing = "About nothing" if money.saved else "Nothing"
        return f"{nothing} {would}saved{'' if is_over else ' yet'}"
    amount = currency.render(abs(money.saved))
    verb = "saved" if money.saved > 0 else f"lost{'' if is_over else ' so far'}"
    left = f"; {left} if asked again" if (left := render_left(money)) else ""
    return _capitalize(f"{amount} ({abs(money.saved_share or 0.0):.0%}) {would}{verb}{left}")


def _capitalize(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _render_amount(amount: float, error: float, currency: Currency) -> str:
    """Return an amount with its margin: `$0.43 ±0.02`, `about $0.43 ±0.02`."""
    shown = currency.render_bare(error)
    off = f" ±{shown.replace('$', '')}" if float(shown.replace("$", "").replace(",", "")) else ""
    if currency.is_dollars:
        return f"{currency.render(amount)}{off}"
    return f"{currency.render_bare(amount)}{off} input tokens"


def render_saved_percent(before: float, saved: float, error: float) -> str:
    """Return the part of a cost that was saved: `+22.1% ±1.2`; `about 0` within its margin."""
    if not before:
        return ""
    if is_about_nothing(saved, error):
        return "about 0"
    return f"{100 * saved / before:+.1f}%{render_error(error / before, '{:.1f}')}"


# A request


def render_line(record: RequestRecord, so_far: Bill = NO_BILL) -> str:
    """Return the log's line about a request; `so_far` is the bill of its conversation with it."""
    words = (
        "replay" if record.replay else None,
        f"[{record.label}]" if record.label else None,
        record.host,
        record.model or "?",
        record.status,
        record.error,
    )
    return f"{' '.join(str(word) for word in words if word)}: {_render_outcome(record, so_far)}"


def _render_outcome(record: RequestRecord, so_far: Bill) -> str:
    if record.passed_through is not None:
        return f"passed through untouched, {record.passed_through}"
    if record.tool_results is None:
        return "not measured"
    if record.masking == "off":
        off = f"masking off, {pluralize(record.tool_results, 'tool result')}"
        return ", ".join((off, *_render_request_bill(record, so_far)))
    time = f"{(record.hook_us or 0) / 1000:.1f} ms"
    bill = _render_request_bill(record, so_far)
    outcome = ", ".join((*_render_changes(record), *bill, time))
    if record.masking == "observed":
        held_out = "" if record.group is None else ", held out"
        return f"observed{held_out}: would have {outcome}"
    return outcome


def _render_changes(record: RequestRecord) -> Iterator[str]:
    masked = "had the provider clear" if record.clearing == "asked" else "masked"
    yield f"{masked} {record.masked} of {pluralize(record.tool_results or 0, 'tool result')}"
    if record.shortened:
        yield f"{record.shortened} shortened at arrival"
    if (record.kept or {}).get("summary"):
        yield "left whole for a summary"
    if record.masked_images:
        yield f"{pluralize(record.masked_images, 'image')} in them"
    if record.redacted:
        yield f"redacted {record.redacted}"
    if record.reduction_stage is not None:
        yield f"reduced by {record.reduction_stage}"
    if record.dropped_messages:
        yield f"dropped {record.dropped_messages} of {pluralize(record.messages or 0, 'message')}"
    before, after = record.request_tokens_before, record.request_tokens_after
    if before is not None and after is not None and (smaller := render_change(before, after)):
        yield smaller


def _render_request_bill(record: RequestRecord, so_far: Bill) -> Iterator[str]:
    """Yield what a request cost, and what masking has saved: `net +$1.20 ±0.10`, `net about 0`."""
    if record.conversation is None:
        return
    yield f"{render_cost(record)}, {render_prices(record)}"
    if not round(so_far.tokens.saved, 1):
        return
    money, currency = so_far.of_all, find_common_currency(so_far)
    net = "about 0"
    if not is_about_nothing(money.saved, money.error):
        sign = "" if money.saved < 0 else "+"
        net = f"{sign}{_render_amount(money.saved, money.error, currency)}"
    yield f"net {net} in conversation {record.conversation}"


def render_change(before: int, after: int) -> str:
    """Return how much smaller masking made requests: `75% smaller`; nothing if it did not."""
    if before == after:
        return ""
    share = abs(after / before - 1)
    shown = f"{share:.0%}" if share >= _LEAST_SHARE else "less than 1%"
    return f"{shown} {'smaller' if after < before else 'larger'}"


def render_cost(record: RequestRecord) -> str:
    """Return what a request cost: `cost $0.027 -> $0.016 (-42% ±3)`, or else what it is worth.

    The price is named once, after the last amount. If what was saved may as well be nothing, the
    words say so: `cost $0.016, about as much as without masking`.
    """
    bill = replace(read_bill(record), on_plan=0)  # a line has no room for whose price that is
    money, currency = bill.shown, find_currency(bill)
    before, after = map(currency.render_bare, (money.before, money.after))
    verb, unit = "worth", " input tokens"
    if currency.is_dollars:
        verb = "cost about" if currency.borrowed_from else "cost"
        unit = f" {currency.basis}" if currency.basis else ""
    if not money.saved:
        return f"{verb} {after}{unit}"
    if not money.is_certain:
        return f"{verb} {after}{unit}, about as much as without masking"
    change = money.after / money.before - 1 if money.before else 0.0
    off = render_error(money.saved_share_error or 0.0, "{:.0f}")
    return f"{verb} {before} -> {after}{unit} ({change:+.0%}{off})"


def render_prices(record: RequestRecord) -> str:
    """Return the prices, and where they come from: `cached at 0.5 (price list)`."""
    read, write = record.price_read_ratio or 0.0, record.price_write_ratio or 0.0
    written = f", written at {write:g}" if write != 1 else ""
    return f"cached at {read:g}{written} ({record.price_source})"


# Some requests, in a line


def render_tally(tally: Tally, unmasked: str | None = None) -> str:
    """Return what some requests add up to: `81 requests; input cost $0.31, without masking ...`.

    In dollars where a price is known, else in input tokens. Where nothing was masked, it says why:
    `unmasked`, or else what `why_nothing_masked` finds. Where masking lost money, it says when that
    pays off.
    """
    return "; ".join(_list_sums(tally, unmasked))


def render_last_line(tally: Tally, unmasked: str | None = None) -> str:
    """Return the line at the end of a run: the plan's quota first, if one pays, then the sums."""
    quota = list_quota(tally, datetime.now(UTC))
    return "; ".join([*quota, render_tally(tally, unmasked)])


def _list_sums(tally: Tally, unmasked: str | None) -> Iterator[str]:
    yield ", ".join(_list_counts(tally))
    yield from list_input(tally)
    yield from list_unmasked(tally, unmasked)
    yield from list_summaries(tally)
    yield from _list_rest(tally)


def list_unmasked(tally: Tally, why: str | None = None) -> Iterator[str]:
    """Yield that nothing was masked, and why, if that is so of what was not observed only."""
    if tally.count > tally.requests["observed"] and not tally.changed:
        yield f"nothing masked, because {why or explain_unmasked(tally)}"


def list_input(tally: Tally) -> Iterator[str]:
    """Yield what the input cost that was not observed only, what was saved, and by what."""
    yield from list_costs(tally.masked_bill, tally.count)
    if why := why_lost(tally):
        yield why
    yield from list_arrival(tally, tally.masked_bill)


def _list_rest(tally: Tally) -> Iterator[str]:
    """Yield what the provider did, what was only observed, and what the output cost."""
    yield from list_clearings(tally)
    yield from list_drops(tally)
    if tally.dry_run is not None:
        some = "" if tally.dry_run.count == tally.count else f"{tally.dry_run.count:,} "
        yield f"{some}only observed: {render_observed(tally.dry_run)}"
    if tally.held_out is not None:
        yield f"{tally.held_out.count:,} held out: {render_observed(tally.held_out)}"
    yield from list_answers(tally.bill)


def _list_counts(tally: Tally) -> Iterator[str]:
    yield count_requests(tally.count - tally.token_counts)
    if tally.token_counts:
        yield f"{tally.token_counts:,} more to count tokens alone"
    if tally.failed:
        yield f"{tally.failed:,} failed"


class ToldQuota(NamedTuple):
    """A window of a plan's quota in words: `5-hour limit`, `43%`, `14:20`, `76% by then`.

    resets, pace: empty if that is not known.
    kept: what masking did to it, such as `12% ±3 kept free by masking`; empty if nobody asked, and
        `not known yet` if it is not.
    """

    name: str
    used: str
    resets: str
    pace: str
    kept: str


def tell_quota(tally: Tally, now: datetime) -> Iterator[ToldQuota]:
    """Yield the latest reading of each window that has not reset since.

    Accounts follow one another, each with its shortest window first.
    """
    accounts = {account for account, _ in tally.quota}
    readings = [(account, reading) for (account, _), reading in tally.quota.items()]
    for account, reading in sorted(
        readings, key=lambda each: (each[0], each[1].window.minutes or 0, each[1].window.name)
    ):
        if not reading.holds(now):
            continue
        window, resets, pace = reading.window, reading.resets, ""
        if window.used < 1 and reading.runs_out is not None:
            pace = f"all of it by {render_moment(reading.runs_out, now)}"
        elif window.used < 1 and reading.pace is not None:
            pace = f"{reading.pace:.0%} by then"
        yield ToldQuota(
            f"account {account}: {window.label}" if len(accounts) > 1 else window.label,
            f"{window.used:.0%}",
            "" if resets is None else render_moment(resets, now),
            pace,
            _render_kept(tally.quota_use, account, window),
        )


def _render_kept(use: QuotaUse, account: str, window: QuotaWindow) -> str:
    if account not in use.accounts:
        return ""
    if (kept := use.find_kept(account, window)) is None:
        return NOT_KNOWN_YET
    share = f"{abs(kept.share):.{0 if abs(kept.share) >= _WHOLE_PERCENT else 1}%}"
    error = render_error(kept.error, "{:.0f}" if kept.error >= _WHOLE_PERCENT else "{:.1f}")
    if kept.share > 0:
        return f"{share}{error} kept free by masking"
    return f"{share}{error} used up by masking (docs/results.md#a-plans-quota)"


NOT_KNOWN_YET = "not known yet"

_WHOLE_PERCENT = 0.02
"""Smaller shares of a window are shown with one decimal."""


def list_quota(tally: Tally, now: datetime, *, is_full: bool = False) -> Iterator[str]:
    """Yield how much of each window of a plan's quota is used, and when it resets.

    `5-hour limit: 43% used, 12% ±3 kept free by masking, resets 14:20`; in full, also what the pace
    so far leads to, and whether it is not known yet what masking did.
    """
    for told in tell_quota(tally, now):
        kept = f", {told.kept}" if told.kept and told.kept != NOT_KNOWN_YET else ""
        resets = f", resets {told.resets}" if told.resets else ""
        pace = f"; at this pace {told.pace}" if told.pace and is_full else ""
        yield f"{told.name}: {told.used} used{kept}{resets}{pace}"
        if told.kept == NOT_KNOWN_YET and is_full:
            yield f"what masking did to the {told.name} is {NOT_KNOWN_YET}"


def render_moment(moment: datetime, now: datetime) -> str:
    """Return a time near enough where the user is: `14:20`, `Tue 14:20`, `Dec 3`."""
    local, today = moment.astimezone(), now.astimezone().date()
    days = abs((local.date() - today).days)
    if days < _DAYS_OF_WEEK:
        return f"{local:%H:%M}" if days == 0 else f"{local:%a %H:%M}"
    return f"{local:%b} {local.day}"


_DAYS_OF_WEEK = 7


def list_costs(bill: Bill, count: int, *, is_dry_run: bool = False) -> Iterator[str]:
    """Yield what the input of requests cost, in dollars and in input tokens, and what was saved.

    count: of how many requests the reader thinks; sums of other ones name theirs.
    """
    for money, currency in ((bill.dollars, find_currency(bill)), (bill.unpriced, INPUT_TOKENS)):
        if money.requests:
            some = "" if money.requests == count else f" of {count_requests(money.requests)}"
            cost = render_bill(money, currency, is_dry_run=is_dry_run)
            yield f"input{some} {cost}{render_range(money)}"


def list_arrival(tally: Tally, bill: Bill, *, is_dry_run: bool = False) -> Iterator[str]:
    """Yield what shortening long results when they arrived saved, and how often that was.

    After `list_parts` of the bill it is `long results sent shortened 57 times`.
    """
    arrival, held = tally.arrival, tally.arrival.held
    if not arrival.results:
        return
    yield from list_parts(bill)
    if held.tokens.requests:
        money, currency = held.of_all, find_common_currency(held)
        yield (
            f"about {_render_amount(money.saved, money.error, currency)} "
            f"{'would have been ' if is_dry_run else ''}saved at arrival in "
            f"{count_requests(money.requests)} whose history the provider holds"
        )
    # A result counts each time that it is sent.
    times = "once" if arrival.results == 1 else f"{arrival.results:,} times"
    yield f"long results {'would have been ' if is_dry_run else ''}sent shortened {times}"


def list_parts(bill: Bill) -> Iterator[str]:
    """Yield which part of a saving is by shortening at arrival, and which by masking, if any is.

    `of that at arrival $0.12 ±0.02, by masking $0.31 ±0.03`, together what `list_costs` says.
    """
    if bill.tokens.at_arrival:
        money, currency = bill.tokens, INPUT_TOKENS
        if bill.is_in_dollars and not bill.unpriced.at_arrival:
            money, currency = bill.dollars, find_currency(bill)
        at_arrival = money.at_arrival, money.arrival_margin.width
        by_masking = money.by_masking, money.by_masking_error
        yield (
            f"of that {_render_part('at arrival', *at_arrival, currency)}, "
            f"{_render_part('by masking', *by_masking, currency)}"
        )


def _render_part(name: str, saved: float, error: float, currency: Currency) -> str:
    if not saved or is_about_nothing(saved, error):
        return f"{name} about nothing"
    amount = _render_amount(abs(saved), error, currency)
    return f"{name} {amount}{'' if saved > 0 else ' lost'}"


def list_answers(bill: Bill) -> Iterator[str]:
    """Yield what the output cost, masked or not: `output cost $0.19 either way`."""
    if bill.answers and bill.answer_dollars:
        is_all = bill.answers == bill.dollars.requests
        some = "" if is_all else f" of {count_requests(bill.answers)}"
        about = "about " if bill.borrowed else ""
        yield f"output{some} cost {about}{render_dollars(bill.answer_dollars)} either way"


def render_observed(observed: Tally) -> str:
    """Return what masking would have done to requests that were observed only.

    `observed` counts them as if they had been masked. Where nothing would have been masked, it says
    why.
    """
    bill = observed.bill
    costs = "; ".join(
        (
            *list_costs(bill, observed.count, is_dry_run=True),
            *list_arrival(observed, bill, is_dry_run=True),
        )
    )
    if observed.changed:
        return costs or "masking would have masked tool results"
    why = f"masking would have changed nothing, because {explain_unmasked(observed)}"
    return f"{costs}; {why}" if costs else why


def why_lost(tally: Tally) -> str | None:
    """Return why masking cost more than it saved so far, and when that turns; None if it saved.

    Masking more breaks the provider's cache once, and every later request saves by it. So a session
    that ends soon after a move has paid for what others will not use.
    """
    lost = [each for each in tally.balances.values() if each.money.saved < 0]
    if tally.masked_bill.tokens.saved >= 0 or not lost:
        return None
    if any(each.is_held for each in lost):
        return "the provider's cache did not return after a move, so no more is masked there"
    if sliding := next((each for each in lost if each.slides), None):
        return (
            f"the boundary moved at {sliding.moves:,} of {count_requests(sliding.money.requests)}, "
            "and each move breaks the provider's cache"
        )
    waits = [wait for each in lost if (wait := each.pays_off_in) is not None]
    if not waits:
        return None
    more = pluralize(max(waits), "more request")
    if len(lost) == 1:
        return f"masking more has just rebuilt the cache; that breaks even in about {more}"
    return (
        f"in {len(lost):,} conversations the last move has not paid off: they would need up to "
        f"{more}"
    )


def count_requests(count: int) -> str:
    """Return `1 request`, `2 requests`."""
    return pluralize(count, "request")


def list_summaries(tally: Tally) -> Iterator[str]:
    """Yield how many requests for a summary were left whole, if any."""
    if tally.summaries:
        yield f"{count_requests(tally.summaries)} for a summary left whole"


def list_rereads(tally: Tally) -> Iterator[str]:
    """Yield how many calls repeated one whose result the model no longer had, or quoted it.

    Of what was only observed, whose result it would no longer have had.
    """
    for each, was in ((tally, "was"), (tally.observed, "would have been")):
        if each is None:
            continue
        if each.rereads:
            yield f"{_count_calls(each.rereads)} repeated one whose result {was} masked"
        if each.arrival.rereads:
            calls = _count_calls(each.arrival.rereads)
            yield f"{calls} repeated one whose result {was} shortened"
        if each.arrival.quotes:
            yield f"{_count_calls(each.arrival.quotes)} quoted what {was} left out at arrival"


def _count_calls(count: int) -> str:
    return pluralize(count, "call")


def list_resent(tally: Tally) -> Iterator[str]:
    """Yield how many requests were refused masked, if any, and how many were accepted unmasked."""
    if tally.resent:
        resent, accepted = count_requests(tally.resent.total()), tally.resent["accepted"]
        yield f"{resent} sent again whole after a 400 ({accepted:,} accepted)"


def list_clearings(tally: Tally) -> Iterator[str]:
    """Yield how many requests asked their provider to clear, and what came of that."""
    counts = tally.clearings
    if counts:
        asked = count_requests(counts.total())
        yield f"{asked} asked the provider to clear; {tally.cleared_tokens:,} tokens cleared in all"
    for name in ("nothing cleared", "refused"):
        if counts[name]:
            yield f"{count_requests(counts[name])}: {name}"


def list_drops(tally: Tally) -> Iterator[str]:
    """Yield how many requests had reasoning dropped, and what came of that."""
    asked, refused = tally.droppings["asked"], tally.droppings["refused"]
    if asked:
        signs = [s for s in tally.drop_signs.values() if s.requests_before and s.requests_since]
        sign = ""
        if signs:
            was = sum(s.tokens_before for s in signs) / sum(s.requests_before for s in signs)
            now = sum(s.tokens_since for s in signs) / sum(s.requests_since for s in signs)
            sign = f": since then {now:,.0f} tokens of output a request, before {was:,.0f}"
        yield f"{count_requests(asked)} had reasoning dropped that no longer fits{sign}"
    if refused:
        yield f"{count_requests(refused)}: refused to drop reasoning"


_MOST_NAMED = 3
"""The conversations that `list_outgrown` names."""


def render_outgrown(tally: Tally) -> str:
    """Return how many conversations depend on masking, and what that means for a user."""
    count = len(tally.outgrown)
    fit = "conversation no longer fits its" if count == 1 else "conversations no longer fit their"
    return (
        f"{count:,} {fit} model without masking: switch masking off only after the agent has made "
        "a summary (/compact)"
    )


def list_outgrown(tally: Tally) -> Iterator[str]:
    """Yield `render_outgrown`, if there are any, then a line for each of the last few."""
    if not tally.outgrown:
        return
    yield render_outgrown(tally)
    for record in [*tally.outgrown.values()][-_MOST_NAMED:]:
        tokens, window = record.request_tokens_before, record.model_window_tokens
        sizes = (
            ""
            if tokens is None or window is None
            else f", a prompt of {tokens / window:.0%} of its window"
        )
        yield f"{one_line(record.model or '?')} at {one_line(record.host)}{sizes}"


# Other roads


_LEAST_SHARE = 0.01
"""A smaller part of a bill, or of a request, is not worth a word, or a number."""

ROADS_PAGE = "docs/agents.md#roads"


class OpenRoad(NamedTuple):
    """A road that was not taken: what it would have cost and saved, and how far off that may be.

    Amounts are in the unit of the bill that it stands beside.
    """

    road: Road
    cost: float
    saved: float
    error: float


def find_roads(bill: Bill) -> list[OpenRoad]:
    """Return the roads by which a bill would have been lower for certain, the cheapest first."""
    currency, paid, found = find_currency(bill), bill.shown.after, []
    for name, beside in bill.roads.items():
        money = currency.choose(beside)
        if money.is_certain and money.saved >= _LEAST_SHARE * paid and name in ROADS:
            found.append(OpenRoad(ROADS[name], paid - money.saved, money.saved, money.error))
    return sorted(found, key=lambda each: each.cost)


def render_roads(bill: Bill, whose: str = "this session") -> str:
    """Return what other roads would have cost; empty if none would have saved anything.

    `with --provider-clearing this session would have cost $1.02 instead of $1.31 (22% ±1 less),
    with --shorten $1.27 (3% less)`.
    """
    currency, paid, words = find_currency(bill), bill.shown.after, list[str]()
    for road, cost, saved, error in find_roads(bill):
        less = f"{saved / paid:.0%}{render_error(error / paid, '{:.0f}')} less"
        more = ", but perhaps more output" if road.adds_output else ""
        amount = currency.render(cost)
        if not words:
            amount = f"{whose} would have cost {amount} instead of {currency.render_bare(paid)}"
        words.append(f"with {road.option} {amount} ({less}{more})")
    return ", ".join(words)


def tell_roads(tally: Tally) -> str:
    """Return what other roads would have saved, as a sentence that says where they are explained.

    It is empty if none would have saved anything.
    """
    whose = "this session" if len(tally.conversations) < 2 else "these sessions"
    roads = render_roads(tally.bill, whose)
    return f"{_capitalize(roads)}: {ROADS_PAGE}" if roads else ""


# Why nothing was masked


_ADVICE = Advice()


class WhyUnmasked(NamedTuple):
    """Why nothing was masked, and what would change that, if anything would.

    command: what changes it for a run, as `obsmask run -- claude`; `change` are settings that do.
    price: what it costs, as a clause; empty if that is nothing.
    is_bound: whether reasoning is in the way, which leaves long results to be shortened.
    """

    because: str
    command: str | None = None
    change: tuple[tuple[str, object], ...] = ()
    price: str = ""
    is_bound: bool = False

    def explain(
        self, advice: Advice = _ADVICE, *, shortens: bool = False, has_roads: bool = False
    ) -> str:
        """Return why, and what changes that; first what costs no reasoning.

        advice: how to change the configuration. shortens: whether long results are shortened
        already. has_roads: whether a sentence about other roads follows.
        """
        words = [self.because]
        if self.is_bound and has_roads:
            return self.because
        if self.is_bound and not shortens:
            words.append(SHORTENS)
        remedies = [self.command] if self.command else []
        if self.change:
            remedies.append(advice.change(dict(self.change)))
        if remedies:
            price = f", but {self.price}" if self.price else ""
            words.append(f"{' with '.join(remedies)} changes that{price}")
        return "; ".join(words)


SHORTENS = "obsmask run --shorten cuts long results all the same"
SHORTENS_TOO = "Long results can be shortened all the same: obsmask run --shorten, or "

LOSES_REASONING = "the model then loses its earlier reasoning"
"""What masking older results costs where the provider drops the reasoning that follows them."""

BOUND: Mapping[Bound, WhyUnmasked] = {
    "refuses": WhyUnmasked("the model binds its reasoning to all that precedes it", is_bound=True),
    "may_refuse": WhyUnmasked(
        "the model binds its reasoning; a request of claude-code's will test whether this account "
        "accepts masked results, once that pays",
        is_bound=True,
    ),
    "account": WhyUnmasked(
        "the model binds its reasoning, and this account refuses requests whose older results are "
        "masked",
        is_bound=True,
    ),
    "drops": WhyUnmasked(
        "the model would lose its reasoning",
        change=(*ROADS["drop"].settings.items(),),
        price=LOSES_REASONING,
        is_bound=True,
    ),
}
"""By what the provider does with reasoning once a text before it has changed."""

_BINDS = "{model} binds its reasoning to all that precedes it"

BOUND_IN_FULL: Mapping[Bound, str] = {
    "refuses": f"{_BINDS}, and a request would be refused if a tool result before reasoning were "
    "masked: so none is",
    "may_refuse": f"{_BINDS}, and some accounts are refused if a tool result before reasoning is "
    "masked. A request of claude-code's will test this account, once that pays; until then none "
    "is masked",
    "account": f"{_BINDS}, and has refused this account a request in which a tool result before "
    "reasoning was masked: for 30 days from then, none is",
    "drops": "{model} silently loses its reasoning if a tool result before it is masked: so none "
    "is",
}
"""The same as the first request of a conversation is warned of it; `model` is its model."""

BOUND_UNTIL_TRIED = WhyUnmasked(
    "the model binds its reasoning; it was not known yet that this account accepts masked results"
)
"""Where the provider may refuse, and a later request was taken."""

CLEARABLE: Mapping[Bound, WhyUnmasked] = {
    bound: BOUND[bound]._replace(change=(*ROADS["clear"].settings.items(),))
    for bound in ("refuses", "account")
}
"""The same where the provider could be asked to clear older results itself."""

_HOLDS = "the provider holds the history of the agent's WebSocket"

PASSED: Mapping[SkipReason, WhyUnmasked] = {
    "signed": WhyUnmasked("claude-code signs what it sends", CLAUDE_CODE.start),
    "pass": WhyUnmasked(_HOLDS, change=(("websocket.mode", "auto"),)),
    "unknown": WhyUnmasked(
        _HOLDS,
        change=(("websocket.mode", "http"),),
        price="an agent that speaks no HTTP to models then fails",
    ),
    "bound": BOUND["drops"],
    "unmasked": WhyUnmasked(f"{_HOLDS}, which stays open unless masking is on"),
}
"""By why requests passed through, where that can be changed, or can be said better."""

_ERRORS = WhyUnmasked(
    "the older tool results look like errors",
    change=(("schema1.keep_errors", False),),
    price="the model then no longer sees them",
)


def explain_unmasked(tally: Tally) -> str:
    """Return why no tool result was changed, and what would change that."""
    why = why_nothing_masked(tally)
    return why.explain(shortens=tally.arrival.is_any, has_roads=bool(tell_roads(tally)))


def why_nothing_masked(tally: Tally) -> WhyUnmasked:
    """Return why no tool result was changed; of several causes, first what a setting ends."""
    why, off = _why_not_masked(tally), tally.requests["off"]
    if 0 < off < tally.count and not tally.passed_through:  # switched off meanwhile, or by a rule
        some = f"masking was off for {off:,} of {count_requests(tally.count)}"
        return why._replace(because=f"{some}, and for the others {why.because}")
    return why


def _why_not_masked(tally: Tally) -> WhyUnmasked:
    passed = tally.passed_through
    if known := [why for why in passed if find_skip_reason(why) in PASSED]:
        return explain_passed(tally, max(known, key=passed.__getitem__))
    if tally.bound:
        counts = tally.bound.copy()
        if counts["account"]:  # what was not known before is known by now
            counts["account"] += counts.pop("may_refuse", 0)
        ((binding, _),) = counts.most_common(1)
        return (CLEARABLE if tally.clearable else BOUND).get(binding, BOUND[binding])
    if tally.is_observed_only:
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
        return WhyUnmasked("no request had a tool result")
    if tally.kept["held"]:
        return WhyUnmasked("masking doesn't pay yet")
    # Those in the window are no reason if others are older; nor is masking that was off for some.
    older = [(count, why) for why, count in tally.kept.items() if why not in ("in_window", "off")]
    if not older:
        short = "a short session" if len(tally.conversations) < 2 else "short sessions"
        return WhyUnmasked(f"no tool result is older than the window: {short}")
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
    name = find_skip_reason(why)
    passed = (PASSED.get(name) if name else None) or WhyUnmasked(one_line(why))
    most = tally.passed_through[why] / 2
    binding = next((each for each in BOUND if tally.passed_bound[why, each] > most), None)
    if binding is None or not (passed.command or passed.change) or passed.is_bound:
        return passed
    bound = BOUND[binding]
    bound = bound._replace(
        because=f"{passed.because}, and {bound.because}",
        is_bound=name != "signed",  # in which nothing may be shortened, either
    )
    if not bound.change:
        return bound
    return bound._replace(
        command=passed.command,
        change=(*passed.change, *bound.change),
        price=" and ".join(filter(None, (passed.price, bound.price))),
    )


# A run of the proxy

_MOST_HOSTS = 10


def list_unmaskable(unopened: Mapping[str, int], unserved: int) -> Iterator[str]:
    """Yield what passed a proxy that couldn't read it: connections to hosts, and requests."""
    if unopened:
        counts = Counter(unopened).most_common()
        named = [f"{count:,} to {host}" for host, count in counts[:_MOST_HOSTS]]
        if rest := counts[_MOST_HOSTS:]:
            hosts = pluralize(len(rest), "more host")
            named.append(f"{sum(count for _, count in rest):,} to {hosts}")
        hosts = ", ".join(named)
        yield f"connections passed undecrypted, as a certificate isn't trusted: {hosts}"
    if unserved:
        yield f"{count_requests(unserved)} used an unsupported API format"


def render_totals(totals: Totals) -> str:
    """Return the line at the end of a run: its requests, failures, and what masking did."""
    sent, replayed = totals.sent, totals.replayed
    count = pluralize(replayed.tally.count, "replayed request")
    again = f"{count}: {_render_run(replayed)}"
    if replayed.tally.count and not sent.tally.count:
        return again
    rates = ", ".join(
        f"{sent.tally.requests[masking]} with masking {masking} "
        f"({sent.tally.count_failures(masking)} failed)"
        for masking in ("on", "observed", "off")
        if sent.tally.requests[masking]
    )
    line = f"{count_requests(sent.tally.count)}: {rates or 'none'}; {_render_run(sent)}"
    return f"{line}; {again}" if replayed.tally.count else line


def _render_run(run: RunTally) -> str:
    return "; ".join(_list_run(run))


def _list_run(run: RunTally) -> Iterator[str]:
    tally = run.tally
    yield ", ".join(
        filter(
            None,
            (
                f"{pluralize(tally.masked, 'result')} masked",
                render_change(tally.tokens_before, tally.tokens_after),
            ),
        )
    )
    if tally.images:
        yield f"{pluralize(tally.images, 'image')} masked in them"
    if tally.redacted:
        yield f"{pluralize(tally.redacted, 'result')} redacted"
    yield from list_rereads(tally)
    if bound := tally.kept["bound"]:
        yield f"{pluralize(bound, 'result')} kept for bound reasoning"
    yield from list_summaries(tally)
    for stage, count in tally.reductions.most_common():
        yield f"{count} reduced by {stage}"
    yield from list_input(tally)
    if run.held:
        yield f"{pluralize(len(run.held), 'conversation')} with a held boundary"
    if tally.outgrown:
        yield render_outgrown(tally)
    yield from list_resent(tally)
    if tally.passed_through:
        passed = ", ".join(f"{count} {why}" for why, count in tally.passed_through.most_common())
        yield f"passed through: {passed}"
    yield from _list_rest(tally)
