"""Writes a scripted reply as Chat Completions does: a body, a stream's events, an error, a usage.

All of it is a function of the request and the reply, without a clock or random ids, so the same
conversation gets the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.tools.provider.script import JsonDict, Received, Reply, Said, Spell

CREATED = 1_735_689_600
"""The fixed `created` time of every answer, in seconds: the first of January 2025."""

CHARS_PER_TOKEN = 4
CACHE_STEP = 128
CACHE_LEAST = 1024

_ERRORS = {
    400: ("invalid_request_error", "invalid_value", "The scripted provider refuses this request."),
    401: ("invalid_request_error", "invalid_api_key", "The scripted provider wants another key."),
    429: ("requests", "rate_limit_exceeded", "The scripted provider has had enough for now."),
    500: ("server_error", None, "The scripted provider broke on purpose."),
}

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""


class PromptCache:
    """The provider's prompt cache: it remembers the prefixes that it has seen, as digests.

    The rule is OpenAI's: the longest common prefix, in whole messages, at least 1,024 tokens, in
    steps of 128. Four characters count as a token. `spell` is applied to each message before it is
    counted, because what differs from run to run must not change a recording's usage.
    """

    def __init__(self, spell: Spell = str) -> None:
        self._seen: set[bytes] = set()
        self._spell = spell

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prefixes."""
        prompt = cached = 0
        for digest, chars in _prefixes(received.request, self._spell):
            prompt = chars // CHARS_PER_TOKEN
            if digest in self._seen:
                cached = prompt
            self._seen.add(digest)
        completion = max(1, len(_said(reply)) // CHARS_PER_TOKEN)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": _cacheable(cached), "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far."""
    for message in request.get("messages") or ():
        if message.get("role") == "assistant":
            calls = message.get("tool_calls") or ()
            tools = tuple(each["function"]["name"] for each in calls)
            yield Said(_text(message.get("content")), tools)


def check(received: Received) -> str | None:
    """Say which message answers no call of the turn before it, or which call has no answer."""
    pending: set[str] = set()
    for index, message in enumerate(received.request.get("messages") or ()):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in pending:
                return f"messages[{index}]: role 'tool' must follow a message with its tool call"
            pending.remove(message["tool_call_id"])
        elif pending:
            return f"messages[{index}]: no tool messages answer {', '.join(sorted(pending))}"
        else:
            pending = {each["id"] for each in message.get("tool_calls") or ()}
    return f"no tool messages answer {', '.join(sorted(pending))}" if pending else None


def completion(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer that is not streamed."""
    message: JsonDict = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.tool, "arguments": each.arguments},
            }
            for each in reply.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return _head("chat.completion", received.request) | {"choices": [choice], "usage": usage}


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the events of a streamed answer, with `[DONE]` at the end.

    The usage comes last, in a chunk without choices, when `stream_options` asks for it.
    """
    head = _head("chat.completion.chunk", received.request)
    for delta in _deltas(reply):
        yield _event(head | {"choices": [_streamed(delta, None)]})
    yield _event(head | {"choices": [_streamed({}, _finish(reply))]})
    if (received.request.get("stream_options") or {}).get("include_usage"):
        yield _event(head | {"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def error(status: int, message: str | None = None) -> JsonDict:
    """Return an error body as OpenAI writes it; a status without an entry is a server error."""
    kind, code, words = _ERRORS.get(status, _ERRORS[500])
    return {"error": {"message": message or words, "type": kind, "param": None, "code": code}}


def models(_: Received) -> JsonDict:
    """Return the answer to `GET /v1/models`."""
    listed = {"id": "gpt-4o", "object": "model", "created": CREATED, "owned_by": "scripted"}
    return {"object": "list", "data": [listed]}


def _head(kind: str, request: Mapping[str, Any]) -> JsonDict:
    messages = len(request.get("messages", ()))
    return {
        "id": f"chatcmpl-scripted-{messages}",
        "object": kind,
        "created": CREATED,
        "model": str(request.get("model", "gpt-4o")),
        "system_fingerprint": "fp_scripted",
    }


def _deltas(reply: Reply) -> Iterator[JsonDict]:
    yield {"role": "assistant", "content": None if reply.calls else "", "refusal": None}
    for piece in _PIECE.findall(reply.content or ""):
        yield {"content": piece}
    for index, each in enumerate(reply.calls):
        opening = {"name": each.tool, "arguments": ""}
        start = {"index": index, "id": each.id, "type": "function", "function": opening}
        yield {"tool_calls": [start]}
        for piece in _PIECE.findall(each.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _streamed(delta: JsonDict, finish: str | None) -> JsonDict:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _event(chunk: JsonDict) -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _said(reply: Reply) -> str:
    return (reply.content or "") + "".join(each.tool + each.arguments for each in reply.calls)


def _prefixes(request: Mapping[str, Any], spell: Spell) -> Iterator[tuple[bytes, int]]:
    """Yield the digest and the length in characters of the prompt up to each message."""
    opening = json.dumps([request.get("model"), request.get("tools")])
    digest = hashlib.sha256(opening.encode())
    chars = len(opening)
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else ():
        text = spell(json.dumps(message))
        digest.update(text.encode())
        chars += len(text)
        yield digest.digest(), chars


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


def _cacheable(tokens: int) -> int:
    return tokens // CACHE_STEP * CACHE_STEP if tokens >= CACHE_LEAST else 0
