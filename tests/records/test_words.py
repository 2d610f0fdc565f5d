"""What records and sums read like, in the log, in `obsmask status`, on the page."""

import pytest

from addon.records.build import describe_entry, describe_pricing
from addon.records.record import RequestRecord
from addon.records.tally import Totals
from addon.records.words import (
    DOLLARS,
    INPUT_TOKENS,
    Currency,
    explain_unmasked,
    find_currency,
    list_arrival,
    list_drops,
    list_rereads,
    list_unmaskable,
    render_bill,
    render_change,
    render_cost,
    render_dollars,
    render_line,
    render_prices,
    render_range,
    render_saved,
    render_saved_percent,
    render_tally,
    render_totals,
    render_uncertain,
    tell_roads,
    why_lost,
)
from addon.skip_reasons import HELD
from masking.accounting.bill import NO_BILL, NO_MARGIN, NO_MONEY, Bill, Margin, Money
from masking.accounting.cost import Cost, PromptCost
from masking.accounting.ledger import Entry
from masking.prices import PriceSettings, Pricing, find_pricing
from tests.support.made_up_records import UNPRICED, bill, record, tally
from tests.support.marks import as_one_test

OPENAIS = Currency(borrowed_from=("OpenAI",))

# What was saved: one rule for what may as well be nothing


@as_one_test
@pytest.mark.parametrize(
    ("before", "after", "error", "cell", "percent"),
    [
        pytest.param(4, 4, 0, "0", "+0.0%", id="nothing"),
        pytest.param(4, 4, 1, "0", "+0.0% ±25.0", id="nothing, as far as is known"),
        pytest.param(4, 3, 1, "about 0", "about 0", id="as much as the margin"),
        pytest.param(4, 5, 1, "about 0", "about 0", id="a loss of as much"),
        pytest.param(4, 3, 0.5, None, "+25.0% ±12.5", id="more than the margin"),
        pytest.param(4, 5, 0.5, None, "-25.0% ±12.5", id="a loss of more"),
        pytest.param(0, 0, 0, "0", "", id="no cost"),
    ],
)
def test_what_may_as_well_be_nothing_is_about_0(
    before: float, after: float, error: float, cell: str | None, percent: str
) -> None:
    assert cell == render_uncertain(Money(1, before, after, Margin(error)))
    assert percent == render_saved_percent(before, before - after, error)


@as_one_test
@pytest.mark.parametrize(
    ("before", "after", "error", "currency", "shown"),
    [
        pytest.param(4, 4, 0, DOLLARS, "0", id="nothing"),
        pytest.param(4, 3.5, 0.7, DOLLARS, "about 0", id="within the margin"),
        pytest.param(4, 3, 0.25, DOLLARS, "$1.00 (25%)", id="dollars"),
        pytest.param(4, 5, 0, DOLLARS, "-$1.00 (-25%)", id="a loss"),
        pytest.param(4e4, 3e4, 0, DOLLARS, "$10,000 (25%)", id="many dollars"),
        pytest.param(4e4, 3e4, 5e3, INPUT_TOKENS, "10,000 (25%)", id="tokens"),
    ],
)
def test_what_was_saved_stands_in_a_table_with_its_part(
    before: float, after: float, error: float, currency: Currency, shown: str
) -> None:
    assert shown == render_saved(Money(1, before, after, Margin(error)), currency)


@as_one_test
@pytest.mark.parametrize(
    ("dollars", "expected"),
    [
        (0, "$0"),
        (1e-9, "$0"),
        (0.000_003, "$0.000003"),
        (0.000_42, "$0.00042"),
        (0.004_2, "$0.0042"),
        (0.004, "$0.004"),
        (0.042_19, "$0.042"),
        (0.099_6, "$0.10"),
        (0.43, "$0.43"),
        (9.999, "$10.00"),
        (12.3, "$12.30"),
        (999.99, "$999.99"),
        (1_204.4, "$1,204"),
    ],
)
def test_dollars_have_the_digits_that_count(dollars: float, expected: str) -> None:
    assert expected == render_dollars(dollars)
    assert expected.replace("$", "-$" if expected != "$0" else "$") == render_dollars(-dollars)


@as_one_test
@pytest.mark.parametrize(
    ("currency", "expected"),
    [
        pytest.param(DOLLARS, "$0.43", id="the host's price"),
        pytest.param(Currency(is_plan=True), "$0.43 at API prices", id="on a subscription"),
        pytest.param(OPENAIS, "about $0.43 at OpenAI's price", id="the maker's price"),
        pytest.param(
            Currency(borrowed_from=("OpenAI",), is_plan=True),
            "about $0.43 at OpenAI's API price",
            id="the maker's price, on a subscription",
        ),
        pytest.param(
            Currency(standard_for=("flex", "priority")),
            "$0.43 at the standard price, not that of flex or priority",
            id="tiers of service whose price is not known",
        ),
        pytest.param(
            Currency(borrowed_from=("OpenAI",), standard_for=("priority",)),
            "about $0.43 at OpenAI's price, not that of priority",
            id="the same at another's price",
        ),
        pytest.param(
            Currency(borrowed_from=("A", "B", "C")), "about $0.43 at A's, B's and C's prices",
            id="the prices of three",
        ),
        pytest.param(
            Currency(borrowed_from=("A", "B", "C", "D")),
            "about $0.43 at the prices of the models' makers",
            id="the prices of many",
        ),
        pytest.param(INPUT_TOKENS, "0 input tokens no price is known", id="no price"),
    ],
)  # fmt: skip
def test_an_amount_says_whose_price_it_is_at(currency: Currency, expected: str) -> None:
    assert expected == f"{currency.render(0.43)} {currency.basis}".rstrip()


