"""What shortening at arrival saves and hides in a recording, apart from what masking does."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from addon.records.words import INPUT_TOKENS
from addon.replay.numbers import describe_arrival
from addon.replay.replay import RecordedRequest, ReplayedRequest, ReplaySettings, Ruled, replay
from addon.replay.report.page import find_moves
from addon.replay.totals import NO_ARRIVAL, ConversationSums, Totals, compare_requests
from masking.arrival import ArrivalPolicy
from masking.config import Rule
from masking.model import ChatMessage
from masking.prices import CachePricing, PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from masking.wire import MESSAGES
from tests.support.long_results import ARRIVAL, LINES, line_of, run, run_tests
from tests.support.marks import thorough
from tests.support.talks import Talk, grow

COUNTER = TokenCounter()
WINDOW = MaskPolicy(True, 8, skip_if_not_shorter=True)


def settings(
    arrival: ArrivalPolicy = ARRIVAL,
    policy: MaskPolicy = WINDOW,
    pricing: CachePricing = (0.1, 1.25),
    *,
    remembers: bool = True,
) -> ReplaySettings:
    return ReplaySettings(
        strategies=Strategies(schema1=policy, arrival=arrival),
        price_settings=PriceSettings(pricing),
        remembers=remembers,
    )


def add_up(session: Talk, given: ReplaySettings) -> Totals:
    sums = ConversationSums(given.policy.window_turns)
    for compared in compare_requests(session, given, COUNTER):
        sums.add(compared)
    return sums.totals


def sum_session(messages: list[ChatMessage], given: ReplaySettings) -> Totals:
    return add_up(grow(messages), given)


def replay_all(session: Talk, given: ReplaySettings) -> list[ReplayedRequest]:
    return [*replay(session, given, COUNTER)]


OFF = settings(ArrivalPolicy())


# Money


REMEMBERS = pytest.mark.parametrize("remembers", [True, False])
PRICINGS = pytest.mark.parametrize("pricing", [(0.1, 1.25), thorough((0.5, 1.0)), "none"])


@REMEMBERS
@PRICINGS
def test_arrival_and_masking_save_together_what_was_saved(
    pricing: CachePricing, *, remembers: bool
) -> None:
    given = settings(pricing=pricing, remembers=remembers)
    totals = add_up(grow(run_tests(25)), given)
    assert totals.arrival.results
    for money in (totals.bill.dollars, totals.bill.tokens):
        assert money.at_arrival > 0
        assert money.saved == pytest.approx(money.at_arrival + money.by_masking)


def test_a_result_counts_once_however_often_it_is_sent() -> None:
    found = sum_session(run_tests(25), settings())
    long_result = sum(len(line_of(0, line)) + 1 for line in range(LINES))
    assert 9 == found.arrival.results  # of the turns 0, 3, ... 24
    whole = found.tool_chars_before - found.tool_chars_after
    assert 9 * (long_result - 8_000) < found.arrival.chars < 9 * long_result < whole


def test_the_bill_before_is_the_clients_own_prompt() -> None:
    on, off = (sum_session(run_tests(25), given) for given in (settings(), OFF))
    assert off.bill.dollars.before == on.bill.dollars.before
    assert off.bill.prompt_before == on.bill.prompt_before
    assert off.tool_chars_before == on.tool_chars_before
    assert on.bill.dollars.after < off.bill.dollars.after
    assert NO_ARRIVAL == off.arrival


def test_without_the_window_all_is_saved_at_arrival() -> None:
    wide = replace(WINDOW, window_turns=1_000)
    found = sum_session(run_tests(25), settings(policy=wide))
    money = found.bill.dollars
    assert found.arrival.results
    assert 0 == found.masked_tool_results
    assert 0 == pytest.approx(money.by_masking, abs=0.02 * money.at_arrival)


def test_where_masking_is_off_nothing_is_shortened() -> None:
    given = settings(policy=replace(WINDOW, enabled=False))
    found = sum_session(run_tests(9), given)
    assert NO_ARRIVAL == found.arrival
    assert 0 == found.bill.dollars.saved


def test_no_move_has_what_was_saved_at_arrival() -> None:
    requests = replay_all(grow(run_tests(25)), settings(pricing=(0.5, 1.0)))
    moves = find_moves(requests, INPUT_TOKENS)
    saved = sum(each.entry.cost.before.cost - each.entry.cost.after.cost for each in requests)
    by_arrival = sum(each.entry.bill.tokens.at_arrival for each in requests)
    assert moves
    assert saved - by_arrival == pytest.approx(sum(move.net for move in moves), rel=0.01)
    for move in moves:
        assert move.removed < requests[move.request].entry.cost.before.prompt / 2


# What is shortened


def test_what_stood_there_at_first_sight_stays_whole_where_it_is_remembered() -> None:
    talk = grow(run_tests(12))
    late = Talk(talk.bodies[6:])
    found = {
        remembers: [
            sorted(each.left_out) for each in replay_all(late, settings(remembers=remembers))
        ]
        for remembers in (True, False)
    }
    assert ([], [6]) == (found[True][0], found[True][1])
    assert [0, 3] == found[False][0]


def test_a_model_that_binds_its_reasoning_is_shortened_only_with_a_memory() -> None:
    class Bound:
        name = "bound"

        def requests(self) -> list[RecordedRequest]:
            return [
                RecordedRequest(
                    body=json.dumps({"model": "claude-opus-5-5", "messages": messages[:end]})
                    .encode(),
                    when=datetime(2026, 1, 1, tzinfo=UTC),
                    wire=MESSAGES,
                    path="/v1/messages",
                )
                for end in (1, 3, 5)
            ]  # fmt: skip

    messages: list[object] = [{"role": "user", "content": "go"}]
    for number in range(2):
        text = "".join(f"{line_of(number, line)}\n" for line in range(LINES))
        messages += [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": f"t{number}", "name": "bash",
                 "input": {"command": f"make {number}"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"t{number}", "content": text},
            ]},
        ]  # fmt: skip
    shortened = {}
    for remembers in (True, False):
        given = settings(remembers=remembers)
        requests = [*replay(Bound(), given, COUNTER)]  # type: ignore[arg-type]
        shortened[remembers] = [sorted(each.left_out) for each in requests]
    assert {True: [[], [0], [0, 1]], False: [[], [], []]} == shortened


def test_a_rule_may_switch_it_on_for_some_models() -> None:
    given = replace(
        OFF, rules=((Rule(model="deepseek*"), Ruled(settings().strategies, PriceSettings())),)
    )
    assert sum_session(run_tests(9), given).arrival.results
    other = grow(run_tests(9), model="gpt-4o")
    assert NO_ARRIVAL == add_up(other, given).arrival


# Harm

HEAD, MIDDLE = 10, LINES // 2


@pytest.mark.parametrize(
    ("turns", "command", "by_masking", "by_arrival"),
    [
        pytest.param(9, line_of(6, MIDDLE), (0, 0), (0, 1), id="quotes what was left out"),
        pytest.param(9, line_of(6, HEAD), (0, 0), (0, 0), id="quotes the head"),
        pytest.param(9, line_of(6, LINES - 1), (0, 0), (0, 0), id="quotes the tail"),
        pytest.param(9, "make test-6", (0, 0), (1, 0), id="repeats one that was shortened"),
        pytest.param(9, "make test-7", (0, 0), (0, 0), id="repeats one that is whole"),
        pytest.param(25, line_of(0, HEAD), (0, 1), (0, 0), id="quotes the head, masked by now"),
        pytest.param(25, line_of(0, MIDDLE), (0, 0), (0, 1), id="quotes what never was sent"),
        pytest.param(25, "make test-0", (1, 0), (0, 0), id="repeats one that is masked by now"),
        pytest.param(9, "ls", (0, 0), (0, 0), id="neither"),
    ],
)
@REMEMBERS
def test_calls_that_refer_to_what_was_left_out_are_counted_apart(
    turns: int,
    command: str,
    by_masking: tuple[int, int],
    by_arrival: tuple[int, int],
    *,
    remembers: bool,
) -> None:
    given = settings(pricing="none", remembers=remembers)
    session = grow([*run_tests(turns), *run(command, "ok", "last")])
    found = add_up(session, given)
    for expected, rereads in (
        (by_masking, found.chosen_rereads),
        (by_arrival, found.arrival.rereads),
    ):
        assert expected == (rereads.either, rereads.quoted)
    assert turns + 1 == found.chosen_rereads.calls


def test_a_line_at_the_cut_is_left_out() -> None:
    """Only a part of it is in the head, and an agent cannot quote the rest."""
    one_line = "x" * 4_000 + " and so on " + "y" * 6_000
    messages = [*run_tests(0), *run("make", one_line, "a"), *run(one_line, "ok", "b")]
    assert 1 == sum_session(messages, settings()).arrival.rereads.quoted


# In words


def tell(totals: Totals) -> str:
    money = totals.currency.choose(totals.bill)
    return describe_arrival(totals.arrival, totals.chosen_rereads.calls, money, totals.currency)


def test_it_is_told_in_a_paragraph_if_there_is_any() -> None:
    session = [*run_tests(25), *run(line_of(24, MIDDLE), "ok", "q")]
    told = tell(sum_session(session, settings()))
    assert told.startswith("At arrival 9 long results would have been shortened by ")
    assert "That would have saved $" in told
    assert "Of 26 calls, 0.0% repeat or name what was left out, and 3.8% quote it" in told
    assert "" == tell(sum_session(session, OFF))
    assert " input tokens;" in tell(add_up(grow(session, model="nobody's"), settings()))
