"""What records come to: sums that any selection of them has, in any order."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from addon.recordings.flows import FlowSession, name_of
from addon.records.build import describe_entry, describe_pricing
from addon.records.record import RequestRecord
from addon.records.tally import Balance, Tally, Waits
from addon.replay.replay import ReplaySettings, replay
from masking import MaskPolicy
from masking.accounting import Entry
from masking.accounting.bill import Margin, Money
from masking.arrival import ArrivalPolicy
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from tests.support.made_up_records import UNPRICED, bill, record, tally
from tests.support.marks import as_one_test
from tests.support.places import RECORDINGS, recordings


def test_nothing_comes_to_nothing() -> None:
    counted = tally()
    assert (0, 0, 0, 0) == (
        counted.count,
        counted.failed,
        counted.changed,
        counted.bill.unpriced.requests,
    )
    assert counted.most_expensive is None
    assert (None, None) == (counted.bill.tokens.saved_share, counted.bill.tokens.saved_share_error)
    assert counted.redaction.share is None
    assert not counted.bill.tokens.is_certain


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"status": 200}, Counter(), id="answered"),
        pytest.param({"status": 429}, Counter({("on", "429"): 1}), id="refused"),
        pytest.param({"status": 500, "masking": "off"}, Counter({("off", "500"): 1}), id="off"),
        pytest.param(
            {"status": 200, "error": "provider failed"},
            Counter({("on", "provider failed"): 1}),
            id="a stream that the provider broke off",
        ),
        pytest.param({"status": 200, "error": "client left"}, Counter(), id="the client left"),
        pytest.param(
            {"status": 503, "error": "client left"},
            Counter({("on", "503"): 1}),
            id="the client left a refusal",
        ),
        pytest.param(
            {"status": 400, "passed_through": "signed"},
            Counter({("on", "400"): 1}),
            id="refused, and never touched",
        ),
    ],
)
def test_failures_are_told_by_masking_and_by_what_went_wrong(
    fields: dict[str, object], expected: Counter[tuple[str, str]]
) -> None:
    assert expected == tally(fields).failures


def test_a_request_that_only_counts_tokens_sends_none() -> None:
    sizes: dict[str, object] = {"request_tokens_before": 10, "request_tokens_after": 7}
    reported = {"prompt_tokens": 9, "cached_tokens": 4}
    count = {"purpose": "count"}
    for purpose in ("answer", "compact", None):
        answered = sizes | reported | {"purpose": purpose}
        counted = tally(answered, sizes | reported | count, count, answered)
        assert (4, 20, 14, 0) == (
            counted.count,
            counted.tokens_before,
            counted.tokens_after,
            counted.uncounted,
        )
        assert (18, 8) == (counted.prompt_tokens, counted.cached_tokens)


def test_failures_with_masking_on_and_off_stand_side_by_side() -> None:
    counted = tally({"status": 429}, {"status": 500}, {"masking": "off", "status": 500}, {})
    assert Counter({"on": 3, "off": 1}) == counted.requests
    assert (2, 1, 3) == (
        counted.count_failures("on"),
        counted.count_failures("off"),
        counted.failed,
    )


def test_why_requests_passed_is_counted_without_places_in_them() -> None:
    counted = tally(
        {"passed_through": "messages[3].content: expected a list, got str"},
        {"passed_through": "messages[17].content: expected a list, got str"},
        {"passed_through": "signed"},
    )
    assert counted.passed_through == Counter(
        {"messages[].content: expected a list, got str": 2, "signed": 1}
    )
    assert 0 == counted.uncounted


def test_results_are_counted_in_each_request_that_they_are_sent_in() -> None:
    counted = tally(
        {"tool_results": 5, "masked": 2, "masked_images": 1, "kept": {"in_window": 3}},
        {"tool_results": 9, "masked": 2, "redacted": 1, "reduced": 3, "dropped": 1,
         "kept": {"in_window": 1, "error": 1}},
    )  # fmt: skip
    assert (14, 4, 1) == (counted.results, counted.masked, counted.images)
    assert (1, 3, 1) == (counted.redacted, counted.reduced, counted.dropped)
    assert 9 == counted.changed
    assert Counter({"in_window": 4, "error": 1}) == counted.kept


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"binding": "drops", "kept": {"bound": 2}}, {"drops": 1}, id="some are kept"),
        pytest.param({"binding": "drops", "kept": {"error": 2}}, {}, id="none is kept for it"),
        pytest.param({"kept": {"bound": 2}}, {}, id="nothing is bound"),
        pytest.param(
            {"binding": "may_refuse", "kept": {"bound": 2}}, {"may_refuse": 1}, id="not tried"
        ),
        pytest.param(
            {"binding": "may_refuse", "account": "refuses", "kept": {"bound": 2}},
            {"account": 1},
            id="an account that refuses",
        ),
        pytest.param(
            {"binding": "may_refuse", "account": "takes", "kept": {"bound": 2}},
            {},
            id="an account that takes it",
        ),
        pytest.param({"binding": "refuses", "kept": None}, {}, id="nothing was measured"),
    ],
)
def test_what_is_bound_is_counted_where_that_kept_results(
    fields: dict[str, object], expected: dict[str, int]
) -> None:
    assert expected == tally(fields).bound


def test_what_the_provider_clears_is_counted_by_what_it_says() -> None:
    counted = tally(
        {"clearing": "asked", "cleared_tool_uses": 4, "cleared_tokens": 900},
        {"clearing": "asked", "cleared_tool_uses": 0, "cleared_tokens": 0},
        {"clearing": "asked"},
        {"clearing": "refused"},
        {"clearing": "possible", "binding": "refuses", "kept": {"bound": 2}},
    )
    outcomes = ("cleared", "nothing cleared", "asked", "refused")
    assert dict.fromkeys(outcomes, 1) == counted.clearings
    assert (900, 1) == (counted.cleared_tokens, counted.clearable)


def test_redaction_is_counted_where_it_is_on() -> None:
    redaction = tally(
        {"tool_results": 3, "redacted": 2, "redaction_scenarios": [1, 0, 1, 0, 1]},
        {"tool_results": 1, "redacted": 1, "redaction_scenarios": [0, 0, 0, 0, 1]},
        {"tool_results": 90, "redacted": 0, "redaction_scenarios": None},
    ).redaction
    assert (2, 4, 3) == (redaction.requests, redaction.results, redaction.redacted)
    assert [1, 0, 1, 0, 2] == redaction.scenarios
    assert 0.75 == redaction.share


def test_scenarios_of_another_version_are_counted_as_far_as_they_are_known() -> None:
    scenarios = ([1], [1, 2, 3, 4, 5, 6])
    redaction = tally(*({"redaction_scenarios": each} for each in scenarios)).redaction
    assert [2, 2, 3, 4, 5] == redaction.scenarios


def test_reductions_are_counted_by_stage() -> None:
    stages = ("masking", None, "masking", "fallback")
    counted = tally(*({"reduction_stage": stage} for stage in stages))
    assert Counter({"masking": 2, "fallback": 1}) == counted.reductions


def test_requests_whose_tokens_were_not_counted_are_named() -> None:
    counted = tally({"request_tokens_before": 100, "request_tokens_after": 40}, {})
    assert (100, 40, 1) == (counted.tokens_before, counted.tokens_after, counted.uncounted)


def test_cached_tokens_are_counted_where_they_are_reported() -> None:
    counted = tally(
        {"prompt_tokens": 100, "cached_tokens": 80},
        {"prompt_tokens": 900},
        {"cached_tokens": 3},
        {"prompt_tokens": 100, "cached_tokens": 101},
        {"prompt_tokens": 100, "cached_tokens": -1},
    )
    assert (100, 80) == (counted.prompt_tokens, counted.cached_tokens)


def test_bills_are_summed_in_tokens_and_where_a_price_is_known_in_dollars() -> None:
    counted = tally(bill(10, 6, 1), bill(10, 9, 0.5) | UNPRICED, {"cost_tokens_before": None})
    assert Money(2, 20, 15, Margin(1.5)) == counted.bill.tokens
    assert Money(1, 10, 6, Margin(1)) == counted.bill.dollars
    assert Money(1, 10, 9, Margin(0.5)) == counted.bill.unpriced


@pytest.mark.parametrize(
    ("summed", "saved", "share", "error", "is_certain"),
    [
        pytest.param(Money(1, 8, 6, Margin(1)), 2, 0.25, 0.125, True, id="a saving"),
        pytest.param(Money(1, 8, 10, Margin(1)), -2, -0.25, 0.125, True, id="a loss"),
        pytest.param(Money(1, 8, 6, Margin(2)), 2, 0.25, 0.25, False, id="as large as the error"),
        pytest.param(Money(1, 8, 8, Margin(0)), 0, 0, 0, False, id="nothing saved"),
    ],
)
def test_a_saving_is_told_with_its_margin(
    summed: Money, saved: float, share: float, error: float, is_certain: bool
) -> None:
    assert (saved, share, error) == (summed.saved, summed.saved_share, summed.saved_share_error)
    assert is_certain is summed.is_certain


@pytest.mark.parametrize(
    ("bills", "expected"),
    [
        pytest.param([bill(9, 5), bill(9, 7), bill(9, 6)], 7, id="by dollars"),
        pytest.param([bill(9, 5) | UNPRICED, bill(9, 7) | UNPRICED], 7, id="by tokens"),
        pytest.param([bill(9, 8) | UNPRICED, bill(9, 2)], 2, id="one with a price comes first"),
        pytest.param([bill(9, 0) | UNPRICED], 0, id="one that cost nothing"),
    ],
)
def test_the_dearest_request_is_remembered(bills: list[dict[str, object]], expected: float) -> None:
    most_expensive = tally(*bills).most_expensive
    assert most_expensive is not None
    assert expected == most_expensive.cost_tokens_after


def test_hosts_with_assumed_prices_are_named() -> None:
    counted = tally(
        bill(1, 1, host="a", price_source="assumed"),
        bill(1, 1, host="b", price_source="price list"),
        {"host": "c", "price_source": "assumed"},
    )
    assert Counter({"a": 1}) == counted.assumed


def test_the_first_piece_of_an_answer_is_timed_with_and_without_a_move() -> None:
    counted = tally(
        {"first_chunk_seconds": 1.0, "boundary_moved": True, "conversation": 1},
        {"first_chunk_seconds": 0.5, "conversation": 1},
        {"first_chunk_seconds": 0.25, "conversation": 1},
        {"first_chunk_seconds": 9.0},
        {"boundary_moved": True, "conversation": 1},
    )
    assert [0.5, 0.25] == list(counted.waits.seconds)
    assert [1.0] == list(counted.waits_after_move.seconds)


@pytest.mark.parametrize(
    ("seconds", "percent", "expected"),
    [
        pytest.param([], 50, None, id="none"),
        pytest.param([3.0], 90, 3.0, id="one"),
        pytest.param([4.0, 1.0, 2.0, 3.0], 50, 2.0, id="the median of four"),
        pytest.param([float(n) for n in range(10, 0, -1)], 90, 9.0, id="all but the slowest"),
    ],
)
def test_a_part_of_the_answers_began_within_that_time(
    seconds: list[float], percent: int, expected: float | None
) -> None:
    assert expected == Waits(array("d", seconds)).percentile(percent)


def test_a_conversation_counts_once() -> None:
    counted = tally(*({"conversation_id": name} for name in ("a", "b", "a", None)))
    assert {"a", "b"} == counted.conversations


def test_requests_that_a_subscription_pays_for_are_counted_where_dollars_are() -> None:
    paid = [bill(1, 1, subscription=paid) for paid in (True, False, None)]
    assert 1 == tally(*paid, bill(1, 1, subscription=True) | UNPRICED).bill.on_plan


QUICK = ("mini-swe-agent-scratch", "anthropic-tour", "codex-tour")
SESSIONS = [
    pytest.param(path, marks=() if name_of(path) in QUICK else pytest.mark.thorough)
    for path in recordings()
    if not name_of(path).startswith(("mcp-", "codex-websocket-"))  # nothing in them is billed
]
SHORTENS = ArrivalPolicy(enabled=True, max_chars=2_000, head_chars=700, tail_chars=700)


def play(recording: Path) -> Iterator[tuple[Entry, RequestRecord]]:
    """Replay a recording; yield what the ledger says of each request, and what its record says."""
    settings = ReplaySettings(
        strategies=Strategies(schema1=MaskPolicy(enabled=True), arrival=SHORTENS), remembers=True
    )
    for request in replay(FlowSession(path=recording), settings, TokenCounter()):
        described = {**describe_pricing(request.pricing), **describe_entry(request.entry)}
        yield request.entry, record(**asdict(request.sizes), **described)


@pytest.mark.parametrize("recording", SESSIONS, ids=lambda path: name_of(path))
def test_the_records_of_a_conversation_add_up_to_what_the_ledger_says(recording: Path) -> None:
    tallies: dict[int, Tally] = {}
    entries: dict[int, Entry] = {}
    for entry, told in play(recording):
        tallies.setdefault(entry.conversation, Tally()).add(told)
        entries[entry.conversation] = entry
    assert entries
    for number, entry in entries.items():
        found, expected = tallies[number].bill, entry.so_far
        for one, other, digit in (
            (found.tokens, expected.tokens, 0.1),
            (found.dollars, expected.dollars, 1e-6),
        ):
            rounded = digit * one.requests
            assert one.requests == other.requests
            assert [one.saved, one.at_arrival] == pytest.approx(
                [other.saved, other.at_arrival], abs=rounded
            )
            assert [one.error, one.arrival_margin.width] == pytest.approx(
                [other.error, other.arrival_margin.width], rel=1e-3, abs=rounded
            )


def test_what_is_chance_evens_out_over_many_requests() -> None:
    errors = {"saved_tokens_error": 3.0, "saved_tokens_error_by_chance": 2.0}
    dollars = {"cost_dollars_before": 20, "cost_dollars_after": 10}
    counted = tally(*[bill(10, 5) | errors | dollars] * 4)
    assert Margin(4.0, 4.0) == counted.bill.tokens.margin
    assert 4 + 2 * 2 == counted.bill.tokens.error
    assert 2 * counted.bill.tokens.error == counted.bill.dollars.error


def test_a_margin_of_which_no_part_is_known_to_be_chance_adds_up() -> None:
    assert 12 == tally(*[bill(10, 5, 3)] * 4).bill.tokens.error


def test_the_order_of_records_does_not_matter() -> None:
    records = [told for _, told in play(RECORDINGS / "mini-swe-agent-scratch.flow")]
    forth, back = Tally(), Tally()
    for first, second in zip(records, reversed(records), strict=True):
        forth.add(first)
        back.add(second)
    assert forth.kept == back.kept
    assert forth.most_expensive == back.most_expensive
    assert pytest.approx(forth.bill.tokens.saved) == back.bill.tokens.saved


def test_conversations_that_need_masking_are_counted_once_and_so_is_each_summary() -> None:
    grew = {"masked": 1, "fits_unmasked": False}
    counted = tally(
        {**grew, "conversation_id": "a"},
        {**grew, "conversation_id": "a"},
        {**grew, "conversation_id": "b", "masking": "observed"},
        {"conversation_id": "c", "kept": {"summary": 9}},
        {"conversation_id": "c", "kept": {"summary": 9}, "masking": "observed"},
    )
    assert (["a"], 1) == ([*counted.outgrown], counted.summaries)


def test_a_conversation_that_fits_again_after_a_summary_does_not_need_masking() -> None:
    unfit = {"conversation_id": "a", "masked": 1, "fits_unmasked": False}
    assert ["a"] == [*tally(unfit, {"conversation_id": "a"}).outgrown]
    assert [] == [*tally(unfit, {"conversation_id": "a", "fits_unmasked": True}).outgrown]


@pytest.mark.parametrize(
    ("moves", "requests", "expected"),
    [
        pytest.param(2, 2, False, id="too few to tell"),
        pytest.param(3, 6, False, id="at every other request"),
        pytest.param(3, 5, True, id="more often"),
    ],
)
def test_a_boundary_slides_where_it_moves_at_most_requests(
    moves: int, requests: int, expected: bool
) -> None:
    assert expected == Balance(money=Money(requests), moves=moves).slides