@as_one_test
@pytest.mark.parametrize(
    ("before", "after", "error", "currency", "expected"),
    [
        (0.43, 0.31, 0.01, DOLLARS, "cost $0.31, without masking $0.43: saved $0.12 (28% ±2)"),
        (
            0.43, 0.31, 0.01, OPENAIS,
            "cost about $0.31 at OpenAI's price, without masking about $0.43: saved $0.12 (28% ±2)",
        ),
        (
            12_300, 15_000, 0, INPUT_TOKENS,
            "worth 15,000 input tokens (no price is known), without masking 12,300: lost 2,700 "
            "(22%)",
        ),
        (0.43, 0.43, 0, DOLLARS, "cost $0.43"),
        (0.43, 0.42, 0.02, DOLLARS, "cost $0.42, about as much as without masking"),
    ],
)  # fmt: skip
def test_a_bill_says_what_was_paid_and_what_would_have_been(
    before: float, after: float, error: float, currency: Currency, expected: str
) -> None:
    assert expected == render_bill(Money(1, before, after, Margin(error)), currency)


@pytest.mark.parametrize(
    ("before", "after", "error", "expected"),
    [
        (0.43, 0.31, 0.01, "cost $0.43, with masking $0.31: would have saved $0.12 (28% ±2)"),
        (0.31, 0.43, 0, "cost $0.31, with masking $0.43: would have lost $0.12 (39%)"),
        (0.43, 0.42, 0.02, "cost $0.43, about as much as with masking"),
    ],
)
def test_a_bill_of_what_was_only_observed_is_turned_round(
    before: float, after: float, error: float, expected: str
) -> None:
    found = render_bill(Money(1, before, after, Margin(error)), DOLLARS, is_dry_run=True)
    assert expected == found


def test_a_mix_of_sure_and_borrowed_prices_is_about_right() -> None:
    sums = tally(bill(4, 3), bill(2, 1, price_borrowed_from="OpenAI"))
    assert OPENAIS == find_currency(sums.bill)
    assert INPUT_TOKENS == find_currency(tally(bill(4, 3) | UNPRICED).bill)


def test_a_tier_of_service_whose_price_is_not_known_is_told() -> None:
    known: dict[str, object] = {"service_tier": "fast", "price_is_standard": False}
    unknown: dict[str, object] = {"service_tier": "flex", "price_is_standard": True}
    assert DOLLARS == find_currency(tally(bill(4, 3) | known).bill)
    sums = tally(bill(4, 3) | known, bill(2, 1) | unknown)
    assert Currency(standard_for=("flex",)) == find_currency(sums.bill)
    entry = entry_of(dollars(20), dollars(10))
    assert "cost $0.02 -> $0.01 (-50%)" == render_cost(record_of(entry, **known))
    assert "cost $0.02 -> $0.01 at the standard price, not that of flex (-50%)" == render_cost(
        record_of(entry, **unknown)
    )


# A request


def entry_of(
    before: tuple[float, float | None],
    after: tuple[float, float | None],
    margin: Margin = NO_MARGIN,
) -> Entry:
    """Return the entry of a request that costs this, each in tokens and in dollars."""
    nothing = PromptCost(0.0, 0.0, 0.0, 0.0)
    cost = Cost(before=nothing, after=nothing, predicted=0, hit_rate=1.0, basis="reported")
    paid = NO_MONEY
    if before[1] is not None and after[1] is not None:
        paid = Money(1, before[1], after[1])
    return Entry(
        cost=cost,
        conversation=7,
        bill=Bill(tokens=Money(1, before[0], after[0], margin), dollars=paid),
        so_far=NO_BILL,
        masked_before=None,
        is_frozen=False,
    )


def saved(
    tokens: float,
    dollars: float | None = None,
    unpriced: int = 0,
    margin: Margin = NO_MARGIN,
    dollar_margin: Margin = NO_MARGIN,
) -> Bill:
    """Return a bill that says so; without dollars nothing in it has a price."""
    return Bill(
        tokens=Money(9, tokens, 0.0, margin),
        dollars=Money() if dollars is None else Money(9 - unpriced, dollars, 0.0, dollar_margin),
        unpriced=Money(9 if dollars is None else unpriced),
    )


def record_of(entry: Entry | None = None, /, **fields: object) -> RequestRecord:
    least = {"time": "2026-01-01T00:00:00.000+00:00", "host": "h", "path": "/p", "masking": "on"}
    entered = describe_entry(entry) if entry else {}
    return RequestRecord.model_validate({**least, **entered, **fields})


def tokens(cost: float) -> tuple[float, None]:
    return cost, None


def dollars(cost: float) -> tuple[float, float]:
    return cost, cost / 1_000


@as_one_test
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(entry_of(dollars(20), dollars(20)), "cost $0.02", id="nothing saved"),
        pytest.param(
            entry_of(dollars(20), dollars(10)), "cost $0.02 -> $0.01 (-50%)", id="saved"
        ),
        pytest.param(
            entry_of(dollars(20), dollars(30)), "cost $0.02 -> $0.03 (+50%)", id="lost"
        ),
        pytest.param(
            entry_of(tokens(1_200), tokens(600)),
            "worth 1,200 -> 600 input tokens (-50%)",
            id="without a price in tokens",
        ),
        pytest.param(
            entry_of(dollars(20), dollars(10), margin=Margin(2.0)),
            "cost $0.02 -> $0.01 (-50% ±10)",
            id="with what it may be off",
        ),
        pytest.param(
            entry_of(dollars(20), dollars(19), margin=Margin(2.0)),
            "cost $0.019, about as much as without masking",
            id="less than what it may be off",
        ),
        pytest.param(
            entry_of(tokens(0), tokens(5)), "worth 0 -> 5 input tokens (+0%)",
            id="from nothing there is no part",
        ),
    ],
)  # fmt: skip
def test_a_cost_is_told(entry: Entry, expected: str) -> None:
    assert expected == render_cost(record_of(entry))


