"""What masking did to a plan's quota, as it is learned before plans whose weights are hidden."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from addon.quota import QuotaWindow
from addon.records.quota_use import Kept, QuotaUse
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.records.words import list_quota
from tests.support.marks import as_one_test
from tests.support.plan_sessions import Other, PlanSession, in_bursts, more_and_more, steadily
from tests.tools.provider.plan import Weights


@dataclass
class Score:
    """Of so many sessions, for how many it was said, and rightly so."""

    known: int = 0
    within: int = 0
    wrong_sign: int = 0
    losses: int = 0


def learn(records: list[RequestRecord]) -> Kept | None:
    use, last = QuotaUse(), None
    for record in records:
        use.add(record)
        last = record.quota[0] if record.quota else last
    return None if last is None else use.find_kept("1a9a", last)


def play(seed: int, sessions: int, other: Other | None, *, requests: int = 200) -> Score:
    rng, score = random.Random(seed), Score()
    for _ in range(sessions):
        weights = Weights(rng.choice([0, 0.1, 1]), rng.choice([1, 1.25]), rng.choice([3, 5, 8]))
        session = PlanSession(rng, weights, rng.choice([0.01, 0.0001]), requests, other)
        kept = learn(session.records)
        if kept is not None:
            score.known += 1
            score.within += abs(kept.share - session.kept) <= kept.error
            score.wrong_sign += kept.share * session.kept < 0
            score.losses += kept.share < 0
    return score


@pytest.mark.parametrize(
    ("other", "least_known"),
    [
        pytest.param(None, 25, id="alone"),
        pytest.param(steadily, 15, id="beside a steady program"),
    ],
)
def test_it_is_known_before_most_plans_and_rightly_so(
    other: Other | None, least_known: int
) -> None:
    score = play(1, 34, other)
    assert score.known >= least_known
    assert score.within >= 0.9 * score.known
    assert 0 == score.wrong_sign
    assert 0 < score.losses < score.known  # masking saves reads, and adds writes


@pytest.mark.parametrize("other", [in_bursts, more_and_more])
def test_nothing_is_said_beside_a_program_that_follows_no_line(other: Other) -> None:
    score = play(2, 16, other)
    assert score.known <= 1
    assert 0 == score.wrong_sign


@pytest.mark.thorough
@pytest.mark.parametrize("other", [None, steadily, in_bursts, more_and_more])
@pytest.mark.parametrize("requests", [60, 200, 600])
def test_it_is_said_rightly(requests: int, other: Other | None) -> None:
    score = play(requests, 100, other, requests=requests)
    assert score.known - score.within <= 10
    assert 0 == score.wrong_sign
    assert other is not None or score.known >= 50


# In words


def tell(records: list[RequestRecord], *, is_full: bool) -> list[str]:
    tally = Tally()
    for record in records:
        tally.add(record)
    now = records[-1].when
    assert now is not None
    return [re.sub(r", resets .*", "", line) for line in list_quota(tally, now, is_full=is_full)]


def test_it_is_told_beside_how_much_is_used() -> None:
    kept = [
        PlanSession(random.Random(4), Weights(read), 0.0001, 60, None, 4).records for read in (1, 0)
    ]
    assert [
        ["5-hour limit: 51% used, 17% ±0.9 kept free by masking"],
        ["5-hour limit: 9% used, 2% ±0.1 used up by masking (docs/results.md#a-plans-quota)"],
    ] == [tell(records, is_full=False) for records in kept]
    assert ["5-hour limit: 6% used"] == tell(kept[0][:9], is_full=False)
    unknown = "what masking did to the 5-hour limit is not known yet"
    assert ["5-hour limit: 6% used", unknown] == tell(kept[0][:9], is_full=True)
    unasked = [record.model_copy(update={"learns_quota": False}) for record in kept[0]]
    assert ["5-hour limit: 51% used"] == tell(unasked, is_full=True)


# What a line cannot be drawn through

BEGIN = datetime(2026, 11, 27, 12, tzinfo=UTC)
SESSION = PlanSession(random.Random(4), Weights(1.0), 0.0001, 60).records


def test_what_masking_did_is_told_of_the_present_window_alone() -> None:
    kept = learn(SESSION)
    assert kept is not None
    later = [_in_next_window(record) for record in SESSION]
    both = learn([*SESSION, *later])
    assert both is not None
    assert both.share == pytest.approx(kept.share, rel=0.1)


def _in_next_window(record: RequestRecord) -> RequestRecord:
    hours = timedelta(hours=6)
    quota = tuple(
        replace(window, resets=(window.resets or 0) + int(hours.total_seconds()))
        for window in record.quota or ()
    )
    when = datetime.fromisoformat(record.time) + hours
    return record.model_copy(update={"time": when.isoformat(), "quota": quota or None})


Change = Callable[[int, RequestRecord], dict[str, object]]


@as_one_test
@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        pytest.param(lambda at, record: {}, True, id="as it is"),
        pytest.param(
            lambda at, record: {"cost_dollars_after": None} if at == 30 else {},
            True,
            id="a request without a price: the line starts anew",
        ),
        pytest.param(
            lambda at, record: {"cost_dollars_after": None} if at % 2 else {},
            True,
            id="every other one: each run has two readings",
        ),
        pytest.param(
            lambda at, record: {"tokens_by_kind_before": None}, False, id="of an older version"
        ),
        pytest.param(lambda at, record: {"answer_dollars": None}, False, id="no price of output"),
        pytest.param(lambda at, record: {"status": 429}, False, id="refused: uses nothing"),
        pytest.param(lambda at, record: {"purpose": "count"}, False, id="counts: uses nothing"),
        pytest.param(lambda at, record: {"quota_account": None}, False, id="of nobody"),
        pytest.param(lambda at, record: {"time": "then"}, False, id="of no time"),
        pytest.param(
            lambda at, record: {"quota": record.quota if at < 15 else None},
            False,
            id="few readings",
        ),
        pytest.param(lambda at, record: {"quota": _read(0.5)}, False, id="it does not rise"),
        pytest.param(
            lambda at, record: {"quota": _read(0.9 - at / 100)}, False, id="it only falls"
        ),
        pytest.param(
            lambda at, record: {"quota": _read(min(1.0, at * at / 3_000))}, False, id="on no line"
        ),
    ],
)
def test_a_line_needs_readings_and_what_was_used(change: Change, is_known: bool) -> None:
    changed = [record.model_copy(update=change(at, record)) for at, record in enumerate(SESSION)]
    assert is_known == (learn(changed) is not None)


def _read(used: float) -> tuple[QuotaWindow, ...]:
    return (QuotaWindow("5h", round(used, 4), int(BEGIN.timestamp()) + 9_000, 300),)


def test_a_window_without_a_reset_is_one_as_long_as_no_pause_is_long() -> None:
    endless = [
        record.model_copy(
            update={"quota": tuple(replace(each, resets=None) for each in record.quota or ())}
        )
        for record in SESSION
    ]
    kept, known = learn(endless), learn(SESSION)
    assert kept is not None
    assert known is not None
    assert kept.share == pytest.approx(known.share, rel=0.1)
