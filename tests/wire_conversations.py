"""Builds conversations in every wire format: a row for each."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from masking.conversation import WireFormat
from masking.model import Path
from masking.wire.chat import CHAT
from masking.wire.gemini import GEMINI
from masking.wire.messages import MESSAGES
from masking.wire.ollama import OLLAMA
from masking.wire.responses import RESPONSES
from tests.made_up_format import MADE_UP

Item = dict[str, Any]

MODEL = "claude-sonnet-4-5"
"""It binds no reasoning."""


class ToolCall(NamedTuple):
    """A call of a conversation. Where a format has no ids, it goes without."""

    id: str
    tool: str
    path: str = ""

    @property
    def arguments(self) -> Item:
        return {"path": self.path} if self.path else {}


class Answered(NamedTuple):
    """The result of a call."""

    id: str
    tool: str
    text: str


class FormatBuilder(NamedTuple):
    """Builds a conversation in a wire format.

    user, answer: an element in which the user, or the model, says a text.
    calls: the elements of an answer with these calls.
    results: the elements with these results.
    list_path: where the elements are in a request.
    """

    name: str
    wire: WireFormat
    user: Callable[[str], Item]
    answer: Callable[[str], Item]
    calls: Callable[[Sequence[ToolCall]], list[Item]]
    results: Callable[[Sequence[Answered]], list[Item]]
    list_path: Path

    def request(self, items: Sequence[object], **others: object) -> Item:
        """Return a request with these elements."""
        *outer, key = map(str, self.list_path)
        document: Item = {**others, key: [*items]}
        for step in reversed(outer):
            document = {step: document}
        return {"model": MODEL, **document}


def _say(role: str) -> Callable[[str], Item]:
    return lambda text: {"role": role, "content": text}


def _function(call: ToolCall) -> Item:
    return {"name": call.tool, "arguments": json.dumps(call.arguments)}


CHAT_BUILDER = FormatBuilder(
    "Chat",
    CHAT,
    _say("user"),
    _say("assistant"),
    lambda calls: [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": c.id, "type": "function", "function": _function(c)} for c in calls
            ],
        }
    ],
    lambda results: [{"role": "tool", "tool_call_id": r.id, "content": r.text} for r in results],
    ("messages",),
)

MESSAGES_BUILDER = FormatBuilder(
    "Messages",
    MESSAGES,
    _say("user"),
    _say("assistant"),
    lambda calls: [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": c.id, "name": c.tool, "input": c.arguments}
                for c in calls
            ],
        }
    ],
    lambda results: [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": r.id, "content": r.text} for r in results
            ],
        }
    ],
    ("messages",),
)

RESPONSES_BUILDER = FormatBuilder(
    "Responses",
    RESPONSES,
    lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}]},
    lambda text: {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    },
    lambda calls: [{"type": "function_call", "call_id": c.id, **_function(c)} for c in calls],
    lambda results: [
        {"type": "function_call_output", "call_id": r.id, "output": r.text} for r in results
    ],
    ("input",),
)


def _content(role: str, *parts: Item) -> Item:
    return {"role": role, "parts": [*parts]}


def _gemini(name: str, list_path: Path, *, ids: bool) -> FormatBuilder:
    def identify(call_id: str) -> Item:
        return {"id": call_id} if ids else {}

    return FormatBuilder(
        name,
        GEMINI,
        lambda text: _content("user", {"text": text}),
        lambda text: _content("model", {"text": text}),
        lambda calls: [
            _content(
                "model",
                *(
                    {"functionCall": {**identify(c.id), "name": c.tool, "args": c.arguments}}
                    for c in calls
                ),
            )
        ],
        lambda results: [
            _content(
                "user",
                *(
                    {
                        "functionResponse": {
                            **identify(r.id),
                            "name": r.tool,
                            "response": {"name": r.tool, "output": r.text},
                        }
                    }
                    for r in results
                ),
            )
        ],
        list_path,
    )


GEMINI_BUILDER = _gemini("Gemini", ("contents",), ids=True)
GEMINI_WITHOUT_IDS = _gemini("Gemini without ids", ("contents",), ids=False)
CODE_ASSIST = _gemini("Code Assist", ("request", "contents"), ids=True)

OLLAMA_BUILDER = FormatBuilder(
    "Ollama",
    OLLAMA,
    _say("user"),
    _say("assistant"),
    lambda calls: [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": c.tool, "arguments": c.arguments}} for c in calls],
        }
    ],
    lambda results: [{"role": "tool", "tool_name": r.tool, "content": r.text} for r in results],
    ("messages",),
)


def _pieces(by: str, *pieces: Item) -> Item:
    return {"by": by, "pieces": [*pieces]}


def _outcome(result: Answered) -> Item:
    is_object = result.text.startswith("{")
    value = json.loads(result.text) if is_object else result.text
    return {"outcome": {"of": result.id, "value": value}}


MADE_UP_BUILDER = FormatBuilder(
    "made up",
    MADE_UP,
    lambda text: _pieces("human", {"say": text}),
    lambda text: _pieces("model", {"say": text}),
    lambda calls: [
        _pieces("model", {"call": {"id": c.id, "tool": c.tool, "with": c.arguments}}) for c in calls
    ],
    lambda results: [_pieces("human", *map(_outcome, results))],
    ("request", "contents"),
)

REAL_BUILDERS = (
    *(CHAT_BUILDER, MESSAGES_BUILDER, RESPONSES_BUILDER),
    *(GEMINI_BUILDER, GEMINI_WITHOUT_IDS, CODE_ASSIST, OLLAMA_BUILDER),
)
"""The formats that providers have."""

BUILDERS = (*REAL_BUILDERS, MADE_UP_BUILDER)