@as_one_test
@pytest.mark.parametrize(
    ("so_far", "expected"),
    [
        (saved(1_000.0, 1.5), "+$1.50"),
        (saved(-1_000.0, -1.5), "-$1.50"),
        (saved(1_234.5, None), "+1,234 input tokens"),
        (saved(-1_234.0, None), "-1,234 input tokens"),
        (saved(1_000.0, 1.5, 0, Margin(50.0), Margin(0.1, 0.01)), "+$1.50 ±0.30"),
        (saved(1_000.0, 1.5, 0, Margin(900.0), Margin(1.6)), "about 0"),
        (saved(-1_000.0, 1.5, 2, Margin(90.0), Margin(1.6)), "-1,000 ±90 input tokens"),
        (saved(-1_000.0, None, margin=Margin(1_000.0)), "about 0"),
    ],
)
def test_what_was_saved_so_far_has_its_sign(so_far: Bill, expected: str) -> None:
    record = record_of(entry_of(dollars(20), dollars(20)), tool_results=1)
    assert f", net {expected} in conversation 7" in render_line(record, so_far)


@pytest.mark.parametrize(
    ("pricing", "expected"),
    [
        (
            Pricing(0.1, 1.25, source="assumed"),
            "cached at 0.1, written at 1.25 (assumed)",
        ),
        (Pricing(0.1, 1.0, source="config"), "cached at 0.1 (config)"),
        (
            find_pricing(PriceSettings(), "api.anthropic.com", "claude-sonnet-4-5"),
            "cached at 0.1, written at 1.25 (price list)",
        ),
    ],
)
def test_the_prices_and_their_source_are_shown(pricing: Pricing, expected: str) -> None:
    assert expected == render_prices(record_of(**describe_pricing(pricing)))


@pytest.mark.parametrize(
    ("so_far", "tail"),
    [
        (saved(0.0, 0.0), "cost $0.02, cached at 0.5 (config)"),
        (
            saved(5.0, 0.5),
            "cost $0.02, cached at 0.5 (config), net +$0.50 in conversation 7",
        ),
    ],
    ids=["as long as nothing was saved there is no net", "the net is told"],
)
def test_the_log_line_has_the_cost_whether_masking_or_not(so_far: Bill, tail: str) -> None:
    record = record_of(
        entry_of(dollars(20), dollars(20)),
        masking="off",
        status=200,
        tool_results=3,
        **describe_pricing(Pricing(0.5, 1.0, source="config")),
    )
    assert f"h ? 200: masking off, 3 tool results, {tail}" == render_line(record, so_far)


def test_the_log_line_names_the_label() -> None:
    record = RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on", "label": "a team"}
        | {"passed_through": "signed"}
    )
    assert render_line(record) == "[a team] h ?: passed through untouched, signed"


def test_the_log_line_tells_of_a_request_that_was_left_whole() -> None:
    record = RequestRecord(
        time="", host="h", path="/p", masking="on", tool_results=9, masked=0, kept={"summary": 9}
    )
    assert (
        render_line(record) == "h ?: masked 0 of 9 tool results, left whole for a summary, 0.0 ms"
    )


def test_the_log_line_tells_of_masked_images() -> None:
    record = RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on", "tool_results": 9}
        | {"masked": 4, "masked_images": 3}
    )
    assert render_line(record) == "h ?: masked 4 of 9 tool results, 3 images in them, 0.0 ms"


def test_a_line_says_both_the_status_and_who_ended_it() -> None:
    ended = record(status=200, error="provider failed")
    assert "h ? 200 provider failed: not measured" == render_line(ended)


@as_one_test
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0, 0, ""),
        (1_000, 1_000, ""),
        (12_000, 3_000, "75% smaller"),
        (10, 11, "10% larger"),
        (10_000, 9_999, "less than 1% smaller"),
    ],
)
def test_a_change_is_shown_in_percent(before: int, after: int, expected: str) -> None:
    assert render_change(before, after) == expected


# Some requests


SIZES = {"request_tokens_before": 1_844_335, "request_tokens_after": 1_204_113}
MASKED = {"tool_results": 9, "masked": 4, **SIZES}
WHOLE = {"tool_results": 9, "request_tokens_before": 1_000, "request_tokens_after": 1_000}


