"""The scripted provider as Ollama: what it answers, counts and refuses."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import Reply, ScriptedReplies, call
from tests.live.harness import SECONDS

TASK = {"role": "user", "content": "Do it."}
TOOLS = [{"type": "function", "function": {"name": "shell"}}]
SCRIPT = ScriptedReplies(
    (
        Reply(
            thinking="Look first, and then look again.",
            calls=(call("call_0", "shell", command="ls"), call("call_1", "read", path="é b")),
        ),
        Reply(content="All of it is done now, and nothing is left."),
    )
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(SCRIPT, strict=True) as running:
        yield running


def post(provider: Provider, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{provider.port}/api/chat", json=body, timeout=SECONDS)


def play(provider: Provider, turns: int) -> dict[str, Any]:
    """The request after so many turns, as a client builds it."""
    built: dict[str, Any] = {"model": "qwen3", "messages": [dict(TASK)], "tools": TOOLS}
    for _ in range(turns):
        message = post(provider, built | {"stream": False}).json()["message"]
        built["messages"].append(message)
        built["messages"] += [
            {"role": "tool", "tool_name": each["function"]["name"], "content": "out"}
            for each in message["tool_calls"]
        ]
    return built


@pytest.mark.parametrize("turns", [0, 1])
def test_the_lines_of_a_stream_add_up_to_the_whole_answer(provider: Provider, turns: int) -> None:
    body = play(provider, turns)
    whole = post(provider, body | {"stream": False}).json()
    streamed = post(provider, body)
    assert "application/x-ndjson" == streamed.headers["content-type"]
    *lines, last = map(json.loads, streamed.text.splitlines())
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for line in lines:
        assert not line["done"]
        for key, value in line["message"].items():
            if key != "role" and (value or key == "content"):
                message[key] = message.get(key, type(value)()) + value
    assert whole == {**last, "message": message}
    assert last["prompt_eval_count"] > last["eval_count"] > 0


def test_calls_have_no_ids(provider: Provider) -> None:
    calls = play(provider, 1)["messages"][1]["tool_calls"]
    assert [{"name": "shell", "arguments": {"command": "ls"}}] == [calls[0]["function"]]
    assert ["function"] == [*calls[0]]


Change = Callable[[list[dict[str, Any]]], object]

REFUSED: list[tuple[str, Change, str]] = [
    ("an unknown key", lambda m: m[0].update(parts=[]), "messages[0]: unknown field parts"),
    ("an unknown role", lambda m: m[0].update(role="model"), "messages[0]: invalid role: model"),
    ("a list as content", lambda m: m[0].update(content=[]), "messages[0]: content must be"),
    ("a missing result", lambda m: m.pop(), "no messages answer read"),
    ("a message too early", lambda m: m.insert(3, TASK), "messages[3]: no messages answer read"),
    ("a result too much", lambda m: m.append(m[3]), "messages[4]: answers no open call"),
    ("results in another order", lambda m: m.append(m.pop(2)), "messages[2]: answers no open call"),
    (
        "arguments as a text",
        lambda m: m[1]["tool_calls"][0]["function"].update(arguments="{}"),
        "messages[1]: arguments must be an object",
    ),
]


@pytest.mark.parametrize(
    ("change", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused(provider: Provider, change: Change, problem: str) -> None:
    body = copy.deepcopy(play(provider, 1))
    change(body["messages"])
    refused = post(provider, body)
    assert 400 == refused.status_code
    assert problem in refused.json()["error"]


def test_an_unknown_field_is_refused(provider: Provider) -> None:
    refused = post(provider, {"contents": [], "messages": []})
    assert {"error": "unknown field contents"} == refused.json()


def test_an_error_is_in_ollamas_shape() -> None:
    with Provider(ScriptedReplies((Reply(status=500),))) as provider:
        refused = post(provider, {"messages": [TASK], "tools": TOOLS})
    assert (500, ["error"]) == (refused.status_code, [*refused.json()])
