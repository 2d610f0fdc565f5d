"""What an agent's own log says of a session, against what its recorded bodies say.

Each agent works behind a proxy that observes and records, before a provider that counts whole
prompts, with a tokenizer of its own, and caches them as its vendor does. `obsmask replay` then
reads the recording, and the log that the agent left.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.live.harness import SECONDS, environment
from tests.live.real_sessions import played_session

pytestmark = pytest.mark.thorough

LEAST_TURNS = 60
MOST_COST_DIFFERENCE = 0.02
MOST_POINTS = 2.0
"""By how much the saving may differ, in percent of the cost."""

LOGS = {
    "claude-code": ".claude/projects",
    "codex": ".codex/sessions",
    "gemini-cli": ".gemini/tmp",
}
"""The agents, and where each leaves its logs below its home."""

SETTINGS: dict[str, Sequence[str]] = {
    "as shipped": (),
    "with more at stake": ("--set", "schema1.max_loss=0.5"),
    "a cache at half price": ("--prices", "0.5,1"),
    "a cache at a quarter": ("--prices", "0.25,1.25"),
}
"""As shipped, a session of this length is left alone. The less the cache saves, the more often the
boundary moves, and the more is saved."""


class Session(NamedTuple):
    """What a session left: the recording, the folder of the agent's log, and a home to read in."""

    recording: Path
    logs: Path
    home: Path


@pytest.fixture(scope="module", params=LOGS)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    agent, folder = str(request.param), tmp_path_factory.mktemp("session")
    with played_session(agent, folder, 1.2, "--set", 'mask_set=mode="observe"') as played:
        replies, requests = played.replies, played.provider.requests
    heard = max(replies.place(each.said) for each in requests)
    assert len(replies.replies) - 1 == heard >= LEAST_TURNS, played.said
    return Session(played.workspace.raw, played.workspace.home / LOGS[agent], played.home)


class Found(NamedTuple):
    """What a replay says, in dollars, and how many results it masks at most."""

    requests: int
    cost: float
    saved: float
    masked: int

    @property
    def percent(self) -> float:
        """The part of the cost that is saved."""
        return 100 * self.saved / self.cost


def replay(path: Path, options: Sequence[str], home: Path) -> Found:
    """Return what `obsmask replay` says of a recording or a log."""
    command = (sys.executable, "-m", "addon.commands.main", "replay", "--json", *options, str(path))
    done = subprocess.run(command, env=environment(home), capture_output=True, timeout=SECONDS)
    assert 0 == done.returncode, done.stderr.decode()
    found = json.loads(done.stdout)
    total = found["total"]
    assert "usd" == total["cost_unit"]
    if "logs" in found:
        assert {} == found["logs"]["cost_only"]
    saved = total["cost_before"] - total["cost_after"]
    requests = [each for one in found["conversations"] for each in one["per_request"]]
    masked = max(each["masked"] for each in requests)
    return Found(total["requests"], total["cost_before"], saved, masked)


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_log_gives_the_cost_and_the_saving_of_the_recorded_bodies(
    session: Session, options: Sequence[str]
) -> None:
    recorded = replay(session.recording, options, session.home)
    logged = replay(session.logs, options, session.home)
    told = f"recorded {recorded}, {recorded.percent:.2f}%; logged {logged}, {logged.percent:.2f}%"
    assert recorded.requests == logged.requests
    assert abs(recorded.cost - logged.cost) <= MOST_COST_DIFFERENCE * recorded.cost, told
    assert abs(recorded.percent - logged.percent) <= MOST_POINTS, told