@as_one_test
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], "0 requests", id="none"),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, 0.04), {"status": 500, "masked": 1}],
            "2 requests, 1 failed; input of 1 request cost $3.28, without masking $4.21: saved "
            "$0.93 (22% ±1)",
            id="a saving",
        ),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, subscription=True)],
            "1 request; input cost $3.28 at API prices, without masking $4.21: saved $0.93 (22%)",
            id="on a subscription",
        ),
        pytest.param(
            [MASKED | bill(400, 300, 8)],
            "1 request; input cost $300.00, without masking $400.00: saved $100.00 (25% ±2)",
            id="many dollars",
        ),
        pytest.param(
            [MASKED | bill(4, 5, 0.4)],
            "1 request; input cost $5.00, without masking $4.00: lost $1.00 (25% ±10)",
            id="a loss",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4)],
            "1 request; input cost $3.90, about as much as without masking",
            id="no more than the margin of error",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4, subscription=True)],
            "1 request; input cost $3.90 at API prices, about as much as without masking",
            id="the same on a subscription",
        ),
        pytest.param(
            [MASKED | bill(5_000, 4_000, 100) | UNPRICED],
            "1 request; input worth 4,000 input tokens (no price is known), without masking 5,000: "
            "saved 1,000 (20% ±2)",
            id="in tokens where no price is known",
        ),
        pytest.param(
            [MASKED | bill(4, 3), bill(9, 9) | UNPRICED],
            "2 requests; input of 1 request cost $3.00, without masking $4.00: saved $1.00 (25%); "
            "input of 1 request worth 9 input tokens (no price is known)",
            id="where some prices are known",
        ),
        pytest.param(
            [{"masked": 4, "tool_results": 9}],
            "1 request",
            id="nothing was counted",
        ),
        pytest.param(
            [WHOLE | bill(4, 4) | {"kept": {"held": 3, "in_window": 6}}],
            "1 request; input cost $4.00; nothing masked, because masking doesn't pay yet",
            id="nothing was masked",
        ),
    ],
)
def test_the_line_tells(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


def course(
    *costs: tuple[float, float], moves: tuple[int, ...], **fields: object
) -> list[dict[str, object]]:
    """Return the requests of a conversation with these costs without masking and with it.

    The boundary moves at some of them. Of 5,000 tokens 1,000 are masked then, of which the provider
    counts 2,000; a cached one costs a tenth.
    """
    sizes = {"request_tokens_before": 5_000, "request_tokens_after": 4_000, "prompt_tokens": 8_000}
    return [
        MASKED | sizes | bill(*cost) | {"conversation_id": "a", "price_read_ratio": 0.1}
        | {"boundary_moved": number in moves} | fields
        for number, cost in enumerate(costs)
    ]  # fmt: skip


PAID = "masking more has just rebuilt the cache; that breaks even in about "
OTHER = {"conversation_id": "b"}


@as_one_test
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            course((1_000, 1_000), (1_000, 1_900), moves=(1,)), f"{PAID}5 more requests",
            id="by what a later request would read from the cache",
        ),
        pytest.param(
            course((1_000, 1_900), (1_000, 500), moves=(0,)), f"{PAID}1 more request",
            id="by what the last request saved",
        ),
        pytest.param(
            course((1_000, 1_900), (1_000, 50), moves=(0,)), None, id="it has paid off"
        ),
        pytest.param(course((1_000, 1_900), moves=()), None, id="nobody moved anything"),
        pytest.param(
            course((1_000, 1_900), moves=(0,), price_read_ratio=None), None, id="no price is known"
        ),
        pytest.param(
            course((1_000, 1_900), (1_000, 1_200), moves=(0,)), None, id="it goes on to lose"
        ),
        pytest.param(
            course(*[(1_000, 1_900)] * 4, moves=(0, 1, 3)),
            "the boundary moved at 3 of 4 requests, and each move breaks the provider's cache",
            id="a window that slides",
        ),
        pytest.param(
            course((1_000, 1_900), (1_000, 1_200), moves=(0,), boundary_held=True),
            "the provider's cache did not return after a move, so no more is masked there",
            id="the boundary is held",
        ),
        pytest.param(
            [
                *course((1_000, 1_900), moves=(0,)),
                *course((1_000, 2_900), moves=(0,), **OTHER),
            ],
            "in 2 conversations the last move has not paid off: they would need up to 10 more "
            "requests",
            id="two conversations",
        ),
        pytest.param(
            [
                *course((1_000, 1_900), moves=(0,)),
                *course((5_000, 1_000), moves=(), **OTHER),
            ],
            None,
            id="another conversation saved more",
        ),
        pytest.param(
            course((1_000, 1_900), moves=(0,), masking="observed"), None, id="it was observed only"
        ),
    ],
)  # fmt: skip
def test_a_loss_says_when_it_pays_off(
    records: list[dict[str, object]], expected: str | None
) -> None:
    assert expected == why_lost(tally(*records))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            course((1_000, 1_900), moves=(0,)),
            "1 request; input cost $1,900, without masking $1,000: lost $900.00 (90%); "
            f"{PAID}5 more requests",
            id="a loss and when it pays off",
        ),
        pytest.param(
            [MASKED | bill(4, 3, answer_dollars=0.5), MASKED | bill(4, 3)],
            "2 requests; input cost $6.00, without masking $8.00: saved $2.00 (25%); "
            "output of 1 request cost $0.50 either way",
            id="answers, where their price is known",
        ),
        pytest.param(
            [
                MASKED | bill(4, 3, price_borrowed_from="OpenAI", answer_dollars=0.5),
                {"purpose": "count"},
                {"purpose": "count"},
            ],
            "1 request, 2 more to count tokens alone; input of 1 request cost about $3.00 at "
            "OpenAI's price, without masking about $4.00: saved $1.00 (25%); output cost "
            "about $0.50 either way",
            id="the maker's price, and requests that count tokens",
        ),
    ],
)
def test_the_line_tells_all_there_is(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


OBSERVED = {"masking": "observed", "tool_results": 5, "masked": 3,
            "request_tokens_before": 1_000, "request_tokens_after": 400}  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [OBSERVED | bill(4, 3, 0.1)],
            "1 request; only observed: input cost $4.00, with masking $3.00: would have saved "
            "$1.00 (25% ±2)",
            id="a saving",
        ),
        pytest.param(
            [OBSERVED | bill(3, 4, 0.1, subscription=True)],
            "1 request; only observed: input cost $3.00 at API prices, with masking $4.00: would "
            "have lost $1.00 (33% ±3)",
            id="a loss",
        ),
        pytest.param(
            [OBSERVED | bill(4, 3, 2) | UNPRICED],
            "1 request; only observed: input worth 4 input tokens (no price is known), about as "
            "much as with masking",
            id="no known price, and a margin as large as the saving",
        ),
        pytest.param(
            [OBSERVED | {"request_tokens_before": None, "request_tokens_after": None}],
            "1 request; only observed: masking would have masked tool results",
            id="nothing was counted",
        ),
        pytest.param(
            [OBSERVED | {"masked": 0, "kept": {"held": 5}}],
            "1 request; only observed: masking would have changed nothing, because "
            "masking doesn't pay yet",
            id="nothing would have been masked",
        ),
        pytest.param(
            [
                OBSERVED | {"masked": 0, "tool_results": 0},
                *[{"masking": "observed", "passed_through": "the provider holds the history"}] * 2,
            ],
            "3 requests; only observed: masking would have changed nothing, because "
            "2 of 3 requests passed through untouched: the provider holds the history",
            id="most would have passed through",
        ),
        pytest.param(
            [
                OBSERVED | bill(5, 3) | {"group": "holdout"},
                OBSERVED | bill(4, 2) | {"masking": "on"},
            ],
            "2 requests; input of 1 request cost $2.00, without masking $4.00: saved $2.00 (50%); "
            "1 held out: input cost $5.00, with masking $3.00: would have saved $2.00 "
            "(40%)",
            id="one that is held out, and one that is masked",
        ),
    ],
)
def test_what_is_observed_is_told_apart(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


SIGNED = {"passed_through": "signed (cch)"}


SHORTENS = "obsmask run --shorten cuts long results all the same"
DROPS = (
    f"{SHORTENS}; obsmask config set schema1.bound_reasoning=drop (undo: obsmask config unset "
    "schema1.bound_reasoning) changes that, but the model then loses its earlier reasoning"
)


@as_one_test
@pytest.mark.parametrize(
    ("records", "because", "remedy"),
    [
        pytest.param(
            [SIGNED, WHOLE, {"masking": "off"}],
            "claude-code signs what it sends",
            "obsmask run -- claude changes that",
            id="claude-code, whose small requests are not signed",
        ),
        pytest.param(
            [SIGNED | {"binding": "refuses"}, SIGNED | {"binding": "refuses"}, SIGNED],
            "claude-code signs what it sends, and the model binds its reasoning to all that "
            "precedes it",
            None,
            id="claude-code with a model that binds its reasoning",
        ),
        pytest.param(
            [SIGNED | {"binding": "refuses"}, SIGNED],
            "claude-code signs what it sends",
            "obsmask run -- claude changes that",
            id="claude-code with two models, one of which binds its reasoning",
        ),
        pytest.param(
            [{"passed_through": HELD["pass"], "binding": "drops"}],
            "the provider holds the history of the agent's WebSocket, and the model would lose "
            "its reasoning",
            f"{SHORTENS}; obsmask config set websocket.mode=auto schema1.bound_reasoning=drop "
            "(undo: obsmask config unset schema1.bound_reasoning) changes that, but the model then "
            "loses its earlier reasoning",
            id="codex that is left alone, with reasoning that a setting gives up",
        ),
        pytest.param(
            [{"passed_through": HELD["bound"], "binding": "drops"}],
            "the model would lose its reasoning",
            DROPS,
            id="codex with reasoning that a setting gives up",
        ),
        pytest.param(
            [{"passed_through": HELD["unmasked"], "masking": "observed"}],
            "the provider holds the history of the agent's WebSocket, which stays open unless "
            "masking is on",
            None,
            id="codex that is only observed",
        ),
        pytest.param(
            [{"passed_through": HELD["unknown"]}],
            "the provider holds the history of the agent's WebSocket",
            "obsmask config set websocket.mode=http (undo: obsmask config unset websocket.mode) "
            "changes that, but an agent that speaks no HTTP to models then fails",
            id="a client that nobody has tried",
        ),
        pytest.param(
            [{"passed_through": "no JSON", "binding": "drops"}],
            "every request passed through untouched: no JSON",
            None,
            id="what no setting changes, whatever is bound",
        ),
        pytest.param(
            [SIGNED, {"passed_through": HELD["pass"]}, {"passed_through": HELD["pass"]}],
            "the provider holds the history of the agent's WebSocket",
            "obsmask config set websocket.mode=auto changes that",
            id="codex, more often than claude-code",
        ),
        pytest.param(
            [WHOLE | {"binding": "drops", "kept": {"bound": 1, "held": 2}}],
            "the model would lose its reasoning",
            DROPS,
            id="reasoning that a setting gives up",
        ),
        pytest.param(
            [WHOLE | {"binding": "refuses", "kept": {"bound": 1, "held": 2}}],
            "the model binds its reasoning to all that precedes it",
            SHORTENS,
            id="reasoning that no setting gives up",
        ),
        pytest.param(
            [WHOLE | {"binding": "may_refuse", "kept": {"bound": 1}}],
            "the model binds its reasoning; a request of claude-code's will test whether this "
            "account accepts masked results, once that pays",
            SHORTENS,
            id="reasoning that was not tried",
        ),
        pytest.param(
            [WHOLE | {"binding": "may_refuse", "account": "refuses", "kept": {"bound": 1}}],
            "the model binds its reasoning, and this account refuses requests whose older results "
            "are masked",
            SHORTENS,
            id="reasoning of an account that refuses",
        ),
        pytest.param(
            [WHOLE | {"binding": "refuses", "kept": {"bound": 1}, "clearing": "possible"}],
            "the model binds its reasoning to all that precedes it",
            f"{SHORTENS}; obsmask config set schema1.provider_clearing=true (undo: obsmask config "
            "unset schema1.provider_clearing) changes that",
            id="reasoning whose provider could clear",
        ),
        pytest.param(
            [WHOLE | {"binding": "drops", "kept": {"bound": 2}, "clearing": "possible"}],
            "the model would lose its reasoning",
            DROPS,
            id="reasoning that could be cleared and is dropped",
        ),
        pytest.param(
            [
                *[WHOLE | {"binding": "may_refuse", "kept": {"bound": 1}}] * 3,
                WHOLE | {"binding": "may_refuse", "account": "refuses", "kept": {"bound": 1}},
            ],
            "the model binds its reasoning, and this account refuses requests whose older results "
            "are masked",
            SHORTENS,
            id="reasoning of an account that turned out to refuse",
        ),
        pytest.param([{"masking": "off"}], "masking is off", None, id="masking is off"),
        pytest.param(
            [WHOLE | {"kept": {"held": 2}}, *[{"masking": "off"}] * 2],
            "masking was off for 2 of 3 requests, and for the others masking doesn't pay yet",
            None,
            id="masking is switched off meanwhile",
        ),
        pytest.param(
            [
                WHOLE | {"kept": {"in_window": 2}},
                *[{"masking": "off", "tool_results": 2, "kept": {"off": 2}}] * 2,
            ],
            "masking was off for 2 of 3 requests, and for the others no tool result is older than "
            "the window: a short session",
            None,
            id="masking is switched off in a short session",
        ),
        pytest.param(
            [{"masking": "observed"}], "masking is only observed", None, id="all is observed"
        ),
        pytest.param(
            [{"passed_through": "signed\x1b"}, {"passed_through": "signed\x1b"}],
            "every request passed through untouched: signed\ufffd",
            None,
            id="all passed through",
        ),
        pytest.param(
            [{"tool_results": 0}, *[{"passed_through": "the provider holds the history"}] * 18],
            "18 of 19 requests passed through untouched: the provider holds the history",
            None,
            id="all passed through but the first",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9}}, *[{"passed_through": "signed\x1b"}] * 2],
            "2 of 3 requests passed through untouched: signed\ufffd",
            None,
            id="most passed through",
        ),
        pytest.param(
            [{"passed_through": "signed"}, {"tool_results": 0}],
            "no request had a tool result",
            None,
            id="nothing to mask",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9}}],
            "no tool result is older than the window: a short session",
            None,
            id="a short session",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9, "error": 2, "last_k": 1}}],
            "the older tool results look like errors",
            "obsmask config set schema1.keep_errors=false (undo: obsmask config unset "
            "schema1.keep_errors) changes that, but the model then no longer sees them",
            id="nothing but errors",
        ),
        pytest.param(
            [WHOLE | {"kept": {"invented_later": 2}}],
            "the older tool results stay: invented_later",
            None,
            id="a reason of a newer version",
        ),
    ],
)
def test_it_is_told_why_nothing_was_masked(
    records: list[dict[str, object]], because: str, remedy: str | None
) -> None:
    assert because + ("" if remedy is None else f"; {remedy}") == explain_unmasked(tally(*records))


