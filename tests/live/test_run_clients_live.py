"""Real agents under `obsmask run`: each gets to its end, and the last line says what it came to.

An agent is tested where `obsmask record` has installed it.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.launch import running_proxy
from addon.recordings.provider.provider import HOST, Provider
from addon.recordings.studio.client import TOUR
from addon.recordings.studio.clients import CLIENTS
from addon.recordings.studio.recorder import (
    REDIRECT,
    Workspace,
    find_installed,
    run_client,
    script_replies,
)
from addon.recordings.studio.scenario import write_project
from tests.live.harness import SECONDS

RUN = (sys.executable, "-m", "addon.commands.main", "run")
MASKING = ("--window-turns", "4", "--set", "schema1.cache_pricing=none")
CHANGES = "--client-changes"
UNCHANGED = "CLAUDE_CODE_ATTRIBUTION_HEADER"
"""The recorder's claude-code has it; a user's has not."""


class Case(NamedTuple):
    """An agent, the options of `obsmask run`, and what the last line says."""

    name: str
    options: tuple[str, ...]
    said: tuple[str, ...]


MASKED = (" tokens sent, ", " not sent (-", "; records in ")
CASES = (
    Case("mini-swe-agent", (), MASKED),
    Case("mini-swe-agent", ("--observe",), ("observed: masking would have left out ",)),
    Case("qwen-code", (), MASKED),
    Case("opencode", (), MASKED),
    Case(
        "claude-code",
        (),
        ("nothing masked, because claude-code signs what it sends; obsmask run --client-changes",),
    ),
    Case("claude-code", (CHANGES,), MASKED),
    Case(
        "claude-code-bound",
        (CHANGES, "--set", "schema1.cache_pricing=auto", "--window-turns", "8"),
        ("nothing masked, because the model binds its reasoning to all that precedes it; ",),
    ),
    Case(
        "codex",
        (),
        ("nothing masked, because the provider holds the history of the agent's WebSocket; ",),
    ),
    Case("codex", (CHANGES,), MASKED),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join((case.name, *case.options)))
def test_a_real_agent_gets_to_its_end_under_obsmask_run(case: Case, tmp_path: Path) -> None:
    client = replace(CLIENTS[case.name], scenario=TOUR)
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{case.name} is not installed: obsmask record {case.name} OUT.flow installs it"
        )
    own = {name: value for name, value in (client.environment or {}).items() if name != UNCHANGED}
    if "PYTHONPATH" in os.environ:
        own["PYTHONPATH"] = os.environ["PYTHONPATH"]
    client = replace(client, environment=own)
    workspace = Workspace(tmp_path)
    write_project(client.scenario.project, workspace.work)
    replies = script_replies(client, workspace.work)
    (tmp_path / "outer").mkdir()
    with Provider(replies, tls_folder=tmp_path / "tls", strict=True) as provider:
        options = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(tmp_path / "outer", *options, script=REDIRECT) as outer:
            write_bundle(workspace.bundle, [outer.ca])
            launcher = (*RUN, *MASKING, *case.options, "--")
            said = run_client(client, package, workspace, outer.url, SECONDS, launcher)
    assert [] == provider.refusals
    last = len(replies.replies) - 1
    assert last == max(replies.place(each.said) for each in provider.requests), said
    line = said.rstrip().splitlines()[-1]
    assert line.startswith("obsmask: ")
    assert [] == [words for words in case.said if words not in line], line
