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
    DOLLARS,
    FAILURES,
    LEAST,
    NOTE,
    REQUESTS,
    REREADS,
    Effect,
    Figures,
    Holdout,
    Kind,
    LeftOut,
    Verdict,
    count_needed,
    describe_effects,
    dump_harm,
    find_critical,
    judge,
    list_harm,
    measure_effect,
    render_left_out,
    render_verdict,
)
from tests.support.made_up_records import bill, record
from tests.tools.benchmarks.harm_verdict import USUAL, Harm, Traffic, cry_wolf, draw

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OUT = {"masking": "observed", "group": "holdout"}
MASKED = {"masked": 2}

# What is compared


def talk(name: str, requests: int, **fields: object) -> Iterator[Mapping[str, object]]:
    """Yield the requests of a conversation; each costs a dollar masked, and two unmasked."""
    for _ in range(requests):
        told = {"conversation_id": name, "status": 200, "purpose": "answer"}
        yield {**told, **MASKED, **bill(2.0, 1.0, 0.1), **fields}


def look(*requests: Mapping[str, object], now: datetime = NOW) -> Verdict | None:
    counted = Holdout()
    for fields in requests:
        counted.add(record(**fields))
    return counted.compare(now)


def typical(measure: str, verdict: Verdict | None) -> tuple[float, float] | None:
    """Return what a typical conversation of both groups has."""
    assert verdict
    for each in verdict.effects:
        if each.measure.name == measure:
            return round(each.typical_masked, 6), round(each.typical_held_out, 6)
    return None


def test_a_conversation_counts_from_where_masking_begins_or_would_have_begun() -> None:
    short = {"masked": 0}
    verdict = look(
        *(*talk("a", 3, **short), *talk("a", 2, completion_tokens=10), *talk("a", 2, **short)),
        *(*talk("b", 1, **short, **OUT), *talk("b", 9, completion_tokens=10, **OUT)),
        *talk("c", 7, **short),
        *talk("d", 7, **short, **OUT),
    )
    assert verdict
    assert (1, 1, LeftOut(unmasked=2)) == (verdict.masked, verdict.held_out, verdict.left_out)
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
    verdict = look(*talk("a", 1, **fields), *talk("b", 1, **OUT))
    assert verdict
    assert (1, LeftOut()) == (verdict.masked, verdict.left_out)


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
    verdict = look(*requests)
    assert ((2 * refused, 0), (2 * failed, 0)) == (
        typical("refused requests", verdict),
        typical("failed requests", verdict),
    )


def test_rereads_of_what_would_have_been_masked_are_compared_with_those_of_what_was() -> None:
    verdict = look(*talk("a", 3, rereads=2), *talk("b", 6, rereads=1, **OUT))
    assert (6, 6) == typical("re-reads", verdict)


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
    assert look(*compared) == look(*compared, *talk("b", 4, **others))


@pytest.mark.parametrize(
    ("others", "left_out"),
    [
        pytest.param(talk("b", 4, config_digest="x"), LeftOut(unmatched=1), id="other settings"),
        pytest.param(talk("b", 4, client="x"), LeftOut(unmatched=1), id="another client"),
        pytest.param(talk("b", 4, model="x"), LeftOut(unmatched=1), id="another model"),
        pytest.param([*talk("b", 4), *talk("b", 1, **OUT)], LeftOut(switched=1), id="switched"),
        pytest.param(talk("b", 4, time="2026-01-01T23:30:00Z"), LeftOut(young=1), id="young"),
        pytest.param(talk("b", 4, masked=0), LeftOut(unmasked=1), id="nothing to mask"),
    ],
)
def test_which_conversations_are_left_out(
    others: Iterator[Mapping[str, object]], left_out: LeftOut
) -> None:
    compared = [*talk("a", 3), *talk("c", 6, **OUT)]
    alone, verdict = look(*compared), look(*compared, *others)
    assert alone
    assert alone._replace(left_out=left_out) == verdict


@pytest.mark.parametrize("time", ["2026-01-01T23:00:00Z", "2026-01-01T23:00:00", "yesterday"])
def test_an_hour_after_masking_began_a_conversation_counts(time: str) -> None:
    verdict = look(*talk("a", 3, time=time), *talk("c", 6, **OUT))
    assert verdict
    assert 1 == verdict.masked


def test_what_follows_a_change_of_the_settings_does_not_count() -> None:
    later = talk("a", 5, config_digest="later", **OUT)
    assert (3, 6) == typical("requests", look(*talk("a", 3), *talk("c", 6, **OUT), *later))


