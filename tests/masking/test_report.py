"""The page shows sums of its requests, asks for nothing else, and no name breaks out of it."""

import base64
import dataclasses
import hashlib
import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

import pytest

from masking.accounting.cost import Bill
from masking.accounting.margin import NO_MARGIN
from masking.measures.price_settings import CachePricing, PriceSettings
from masking.measures.tokens import TokenCounter
from masking.model import ChangeReason, ChatMessage, KeepReason, Reason
from masking.replay.boundary_moves import Value, find_moves
from masking.replay.comparison import Comparison, compare
from masking.replay.replay import RecordedRequest, ReplayedRequest, ReplaySettings
from masking.replay.reread import Rereads
from masking.report.page import LETTERS, render_report
from masking.strategies.policy import MaskPolicy
from masking.wire.usage import Usage
from tests.builders import OLD, policy, turn

COUNTER = TokenCounter()
POLICY = MaskPolicy(True, 3, skip_if_not_shorter=True)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICIES = ("everything", "sliding", "chosen")
HOSTILE = "</script><script>alert(1)</script><!--<script> '\"`${1} $data \u2028\u2029\ud800 &lt; é"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def in_tokens(bill: Bill) -> float:
    return bill.cost


def in_dollars(bill: Bill) -> float:
    assert bill.dollars is not None
    return bill.dollars


@dataclass(frozen=True)
class Talk:
    """A conversation of so many tool turns, one request each and a first one; a `Session`."""

    turns: int = 14
    name: str = "a talk"
    model: str | None = "gpt-4o"
    usage: Usage | None = None
    content: str = OLD * 10

    def requests(self) -> Iterator[RecordedRequest]:
        messages: list[ChatMessage] = [{"role": "user", "content": "go " * 600}]
        for number in range(self.turns + 1):
            body = {"model": self.model, "messages": messages}
            when = NOON + timedelta(seconds=number)
            yield RecordedRequest(body=json.dumps(body).encode(), when=when, usage=self.usage)
            messages = [*messages, *turn(f"call_{number}", f"{number} {self.content}")]


@cache
def replayed(
    talk: Talk, pricing: CachePricing = (0.5, 1.0), masks: MaskPolicy = POLICY
) -> Comparison:
    (found,) = compare(
        talk, ReplaySettings(policy=masks, price_settings=PriceSettings(pricing)), COUNTER
    )
    return found


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


def shown(*comparisons: Comparison) -> dict[str, Any]:
    return Page(render_report(comparisons)).data


