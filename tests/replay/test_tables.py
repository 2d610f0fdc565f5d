"""What a report says of all conversations, and how it came about."""

import dataclasses
from itertools import accumulate

import pytest

from addon.look.parts import Part
from addon.records.words import DOLLARS, INPUT_TOKENS, Currency, render_dollars
from addon.replay.numbers import explain_nothing, list_cells
from addon.replay.replay import Pause, ReplayedRequest
from addon.replay.report.page import Origin, costs_by_policy
from addon.replay.report.tables import (
    describe_headline,
    list_conversations,
    list_policies,
    list_prices,
)
from addon.replay.reread import Rereads
from addon.replay.totals import Totals, add_all
from masking.accounting import Bill, Margin, Money
from masking.config import Schema1Table, list_keys
from masking.errors import printable
from masking.prices import CachePricing
from masking.rewrite import Strategies
from masking.window import BoundaryPrices, MaskPolicy
from masking.wire.usage import Usage
from tests.support.marks import as_one_test
from tests.support.page_parts import read_rows
from tests.support.replays import (
    FREE_OF_CHARGE,
    NOON,
    Comparison,
    Talk,
    add_up,
    billed_anew,
    replayed,
    settings,
)


def together(*comparisons: Comparison) -> Totals:
    return add_all(map(add_up, comparisons))


def list_rows(table: Part) -> list[dict[str, str]]:
    """Return what each row says, by the heading of the column."""
    heads = [title for title, _ in table["columns"]]
    return [dict(zip(heads, row, strict=True)) for row in read_rows(table)]


def show(*comparisons: Comparison) -> list[dict[str, str]]:
    table = list_conversations([*map(add_up, comparisons)], together(*comparisons))
    return list_rows(table)


def summed(
    before: float,
    after: float,
    error: float = 0.0,
    currency: Currency = DOLLARS,
    asked_again: int = 0,
) -> Totals:
    money = Money(42, before, after, Margin(error), asked_again)
    bill = Bill(tokens=money, unpriced=money)
    if currency.is_dollars:
        borrowed = dict.fromkeys(currency.borrowed_from, 42)
        bill = Bill(tokens=money, dollars=money, borrowed=borrowed)
    return Totals(requests=42, bill=bill)


@as_one_test
@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        pytest.param(summed(0.817, 0.719), "$0.098 (12%) would be saved", id="saved"),
        pytest.param(
            summed(9.0, 6.0, asked_again=3),
            "$3.00 (33%) would be saved; 26% if asked again",
            id="with calls that asked again",
        ),
        pytest.param(
            summed(9.0, 6.0, currency=Currency(borrowed_from=("OpenAI",))),
            "About $3.00 (33%) would be saved",
            id="at another's price",
        ),
        pytest.param(summed(81.7, 80.9), "$0.80 (1%) would be saved", id="a little"),
        pytest.param(summed(0.5, 0.55), "$0.05 (10%) would be lost", id="lost"),
        pytest.param(
            summed(0.5, 0.49, 0.02), "About nothing would be saved", id="within the error"
        ),
        pytest.param(summed(0.5, 0.5), "Nothing would be saved", id="nothing"),
        pytest.param(summed(0.0, 0.0), "Nothing would be saved", id="free of charge"),
        pytest.param(
            summed(9e3, 6e3, currency=INPUT_TOKENS),
            "3,000 input tokens (33%) would be saved",
            id="saved in tokens",
        ),
        pytest.param(
            summed(6e3, 9e3, currency=INPUT_TOKENS),
            "3,000 input tokens (50%) would be lost",
            id="lost in tokens",
        ),
    ],
)
def test_the_headline_says_what_is_saved(totals: Totals, expected: str) -> None:
    assert expected == describe_headline(totals, 2).title


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        pytest.param(
            summed(0.817, 0.719, 0.02),
            "For the prompts of 42 requests in 2 conversations the bill is $0.72 with the chosen "
            "settings, and $0.82 with everything sent. What is saved may be off by $0.02 either "
            "way.",
            id="in dollars",
        ),
        pytest.param(
            summed(9.0, 6.0, asked_again=3),
            "For the prompts of 42 requests in 2 conversations the bill is $6.00 with the chosen "
            "settings, and $9.00 with everything sent. What is saved may be off by $0 either "
            "way. It is 26% if each of the 3 calls that asked again cost one more request.",
            id="with calls that asked again",
        ),
        pytest.param(
            summed(9e3, 9e3, currency=INPUT_TOKENS),
            "For the prompts of 42 requests in 2 conversations the bill is worth 9,000 input "
            "tokens with the chosen settings, and 9,000 with everything sent. Not all prices are "
            "known, so these sums are in input tokens.",
            id="in tokens",
        ),
    ],
)
def test_the_headline_is_explained(totals: Totals, expected: str) -> None:
    assert expected == describe_headline(totals, 2).sentence


