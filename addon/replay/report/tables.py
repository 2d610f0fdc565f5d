"""The report's headline and tables: a row for each policy, conversation and price."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from addon.counts import pluralize
from addon.look.parts import Cell, Column, Part, cell, table
from addon.records.words import Currency, render_headline, render_range, render_saved_percent
from addon.replay.numbers import describe_arrival, explain_nothing, render_count, render_percent
from addon.replay.totals import (
    AS_MUCH,
    UNITS,
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
from masking.errors import printable

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


class Headline(NamedTuple):
    """The result of the page, in a few words and in a sentence."""

    title: str
    sentence: str


def describe_headline(summary: Summary, conversations: int) -> Headline:
    """Return what the chosen settings save, as an amount and as a part of the bill."""
    before, after, unit = summary.cost_before, summary.cost_after, summary.cost_unit
    currency = Currency(is_dollars=unit == "usd")
    render = currency.render_bare
    prompts = f"the prompts of {pluralize(summary.requests, 'request')} in "
    prompts += pluralize(conversations, "conversation")
    bill, counted = ("the bill is", "") if unit == "usd" else ("the bill is worth", " input tokens")
    sentence = (
        f"For {prompts} {bill} {render(after)}{counted} with the chosen settings, and "
        f"{render(before)} with everything sent."
    )
    if before != after:
        sentence += f" What is saved may be off by {render(summary.saved_error)} either way."
    if in_words := render_range(summary.money).removeprefix("; "):
        sentence += f" It is {in_words}."
    if unit == "input_tokens":
        sentence += " Not all prices are known, so nothing is in dollars here."
    return Headline(render_headline(summary.money, currency, is_observed=True), sentence)


def list_policies(totals: Totals) -> Part:
    """Return a row for each policy, all conversations together."""
    summary = summarize(totals)
    unit, calls, before = summary.cost_unit, summary.calls, summary.cost_before
    slid = choose_money(totals.sliding, unit)
    costs = (before, summary.cost_sliding, summary.cost_after)
    errors = (0.0, slid.error, summary.saved_error)
    rereads = (0, summary.rereads_sliding, summary.rereads)
    quotes = (0, summary.quotes_sliding, summary.quotes)
    render, most = _choose_format(unit), max(costs)
    rows = [
        (
            cell(policy.name, policy.meaning),
            render(cost),
            cell("", bar=[policy.key, cost / most if most else 0.0]),
            _render_share(reread, calls),
            _render_share(quoted, calls),
            _describe_saving(before, cost, error),
        )
        for policy, cost, error, reread, quoted in zip(
            POLICIES, costs, errors, rereads, quotes, strict=True
        )
    ]
    columns = (
        Column("Policy"),
        Column(_name_bill("Bill", unit)),
        Column("Bills in proportion", "roomy bars"),
        Column("Re\N{NON-BREAKING HYPHEN}reads", "roomy"),
        Column("Quotes", "roomy"),
        Column("Saved"),
    )
    return table(f"Bill of each policy, in {UNITS[unit]}", columns, rows)


def _name_bill(name: str, unit: CostUnit) -> str:
    return name if unit == "usd" else f"{name}, input tokens"


def _choose_format(unit: CostUnit) -> Callable[[float], str]:
    return Currency(is_dollars=unit == "usd").render_bare


def render_arrival(summary: Summary) -> str | None:
    """Return what the chosen settings left out at arrival; None if that is nothing."""
    if summary.arrival is None:
        return None
    currency = Currency(is_dollars=summary.cost_unit == "usd")
    return describe_arrival(summary.arrival, summary.calls, currency.render)


def list_conversations(conversations: Sequence[ConversationTotals], totals: Totals) -> Part:
    """Return a row for each conversation, and one for all of them if there are several."""
    unit = choose_unit(totals)
    rows = [
        (cell(printable(name), href=f"#c{at}"), *_describe(each, unit, is_one=True))
        for at, (name, each) in enumerate(conversations, 1)
    ]
    foot = ("All conversations", *_describe(totals, unit, is_one=False)) if len(rows) > 1 else ()
    columns = (
        Column("Conversation"),
        Column("Requests", "roomy"),
        Column("Tokens, everything sent", "wide"),
        Column("Tokens, chosen settings", "wide"),
        Column(_name_bill("Bill, everything sent", unit), "roomy"),
        Column(_name_bill("Bill, sliding window", unit), "wide"),
        Column(_name_bill("Bill, chosen settings", unit)),
        Column("Re\N{NON-BREAKING HYPHEN}reads", "wide"),
        Column("Quotes", "wide"),
        Column("Worst moment", "wide"),
        Column("Saved"),
    )
    return table(f"All conversations: tokens, and bills in {UNITS[unit]}", columns, rows, foot)


def _describe(totals: Totals, unit: CostUnit, *, is_one: bool) -> tuple[Cell, ...]:
    summary, render = summarize(totals, unit), _choose_format(unit)
    return (
        render_count(summary.requests),
        render_count(summary.tokens_before),
        render_count(summary.tokens_after),
        render(summary.cost_before),
        render(summary.cost_sliding),
        render(summary.cost_after),
        _render_share(summary.rereads, summary.calls),
        _render_share(summary.quotes, summary.calls),
        _describe_worst(totals.worst or AS_MUCH, is_one=is_one),
        _describe_saving(
            summary.cost_before,
            summary.cost_after,
            summary.saved_error,
            explain_nothing(totals.bill, totals.bound, totals.held),
        ),
    )


def _describe_worst(worst: WorstBill, *, is_one: bool) -> str:
    """Return how far a bill exceeded that of sending everything; of one conversation, and where."""
    if worst.part <= 1:
        return "never above"
    above = f"+{render_percent(worst.part - 1)}"
    return f"{above}, request\N{NO-BREAK SPACE}{worst.request + 1:,}" if is_one else above


def _describe_saving(before: float, after: float, error: float, why: str = "") -> Cell:
    """Return what was saved; below that why that is nothing."""
    saved = render_saved_percent(before, before - after, error)
    return cell(saved, *([why] if why else []), is_loss=saved.startswith("-"))


def _render_share(count: int, calls: int) -> str:
    return render_percent(count / calls) if calls else ""


def list_prices(totals: Totals) -> Part:
    """Return the prices of all requests, the commonest first, and where they come from."""
    counts: Counter[tuple[str, float, float, str]] = Counter()
    for price, requests in totals.prices:
        shown = (price.model or "unknown", price.read, price.write, _describe_source(price))
        counts[shown] += requests
    rows = [
        (printable(model), f"{read:.3g}", f"{write:.3g}", printable(source), f"{requests:,}")
        for (model, read, write, source), requests in counts.most_common()
    ]
    caption = "Prices of a cached and of a written token, relative to a plain input token"
    columns = (
        Column("Model"),
        Column("Cached"),
        Column("Written"),
        Column("From", "text"),
        Column("Requests"),
    )
    return table(caption, columns, rows)


def _describe_source(price: BilledPrice) -> str:
    names = {"config": "given", "price list": "price list", "assumed": "assumed"}
    entry = f", {price.entry}" if price.entry and price.source != "config" else ""
    return names[price.source] + entry