def conversation(*args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - as `replayed`
    found: dict[str, Any] = shown(replayed(*args, **kwargs))["conversations"][0]
    return found


def bills(comparison: Comparison) -> dict[str, list[Bill]]:
    return {
        "everything": [request.entry.cost.before for request in comparison.chosen],
        "sliding": [request.entry.cost.after for request in comparison.sliding],
        "chosen": [request.entry.cost.after for request in comparison.chosen],
    }


# The numbers.


@pytest.mark.parametrize(
    ("model", "unit", "value"),
    [
        pytest.param("gpt-4o", "usd", in_dollars, id="a price that is known"),
        pytest.param("nobody's", "input_tokens", in_tokens, id="a price that is not known"),
        pytest.param(None, "input_tokens", in_tokens, id="no model"),
    ],
)
def test_the_series_are_those_of_the_steps(model: str | None, unit: str, value: Value) -> None:
    talk = Talk(model=model)
    actual = conversation(talk)
    assert unit == actual["unit"]
    assert [model or ""] == actual["models"]
    for policy_name, expected in bills(replayed(talk)).items():
        series = actual["series"][policy_name]
        assert [bill.prompt for bill in expected] == series["prompt"]
        assert [bill.cached for bill in expected] == series["cached"]
        assert [value(bill) for bill in expected] == pytest.approx(series["cost"], abs=1e-8)


def test_fractions_of_tokens_are_rounded_to_tenths() -> None:
    series = conversation(Talk(usage=Usage(prompt=10_000)))["series"]["chosen"]["prompt"]
    assert series == [round(number, 1) for number in series]
    assert any(number % 1 for number in series)


def test_a_conversations_sums_are_those_of_its_steps() -> None:
    actual = conversation(Talk())["sums"]
    expected = bills(replayed(Talk()))
    assert len(expected["chosen"]) == actual["requests"]
    assert round(sum(bill.prompt for bill in expected["everything"])) == actual["tokens_before"]
    assert round(sum(bill.prompt for bill in expected["chosen"])) == actual["tokens_after"]
    assert {name: sum(map(in_dollars, each)) for name, each in expected.items()} == actual["cost"]


def test_the_worst_moment_is_the_highest_bill_beside_that_of_everything() -> None:
    found = bills(replayed(Talk(), "none"))
    chosen, everything = (
        accumulate(map(in_tokens, found[name])) for name in ("chosen", "everything")
    )
    excess = [paid / full - 1 for paid, full in zip(chosen, everything, strict=True)]
    actual = conversation(Talk(), "none")["sums"]
    assert max(excess) > 0.1
    assert (max(excess), excess.index(max(excess))) == (actual["worst"], actual["worst_at"])


def test_a_request_without_tokens_is_no_loss() -> None:
    comparison = replayed(Talk(turns=0))
    nothing = Bill(0.0, 0.0, 0.0, 0.0)
    (request,) = comparison.chosen
    cost = dataclasses.replace(request.entry.cost, before=nothing, after=nothing)
    entry = dataclasses.replace(request.entry, cost=cost, moved=True)
    empty = dataclasses.replace(comparison, chosen=(dataclasses.replace(request, entry=entry),))
    (actual,) = shown(empty)["conversations"]
    assert 0 == actual["sums"]["worst"]
    assert 0 == actual["moves"][0]["price"] == actual["moves"][0]["paid"]


def test_rereads_and_quotes_are_told_by_policy_and_of_all_calls() -> None:
    found = dataclasses.replace(
        replayed(Talk()),
        sliding_rereads=Rereads(calls=15, either=3, quoted=2),
        chosen_rereads=Rereads(calls=15, either=1),
    )
    actual = shown(found, found)
    assert {"everything": 0, "sliding": 6, "chosen": 2} == actual["total"]["rereads"]
    assert {"everything": 0, "sliding": 4, "chosen": 0} == actual["total"]["quotes"]
    assert (30, 15) == (actual["total"]["calls"], actual["conversations"][0]["sums"]["calls"])


@pytest.mark.parametrize(
    ("models", "unit"),
    [
        pytest.param(("gpt-4o", "gpt-4o-mini"), "usd", id="all prices known"),
        pytest.param(("gpt-4o", "nobody's"), "input_tokens", id="one price not known"),
    ],
)
def test_the_total_is_in_one_unit_and_each_conversation_in_its_own(
    models: tuple[str, str], unit: str
) -> None:
    actual = shown(*(replayed(Talk(turns=8 + n, model=m)) for n, m in enumerate(models)))
    assert unit == actual["unit"]
    assert ["usd", unit] == [each["unit"] for each in actual["conversations"]]
    sums = [each["sums"] for each in actual["conversations"]]
    for key in ("requests", "tokens_before", "tokens_after"):
        assert sum(each[key] for each in sums) == actual["total"][key]
    for name in POLICIES:
        assert sum(each["cost"][name] for each in sums) == actual["total"]["cost"][name]
    assert max(each["worst"] for each in sums) == actual["total"]["worst"]


def test_what_the_provider_reported_is_told() -> None:
    reported = conversation(Talk(usage=Usage(prompt=5_000, cached=1_024)))
    assert (15, 0) == (reported["reported"], conversation(Talk())["reported"])


def test_prices_are_told_with_their_source() -> None:
    assert [[0.1, 1.25, "config"]] == conversation(Talk(), (0.1, 1.25))["prices"]
    assert [[0.5, 1.0, "price list"]] == conversation(Talk(), "auto")["prices"]
    assumed = conversation(Talk(model=None), "auto")
    assert [[0.1, 1.25, "assumed"]] == assumed["prices"]
    assert (15, 0) == (assumed["assumed"], conversation(Talk(), "auto")["assumed"])


def test_what_was_saved_is_told_with_its_margin() -> None:
    talk = Talk(usage=Usage(prompt=9_000, cached=0))
    actual = shown(replayed(talk), replayed(talk))
    requests = replayed(talk).chosen
    expected = sum(
        (request.entry.cost.dollar_margin for request in requests), start=NO_MARGIN
    ).width
    sums = actual["conversations"][0]["sums"]
    assert expected == pytest.approx(sums["error"]["chosen"])
    assert 0 == sums["error"]["everything"] < expected
    assert 2 * expected == pytest.approx(actual["total"]["error"]["chosen"])


# The masking map.


def spelled_out(row: str) -> str:
    return re.sub(r"(\d+)(\D)", lambda run: int(run[1]) * run[2], row)


def test_the_map_spells_every_result_of_every_request() -> None:
    actual = shown(replayed(Talk()))
    (found,) = actual["conversations"]
    expected = [request.reasons for request in replayed(Talk()).chosen]
    rows = [[actual["reasons"][letter] for letter in spelled_out(row)] for row in found["map"]]
    assert [list(reasons) for reasons in expected] == rows
    assert {"masked", "held", "in_window"} <= {reason for row in rows for reason in row}


def test_every_reason_has_a_letter_of_its_own() -> None:
    assert {*get_args(ChangeReason), *get_args(KeepReason)} == {*LETTERS}
    assert len(LETTERS) == len({*LETTERS.values()})
    assert all(letter.isalpha() and len(letter) == 1 for letter in LETTERS.values())


@pytest.mark.parametrize("reason", LETTERS)
def test_every_reason_has_a_colour_and_a_text(reason: Reason) -> None:
    page = Page(render_report(()))
    assert re.search(rf"--{reason}: #[0-9a-f]{{6}};", page.texts["style"][0])
    assert re.search(rf"^  {reason}: \"", page.texts["script"][1], re.MULTILINE)


# The moves.


def test_moves_are_told_where_more_is_masked_than_before() -> None:
    requests = replayed(Talk()).chosen
    masked = [sum(reason == "masked" for reason in request.reasons) for request in requests]
    expected = [
        (place, after - before)
        for place, (before, after) in enumerate(zip([0, *masked], masked, strict=False))
        if after > before
    ]
    moves = conversation(Talk())["moves"]
    assert len(moves) > 1
    assert expected == [(move["request"], move["results"]) for move in moves]


@pytest.mark.parametrize("value", [in_tokens, in_dollars])
@pytest.mark.parametrize("pricing", [(0.5, 1.0), (0.1, 1.25), "none", (1.0, 1.0)])
def test_the_nets_of_all_moves_are_what_was_saved(value: Value, pricing: CachePricing) -> None:
    requests = replayed(Talk(), pricing).chosen
    costs = [request.entry.cost for request in requests]
    saved = sum(value(cost.before) - value(cost.after) for cost in costs)
    assert saved == pytest.approx(sum(move.net for move in find_moves(requests, value)))


def test_a_moves_price_is_what_writing_anew_costs_beyond_reading() -> None:
    requests = replayed(Talk(), (0.4, 1.25)).chosen
    move, *_ = find_moves(requests, in_tokens)
    before, after = (requests[place].entry.cost for place in (move.request - 1, move.request))
    assert before.after.prompt - after.after.cached == pytest.approx(move.uncached, abs=128)
    assert after.before.prompt - after.after.prompt == move.removed
    assert move.uncached - move.removed == move.rewritten > 0
    assert (1.25 - 0.4) * move.rewritten == pytest.approx(move.price)
    assert move.price == pytest.approx(move.paid)


def test_without_the_move_that_request_would_have_cost_its_price_less() -> None:
    """What was to be masked would have been read from the cache, and the new part written."""
    requests = replayed(Talk(), (0.4, 1.25)).chosen
    move, *_ = find_moves(requests, in_tokens)
    cost = requests[move.request].entry.cost
    unmoved = 0.4 * cost.before.cached + 1.25 * (cost.before.prompt - cost.before.cached)
    moved = cost.after.cost
    assert unmoved + move.price - 0.4 * move.removed == pytest.approx(moved)


def test_a_move_has_paid_off_when_it_has_saved_its_price() -> None:
    requests = replayed(Talk(), (0.5, 1.0)).chosen
    move, *later = find_moves(requests, in_tokens)
    assert move.repaid_at is not None
    assert later
    saved = [request.entry.cost.saved for request in requests[: later[0].request]]
    expected = next(n for n, net in enumerate(accumulate(saved)) if n >= move.request and net >= 0)
    assert expected == move.repaid_at
    assert move.net > 0


def test_a_move_that_has_not_paid_off_says_so() -> None:
    move = find_moves(replayed(Talk(), "none").chosen, in_tokens)[-1]
    assert move.net < 0
    assert move.repaid_at is None


def test_what_no_cache_held_is_no_price_of_a_move() -> None:
    nothing_cached = Talk(usage=Usage(prompt=8_000, cached=0))
    moves = find_moves(replayed(nothing_cached).chosen, in_tokens)
    assert moves
    assert {0.0} == {move.price for move in moves} == {move.uncached for move in moves}


def test_a_first_request_that_is_masked_moves_for_nothing() -> None:
    requests = replayed(Talk()).chosen[-1:]
    entry = dataclasses.replace(requests[0].entry, moved=True)
    first: ReplayedRequest = dataclasses.replace(requests[0], entry=entry)
    (move,) = find_moves([first], in_tokens)
    assert (0, sum(r == "masked" for r in first.reasons)) == (move.request, move.results)
    assert (0.0, 0) == (move.price, move.repaid_at)


def test_placeholders_that_are_longer_still_have_a_share() -> None:
    longer = policy(POLICY, placeholder_template="longer " * 900, skip_if_not_shorter=False)
    moves = find_moves(replayed(Talk(turns=6), "none", longer).chosen, in_tokens)
    assert moves
    assert all(move.removed < 0 and move.net < 0 for move in moves)


# The page.


def test_no_name_breaks_out() -> None:
    page = Page(render_report([replayed(Talk(name=HOSTILE, model=HOSTILE))]))
    (found,) = page.data["conversations"]
    assert (HOSTILE, [HOSTILE]) == (found["name"], found["models"])
    plain = Page(render_report([replayed(Talk())]))
    assert plain.elements == page.elements
    assert plain.texts["script"][1] == page.texts["script"][1]
    assert page.page.count("alert(1)") == 2
    assert "<script>alert" not in page.page
    assert page.texts["script"][0].isascii()


def test_the_page_asks_for_nothing_else() -> None:
    page = Page(render_report([replayed(Talk())]))
    targets = [
        target
        for _, attributes in page.elements
        for name, target in attributes.items()
        if name in {"src", "href", "srcset", "action", "data", "poster", "ping"}
    ]
    assert ["data:,", "#method"] == targets
    assert not re.search(r"url\(|@import", page.texts["style"][0])
    assert not re.search(r"fetch|XMLHttp|import\(|innerHTML|eval|Image\(", page.texts["script"][1])


def test_only_this_style_and_this_script_may_run() -> None:
    page = Page(render_report([replayed(Talk())]))
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


def test_nothing_to_show_is_no_error() -> None:
    empty = dataclasses.replace(replayed(Talk()), chosen=(), sliding=())
    assert render_report(()) == render_report([empty])
    assert [] == shown()["conversations"]
    assert 0 == shown()["total"]["requests"]


def test_a_conversation_without_tool_results_has_an_empty_map() -> None:
    actual = conversation(Talk(turns=0))
    assert ([""], []) == (actual["map"], actual["moves"])
    assert actual["sums"]["cost"]["chosen"] == actual["sums"]["cost"]["everything"]


def test_a_long_conversation_is_not_a_large_page() -> None:
    found = replayed(Talk(turns=120, content=OLD * 2))
    assert len(render_report([found])) < len(render_report([])) + 400 * 120


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
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in ran.stderr, ran.stderr
    return re.sub(r"<(script|style)\b.*?</\1>", "", ran.stdout, flags=re.DOTALL)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_shows_all_of_it(tmp_path: Path) -> None:
    name = HOSTILE.replace("\ud800", "")  # a browser shows it, but cannot write it to the output
    talks = (Talk(name=name), Talk(turns=0, name="no tools", model="nobody's"))
    comparisons = [replayed(talk) for talk in talks]
    page = browse(tmp_path, render_report(comparisons))
    assert "2 conversations, 16 requests." in page
    assert 2 == page.count("<option")
    assert html.escape(name, quote=False) in page
    assert 1 == page.count("<canvas") == page.count('class="legend"') - 2
    assert 5 == len(re.findall(r'<svg role="img"', page))
    legend = [text.partition(":")[0] for text in re.findall(r"</rect></svg>([^<]+)</li>", page)]
    assert ["cached (pale)", "not cached (full)", "masked", "held", "in_window"] == legend
    for title in ("Bill of each policy", "All conversations: tokens", "Moves of the boundary, and"):
        assert f"<caption>{title}" in page
    tokens = sum(request.entry.cost.before.prompt for request in comparisons[0].chosen)
    assert f"<td>{tokens:,.0f}</td>" in page


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
@pytest.mark.parametrize(
    ("talks", "expected"),
    [
        pytest.param((), "There is nothing to show", id="nothing"),
        pytest.param((Talk(turns=0),), "No request has a tool result.", id="no tool results"),
        pytest.param((Talk(turns=1),), "The boundary has not moved.", id="no moves"),
        pytest.param((Talk(turns=9, model=None),), "unknown model", id="no model"),
    ],
)
def test_a_browser_says_what_there_is_not(
    tmp_path: Path, talks: tuple[Talk, ...], expected: str
) -> None:
    assert expected in browse(tmp_path, render_report([replayed(talk) for talk in talks]))
