"""Real agents under `obsmask run`: each gets to its end, and the last line says what it came to.

An agent is tested where `python -m tests.tools.studio` has installed it.
"""

import base64
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from tests.live.harness import SECONDS
from tests.tools.provider.plan import Plan
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.responses import ACCOUNT
from tests.tools.provider.script import Received, Reply, Script, ScriptedReplies, call
from tests.tools.studio.client import TOUR, Client
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project
from tests.tools.studio.scripted_client import script_replies

pytestmark = pytest.mark.thorough

RUN = (sys.executable, "-m", "addon.commands.main", "run")
MASKING = ("--window-turns", "4", "--set", "schema1.cache_pricing=none")
CHANGES = "--force-http"
UNCHANGED = "CLAUDE_CODE_ATTRIBUTION_HEADER"
"""The recorder's claude-code has it; a user's has not."""


class Case(NamedTuple):
    """An agent, the options of `obsmask run`, what its lines say, and what never reached it."""

    name: str
    options: tuple[str, ...]
    said: tuple[str, ...]
    refusals: int = 0


LEADS = "claude-code: ANTHROPIC_BASE_URL leads through the proxy to https://api.anthropic.com"
MASKED = (" requests; input ", ", without masking ", "; obsmask page shows each request")
USED_UP = " used up by masking (docs/results.md#a-plans-quota), resets "
QUOTA = ("obsmask: 5-hour limit: ", "% used, resets ", "; weekly limit: ")
DROPPED = " had reasoning dropped that no longer fits: since then "
CLEARED = " requests asked the provider to clear; "
CASES = (
    Case("mini-swe-agent", (), MASKED),
    Case("mini-swe-agent", ("--observe",), ("; only observed: input ", ", with masking ")),
    Case("qwen-code", (), MASKED),
    Case("opencode", (), MASKED),
    Case("claude-code", (), (*MASKED, LEADS)),
    Case("claude-code-oauth", (), (*MASKED, LEADS, *QUOTA)),
    # What it moves at every turn is written anew: the provider's plan counts that.
    Case("claude-code-oauth", ("--set", "metrics.quota_saving=true"), (*MASKED, LEADS, USED_UP)),
    Case(
        "claude-code",
        ("--no-agent-setup",),
        (
            "nothing masked, because claude-code signs what it sends; obsmask run without "
            "--no-agent-setup changes that",
        ),
    ),
    Case("claude-code-bound-old", (), (*MASKED, LEADS)),
    Case("claude-code-bound", (), (LEADS,), refusals=1),
    Case("claude-code-bound", ("--provider-clearing",), (*MASKED, LEADS, CLEARED)),
    Case("claude-code-bound", ("--drop-reasoning",), (*MASKED, LEADS, DROPPED), refusals=1),
    Case("codex", (), MASKED),
    Case("codex", (CHANGES,), MASKED),
    Case(
        "codex",
        ("--set", "websocket.mode=pass"),
        (
            "nothing masked, because the provider holds the history of the agent's WebSocket; ",
            " websocket.mode=auto changes that",
        ),
    ),
    Case("codex-code-mode", (), ("nothing masked, because the model would lose its reasoning; ",)),
    Case("codex", ("--observe",), ("which stays open unless masking is on",)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join((case.name, *case.options)))
def test_a_real_agent_gets_to_its_end_under_obsmask_run(case: Case, tmp_path: Path) -> None:
    client = prepare(case.name)
    session = run_agent(client, (*MASKING, *case.options), tmp_path, lambda replies: replies)
    assert case.refusals == len(session.provider.refusals)
    last = len(session.replies.replies) - 1
    assert last == max(session.replies.place(each.said) for each in session.provider.requests)
    lines = [line for line in session.said.splitlines() if line.startswith("obsmask: ")]
    assert [] == [words for words in case.said if not any(words in line for line in lines)], lines


class Session(NamedTuple):
    """What a session leaves: the provider, its script, and what the agent printed."""

    provider: Provider
    replies: ScriptedReplies
    said: str


def prepare(name: str) -> Client:
    """Return an agent as its user has it."""
    client = replace(CLIENTS[name.removesuffix("-oauth").removesuffix("-old")], scenario=TOUR)
    own = {name: value for name, value in (client.environment or {}).items() if name != UNCHANGED}
    if name.endswith("-oauth"):
        own |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": f"sk-ant-oat01-{'a' * 90}"}
    if name.endswith("-old"):
        own |= {"ANTHROPIC_API_KEY": "sk-ant-old-account"}
    if "PYTHONPATH" in os.environ:
        own["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return replace(client, environment=own)


def run_agent(
    client: Client,
    options: Sequence[str],
    folder: Path,
    wrap: Callable[[ScriptedReplies], Script],
    user: str = "",
) -> Session:
    """Let an agent work through a scenario under `obsmask run`, before a strict provider.

    There is no way to the provider but through another proxy, which wants this `user`, if any.
    """
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{client.packages[0]} is not installed: python -m tests.tools.studio installs it"
        )
    workspace = Workspace(folder)
    write_project(client.scenario.project, workspace.work)
    replies = script_replies(client, workspace.work)
    (folder / "outer").mkdir()
    tls = folder / "tls"
    with Provider(wrap(replies), tls_folder=tls, strict=True, plan=Plan(step=0.0001)) as provider:
        behind = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
            *(("--set", f"proxyauth={user}") if user else ()),
        )
        with running_proxy(folder / "outer", *behind, script=REDIRECT) as outer:
            write_bundle(workspace.bundle, [outer.ca])
            launcher = (*RUN, *options, "--")
            url = outer.url.replace("//", f"//{user}@") if user else outer.url
            said = run_client(client, package, workspace, url, SECONDS, launcher)
    return Session(provider, replies, said)