def test_each_policy_has_its_bill_and_its_calls() -> None:
    found = dataclasses.replace(
        replayed(Talk()),
        sliding_rereads=Rereads(calls=15, either=3, quoted=6),
        chosen_rereads=Rereads(calls=15, either=1),
    )
    table = list_policies(together(found, found))
    rows = list_rows(table)
    names = ["Everything sent", "Sliding window", "Chosen settings"]
    assert names == [row["Policy"].partition("\n")[0] for row in rows]
    assert ["0.0%", "20.0%", "6.7%"] == [row[REREADS] for row in rows]
    assert ["0.0%", "40.0%", "0.0%"] == [row["Quotes"] for row in rows]
    costs = [2 * sum(each) for each in costs_by_policy(found.compared, DOLLARS).values()]
    assert [render_dollars(cost) for cost in costs] == [row["Bill"] for row in rows]
    shares = [row[2]["bar"][1] for row in table["rows"]]
    assert [cost / max(costs) for cost in costs] == pytest.approx(shares)
    assert "+0.0%" == rows[0]["Saved"]


REREADS = "Re\N{NON-BREAKING HYPHEN}reads"


def free(request: ReplayedRequest) -> ReplayedRequest:
    """Return a request that costs nothing."""
    return billed_anew(request, FREE_OF_CHARGE)


def test_what_is_free_of_charge_has_no_share_and_no_worst_moment() -> None:
    whole = replayed(Talk(turns=0))
    requests = tuple(free(request) for request in whole.chosen)
    comparison = dataclasses.replace(
        whole,
        chosen=requests,
        sliding=requests,
        chosen_rereads=Rereads(),
        sliding_rereads=Rereads(),
    )
    assert [0.0] * 3 == [row[2]["bar"][1] for row in list_policies(together(comparison))["rows"]]
    (row,) = show(comparison)
    assert ("never above", "", "") == (row["Worst moment"], row[REREADS], row["Quotes"])


@pytest.mark.parametrize(
    ("models", "first"),
    [
        pytest.param(("gpt-4o", "gpt-4o-mini"), "$", id="all prices known"),
        pytest.param(("gpt-4o", "nobody's"), "", id="one price not known"),
    ],
)
def test_all_conversations_are_in_one_unit_and_all_is_their_sum(
    models: tuple[str, str], first: str
) -> None:
    name = f"Bill, chosen settings{'' if first else ', input tokens'}"
    comparisons = [replayed(Talk(turns=8 + n, model=m)) for n, m in enumerate(models)]
    *rows, total = show(*comparisons)
    assert ["a talk", "a talk", "All conversations"] == [
        row["Conversation"] for row in (*rows, total)
    ]
    assert all(row[name].startswith(first) for row in (*rows, total))
    assert first == "$" or rows[0][name][0].isdigit()
    tokens = [int(row["Tokens, everything sent"].replace(",", "")) for row in (*rows, total)]
    assert tokens[0] + tokens[1] == tokens[2]
    assert "19" == total["Requests"]
    assert total["Worst moment"] == max(row["Worst moment"].partition("\n")[0] for row in rows)


def test_the_saved_column_is_the_one_that_stays() -> None:
    table = list_conversations([add_up(replayed(Talk()))], together(replayed(Talk())))
    for each in (table, list_policies(together(replayed(Talk())))):
        assert "Saved" == each["columns"][-1][0]
        first, *_, last = (title for title, kind in each["columns"] if not kind)
        assert last == "Saved"
        assert first in ("Conversation", "Policy")


@as_one_test
@pytest.mark.parametrize(
    ("money", "bound", "held", "expected"),
    [
        pytest.param(Money(1, 4, 3), 1, 1, "", id="saved"),
        pytest.param(Money(1, 4, 5), 0, 1, "", id="lost"),
        pytest.param(Money(0), 0, 0, "", id="no request"),
        pytest.param(Money(9, 4, 4), 1, 1, "binds its reasoning", id="bound"),
        pytest.param(Money(9, 4, 4), 0, 1, "does not pay yet", id="held"),
        pytest.param(Money(9, 4, 4), 0, 0, "too short", id="in the window"),
    ],
)
def test_it_is_told_why_nothing_was_saved(
    money: Money, bound: int, held: int, expected: str
) -> None:
    assert expected == explain_nothing(Bill(tokens=money), bound, held)


