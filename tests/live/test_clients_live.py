"""Real clients behind the proxy, before a strict provider: the same end, and nothing else changed.

They are those that the studio has installed; `python -m tests.tools.studio NAME OUT` installs one.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tomli
import tomlkit

from addon.config import CONFIG_NAME
from addon.places import shipped
from addon.proxy.authorities import write_bundle
from addon.proxy.marks import find_original
from addon.proxy.server import running_proxy
from addon.recordings.flows import read_flows
from addon.request import find_wire_format
from masking.config import ROOT
from masking.conversation import read_conversation
from tests.live.harness import SECONDS, environment, read_records
from tests.support.differences import compare, list_slots
from tests.tools.provider.provider import HOST, Provider
from tests.tools.studio.client import TOUR, Client
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project
from tests.tools.studio.scripted_client import script_replies

pytestmark = pytest.mark.thorough

LEAST_TURNS = 25
CHOSEN = (
    *("openai", "qwen-code", "qwen-code-tour", "opencode", "copilot", "continue"),
    *("anthropic", "langchain-anthropic-cache", "litellm-anthropic"),
    *("claude-code", "claude-code-bound", "opencode-anthropic", "pi-anthropic"),
    *("openai-responses", "codex", "opencode-openai", "pi-openai", "cline"),
    *("google-genai", "ollama", "gemini-cli", "opencode-google", "pi-google"),
)
"""One of each kind, in every format that it speaks."""

INSTALLED = [name for name in CHOSEN if find_installed(CLIENTS[name])]


def write_config(folder: Path) -> Path:
    """Write the shipped configuration, but moves cost nothing, and WebSockets become requests."""
    document = tomli.loads(shipped(CONFIG_NAME).read_text(encoding="utf-8"))
    document[ROOT]["schema1"]["cache_pricing"] = "none"
    document[ROOT]["websocket"] = {"mode": "http"}
    document[ROOT]["recording"] = {"keep_original": True}
    path = folder / CONFIG_NAME
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return path


def run(client: Client, workspace: Workspace, provider: Provider) -> str:
    """Let a client work behind a proxy that masks; a second proxy sends all to the provider."""
    package = find_installed(client)
    assert package is not None
    last, first = workspace.root / "last", workspace.root / "first"
    last.mkdir()
    first.mkdir()
    to_provider = (
        *("--set", "connection_strategy=lazy"),
        *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
        *("--set", f"provider={HOST}:{provider.port}"),
    )
    with running_proxy(last, *to_provider, script=REDIRECT) as outer:
        masking = (
            *("--mode", f"upstream:{outer.url}", "-w", str(workspace.raw)),
            *("--set", f"mask_config={write_config(first)}"),
            *("--set", f"ssl_verify_upstream_trusted_ca={outer.ca}"),
        )
        with running_proxy(first, *masking, env=environment(first)) as proxy:
            write_bundle(workspace.bundle, [proxy.ca])
            return run_client(client, package, workspace, proxy.url, SECONDS)


@pytest.mark.parametrize("name", INSTALLED)
def test_a_real_client_gets_to_the_same_end(name: str, tmp_path: Path) -> None:
    client = replace(CLIENTS[name], scenario=TOUR)
    workspace = Workspace(tmp_path)
    write_project(client.scenario.project, workspace.work)
    replies = script_replies(client, workspace.work)
    with Provider(replies, tls_folder=tmp_path / "tls", strict=True) as provider:
        run(client, workspace, provider)
    records = read_records(workspace.root / "first")
    # One request of an account that is not known may be refused: the one that finds out.
    assert len(provider.refusals) == sum(each["resent"] == "accepted" for each in records) <= 1
    assert all("bound to a different" in refusal for refusal in provider.refusals)
    assert len(replies.replies) - 1 == max(replies.place(each.said) for each in provider.requests)

    arrived = [each.body for each in provider.requests]
    turns = [0]
    for flow in read_flows(workspace.raw):
        found, before = find_wire_format(flow.request), find_original(flow)
        assert found is None or flow.request.raw_content in arrived
        if found is not None and before is not None:
            conversation = read_conversation(json.loads(before), found.wire, flow.request.path)
            places = {*list_slots(conversation)}
            assert {*compare(before, flow.request.content or b"")} <= places
            turns.append(conversation.turns)
    is_bound = any(each["account"] == "refuses" for each in records)
    assert max(turns) >= LEAST_TURNS or is_bound