def check_masked(session: Session) -> None:
    """Check that a session came to its end, was refused nothing, and was masked over HTTP."""
    assert [] == session.provider.refusals
    last = len(session.replies.replies) - 1
    assert last <= max(session.replies.place(each.said) for each in session.provider.requests)
    assert last < len(session.provider.requests)
    assert not any(each.header("upgrade") for each in session.provider.requests)
    line = session.said.rstrip().splitlines()[-1]
    assert [] == [words for words in MASKED if words not in line], line


def _make_token(**claims: object) -> str:
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims, {}))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


_CLAIMS = {"chatgpt_plan_type": "plus", "chatgpt_account_id": ACCOUNT, "chatgpt_user_id": "u"}
LOGIN = {
    "auth_mode": "chatgpt",
    "tokens": {
        "id_token": _make_token(exp=4_102_444_800, **{"https://api.openai.com/auth": _CLAIMS}),
        "access_token": _make_token(exp=4_102_444_800),
        "refresh_token": "scripted",
        "account_id": ACCOUNT,
    },
    "last_refresh": "2099-01-01T00:00:00Z",
}


def test_codex_with_a_subscription_is_masked(tmp_path: Path) -> None:
    client = prepare("codex")
    client = replace(
        client,
        environment={"OPENAI_API_KEY": ""},
        files={".codex/auth.json": json.dumps(LOGIN)},
    )
    session = run_agent(client, MASKING, tmp_path, lambda replies: replies)
    check_masked(session)
    line = session.said.rstrip().splitlines()[-1]
    assert [] == [words for words in QUOTA if words not in line], line
    assert {"/backend-api/codex/responses"} == {each.path for each in session.provider.requests}


NOWHERE = ("HTTPS_PROXY=", "https_proxy=", "SSL_CERT_FILE=", "CODEX_CA_CERTIFICATE=")


def test_codex_with_a_base_url_needs_neither_proxy_nor_authority(tmp_path: Path) -> None:
    """With a key: with a plan, codex asks chatgpt.com where to go, whatever its base URL is."""
    client = prepare("codex")
    client = replace(client, command=("env", *NOWHERE, *client.command))
    options = (*MASKING, "--reverse", "https://api.openai.com")
    session = run_agent(client, options, tmp_path, lambda replies: replies)
    check_masked(session)


def test_codex_behind_a_company_that_wants_a_password_is_masked(tmp_path: Path) -> None:
    client, user = prepare("codex"), "somebody:pa55"
    check_masked(run_agent(client, MASKING, tmp_path, lambda replies: replies, user))


