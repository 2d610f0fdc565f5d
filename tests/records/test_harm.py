"""The verdict on harm: what is compared, how sure it is, and what a user reads."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import exp, inf, log, log1p, sqrt
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.records.harm import (
    LEAST,
    Effect,
    Figure,
    Kind,
    Verdict,
    count_needed,
    find_critical,
    judge,
    judge_figures,
    measure_effect,
)
from addon.records.harm_words import (
    NOTE,
    describe_measures,
    dump_harm,
    list_harm,
    render_left_out,
    render_verdict,
)
from addon.records.holdout import Excluded, Figures, Holdout
from tests.support.made_up_records import bill, record
from tests.support.marks import as_one_test
from tests.support.places import EVIDENCE
from tests.tools.benchmarks.harm_verdict import (
    compare_parts,
    is_harm,
    look,
    look_daily,
    take_masked,
    take_raw,
)
from tests.tools.benchmarks.pairs import (
    Experiment,
    Pair,
    Run,
    find_openhands,
    find_repeated,
    read_runs,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OUT = {"masking": "observed", "group": "holdout"}
MASKED = {"masked": 2}

# What is compared


def talk(name: str, requests: int, **fields: object) -> Iterator[Mapping[str, object]]:
    """Yield the requests of a conversation; each costs a dollar masked, and two unmasked."""
    for _ in range(requests):
        told = {"conversation_id": name, "status": 200, "purpose": "answer"}
        yield {**told, **MASKED, **bill(2.0, 1.0, 0.1), **fields}


def compare(*requests: Mapping[str, object], now: datetime = NOW) -> Verdict | None:
    counted = Holdout()
    for fields in requests:
        counted.add(record(**fields))
    return judge(counted, now)


def typical(measure: str, verdict: Verdict | None) -> tuple[float, float] | None:
    """Return what a typical conversation of both groups has."""
    assert verdict
    if measure == "requests" and verdict.requests:
        found = verdict.requests
        return round(exp(found.masked), 6), round(exp(found.held_out), 6)
    for name, masked, held_out in verdict.figures:
        if name == measure:
            return round(masked, 6), round(held_out, 6)
    return None


def test_a_conversation_counts_from_where_masking_begins_or_would_have_begun() -> None:
    short = {"masked": 0}
    verdict = compare(
        *(*talk("a", 3, **short), *talk("a", 2, completion_tokens=10), *talk("a", 2, **short)),
        *(*talk("b", 1, **short, **OUT), *talk("b", 9, completion_tokens=10, **OUT)),
        *talk("c", 7, **short),
        *talk("d", 7, **short, **OUT),
    )
    assert verdict
    assert (1, 1, Excluded(unmasked=2)) == (verdict.masked, verdict.held_out, verdict.left_out)
    assert (4, 9) == typical("requests", verdict)
    assert (20, 90) == typical("output tokens", verdict)
    assert (4, 18) == typical("cost in dollars", verdict), "the held-out ones cost what was sent"


@pytest.mark.parametrize(
    "fields",
    [{"masked": 0, name: 1} for name in ("redacted", "reduced", "dropped")]
    + [{"masked": 0, "resent": "accepted"}],
    ids=str,
)
def test_masking_begins_with_any_change(fields: Mapping[str, object]) -> None:
    verdict = compare(*talk("a", 1, **fields), *talk("b", 1, **OUT))
    assert verdict
    assert (1, Excluded()) == (verdict.masked, verdict.left_out)


@as_one_test
@pytest.mark.parametrize(
    ("fields", "refused", "failed"),
    [
        ({"status": 400}, 1, 0),
        ({"status": 413}, 1, 0),
        ({"resent": "accepted"}, 1, 0),
        ({"resent": "refused", "status": 400}, 1, 0),
        ({"status": 401}, 0, 1),
        ({"status": 429}, 0, 1),
        ({"status": 529}, 0, 1),
        ({"error": "provider failed"}, 0, 1),
        ({"error": "client left"}, 0, 0),
        ({}, 0, 0),
    ],
    ids=str,
)
def test_what_is_refused_and_what_fails(
    fields: Mapping[str, object], refused: int, failed: int
) -> None:
    requests = [*talk("a", 2, **fields), *talk("a", 4), *talk("b", 1, **OUT)]
    verdict = compare(*requests)
    assert ((2 * refused, 0), (2 * failed, 0)) == (
        typical("refused requests", verdict),
        typical("failed requests", verdict),
    )


def test_rereads_of_what_would_have_been_masked_are_compared_with_those_of_what_was() -> None:
    verdict = compare(*talk("a", 3, rereads=2), *talk("b", 6, rereads=1, **OUT))
    assert (6, 6) == typical("re-reads", verdict)


@as_one_test
@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"masking": "off"}, id="off"),
        pytest.param({"masking": "observed"}, id="all is observed"),
        pytest.param({"passed_through": "signed (cch)"}, id="passed untouched"),
        pytest.param({"purpose": "count"}, id="no answer is asked for"),
        pytest.param({"conversation_id": None}, id="of no known conversation"),
    ],
)
def test_what_is_not_compared(others: Mapping[str, object]) -> None:
    compared = [*talk("a", 3), *talk("c", 6, **OUT)]
    assert compare(*compared) == compare(*compared, *talk("b", 4, **others))


@as_one_test
@pytest.mark.parametrize(
    ("others", "left_out"),
    [
        pytest.param(talk("b", 4, config_digest="x"), Excluded(unmatched=1), id="other settings"),
        pytest.param(talk("b", 4, client="x"), Excluded(unmatched=1), id="another client"),
        pytest.param(talk("b", 4, model="x"), Excluded(unmatched=1), id="another model"),
        pytest.param([*talk("b", 4), *talk("b", 1, **OUT)], Excluded(switched=1), id="switched"),
        pytest.param(talk("b", 4, time="2026-01-01T23:30:00Z"), Excluded(young=1), id="young"),
        pytest.param(talk("b", 4, masked=0), Excluded(unmasked=1), id="nothing to mask"),
    ],
)
def test_which_conversations_are_left_out(
    others: Iterator[Mapping[str, object]], left_out: Excluded
) -> None:
    compared = [*talk("a", 3), *talk("c", 6, **OUT)]
    alone, verdict = compare(*compared), compare(*compared, *others)
    assert alone
    assert alone._replace(left_out=left_out) == verdict


@pytest.mark.parametrize("time", ["2026-01-01T23:00:00Z", "2026-01-01T23:00:00", "yesterday"])
def test_an_hour_after_masking_began_a_conversation_counts(time: str) -> None:
    verdict = compare(*talk("a", 3, time=time), *talk("c", 6, **OUT))
    assert verdict
    assert 1 == verdict.masked


def test_what_follows_a_change_of_the_settings_does_not_count() -> None:
    later = talk("a", 5, config_digest="later", **OUT)
    assert (3, 6) == typical("requests", compare(*talk("a", 3), *talk("c", 6, **OUT), *later))


def test_prompts_that_repeat_are_one_conversation() -> None:
    again = [*talk("a", 3, run="1"), *talk("a", 3, run="2")]
    verdict = compare(*again, *talk("c", 6, **OUT))
    assert verdict
    assert ((6, 6), 1) == (typical("requests", verdict), verdict.masked)


def test_without_a_price_the_cost_is_in_input_tokens() -> None:
    unpriced = {"cost_dollars_before": None, "cost_dollars_after": None}
    verdict = compare(*talk("a", 3, **unpriced), *talk("c", 6, **OUT))
    assert (None, (3, 12)) == (
        typical("cost in dollars", verdict),
        typical("cost in input tokens", verdict),
    )
    # A request that the provider did not take has no cost, which is not an unknown price.
    untaken = {**unpriced, "cost_tokens_before": None, "cost_tokens_after": None, "status": 500}
    verdict = compare(*talk("a", 3), *talk("a", 1, **untaken), *talk("c", 6, **OUT))
    assert (3, 12) == typical("cost in dollars", verdict)


def test_nothing_is_said_without_a_holdout() -> None:
    assert compare(*talk("a", 3)) is None


def test_later_conversations_are_not_kept() -> None:
    counted = Holdout(most=2)
    for fields in (*talk("a", 1), *talk("b", 1, **OUT), *talk("c", 1), *talk("a", 1)):
        counted.add(record(**fields))
    assert (2, 1) == typical("requests", judge(counted, NOW))


# By how much they differ


def figures(is_held_out: bool, requests: int, kind: str = "", rereads: int = 0) -> Figures:
    return Figures(is_held_out, ("", None, kind), requests=requests, rereads=rereads)


def test_one_kind_of_conversation_is_compared_as_by_student() -> None:
    masked, held_out = [3, 8, 20, 55, 7, 9, 11, 4, 90, 31, 17], [5, 9, 2, 14, 30, 8, 6, 3, 12, 7]
    logs, others = [*map(log, masked)], [*map(log, held_out)]
    effect = measure_effect([(logs, others)])
    pooled = (variance(logs) * 10 + variance(others) * 9) / 19
    assert fmean(logs) - fmean(others) == pytest.approx(effect.difference)
    assert sqrt(pooled * (1 / 11 + 1 / 10)) == pytest.approx(effect.standard_error)
    assert find_critical(110 / 21, 19) == pytest.approx(effect.critical)
    assert fmean(others) == pytest.approx(effect.held_out)


def test_kinds_are_compared_each_within_itself() -> None:
    # In both kinds, masking adds 1; that one is larger by 100, and mostly masked, adds nothing.
    small, large = ([2.0, 4.0], [1.0, 3.0, 1.0, 3.0]), ([102.0, 104.0] * 2, [101.0, 103.0])
    effect = measure_effect([small, large])
    assert 1 == pytest.approx(effect.difference)
    # The residuals are all 1, and each kind costs a degree of freedom, as the side does.
    assert sqrt(12 / (12 - 3) / (8 / 6 + 8 / 6)) == pytest.approx(effect.standard_error)


@as_one_test
@pytest.mark.parametrize("size", [5.0, 40.0, 500.0])
@pytest.mark.parametrize("freedom", [18, 100, 10_000])
def test_the_critical_value_is_where_the_likelihood_ratio_is_one_over_the_error(
    size: float, freedom: int
) -> None:
    shrink, square = 4 / (4 + size), find_critical(size, freedom) ** 2 / freedom
    growth = log1p(square) - log1p(shrink * square)
    ratio = 0.5 * log(shrink) + 0.5 * (freedom + 1) * growth
    assert ratio == pytest.approx(-log(0.05 / 2))


def test_a_likelihood_ratio_that_cannot_be_so_large_has_no_critical_value() -> None:
    assert inf == find_critical(1.0, 3)


_COUNTS = st.lists(st.integers(2, 10**6), min_size=LEAST, max_size=30)


@given(_COUNTS, _COUNTS, st.integers(2, 9))
def test_the_scale_and_the_side_do_not_matter(
    masked: list[int], held_out: list[int], times: int
) -> None:
    def measure(masked: list[int], held_out: list[int]) -> tuple[float, float]:
        effect = measure_effect([([*map(log, masked)], [*map(log, held_out)])])
        return effect.difference, effect.standard_error

    difference, error = measure(masked, held_out)
    scaled = measure([n * times for n in masked], [n * times for n in held_out])
    assert (difference, error) == pytest.approx(scaled, abs=1e-5)
    assert (-difference, error) == pytest.approx(measure(held_out, masked), abs=1e-5)


@pytest.mark.parametrize(
    "sides",
    [
        pytest.param(([1.0, 2.0] * 20, [1.0, 2.0, 3.0]), id="too few on a side"),
        pytest.param(([3.0] * 20, [3.0] * 20), id="all the same"),
        pytest.param(([0.0] * 40, [0.0] * 11 + [1.0] * (LEAST - 1)), id="too few that are long"),
        pytest.param(([1.0], [2.0]), id="one of each"),
    ],
)
def test_some_conversations_have_no_interval(sides: tuple[list[float], list[float]]) -> None:
    effect = measure_effect([sides])
    assert (None, 0) == (effect.margin, effect.direction)


# The verdict


def test_the_longest_are_a_fifteenth_and_all_that_are_as_long() -> None:
    table = [figures(n >= 30, 250 if n < 12 or n == 50 else 10 + n % 9) for n in range(60)]
    verdict = judge_figures(table, Excluded())
    assert verdict.longest
    assert (250, 12 / 30) == (verdict.limit, verdict.longest.masked)
    assert 1 / 30 == pytest.approx(verdict.longest.held_out)
    # One kind's longest are not another's.
    both = judge_figures([*table, *(figures(n % 2 == 0, 3, "x") for n in range(4))], Excluded())
    assert both.limit is None
    assert both.longest
    assert 14 / 32 == both.longest.masked, "in a kind without a longest all are"


def test_figures_are_of_conversations_that_are_alike() -> None:
    table = [figures(False, 9, "a", rereads=4)] * 3 + [figures(False, 9, "b", rereads=0)]
    table += [figures(True, 9, "a", rereads=2), *[figures(True, 9, "b", rereads=6)] * 3]
    verdict = judge_figures(table, Excluded())
    assert Figure("re-reads", 3, (3 * 2 + 6) / 4) in verdict.figures


def runs(times: float) -> list[Pair]:
    """Return made-up runs of which the masked ones take so many times the turns."""
    rng = random.Random(1)
    turns = [10 + rng.lognormvariate(4, 1.2) for _ in range(400)]
    raw = [Run(round(each), 0, 0, 0, True) for each in turns]
    return [Pair("", run, run._replace(turns=round(run.turns * times))) for run in raw]


def test_a_harm_is_found_where_it_is_and_not_where_it_is_not() -> None:
    pairs = runs(3.0)
    kinds = {look(seed, pairs, 10, 0.2, take_masked, 500).kind for seed in range(20)}
    none = {look(seed, pairs, 10, 0.2, take_raw, 500).kind for seed in range(20)}
    assert ({"harm"}, {"cannot tell"}) == (kinds, none)
    assert "none seen" == look(1, pairs, 10, 0.2, take_raw, 2000).kind
    assert not any(map(is_harm, look_daily(1, pairs, 10, 0.5)))


def test_a_part_of_the_longest_finds_runs_that_go_on_until_the_limit_if_it_is_small() -> None:
    short = [pair for pair in runs(1.0) if pair.raw.turns < 120]
    _, _, *rows = compare_parts([Experiment("made up", 10, short)], 10, draws=4)
    found = {row.split()[3]: row.split("|")[4].strip() for row in rows}
    assert [*found] == ["40", "30", "25", "20", "15", "12", "10", "8", "5"]
    assert ("100%", "38%") == (found["15"], found["5"])


@pytest.mark.skipif(not EVIDENCE.exists(), reason="the runs of others are not here")
def test_the_harmful_window_of_openhands_is_found_and_chance_is_not() -> None:
    found = read_runs(EVIDENCE / "experiment_instance_costs_openhands.csv")
    harmful, repeated = find_openhands(found)[0].pairs, find_repeated(found).pairs
    seeds = range(10)
    assert {"harm"} == {look(n, harmful, 5, 0.2, take_masked, 500).kind for n in seeds}
    assert not any(is_harm(look(n, harmful, 5, 0.2, take_raw, 500)) for n in seeds)
    assert not any(is_harm(look(n, repeated, 5, 0.5, take_masked, 50)) for n in seeds)


def test_what_it_takes_is_what_would_be_seen() -> None:
    needed = count_needed(4, 1, None)
    critical = find_critical(needed * 0.8, needed * 5)
    seen = exp((critical + 0.8416) * 1.2 / sqrt(needed * 0.8)) - 1
    assert 0.5 == pytest.approx(seen, rel=0.05)
    # Where they can be measured, those at hand say how much conversations vary.
    alike = [figures(n % 5 == 0, 20 + n % 3) for n in range(100)]
    assert LEAST == judge_figures(alike, Excluded()).needed


def some(requests: Effect, longest: Effect | None = None, limit: int | None = 249) -> Verdict:
    shares = longest or Effect(0.1, 0.0, 0.03, 3.0)
    cost = Figure("cost in dollars", 15.0, 30.0)
    rereads = Figure("re-reads", 5.0, 3.25)
    return Verdict(84, 21, requests, shares, limit, (rereads, cost), 220, Excluded(3, 0, 1, 0))


def rise(times: float, error: float, critical: float = 4.0) -> Effect:
    return Effect(log(30 * times), log(times), error, critical)


MORE_LONG = Effect(0.08, 0.07, 0.02, 3.0)


@as_one_test
@pytest.mark.parametrize(
    ("verdict", "kind", "sentence"),
    [
        pytest.param(
            some(rise(1.18, 0.03)),
            "harm",
            "masked conversations took 18% more requests (5% to 33%)",
            id="more requests",
        ),
        pytest.param(
            some(rise(1.18, 0.03), MORE_LONG),
            "harm",
            "masked conversations took 18% more requests (5% to 33%) and went on for 249 requests "
            "or more in 8% of cases, against 1%",
            id="both",
        ),
        pytest.param(
            some(rise(1.02, 0.03), MORE_LONG, limit=None),
            "harm",
            "masked conversations went on for as long as the longest in 8% of cases, against 1%",
            id="more long ones, of several kinds",
        ),
        pytest.param(
            some(rise(1.02, 0.05)),
            "none seen",
            "none seen in 84 masked and 21 held-out conversations; would have seen requests rise "
            "by 27%",
            id="none seen",
        ),
        pytest.param(
            some(rise(1.02, 0.3)),
            "cannot tell",
            "cannot tell yet: 21 held-out conversations would only show requests rising 4.3-fold; "
            "it takes about 220 to see them rise by half",
            id="too few to see half",
        ),
        pytest.param(
            some(rise(1.02, 0.3, inf)),
            "cannot tell",
            "cannot tell yet: 21 held-out conversations compared so far; it takes about 220 to "
            "see requests rise by half",
            id="too few for any",
        ),
    ],
)
def test_the_verdict_in_a_sentence(verdict: Verdict, kind: Kind, sentence: str) -> None:
    assert (kind, sentence) == (verdict.kind, render_verdict(verdict))


def test_each_measure_in_words() -> None:
    verdict = some(rise(1.18, 0.03), MORE_LONG)
    assert [
        ("requests", "35.4", "30.0", "+18% (+5% to +33%), more than chance"),
        ("249 requests or more", "8.0%", "1.0%", "+7.0 points (+1.0 to +13.0), more than chance"),
        ("re-reads", "5.00", "3.25", ""),
        ("cost in dollars", "$15.00", "$30.00", ""),
    ] == [*describe_measures(verdict)]
    lines = [*list_harm(verdict)]
    left_out = "not compared: 3 with nothing to mask, 1 that switched sides"
    assert [render_verdict(verdict), NOTE, left_out] == [lines[0], *lines[-2:]]
    assert "requests: 35.4 masked, 30.0 held out: +18% (+5% to +33%), more than chance" == lines[1]
    assert "re-reads: 5.00 masked, 3.25 held out" == lines[3]
    few = [*describe_measures(some(rise(1.0, 0.0), Effect(0.0, 0.0, 0.1, inf)))]
    assert ["too few to tell"] * 2 == [difference for *_, difference in few[:2]]
    assert "" == render_left_out(Excluded())


def test_json_has_no_number_where_nothing_is_known() -> None:
    few = judge_figures([figures(False, 3), figures(True, 5)], Excluded())
    dumped = dump_harm(few)
    assert ("cannot_tell", 1, 1, None) == tuple(
        dumped[name]
        for name in ("verdict", "masked_conversations", "held_out_conversations",
                     "detectable_rise_in_requests")
    )  # fmt: skip
    longest, measured = dumped["longest"], dumped["figures"]
    assert isinstance(longest, dict)
    assert isinstance(measured, dict)
    assert {"margin": None, "is_more_than_chance": None, "from_requests": 5} == {
        name: longest[name] for name in ("margin", "is_more_than_chance", "from_requests")
    }
    assert ["refused_requests", "failed_requests", "rereads", "cost_in_dollars"] == [*measured]
    nothing = dump_harm(judge_figures([], Excluded()))
    assert (None, None) == (nothing["logarithm_of_requests"], nothing["longest"])
