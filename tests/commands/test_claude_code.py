"""What `obsmask run` does to claude-code: by the command, the environment and the settings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.commands.claude_code import Places, find_problem, plan, plan_reverse, plan_shell
from addon.network import Address
from addon.proxy.base_urls import read_server
from addon.proxy.health import Health
from tests.support.marks import as_one_test

PORT = "http://127.0.0.1:8080"
OURS = f"{PORT}/to/https/api.anthropic.com"
VENDOR = "https://api.anthropic.com"
LOCAL = "http://localhost:4000"
GATEWAY = "https://gateway.example.com/v1"
SEARCH = {"ENABLE_TOOL_SEARCH": "true"}
SET = {"ANTHROPIC_BASE_URL": OURS, **SEARCH}
FREE = "claude-opus-4-6"
"""A model that binds nothing."""

LEADS = "claude-code: ANTHROPIC_BASE_URL leads through the proxy to"
LEFT = "claude-code is unchanged:"


def url(text: object, **more: object) -> Mapping[str, object]:
    return {"env": {"ANTHROPIC_BASE_URL": text}, **more}


def settings(text: str, **more: object) -> tuple[str, str]:
    return "--settings", json.dumps({**more, "env": {"ANTHROPIC_BASE_URL": text}})


NAMED = "and obsmask run adds nothing to your --settings file"


class Case(NamedTuple):
    """A command, the environment, the settings files by what they are called, and the plan."""

    command: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, object]
    line: str
    variables: Mapping[str, str] = {}
    added: Sequence[str] = ()
    hindrance: bool = False


FILES = {
    "USER": "user/settings.json",
    "PROJECT": "work/.claude/settings.json",
    "LOCAL": "work/.claude/settings.local.json",
    "OWN": "work/own.json",
    "MANAGED": "managed/managed-settings.json",
    "MANAGED_D": "managed/managed-settings.d/20.json",
}
TO_VENDOR = f"{LEADS} {VENDOR}"
TO_LOCAL = f"{PORT}/to/http/localhost:4000"
BY_SETTINGS = "claude-code: --settings leads through the proxy to"
CLAUDE = ("claude", "-p", "x")

CASES = {
    "nothing set": Case(CLAUDE, {}, {}, TO_VENDOR, SET),
    "a path": Case(("/opt/bin/claude.exe",), {}, {}, TO_VENDOR, SET),
    "npx": Case(("npx", "-y", "@anthropic-ai/claude-code@2.1", "-p"), {}, {}, TO_VENDOR, SET),
    "node": Case(
        ("node", "/a/@anthropic-ai/claude-code/cli.js"), {}, {}, TO_VENDOR, SET
    ),
    "env": Case(("env", "-u", "X", "A=b", "claude"), {}, {}, TO_VENDOR, SET),
    "a wrapper": Case(("mine", "claude"), {}, {}, TO_VENDOR, SET),
    "a shell": Case(("env", "A=b", "/bin/zsh", "-i"), {}, {}, TO_VENDOR, SET),
    "tool search as the user wants it": Case(
        CLAUDE, {"ENABLE_TOOL_SEARCH": "auto:5"}, {}, TO_VENDOR, {"ANTHROPIC_BASE_URL": OURS}
    ),
    "tool search in a file": Case(
        CLAUDE, {}, {"USER": {"env": {"ENABLE_TOOL_SEARCH": False}}}, TO_VENDOR,
        {"ANTHROPIC_BASE_URL": OURS},
    ),
    "a gateway": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": GATEWAY}, {}, f"{LEADS} {GATEWAY} (from the environment)",
        {"ANTHROPIC_BASE_URL": f"{PORT}/to/https/gateway.example.com/v1", **SEARCH},
    ),
    "another proxy of ours": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/to/https/api.anthropic.com"}, {},
        TO_VENDOR, SET,
    ),
    "a gateway in the command": Case(
        ("env", f"ANTHROPIC_BASE_URL={GATEWAY}", "claude"), {}, {},
        f"{LEFT} the command itself sets ANTHROPIC_BASE_URL to {GATEWAY}",
    ),
    "the vendor in the command": Case(
        ("env", f"ANTHROPIC_BASE_URL={VENDOR}", "claude"), {}, {},
        f"{LEFT} the command itself sets ANTHROPIC_BASE_URL to {VENDOR}", hindrance=True,
    ),
    "a model in the command": Case(
        ("env", "ANTHROPIC_MODEL=fable", "claude"), {}, {},
        f"{LEFT} claude-fable-5-2 (fable) binds its reasoning to what precedes it", hindrance=True,
    ),
    "a password": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": "https://me:secret@gateway.example.com"}, {},
        f"{LEFT} ANTHROPIC_BASE_URL, from the environment, is no plain http(s) URL",
    ),
    "no URL": Case(
        CLAUDE, {}, {"USER": url(5)},
        f"{LEFT} ANTHROPIC_BASE_URL, from USER, is no plain http(s) URL",
    ),
    "a path of ours to nowhere": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/to/nowhere"}, {},
        f"{LEFT} ANTHROPIC_BASE_URL, from the environment, is no plain http(s) URL",
    ),
    "a cloud": Case(
        CLAUDE, {"CLAUDE_CODE_USE_BEDROCK": "1"}, {},
        f"{LEFT} CLAUDE_CODE_USE_BEDROCK, from the environment, leads it to Amazon Bedrock",
    ),
    "a cloud in a file": Case(
        CLAUDE, {}, {"USER": {"env": {"CLAUDE_CODE_USE_VERTEX": True}}},
        f"{LEFT} CLAUDE_CODE_USE_VERTEX, from USER, leads it to Google's Vertex AI",
    ),
    "a cloud that is switched off": Case(
        CLAUDE, {"CLAUDE_CODE_USE_FOUNDRY": "0"}, {}, TO_VENDOR, SET
    ),
    # The settings, each of which comes before those above it.
    "user": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": GATEWAY}, {"USER": url(LOCAL)},
        f"{BY_SETTINGS} {LOCAL} (from USER)", SEARCH, settings(TO_LOCAL),
    ),
    "project": Case(
        CLAUDE, {}, {"USER": url(GATEWAY), "PROJECT": url(LOCAL)},
        f"{BY_SETTINGS} {LOCAL} (from PROJECT)", SEARCH, settings(TO_LOCAL),
    ),
    "local": Case(
        CLAUDE, {}, {"PROJECT": url(GATEWAY), "LOCAL": url(VENDOR)},
        f"{BY_SETTINGS} {VENDOR} (from LOCAL)", SEARCH, settings(OURS),
    ),
    "the argument": Case(
        ("claude", *settings(LOCAL, model=FREE), "-p", "x"), {}, {"LOCAL": url(GATEWAY)},
        f"{BY_SETTINGS} {LOCAL} (from --settings)", SEARCH, settings(TO_LOCAL, model=FREE),
    ),
    "managed": Case(
        ("claude", *settings(LOCAL)), {}, {"MANAGED": url(VENDOR)},
        f"{LEFT} MANAGED sets ANTHROPIC_BASE_URL to {VENDOR}, and nothing overrides that",
        hindrance=True,
    ),
    "managed, in several files": Case(
        CLAUDE, {}, {"MANAGED": url(VENDOR), "MANAGED_D": url(GATEWAY)},
        f"{LEFT} MANAGED_D leads it to {GATEWAY}, by way of the proxy",
    ),
    "an empty one in a file": Case(
        CLAUDE, {"ANTHROPIC_BASE_URL": GATEWAY}, {"USER": url("")},
        f"{BY_SETTINGS} {VENDOR} (from USER)", SEARCH, settings(OURS),
    ),
    "a gateway in a file": Case(
        CLAUDE, {}, {"PROJECT": url(GATEWAY)},
        f"{LEFT} PROJECT leads it to {GATEWAY}, by way of the proxy",
    ),
    "another argument": Case(
        ("claude", '--settings={"model":"claude-opus-4-6"}'), {}, {"USER": url(LOCAL)},
        f"{BY_SETTINGS} {LOCAL} (from USER)", SEARCH,
        (f"--settings={settings(TO_LOCAL, model=FREE)[1]}",),
    ),
    "a file as an argument": Case(
        ("claude", "--settings", "own.json"), {}, {"USER": url(LOCAL), "OWN": {}},
        f"{LEFT} USER sets ANTHROPIC_BASE_URL to {LOCAL}, {NAMED}",
        hindrance=True,
    ),
    "that file": Case(
        ("claude", "--settings", "own.json"), {}, {"OWN": url(LOCAL)},
        f"{LEFT} OWN sets ANTHROPIC_BASE_URL to {LOCAL}, {NAMED}",
        hindrance=True,
    ),
    "a shell, and a file": Case(
        ("bash",), {}, {"USER": url(LOCAL)},
        f"{LEFT} USER sets ANTHROPIC_BASE_URL to {LOCAL}, and only obsmask run -- claude overrides "
        "that",
        hindrance=True,
    ),
    "files that are not read": Case(
        (*CLAUDE, "--setting-sources", "project,local"), {}, {"USER": url(LOCAL)}, TO_VENDOR, SET
    ),
    "broken files": Case(
        CLAUDE, {}, {"USER": "{nope", "PROJECT": "[]", "LOCAL": "\ufeff{}", "MANAGED": ""},
        f"{TO_VENDOR}; USER was not read: it holds no JSON object; "
        "PROJECT was not read: it holds no JSON object",
        SET,
    ),
    "what is no environment": Case(CLAUDE, {}, {"USER": {"env": [1], "model": 5}}, TO_VENDOR, SET),
    # The models.
    "a model that binds": Case(
        (*CLAUDE, "--model", "claude-fable-5-2"), {}, {},
        f"{LEFT} claude-fable-5-2 binds its reasoning to what precedes it", hindrance=True,
    ),
    "its other name": Case(
        ("claude", "--model=Fable[1m]"), {}, {},
        f"{LEFT} claude-fable-5-2 (Fable[1m]) binds its reasoning to what precedes it",
        hindrance=True,
    ),
    "a name that stands for another": Case(
        ("claude", "--model", "sonnet"), {"ANTHROPIC_DEFAULT_SONNET_MODEL": FREE}, {},
        TO_VENDOR, SET,
    ),
    "the variable before the files": Case(
        CLAUDE, {"ANTHROPIC_MODEL": FREE}, {"MANAGED": {"model": "fable"}},
        TO_VENDOR, SET,
    ),
    "the argument before the variable": Case(
        ("claude", "--model", "fable", "--model", FREE), {"ANTHROPIC_MODEL": "fable"}, {},
        TO_VENDOR, SET,
    ),
    "the model of the strongest file": Case(
        CLAUDE, {}, {"USER": {"model": FREE}, "PROJECT": {"model": "fable"}},
        f"{LEFT} claude-fable-5-2 (fable) binds its reasoning to what precedes it", hindrance=True,
    ),
    "a model that binds by account": Case(
        ("claude", "--model", "opus"), {}, {}, TO_VENDOR, SET
    ),
    "whichever is the account's": Case(("claude", "--model", "default"), {}, {}, TO_VENDOR, SET),
    "what stands in a prompt": Case(
        ("claude", "-p", "--", "--model", "fable"), {}, {}, TO_VENDOR, SET
    ),
}  # fmt: skip


@as_one_test
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_plan(case: Case, tmp_path: Path) -> None:
    places = write(case.files, tmp_path)
    found = plan(case.command, case.environment, places, Address("127.0.0.1", 8080), None)
    assert found is not None
    line = found.line
    for called, path in FILES.items():
        line = line.replace(str(tmp_path / path), called)
    assert case.line == line
    assert case.variables == found.variables
    assert case.hindrance == bool(found.hindrance)
    words = [*case.command]
    if case.added:
        kept = [word for word in words if not word.startswith(("--settings", "{"))]
        words = [kept[0], *case.added, *kept[1:]]
    assert words == [*found.command]


def write(files: Mapping[str, object], folder: Path) -> Places:
    for called, text in files.items():
        path = folder / FILES[called]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    return Places(folder / "user", folder / "work", folder / "managed")


@as_one_test
@pytest.mark.parametrize(
    "command",
    [("codex",), ("code", "--wait", "."), ("vim", "claude.md"), ("mine", "-x", "claude"), ("env",)],
)
def test_no_other_command_is_planned_for(command: Sequence[str], tmp_path: Path) -> None:
    assert None is plan(command, {}, write({}, tmp_path), Address("127.0.0.1", 8080), None)


def test_local_settings_are_those_of_the_repository(tmp_path: Path) -> None:
    """Its other settings are those of the working directory alone."""
    deep = tmp_path / "work" / "a" / "b"
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (deep / ".claude").mkdir(parents=True)
    places = write({"LOCAL": url(LOCAL), "PROJECT": url(GATEWAY)}, tmp_path)._replace(work=deep)
    found = plan_shell({}, places, Address("127.0.0.1", 8080), None)
    assert "settings.local.json sets ANTHROPIC_BASE_URL to http://localhost:4000" in found.line
    (deep / ".claude" / "settings.local.json").write_text(json.dumps(url(VENDOR)))
    assert found == plan_shell({}, places, Address("127.0.0.1", 8080), None)


def test_a_file_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    places = write({"USER": {}}, tmp_path)
    (places.user / "settings.json").write_bytes(b"\xff")
    found = plan_shell({}, places, Address("127.0.0.1", 8080), None)
    assert "was not read: it is not UTF-8" in found.line


HEALTH = Health(
    software_version="1", run="0", state="ON", is_masking=True, config="c", records=None,
    unopened={}, unserved=0,
)  # fmt: skip


@pytest.mark.parametrize("changes_bound", [False, True])
def test_a_model_that_binds_is_led_through_a_proxy_that_changes_it_all_the_same(
    changes_bound: bool, tmp_path: Path
) -> None:
    """By `--shorten` and `--provider-clearing`."""
    health = HEALTH.model_copy(update={"base_urls": True, "changes_bound": changes_bound})
    places, address = write({}, tmp_path), Address("127.0.0.1", 8080)
    found = plan(("claude", "--model", "fable"), {}, places, address, health)
    assert found is not None
    assert (SET if changes_bound else {}) == found.variables
    assert bool(found.hindrance) is not changes_bound


@pytest.mark.parametrize(
    ("host", "health", "problem"),
    [
        ("127.0.0.1", None, None),
        ("127.0.0.1", HEALTH.model_copy(update={"base_urls": True}), None),
        ("127.0.0.1", HEALTH, "the proxy at http://127.0.0.1:8080 is of an older version"),
        ("10.0.0.1", None, "is a base URL for clients of its own machine alone"),
    ],
)
def test_a_proxy_that_cannot_be_a_base_url(
    host: str, health: Health | None, problem: str | None
) -> None:
    found = find_problem(Address(host, 8080), health)
    assert (problem is None) == (found is None)
    assert (problem or "") in (found or "")


def test_nothing_is_done_for_a_proxy_that_cannot_be_a_base_url(tmp_path: Path) -> None:
    """What needs no change is unchanged for its own reason."""
    old, bound = Address("127.0.0.1", 8080), {"ANTHROPIC_MODEL": "claude-fable-5-2"}
    places = write({"LOCAL": url(LOCAL)}, tmp_path)
    found = plan(["claude", "-p"], {}, places, old, HEALTH)
    assert found is not None
    assert (("claude", "-p"), {}) == (found.command, found.variables)
    assert found.line.startswith(f"{LEFT} the proxy at http://127.0.0.1:8080 is of an older")
    assert "of an older version" in found.hindrance
    left = plan(["claude"], bound, write({}, tmp_path), old, HEALTH)
    assert left == plan(["claude"], bound, write({}, tmp_path), old, None)


@as_one_test
@pytest.mark.parametrize(
    ("command", "server", "added"),
    [
        ("codex exec task", "https://api.openai.com", "/to/https/api.openai.com/v1"),
        ("npx @openai/codex@0.169.0", "http://[::1]:8000/v2", "/to/http/[::1]:8000/v2"),
        (
            "env A=b codex",
            "https://chatgpt.com/backend-api/codex",
            "/to/https/chatgpt.com/",
        ),
        ("bash -c codex", "https://api.openai.com", None),
        ("qwen codex", "https://api.openai.com", None),
    ],
)
def test_codex_is_led_to_a_server_by_its_setting(
    command: str, server: str, added: str | None
) -> None:
    words = command.split()
    found = plan_reverse(words, Address("127.0.0.1", 8080), read_server(server))
    if added is None:
        assert found is None
        return
    assert found is not None
    place = next(at for at, word in enumerate(words) if "codex" in word) + 1
    option, setting = found.command[place : place + 2]
    assert (*words[:place], *words[place:]) == (*found.command[:place], *found.command[place + 2 :])
    assert option == "-c"
    assert setting.startswith(f'openai_base_url="{PORT}{added}')
    assert {} == found.variables
