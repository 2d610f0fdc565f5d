"""The history as the page gets it, with a proxy and without one."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from addon.commands.page import serve_history
from addon.page.history import History
from addon.page.server import PageServer
from addon.records.sessions import RunFile, Running, Session
from masking.accounting.bill import Bill, Margin, Money
from masking.config import PageSettings
from tests.support.histories import write_sessions
from tests.support.made_up_records import bill, write_records
from tests.support.page_parts import find_chart, say

LAST = "2026-01-02T00:00:00.000+00:00"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "observation-masking"


def get(url: str, **headers: str) -> Any:  # noqa: ANN401 - JSON
    with urlopen(Request(url, headers=headers), timeout=60) as answer:
        return json.load(answer)


NAMES = (
    *("name", "place", "requests", "failed", "cached", "wait"),
    *("before", "after", "saved"),
)


def rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each row says, by the column, and what else is told of it."""
    return [
        {**each, **dict(zip(NAMES, map(say, each["cells"]), strict=True))}
        for each in told["sessions"]
    ]


def session(key: str, **fields: Any) -> Session:  # noqa: ANN401 - those of a session
    return Session(session=key, writer="w.1", **{"began": LAST, "last": LAST, **fields})


ONE = Margin(1.0)


def unpriced(tokens: Money) -> Bill:
    return Bill(tokens=tokens, unpriced=tokens)


def priced(tokens: Money, dollars: Money, borrowed: Mapping[str, int] | None = None) -> Bill:
    rest = Money(tokens.requests - dollars.requests)
    return Bill(tokens=tokens, dollars=dollars, unpriced=rest, borrowed=borrowed or {})


ASKED = Money(20, 1.5, 1.2, asked_again=2)


def test_sessions_are_listed_with_their_bills(state: Path) -> None:
    write_sessions(
        state,
        [
            session("priced", bill=priced(Money(2, 9, 5, ONE), Money(2, 0.9, 0.5, Margin(0.1)))),
            session("half", bill=priced(Money(2, 9, 5, ONE), Money(1, 0.9, 0.5, Margin(0.1)))),
            session("unpriced", bill=unpriced(Money(2, 9_000, 5_000, ONE))),
            session("about", bill=priced(Money(1, 9, 5), Money(1, 1, 1), borrowed={"OpenAI": 1})),
            session("asked", bill=priced(ASKED, ASKED)),
            session("lost", bill=priced(Money(1, 4, 5), Money(1, 0.4, 0.5)), loss="because"),
            session("observed", bill=priced(Money(1, 4, 3), Money(1, 0.4, 0.3)), is_observed=True),
            session("cached", prompt=10, cached=9, waits=(1.0, 4.0, 2.0)),
        ],
    )
    with serve_history() as url:
        found = {each["key"]: each for each in rows(get(f"{url}sessions"))}
    assert {
        "priced": ["$0.90", "$0.50", "$0.40 (44%)"],
        "half": ["$0.90", "$0.50\nand 1 request without a price", "$0.40 (44%)"],
        "unpriced": ["9,000", "5,000\ninput tokens' worth", "4,000 (44%)"],
        "about": ["$1.00", "about $1.00", "0"],
        "asked": ["$1.50", "$1.20", "$0.30 (20%)\n10% if asked again"],
        "lost": ["$0.40", "$0.50", "-$0.10 (-25%)"],
        "observed": ["$0.40", "$0.30", "$0.10 (25%)\nwould be saved"],
        "cached": ["", "", ""],
    } == {key: [each[name] for name in ("before", "after", "saved")] for key, each in found.items()}
    assert ["lost"] == [key for key, each in found.items() if each["cells"][-1]["is_loss"]]
    assert "it ended before its last move of the boundary had paid off" in found["lost"]["name"]
    assert ("90%", "2.0 s", False) == tuple(
        found["cached"][name] for name in ("cached", "wait", "running")
    )
    worth = {key: each["order"][-1] for key, each in found.items()}
    assert worth["observed"] > worth["unpriced"] > 0, "dollars are worth more than tokens"
    assert {"Fri, Jan 2, 2026: 8 sessions"} == {each["group"] for each in found.values()}