def test_prompts_that_repeat_are_one_conversation() -> None:
    again = [*talk("a", 3, run="1"), *talk("a", 3, run="2")]
    verdict = look(*again, *talk("c", 6, **OUT))
    assert verdict
    assert ((6, 6), 1) == (typical("requests", verdict), verdict.masked)


def test_without_a_price_the_cost_is_in_input_tokens() -> None:
    unpriced = {"cost_dollars_before": None, "cost_dollars_after": None}
    verdict = look(*talk("a", 3, **unpriced), *talk("c", 6, **OUT))
    assert (None, (3, 12)) == (
        typical("cost in dollars", verdict),
        typical("cost in input tokens", verdict),
    )
    # A request that the provider did not take has no cost, which is not an unknown price.
    untaken = {**unpriced, "cost_tokens_before": None, "cost_tokens_after": None, "status": 500}
    verdict = look(*talk("a", 3), *talk("a", 1, **untaken), *talk("c", 6, **OUT))
    assert (3, 12) == typical("cost in dollars", verdict)


def test_nothing_is_said_without_a_holdout() -> None:
    assert look(*talk("a", 3)) is None


def test_later_conversations_are_not_kept() -> None:
    counted = Holdout(most=2)
    for fields in (*talk("a", 1), *talk("b", 1, **OUT), *talk("c", 1), *talk("a", 1)):
        counted.add(record(**fields))
    assert (2, 1) == typical("requests", counted.compare(NOW))


# By how much they differ


def figures(is_held_out: bool, requests: int, kind: str = "", rereads: int = 0) -> Figures:
    return Figures(is_held_out, ("", None, kind), requests=requests, rereads=rereads)


def test_one_kind_of_conversation_is_compared_as_by_student() -> None:
    masked, held_out = [3, 8, 20, 55, 7, 9, 11, 4, 90, 31, 17], [5, 9, 2, 14, 30, 8, 6, 3, 12, 7]
    table = [figures(False, n) for n in masked] + [figures(True, n) for n in held_out]
    effect = measure_effect(REQUESTS, table)
    assert effect
    logs, others = [*map(log, masked)], [*map(log, held_out)]
    pooled = (variance(logs) * 10 + variance(others) * 9) / 19
    error = sqrt(pooled * (1 / 11 + 1 / 10))
    assert fmean(logs) - fmean(others) == pytest.approx(effect.log_difference)
    assert error == pytest.approx(effect.standard_error)
    assert find_critical(110 / 21, 19, 0.05 / 6) == pytest.approx(effect.critical)
    assert exp(fmean(others)) == pytest.approx(effect.typical_held_out)


def solve(rows: list[list[float]]) -> list[float]:
    """Return the solution of linear equations, each a row that ends with its right side."""
    count = len(rows)
    for at in range(count):
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for other in range(count):
            if other != at:
                factor = rows[other][at]
                rows[other] = [
                    mine - factor * its for mine, its in zip(rows[other], rows[at], strict=True)
                ]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("lengths", ["none", "some", "all"])
