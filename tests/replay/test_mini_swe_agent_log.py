"""mini-swe-agent's trajectories: which requests they show, and what each sent."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from addon.replay.files import read_conversations
from addon.replay.logs.log import LoggedConversation, LoggedRequest
from addon.replay.logs.mini_swe_agent import MINI_SWE_AGENT
from masking.wire import CHAT, RESPONSES, Usage

Message = Mapping[str, Any]

BEGAN = 1_790_000_000.5
LITELLM = "minisweagent.models.litellm_model.LitellmModel"
SYSTEM: Message = {"role": "system", "content": "You can use a shell."}
TASK: Message = {"role": "user", "content": "Find the bug."}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGAN + seconds, UTC)


def response(name: str, prompt: int) -> Message:
    details = {"cached_tokens": 90, "cache_creation_tokens": 5}
    usage = {"prompt_tokens": prompt, "completion_tokens": 7, "prompt_tokens_details": details}
    return {"id": name, "created": int(BEGAN), "model": "claude-fable-5-20260101", "usage": usage}


def asked(name: str) -> Message:
    return {"id": name, "type": "function", "function": {"name": "bash", "arguments": "{}"}}


def answer(name: str, seconds: float, prompt: int = 100) -> Message:
    return {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [asked(name)],
        "extra": {"response": response(f"r-{name}", prompt), "timestamp": BEGAN + seconds},
    }


def result(name: str, seconds: float) -> Message:
    extra = {"raw_output": name, "returncode": 0, "timestamp": BEGAN + seconds}
    return {"content": f"what {name} printed", "tool_call_id": name, "role": "tool", "extra": extra}


def write(
    path: Path,
    *messages: Message,
    model: str = "anthropic/claude-fable-5",
    kwargs: Message = {},  # noqa: B006 - it is not changed
    model_type: str = LITELLM,
) -> Path:
    own = {"model_name": model, "model_kwargs": kwargs}
    config = {"model": own, "model_type": model_type, "environment": {"cwd": "/home/me/shop"}}
    info = {"model_stats": {"instance_cost": 0.1, "api_calls": 2}, "config": config}
    document = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    path.write_text(json.dumps(document, indent=2))
    return path


def read_one(path: Path) -> LoggedConversation:
    (log,) = MINI_SWE_AGENT.find(path)
    (conversation,) = MINI_SWE_AGENT.read(log)
    return conversation


def requests_of(path: Path) -> Sequence[LoggedRequest]:
    return list(read_one(path).requests())


def test_each_answer_was_a_request(tmp_path: Path) -> None:
    messages = (SYSTEM, TASK, answer("a", 2), result("a", 3), answer("b", 5, prompt=140))
    path = write(tmp_path / "shop.traj.json", *messages, {"role": "exit", "content": ""})
    conversation = read_one(tmp_path)
    assert ("shop", "shop", "api.anthropic.com") == (
        conversation.name,
        conversation.project,
        conversation.host,
    )
    assert CHAT is conversation.wire
    first, second = requests_of(path)
    assert [SYSTEM, TASK] == list(first.items)
    assert [
        SYSTEM,
        TASK,
        {"role": "assistant", "tool_calls": [asked("a")]},
        {"role": "tool", "tool_call_id": "a", "content": "what a printed"},
    ] == list(second.items)
    assert first.items[0] is second.items[0]
    assert Usage(prompt=140, cached=90, written=5, completion=7) == second.usage
    assert "claude-fable-5" == first.model == second.model
    assert ["r-a", "r-b"] == [first.key, second.key]
    assert [at(2), at(3)] == [first.when, second.when]


def test_an_answer_that_was_no_call_is_counted_and_not_sent(tmp_path: Path) -> None:
    extra = {"interrupt_type": "FormatError", "response": response("r-lost", 100)}
    complaint = {"role": "user", "content": "Call a tool.", "extra": extra}
    path = write(tmp_path / "t.traj.json", SYSTEM, TASK, complaint, answer("b", 5))
    first, second = requests_of(path)
    assert [SYSTEM, TASK] == list(first.items)
    assert [SYSTEM, TASK, {"role": "user", "content": "Call a tool."}] == list(second.items)
    assert ["r-lost", "r-b"] == [first.key, second.key]
    assert datetime.fromtimestamp(int(BEGAN), UTC) == first.when


def test_an_answer_of_the_responses_api_is_sent_as_its_output(tmp_path: Path) -> None:
    called = {"type": "function_call", "call_id": "a", "name": "bash", "arguments": "{}"}
    usage = {"input_tokens": 100, "output_tokens": 7}
    output = [{"type": "reasoning", "id": "x", "summary": []}, called]
    told = {"object": "response", "id": "r-a", "output": output, "usage": usage}
    given = {"type": "function_call_output", "call_id": "a", "output": "what a printed"}
    extra = {"timestamp": BEGAN + 3}
    path = write(
        *(tmp_path / "t.traj.json", TASK, {**told, "extra": {"timestamp": BEGAN}}),
        *({**given, "extra": extra}, {**told, "id": "r-b", "extra": extra}),
        model="openai/gpt-5.5",
    )
    assert RESPONSES is read_one(path).wire
    first, second = requests_of(path)
    assert [TASK] == list(first.items)
    assert [TASK, *output, given] == list(second.items)
    assert Usage(prompt=100, completion=7) == second.usage
    assert at(3) == second.when


def test_a_time_may_stand_beside_the_content(tmp_path: Path) -> None:
    """As it did in version 1."""
    task = {**TASK, "timestamp": BEGAN}
    (request,) = requests_of(write(tmp_path / "t.traj.json", task, answer("a", 2)))
    assert [TASK] == list(request.items)
    assert at(0) == request.when


@pytest.mark.parametrize(
    ("model", "kwargs", "model_type", "expected"),
    [
        ("openai/gpt-5.5", {}, LITELLM, ("api.openai.com", "gpt-5.5")),
        ("gpt-5.5", {}, LITELLM, ("api.openai.com", "gpt-5.5")),
        ("claude-fable-5", {}, LITELLM, ("api.anthropic.com", "claude-fable-5")),
        ("openrouter/z-ai/glm-5", {}, LITELLM, ("openrouter.ai", "z-ai/glm-5")),
        ("bedrock/us.claude", {}, LITELLM, (None, "us.claude")),
        ("of-our-own/claude", {}, LITELLM, (None, "of-our-own/claude")),
        (
            *("openai/qwen3", {"api_base": "http://llm.example:8000/v1"}, LITELLM),
            ("llm.example", "qwen3"),
        ),
        (
            *("anthropic/claude-fable-5", {}),
            "minisweagent.models.openrouter_model.OpenRouterModel",
            ("openrouter.ai", "anthropic/claude-fable-5"),
        ),
        ("", {}, LITELLM, (None, "claude-fable-5-20260101")),
    ],
)
def test_the_provider_is_told_by_the_models_name(
    model: str, kwargs: Message, model_type: str, expected: tuple[str | None, str], tmp_path: Path
) -> None:
    path = write(
        *(tmp_path / "t.traj.json", TASK, answer("a", 2)),
        model=model,
        kwargs=kwargs,
        model_type=model_type,
    )
    (request,) = requests_of(path)
    assert expected == (read_one(path).host, request.model)


def test_a_trajectory_without_usage_is_a_conversation_of_a_file(tmp_path: Path) -> None:
    said = {key: value for key, value in answer("a", 2).items() if key != "extra"}
    path = write(tmp_path / "t.traj.json", SYSTEM, TASK, said, result("a", 3))
    assert [] == list(MINI_SWE_AGENT.find(path))
    (conversation,) = read_conversations(path)
    assert len(conversation.messages) == 4


def test_other_files_are_none_of_its_logs(tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text('{"info": {"id": "ses_1"}, "usage": {"input": 1}}')
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "empty.traj.json").write_text("")
    assert [] == list(MINI_SWE_AGENT.find(tmp_path))


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.traj.json", TASK, answer("a", 2))
    path.write_text(path.read_text()[:-1])
    (log,) = MINI_SWE_AGENT.find(path)
    with pytest.raises(ValueError, match=r"t\.traj\.json:1: not a trajectory of mini-swe-agent"):
        list(MINI_SWE_AGENT.read(log))


def test_it_is_looked_for_where_it_keeps_its_settings(tmp_path: Path) -> None:
    assert tmp_path / ".config" / "mini-swe-agent" in MINI_SWE_AGENT.homes(tmp_path, {})
    own = {"MSWEA_GLOBAL_CONFIG_DIR": "/elsewhere"}
    assert (Path("/elsewhere"),) == MINI_SWE_AGENT.homes(tmp_path, own)