def test_a_row_shows_the_time_by_which_it_is_listed(state: Path) -> None:
    early, late = "2026-01-02T09:00:00.000+00:00", "2026-01-02T10:00:00.000+00:00"
    write_sessions(state, [session("a", began=early, last=late), session("b", last=LAST)])
    with serve_history() as url:
        found = {each["key"]: each for each in get(f"{url}sessions")["sessions"]}
    assert {"a": (late, late), "b": (LAST, LAST)} == {
        key: (each["cells"][0]["time"], each["order"][0]) for key, each in found.items()
    }


def test_what_all_sessions_came_to_is_told_as_status_tells_it(state: Path) -> None:
    write_sessions(
        state,
        [
            session("a", requests=20, bill=priced(ASKED, ASKED)),
            session("b", requests=2, bill=unpriced(Money(2, 9_000, 5_000))),
            session(
                "c", requests=2, is_observed=True, bill=priced(Money(1, 4, 3), Money(1, 0.4, 0.3))
            ),
        ],
    )
    with serve_history() as url:
        told = get(f"{url}sessions")
        alone = get(f"{url}sessions?search=b")
    again = "10% if each of the 2 calls that asked again cost one more request"
    assert told["texts"] == {
        "net": "$0.30 (20%) saved; 10% if asked again",
        "line": "2 sessions, 22 requests; input of 20 requests cost $1.20, without masking $1.50: "
        f"saved $0.30 (20%); {again}; input of 2 requests worth 5,000 input tokens (no price is "
        "known), without masking 9,000: saved 4,000 (44%).",
        "unpriced": "Only observed, and not in this: 1 session, 2 requests; input of 1 request "
        "cost $0.40, with masking $0.30: would have saved $0.10 (25%).",
        "counted": "3 sessions.",
    }
    assert "4,000 input tokens (44%) saved" == alone["texts"]["net"]
    assert "1 of 3 sessions." == alone["texts"]["counted"]
    assert (3, 1) == (alone["all"], len(alone["sessions"]))


@pytest.mark.parametrize(
    ("sessions", "title"),
    [
        pytest.param([], "No session yet", id="none"),
        pytest.param([session("a")], "Nothing masked", id="none with a bill"),
        pytest.param(
            [session("a", bill=priced(ASKED, Money(1, 1, 0.9, ONE)))],
            "About nothing saved",
            id="within the margin",
        ),
        pytest.param(
            [session("a", bill=priced(ASKED, Money(1, 1, 1.1)))], "$0.10 (10%) lost", id="a loss"
        ),
        pytest.param(
            [session("a", bill=priced(ASKED, Money(1, 1, 0.9), borrowed={"OpenAI": 1}))],
            "About $0.10 (10%) saved",
            id="at the price of another",
        ),
    ],
)
def test_the_headline_says_what_was_saved(state: Path, sessions: list[Session], title: str) -> None:
    write_sessions(state, sessions)
    with serve_history() as url:
        assert title == get(f"{url}sessions")["texts"]["net"]


