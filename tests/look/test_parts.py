"""The parts of pages: their axes, their columns, and that scripts put nothing into words."""

import re

import pytest

from addon.commands.log_answer import COLUMNS as LOGS
from addon.look.pages import ASSETS, read_asset
from addon.look.parts import Series, chart, render_compact, render_on_axis
from addon.page.describe import COLUMNS as LIVE
from addon.page.history import COLUMNS as HISTORY
from addon.records.words import DOLLARS, INPUT_TOKENS, Currency
from tests.support.marks import as_one_test

BELOW = ["-$3.00", "-$2.00", "-$1.00", "$0", "$1.00", "$2.00"]


@as_one_test
@pytest.mark.parametrize(
    ("values", "currency", "ticks"),
    [
        pytest.param([0.0], DOLLARS, ["$0"], id="nothing"),
        pytest.param([0.04, 1.07], DOLLARS, ["$0", "$0.50", "$1.00"], id="dollars"),
        pytest.param([0.012], DOLLARS, ["$0", "$0.005", "$0.01"], id="cents"),
        pytest.param([-3.0, 2.0], DOLLARS, BELOW, id="below 0"),
        pytest.param([2e4], INPUT_TOKENS, ["0", "5K", "10K", "15K", "20K"], id="tokens"),
    ],
)
def test_an_axis_has_round_values(
    values: list[float], currency: Currency, ticks: list[str]
) -> None:
    series = Series("saved", "chosen", values, ["x"] * len(values))
    drawn = chart("Title", "Note.", [series], unit="", render=render_on_axis(currency))
    assert ticks == [text for _, text in drawn["ticks"]]
    low, high = drawn["range"]
    assert all(low <= value <= high for value in (*values, 0.0))
    assert low < high


@as_one_test
@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0"), (950, "950"), (20_000, "20K"), (1_500_000, "1.5M"), (2e9, "2B"), (-20_000, "-20K")],
)
def test_counts_beside_an_axis_are_short(count: float, expected: str) -> None:
    assert expected == render_compact(count)


@pytest.mark.parametrize("columns", [LOGS, LIVE, HISTORY], ids=["logs", "live", "history"])
def test_a_narrow_screen_keeps_the_name_what_it_cost_and_what_was_saved(
    columns: tuple[tuple[str, str], ...],
) -> None:
    kept = [title for title, kind in columns if not {"wide", "roomy"} & {*kind.split()}]
    assert (3, "saved") == (len(kept), kept[-1].lower())
    assert kept[-1] == columns[-1][0]


def test_scripts_put_nothing_into_words() -> None:
    """Amounts, percentages, plurals and what is about right come from Python, in one wording."""
    own = [name for name in (*ASSETS, "report.js") if name.endswith(".js") and "uPlot" not in name]
    for name in own:
        code = re.sub(r"/\*.*?\*/", "", read_asset(name).decode(), flags=re.DOTALL)
        assert not re.search(r"Intl\.|plural|currency|toPrecision|\}% ", code), name
