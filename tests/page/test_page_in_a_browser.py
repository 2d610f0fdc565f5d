"""The page in a real Chromium: it fills, it reads out, it stays here, and it says when it is over.

`docs/CONTRIBUTING.md` says what these tests need.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from addon.page.history import History
from addon.page.server import PageServer
from addon.records.sessions import Session, SessionLog, open_history
from masking.accounting.bill import Bill, Margin, Money
from masking.config import PageSettings
from tests.support.histories import write_sessions
from tests.support.made_up_records import bill, record, write_records
from tests.support.places import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu"),
    *("--disable-background-networking", "--disable-component-update"),
)
RUN: Mapping[str, object] = {
    "name": "5eed0001",
    "tag": None,
    "proxy": "127.0.0.1:8081",
    "state": "ON",
    "unopened": {},
    "unserved": 0,
}
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


def session(count: int, **fields: object) -> Iterator[Mapping[str, object]]:
    """Yield the requests of a conversation whose boundary moves once, in the middle."""
    for at in range(count):
        is_masked = at >= count // 2
        yield {
            **bill(4, 3 if is_masked else 4),
            "conversation_id": "a",
            "client": "pi",
            "model": "m",
            "tool_results": at,
            "request_tokens_before": 900 + at,
            "request_tokens_after": 900 - at * is_masked,
            "composition": {"tools": 600, "user": 300 - at * is_masked},
            "masked": at // 2 if is_masked else 0,
            "boundary_moved": at == count // 2,
            "result_reasons": [
                *([(at // 2, "masked")] if is_masked else []),
                (at - at // 2 if is_masked else at, "in_window"),
            ],
            **fields,
        }


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as client:
        browser = client.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def server() -> Iterator[PageServer]:
    server = PageServer(PageSettings(), lambda: RUN, lambda *_: None)
    yield server
    server.close()


@pytest.fixture
def page(browser: "Browser", server: PageServer) -> Iterator["Page"]:
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert [] == [line for line in said if "ERR_" not in line], "no policy is violated, no error"
    strangers = [url for url in asked if not url.startswith((server.url, "data:"))]
    assert [] == strangers, "no request leaves the machine"
    page.close()


def see(page: "Page", place: str, text: str) -> None:
    """Wait until an element has a text."""
    told = json.dumps([place, text])
    page.wait_for_function(
        f"() => {{ const [place, text] = {told};"
        " return document.getElementById(place).textContent.includes(text); }",
        timeout=300_000,
    )


def find_violations(page: "Page") -> list[str]:
    """Return what axe-core finds, in a line each."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((told) => told.violations)")
    return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]


def test_it_fills_while_a_session_plays(page: "Page", server: PageServer) -> None:
    page.goto(server.url)
    see(page, "connection", "connected")
    see(page, "net", "No requests yet")
    see(page, "start", "obsmask run --proxy 127.0.0.1:8081 -- claude")
    for at, fields in enumerate(session(20), 1):
        server.add(record(**fields))
        if at in (1, 20):
            see(page, "line", f"{at} request{'s' if at > 1 else ''}; ")
    see(page, "net", "$10.00 (12%) saved")
    see(page, "one", "In the last request: 9 masked, 10 in window.")
    see(page, "one", "Moves of the boundary")
    parts = page.get_by_role("region", name="What the prompts are composed of")
    assert ["tool schemas600 (68%)12,000 (67%)", "user281 (32%)5,855 (33%)"] == (
        parts.locator("tbody tr").all_text_contents()
    )
    assert 1 == page.locator("#rows tr").count()


def test_a_move_that_has_just_been_paid_for_is_no_lasting_loss(
    page: "Page", server: PageServer
) -> None:
    fields = {"conversation_id": "a", "client": "pi", "prompt_tokens": 60, "price_read_ratio": 0.1}
    sizes = {"request_tokens_before": 100, "request_tokens_after": 60, "masked": 1}
    server.add(record(**bill(4, 4), **fields))
    server.add(record(**bill(4, 12), **fields, **sizes, boundary_moved=True))
    page.goto(server.url)
    see(page, "net", "$8.00 (100%) lost so far")
    see(page, "line", "masking more has just rebuilt the cache; that breaks even in about 2 more")
    see(page, "rows", "-$8.00 (-100%)")


QUICK = ((400, 390, "dark"), (400, 1_300, "light"))


@pytest.mark.parametrize(
    ("count", "width", "scheme"),
    [
        pytest.param(
            *case,
            id="{} requests-{}-{}".format(*case),
            marks=() if case in QUICK else pytest.mark.thorough,
        )
        for case in product((0, 3, 400), (390, 1_300), ("light", "dark"))
    ],
)
def test_everybody_can_read_it(
    page: "Page", server: PageServer, count: int, width: int, scheme: Literal["light", "dark"]
) -> None:
    for fields in session(count):
        server.add(record(**fields))
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(server.url)
    see(page, "one" if count else "connection", "What became of" if count else "connected")
    assert 0 == page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert [] == find_violations(page)


