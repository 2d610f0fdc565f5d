"""Writes a scripted reply as OpenAI Responses does: a body, a stream's events, an error.

Source: https://platform.openai.com/docs/api-reference/responses, and the events that codex and the
SDKs wait for. A call becomes what the request calls its tool: a function, a custom tool (codex's
`exec`), a shell or a patch.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from addon.recordings.provider.received import JsonDict, Received, Said
from addon.recordings.provider.responses_items import items_of, seal
from addon.recordings.provider.script import Call, Reply

CREATED = 1_735_689_600
"""The fixed time of every answer, in seconds: the first of January 2025."""

ACCOUNT = "acc_scripted"
"""Any subscriber's."""

_ERRORS = {
    400: ("invalid_request_error", "invalid_value", "The scripted provider refuses this request."),
    401: ("invalid_request_error", "invalid_api_key", "The scripted provider wants another key."),
    429: ("requests", "rate_limit_exceeded", "The scripted provider has had enough for now."),
    500: ("server_error", None, "The scripted provider broke on purpose."),
}

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""

_REPEATED = ("model", "tools", "tool_choice", "parallel_tool_calls", "store", "reasoning")
"""What an answer repeats of its request."""


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far: each run of its items was one answer."""
    texts: list[str] = []
    tools: list[str] = []
    items = (item for item in items_of(request) if isinstance(item, dict))
    for item in (*items, {"role": "user"}):
        if item.get("role") == "assistant":
            texts.append(_text(item.get("content")))
        elif item.get("type") in _CALLED:
            tools.append(_CALLED[item["type"]](item))
        elif item.get("type") != "reasoning" and (texts or tools):
            yield Said("".join(texts), tuple(tools))
            texts, tools = [], []


def offers_tools(request: JsonDict) -> bool:
    """Whether a request lets the model call tools, be they named in an item of their own."""
    return bool(_find_tools(request))


def streams(received: Received) -> bool:
    """Whether an answer is to be a stream."""
    return received.request.get("stream") is True


def answer(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer."""
    return _head(received) | {
        "status": "completed",
        "output": [*_output(received, reply)],
        "usage": usage,
    }


def tell_events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[JsonDict]:
    """Yield the events of a streamed answer, in order."""
    started = _head(received) | {"status": "in_progress", "output": [], "usage": None}
    whole = answer(received, reply, usage)
    events: list[JsonDict] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(whole["output"]):
        place: JsonDict = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress", **_EMPTY[item["type"]]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        events += [{**event, **place} for event in _PIECES[item["type"]](item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the same as server-sent events."""
    for event in tell_events(received, reply, usage):
        data = json.dumps(event, separators=(",", ":"))
        yield f"event: {event['type']}\ndata: {data}\n\n".encode()


def error(status: int, message: str | None = None) -> JsonDict:
    """Return an error body as OpenAI writes it; a status without an entry is a server error."""
    kind, code, words = _ERRORS.get(status, _ERRORS[500])
    return {"error": {"message": message or words, "type": kind, "param": None, "code": code}}


def find_accounts(_: Received) -> JsonDict:
    """Return where a subscriber's requests go, which codex asks with a ChatGPT login."""
    account = {
        "id": ACCOUNT,
        "workspace_backend_origin": "https://chatgpt.com",
        "account_routing_override": "NO_CONSTRAINT",
    }
    return {"accounts": [account], "account_ordering": [ACCOUNT]}


