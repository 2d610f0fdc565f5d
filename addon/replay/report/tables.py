"""The report's headline and tables: a row for each policy, conversation and price."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from addon.counts import pluralize
from addon.records.words import render_left, render_range
from addon.replay.numbers import (
    choose_money_format,
    describe_arrival,
    render_count,
    render_percent,
)
from addon.replay.totals import (
    AS_MUCH,
    BilledPrice,
    ConversationTotals,
    CostUnit,
    Summary,
    Totals,
    WorstBill,
    choose_money,
    choose_unit,
    summarize,
)
from masking.accounting import is_about_nothing

PolicyKey = Literal["everything", "sliding", "chosen"]


class Policy(NamedTuple):
    """One of the three policies that are set beside each other."""

    key: PolicyKey
    name: str
    meaning: str


POLICIES = (
    Policy("everything", "Everything sent", "nothing is masked"),
    Policy("sliding", "Sliding window", "a result is masked as soon as it has left the window"),
    Policy("chosen", "Chosen settings", "the settings of this replay"),
)


class Amount(NamedTuple):
    """A saving in words."""

    text: str
    is_loss: bool = False


class Headline(NamedTuple):
    """The result of the page, in a few words and in a sentence."""

    title: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """The bill of a policy. `share` is its part of the highest bill, in percent."""

    policy: Policy
    bill: str
    saved: Amount
    rereads: str
    quotes: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """The row of a conversation; `number` counts from 0, None stands for all of them."""

    number: int | None
    name: str
    requests: str
    tokens_before: str
    tokens_after: str
    everything: str
    sliding: str
    chosen: str
    saved: Amount
    rereads: str
    quotes: str
    worst: str


def describe_headline(summary: Summary, conversations: int) -> Headline:
    """Return what the chosen settings save, as an amount and as a part of the bill."""
    before, after, unit = summary.cost_before, summary.cost_after, summary.cost_unit
    render, saved = choose_money_format(unit, before), before - after
    prompts = f"the prompts of {pluralize(summary.requests, 'request')} in "
    prompts += pluralize(conversations, "conversation")
    bill, counted = ("the bill is", "") if unit == "usd" else ("the bill is worth", " input tokens")
    sentence = (
        f"For {prompts} {bill} {render(after)}{counted} with the chosen settings, and "
        f"{render(before)} with everything sent."
    )
    if saved:
        sentence += f" What is saved may be off by {render(summary.saved_error)} either way."
    if in_words := render_range(summary.money).removeprefix("; "):
        sentence += f" It is {in_words}."
    if unit == "input_tokens":
        sentence += " Not all prices are known, so nothing is in dollars here."
    part = abs(saved) / before if before else 0.0
    percent = render_percent(part, 0 if part >= 0.1 or not part else 1)
    if not saved or is_about_nothing(saved, summary.saved_error):
        return Headline("You save about nothing", sentence)
    verb, more = ("save", "") if saved > 0 else ("pay", " more")
    left = f"; {short} if asked again" if (short := render_left(summary.money)) else ""
    if unit == "input_tokens":
        return Headline(f"You {verb} {percent}{more}{left}", sentence)
    return Headline(f"You {verb} {render(abs(saved))}{more}, {percent}{left}", sentence)


def list_policies(totals: Totals) -> list[PolicyRow]:
    """Return a row for each policy, all conversations together."""
    summary = summarize(totals)
    unit, calls, before = summary.cost_unit, summary.calls, summary.cost_before
    slid = choose_money(totals.sliding, unit)
    costs = (before, summary.cost_sliding, summary.cost_after)
    errors = (0.0, slid.error, summary.saved_error)
    rereads = (0, summary.rereads_sliding, summary.rereads)
    quotes = (0, summary.quotes_sliding, summary.quotes)
    render, most = choose_money_format(unit, max(costs)), max(costs)
    return [
        PolicyRow(
            policy=policy,
            bill=render(cost),
            saved=describe_saving(before, cost, error),
            rereads=_render_share(reread, calls),
            quotes=_render_share(quoted, calls),
            share=100 * cost / most if most else 0.0,
        )
        for policy, cost, error, reread, quoted in zip(
            POLICIES, costs, errors, rereads, quotes, strict=True
        )
    ]


def render_arrival(summary: Summary) -> str | None:
    """Return what the chosen settings left out at arrival; None if that is nothing."""
    if summary.arrival is None:
        return None
    money = choose_money_format(summary.cost_unit, summary.cost_before)
    unit = " input tokens" if summary.cost_unit == "input_tokens" else ""
    return describe_arrival(summary.arrival, summary.calls, lambda amount: f"{money(amount)}{unit}")


def list_conversations(
    conversations: Sequence[ConversationTotals], totals: Totals
) -> list[ConversationRow]:
    """Return a row for each conversation, and one for all of them if there are several."""
    unit = choose_unit(totals)
    rows = [_describe(c.totals, unit, number, c.name) for number, c in enumerate(conversations)]
    return rows if len(rows) == 1 else [*rows, _describe(totals, unit, None, "All conversations")]


def _describe(totals: Totals, unit: CostUnit, number: int | None, name: str) -> ConversationRow:
    summary = summarize(totals, unit)
    render = choose_money_format(unit, summary.cost_before)
    return ConversationRow(
        number=number,
        name=name,
        requests=render_count(summary.requests),
        tokens_before=render_count(summary.tokens_before),
        tokens_after=render_count(summary.tokens_after),
        everything=render(summary.cost_before),
        sliding=render(summary.cost_sliding),
        chosen=render(summary.cost_after),
        saved=describe_saving(summary.cost_before, summary.cost_after, summary.saved_error),
        rereads=_render_share(summary.rereads, summary.calls),
        quotes=_render_share(summary.quotes, summary.calls),
        worst=_describe_worst(totals.worst or AS_MUCH, is_one=number is not None),
    )


def _describe_worst(worst: WorstBill, *, is_one: bool) -> str:
    """Return how far a bill exceeded that of sending everything; of one conversation, and where."""
    if worst.part <= 1:
        return "never above"
    above = f"+{render_percent(worst.part - 1)}"
    return f"{above}, request\N{NO-BREAK SPACE}{worst.request + 1:,}" if is_one else above


def describe_saving(before: float, after: float, error: float) -> Amount:
    """Return what was saved and how far that may be off; `about 0` if it may be nothing."""
    if not before or before == after:
        return Amount("0.0%")
    if is_about_nothing(before - after, error):
        return Amount("about 0")
    off = f" ±\N{NO-BREAK SPACE}{render_percent(error / before)}" if error else ""
    return Amount(render_percent(1 - after / before) + off, after > before)


def _render_share(count: int, calls: int) -> str:
    return render_percent(count / calls) if calls else ""


class PriceRow(NamedTuple):
    """The prices of a model's cached and written tokens, and where they come from."""

    model: str
    read: str
    write: str
    source: str
    requests: int


def list_prices(totals: Totals) -> Sequence[PriceRow]:
    """Return the prices of all requests, the commonest first."""
    counts: Counter[tuple[str, float, float, str]] = Counter()
    for price, requests in totals.prices:
        shown = (price.model or "unknown", price.read, price.write, _describe_source(price))
        counts[shown] += requests
    return [
        PriceRow(model, f"{read:.3g}", f"{write:.3g}", source, requests)
        for (model, read, write, source), requests in counts.most_common()
    ]


def _describe_source(price: BilledPrice) -> str:
    names = {"config": "given", "price list": "price list", "assumed": "assumed"}
    entry = f", {price.entry}" if price.entry and price.source != "config" else ""
    return names[price.source] + entry