def test_groups_labels_and_conversations_that_would_not_fit_are_shown(
    page: "Page", server: PageServer
) -> None:
    unfit = {"model_window_tokens": 800, "fits_unmasked": False, "masked": 1}
    out = {"masking": "observed", "group": "holdout"}
    conversations: Sequence[Mapping[str, object]] = (
        *({}, {"label": "web"}),
        *(out, {**unfit, "rereads": 1}),
    )
    for at, fields in enumerate(conversations):
        server.add(record(**{**next(session(1)), "conversation_id": f"c{at}", **fields}))
    page.goto(server.url)
    see(page, "unfit", "1 conversation no longer fits its model without masking")
    see(page, "notes", "1 call repeated one whose result was masked.")
    see(page, "verdict", "Cannot tell yet: 0 held-out conversations compared so far;")
    assert 1 == page.get_by_text("label: web").count()
    assert [] == find_violations(page)


def test_what_was_only_observed_or_sent_once_more_is_told(page: "Page", server: PageServer) -> None:
    for fields in ({"masking": "observed"}, {"resent": "accepted"}, {"status": 529}):
        server.add(record(**{**next(session(1)), **fields}))
    page.goto(server.url)
    see(page, "notes", "1 request sent again whole after a 400 (1 accepted).")
    see(page, "one", "Of these, 1 request left as the agent wrote them")
    page.get_by_text("Every request, as a table").click()
    see(page, "one", "refused masked, and sent whole: accepted")
    see(page, "one", "failed: 529")


def test_what_the_provider_cleared_is_told(page: "Page", server: PageServer) -> None:
    asked = {"clearing": "asked", "cleared_tool_uses": 4, "cleared_tokens": 900, "masked": 4}
    for fields in (asked, {"clearing": "refused", "resent": "accepted"}):
        server.add(record(**{**next(session(1)), **fields}))
    page.goto(server.url)
    see(page, "notes", "2 requests asked the provider to clear; 900 tokens cleared in all")
    page.get_by_text("Every request, as a table").click()
    see(page, "one", "results cleared by the provider")
    see(page, "one", "refused to clear, and sent without asking: accepted")