def test_who_shortens_results_already_is_not_told_to() -> None:
    bound = WHOLE | {"binding": "drops", "kept": {"bound": 1}, "long_kept": {"file": 1}}
    assert "--shorten" not in explain_unmasked(tally(bound))


def test_it_is_told_what_other_roads_would_have_cost() -> None:
    bound = WHOLE | {"binding": "refuses", "kept": {"bound": 1}}
    roads = {"shorten": (98.0, 0.5), "clear": (80.0, 2.0), "drop": (70.0, 4.0)}
    told = tally(bound | bill(100, 100, roads=roads, conversation_id="a"))
    assert "the model binds its reasoning to all that precedes it" == explain_unmasked(told)
    assert (
        "With --drop-reasoning this session would have cost $70.00 instead of $100.00 (30% ±4 "
        "less, but perhaps more output), with --provider-clearing $80.00 (20% ±2 less), with "
        "--shorten $98.00 (2% less): docs/agents.md#roads"
    ) == tell_roads(told)
    # Without a price it is told in tokens; of two sessions, of both.
    unpriced = bill(100, 100, roads=roads) | UNPRICED
    both = tally(
        *(
            bound | unpriced | {"conversation_id": each, "roads": {"clear": [80, 2]}}
            for each in "ab"
        )
    )
    assert (
        "With --provider-clearing these sessions would have cost 160 input tokens instead of 200 "
        "(20% ±2 less): docs/agents.md#roads"
    ) == tell_roads(both)