def compact(received: Received) -> JsonDict:
    """Return the answer to `POST …/responses/compact`: what the user said, and a summary."""
    items = items_of(received.request)
    summary = {
        "id": f"cmp_scripted_{len(items)}",
        "type": "compaction",
        "encrypted_content": seal(received.request, ""),
    }
    return {
        "id": f"resp_scripted_{len(items)}",
        "object": "response.compaction",
        "created_at": CREATED,
        "output": [*(item for item in items if item.get("role") == "user"), summary],
        "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    }


def _head(received: Received) -> JsonDict:
    number = len(items_of(received.request))
    repeated = {key: received.request[key] for key in _REPEATED if key in received.request}
    return {
        "id": f"resp_scripted_{number}",
        "object": "response",
        "created_at": CREATED,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "previous_response_id": None,
        "temperature": 1.0,
        "top_p": 1.0,
        **repeated,
        "tools": [],
    }


def _output(received: Received, reply: Reply) -> Iterator[JsonDict]:
    number = len(items_of(received.request))
    if reply.thinking is not None:
        yield {
            "id": f"rs_scripted_{number}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply.thinking}],
            "encrypted_content": seal(received.request, reply.thinking),
        }
    if reply.content is not None:
        text = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
        yield {
            "id": f"msg_scripted_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    kinds = {tool.get("name", tool["type"]): tool for tool in _find_tools(received.request)}
    for index, call in enumerate(reply.calls):
        tool = kinds.get(call.tool, {"type": "function"})
        spelled = _CALLS.get(tool["type"], _call_function)(call, tool)
        yield {"id": f"fc_scripted_{number}_{index}", **spelled, "status": "completed"}


def _call_function(call: Call, tool: Mapping[str, Any]) -> JsonDict:
    named = {"namespace": tool["namespace"]} if "namespace" in tool else {}
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.tool,
        **named,
        "arguments": call.arguments,
    }


def _call_custom(call: Call, tool: Mapping[str, Any]) -> JsonDict:
    named = {"namespace": tool["namespace"]} if "namespace" in tool else {}
    return {
        "type": "custom_tool_call",
        "call_id": call.id,
        "name": call.tool,
        **named,
        "input": call.arguments,
    }


def _call_shell(call: Call, _: Mapping[str, Any]) -> JsonDict:
    return {"type": "shell_call", "call_id": call.id, "action": json.loads(call.arguments)}


def _call_patch(call: Call, _: Mapping[str, Any]) -> JsonDict:
    return {
        "type": "apply_patch_call",
        "call_id": call.id,
        "operation": json.loads(call.arguments),
    }


_CALLS: dict[str, Callable[[Call, Mapping[str, Any]], JsonDict]] = {
    "function": _call_function,
    "custom": _call_custom,
    "shell": _call_shell,
    "apply_patch": _call_patch,
}
"""How a tool is called, by its type."""

_CALLED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "function_call": lambda item: str(item["name"]),
    "custom_tool_call": lambda item: str(item["name"]),
    "shell_call": lambda _: "shell",
    "apply_patch_call": lambda _: "apply_patch",
}
"""The tool that an item calls, by the item's type."""


def _find_tools(request: Mapping[str, Any]) -> list[JsonDict]:
    """Return the tools of a request, those within namespaces too."""
    groups = [request.get("tools") or []]
    items = (item for item in items_of(request) if isinstance(item, dict))
    groups += [item["tools"] for item in items if item.get("type") == "additional_tools"]
    tools: list[JsonDict] = []
    for tool in (tool for group in groups for tool in group):
        if tool["type"] == "namespace":
            tools += [{**inner, "namespace": tool["name"]} for inner in tool["tools"]]
        else:
            tools.append(tool)
    return tools


def _tell_reasoning(item: JsonDict) -> Iterator[JsonDict]:
    (part,) = item["summary"]
    place, name = {"summary_index": 0}, "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **place, "part": {**part, "text": ""}}
    for piece in _PIECE.findall(part["text"]):
        yield {"type": f"{name}_text.delta", **place, "delta": piece}
    yield {"type": f"{name}_text.done", **place, "text": part["text"]}
    yield {"type": f"{name}_part.done", **place, "part": part}


def _tell_message(item: JsonDict) -> Iterator[JsonDict]:
    (part,) = item["content"]
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in _PIECE.findall(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _tell_arguments(item: JsonDict) -> Iterator[JsonDict]:
    for piece in _PIECE.findall(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {
        "type": "response.function_call_arguments.done",
        "name": item["name"],
        "arguments": item["arguments"],
    }


def _tell_input(item: JsonDict) -> Iterator[JsonDict]:
    for piece in _PIECE.findall(item["input"]):
        yield {"type": "response.custom_tool_call_input.delta", "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


_PIECES: dict[str, Callable[[JsonDict], Iterator[JsonDict]]] = {
    "reasoning": _tell_reasoning,
    "message": _tell_message,
    "function_call": _tell_arguments,
    "custom_tool_call": _tell_input,
    "shell_call": lambda _: iter(()),
    "apply_patch_call": lambda _: iter(()),
}
"""What is told of an item between its beginning and its end, by its type."""

_EMPTY: dict[str, JsonDict] = {
    "reasoning": {"summary": [], "encrypted_content": ""},
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "shell_call": {},
    "apply_patch_call": {},
}
"""What an item is like at its beginning, by its type."""


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
