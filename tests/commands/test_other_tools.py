"""Which other program that shortens requests is noticed, and by what."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from addon.commands.claude_code import Places, plan
from addon.commands.other_tools import find_other_tools
from addon.network import DEFAULT_ADDRESS
from tests.support.marks import as_one_test

LIGHTFOOT = '"/usr/bin/python3" -m lightfoot hook post-tool-use'


@as_one_test
@pytest.mark.parametrize(
    ("environment", "hooks", "expected"),
    [
        ({}, (), []),
        ({}, ("rtk hook claude",), ["rtk"]),
        ({}, ("/home/me/.claude/hooks/rtk-rewrite.sh",), ["rtk"]),
        ({}, ("/home/me/start-rtk-query.sh", "prettier --write"), []),
        ({}, (LIGHTFOOT,), ["lightfoot"]),
        ({}, ("headroom hook pre-tool-use",), ["headroom"]),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787"}, (), ["headroom"]),
        ({"OPENAI_BASE_URL": "http://localhost:8787/v1"}, (), ["headroom"]),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787/l/3f"}, (), ["lightfoot"]),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787"}, (LIGHTFOOT,), ["lightfoot"]),
        ({"HTTPS_PROXY": "http://127.0.0.1:43117"}, (), ["llmtrim"]),
        ({"https_proxy": "127.0.0.1:43117"}, (), ["llmtrim"]),
        ({"HTTPS_PROXY": "http://proxy.company.example:8787"}, (), []),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"}, (), []),
        ({"ANTHROPIC_BASE_URL": "http://[:8787"}, (), []),
        ({"MY_SERVER": "http://127.0.0.1:8787"}, (), []),
        (
            {"HTTPS_PROXY": "http://127.0.0.1:43117", "HTTP_PROXY": "http://127.0.0.1:43117"},
            ("rtk hook claude", "rtk hook claude"),
            ["rtk", "llmtrim"],
        ),
    ],
)
def test_another_tool_is_noticed(
    environment: Mapping[str, str], hooks: tuple[str, ...], expected: list[str]
) -> None:
    found = [each.split()[0] for each in find_other_tools(environment, hooks)]
    assert expected == found


def test_it_is_said_why_it_matters_and_what_to_do() -> None:
    (found,) = find_other_tools({}, ("rtk hook claude",))
    assert found == (
        "rtk shortens requests, too (Claude Code has the hook rtk hook claude): two that cut, cut "
        "twice, and neither's saving is right. To take it out of the way: rtk init -g --uninstall"
    )


def test_the_settings_of_claude_code_are_looked_through(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path, tmp_path)
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "rtk hook claude"}]}
    variables = {"HTTPS_PROXY": "http://127.0.0.1:43117"}
    told = {"env": variables, "hooks": {"PreToolUse": [hook, 1, None]}}
    (tmp_path / "settings.json").write_text(json.dumps(told))
    found = plan(["claude"], {}, places, DEFAULT_ADDRESS, None)
    assert found is not None
    assert ["rtk", "llmtrim"] == [each.split()[0] for each in found.others]
