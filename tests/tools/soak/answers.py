"""What the soak's provider answers, in each format: whole, or as a stream, with its usage.

Of every prompt it says that it came from the cache, as that of a session does which goes on.
"""

import json
from collections.abc import Callable, Mapping

_Document = dict[str, object]


def _chat(tokens: int) -> _Document:
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": tokens},
    }
    return {"choices": [], "usage": usage}


def _messages(tokens: int) -> _Document:
    usage = {"input_tokens": 0, "cache_read_input_tokens": tokens, "output_tokens": 7}
    return {"type": "message", "content": [], "usage": usage}


def _responses(tokens: int) -> _Document:
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": tokens},
        "output_tokens": 7,
    }
    return {"object": "response", "output": [], "usage": usage}


def _gemini(tokens: int) -> _Document:
    usage = {"promptTokenCount": tokens, "cachedContentTokenCount": tokens}
    return {"candidates": [], "usageMetadata": usage | {"candidatesTokenCount": 7}}


def _ollama(tokens: int) -> _Document:
    return {"message": {}, "done": True, "prompt_eval_count": tokens, "eval_count": 7}


def _converse(tokens: int) -> _Document:
    usage = {"inputTokens": 0, "cacheReadInputTokens": tokens, "outputTokens": 7}
    return {"output": {}, "usage": usage}


_ANSWERS: Mapping[str, Callable[[int], _Document]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
    "gemini": _gemini,
    "ollama": _ollama,
    "converse": _converse,
}
"""An answer that gives a prompt of so many tokens, by the name of the format."""

STREAMED: Mapping[str, tuple[_Document, Callable[[_Document], _Document]]] = {
    "chat": ({"choices": [{"delta": {"content": "So."}}]}, lambda answer: answer),
    "messages": (
        {"type": "content_block_delta", "delta": {"text": "So."}},
        lambda answer: {"type": "message_delta", "usage": answer["usage"]},
    ),
    "responses": (
        {"type": "response.output_text.delta", "delta": "So."},
        lambda answer: {"type": "response.completed", "response": answer},
    ),
    "gemini": ({"candidates": [{"content": {"parts": []}}]}, lambda answer: answer),
    "ollama": ({"message": {"content": "So."}, "done": False}, lambda answer: answer),
}
"""By the format: an event of a stream, and how its last one is made of an answer."""


def make_answer(name: str, tokens: int) -> bytes:
    """Return a whole answer of a format."""
    return json.dumps(_ANSWERS[name](tokens)).encode()


def make_stream(name: str, tokens: int) -> tuple[str, bytes, bytes]:
    """Return an answer of a format as a stream: its content type, its first event, its others."""
    event, finish = STREAMED[name]
    first, last = json.dumps(event).encode(), json.dumps(finish(_ANSWERS[name](tokens))).encode()
    if name == "ollama":
        return "application/x-ndjson", first + b"\n", first + b"\n" + last + b"\n"
    return "text/event-stream", b"data: %b\n\n" % first, b"data: %b\n\ndata: %b\n\n" % (first, last)
