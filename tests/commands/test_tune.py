"""`obsmask tune`: what it prints."""

import dataclasses
import io
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from addon.commands.tune import CAVEAT, describe_arrival, find_settings, run_tune
from addon.commands.workers import Workers, open_workers
from addon.config_commands import Advice, dump_toml
from addon.places import shipped
from addon.replay.replay import ReplaySettings
from addon.replay.tune.recommend import (
    DEFAULTS,
    Grid,
    Outcome,
    Tuning,
    recommend,
    switch_arrival,
    switch_off,
    tuning_of,
)
from masking.config import parse_settings
from masking.prices import CachePricing, PriceSettings
from masking.rewrite import Strategies
from masking.window import MaskPolicy
from tests.support.given_sessions import work_on
from tests.support.long_results import line_of, run, run_tests
from tests.support.sessions import Talk, grow, work

SETTINGS = ReplaySettings(
    strategies=Strategies(schema1=MaskPolicy(True, 8)),
    price_settings=PriceSettings((0.1, 1.25)),
    model="deepseek-chat",
)
SESSIONS = [grow(work(turns, chars=8_000)) for turns in (12, 25)]


@pytest.fixture
def workers() -> Iterator[Workers]:
    with ThreadPoolExecutor(1) as executor:
        yield Workers(executor, 1)


@pytest.fixture
def console() -> Console:
    return Console(record=True, quiet=False, width=160, force_terminal=False)


@pytest.mark.parametrize(
    ("tuning", "pricing", "expected"),
    [
        pytest.param(DEFAULTS, "auto", "auto", id="the shipped ones"),
        pytest.param(DEFAULTS, (0.1, 1.25), (0.1, 1.25), id="given prices stay"),
        pytest.param(DEFAULTS, "none", "auto", id="where the window slid it is priced now"),
        pytest.param(DEFAULTS._replace(max_loss=None), "auto", "none", id="a window that slides"),
        pytest.param(Tuning(True, 24, False, 2, 2_000, 0.05, 40), "auto", "auto", id="all of them"),
        pytest.param(switch_off(DEFAULTS), "auto", "auto", id="off"),
    ],
)
def test_its_settings_are_those_of_a_configuration(
    tuning: Tuning, pricing: CachePricing, expected: CachePricing
) -> None:
    found = find_settings(tuning, PriceSettings(pricing))
    overrides = [f"{name}={dump_toml(value)}" for name, value in found.items()]
    settings = parse_settings(b"[observation_masking]", overrides)
    assert settings is not None
    assert expected == settings.schema1.cache_pricing
    kept = {name: value for name, value in tuning._asdict().items() if value is not None}
    assert kept == {name: getattr(settings.policy, name) for name in kept}


def test_a_narrow_screen_has_every_number_in_full(workers: Workers) -> None:
    """In two tables, whose rows have the same numbers."""
    screens = [
        Console(record=True, file=io.StringIO(), width=width, force_terminal=False)
        for width in (160, 80)
    ]
    for screen in screens:
        run_tune(work_on(SESSIONS, workers), SETTINGS, screen, Advice())
    wide, narrow = (screen.export_text().split("A replay prices tokens")[0] for screen in screens)
    assert "…" not in narrow
    rows = [line.split() for line in wide.splitlines() if "%" in line]
    halves = [line.split() for line in narrow.splitlines() if "%" in line]
    assert 2 * len(rows) == len(halves)
    first, second = halves[: len(rows)], halves[len(rows) :]
    assert [each[0] for each in first] == [each[0] for each in second]
    assert [row[-6:] for row in rows] == [
        [*left[-2:], *right[-4:]] for left, right in zip(first, second, strict=True)
    ]


