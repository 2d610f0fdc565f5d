"""The page asks for nothing else, no name breaks out of it, and a browser shows all of it."""

import base64
import dataclasses
import hashlib
import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

import pytest

from addon.look.pages import read_asset
from addon.records.words import DOLLARS, INPUT_TOKENS, Currency, render_dollars
from addon.replay.report.page import (
    Origin,
    costs_by_policy,
    find_moves,
    render_chart,
    render_report,
)
from addon.replay.report.tables import POLICIES
from addon.version import VERSION
from masking.accounting import NO_BILL, PARTS
from masking.accounting.cost import PromptCost, price_move
from masking.model import REASONS, ChangeReason, KeepReason
from masking.prices import CachePricing
from masking.wire.usage import Usage
from tests.support.builders import OLD
from tests.support.marks import as_one_test
from tests.support.page_parts import find_chart, find_table, list_texts
from tests.support.replays import (
    NOON,
    Comparison,
    Talk,
    add_up,
    replayed,
    settings,
)

HOSTILE = "</script><script>alert(1)</script><!--<script> '\"`${1} {{ data }} \u2028\ud800 &lt; é"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ORIGIN = Origin(created=NOON, version="1.2.3", sources=("a.flow",), settings=settings())


@dataclass
class Page(HTMLParser):
    """What a parser of HTML makes of a page: the elements with their attributes, and its texts."""

    page: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    is_open: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        self.is_open = True

    def handle_endtag(self, tag: str) -> None:
        self.is_open = False

    def handle_data(self, data: str) -> None:
        if self.is_open:
            self.texts[self.elements[-1][0]][-1] += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


def draw(comparison: Comparison) -> str:
    return render_chart(comparison.name, comparison.window_turns, comparison.compared)


def render(*comparisons: Comparison, origin: Origin = ORIGIN) -> str:
    charts = [*map(draw, comparisons)]
    return render_report([*map(add_up, comparisons)], charts, origin)


def rendered(*comparisons: Comparison, sources: tuple[str, ...] = ("a.flow",)) -> Page:
    origin = Origin(created=NOON, version="1.2.3", sources=sources, settings=settings())
    return Page(render(*comparisons, origin=origin))


def test_no_name_breaks_out() -> None:
    hostile = Talk(name=HOSTILE, model=HOSTILE)
    page = rendered(replayed(hostile), sources=(HOSTILE,))
    plain = rendered(replayed(Talk(name="plain", model="nobody's")))
    assert plain.elements == page.elements
    assert plain.texts["script"][1] == page.texts["script"][1]
    assert "<script>alert" not in page.page
    assert page.texts["script"][0].isascii()
    shown = HOSTILE.replace("\u2028", "\ufffd").replace("\ud800", "\ufffd")
    assert shown == page.data["conversations"]["c1"][0]["text"]
    ((name, *_),) = find_table(page.data["places"]["conversations-table"], "All conversations")
    assert {shown} == {name, page.texts["code"][1]}
    page.page.encode()


def test_the_page_asks_for_nothing_else() -> None:
    page = rendered(replayed(Talk()))
    targets = [
        target
        for _, attributes in page.elements
        for name, target in attributes.items()
        if name in {"src", "href", "srcset", "action", "data", "poster", "ping"}
    ]
    (icon,) = targets
    assert (icon or "").startswith("data:image/svg+xml,")
    assert not re.search(r"url\(|@import", page.texts["style"][0])
    assert not re.search(
        r"fetch\(|XMLHttp|import\(|innerHTML|eval\(|Image\(", page.texts["script"][1]
    )


