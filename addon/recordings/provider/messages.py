"""Writes a scripted reply as Anthropic's Messages does: a body, a stream's events, an error.

Ids of tool calls are the script's behind a prefix that differs from turn to turn, because the real
provider takes no id twice. A thinking block gets a signature (`bound_thinking.py`).
"""

import json
import re
from collections.abc import Iterator

from addon.recordings.provider.bound_thinking import find_dropped, sign
from addon.recordings.provider.messages_blocks import list_content
from addon.recordings.provider.received import JsonDict, Received, Said
from addon.recordings.provider.script import Call, Reply

THINKS = "toolu_t"
"""How the ids of a turn begin that was thought about; other turns' begin with `toolu_s`."""

_ERRORS = {
    400: ("invalid_request_error", "The scripted provider refuses this request."),
    401: ("authentication_error", "The scripted provider wants another key."),
    429: ("rate_limit_error", "The scripted provider has had enough for now."),
    500: ("api_error", "The scripted provider broke on purpose."),
    529: ("overloaded_error", "The scripted provider has too much to do."),
}

_STREAM_PATHS = ("streamRawPredict", "invoke-with-response-stream")

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far."""
    for message in request.get("messages") or ():
        if message.get("role") == "assistant":
            blocks = list_content(message.get("content"))
            text = "".join(each["text"] for each in blocks if each.get("type") == "text")
            yield Said(text, tuple(each["name"] for each in blocks if each["type"] == "tool_use"))


def streams(received: Received) -> bool:
    """Whether a stream is wanted; towards Vertex and Bedrock the path says so."""
    return received.path.endswith(_STREAM_PATHS) or bool(received.request.get("stream"))


def message(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer that is not streamed."""
    head = _head(received) | {"content": _blocks(received, reply), "usage": usage}
    return head | {"stop_reason": _stop(reply)}


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the events of a streamed answer.

    The prompt's usage comes first, with the start of the message, and the output's last.
    """
    yield _event("message_start", message=_head(received) | {"usage": usage | {"output_tokens": 1}})
    yield _event("ping")
    for index, block in enumerate(_blocks(received, reply)):
        opening, deltas = _in_pieces(block)
        yield _event("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def error(status: int, problem: str | None = None) -> JsonDict:
    """Return an error body as Anthropic writes it; an unknown status is an API error."""
    kind, words = _ERRORS.get(status, _ERRORS[500])
    return {
        "type": "error",
        "error": {"type": kind, "message": problem or words},
        "request_id": "req_scripted",
    }


def _head(received: Received) -> JsonDict:
    head: JsonDict = {
        "id": f"msg_scripted_{len(received.said)}",
        "type": "message",
        "role": "assistant",
        "model": str(received.request.get("model", "claude-sonnet-4-5")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if dropped := find_dropped(received.request):
        head["input_transformations"] = dropped
    return head


def _blocks(received: Received, reply: Reply) -> list[JsonDict]:
    blocks: list[JsonDict] = []
    if reply.thinking is not None:
        signature = sign(received.request, reply.thinking)
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
    if reply.content:
        blocks.append({"type": "text", "text": reply.content})
    return blocks + [_tool_use(received, reply, each) for each in reply.calls]


def _tool_use(received: Received, reply: Reply, call: Call) -> JsonDict:
    prefix = THINKS if reply.thinking is not None else "toolu_s"
    return {
        "type": "tool_use",
        "id": f"{prefix}{len(received.said):04}_{call.id}",
        "name": call.tool,
        "input": json.loads(call.arguments),
    }


def _in_pieces(block: JsonDict) -> tuple[JsonDict, list[JsonDict]]:
    """Return how a block begins in a stream, and the deltas that complete it."""
    match block:
        case {"type": "text", "text": text}:
            deltas = [{"type": "text_delta", "text": piece} for piece in _PIECE.findall(text)]
            return {"type": "text", "text": ""}, deltas
        case {"type": "thinking", "thinking": text, "signature": signature}:
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _PIECE.findall(text)]
            deltas.append({"type": "signature_delta", "signature": signature})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    text = json.dumps(block["input"], ensure_ascii=False)
    pieces = ["", *_PIECE.findall(text)]
    return block | {"input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in pieces
    ]


def _event(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"
