"""What an agent's own log says of a session, against what its recorded bodies say.

Each agent works behind a proxy that observes and records, before a provider that counts whole
prompts, with a tokenizer of its own, and caches them as its vendor does. `obsmask replay` then
reads the recording, and the log that the agent left. The agents are those that the studio has
installed; `python -m tests.tools.studio NAME OUT` installs one.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from tests.live.harness import SECONDS, environment
from tests.live.real_sessions import Tokenizer, read_project
from tests.tools.provider.provider import HOST, Provider
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project
from tests.tools.studio.scripted_client import script_replies

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


class Played(NamedTuple):
    """What a session left: the recording, the folder of the agent's log, and a home to read in."""

    recording: Path
    logs: Path
    home: Path


@pytest.fixture(scope="module", params=LOGS)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    name, folder = str(request.param), tmp_path_factory.mktemp("session")
    client = replace(CLIENTS[name], scenario=read_project())
    package, workspace = find_installed(client), Workspace(folder)
    if package is None:
        pytest.skip(f"{name} is not installed")
    write_project(client.scenario.project, workspace.work)
    for each in (last := folder / "last", first := folder / "first"):
        each.mkdir()
    replies = script_replies(client, workspace.work)
    provider = Provider(replies, tls_folder=folder / "tls", spell=Tokenizer(1.2), websockets=False)
    with provider:
        to_provider = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(last, *to_provider, script=REDIRECT) as outer:
            observing = (
                *("--mode", f"upstream:{outer.url}", "-w", str(workspace.raw)),
                *("--set", 'mask_set=mode="observe"'),
                *("--set", f"ssl_verify_upstream_trusted_ca={outer.ca}"),
            )
            with running_proxy(first, *observing, env=environment(first)) as proxy:
                write_bundle(workspace.bundle, [proxy.ca])
                said = run_client(client, package, workspace, proxy.url, SECONDS)
    heard = max(replies.place(each.said) for each in provider.requests)
    assert len(replies.replies) - 1 == heard >= LEAST_TURNS, said
    return Played(workspace.raw, workspace.home / LOGS[name], first)


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
        assert ({}, {}) == (found["logs"]["cost_only"], found["logs"]["unread"])
    saved = total["cost_before"] - total["cost_after"]
    requests = [each for one in found["conversations"] for each in one["per_request"]]
    masked = max(each["masked"] for each in requests)
    return Found(total["requests"], total["cost_before"], saved, masked)


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_log_gives_the_cost_and_the_saving_of_the_recorded_bodies(
    played: Played, options: Sequence[str]
) -> None:
    recorded = replay(played.recording, options, played.home)
    logged = replay(played.logs, options, played.home)
    told = f"recorded {recorded}, {recorded.percent:.2f}%; logged {logged}, {logged.percent:.2f}%"
    assert recorded.requests == logged.requests
    assert abs(recorded.cost - logged.cost) <= MOST_COST_DIFFERENCE * recorded.cost, told
    assert abs(recorded.percent - logged.percent) <= MOST_POINTS, told