def test_a_road_that_saves_nothing_for_certain_is_not_told() -> None:
    bound = WHOLE | {"binding": "refuses", "kept": {"bound": 1}}
    roads = {
        "shorten": (99.5, 0.0),
        "clear": (95.0, 9.0),
        "drop": (120.0, 0.0),
        "later": (1.0, 0.0),
    }
    told = tally(bound | bill(100, 100, roads=roads))
    assert "" == tell_roads(told)
    assert "--shorten" in explain_unmasked(told)
    assert "" == tell_roads(tally(bound | {"roads": roads}))


def test_it_is_told_what_became_of_output_since_reasoning_was_dropped() -> None:
    def drops(tokens: int, *, asks: bool, **others: object) -> dict[str, object]:
        own = {"binding": "refuses", "conversation_id": "a", "completion_tokens": tokens}
        return WHOLE | own | {"dropping": "asked" if asks else None} | others

    told = tally(
        drops(100, asks=False),
        drops(300, asks=False),
        drops(900, asks=True),
        drops(500, asks=False),  # a side request of the same conversation
        drops(5, asks=False, conversation_id="b"),
        drops(7, asks=False, dropping="refused", conversation_id="c"),
    )
    assert [
        "1 request had reasoning dropped that no longer fits: since then 700 tokens of output a "
        "request, before 200",
        "1 request: refused to drop reasoning",
    ] == [*list_drops(told)]
    assert ["1 request had reasoning dropped that no longer fits"] == [
        *list_drops(tally(drops(9, asks=True)))
    ]


