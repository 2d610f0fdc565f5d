"""What records and sums read like, in the log, in `obsmask status`, on the page."""

import pytest

from addon.passed import HELD
from addon.records.build import describe_entry, describe_pricing
from addon.records.record import RequestRecord
from addon.records.tally import BillSum, Totals, read_savings, read_total_savings
from addon.records.words import (
    render_change,
    render_cost,
    render_line,
    render_net,
    render_prices,
    render_saved_percent,
    render_savings,
    render_tally,
    render_totals,
    render_uncertain,
    why_nothing_masked,
)
from masking.accounting.cost import NO_MARGIN, Bill, Cost, Margin
from masking.accounting.ledger import Entry, Savings
from masking.prices import PriceSettings, Pricing, find_pricing
from tests.support.made_up_records import UNPRICED, bill, record, tally

# What was saved: one rule for what may as well be nothing


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
    assert cell == render_uncertain(BillSum(1, before, after, Margin(error)))
    assert percent == render_saved_percent(before, before - after, error)


@pytest.mark.parametrize(
    ("before", "after", "error", "unit", "shown"),
    [
        pytest.param(4, 4, 0, "usd", "0", id="nothing"),
        pytest.param(4, 3.5, 0.7, "usd", "about 0", id="within the margin"),
        pytest.param(4, 3, 0.25, "usd", "$1.0000 ±0.2500 (25%)", id="dollars"),
        pytest.param(4, 5, 0, "usd", "-$1.0000 (25%)", id="a loss"),
        pytest.param(40, 30, 0, "usd", "$10.00 (25%)", id="many dollars"),
        pytest.param(4e4, 3e4, 5e3, "t", "10,000 ±5,000 input tokens (25%)", id="tokens"),
    ],
)
def test_the_net_has_its_margin_and_its_unit(
    before: float, after: float, error: float, unit: str, shown: str
) -> None:
    assert shown == render_net(BillSum(1, before, after, Margin(error)), unit)


# A request


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
    entered = {**describe_entry(entry), "net_unpriced": entry.savings.unpriced} if entry else {}
    return RequestRecord.model_validate({**least, **entered, **fields})


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


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0, 0, "0 tokens"),
        (1_000, 1_000, "1,000 tokens"),
        (12_000, 3_000, "12,000 -> 3,000 tokens (-75%)"),
        (10, 11, "10 -> 11 tokens (+10%)"),
        (10_000, 9_999, "10,000 -> 9,999 tokens (less than 1%)"),
    ],
)
def test_a_change_is_shown_in_tokens_and_percent(before: int, after: int, expected: str) -> None:
    assert render_change(before, after) == expected


# Some requests


