"""The bill of one session, read in every place that tells it.

A real agent works behind a proxy that masks and records, before a provider that counts more or
fewer tokens than we estimate. What was paid must be the same dollars everywhere.
"""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from addon.commands.page import find_page
from addon.network import Address
from addon.page.history import History
from addon.records.words import render_dollars
from tests.live.harness import SECONDS, environment, eventually, read_records
from tests.live.real_sessions import played_session

AGENTS: Mapping[str, str | None] = {
    "claude-code": ".claude/projects",
    "codex": ".codex/sessions",
    "qwen-code": ".qwen",
    "openai": None,
}
"""The agents, and where each leaves its logs below its home, if it leaves any."""

SCALES = (0.6, 1.4)
"""How many tokens the provider counts for one that we estimate."""

CENT = 0.005


class Session(NamedTuple):
    """What a session left: the recording, the agent's log, and the home with state and log."""

    recording: Path
    logs: Path | None
    home: Path
    config: Path
    metrics: str


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((agent, scale), marks=[pytest.mark.thorough] if scale > 1 else [])
        for agent in AGENTS
        for scale in SCALES
    ],
    ids=lambda param: f"{param[0]}, {param[1]:g}",
)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    agent, scale = request.param
    folder = tmp_path_factory.mktemp("session")
    config = folder / "config.toml"
    config.write_text("[observation_masking.schema1]\ncache_pricing = [0.5, 1.0]\n")
    with played_session(agent, folder, scale, "--set", f"mask_config={config}") as played:
        count = len(played.provider.requests)
        eventually(lambda: len(read_records(played.home)) >= count or None)
        page = find_page(Address("127.0.0.1", played.proxy.port))
        with urllib.request.urlopen(f"{page}metrics") as answer:
            metrics = answer.read().decode()
    assert max(each["masked"] or 0 for each in read_records(played.home)) > 0, played.said
    logs, workspace = AGENTS[agent], played.workspace
    kept = None if logs is None else workspace.home / logs
    return Session(workspace.raw, kept, played.home, config, metrics)


def run(session: Session, *arguments: str) -> str:
    """Return what a command prints, under the session's configuration."""
    options = ("--config", str(session.config))
    command = (sys.executable, "-m", "addon.commands.main", *arguments, *options)
    done = subprocess.run(
        command, env=environment(session.home), capture_output=True, timeout=SECONDS, text=True
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def read(session: Session, *arguments: str) -> dict[str, Any]:
    """Return what a command says as JSON."""
    told: dict[str, Any] = json.loads(run(session, *arguments, "--json"))
    return told


def test_every_place_tells_the_same_bill(session: Session) -> None:
    money = read(session, "status", "--since", "1h")["total"]["cost_in_dollars"]
    assert money["saved"] > money["saved_error"] > 0

    # The end of the run, in the log.
    line = (session.home / "mitmdump.log").read_text().splitlines()[-1]
    amounts = (money["after"], money["before"], money["saved"])
    assert all(render_dollars(amount) in line for amount in amounts), line

    # The page's history.
    state = session.home / "state" / "observation-masking"
    told = History(lambda: state, lambda: session.home).describe()
    assert all(render_dollars(amount) in told["texts"]["line"] for amount in amounts), told["texts"]
    for at, name in ((-3, "before"), (-2, "after")):
        cost = sum(row["order"][at] for row in told["sessions"])
        assert cost == pytest.approx(money[name], abs=CENT)

    # Prometheus.
    for name, bill in (("before", "unmasked"), ("after", "sent")):
        lines = [one for one in session.metrics.splitlines() if re.match(r"\w*cost_dollars", one)]
        counted = sum(float(one.split()[-1]) for one in lines if f'"{bill}"' in one)
        assert counted == pytest.approx(money[name], abs=CENT)

    # A replay of the recording.
    recorded = read(session, "replay", str(session.recording))["total"]["recorded"]
    assert recorded["cost_after"] == pytest.approx(money["after"], abs=CENT)
    assert abs(recorded["cost_before"] - money["before"]) <= recorded["saved_error"] + CENT

    # The present settings among those that are tried.
    table = run(session, "tune", str(session.recording)).splitlines()
    (row,) = [line for line in table if re.match(r" *(present|keep)\b.*\$", line)]
    assert render_dollars(money["after"]) in row


def test_a_log_of_a_masked_session_stands_apart(session: Session) -> None:
    if session.logs is None:
        pytest.skip("it keeps no log")
    logged = read(session, "replay", str(session.logs))["logs"]
    assert 0 == logged["sessions"]
    assert {"shortened"} == logged["cost_only"].keys()