def test_only_this_style_and_this_script_may_run() -> None:
    page = rendered(replayed(Talk()))
    (allowed,) = [
        attributes["content"]
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert allowed is not None
    directives = dict(each.strip().split(" ", 1) for each in allowed.split(";"))
    assert "'none'" == directives["default-src"]
    assert digest(page.texts["style"][0]) == directives["style-src"]
    assert digest(page.texts["script"][1]) == directives["script-src"]
    assert 2 == len(page.texts["script"])
    assert not any("style" in attributes for _, attributes in page.elements)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_says_when_from_what_and_under_which_settings() -> None:
    told = rendered(replayed(Talk()), sources=("one.flow", "two.jsonl"))
    page = told.page
    assert "June 1, 2026, 12:00 UTC." in page
    assert f"observation-masking {VERSION} from" in page
    assert "<code>one.flow</code>, <code>two.jsonl</code>." in page
    assert ["window_turns", "3"] in find_table(told.data["places"]["settings-table"], "Settings")


@pytest.mark.parametrize(
    ("pricing", "expected"),
    [
        ("auto", ["Prices are assumed for 15 of 15 requests: see prices and settings."]),
        ((0, 1), []),
    ],
)
def test_assumed_prices_are_shown_first(pricing: CachePricing, expected: list[str]) -> None:
    page = rendered(replayed(Talk(model="nobody's"), pricing)).page
    warnings = re.findall(r'<p class="warning">(Prices.*?)</p>', page)
    assert expected == [re.sub("<.*?>", "", warning) for warning in warnings]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(1, ["One conversation was recorded"], id="one"),
        pytest.param(2, ["2 conversations were recorded"], id="two"),
    ],
)
def test_recordings_that_were_masked_already_are_named_first(
    count: int, expected: list[str]
) -> None:
    whole = replayed(Talk())
    masked = tuple(
        dataclasses.replace(request, reasons=("already_masked",)) for request in whole.sliding
    )
    before = dataclasses.replace(whole, sliding=masked)
    page = rendered(*[before] * count, *[whole] * (2 - count)).page
    assert expected == re.findall(r'<p class="warning">(.* recorded)\n', page)


@as_one_test
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_a_colour(reason: str) -> None:
    assert re.search(rf"--{reason}: #[0-9a-f]{{6}};", read_asset("look.css").decode())


def test_every_part_of_a_prompt_has_a_colour() -> None:
    style = read_asset("look.css").decode()
    assert all(re.search(rf"--part-{part}: #[0-9a-f]{{6}};", style) for part in PARTS)


def test_the_chart_library_comes_with_its_licence() -> None:
    assert b"uPlot (v1.6.32)" in read_asset("uPlot.iife.min.js")
    assert b"The MIT License" in read_asset("uPlot.LICENSE")


def test_a_long_conversation_is_not_a_large_page() -> None:
    short, long = (replayed(Talk(turns=turns, content=OLD * 2)) for turns in (0, 60))
    assert len(render(long)) < len(render(short)) + 400 * 60


# In a browser.


def browse(tmp_path: Path, page: str) -> str:
    """Return the page as a browser has it in the end, but for scripts and style.

    What the browser complains of fails the test.
    """
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    switches = "headless no-sandbox disable-gpu disable-quic no-first-run disable-sync dump-dom"
    quiet = "disable-background-networking disable-component-update enable-logging=stderr v=0"
    ran = subprocess.run(
        [
            str(CHROMIUM),
            *(f"--{switch}" for switch in (*switches.split(), *quiet.split())),
            f"--user-data-dir={tmp_path / 'profile'}",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CONSOLE" not in ran.stderr, ran.stderr
    return re.sub(r"<(script|style)\b.*?</\1>", "", ran.stdout, flags=re.DOTALL)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_shows_all_of_it(tmp_path: Path) -> None:
    talks = (Talk(name=HOSTILE), Talk(turns=0, name="no tools", model="nobody's"))
    comparisons = [replayed(talk) for talk in talks]
    page = browse(tmp_path, render(*comparisons))
    name = HOSTILE.replace("\u2028", "\ufffd").replace("\ud800", "\ufffd")
    assert f"<h3>{html.escape(name, quote=False)}</h3>" in page
    assert 5 == page.count('<div class="chart" role="img" tabindex="0" aria-label="')
    assert 6 == page.count("<canvas")
    legend = re.findall(r'<span class="mark \w+" aria-hidden="true"[^>]*></span>([^<:]+):', page)
    assert ["masked", "in window", "held"] == legend
    for title in (
        "Bill of each policy",
        "All conversations: tokens",
        "Prices of",
        "Settings",
        "Moves of",
    ):
        assert f"<caption>{title}" in page
    tokens = sum(request.entry.cost.before.prompt for request in comparisons[0].chosen)
    assert f"{tokens:,.0f} tokens in all" in page


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_says_what_is_missing(tmp_path: Path) -> None:
    page = browse(tmp_path, render(replayed(Talk(turns=0, model=None))))
    missing = ("No request has a tool result.", "The boundary has not moved.", "an unknown model")
    assert [1, 1, 1] == [page.count(each) for each in missing]


def described(comparison: Comparison) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(draw(comparison))
    return found


@pytest.mark.parametrize(
    ("model", "currency"),
    [
        pytest.param("gpt-4o", DOLLARS, id="a price that is known"),
        pytest.param("nobody's", INPUT_TOKENS, id="a price that is not known"),
        pytest.param(None, INPUT_TOKENS, id="no model"),
    ],
)
def test_the_series_are_those_of_the_requests(model: str | None, currency: Currency) -> None:
    comparison = replayed(Talk(model=model))
    parts, costs = described(comparison), costs_by_policy(comparison.compared, currency)
    for title, sums in (("Bill of each request", list), ("Bill so far", accumulate)):
        chart = find_chart(parts, title)
        assert currency.name == chart["unit"]
        for series in chart["series"]:
            expected = [*sums(costs[series["mark"]])]
            assert expected == pytest.approx(
                series["values"], abs=1e-8 if currency.is_dollars else 1e-2
            )
            assert [currency.render_bare(each) for each in expected] == series["texts"]
    prompts = {
        "everything": [each.entry.bill.prompt_before for each in comparison.chosen],
        "sliding": [each.entry.bill.prompt_after for each in comparison.sliding],
        "chosen": [each.entry.bill.prompt_after for each in comparison.chosen],
    }
    for key, name, _ in POLICIES:
        prompt, cached = find_chart(parts, name)["series"]
        assert [each.total for each in prompts[key]] == prompt["values"]
        assert [f"{each.read:,.0f}" for each in prompts[key]] == cached["texts"]


def test_fractions_of_tokens_are_rounded_to_tenths() -> None:
    parts = described(replayed(Talk(usage=Usage(prompt=10_000))))
    series = find_chart(parts, "Chosen settings")["series"][0]["values"]
    assert series == [round(number, 1) for number in series]
    assert any(number % 1 for number in series)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (0, "15 requests to gpt-4o; window of 3 turns; cached tokens simulated."),
        (15, "15 requests to gpt-4o; window of 3 turns; cached tokens as the provider reported"),
        (1, "cached tokens as reported for 1 request, simulated for the others."),
    ],
)
def test_it_tells_what_is_known_of_the_cache(reported: int, expected: str) -> None:
    whole = replayed(Talk(usage=Usage(prompt=5_000, cached=1_024))).chosen
    simulated = replayed(Talk()).chosen
    chosen = (*whole[:reported], *simulated[reported:])
    _, about, *_ = list_texts(described(dataclasses.replace(replayed(Talk()), chosen=chosen)))
    assert expected in about