RESUMED = """
"$0" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m gpt-5.5 "$1"
"$0" exec --dangerously-bypass-approvals-and-sandbox resume --last --skip-git-repo-check \\
    -m gpt-5.5 "Tell me again."
"""


def test_a_session_of_codex_that_is_resumed_is_masked(tmp_path: Path) -> None:
    program = "{package}/node_modules/.bin/codex"
    client = replace(prepare("codex"), command=("bash", "-c", RESUMED, program, "{task}"))
    session = run_agent(client, MASKING, tmp_path, lambda replies: replies)
    check_masked(session)
    *_, before, resumed = (each.body.decode() for each in session.provider.requests)
    assert "Tell me again." not in before
    assert "Tell me again." in resumed
    assert " chars masked]" in resumed


COPILOT = replace(
    CLIENTS["copilot"],
    environment={
        **(CLIENTS["copilot"].environment or {}),
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "responses",
        "COPILOT_PROVIDER_TRANSPORT": "websockets",
        "COPILOT_MODEL": "gpt-5.1",
    },
)


def test_copilot_that_is_set_to_websockets_is_masked(tmp_path: Path) -> None:
    check_masked(run_agent(COPILOT, MASKING, tmp_path, lambda replies: replies))


RECALL = """[observation_masking.schema1]
window_turns = 4
cache_pricing = "none"
placeholder_template = "[{{tool_name}}: {{original_chars}} masked; obsmask recall {{recall}}]"

[observation_masking.recall]
enabled = true
folder = "{folder}"
"""
_READ_BACK = re.compile(r"obsmask recall ([0-9a-f]{16})")


@dataclass(frozen=True)
class Recalling:
    """A model that reads the first masked result back, as its placeholder says, and goes on."""

    client: Client
    replies: ScriptedReplies

    def __call__(self, received: Received) -> Reply:
        told = json.dumps(received.request)
        found = _READ_BACK.search(told)
        if found is None or "call_of_recall" in told:
            return self.replies(received)
        shell = self.client.shell
        assert not isinstance(shell.arguments, str)
        arguments = {
            name: found[0] if value == "{what}" else value
            for name, value in shell.arguments.items()
        }
        return Reply(calls=(call("call_of_recall", shell.name, **arguments),))


@pytest.mark.parametrize("name", ["mini-swe-agent", "qwen-code"])
def test_a_real_agent_reads_back_what_was_masked(name: str, tmp_path: Path) -> None:
    """Its `obsmask recall` finds the folder of a configuration that only `run` was told of."""
    client, kept = prepare(name), tmp_path / "kept"
    config = tmp_path / "own.toml"
    config.write_text(RECALL.format(folder=kept))
    options = ("--config", str(config))
    session = run_agent(client, options, tmp_path, functools.partial(Recalling, client))
    assert [] == session.provider.refusals
    (told, *_) = (
        json.dumps(message)
        for each in session.provider.requests
        for message in each.request["messages"]
        if message.get("tool_call_id") == "call_of_recall"
    )
    (asked, *_) = (
        found
        for each in session.provider.requests
        if (found := _READ_BACK.search(json.dumps(each.request)))
    )
    names = set(re.findall(r"\w+\.py", (kept / asked[1]).read_text()))
    assert len(names) > 20
    assert names == set(re.findall(r"\w+\.py", told))


COMPACT = """
"$0" --dangerously-skip-permissions --model "$2" -p "$1"
"$0" --dangerously-skip-permissions --model "$2" --continue -p /compact
"""
ASKS = "CRITICAL: Respond with TEXT ONLY"


def test_a_real_agents_request_for_a_summary_goes_out_whole(tmp_path: Path) -> None:
    program, model = "{package}/node_modules/.bin/claude", "claude-sonnet-4-5"
    client = prepare("claude-code")
    client = replace(client, command=("bash", "-c", COMPACT, program, "{task}", model))
    session = run_agent(client, MASKING, tmp_path, lambda replies: replies)
    assert [] == session.provider.refusals
    sent = [each.body.decode() for each in session.provider.requests]
    first = next(place for place, body in enumerate(sent) if ASKS in body)
    assert " chars masked]" in sent[first - 1]
    assert " chars masked]" not in sent[first]
    assert " left whole; " in session.said.rstrip().splitlines()[-1]


