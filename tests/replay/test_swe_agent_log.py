"""SWE-agent's trajectories: which requests they show, and what each sent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.replay.logs import find_logs
from addon.replay.logs.log import LoggedConversation
from addon.replay.logs.swe_agent import SWE_AGENT
from masking.wire import CHAT

Message = Mapping[str, Any]

CONFIG = json.dumps({"agent": {"model": {"name": "anthropic/claude-sonnet-4-5"}}})
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
SYSTEM: Message = {"role": "system", "content": "You mend.", "message_type": "system_prompt"}
TASK: Message = {"role": "user", "content": "Mend it.", "agent": "main"}
LOOKS: Message = {
    "role": "assistant",
    "content": "Let me look.",
    "thought": "Let me look.",
    "action": "ls",
    "tool_calls": [CALL],
    "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}],
}
GIVEN: Message = {"role": "tool", "content": "a.py", "tool_call_ids": ["c1"]}

SENT = [
    {"role": "system", "content": "You mend."},
    {"role": "user", "content": "Mend it."},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [CALL],
        "reasoning_content": "Hm.",
    },
    {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
]


def write(path: Path, *steps: Message, **more: object) -> Path:
    document = {"trajectory": steps, "info": {"model_stats": {"api_calls": 2}}}
    path.write_text(json.dumps({**document, "replay_config": CONFIG, **more}, indent=2))
    return path


def read_one(path: Path) -> LoggedConversation:
    (found,) = find_logs(path)
    assert SWE_AGENT.agent == found.agent
    (log,) = found.logs
    (conversation,) = SWE_AGENT.read(log)
    return conversation


def test_a_step_has_what_was_sent(tmp_path: Path) -> None:
    first, second = {"query": [SYSTEM, TASK]}, {"query": [SYSTEM, TASK, LOOKS, GIVEN]}
    write(tmp_path / "task-1.traj", first, second)
    conversation = read_one(tmp_path)
    assert ("task-1", "api.anthropic.com", CHAT) == (
        *(conversation.name, conversation.host, conversation.wire),
    )
    asked, again = conversation.requests()
    assert (SENT[:2], SENT) == (asked.items, again.items)
    assert asked.items[1] is again.items[1]
    assert ("claude-sonnet-4-5", None) == (again.model, again.usage)


def test_older_steps_go_on_with_the_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "t.traj", {"messages": [SYSTEM, TASK, LOOKS, GIVEN]})
    (request,) = read_one(path).requests()
    assert SENT[:2] == request.items


def test_before_1_0_there_is_only_a_history(tmp_path: Path) -> None:
    shown = {**LOOKS, "is_demo": True}
    said = {"role": "assistant", "content": "ls"}, {"role": "user", "content": "a.py"}
    path = write(tmp_path / "t.traj", {"action": "ls"}, history=[SYSTEM, shown, TASK, *said])
    (request,) = read_one(path).requests()
    assert [SENT[0], SENT[2], SENT[1]] == request.items


def test_its_amounts_are_estimates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "t.traj", {"query": [TASK]})
    assert main(["replay", str(tmp_path)]) == 0
    assert "swe-agent, claude-sonnet-4-5" in (out := capsys.readouterr().out)
    assert "estimate" in out


def test_half_a_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.traj", {"query": [TASK]})
    path.write_text(path.read_text()[:-1])
    with pytest.raises(ValueError, match=r"t\.traj:1: not a trajectory of SWE-agent: "):
        read_one(path)