def test_it_prints_the_front_the_caveat_and_the_settings(
    workers: Workers, console: Console
) -> None:
    sweep = run_tune(work_on(SESSIONS, workers), SETTINGS, console, Advice())
    printed = console.export_text()
    best = recommend(sweep)
    assert best != sweep.present
    assert "505 settings on 39 requests of" in printed
    assert "costs in US dollars" in printed
    words = ("use ", "present ", "latest", "quotes", "Re-reads and quotes are parts of 37 calls")
    assert all(word in printed for word in words)
    assert "No window under 5 turns is recommended" in printed
    assert CAVEAT in printed.replace("\n", " ").replace("  ", " ")
    _, _, command = printed.partition("obsmask config set ")
    settings = parse_settings(b"[observation_masking]", shlex.split(command))
    assert settings is not None
    assert best.window_turns == settings.policy.window_turns
    assert (0.1, 1.25) == settings.schema1.cache_pricing


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(
            "nobody-knows",
            "Prices are assumed for 39 requests: nobody-knows is not known (cached at 0.1, written "
            "at 1.25). Set them",
            id="a model that nobody knows",
        ),
        pytest.param(
            "gpt-4o-high",
            "Prices are assumed for 39 requests: gpt-4o-high as gpt-4o of OpenAI (cached at 0.5, "
            "written at 1). Set them",
            id="a variant of a known one",
        ),
        pytest.param(
            None, "Prices are assumed for 39 requests. Set them", id="a recording's own model"
        ),
    ],
)
def test_it_says_first_which_prices_are_assumed(
    workers: Workers, console: Console, model: str | None, expected: str
) -> None:
    settings = dataclasses.replace(SETTINGS, model=model, price_settings=PriceSettings("auto"))
    sessions = [grow(work(turns, chars=8_000), model="some") for turns in (12, 25)]
    few = Grid(window_turns=(8,), max_loss=(0.1,), keep_latest_turns=(0,))
    run_tune(work_on(sessions, workers), settings, console, Advice(), grid=few)
    words = " ".join(console.export_text().split())
    assert words.startswith(expected)
    unit = "US dollars" if model == "gpt-4o-high" else "input tokens that are worth as much"
    assert f"costs in {unit}" in words


def test_it_says_what_is_left_out(workers: Workers, console: Console) -> None:
    for prices, is_left_out in (((0.02, 1.0), True), ((1.0, 1.0), False)):
        settings = dataclasses.replace(SETTINGS, price_settings=PriceSettings(prices))
        run_tune(work_on(SESSIONS, workers), settings, console, Advice())
        assert is_left_out == ("Left out: " in console.export_text())


ONE = Grid(
    window_turns=(8,),
    keep_errors=(True,),
    min_chars=(0,),
    max_loss=(0.1,),
    keep_latest_turns=(0,),
)


@pytest.mark.parametrize(
    ("policy", "slides", "reason"),
    [
        pytest.param(
            MaskPolicy(True, 8, max_loss=0.05),
            True,
            "break the promise of max_loss = 0.05 on these recordings: at its worst request",
            id="they lose more than is allowed",
        ),
        pytest.param(MaskPolicy(True, 3), False, "their window is under 5 turns", id="too short"),
    ],
)
def test_it_says_why_the_present_settings_cannot_be_kept(
    workers: Workers, console: Console, policy: MaskPolicy, slides: bool, reason: str
) -> None:
    settings = dataclasses.replace(
        SETTINGS,
        strategies=Strategies(schema1=policy),
        price_settings=PriceSettings((0.02, 1.0)),
        slides=slides,
    )
    sweep = run_tune(work_on(SESSIONS, workers), settings, console, Advice(), grid=ONE)
    assert sweep.present != recommend(sweep)
    words = " ".join(console.export_text().split())
    assert reason in words
    if slides:
        worst = sweep.outcomes[sweep.present].worst - 1
        assert f"was {worst:.1%} above that of sending everything" in words
        assert f"{worst - 0.05:.1%} more than is allowed" in words


def test_the_shipped_settings_are_the_defaults_of_a_tuning() -> None:
    settings = parse_settings(shipped("config.toml").read_bytes())
    assert settings is not None
    assert DEFAULTS == tuning_of(
        ReplaySettings(
            strategies=Strategies(schema1=settings.policy), price_settings=settings.price_settings
        )
    )


