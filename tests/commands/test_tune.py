"""`obsmask tune`: what it prints, and that it says what `obsmask replay` says."""

import dataclasses
import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from addon.commands.main import main
from addon.commands.replay import ReplayOutputs
from addon.commands.tune import CAVEAT, run_tune
from addon.commands.tuning import Changes, Choice, Outcome, list_choices
from addon.commands.workers import Workers, open_workers
from addon.config_commands import Advice
from addon.replay.replay import ReplaySettings, Session
from masking.config import parse_settings
from masking.prices import PriceSettings
from masking.rewrite import Strategies
from masking.window import MaskPolicy
from tests.support.builders import OLD, turn
from tests.support.given_sessions import work_on
from tests.support.long_results import ARRIVAL, line_of, run, run_tests
from tests.support.places import RECORDINGS
from tests.support.talks import Talk, grow, work, write_body

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


def change(settings: ReplaySettings, changes: Changes) -> ReplaySettings:
    """Return settings after changes, as the configuration would give them."""
    own = {name.partition(".")[2]: value for name, value in changes.items()}
    strategies = settings.strategies
    if "arrival.enabled" in changes:
        arrival = dataclasses.replace(ARRIVAL, enabled=bool(own["enabled"]))
        strategies = dataclasses.replace(strategies, arrival=arrival)
    else:
        policy = dataclasses.replace(strategies.schema1, **own)  # type: ignore[arg-type]
        strategies = dataclasses.replace(strategies, schema1=policy)
    return dataclasses.replace(settings, strategies=strategies)


def tune(
    sessions: Sequence[Session],
    workers: Workers,
    console: Console,
    settings: ReplaySettings = SETTINGS,
    *tried: Changes,
) -> Outcome:
    """Tune these settings, or try these changes alone."""
    if tried:
        choices = [Choice(changes, change(settings, changes)) for changes in ({}, *tried)]
    else:
        choices = list_choices(lambda changes: change(settings, changes))
    wanted = ReplayOutputs(rows=False, sliding=False)
    return run_tune(work_on(sessions, workers), choices, wanted, console, Advice())


def read(console: Console) -> str:
    """Return the words that were printed."""
    return " ".join(console.export_text().split())


def test_it_prints_each_of_the_settings_the_caveat_and_the_command(
    workers: Workers, console: Console
) -> None:
    best = tune(SESSIONS, workers, console)
    printed = console.export_text()
    assert "13 settings on 39 requests; costs in US dollars" in printed
    rows = [line for line in printed.splitlines() if "$" in line]
    assert 13 == len(rows)  # arrival would shorten nothing
    for name in ("use ", "present ", "all sent "):
        assert 1 == sum(row.lstrip().startswith(name) for row in rows), name
    assert CAVEAT in printed.replace("\n", " ")
    _, _, command = printed.partition("obsmask config set ")
    command, _, undo = command.partition(" (undo: obsmask config unset ")
    settings = parse_settings(b"[observation_masking]", shlex.split(command))
    assert settings is not None
    assert best.window_turns == settings.policy.window_turns
    assert best.changes.keys() == {each.partition("=")[0] for each in shlex.split(command)}
    assert best.changes.keys() == {*undo.strip().removesuffix(")").split()}


def test_it_fits_a_narrow_screen(workers: Workers) -> None:
    screen = Console(record=True, file=io.StringIO(), width=80, force_terminal=False)
    tune([grow([*run_tests(25), *run(line_of(0, 5), "ok", "last")])], workers, screen)
    table = screen.export_text().split("A replay prices tokens")[0]
    assert "…" not in table
    names = ("arrival on ", "all sent ")
    assert [True, True] == [
        any(row.lstrip().startswith(name) for row in table.splitlines()) for name in names
    ]


