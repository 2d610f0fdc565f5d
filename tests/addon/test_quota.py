"""What answers tell of a plan's quota: as it is read, and in words."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from addon.accounts import Accounts, find_user
from addon.memory import open_memory
from addon.quota import QuotaWindow, Reading, find_events, read_quota
from addon.records.advice import QuotaWarnings
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.records.words import list_quota, render_last_line
from addon.request import HeaderFields
from tests.support.marks import as_one_test
from tests.tools.provider.plan import Plan
from tests.tools.provider.script import Received

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
SOON, LATE = (int(NOW.timestamp()) + seconds for seconds in (7_200, 500_000))
FIVE_HOURS, WEEK = 300, 10_080
ANTHROPIC = "anthropic-ratelimit-unified-"


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def read(fields: dict[str, str], *events: object) -> list[QuotaWindow]:
    told = [json.dumps(event).encode() for event in events]
    return [*read_quota(HeaderFields(fields.items()), told, NOW)]


# As it is read


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(
            {
                f"{ANTHROPIC}status": "allowed",
                f"{ANTHROPIC}representative-claim": "five_hour",
                f"{ANTHROPIC}5h-utilization": "0.43",
                f"{ANTHROPIC}5h-reset": str(SOON),
                f"{ANTHROPIC}5h-status": "allowed",
                f"{ANTHROPIC}7d-utilization": "1.02",
                f"{ANTHROPIC}7d-reset": str(LATE),
            },
            [QuotaWindow("5h", 0.43, SOON, FIVE_HOURS), QuotaWindow("7d", 1.02, LATE, WEEK)],
            id="Anthropic",
        ),
        pytest.param(
            {f"{ANTHROPIC}7d-sonnet-utilization": "0.1"},
            [QuotaWindow("7d-sonnet", 0.1, None, WEEK)],
            id="a further window, of which not all is told",
        ),
        pytest.param(
            {
                "X-Codex-Primary-Used-Percent": "12.5",
                "x-codex-primary-window-minutes": "300",
                "x-codex-primary-reset-after-seconds": "7200",
                "x-codex-bengalfox-secondary-used-percent": "3",
                "x-codex-bengalfox-secondary-reset-at": str(LATE),
                "x-codex-active-limit": "codex",
            },
            [
                QuotaWindow("primary", 0.125, SOON, FIVE_HOURS),
                QuotaWindow("bengalfox-secondary", 0.03, LATE),
            ],
            id="ChatGPT",
        ),
        pytest.param(
            {
                f"{ANTHROPIC}5h-utilization": "soon",
                f"{ANTHROPIC}7d-utilization": "nan",
                f"{ANTHROPIC}1d-utilization": "-1",
                f"{ANTHROPIC}2d-utilization": "43",
                f"{ANTHROPIC}overage-reset": str(SOON),
                "x-codex-primary-window-minutes": "300",
            },
            [],
            id="no window without what is used of it",
        ),
        pytest.param(
            {
                f"{ANTHROPIC}5h-utilization": "0.5",
                f"{ANTHROPIC}5h-reset": "1e300",
                "x-codex-primary-used-percent": "7",
                "x-codex-primary-window-minutes": "0",
                "x-codex-primary-reset-at": "tomorrow",
            },
            [QuotaWindow("5h", 0.5, None, FIVE_HOURS), QuotaWindow("primary", 0.07)],
            id="what makes no sense leaves the rest standing",
        ),
        pytest.param(
            {f"{ANTHROPIC}{n}h-utilization": "0.5" for n in range(1, 30)},
            [QuotaWindow(f"{n}h", 0.5, None, 60 * n) for n in range(1, 9)],
            id="no more windows than any plan has",
        ),
    ],
)
def test_windows_are_read_off_header_fields(
    fields: dict[str, str], expected: list[QuotaWindow]
) -> None:
    assert expected == read(fields)


def test_windows_are_read_off_events_and_the_last_word_counts() -> None:
    told = {"primary": {"used_percent": 40.0, "window_minutes": 300, "reset_at": SOON}}
    event = {"type": "codex.rate_limits", "plan_type": "pro", "rate_limits": told}
    named = {"type": "codex.rate_limits", "metered_limit_name": "Spark", "rate_limits": told}
    header = {"x-codex-primary-used-percent": "12"}
    window = QuotaWindow("primary", 0.4, SOON, FIVE_HOURS)
    assert [window, replace(window, name="spark-primary")] == read(header, event, named)
    neither = {"type": "codex.rate_limits", "rate_limits": {"primary": 7, "secondary": None}}
    broken: tuple[object, ...] = (neither, [], 3)
    assert [] == read({}, *broken, {"type": "response.completed", "rate_limits": told})
    assert () == read_quota(HeaderFields(()), [b'{"type":"codex.rate_limits"'], NOW)


def test_events_are_found_in_a_stream_and_in_a_message() -> None:
    event = b'{"type":"codex.rate_limits","rate_limits":{}}'
    stream = b"event: codex.rate_limits\ndata: " + event + b'\n\ndata: {"type":"response.done"}\n\n'
    assert [event] == [each.strip() for each in find_events(stream)] == find_events(event)
    assert [] == find_events(b'data: {"text":"codex.rate_limits"}')


def test_the_provider_of_the_tests_tells_a_plan_as_the_vendors_do() -> None:
    plan = Plan()
    plan.add({"input_tokens": 100_000, "cache_read_input_tokens": 1_000_000})
    now = datetime.now(UTC)
    claude = Received(request={}, headers=(("Authorization", "Bearer sk-ant-oat01-x"),))
    codex = Received(request={}, path="/backend-api/codex/responses")
    events = [json.dumps(plan.event(codex)).encode()]
    for fields, told, names in (
        (plan.headers(claude), (), ("5h", "7d")),
        (plan.headers(codex), (), ("primary", "secondary")),
        ((), events, ("primary", "secondary")),
    ):
        windows = read_quota(HeaderFields(fields), told, now)
        assert names == tuple(window.name for window in windows)
        assert [0.1, 0.01] == [pytest.approx(window.used) for window in windows]
        assert [FIVE_HOURS, WEEK] == [window.minutes for window in windows]
        assert ["5-hour limit", "weekly limit"] == [window.label for window in windows]
    assert [] == [*plan.headers(Received(request={}, headers=(("x-api-key", "sk-ant-api"),)))]


# What it means


@as_one_test
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(QuotaWindow("5h", 0.4, minutes=300), "5-hour limit", id="hours"),
        pytest.param(QuotaWindow("primary", 0.4, minutes=299), "5-hour limit", id="nearly"),
        pytest.param(QuotaWindow("3d", 0.4, minutes=4_320), "3-day limit", id="days"),
        pytest.param(QuotaWindow("7d_oi", 0.4, minutes=WEEK), "weekly limit (oi)", id="of a kind"),
        pytest.param(
            QuotaWindow("spark-primary", 0.4, minutes=300), "5-hour limit (spark)", id="of a family"
        ),
        pytest.param(QuotaWindow("primary", 0.4), "primary limit", id="of unknown length"),
        pytest.param(QuotaWindow("?", 0.4, minutes=45), "1-hour limit", id="of a strange name"),
    ],
)
def test_a_window_has_a_name_that_people_use(window: QuotaWindow, expected: str) -> None:
    assert expected == window.label


def reading(used: float, resets: int | None = SOON, minutes: int | None = 300) -> Reading:
    return Reading(QuotaWindow("5h", used, resets, minutes), NOW)


def test_the_pace_says_what_will_be_used_and_when_all_is() -> None:
    slow, fast = reading(0.3), reading(0.75)  # three of five hours have passed
    assert [0.5, 1.25] == [pytest.approx(each.pace) for each in (slow, fast)]
    assert [None, NOW + timedelta(hours=1)] == [each.runs_out for each in (slow, fast)]
    just_begun = reading(0.01, int(NOW.timestamp()) + 17_900)
    nonsense = reading(0.3, LATE)
    for each in (just_begun, nonsense, reading(0.3, None), reading(0.3, minutes=None)):
        assert (None, None) == (each.pace, each.runs_out)


def test_a_reading_holds_until_its_window_begins_anew() -> None:
    hour = timedelta(hours=1)
    assert reading(0.3).holds(NOW + hour)
    assert not reading(0.3).holds(NOW + 2 * hour)
    assert reading(0.3, None).holds(NOW + 4 * hour)
    assert not reading(0.3, None, None).holds(NOW + 5 * hour)


# In words


def record(when: datetime, account: str, *windows: QuotaWindow) -> RequestRecord:
    return RequestRecord(
        time=when.isoformat(),
        host="api.anthropic.com",
        path="/v1/messages",
        masking="on",
        quota=windows,
        quota_account=account,
    )


def say(*records: RequestRecord, is_full: bool = False) -> list[str]:
    tally = Tally()
    for each in records:
        tally.add(each)
    return [*list_quota(tally, NOW, is_full=is_full)]


def test_the_latest_of_each_window_is_told_and_one_that_an_answer_lacks_stays() -> None:
    long = QuotaWindow("7d", 0.12, LATE, WEEK)
    first = record(NOW, "1a9a", long, QuotaWindow("5h", 0.1, SOON, FIVE_HOURS))
    then = record(NOW, "1a9a", QuotaWindow("5h", 0.43, SOON, FIVE_HOURS))
    told = ["5-hour limit: 43% used, resets 14:00", "weekly limit: 12% used, resets Thu 06:53"]
    assert told == say(first, then)
    other = record(NOW, "77cc", QuotaWindow("5h", 1.0, None, FIVE_HOURS))
    assert [f"account 1a9a: {line}" for line in told] + [
        "account 77cc: 5-hour limit: 100% used"
    ] == say(first, then, other)


def test_one_that_has_begun_anew_is_not_told() -> None:
    gone = QuotaWindow("5h", 0.9, int(NOW.timestamp()) - 1, FIVE_HOURS)
    assert [] == say(record(NOW, "1a9a", gone))
    broken = RequestRecord.model_validate({**vars(record(NOW, "1a9a", gone)), "time": "then"})
    assert [] == say(broken)


@as_one_test
@pytest.mark.parametrize(
    "window",
    [
        {"name": "5h", "used": -1},
        {"name": "5h", "used": 0.3, "resets": 10**12},
        {"name": "5h", "used": 0.3, "minutes": 10**9},
        {"used": 0.3},
    ],
)
def test_a_record_with_an_impossible_window_is_no_record(window: dict[str, object]) -> None:
    fields = {**vars(record(NOW, "1a9a")), "quota": [window]}
    with pytest.raises(ValueError, match="quota"):
        RequestRecord.model_validate(fields)


def test_the_pace_is_told_where_it_is_asked_for() -> None:
    week = int(NOW.timestamp()) + 86_400 * 7 // 2
    windows = (
        QuotaWindow("5h", 0.75, SOON, FIVE_HOURS),
        QuotaWindow("7d", 0.2, week, WEEK),
        QuotaWindow("7d_oi", 1.01, week, WEEK),
    )
    assert [
        "5-hour limit: 75% used, resets 14:00; at this pace all of it by 13:00",
        "weekly limit: 20% used, resets Tue 00:00; at this pace 40% by then",
        "weekly limit (oi): 101% used, resets Tue 00:00",
    ] == say(record(NOW, "1a9a", *windows), is_full=True)


def test_the_last_line_of_a_run_leads_with_it() -> None:
    now = datetime.now(UTC)
    window = QuotaWindow("5h", 0.43, int(now.timestamp()) + 3_600, FIVE_HOURS)
    tally = Tally()
    tally.add(record(now, "1a9a", window))
    assert render_last_line(tally).startswith("5-hour limit: 43% used, resets ")


def test_a_window_that_will_not_last_is_warned_of_once_until_it_resets() -> None:
    warnings = QuotaWarnings()

    def find(used: float, resets: int = SOON, account: str = "1a9a") -> list[str]:
        return warnings.find(record(NOW, account, QuotaWindow("5h", used, resets, FIVE_HOURS)))

    assert [] == find(0.9) == find(1.0) == find(0.95, int(NOW.timestamp()) + 60)
    line = "5-hour limit: 92% used; at this pace all of it by 12:15, before it resets 14:00"
    assert [line] == find(0.92)
    assert [] == find(0.95) == find(0.96, SOON + 3)
    assert [line] == find(0.92, account="77cc")
    assert 1 == len(find(0.92, SOON + 3_600))


# Whose it is


def test_an_account_has_the_same_tag_in_every_run_and_whatever_its_token(tmp_path: Path) -> None:
    user = find_user(
        {"metadata": {"user_id": f"user_1_account_{'ab' * 4}-{'-'.join(['cdef'] * 4)}"}}
    )
    tags = []
    for credential, whose in ((b"one", user), (b"two", user), (b"one", None), (b"two", None)):
        with closing(open_memory(lambda: tmp_path)) as store:
            tags.append(Accounts(store).tag("api.anthropic.com", credential, whose))
    assert tags[0] == tags[1]
    assert 3 == len({*tags})
    assert {4} == {*map(len, tags)}
    assert [None, None] == [find_user({}), find_user({"metadata": {"user_id": 7}})]