def test_a_request_without_a_model_is_to_an_unknown_one() -> None:
    _, about, *_ = list_texts(described(replayed(Talk(model=None))))
    assert "to an unknown model;" in about


def test_moves_are_told_with_what_they_have_saved() -> None:
    comparison = replayed(Talk())
    moves = find_moves(comparison.chosen, DOLLARS)
    *rows, _ = find_table(described(comparison), "Moves of the boundary")
    assert len(moves) > 1
    assert [[f"{move.request + 1}", render_dollars(move.net)] for move in moves] == [
        [row[0], row[-1]] for row in rows
    ]


def test_a_move_that_costs_nothing_has_no_price() -> None:
    comparison = replayed(Talk(turns=0))
    nothing = PromptCost(0.0, 0.0, 0.0, 0.0)
    (request,) = comparison.chosen
    cost = dataclasses.replace(request.entry.cost, before=nothing, after=nothing)
    move = price_move(None, cost, request.pricing)
    entry = dataclasses.replace(request.entry, bill=NO_BILL, move=move)
    (described_move,) = find_moves([dataclasses.replace(request, entry=entry)], INPUT_TOKENS)
    assert 0 == described_move.price


def test_the_map_spells_every_result_of_every_request() -> None:
    expected = [list(request.reasons) for request in replayed(Talk()).chosen]
    (found,) = [part for part in described(replayed(Talk())) if part["part"] == "map"]
    rows = [[reason for count, reason in row for _ in range(count)] for row in found["rows"]]
    assert expected == rows
    assert {"masked", "held", "in_window"} == {reason for row in rows for reason in row}
    assert {"masked", "held", "in_window"} == found["reasons"].keys()
    assert "in window: in one of the last tool turns" == found["reasons"]["in_window"]
    assert len(rows[-1]) == found["columns"]


def test_a_conversation_without_tool_results_has_no_map_and_no_moves() -> None:
    texts = list_texts(described(replayed(Talk(turns=0))))
    assert {"No request has a tool result.", "The boundary has not moved."} <= {*texts}


def test_every_reason_is_explained() -> None:
    assert {*get_args(ChangeReason), *get_args(KeepReason)} == {*REASONS}
