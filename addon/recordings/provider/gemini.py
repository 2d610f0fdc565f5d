"""Writes a scripted reply as Gemini does: a body, a stream's events or array, an error.

Code Assist has the same request under `request` and the same answer under `response`. Calls have
ids that are the script's behind a prefix that differs from turn to turn, and the first one of each
turn has a signature, as Gemini 3 gives them.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from itertools import groupby
from urllib.parse import parse_qs

from addon.recordings.provider.received import JsonDict, Received, Said
from addon.recordings.provider.script import Call, Reply

_ERRORS = {
    400: ("INVALID_ARGUMENT", "The scripted provider refuses this request."),
    401: ("UNAUTHENTICATED", "The scripted provider wants another key."),
    429: ("RESOURCE_EXHAUSTED", "The scripted provider has had enough for now."),
    500: ("INTERNAL", "The scripted provider broke on purpose."),
    503: ("UNAVAILABLE", "The scripted provider has too much to do."),
}

_MODEL = re.compile(r"/(?:models|endpoints)/([^/:]+)")

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""

_SIGNATURE_BYTES = 192
"""About as long as the real ones of a short thought."""


def read_body(request: JsonDict) -> JsonDict:
    """Return the request proper: Code Assist has it one level deeper, a count of tokens, too."""
    for key in ("request", "generateContentRequest"):
        if isinstance(inner := request.get(key), dict):
            return inner
    return request


def read_model(received: Received) -> str:
    """Return the model, which the path names; for Code Assist the body does."""
    found = _MODEL.search(received.path)
    return found[1] if found else str(received.request.get("model", "gemini-3-pro-preview"))


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far."""
    for role, parts in read_turns(request):
        if role == "model":
            texts = (part.get("text", "") for part in parts if not part.get("thought"))
            tools = tuple(call["name"] for call in map(read_call, parts) if call)
            yield Said("".join(texts), tools)


def read_turns(request: JsonDict) -> Iterator[tuple[str, list[JsonDict]]]:
    """Yield who speaks, and the parts of what they say: neighbours of one role are one turn.

    The Python SDK sends each piece of a stream back as a content of its own.
    """
    contents = read_body(request).get("contents") or ()
    for role, run in groupby(contents, key=_read_role):
        yield role, [part for content in run for part in content.get("parts") or ()]


def read_call(part: JsonDict) -> JsonDict | None:
    """Return the function call in a part, however it is spelled."""
    call: JsonDict | None = part.get("functionCall") or part.get("function_call")
    return call


def offers_tools(request: JsonDict) -> bool:
    """Whether the model may call a function of the client's."""
    tools = read_body(request).get("tools") or ()
    return any("functionDeclarations" in tool or "function_declarations" in tool for tool in tools)


def streams(received: Received) -> bool:
    """Whether a stream is wanted: the path says so."""
    return received.path.endswith("streamGenerateContent")


def stream_type(received: Received) -> str:
    """Return the content type of a stream: of events, or of an array that comes in pieces."""
    return "text/event-stream" if _wants_events(received) else "application/json; charset=UTF-8"


def sign(part: JsonDict) -> str:
    """Return the signature of a part: it vouches for the part and for nothing before it."""
    bare = {key: value for key, value in part.items() if key != "thoughtSignature"}
    call = read_call(bare)
    # A client may leave out an id, and may write an absent object of arguments.
    told = [call["name"], call.get("args") or {}] if call else bare
    digest = hashlib.shake_256(json.dumps(told, sort_keys=True).encode())
    return base64.b64encode(digest.digest(_SIGNATURE_BYTES)).decode()


def answer(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer that is not streamed."""
    return _wrap(received, _chunk(received, _parts(received, reply), usage, "STOP"))


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the pieces of a streamed answer; each has a usage, and the last one's is the whole."""
    pieces = [piece for part in _parts(received, reply) for piece in _in_pieces(part)]
    wants_events = _wants_events(received)
    for number, part in enumerate(pieces, 1):
        is_last = number == len(pieces)
        share = usage if is_last else _scale(usage, number / len(pieces))
        finish = "STOP" if is_last else None
        data = json.dumps(_wrap(received, _chunk(received, [part], share, finish)))
        if wants_events:
            yield f"data: {data}\r\n\r\n".encode()
        else:
            yield f"{'[' if number == 1 else ','}{data}\r\n{']' if is_last else ''}".encode()


def error(status: int, problem: str | None = None) -> JsonDict:
    """Return an error body as Google writes it; an unknown status is an internal error."""
    kind, words = _ERRORS.get(status, _ERRORS[500])
    return {"error": {"code": status, "message": problem or words, "status": kind}}


def code_assist_user(_: Received) -> JsonDict:
    """Return what Code Assist says of a user at the start: a tier, and a project."""
    tier = {"id": "standard-tier", "name": "Scripted", "userDefinedCloudaicompanionProject": True}
    return {"currentTier": tier, "cloudaicompanionProject": "scripted"}


def nothing(_: Received) -> JsonDict:
    """Return an empty answer, for what a client reports and asks beside the conversation."""
    return {}


def _read_role(content: JsonDict) -> str:
    role = content.get("role")
    return "user" if role in (None, "function") else str(role)


def _wants_events(received: Received) -> bool:
    return parse_qs(received.query).get("alt") == ["sse"]


def _wrap(received: Received, chunk: JsonDict) -> JsonDict:
    return {"response": chunk, "traceId": "scripted"} if "v1internal" in received.path else chunk


def _chunk(
    received: Received, parts: list[JsonDict], usage: JsonDict, finish: str | None
) -> JsonDict:
    candidate: JsonDict = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": usage,
        "modelVersion": read_model(received),
        "responseId": f"scripted-{len(received.said)}",
    }


def _parts(received: Received, reply: Reply) -> list[JsonDict]:
    parts: list[JsonDict] = []
    if reply.thinking is not None:
        parts.append({"text": reply.thinking, "thought": True})
    if reply.content:
        parts.append({"text": reply.content})
    calls = [_function_call(received, each) for each in reply.calls]
    if calls:
        calls[0]["thoughtSignature"] = sign(calls[0])
    return parts + calls or [{"text": ""}]


def _function_call(received: Received, call: Call) -> JsonDict:
    call_id = f"g{len(received.said):04}_{call.id}"
    return {"functionCall": {"id": call_id, "name": call.tool, "args": json.loads(call.arguments)}}


def _in_pieces(part: JsonDict) -> Iterator[JsonDict]:
    """Yield the parts into which a stream cuts a part: a text is in pieces, a call is whole."""
    if "text" not in part:
        yield part
        return
    for piece in _PIECE.findall(part["text"]) or [""]:
        yield part | {"text": piece}


def _scale(usage: JsonDict, share: float) -> JsonDict:
    said = int(usage["candidatesTokenCount"] * share)
    total = usage["promptTokenCount"] + usage.get("thoughtsTokenCount", 0) + said
    return usage | {"candidatesTokenCount": said, "totalTokenCount": total}