def test_the_keyboard_alone_leads_through_it(page: "Page", server: PageServer) -> None:
    for name in ("a", "b"):
        for fields in session(6, conversation_id=name):
            server.add(record(**fields))
    page.goto(server.url)
    see(page, "one-title", "Conversation 2")
    page.get_by_role("link", name="1: pi").focus()
    page.keyboard.press("Enter")
    see(page, "one-title", "Conversation 1")
    page.locator("canvas[role=img][tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    see(page, "one", "Request 3, result 2: in window: in one of the last tool turns")


def test_names_stay_text(page: "Page", server: PageServer) -> None:
    for fields in session(3, client=HOSTILE, model=HOSTILE, label=HOSTILE, passed_through=HOSTILE):
        server.add(record(**fields))
    page.goto(server.url)
    see(page, "rows", HOSTILE)
    see(page, "one", HOSTILE)
    assert 0 == page.locator("img").count()


def test_a_hundred_conversations_keep_their_places(page: "Page", server: PageServer) -> None:
    for at in range(100):
        server.add(record(conversation_id=f"c{at}", client="pi"))
    page.goto(server.url)
    see(page, "counted", "100 conversations")
    server.add(record(conversation_id="c5", client="pi"))
    page.wait_for_function("() => [...document.querySelectorAll('#rows tr')]"
                           ".at(-6).children[1].textContent === '2'")  # fmt: skip
    assert "100: pi" == page.locator("#rows a").first.text_content()


def test_it_says_when_the_proxy_has_stopped(page: "Page", server: PageServer) -> None:
    server.add(record(conversation_id="b", client="codex"))
    server.add(record(conversation_id="a", client="pi"))
    page.goto(server.url)
    see(page, "rows", "pi")
    see(page, "one", "Moves of the boundary")
    server.close()
    see(page, "connection", "the proxy has stopped")
    see(page, "rows", "pi")
    see(page, "one", "Moves of the boundary")
    page.get_by_role("link", name="1: codex").click()
    see(page, "one", "Its details can't be loaded any more")


def test_it_finds_a_proxy_that_was_started_again_on_its_port(
    page: "Page", server: PageServer
) -> None:
    server.add(record(conversation_id="a", client="pi"))
    page.goto(server.url)
    see(page, "rows", "pi")
    server.close()
    see(page, "connection", "the proxy has stopped")
    again = PageServer(PageSettings(port=server.port), lambda: RUN, lambda *_: None)
    again.add(record(conversation_id="b", client="codex"))
    see(page, "connection", "connected")
    see(page, "rows", "codex")
    assert ["1: codex"] == page.locator("#rows a").all_text_contents()
    again.close()


# The history


YEAR = 5_000
FOLDERS = ("api", "web", HOSTILE)


def make_sessions(count: int) -> Iterator[Session]:
    """Yield sessions over a year, the oldest first."""
    now = datetime.now(UTC)
    for number in range(count):
        last = now - timedelta(days=365 * (count - 1 - number) / count)
        yield Session(
            session=f"session-{number}",
            writer="w.1",
            began=(last - timedelta(minutes=30)).isoformat(timespec="milliseconds"),
            last=last.isoformat(timespec="milliseconds"),
            agent="pi" if number % 2 else "claude-cli",
            models=("m",) if number % 5 else ("n",),
            host="h",
            folder=FOLDERS[number % 3],
            requests=10,
            results=9,
            masked=5,
            prompt=100,
            cached=90,
            waits=(1.5,),
            bill=Bill(tokens=Money(10, 4e6, 3e6), dollars=Money(10, 4.0, 3.0, Margin(0.1))),
        )


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "observation-masking"


@pytest.fixture
def history(state: Path) -> Iterator[PageServer]:
    server = PageServer(
        PageSettings(),
        None,
        lambda *_: None,
        History(lambda: state, lambda: state / "requests.jsonl"),
    )
    yield server
    server.close()


def count_rows(page: "Page") -> int:
    count: int = page.evaluate("document.querySelectorAll('#rows tr:not(.day)').length")
    return count


def test_a_year_of_sessions_is_listed_filtered_sorted_and_scrolled(
    browser: "Browser", state: Path, history: PageServer
) -> None:
    write_sessions(state, make_sessions(YEAR))
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(history.url)
    page.select_option("#since", "")
    see(page, "counted", "5,000 sessions.")
    see(
        page, "line", "5,000 sessions, 50,000 requests; input cost $15,000, without masking $20,000"
    )
    assert 100 == count_rows(page)

    page.evaluate("place('list').scrollTop = place('list').scrollHeight")
    page.wait_for_function("() => document.querySelectorAll('#rows tr:not(.day)').length > 150")

    page.fill("#search", "web")
    page.select_option("#agent", "pi")
    page.select_option("#model", "n")
    wanted = [n for n in range(YEAR) if n % 3 == 1 and n % 2 and not n % 5]
    see(page, "counted", f"{len(wanted)} of 5,000 sessions.")
    page.click("#head button:has-text('Session')")
    assert f"session-{wanted[0]}" == page.get_attribute("#rows tr:not(.day)", "data-key")

    assert [] == said
    assert [] == find_violations(page)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_session_is_shown_from_its_records_or_from_its_row(
    browser: "Browser",
    state: Path,
    history: PageServer,
    scheme: Literal["light", "dark"],
    width: int,
) -> None:
    write_records(state / "requests.jsonl", *session(6, session="kept"))
    with closing(open_history(lambda: state, lambda: state / "requests.jsonl")) as store:
        store.read(lambda _: None)
    write_sessions(state, make_sessions(1))
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(f"{history.url}history#kept")
    see(page, "one", "Moves of the boundary")
    page.evaluate("location.hash = 'session-0'")
    see(page, "one", "The records of its requests are gone")
    assert width == page.evaluate("document.documentElement.scrollWidth")
    assert [] == find_violations(page)
    page.close()


def test_sessions_that_go_on_are_kept_up_to_date(
    browser: "Browser", state: Path, history: PageServer
) -> None:
    write_sessions(state, make_sessions(150))
    page = browser.new_page()
    page.goto(history.url)
    page.select_option("#since", "")
    see(page, "counted", "150 sessions.")
    page.locator("#rows a").first.focus()
    log = SessionLog(lambda: state, lambda *_: None, writer="w")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    log.add(record(session="new", client="codex", time=now, **bill(4, 3)))
    log.close()
    see(page, "counted", "151 sessions.")
    see(page, "rows", "codex")
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    assert "#session-149" == focused, "who reads on is not disturbed"
    page.close()


def test_without_a_session_it_says_how_to_get_one(browser: "Browser", history: PageServer) -> None:
    page = browser.new_page()
    page.goto(history.url)
    see(page, "net", "No session yet")
    see(page, "start", "obsmask run -- claude")
    assert page.is_visible("#start")
    assert [] == find_violations(page)
    page.close()