def test_days_have_what_their_sessions_cost_by_the_clock_of_the_reader(state: Path) -> None:
    late, later = "2026-01-02T23:30:00.000+00:00", "2026-01-04T12:00:00.000+00:00"
    money = priced(Money(1, 4, 3), Money(1, 0.4, 0.3))
    write_sessions(
        state,
        [
            session("a", bill=money, last=late),
            session("b", bill=money, last=later),
            session("c", bill=unpriced(Money(1, 4, 3)), last="2025-01-01T00:00:00+00:00"),
            session("d", bill=money, last="?"),
        ],
    )
    with serve_history() as url:
        told = find_chart(get(f"{url}sessions")["days"], "")
        east = find_chart(get(f"{url}sessions?zone=-60")["days"], "")
    without, with_ = told["series"]
    assert [0.4, 0.0, 0.4] == without["values"][:3]
    assert [0.3, 0.0, 0.3] == with_["values"][:3]
    assert [
        "Fri, Jan 2, 2026: 1 session, input cost $0.30, without masking $0.40: saved $0.10 (25%)",
        "Sat, Jan 3, 2026: 0 sessions",
    ] == without["texts"][:2]
    assert (["Jan 2", "Jan 3", "Jan 4"], "Jan 3") == (told["days"][:3], east["days"][0])


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        pytest.param("", "abc", id="all"),
        pytest.param("search=API", "ac", id="a word, in any case"),
        pytest.param("search=api+codex", "c", id="two words"),
        pytest.param("agent=codex", "c", id="an agent"),
        pytest.param("model=m", "ab", id="a model"),
        pytest.param("model=m&search=web", "b", id="both"),
        pytest.param("days=7", "", id="the last days"),
        pytest.param("days=99999999999", "abc", id="too many days"),
        pytest.param("days=a&zone=b", "abc", id="nonsense"),
        pytest.param("zone=99999999999", "abc", id="no zone"),
    ],
)
def test_sessions_are_chosen(state: Path, question: str, keys: str) -> None:
    write_sessions(
        state,
        [
            session("a", folder="api", models=("m",), agent="pi"),
            session("b", folder="web", models=("m", "n"), agent="pi"),
            session("c", tag="api", agent="codex"),
        ],
    )
    with serve_history() as url:
        told = get(f"{url}sessions?{question}")
    assert sorted(keys) == sorted(each["key"] for each in rows(told))
    assert (3, ["codex", "pi"], ["m", "n"]) == (told["all"], told["agents"], told["models"])


def test_a_session_shows_its_requests_as_long_as_their_records_exist(state: Path) -> None:
    write_records(
        state / "requests.jsonl",
        *(
            {"session": "a", "conversation_id": "x", "tool_results": n, **bill(4, 3)}
            for n in range(3)
        ),
        {"session": "a", "conversation_id": "y"},
        {"session": "b", "path": '"a"'},
    )
    with serve_history() as url:
        assert {"a": "4", "b": "1"} == {
            each["key"]: each["requests"] for each in rows(get(f"{url}sessions"))
        }
        told = get(f"{url}sessions/a")
        title, longest, *_, other = [each for each in told["parts"] if each["part"] != "map"]
        assert ("h", "3 requests; ", "h: 1 request") == (
            title["text"], longest["text"][:12], other["summary"][:12],
        )  # fmt: skip
        assert ("a", "h, Thu, Jan 1, 2026") == (told["key"], told["title"])
        unknown = get(f"{url}sessions/unknown")
        assert (None, [], []) == tuple(unknown[name] for name in ("title", "parts", "facts"))


def test_the_proxies_that_run_are_told(state: Path) -> None:
    file = RunFile(state, Running("5eed", LAST, "w", "http://127.0.0.1:9/", "a tag"))
    with serve_history() as url:
        running = get(f"{url}sessions")["running"]
    file.close()
    (link,) = running["pages"]
    assert ("1 proxy running:", "a tag", LAST, "http://127.0.0.1:9/") == (
        running["text"], link["text"], link["time"], link["href"],
    )  # fmt: skip


def test_a_session_that_runs_leads_to_the_page_of_its_proxy(state: Path) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    write_sessions(state, [session("a", last=now), session("b")])
    file = RunFile(state, Running("5eed", LAST, "w", "http://127.0.0.1:9/"))
    with serve_history() as url:
        told = get(f"{url}sessions")
        facts = dict(get(f"{url}sessions/a")["facts"])
        ended = dict(get(f"{url}sessions/b")["facts"])
    file.close()
    assert [("a", "running"), ("b", "")] == [
        (each["key"], each["cells"][0]["pill"]) for each in told["sessions"]
    ]
    assert ["Running: 1 session", "Fri, Jan 2, 2026: 1 session"] == [
        each["group"] for each in told["sessions"]
    ]
    state_told = facts["State"]
    assert ("running: see it live", "http://127.0.0.1:9/") == (
        state_told["text"], state_told["href"],
    )  # fmt: skip
    assert "ended" == ended["State"]