def test_it_says_where_there_is_nothing_better(workers: Workers, console: Console) -> None:
    free = dataclasses.replace(SETTINGS, price_settings=PriceSettings((0.0, 0.0)), model=None)
    run_tune(work_on(SESSIONS, workers), free, console, Advice(), grid=ONE)
    assert "Nothing tried is 1% cheaper" in console.export_text()


@pytest.mark.parametrize("sessions", [[], [Talk((b"no JSON",))]], ids=["nothing", "junk"])
def test_nothing_to_try_anything_on_is_said(
    workers: Workers, console: Console, sessions: list[Talk]
) -> None:
    with pytest.raises(ValueError, match="no request"):
        run_tune(work_on(sessions, workers), SETTINGS, console, Advice())


def test_all_cores_are_used_and_shown(console: Console) -> None:
    shown = Console(record=True, width=80, force_terminal=True, file=io.StringIO())
    grid = Grid(window_turns=(8,), keep_errors=(True,), min_chars=(0,), keep_last_k_per_tool=(0,))
    with open_workers() as workers:
        assert workers.width >= 1
        run_tune(work_on(SESSIONS[:1], workers, shown), SETTINGS, console, Advice(), grid=grid)
    assert "100%" in shown.export_text()


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ValueError, match="pip install 'distributed"),
        open_workers("tcp://127.0.0.1:1"),
    ):
        pass


def test_a_cluster_takes_the_tasks(console: Console) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        open_workers(cluster.scheduler_address) as workers,
    ):
        assert 2 == workers.width
        run_tune(work_on(SESSIONS, workers), SETTINGS, console, Advice())
    assert "settings on 39 requests" in console.export_text()


# What arrival would add


def test_it_says_what_arrival_would_add_and_leaves_it_alone(
    workers: Workers, console: Console
) -> None:
    session = grow([*run_tests(25), *run(line_of(24, 200), "ok", "last")])
    said = []
    for enabled in (False, True):
        settings = switch_arrival(SETTINGS, enabled=enabled)
        run_tune(work_on([session], workers), settings, console, Advice(), grid=ONE)
        printed = console.export_text()
        assert "arrival" not in printed.partition("obsmask config set ")[2]
        said.append(" ".join(printed.split()))
    start = "Shortening long results when they arrive (arrival.enabled) is "
    told = [each.partition(start)[2] for each in said]
    window = "With masking on, and the present window, it would shorten 9 results by"
    assert told[0].startswith(f"off, and stays so. {window}")  # at these prices, masking is no use
    assert told[1].startswith("on. With these settings it would shorten 9 results by")
    for each in told:
        assert "and save another $0." in each
        assert "Of 26 calls, 0.0% repeat or name what it leaves out, and 3.8% quote it" in each


def test_it_says_if_arrival_would_shorten_nothing(workers: Workers, console: Console) -> None:
    sessions = [grow(work(12, chars=4_000))]
    run_tune(work_on(sessions, workers), SETTINGS, console, Advice(), grid=ONE)
    assert "it would shorten none of the results." in " ".join(console.export_text().split())


@pytest.mark.parametrize(
    ("on", "off", "expected"),
    [
        pytest.param((8.0, 4.0), (10.0, 5.0), "save another $1.00, 10.0% of", id="dollars"),
        pytest.param((8.0, None), (10.0, None), "save another 2 input tokens, 10.0%", id="tokens"),
        pytest.param((11.0, 5.5), (10.0, 5.0), "cost another $0.50, 5.0% of", id="a loss"),
    ],
)
def test_it_says_what_arrival_saves_on_top(
    on: tuple[float, float | None], off: tuple[float, float | None], expected: str
) -> None:
    with_it, without = (
        Outcome(cost=cost, dollars=dollars, shortened=1, left_out_chars=9)
        for cost, dollars in (on, off)
    )
    plain = Outcome(cost=20.0, dollars=None if on[1] is None else 10.0)
    assert expected in describe_arrival(with_it, without, plain, is_on=False)
