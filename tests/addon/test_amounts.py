"""How what a request cost reads, in the log and in a record."""

import pytest

from addon.metrics.amounts import (
    read_savings,
    read_total_savings,
    render_cost,
    render_prices,
    render_savings,
)
from addon.metrics.ledger_fields import describe_entry, describe_pricing
from addon.metrics.log_line import render_line
from addon.metrics.record import RequestRecord
from masking.accounting.cost import NO_MARGIN, Bill, Cost, Margin
from masking.accounting.ledger import Entry, Savings
from masking.prices import PriceSettings, Pricing, find_pricing


def entry_of(
    before: Bill,
    after: Bill,
    warm: Bill | None = None,
    savings: Savings | None = None,
    margin: Margin = NO_MARGIN,
) -> Entry:
    cost = Cost(
        before=before, before_warm=warm or before, after=after, predicted=0, hit_rate=1.0,
        basis="reported", margin=margin,
    )  # fmt: skip
    savings = savings or Savings()
    return Entry(
        cost=cost,
        conversation=7,
        savings=savings,
        total=savings,
        masked_before=None,
        is_frozen=False,
        tripped=False,
    )


def record_of(entry: Entry | None = None, /, **fields: object) -> RequestRecord:
    least = {"time": "2026-01-01T00:00:00.000+00:00", "host": "h", "path": "/p", "masking": "on"}
    unpriced = {"net_unpriced": entry.savings.unpriced} if entry else {}
    return RequestRecord.model_validate({**least, **describe_entry(entry), **unpriced, **fields})


def tokens(cost: float) -> Bill:
    return Bill(cost, 0.0, cost, None)


def dollars(cost: float) -> Bill:
    return Bill(cost, 0.0, cost, cost / 1_000)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(entry_of(dollars(20), dollars(20)), "cost $0.0200", id="nothing saved"),
        pytest.param(
            entry_of(dollars(20), dollars(10)), "cost $0.0200 -> $0.0100 (-50%)", id="saved"
        ),
        pytest.param(
            entry_of(dollars(20), dollars(30)), "cost $0.0200 -> $0.0300 (+50%)", id="lost"
        ),
        pytest.param(
            entry_of(tokens(1_200), tokens(600)),
            "cost 1,200 -> 600 input tokens (-50%)",
            id="without a price in tokens",
        ),
        pytest.param(
            entry_of(tokens(1_000), tokens(500), warm=tokens(400)),
            "cost 1,000 (400 with a warm cache) -> 500 input tokens (-50%)",
            id="a cold cache shows both figures",
        ),
        pytest.param(
            entry_of(dollars(20), dollars(10), margin=Margin(2.0)),
            "cost $0.0200 -> $0.0100 (-50% ±10)",
            id="with what it may be off",
        ),
        pytest.param(
            entry_of(dollars(20), dollars(19), margin=Margin(2.0)),
            "cost $0.0190, about as unmasked",
            id="less than what it may be off",
        ),
        pytest.param(
            entry_of(tokens(0), tokens(5)), "cost 0 -> 5 input tokens (+0%)",
            id="from nothing there is no part",
        ),
    ],
)  # fmt: skip
def test_a_cost_is_told(entry: Entry, expected: str) -> None:
    assert expected == render_cost(record_of(entry))


@pytest.mark.parametrize(
    ("savings", "expected"),
    [
        (Savings(1_000.0, 1.5), "+$1.5000"),
        (Savings(-1_000.0, -1.5), "-$1.5000"),
        (Savings(1_234.5, None), "+1,234 input tokens"),
        (Savings(-1_234.0, None), "-1,234 input tokens"),
        (Savings(1_000.0, 1.5, 0, Margin(50.0), Margin(0.1, 0.01)), "+$1.5000 ±0.3000"),
        (Savings(1_000.0, 1.5, 0, Margin(900.0), Margin(1.6)), "about 0"),
        (Savings(-1_000.0, 1.5, 2, Margin(90.0), Margin(1.6)), "-1,000 ±90 input tokens"),
        (Savings(-1_000.0, None, 2, Margin(1_000.0)), "about 0"),
    ],
)
def test_savings_have_their_sign(savings: Savings, expected: str) -> None:
    record = record_of(entry_of(dollars(20), dollars(20), savings=savings))
    for read in (read_savings, read_total_savings):
        assert expected == render_savings(read(record))


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


def test_without_an_entry_every_field_is_there_and_null() -> None:
    described = describe_entry(entry_of(dollars(20), dollars(10)))
    assert list(described) == list(describe_entry(None))
    assert {None} == set(describe_entry(None).values())


@pytest.mark.parametrize(
    ("savings", "tail"),
    [
        (Savings(0.0, 0.0), "cost $0.0200, cached at 0.5 (config)"),
        (
            Savings(5.0, 0.5),
            "cost $0.0200, cached at 0.5 (config), net +$0.5000 in conversation 7, +$0.5000 in all",
        ),
    ],
    ids=["as long as nothing was saved there is no net", "the net is told"],
)
def test_the_log_line_has_the_cost_whether_masking_or_not(savings: Savings, tail: str) -> None:
    record = record_of(
        entry_of(dollars(20), dollars(20), savings=savings),
        masking="off",
        status=200,
        tool_results=3,
        **describe_pricing(Pricing(0.5, 1.0, source="config")),
    )
    assert f"h ? 200: masking off, 3 tool results, {tail}" == render_line(record)