def test_it_is_told_what_the_provider_cleared() -> None:
    line = render_tally(
        tally(
            {"clearing": "asked", "cleared_tool_uses": 4, "cleared_tokens": 9_000},
            {"clearing": "refused", "resent": "accepted"},
        )
    )
    assert "; 2 requests asked the provider to clear; 9,000 tokens cleared in all; " in line
    assert line.endswith("; 1 request: refused")


# A run


def count(*records: dict[str, object]) -> str:
    totals = Totals()
    for fields in records:
        least = {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on"}
        totals.add(RequestRecord.model_validate({**least, **fields}))
    return render_totals(totals)


MEASURED: dict[str, object] = {
    "masked": 2, "redacted": 1, "reduction_stage": "masking",
    "request_tokens_before": 100, "request_tokens_after": 50,
}  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [{}, {"masking": "off", "status": 500}],
            "2 requests: 1 with masking on (0 failed), 1 with masking off (1 failed); "
            "0 results masked",
            id="failures by whether masking is on",
        ),
        pytest.param(
            [MEASURED, MEASURED | {"masking": "observed", "conversation": 1}],
            "2 requests: 1 with masking on (0 failed), 1 with masking observed (0 failed); "
            "2 results masked, 25% smaller; 1 result redacted; 1 reduced by masking; "
            "1 only observed: masking would have masked tool results",
            id="what was only observed is not what was done",
        ),
        pytest.param(
            [MEASURED, MEASURED],
            "2 requests: 2 with masking on (0 failed); 4 results masked, 50% smaller; "
            "2 results redacted; 2 reduced by masking",
            id="sums of what was measured",
        ),
        pytest.param(
            [{"masked": 2, "masked_images": 3}, {"masked_images": 1}],
            "2 requests: 2 with masking on (0 failed); 2 results masked; 4 images masked in them",
            id="images",
        ),
        pytest.param(
            [{"passed_through": "signed"}, {"passed_through": "signed"}, {"passed_through": "x"}],
            "3 requests: 3 with masking on (0 failed); 0 results masked; "
            "passed through: 2 signed, 1 x",
            id="why requests passed through",
        ),
        pytest.param(
            [{"resent": "accepted"}, {"resent": "refused"}, {}],
            "3 requests: 3 with masking on (0 failed); 0 results masked; "
            "2 requests sent again whole after a 400 (1 accepted)",
            id="what was sent again",
        ),
        pytest.param(
            [{"masked": 1, "kept": {"bound": 2, "error": 1}}, {"kept": {"bound": 3}}],
            "2 requests: 2 with masking on (0 failed); 1 result masked; "
            "5 results kept for bound reasoning",
            id="what reasoning is bound to",
        ),
        pytest.param(
            [
                {"conversation": 1, "boundary_held": True},
                {"conversation": 1, "boundary_held": True},
            ],
            "2 requests: 2 with masking on (0 failed); 0 results masked; "
            "1 conversation with a held boundary",
            id="each held conversation once",
        ),
        pytest.param(
            [
                {"kept": {"summary": 9}},
                {"conversation_id": "a", "masked": 1, "fits_unmasked": False},
            ],
            "2 requests: 2 with masking on (0 failed); 1 result masked; 1 request for a "
            "summary left whole; 1 conversation no longer fits its model without masking: switch "
            "masking off only after the agent has made a summary (/compact)",
            id="a summary, and a conversation that needs masking",
        ),
        pytest.param(
            [{"replay": True, **MEASURED}],
            "1 replayed request: 2 results masked, 50% smaller; "
            "1 result redacted; 1 reduced by masking",
            id="replayed requests alone",
        ),
        pytest.param(
            [{}, {"replay": True}],
            "1 request: 1 with masking on (0 failed); 0 results masked; "
            "1 replayed request: 0 results masked",
            id="replayed requests apart from those that were sent",
        ),
    ],
)
def test_the_totals_tell(records: list[dict[str, object]], expected: str) -> None:
    assert count(*records) == expected


def test_totals_of_nothing_say_so() -> None:
    assert render_totals(Totals()) == "0 requests: none; 0 results masked"


# What was shortened at arrival

