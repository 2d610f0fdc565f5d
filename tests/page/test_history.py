"""The history as the page gets it, with a proxy and without one."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from addon.commands.page import serve_history
from addon.page.history import History
from addon.page.server import PageServer
from addon.records.sessions import RunFile, Running, Session, write_sessions
from masking.accounting.bill import Bill, Margin, Money
from masking.config import PageSettings
from tests.support.made_up_records import bill, write_records

LAST = "2026-01-02T00:00:00.000+00:00"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "observation-masking"


def get(url: str, **headers: str) -> Any:  # noqa: ANN401 - JSON
    with urlopen(Request(url, headers=headers), timeout=60) as answer:
        return json.load(answer)


def rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(told["columns"], each, strict=True)) for each in told["sessions"]]


def session(key: str, **fields: Any) -> Session:  # noqa: ANN401 - those of a session
    return Session(session=key, writer="w.1", began=LAST, last=LAST, **fields)


ONE = Margin(1.0)


def unpriced(tokens: Money) -> Bill:
    return Bill(tokens=tokens, unpriced=tokens)


def priced(tokens: Money, dollars: Money, borrowed: Mapping[str, int] | None = None) -> Bill:
    rest = Money(tokens.requests - dollars.requests)
    return Bill(tokens=tokens, dollars=dollars, unpriced=rest, borrowed=borrowed or {})


FIELDS = ("unit", "before", "after", "steady", "unpriced")


def test_sessions_are_listed_with_their_bills(state: Path) -> None:
    write_sessions(
        state,
        [
            session("priced", bill=priced(Money(2, 9, 5, ONE), Money(2, 0.9, 0.5, Margin(0.1)))),
            session("half", bill=priced(Money(2, 9, 5, ONE), Money(1, 0.9, 0.5, Margin(0.1)))),
            session("unpriced", bill=unpriced(Money(2, 9, 5, ONE))),
            session("about", bill=priced(Money(1, 9, 5), Money(1, 1, 1), borrowed={"OpenAI": 1})),
            session("cached", prompt=10, cached=9, waits=(1.0, 4.0, 2.0)),
        ],
    )
    with serve_history() as url:
        found = {each["key"]: each for each in rows(get(f"{url}sessions"))}
    bills = {
        key: (*(each[name] for name in FIELDS), *each["sellers"]) for key, each in found.items()
    }
    assert {
        "priced": ("usd", 0.9, 0.5, 0.1, 0),
        "half": ("usd", 0.9, 0.5, 0.1, 1),
        "unpriced": ("input_tokens", 9, 5, 1, 0),
        "about": ("usd", 1, 1, 0, 0, "OpenAI"),
        "cached": ("input_tokens", 0, 0, 0, 0),
    } == bills
    assert (0.9, 2.0, "ended") == tuple(
        found["cached"][name] for name in ("cached", "wait", "state")
    )


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
        assert {"a": 4, "b": 1} == {
            each["key"]: each["requests"] for each in rows(get(f"{url}sessions"))
        }
        told = get(f"{url}sessions/a")
        assert [3, 1] == [each["requests"] for each in told["conversations"]]
        assert [] == get(f"{url}sessions/unknown")["conversations"]


def test_the_proxies_that_run_are_told(state: Path) -> None:
    file = RunFile(state, Running("5eed", LAST, "w", "http://127.0.0.1:9/", "a tag"))
    with serve_history() as url:
        (found,) = get(f"{url}sessions")["running"]
    file.close()
    assert {"run": "5eed", "tag": "a tag", "began": LAST, "page": "http://127.0.0.1:9/"} == found


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
        assert {"a", "b"} == {each["key"] for each in rows(again)}


def test_what_was_saved_at_arrival_is_in_the_unit_of_the_bill(state: Path) -> None:
    fields = {"shortened": 2, "arrival_quotes": 1}
    tokens, dollars = Money(2, 9, 5, at_arrival=3.0), Money(2, 0.9, 0.1, at_arrival=0.5)
    write_sessions(
        state,
        [
            session("priced", bill=priced(tokens, dollars), **fields),
            session("unpriced", bill=unpriced(tokens), **fields),
            session("off", bill=unpriced(Money(2, 9, 5))),
        ],
    )
    with serve_history() as url:
        found = {each["key"]: each for each in rows(get(f"{url}sessions"))}
    names = ("shortened", "arrival", "arrival_rereads", "arrival_quotes")
    assert {"priced": (2, 0.5, 0, 1), "unpriced": (2, 3.0, 0, 1), "off": (0, 0.0, 0, 0)} == {
        key: tuple(each[name] for name in names) for key, each in found.items()
    }