CONTINUED = """
"$0" --dangerously-skip-permissions --model "$2" -p "$1"
"$0" --dangerously-skip-permissions --model "$2" --continue -p "And what else?"
"""


def test_claude_code_is_masked_when_it_resumes_a_session(tmp_path: Path) -> None:
    program, model = "{package}/node_modules/.bin/claude", "claude-sonnet-4-5"
    client = prepare("claude-code")
    client = replace(client, command=("bash", "-c", CONTINUED, program, "{task}", model))
    session = run_agent(client, MASKING, tmp_path, lambda replies: replies)
    assert [] == session.provider.refusals
    last = session.provider.requests[-1].body.decode()
    assert "And what else?" in last
    assert " chars masked]" in last


TOOLS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"name": "big", "description": "Gives a text", "inputSchema": {"type": "object"}}
    results = {
        "initialize": {
            "protocolVersion": (asked.get("params") or {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "texts", "version": "1"},
        },
        "tools/list": {"tools": [about]},
        "tools/call": {"content": [{"type": "text", "text": "A line of a text.\\n" * 300}]},
    }
    if "id" in asked:
        result = results.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
MAIN_TURNS, SUB_TURNS, MCP_TURNS = 26, 14, 8


def _answer_agents(received: Received) -> Reply:
    """Answer an agent that calls tools of an MCP server, then a sub-agent, then a shell."""
    if not received.offers_tools:
        return Reply(content="A title")
    done = len(received.said)
    shell = call(f"call_{done}", "Bash", command=f"seq {done} {done + 400}", description="Counts")
    if _is_sub_agents(received):
        return Reply(calls=(shell,)) if done < SUB_TURNS else Reply(content="Counted.")
    if done < MCP_TURNS:
        return Reply(calls=(call(f"call_{done}", "mcp__texts__big"),))
    if done == MCP_TURNS:
        task = {"description": "Counts", "prompt": "SUBTASK", "run_in_background": False}
        return Reply(calls=(call("call_agent", "Agent", subagent_type="general-purpose", **task),))
    return Reply(calls=(shell,)) if done < MAIN_TURNS else Reply(content="All done.")


def _is_sub_agents(received: Received) -> bool:
    first = json.dumps(received.request["messages"][0])
    return "SUBTASK" in first and "MAINTASK" not in first


def test_claude_code_is_masked_in_sub_agents_and_with_tools_of_mcp(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    servers = {"texts": {"command": sys.executable, "args": [str(tmp_path / "tools.py")]}}
    given = json.dumps({"mcpServers": servers}).replace("{", "{{").replace("}", "}}")
    client = prepare("claude-code")
    command = (*client.command[:-2], "--mcp-config", given, "-p", "MAINTASK")
    client = replace(client, command=command)
    session = run_agent(client, MASKING, tmp_path, lambda _: _answer_agents)
    assert [] == session.provider.refusals
    for is_sub, turns in ((False, MAIN_TURNS), (True, SUB_TURNS)):
        sent = [
            each.body.decode()
            for each in session.provider.requests
            if each.offers_tools and is_sub == _is_sub_agents(each)
        ]
        assert turns < len(sent)
        assert " chars masked]" in sent[-1]
    *_, last = (each for each in session.provider.requests if not _is_sub_agents(each))
    assert "A line of a text." not in last.body.decode()


def test_a_base_url_in_claude_codes_own_settings_is_put_behind_the_proxy(tmp_path: Path) -> None:
    client = prepare("claude-code")
    own = json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}})
    client = replace(client, files={".claude/settings.json": own})
    session = run_agent(client, MASKING, tmp_path, lambda replies: replies)
    assert [] == session.provider.refusals
    assert " chars masked]" in session.provider.requests[-1].body.decode()
    assert (
        "obsmask: claude-code: --settings leads through the proxy to https://api.anthropic.com "
        "(from ~/.claude/settings.json)"
    ) in session.said