def test_the_present_row_says_what_a_replay_says(
    workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    """The providers' counts are read, too, so that what was paid is told to the cent."""
    recording = RECORDINGS / "mini-swe-agent-scratch.flow"
    assert 0 == main(["replay", "--processes", "1", str(recording)])
    replayed = capsys.readouterr().out
    assert 0 == main(["tune", "--processes", "1", str(recording)])
    tuned = capsys.readouterr().out
    [row] = [line for line in replayed.splitlines() if line.startswith("mini-swe-agent-scratch ")]
    whole, _, chosen, saved = row.split()[4:8]
    [present] = [line for line in tuned.splitlines() if line.startswith((" present", " keep"))]
    [everything] = [line for line in tuned.splitlines() if line.startswith(" all sent")]
    assert [chosen, saved] == present.split()[4:6]
    assert whole == everything.split()[2]


@pytest.mark.parametrize("model", ["nobody-knows", "gpt-4o-high"])
def test_it_says_first_which_prices_are_assumed(
    workers: Workers, console: Console, model: str
) -> None:
    settings = dataclasses.replace(SETTINGS, model=model, price_settings=PriceSettings("auto"))
    tune(SESSIONS, workers, console, settings, {"schema1.window_turns": 5})
    words = read(console)
    assert words.startswith(f"Prices are assumed for all 39 requests: {model} ")
    unit = "US dollars" if model == "gpt-4o-high" else "input tokens that are worth as much"
    assert f"costs in {unit}" in words


def test_it_says_what_breaks_the_promise(workers: Workers, console: Console) -> None:
    sliding = dataclasses.replace(SETTINGS, price_settings=PriceSettings((0.02, 1.0)), slides=True)
    best = tune(SESSIONS, workers, console, sliding, {"schema1.window_turns": 5})
    assert {"schema1.enabled": False} == best.changes
    words = read(console)
    assert "by more than the 10% of max_loss is not recommended" in words
    assert "These break the promise of max_loss = 0.1 here: at its worst request" in words
    undo = "(undo: obsmask config unset schema1.enabled)"
    assert words.endswith(f"obsmask config set schema1.enabled=false {undo}")


def test_it_says_why_a_short_window_is_not_kept(workers: Workers, console: Console) -> None:
    short = change(SETTINGS, {"schema1.window_turns": 3})
    best = tune(SESSIONS, workers, console, short, {"schema1.window_turns": 5})
    assert "schema1.window_turns" in best.changes or "schema1.enabled" in best.changes
    assert "Their window is under 5 turns" in read(console)


def test_it_says_where_there_is_nothing_better(workers: Workers, console: Console) -> None:
    free = dataclasses.replace(SETTINGS, price_settings=PriceSettings((0.0, 0.0)), model=None)
    assert {} == tune(SESSIONS, workers, console, free, {"schema1.window_turns": 5}).changes
    words = read(console)
    assert "Nothing tried is better by a hundredth of the bill. Keep your settings: keep:" in words
    assert "obsmask config" not in words


def test_what_each_of_two_changes_is_worth_is_told(workers: Workers, console: Console) -> None:
    """Short results are asked for again at the end; the long ones between them are not."""
    long = [each for n in range(20) for each in turn(f"long{n}", OLD * 40, path=f"{n}.py")]
    short = work(8, chars=1_000)
    best = tune(
        [grow([*short, *long, *short[1:]])],
        workers,
        console,
        dataclasses.replace(SETTINGS, price_settings=PriceSettings((1.0, 1.0))),
        {"schema1.window_turns": 5},
        {"schema1.min_chars": 5_000},
        {"schema1.window_turns": 5, "schema1.min_chars": 5_000},
    )
    assert 2 == len(best.changes)
    words = read(console)
    assert "Left if asked again: " in words
    assert "without schema1.window_turns=5, " in words
    assert "without schema1.min_chars=5000, " in words


@pytest.mark.parametrize("sessions", [[], [Talk((b"no JSON",))]], ids=["nothing", "junk"])
def test_nothing_to_try_anything_on_is_said(
    workers: Workers, console: Console, sessions: list[Talk]
) -> None:
    with pytest.raises(ValueError, match="no request"):
        tune(sessions, workers, console)


def test_arrival_is_tried_and_left_as_it_is(workers: Workers, console: Console) -> None:
    session = grow([*run_tests(25), *run(line_of(24, 200), "ok", "last")])
    for enabled in (False, True):
        settings = change(SETTINGS, {"arrival.enabled": enabled})
        best = tune([session], workers, console, settings, {"arrival.enabled": not enabled})
        assert "arrival.enabled" not in best.changes
        words = read(console)
        assert f" arrival {'off' if enabled else 'on'} " in words
        assert "(arrival.enabled) is left as it is" in words


# Where the work is done


def test_all_cores_are_used_and_shown(console: Console) -> None:
    """Of one session, too, of which each core tries other settings. Threads are cores here."""
    shown = Console(record=True, width=80, force_terminal=True, file=io.StringIO())
    changes = {"schema1.window_turns": 5}
    choices = [Choice(each, change(SETTINGS, each)) for each in ({}, changes)]
    with ThreadPoolExecutor(2) as executor:
        given = work_on(SESSIONS[:1], Workers(executor, 2), shown)
        run_tune(given, choices, ReplayOutputs(rows=False, sliding=False), console, Advice())
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
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        open_workers(cluster.scheduler_address) as workers,
    ):
        assert 2 == workers.width
        tune(SESSIONS, workers, console, SETTINGS, {"schema1.window_turns": 5})
    assert "on 39 requests" in console.export_text()


def test_settings_that_the_command_was_given_are_in_what_it_advises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (file := tmp_path / "talk.json").write_bytes(write_body(work(18, chars=1_500)))
    given = ["--set", "schema1.min_chars=100", "--processes", "1"]
    assert 0 == main(["tune", *given, str(file)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("obsmask config set schema1.min_chars=")