SIZES = {"request_tokens_before": 1_844_335, "request_tokens_after": 1_204_113}
MASKED = {"tool_results": 9, "masked": 4, **SIZES}
WHOLE = {"tool_results": 9, "request_tokens_before": 1_000, "request_tokens_after": 1_000}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], "0 requests", id="none"),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, 0.04), {"status": 500, "masked": 1}],
            "2 requests, 1 failed, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$0.9301 of $4.2100 saved (22% ±1)",
            id="a saving",
        ),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, subscription=True)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$0.9301 of $4.2100 saved (22%, at API prices)",
            id="on a subscription",
        ),
        pytest.param(
            [MASKED | bill(400, 300, 8)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$100.00 of $400.00 saved (25% ±2)",
            id="many dollars",
        ),
        pytest.param(
            [MASKED | bill(4, 5, 0.4)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$1.0000 lost on $4.0000 (25% ±10)",
            id="a loss",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "cost $3.9000, about as unmasked",
            id="no more than the margin of error",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4, subscription=True)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "cost $3.9000, about as unmasked (at API prices)",
            id="the same on a subscription",
        ),
        pytest.param(
            [MASKED | bill(5_000, 4_000, 100) | UNPRICED],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "1,000 of 5,000 input tokens saved (20% ±2, no price is known)",
            id="in tokens where no price is known",
        ),
        pytest.param(
            [MASKED | bill(4, 3), bill(9, 9) | UNPRICED],
            "2 requests, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$1.0000 of $4.0000 saved (25%), no price known for 1 request",
            id="where some prices are known",
        ),
        pytest.param(
            [{"masked": 4, "tool_results": 9}],
            "1 request",
            id="nothing was counted",
        ),
        pytest.param(
            [WHOLE | bill(4, 4) | {"kept": {"held": 3, "in_window": 6}}],
            "1 request, 1,000 tokens sent, cost $4.0000, nothing masked, because moving the "
            "boundary does not pay yet",
            id="nothing was masked",
        ),
    ],
)
def test_the_line_tells(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


OBSERVED = {"masking": "observed", "tool_results": 5, "masked": 3,
            "request_tokens_before": 1_000, "request_tokens_after": 400}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [OBSERVED | bill(4, 3, 0.1)],
            "1 request, 1,000 tokens sent, cost $4.0000, observed: masking would have left out 600 "
            "of 1,000 tokens (-60%) and saved $1.0000 of $4.0000 (25% ±2)",
            id="a saving",
        ),
        pytest.param(
            [OBSERVED | bill(3, 4, 0.1, subscription=True)],
            "1 request, 1,000 tokens sent, cost $3.0000 (at API prices), observed: masking would "
            "have left out 600 of 1,000 tokens (-60%) and lost $1.0000 on $3.0000 "
            "(33% ±3, at API prices)",
            id="a loss",
        ),
        pytest.param(
            [OBSERVED | bill(4, 3, 2) | UNPRICED],
            "1 request, 1,000 tokens sent, observed: masking would have left out 600 of 1,000 "
            "tokens (-60%) and cost about as much, 4 input tokens (no price is known)",
            id="no known price, and a margin as large as the saving",
        ),
        pytest.param(
            [OBSERVED | {"request_tokens_before": None, "request_tokens_after": None}],
            "1 request, observed: masking would have masked tool results",
            id="nothing was counted",
        ),
        pytest.param(
            [OBSERVED | {"masked": 0, "kept": {"held": 5}}],
            "1 request, 1,000 tokens sent, observed: masking would have changed nothing, because "
            "moving the boundary does not pay yet",
            id="nothing would have been masked",
        ),
        pytest.param(
            [
                OBSERVED | {"masked": 0, "tool_results": 0},
                *[{"masking": "observed", "passed_through": "the provider holds the history"}] * 2,
            ],
            "3 requests, 1,000 tokens sent, observed: masking would have changed nothing, because "
            "2 of 3 requests passed through untouched: the provider holds the history",
            id="most would have passed through",
        ),
        pytest.param(
            [OBSERVED | {"group": "holdout"}, OBSERVED | {"masking": "on"}],
            "2 requests, 1,400 tokens sent, 600 not sent (-30%), observed: masking would have left "
            "out 600 of 1,000 tokens (-60%)",
            id="one that is held out, and one that is masked",
        ),
    ],
)
def test_what_is_observed_is_told_apart(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


SIGNED = {"passed_through": "signed (cch)"}


@pytest.mark.parametrize(
    ("records", "because", "setting"),
    [
        pytest.param(
            [SIGNED, WHOLE, {"masking": "off"}],
            "claude-code signs what it sends",
            "obsmask run -- claude",
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
            "obsmask run -- claude",
            id="claude-code with two models, one of which binds its reasoning",
        ),
        pytest.param(
            [{"passed_through": HELD["pass"], "binding": "drops"}],
            "the provider holds the history of the agent's WebSocket, and the model would lose "
            "its reasoning",
            "obsmask config set websocket.mode=auto, with obsmask config set "
            "schema1.bound_reasoning=drop,",
            id="codex that is left alone, with reasoning that a setting gives up",
        ),
        pytest.param(
            [{"passed_through": HELD["bound"], "binding": "drops"}],
            "the model would lose its reasoning",
            "obsmask config set schema1.bound_reasoning=drop",
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
            "obsmask config set websocket.mode=http",
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
            "obsmask config set websocket.mode=auto",
            id="codex, more often than claude-code",
        ),
        pytest.param(
            [WHOLE | {"binding": "drops", "kept": {"bound": 1, "held": 2}}],
            "the model would lose its reasoning",
            "obsmask config set schema1.bound_reasoning=drop",
            id="reasoning that a setting gives up",
        ),
        pytest.param(
            [WHOLE | {"binding": "refuses", "kept": {"bound": 1, "held": 2}}],
            "the model binds its reasoning to all that precedes it",
            None,
            id="reasoning that no setting gives up",
        ),
        pytest.param(
            [WHOLE | {"binding": "may_refuse", "kept": {"bound": 1}}],
            "the model binds its reasoning, and nobody has tried yet whether this account lets "
            "older results be masked all the same",
            None,
            id="reasoning that was not tried",
        ),
        pytest.param(
            [WHOLE | {"binding": "may_refuse", "account": "refuses", "kept": {"bound": 1}}],
            "the model binds its reasoning, and this account refuses requests whose older results "
            "are masked",
            None,
            id="reasoning of an account that refuses",
        ),
        pytest.param([{"masking": "off"}], "masking is off", None, id="masking is off"),
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
            "no request held a tool result",
            None,
            id="nothing to mask",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9}}],
            "no tool result is older than the window",
            None,
            id="a short session",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9, "error": 2, "last_k": 1}}],
            "the older tool results look like errors",
            "obsmask config set schema1.keep_errors=false",
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
    records: list[dict[str, object]], because: str, setting: str | None
) -> None:
    found = why_nothing_masked(tally(*records))
    assert (because, setting) == found
    assert str(found) == f"nothing masked, because {because}" + (
        "" if setting is None else f"; {setting} changes that"
    )


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


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [{}, {"masking": "off", "status": 500}],
            "2 requests: 1 with masking on (0 failed), 1 with masking off (1 failed); "
            "0 results masked, 0 tokens",
            id="failures by whether masking is on",
        ),
        pytest.param(
            [MEASURED, MEASURED | {"masking": "observed", "conversation": 1}],
            "2 requests: 1 with masking on (0 failed), 1 with masking observed (0 failed); "
            "2 results masked, 200 -> 150 tokens (-25%); 1 results redacted; 1 reduced by masking; "
            "observed: masking would have left out 50 of 100 tokens (-50%)",
            id="what was only observed is not what was done",
        ),
        pytest.param(
            [MEASURED, MEASURED],
            "2 requests: 2 with masking on (0 failed); 4 results masked, 200 -> 100 tokens (-50%); "
            "2 results redacted; 2 reduced by masking",
            id="sums of what was measured",
        ),
        pytest.param(
            [{"masked": 2, "masked_images": 3}, {"masked_images": 1}],
            "2 requests: 2 with masking on (0 failed); 2 results masked, 0 tokens; "
            "4 images masked in them",
            id="images",
        ),
        pytest.param(
            [{"passed_through": "signed"}, {"passed_through": "signed"}, {"passed_through": "x"}],
            "3 requests: 3 with masking on (0 failed); 0 results masked, 0 tokens; "
            "passed through: 2 signed, 1 x",
            id="why requests passed through",
        ),
        pytest.param(
            [{"resent": "accepted"}, {"resent": "refused"}, {}],
            "3 requests: 3 with masking on (0 failed); 0 results masked, 0 tokens; "
            "2 requests sent again whole after a 400 (1 accepted)",
            id="what was sent again",
        ),
        pytest.param(
            [{"masked": 1, "kept": {"bound": 2, "error": 1}}, {"kept": {"bound": 3}}],
            "2 requests: 2 with masking on (0 failed); 1 results masked, 0 tokens; "
            "5 results kept for bound reasoning",
            id="what reasoning is bound to",
        ),
        pytest.param(
            [
                {"conversation": 1, "total_net_tokens": 5.0, "boundary_held": True},
                {"conversation": 1, "total_net_tokens": 9.0, "boundary_held": True},
            ],
            "2 requests: 2 with masking on (0 failed); 0 results masked, 0 tokens; "
            "net +9 input tokens; 1 conversations with a held boundary",
            id="the last savings, and each held conversation once",
        ),
        pytest.param(
            [
                {"kept": {"summary": 9}},
                {"conversation_id": "a", "masked": 1, "fits_unmasked": False},
            ],
            "2 requests: 2 with masking on (0 failed); 1 results masked, 0 tokens; 1 request for a "
            "summary left whole; 1 conversation no longer fits its model without masking: switch "
            "it off only after the agent has made a summary (/compact)",
            id="a summary, and a conversation that needs masking",
        ),
        pytest.param(
            [{"replay": True, **MEASURED}],
            "1 replayed requests: 2 results masked, 100 -> 50 tokens (-50%); "
            "1 results redacted; 1 reduced by masking",
            id="replayed requests alone",
        ),
        pytest.param(
            [{}, {"replay": True}],
            "1 requests: 1 with masking on (0 failed); 0 results masked, 0 tokens; "
            "1 replayed requests: 0 results masked, 0 tokens",
            id="replayed requests apart from those that were sent",
        ),
    ],
)
def test_the_totals_tell(records: list[dict[str, object]], expected: str) -> None:
    assert count(*records) == expected


def test_totals_of_nothing_say_so() -> None:
    assert render_totals(Totals()) == "0 requests: none; 0 results masked, 0 tokens"
