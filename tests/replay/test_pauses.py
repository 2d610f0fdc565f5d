"""Pauses in a replay: what a memory makes of them."""

from dataclasses import replace

import pytest

from addon.commands.main import main
from addon.commands.sessions import read_sessions
from addon.replay.pauses import Pause, PausedSession
from addon.replay.replay import ReplaySettings, Session, replay
from masking.prices import PriceSettings
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.places import RECORDINGS
from tests.sessions import grow, work

RECORDING = RECORDINGS / "openai-scratch.flow"
SESSION = grow(work(30, 6_000))
SETTINGS = ReplaySettings(
    policy=MaskPolicy(True, 4, skip_if_not_shorter=True, max_loss=1.0),
    price_settings=PriceSettings((0.02, 1.0)),
    ttl=300.0,
    remembers=True,
)


def bill(settings: ReplaySettings, pause: Pause, session: Session = SESSION) -> float:
    requests = replay(PausedSession(session, pause), settings, TokenCounter())
    return sum(request.entry.cost.after.cost for request in requests)


def test_requests_come_later_by_the_pauses_before_them() -> None:
    paused = PausedSession(SESSION, Pause(3, 600.0))
    times = [
        (r.when, was.when) for r, was in zip(paused.requests(), SESSION.requests(), strict=True)
    ]
    assert paused.name == SESSION.name
    late = [(now - then).total_seconds() for now, then in times]
    assert [0, 0, 0, 600, 600, 600, 1_200] == late[:7]


def test_after_a_pause_a_memory_saves_money() -> None:
    pause = Pause(8, 600.0)
    assert bill(SETTINGS, pause) < 0.9 * bill(replace(SETTINGS, remembers=False), pause)


@pytest.mark.parametrize("pause", [Pause(8, 200.0), Pause(8, 0.0)], ids=["a short one", "none"])
def test_without_a_long_one_it_changes_nothing(pause: Pause) -> None:
    assert bill(SETTINGS, pause) == bill(replace(SETTINGS, remembers=False), pause)


def test_where_nothing_is_masked_there_is_nothing_to_remember() -> None:
    off = replace(SETTINGS, policy=MaskPolicy())
    assert bill(off, Pause(8, 600.0)) == bill(replace(off, remembers=False), Pause(8, 600.0))


def test_what_was_reported_without_the_pauses_is_simulated_with_them() -> None:
    [session] = read_sessions([RECORDING])
    assert all(recorded.usage for recorded in session.requests())
    off = replace(SETTINGS, policy=MaskPolicy())
    assert bill(off, Pause(5, 600.0), session) > 1.2 * bill(off, Pause(5, 0.0), session)


def test_the_command_takes_pauses(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prices", "0.1,1", "--cache-ttl", "300", "--pause", "5,600", "--memory"]
    assert 0 == main(["replay", str(RECORDING), *options])
    assert "openai-scratch" in capsys.readouterr().out


@pytest.mark.parametrize("pause", ["", "5", "x,600", "0,600", "5,-1", "5,nan", "5,inf", "5,1e9"])
def test_it_refuses_what_is_no_pause(pause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["replay", str(RECORDING), f"--pause={pause}"])
    assert "EVERY" in capsys.readouterr().err


@pytest.mark.parametrize("ttl", ["-1", "nan", "x"])
def test_it_refuses_what_is_no_time_to_live(ttl: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["replay", str(RECORDING), f"--cache-ttl={ttl}"])
    assert "--cache-ttl" in capsys.readouterr().err