def test_kinds_of_conversations_are_compared_as_by_least_squares(lengths: str) -> None:
    rng = random.Random(2)
    table = [
        figures(rng.random() < 0.4, rng.randint(1, 50) * (1 + 9 * kind), str(kind))
        for kind in (0, 1, 2)
        for _ in range(15)
    ]
    if lengths != "none":
        for one in table:
            one.tokens_at_start = rng.randint(1_000, 9_000)
    if lengths == "some":
        table[3].tokens_at_start = None
    known = [log(one.tokens_at_start) for one in table[:15] if one.tokens_at_start]
    columns = [
        [float(not one.is_held_out) for one in table],
        *([float(one.alike[2] == kind) for one in table] for kind in "012"),
        [log(one.tokens_at_start) if one.tokens_at_start else fmean(known) for one in table]
        if known else [],
    ]  # fmt: skip
    columns = [column for column in columns if column]
    right = [log(one.requests) for one in table]

    def dot(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    normal = [[dot(one, other) for other in columns] for one in columns]
    found = solve([[*row, dot(one, right)] for row, one in zip(normal, columns, strict=True)])
    fitted = [dot(found, [column[at] for column in columns]) for at in range(len(table))]
    freedom = len(table) - len(columns)
    residual = sum((a - b) ** 2 for a, b in zip(right, fitted, strict=True)) / freedom
    inverse = solve([[*row, float(at == 0)] for at, row in enumerate(normal)])[0]
    effect = measure_effect(REQUESTS, table)
    assert effect
    assert found[0] == pytest.approx(effect.log_difference)
    assert sqrt(residual * inverse) == pytest.approx(effect.standard_error)
    assert find_critical(1 / inverse, freedom, 0.05 / 6) == pytest.approx(effect.critical)


@pytest.mark.parametrize("size", [5.0, 40.0, 500.0])
@pytest.mark.parametrize("freedom", [18, 100, 10_000])
@pytest.mark.parametrize("error", [0.05, 0.01])
def test_the_critical_value_is_where_the_likelihood_ratio_is_one_over_the_error(
    size: float, freedom: int, error: float
) -> None:
    critical = find_critical(size, freedom, error)
    shrink, square = 4 / (4 + size), critical**2 / freedom
    growth = log1p(square) - log1p(shrink * square)
    ratio = 0.5 * log(shrink) + 0.5 * (freedom + 1) * growth
    assert ratio == pytest.approx(-log(error))


def test_a_likelihood_ratio_that_cannot_be_so_large_has_no_critical_value() -> None:
    assert inf == find_critical(1.0, 3, 0.01)


_COUNTS = st.lists(st.integers(1, 10**6), min_size=LEAST, max_size=30)


@given(_COUNTS, _COUNTS, st.integers(2, 9))
def test_the_scale_and_the_side_do_not_matter(
    masked: list[int], held_out: list[int], times: int
) -> None:
    def measure(masked: list[int], held_out: list[int]) -> tuple[float, float]:
        table = [figures(False, n) for n in masked] + [figures(True, n) for n in held_out]
        effect = measure_effect(REQUESTS, table)
        assert effect
        return effect.log_difference, effect.standard_error

    difference, error = measure(masked, held_out)
    scaled = measure([n * times for n in masked], [n * times for n in held_out])
    assert (difference, error) == pytest.approx(scaled, abs=1e-5)
    assert (-difference, error) == pytest.approx(measure(held_out, masked), abs=1e-5)


def test_too_few_or_equal_conversations_have_no_interval() -> None:
    few = [figures(side, 3 + n) for side in (False, True) for n in range(LEAST - 1)]
    same = [figures(side, 3) for side in (False, True) for _ in range(LEAST)]
    for table in (few, same):
        effect = measure_effect(REQUESTS, table)
        assert effect
        assert (False, 0) == (effect.has_interval, effect.direction)
    assert measure_effect(REQUESTS, [figures(False, 3)]) is None


@pytest.mark.parametrize(("events", "is_enough"), [(LEAST - 1, False), (LEAST, True)])
def test_of_what_is_rare_there_is_no_interval(events: int, is_enough: bool) -> None:
    table = [figures(n % 2 == 0, 3, rereads=int(n < events)) for n in range(4 * LEAST)]
    effect = measure_effect(REREADS, table)
    assert effect
    assert is_enough == effect.has_interval
    if is_enough:
        assert -effect.typical_held_out == effect.low, "nobody has fewer than none"


# The verdict


def group(harm: Harm, count: int, seed: int = 1) -> list[Figures]:
    rng = random.Random(seed)
    return [draw(rng, USUAL, harm) for _ in range(count)]


def test_a_harm_is_found_where_it_is_and_not_where_it_is_not() -> None:
    three = Harm(requests=3.0)
    kinds = {judge(group(three, 500, seed)).kind for seed in range(20)}
    none = {judge(group(Harm(), 500, seed)).kind for seed in range(20)}
    assert ({"harm"}, {"cannot tell"}) == (kinds, none)
    assert "none seen" == judge(group(Harm(), 2000)).kind
    harms, _, by_means = cry_wolf(Traffic("half held out", share=0.5), 5)
    assert (0, True) == (harms, by_means > 0)


def test_what_it_takes_is_what_would_be_seen() -> None:
    for rise in (0.2, 0.5, 1.0):
        needed = count_needed(4, 1, rise=rise)
        critical = find_critical(needed * 0.8, needed * 5, 0.05 / 6)
        seen = exp((critical + 0.8416) * 1.2 / sqrt(needed * 0.8)) - 1
        assert rise == pytest.approx(seen, rel=0.05)
    # Where they can be measured, those at hand say how much conversations vary.
    alike = [figures(n % 5 == 0, 20 + n % 3) for n in range(100)]
    assert LEAST == judge(alike).needed


def some(name: str, rise: float, error: float, critical: float = 4.0) -> Effect:
    """Return an effect on a count of three in each conversation, or on a ratio."""
    measure = {"requests": REQUESTS, "failed requests": FAILURES, "re-reads": REREADS}.get(
        name, DOLLARS
    )
    log_held_out = log1p(3) if measure.is_count else log(30)
    return Effect(measure, 84, 21, log_held_out + log(rise), log(rise), error, critical)


@pytest.mark.parametrize(
    ("effects", "kind", "sentence"),
    [
        pytest.param(
            [some("requests", 1.18, 0.03)],
            "harm",
            "masked conversations took 18% more requests (5% to 33%)",
            id="more requests",
        ),
        pytest.param(
            [some("requests", 1.02, 0.03), some("failed requests", 2, 0.1),
             some("re-reads", 1.5, 0.1), some("dollars", 0.5, 0.01)],
            "harm",
            "masked conversations had 4.00 more failed requests (1.36 to 7.93) and repeated 2.00 "
            "more calls whose results were masked (0.02 to 4.95)",
            id="two measures",
        ),
        pytest.param(
            [some("requests", 1.02, 0.05)],
            "none seen",
            "none seen in 84 masked and 21 held-out conversations; would have seen requests rise "
            "by 27%",
            id="none seen",
        ),
        pytest.param(
            [some("requests", 1.02, 0.3)],
            "cannot tell",
            "cannot tell yet: 21 held-out conversations would only show requests rising 4.3-fold; "
            "it takes about 220 to see them rise by half",
            id="too few to see half",
        ),
        pytest.param(
            [some("requests", 1.02, 0.15)],
            "cannot tell",
            "cannot tell yet: 21 held-out conversations would only show requests rising 2.1-fold; "
            "it takes about 220 to see them rise by half",
            id="twofold",
        ),
        pytest.param(
            [some("requests", 1.02, 0.3, inf)],
            "cannot tell",
            "cannot tell yet: 21 held-out conversations so far; it takes about 220 to see requests "
            "rise by half",
            id="too few for any",
        ),
    ],
)  # fmt: skip
def test_the_verdict_in_a_sentence(effects: list[Effect], kind: Kind, sentence: str) -> None:
    assert sentence == render_verdict(Verdict(kind, 84, 21, tuple(effects), 220, LeftOut()))


def test_each_measure_in_words() -> None:
    effects = [
        some("requests", 1.18, 0.03),
        some("failed requests", 1.0, 0.0)._replace(log_masked=0.0),
        some("failed requests", 1.5, 0.1, inf),
        some("re-reads", 1.5, 0.2),
        some("dollars", 0.5, 0.01),
        some("dollars", 1.0, 0.0, inf),
    ]
    verdict = Verdict("harm", 84, 21, tuple(effects), 220, LeftOut(3, 0, 1, 0))
    assert [
        ("requests", "35.4", "30.0", "+18% (+5% to +33%), more than chance"),
        ("failed requests", "0.00", "0.00", "none in either"),
        ("failed requests", "5.00", "3.00", "too few to tell"),
        ("re-reads", "5.00", "3.00", "+2.00 (-1.30 to +9.35)"),
        ("cost in dollars", "$15.00", "$30.00", "-50% (-52% to -48%), more than chance"),
        ("cost in dollars", "$30.00", "$30.00", "too few to tell"),
    ] == [tuple(each) for each in describe_effects(verdict)]
    lines = [*list_harm(verdict)]
    left_out = "not compared: 3 with nothing to mask, 1 that switched sides"
    assert [render_verdict(verdict), NOTE, left_out] == [lines[0], *lines[-2:]]
    assert "requests: 35.4 masked, 30.0 held out: +18% (+5% to +33%), more than chance" == lines[1]
    assert "" == render_left_out(LeftOut())


def test_json_has_no_number_where_nothing_is_known() -> None:
    few = judge([figures(False, 3), figures(True, 5)])
    dumped = dump_harm(few)
    assert ("cannot_tell", 1, 1, None) == tuple(
        dumped[name]
        for name in ("verdict", "masked_conversations", "held_out_conversations",
                     "detectable_rise_in_requests")
    )  # fmt: skip
    measures = dumped["measures"]
    assert isinstance(measures, dict)
    assert {"low": None, "high": None, "is_more_than_chance": None} == {
        name: measures["requests"][name] for name in ("low", "high", "is_more_than_chance")
    }
    assert ["requests", "refused_requests", "failed_requests", "rereads"] == [*measures]
