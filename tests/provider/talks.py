"""Conversations with the scripted provider, as a client of each wire format has them."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.live.harness import SECONDS
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Call, Reply, ScriptedReplies, call

Body = dict[str, Any]

HTTP = httpx.Client(
    timeout=SECONDS,
    trust_env=False,
    limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
)
"""Made once: a client of httpx reads all authorities, which takes longer than most talks."""

ENDING = "All of it is done now, and nothing is left to do in “this” folder."
SCRIPT = ScriptedReplies(
    (
        Reply(
            thinking="Look first, and then look again.",
            calls=(call("call_0", "shell", command="ls"), call("call_1", "shell", command="é b")),
        ),
        Reply(content="One more look.", calls=(call("call_0", "shell", command="pwd"),)),
        Reply(thinking="That was it.", content=ENDING),
    )
)

PATCH = {"type": "delete_file", "path": "a.txt"}
PROGRAM = "text(await tools.look({deep: true}));"
TYPED_SCRIPT = ScriptedReplies(
    (
        Reply(
            thinking="Look first, and then look again.",
            calls=(call("call_0", "run", command="ls"), call("call_1", "run", command="é b")),
        ),
        Reply(
            thinking="Now the others.",
            content="One more look.",
            calls=(
                Call(id="call_2", tool="exec", arguments=PROGRAM),
                call("call_3", "shell", commands=["ls", "false"]),
                call("call_4", "apply_patch", **PATCH),
            ),
        ),
        Reply(thinking="That was it.", content=ENDING),
    )
)
"""For Responses, whose calls have types."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client of a format.

    path: where it asks.
    opening: its first request.
    entries: the name of the list that grows.
    follow: what it adds to that list after an answer, with "out" as each tool's output.
    streamed: the path for a stream; None where the body asks for one.
    """

    path: str
    opening: Body
    entries: str
    follow: Callable[[Body], list[Body]]
    script: ScriptedReplies = SCRIPT
    streamed: str | None = None

    def post(self, provider: Provider, body: Body, **headers: str) -> httpx.Response:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{provider.port}{self.path}"
        return HTTP.post(url, json=body, headers=fields)

    def stream(self, provider: Provider, body: Body) -> httpx.Response:
        url = f"http://127.0.0.1:{provider.port}{self.streamed or self.path}"
        asked = body if self.streamed else body | {"stream": True}
        return HTTP.post(url, json=asked)

    def play(self, provider: Provider, turns: int, **fields: object) -> Body:
        """Return the request after so many turns."""
        built = copy.deepcopy(self.opening) | fields
        for _ in range(turns):
            built[self.entries] += self.follow(self.post(provider, built).json())
        return built


def _follow_chat(answer: Body) -> list[Body]:
    message = answer["choices"][0]["message"]
    calls = message.get("tool_calls", ())
    return [
        message,
        *({"role": "tool", "tool_call_id": each["id"], "content": "out"} for each in calls),
    ]


def _follow_messages(answer: Body) -> list[Body]:
    results = [
        {"type": "tool_result", "tool_use_id": each["id"], "content": "out"}
        for each in answer["content"]
        if each["type"] == "tool_use"
    ]
    return [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": results},
    ]


_OUTPUTS: dict[str, Any] = {
    "function_call": {"output": "out"},
    "custom_tool_call": {"output": [{"type": "input_text", "text": "out"}]},
    "shell_call": {
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]
    },
    "apply_patch_call": {"status": "completed"},
}


def follow_responses(answer: Body) -> list[Body]:
    """Return what a client of Responses adds after an answer."""
    results = (
        {"type": f"{item['type']}_output", "call_id": item["call_id"], **_OUTPUTS[item["type"]]}
        for item in answer["output"]
        if item["type"] in _OUTPUTS
    )
    return [*answer["output"], *results]


def _follow_gemini(answer: Body) -> list[Body]:
    content = answer["candidates"][0]["content"]
    calls = (part["functionCall"] for part in content["parts"] if "functionCall" in part)
    parts = [
        {"functionResponse": {"id": c["id"], "name": c["name"], "response": {"output": "out"}}}
        for c in calls
    ]
    return [content, {"role": "user", "parts": parts}]


def _follow_ollama(answer: Body) -> list[Body]:
    message = answer["message"]
    names = [each["function"]["name"] for each in message["tool_calls"]]
    return [message, *({"role": "tool", "tool_name": name, "content": "out"} for name in names)]


TASK = {"role": "user", "content": "Do it."}
_CHAT_TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
_TYPED_TOOLS = [
    {"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
]

CHAT = Client(
    "/v1/chat/completions",
    {"model": "gpt-4o", "messages": [TASK], "tools": _CHAT_TOOLS},
    "messages",
    _follow_chat,
)
MESSAGES = Client(
    "/v1/messages",
    {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [TASK],
        "tools": [{"name": "shell", "input_schema": {"type": "object"}}],
    },
    "messages",
    _follow_messages,
)
RESPONSES = Client(
    "/v1/responses",
    {"model": "gpt-5.1-codex", "input": [TASK], "tools": _TYPED_TOOLS, "store": False},
    "input",
    follow_responses,
    TYPED_SCRIPT,
)
_GOOGLE = "/v1beta/models/gemini-3-pro-preview"
GEMINI = Client(
    f"{_GOOGLE}:generateContent",
    {
        "contents": [{"role": "user", "parts": [{"text": "Do it."}]}],
        "tools": [{"functionDeclarations": [{"name": "shell"}]}],
    },
    "contents",
    _follow_gemini,
    streamed=f"{_GOOGLE}:streamGenerateContent?alt=sse",
)
OLLAMA = Client(
    "/api/chat",
    {"model": "qwen3", "messages": [TASK], "tools": _CHAT_TOOLS, "stream": False},
    "messages",
    _follow_ollama,
)
CLIENTS = {
    "chat": CHAT,
    "messages": MESSAGES,
    "responses": RESPONSES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}
