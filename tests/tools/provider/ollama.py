"""Writes a scripted reply as Ollama's own API does: one object, or lines of JSON.

An answer is streamed unless the request says otherwise, and calls have no ids. The server keeps the
prompt in memory, and finds any prefix of it again.
"""

import json
import re
from collections.abc import Iterator

from tests.tools.provider.any_prefix import AnyPrefix, count_said
from tests.tools.provider.script import JsonDict, Received, Reply, Said, Spell

_CREATED = "2025-01-01T00:00:00Z"

_ROLES = ("system", "user", "assistant", "tool")

_FIELDS = frozenset(
    (
        *("model", "messages", "tools", "stream", "format", "options", "keep_alive", "think"),
        *("logprobs", "top_logprobs", "truncate", "shift"),
    )
)
_MESSAGE_FIELDS = frozenset(
    ("role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id")
)

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""


class PromptCache:
    """What the server has in memory; `spell` is applied to each message before it is counted."""

    def __init__(self, spell: Spell = str) -> None:
        self._prefixes = AnyPrefix(spell)

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request; what was found in memory it does not say."""
        request = received.request
        head = json.dumps([request.get("model"), request.get("tools")])
        messages = map(json.dumps, request.get("messages") or ())
        prompt, _ = self._prefixes.count([head, *messages])
        return {"prompt_eval_count": prompt, "eval_count": count_said(reply)}


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far."""
    for message in request.get("messages") or ():
        if message.get("role") == "assistant":
            calls = message.get("tool_calls") or ()
            tools = tuple(each["function"]["name"] for each in calls)
            yield Said(message.get("content") or "", tools)


def check(received: Received) -> str | None:
    """Say what cannot be read in a request, or which message answers no call."""
    request = received.request
    if unknown := sorted(request.keys() - _FIELDS):
        return f"unknown field {unknown[0]}"
    open_calls: list[str] = []
    for index, message in enumerate(request.get("messages") or ()):
        if unknown := sorted(message.keys() - _MESSAGE_FIELDS):
            return f"messages[{index}]: unknown field {unknown[0]}"
        if message.get("role") not in _ROLES:
            return f"messages[{index}]: invalid role: {message.get('role')}"
        if not isinstance(message.get("content", ""), str):
            return f"messages[{index}]: content must be a string"
        if message["role"] == "tool":
            if not open_calls or message.get("tool_name", open_calls[0]) != open_calls.pop(0):
                return f"messages[{index}]: answers no open call"
            continue
        if open_calls:
            return f"messages[{index}]: no messages answer {', '.join(open_calls)}"
        open_calls = [each["function"]["name"] for each in message.get("tool_calls") or ()]
        if any(
            isinstance(c["function"]["arguments"], str) for c in message.get("tool_calls") or ()
        ):
            return f"messages[{index}]: arguments must be an object"
    return f"no messages answer {', '.join(open_calls)}" if open_calls else None


def streams(received: Received) -> bool:
    """Whether a stream is wanted: unless the request says no."""
    return received.request.get("stream") is not False


def answer(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer that is not streamed."""
    message: JsonDict = {"role": "assistant", "content": reply.content or ""}
    if reply.thinking is not None:
        message["thinking"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    return _line(received, message) | _end(usage)


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the lines of a streamed answer; the last one has the usage."""
    for message in _deltas(reply):
        line = _line(received, {"role": "assistant", "content": "", **message})
        yield _spell(line | {"done": False})
    yield _spell(_line(received, {"role": "assistant", "content": ""}) | _end(usage))


def error(status: int, problem: str | None = None) -> JsonDict:
    """Return an error body as Ollama writes it."""
    return {"error": problem or f"the scripted provider refuses this request ({status})"}


def _deltas(reply: Reply) -> Iterator[JsonDict]:
    for piece in _PIECE.findall(reply.thinking or ""):
        yield {"thinking": piece}
    for piece in _PIECE.findall(reply.content or ""):
        yield {"content": piece}
    if reply.calls:
        yield {"tool_calls": _calls(reply)}


def _calls(reply: Reply) -> list[JsonDict]:
    return [
        {"function": {"name": each.tool, "arguments": json.loads(each.arguments)}}
        for each in reply.calls
    ]


def _line(received: Received, message: JsonDict) -> JsonDict:
    model = str(received.request.get("model", "llama3.2"))
    return {"model": model, "created_at": _CREATED, "message": message}


def _end(usage: JsonDict) -> JsonDict:
    return {"done_reason": "stop", "done": True, "total_duration": 1_000_000, **usage}


def _spell(line: JsonDict) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