def test_without_a_proxy_the_page_is_the_history(state: Path) -> None:
    with serve_history() as url, urlopen(url, timeout=60) as answer:
        assert f"{url}history" == answer.url
        assert 'href="/"' not in answer.read().decode()


def test_only_our_own_name_is_answered(state: Path) -> None:
    with serve_history() as url:
        for path in ("history", "sessions", "sessions/a"):
            with pytest.raises(HTTPError) as refused:
                get(url + path, host="evil.example")
            assert 421 == refused.value.code


@pytest.fixture
def bare() -> Iterator[PageServer]:
    server = PageServer(PageSettings(), dict, lambda *_: None)
    yield server
    server.close()


def test_a_page_without_a_history_has_no_way_to_one(bare: PageServer) -> None:
    with urlopen(bare.url, timeout=60) as answer:
        assert "/history" not in answer.read().decode()
    for path in ("history", "sessions"):
        with pytest.raises(HTTPError) as missing:
            urlopen(bare.url + path, timeout=60)
        assert 404 == missing.value.code


def test_a_history_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite3").mkdir()
    history = History(lambda: tmp_path, lambda: tmp_path / "requests.jsonl")
    server = PageServer(PageSettings(), dict, lambda *_: None, history)
    try:
        with pytest.raises(HTTPError) as failed:
            get(f"{server.url}sessions")
        assert 503 == failed.value.code
    finally:
        server.close()


def test_who_has_the_sessions_is_told_only_what_has_changed(state: Path) -> None:
    write_sessions(state, [session("a")])
    with serve_history() as url:
        told = get(f"{url}sessions")
        assert {"version": told["version"]} == get(f"{url}sessions?known={told['version']}")
        write_sessions(state, [session("b")])
        again = get(f"{url}sessions?known={told['version']}")
        assert {"a", "b"} == {each["key"] for each in again["sessions"]}


def test_the_facts_of_a_session_are_told(state: Path) -> None:
    tokens = Money(3, 9_000, 5_000, at_arrival=3_000)
    dollars = Money(2, 0.9, 0.1, asked_again=1, at_arrival=0.5)
    bill = Bill(
        tokens=tokens, dollars=dollars, unpriced=Money(1, 4, 4), answers=2, answer_dollars=3
    )
    write_sessions(
        state,
        [
            session(
                "a", bill=bill, folder="api", models=("m", "n"), host="h", requests=3, failed=1,
                turns=7, results=9, masked=5, shortened=2, arrival_rereads=1, arrival_quotes=2,
                prompt=10, cached=9, waits=(1.0,), conversations=2,
            ),
            session("b", why="no tool result is older than the window: a short session"),
        ],
    )  # fmt: skip
    with serve_history() as url:
        facts = dict(get(f"{url}sessions/a")["facts"])
        short = dict(get(f"{url}sessions/b")["facts"])
        names = {each["key"]: each["name"] for each in rows(get(f"{url}sessions"))}
    at = {name: facts.pop(name) for name in ("Began", "Last request")}
    assert {("Fri, Jan 2, 2026", LAST)} == {(each["text"], each["time"]) for each in at.values()}
    assert facts == {
        "State": "ended",
        "Folder": "api", "Model": "m, n", "Host": "h", "Requests": "3, 1 failed",
        "Conversations": "2", "Tool turns": "7", "Results masked": "5 of 9",
        "Results shortened": "2", "Shortened, and repeated": "1 call",
        "Left out, and quoted": "2 calls", "From cache": "90%", "Answer begins": "1.0 s (p50)",
        "Input": "of 2 requests cost $0.10, without masking $0.90: saved $0.80 (89%); 39% if the "
        "one call that asked again cost one more request; input of 1 request worth 4 input tokens "
        "(no price is known); of that at arrival $0.50, by masking $0.30 ±0.005",
        "Output": "cost $3.00 either way",
    }  # fmt: skip
    assert (
        "nothing masked: no tool result is older than the window: a short session" == short["Why"]
    )
    assert names["b"].endswith("\na short session: nothing masked")