SHORT = {
    "shortened": 2, "left_out_tokens": 70, "arrival_saved_tokens": 3.0,
    "arrival_saved_tokens_error": 0.5, "arrival_saved_dollars": 3.0,
}  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([bill(9, 5, 0.8)], [], id="nothing"),
        pytest.param(
            [bill(9, 5, 0.8, **SHORT)],
            [
                "of that at arrival $3.00 ±0.50, by masking $1.00 ±0.30",
                "long results sent shortened 2 times",
            ],
            id="both saved",
        ),
        pytest.param(
            [bill(9, 7, 0.8, **SHORT)],
            [
                "of that at arrival $3.00 ±0.50, by masking $1.00 ±0.30 lost",
                "long results sent shortened 2 times",
            ],
            id="masking has not paid off yet",
        ),
        pytest.param(
            [bill(9, 6, 0.5, **SHORT | {"shortened": 1})],
            [
                "of that at arrival $3.00 ±0.50, by masking about nothing",
                "long results sent shortened once",
            ],
            id="arrival alone",
        ),
        pytest.param(
            [bill(9, 5, 0.8, **SHORT, **UNPRICED) | {"arrival_saved_dollars": None}],
            [
                "of that at arrival 3 ±0 input tokens, by masking 1 ±0 input tokens",
                "long results sent shortened 2 times",
            ],
            id="no price",
        ),
        pytest.param(
            [{**SHORT, "passed_through": "held"}],
            [
                "about $3.00 ±0.50 saved at arrival in 1 request whose history the provider holds",
                "long results sent shortened 2 times",
            ],
            id="the provider holds the history",
        ),
        pytest.param(
            [{**SHORT, "passed_through": "held", "arrival_saved_dollars": None}],
            [
                "about 3 ±0 input tokens saved at arrival in 1 request whose history the provider "
                "holds",
                "long results sent shortened 2 times",
            ],
            id="and no price",
        ),
    ],
)
def test_what_arrival_saved_stands_beside_what_masking_saved(
    records: list[dict[str, object]], expected: list[str]
) -> None:
    counted = tally(*records)
    found = [*list_arrival(counted, counted.masked_bill)]
    assert [each.replace(" ±0 ", " ") for each in expected] == [
        each.replace(" ±0 ", " ") for each in found
    ]


def test_arrival_is_in_every_line_about_requests() -> None:
    counted = tally(bill(9, 5, 0.8, **SHORT, masked=1, arrival_rereads=2, arrival_quotes=1))
    told = "of that at arrival $3.00 ±0.50, by masking $1.00 ±0.30; "
    told += "long results sent shortened 2 times"
    assert told in render_tally(counted)
    assert ["2 calls repeated one whose result was shortened",
            "1 call quoted what was left out at arrival"] == [*list_rereads(counted)]  # fmt: skip
    totals = Totals()
    totals.add(record(**bill(9, 5, 0.8, **SHORT, arrival_rereads=2, arrival_quotes=1)))
    line = render_totals(totals)
    assert told in line
    assert "; ".join(list_rereads(counted)) in line


def test_what_was_only_observed_would_have_been_saved() -> None:
    counted = tally(bill(9, 5, 0.8, **SHORT, masking="observed", arrival_quotes=1))
    told = "; of that at arrival $3.00 ±0.50, by masking $1.00 ±0.30; long results would "
    assert f"{told}have been sent shortened 2 times" in render_tally(counted)
    assert ["1 call quoted what would have been left out at arrival"] == [*list_rereads(counted)]
    assert 0 == counted.arrival.results


@as_one_test
@pytest.mark.parametrize(
    ("sums", "calls", "expected"),
    [
        pytest.param((20, 1.5, 1.2), 0, "", id="none asked again"),
        pytest.param(
            (20, 1.5, 1.2),
            1,
            "; 15% if the one call that asked again cost one more request",
            id="one of twenty requests",
        ),
        pytest.param(
            (75, 1.5, 1.2),
            12,
            "; 4% if each of the 12 calls that asked again cost one more request",
            id="twelve",
        ),
        pytest.param(
            (20, 1.5, 1.2),
            5,
            "; -5% if each of the 5 calls that asked again cost one more request",
            id="more than was saved",
        ),
        pytest.param((20, 1.2, 1.5), 5, "", id="nothing was saved"),
        pytest.param((0, 0.0, 0.0), 5, "", id="nothing was paid"),
    ],
)
def test_a_saving_is_told_with_what_is_left_if_calls_that_asked_again_cost_something(
    sums: tuple[int, float, float], calls: int, expected: str
) -> None:
    assert expected == render_range(Money(*sums, asked_again=calls))
    assert "" == render_range(Money(*sums, Margin(1.0), calls))


@as_one_test
@pytest.mark.parametrize(
    ("unopened", "unserved", "expected"),
    [
        pytest.param({}, 0, [], id="nothing"),
        pytest.param(
            {"a.example": 1, "b.example": 3}, 0, [": 3 to b.example, 1 to a.example"], id="hosts"
        ),
        pytest.param(
            {f"{n}.example": 99 - n for n in range(12)},
            0,
            [f": {', '.join(f'{99 - n} to {n}.example' for n in range(10))}, 177 to 2 more hosts"],
            id="many hosts",
        ),
        pytest.param({}, 2, ["2 requests used an unsupported API format"], id="requests"),
    ],
)
def test_what_a_proxy_could_not_read_is_told_everywhere_alike(
    unopened: dict[str, int], unserved: int, expected: list[str]
) -> None:
    told = "connections passed undecrypted, as a certificate isn't trusted"
    assert expected == [each.removeprefix(told) for each in list_unmaskable(unopened, unserved)]