def test_a_conversation_that_saves_nothing_says_why() -> None:
    short, long = show(replayed(Talk(turns=1)), replayed(Talk()))[:2]
    assert "+0.0%\ntoo short" == short["Saved"]
    assert "\n" not in long["Saved"]


def test_tokens_are_those_of_the_table_in_the_terminal() -> None:
    comparison = replayed(Talk(usage=Usage(prompt=9_000)))
    totals, (row,) = together(comparison), show(comparison)
    cells = list_cells(totals, totals.currency)
    assert f"{15 * 9_000:,}" == cells["tokens before"] == row["Tokens, everything sent"]
    assert cells["tokens after"] == row["Tokens, chosen settings"]


@pytest.mark.parametrize("pricing", ["none", (0.5, 1.0)])
def test_the_worst_moment_is_the_highest_bill_beside_that_of_everything(
    pricing: CachePricing,
) -> None:
    comparison = replayed(Talk(), pricing)
    costs = costs_by_policy(comparison.compared, INPUT_TOKENS)
    chosen, everything = accumulate(costs["chosen"]), accumulate(costs["everything"])
    excess = [100 * (paid / full - 1) for paid, full in zip(chosen, everything, strict=True)]
    worst = together(comparison).worst
    assert worst is not None
    assert max(excess) == pytest.approx(100 * (worst.part - 1))
    assert excess.index(max(excess)) == worst.request
    (row,) = show(comparison)
    assert f"+{max(excess):.1f}%\nrequest {worst.request + 1}" == row["Worst moment"]
    *_, total = show(comparison, replayed(Talk(turns=0)))
    assert f"+{max(excess):.1f}%" == total["Worst moment"]


# How the report came about.


def test_the_settings_have_the_names_of_files_and_options() -> None:
    replay = dataclasses.replace(settings("auto"), model="gpt-4o", ttl=300.0)
    origin = Origin(
        created=NOON, version="1", sources=("a",), settings=replay, pause=Pause(10, 600.0)
    )
    found = dict(origin.list_settings())
    assert ("true", "3", '"auto"') == tuple(
        found[name] for name in ("enabled", "window_turns", "cache_pricing")
    )
    assert ('"gpt-4o"', "300.0", "[10, 600.0]") == tuple(
        found[name] for name in ("--model", "--cache-ttl", "--pause")
    )


def test_the_settings_are_those_that_a_file_can_have() -> None:
    replay = settings("auto")
    full = dataclasses.replace(replay.policy, keep_last_k_per_tool=2)
    replay = dataclasses.replace(replay, strategies=Strategies(schema1=full))
    origin = Origin(created=NOON, version="1", sources=("a",), settings=replay)
    policy = {field.name for field in dataclasses.fields(MaskPolicy)}
    in_files = policy & list_keys(Schema1Table).keys()
    shown = dict(origin.list_settings()).keys()
    assert in_files == policy == policy & shown
    # What host and model charge is no setting, whatever the replay was billed by.
    assert shown.isdisjoint(field.name for field in dataclasses.fields(BoundaryPrices))


def test_what_is_not_set_is_left_out() -> None:
    origin = Origin(created=NOON, version="1", sources=("a",), settings=settings())
    assert {"--model", "--cache-ttl", "--pause"}.isdisjoint(dict(origin.list_settings()))


@pytest.mark.parametrize(
    ("talk", "pricing", "expected"),
    [
        (Talk(), (0.1, 1.25), ["gpt-4o", "0.1", "1.25", "given", "15"]),
        (Talk(), "auto", ["gpt-4o", "0.5", "1", "price list, gpt-4o of OpenAI", "15"]),
        (Talk(model=None), "auto", ["unknown", "0.1", "1.25", "assumed", "15"]),
    ],
)
def test_prices_are_shown_with_their_source(
    talk: Talk, pricing: CachePricing, expected: list[str]
) -> None:
    assert [expected] == read_rows(list_prices(together(replayed(talk, pricing))))


def test_the_commonest_price_comes_first() -> None:
    found: list[Comparison] = [replayed(Talk(turns=n, model=m)) for n, m in ((2, "a"), (5, "b"))]
    assert ["b", "a"] == [row[0] for row in read_rows(list_prices(together(*found)))]


def test_what_is_not_printable_is_replaced() -> None:
    assert "a\ufffdb\ufffd\ufffd é" == printable("a\x1bb\u202e\ud800 é")
