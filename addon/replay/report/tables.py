"""The report's headline and tables: a row for each policy, conversation and price."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from addon.counts import pluralize
from addon.look.parts import Cell, Column, Part, cell, table
from addon.records.words import Currency, render_headline, render_range, render_saved_percent
from addon.replay.numbers import explain_nothing, list_cells, render_share
from addon.replay.reread import NO_REREADS
from addon.replay.totals import (
    AS_MUCH,
    BilledPrice,
    ConversationTotals,
    Totals,
    WorstBill,
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


def describe_headline(totals: Totals, conversations: int) -> Headline:
    """Return what the chosen settings save, as an amount and as a part of the bill."""
    currency = totals.currency
    money, render = currency.choose(totals.bill), currency.render_bare
    prompts = f"the prompts of {pluralize(totals.requests, 'request')} in "
    prompts += pluralize(conversations, "conversation")
    is_worth = "is" if currency.is_dollars else "is worth"
    sentence = (
        f"For {prompts} the bill {is_worth} {currency.render(money.after)} with the chosen "
        "settings, and "
        f"{render(money.before)} with everything sent."
    )
    if money.saved:
        sentence += f" What is saved may be off by {render(money.error)} either way."
    if in_words := render_range(money).removeprefix("; "):
        sentence += f" It is {in_words}."
    if not currency.is_dollars:
        sentence += " Not all prices are known, so these sums are in input tokens."
    return Headline(render_headline(money, currency, is_observed=True), sentence)


def list_policies(totals: Totals) -> Part:
    """Return a row for each policy, all conversations together."""
    currency, calls = totals.currency, totals.chosen_rereads.calls
    bills = (totals.bill.without_saving(), totals.sliding, totals.bill)
    rereads = (NO_REREADS, totals.sliding_rereads, totals.chosen_rereads)
    amounts = [*map(currency.choose, bills)]
    most = max(money.after for money in amounts)
    rows = [
        (
            cell(policy.name, policy.meaning),
            currency.render_bare(money.after),
            cell("", bar=[policy.key, money.after / most if most else 0.0]),
            render_share(of_policy.either, calls),
            render_share(of_policy.quoted, calls),
            _describe_saving(render_saved_percent(money.before, money.saved, money.error)),
        )
        for policy, money, of_policy in zip(POLICIES, amounts, rereads, strict=True)
    ]
    columns = (
        Column("Policy"),
        Column(_name_bill("Bill", currency)),
        Column("Bills in proportion", "roomy bars"),
        Column("Re\N{NON-BREAKING HYPHEN}reads", "roomy"),
        Column("Quotes", "roomy"),
        Column("Saved"),
    )
    return table(f"Bill of each policy, in {currency.full_name}", columns, rows)


def _name_bill(name: str, currency: Currency) -> str:
    return name if currency.is_dollars else f"{name}, {currency.name}"


def list_conversations(conversations: Sequence[ConversationTotals], totals: Totals) -> Part:
    """Return a row for each conversation, and one for all of them if there are several."""
    currency = totals.currency
    rows = [
        (cell(printable(name), href=f"#c{at}"), *_describe(each, currency, is_one=True))
        for at, (name, each) in enumerate(conversations, 1)
    ]
    every = ("All conversations", *_describe(totals, currency, is_one=False))
    columns = (
        Column("Conversation"),
        Column("Requests", "roomy"),
        Column("Tokens, everything sent", "wide"),
        Column("Tokens, chosen settings", "wide"),
        Column(_name_bill("Bill, everything sent", currency), "roomy"),
        Column(_name_bill("Bill, sliding window", currency), "wide"),
        Column(_name_bill("Bill, chosen settings", currency)),
        Column("Re\N{NON-BREAKING HYPHEN}reads", "wide"),
        Column("Quotes", "wide"),
        Column("Worst moment", "wide"),
        Column("Saved"),
    )
    foot = every if len(rows) > 1 else ()
    caption = f"All conversations: tokens, and bills in {currency.full_name}"
    return table(caption, columns, rows, foot)


_CELLS = (
    *("requests", "tokens before", "tokens after", "all sent", "sliding", "chosen"),
    *("re-reads", "quotes"),
)


def _describe(totals: Totals, currency: Currency, *, is_one: bool) -> tuple[Cell, ...]:
    cells = list_cells(totals, currency)
    return (
        *(cells[name] for name in _CELLS),
        _describe_worst(totals.worst or AS_MUCH, is_one=is_one),
        _describe_saving(cells["saved"], explain_nothing(totals.bill, totals.bound, totals.held)),
    )


def _describe_worst(worst: WorstBill, *, is_one: bool) -> Cell:
    """Return how far a bill exceeded that of sending everything; of one conversation, and where."""
    if worst.part <= 1:
        return "never above"
    above = f"{worst.part - 1:+.1%}"
    return cell(above, f"request {worst.request + 1:,}") if is_one else above


def _describe_saving(saved: str, why: str = "") -> Cell:
    """Return what was saved; below that why that is nothing."""
    return cell(saved, *([why] if why else []), is_loss=saved.startswith("-"))


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
        Column("Requests", "roomy"),
    )
    return table(caption, columns, rows)


def _describe_source(price: BilledPrice) -> str:
    names = {"config": "given", "price list": "price list", "assumed": "assumed"}
    entry = f", {price.entry}" if price.entry and price.source != "config" else ""
    return names[price.source] + entry
