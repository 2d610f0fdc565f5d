"""Google's Gemini, as the scripted provider speaks, counts, signs and refuses it."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from urllib.parse import parse_qs

from tests.tools.provider.any_prefix import CHARS_PER_TOKEN, AnyPrefix, count_said
from tests.tools.provider.script import Call, JsonDict, Received, Reply, Said, Spell

# Writes a scripted reply as Gemini does: a body, a stream's events or array, an error.
#
# Code Assist has the same request under `request` and the same answer under `response`. Calls have
# ids that are the script's behind a prefix that differs from turn to turn, and the first one of
# each turn has a signature, as Gemini 3 gives them.

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


# The implicit prompt cache and the usage of Gemini.
#
# Any prefix is found again, if it is long enough. Four characters count as a token. Source:
# https://ai.google.dev/gemini-api/docs/caching

_LEAST_OF_2 = 2048
_LEAST = 4096


class PromptCache:
    """The cache of all models; `spell` is applied to each content before it is counted."""

    def __init__(self, spell: Spell = str) -> None:
        self._prefixes = AnyPrefix(spell)

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prefixes."""
        prompt, cached = self._prefixes.count(_read_pieces(received))
        least = _LEAST_OF_2 if read_model(received).startswith("gemini-2") else _LEAST
        said = count_said(reply)
        thought = len(reply.thinking or "") // CHARS_PER_TOKEN
        usage: JsonDict = {"promptTokenCount": prompt, "candidatesTokenCount": said}
        if cached >= least:
            usage["cachedContentTokenCount"] = cached
        if thought:
            usage["thoughtsTokenCount"] = thought
        return usage | {"totalTokenCount": prompt + thought + said}


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to a count of tokens."""
    prompt, _ = AnyPrefix(str).count(_read_pieces(received))
    return {"totalTokens": prompt}


def _read_pieces(received: Received) -> Iterator[str]:
    """Yield the prompt: what stands before the contents, then the contents without signatures."""
    body = read_body(received.request)
    head = [read_model(received)]
    head += [
        json.dumps(body[key])
        for key in ("systemInstruction", "system_instruction", "tools")
        if key in body
    ]
    yield "".join(head)
    for content in body.get("contents") or ():
        parts = [
            {key: value for key, value in part.items() if key != "thoughtSignature"}
            for part in content.get("parts") or ()
        ]
        yield json.dumps([content.get("role"), parts])


# Why Google would refuse a Gemini request.
#
# The rules are those of the reference and of its pages on function calling and thought signatures;
# the words are close to the real ones, because clients look for some of them.

_FIELDS = frozenset(
    (
        *("model", "contents", "tools", "toolConfig", "safetySettings", "systemInstruction"),
        *("generationConfig", "cachedContent", "labels", "session_id", "system_instruction"),
        *("tool_config", "safety_settings", "generation_config", "cached_content"),
        *("generateContentRequest", "serviceTier", "store"),
    )
)
_CODE_ASSIST_FIELDS = frozenset(
    ("model", "project", "user_prompt_id", "request", "enabled_credit_types")
)
_CONTENT_FIELDS = frozenset(("role", "parts"))
_PART_FIELDS = frozenset(
    (
        *("text", "thought", "thoughtSignature", "thought_signature"),
        *("functionCall", "functionResponse", "function_call", "function_response"),
        *("inlineData", "fileData", "inline_data", "file_data"),
        *("executableCode", "codeExecutionResult", "videoMetadata", "mediaResolution"),
    )
)
_CALL_FIELDS = frozenset(("id", "name", "args"))
_RESPONSE_FIELDS = frozenset(("id", "name", "response", "parts", "willContinue", "scheduling"))
_ROLES = ("user", "model", "function", None)
_FROM_URL = str.maketrans("-_", "+/")


def check(received: Received) -> str | None:
    """Say what the first problem is; None if there is none, or nothing is asked of a model."""
    if "ontent" not in received.path.rpartition(":")[2] and "Tokens" not in received.path:
        return None
    problems = (problem for rule in _RULES for problem in rule(received))
    return next(problems, None)


def _check_fields(received: Received) -> Iterator[str]:
    request, body = received.request, read_body(received.request)
    if "request" in request:
        yield from _name_unknown(request, _CODE_ASSIST_FIELDS, "")
    yield from _name_unknown(body, _FIELDS, "")
    for index, content in enumerate(body.get("contents") or ()):
        at = f"contents[{index}]"
        yield from _name_unknown(content, _CONTENT_FIELDS, at)
        for place, part in enumerate(content.get("parts") or ()):
            at = f"contents[{index}].parts[{place}]"
            yield from _name_unknown(part, _PART_FIELDS, at)
            yield from _name_unknown(read_call(part) or {}, _CALL_FIELDS, f"{at}.function_call")
            response = _read_response(part) or {}
            yield from _name_unknown(response, _RESPONSE_FIELDS, f"{at}.function_response")
            if response and not isinstance(response.get("response"), dict):
                yield f"Invalid value at '{at}.function_response.response' (Struct)"


def _check_roles(received: Received) -> Iterator[str]:
    contents = read_body(received.request).get("contents") or ()
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
    for index, content in enumerate(contents):
        if content.get("role") not in _ROLES:
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield (
                f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be "
                "empty."
            )
    speakers = [role for role, _ in read_turns(received.request)]
    if speakers and "model" in (speakers[0], speakers[-1]):
        yield "Please ensure that multiturn requests start and end with a user role."


def _check_pairs(received: Received) -> Iterator[str]:
    """Yield turns whose responses are not those of the calls right before them."""
    turns = [parts for _, parts in read_turns(received.request)]
    for before, parts in pairwise([[], *turns, []]):
        calls = [call for call in map(read_call, before) if call]
        responses = [each for each in map(_read_response, parts) if each]
        if responses and not calls:
            yield (
                "Please ensure that function response turn comes immediately after a function "
                "call turn."
            )
        elif len(calls) != len(responses):
            yield (
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        yield from _compare(calls, responses)


def _compare(calls: Sequence[JsonDict], responses: Sequence[JsonDict]) -> Iterator[str]:
    for call, response in zip(calls, responses, strict=False):
        if call["name"] != response.get("name"):
            yield f"Function response {response.get('name')!r} does not match {call['name']!r}."
        if response.get("id") and call.get("id") and response["id"] != call["id"]:
            yield f"Function response id {response['id']!r} does not match {call['id']!r}."


def _check_signatures(received: Received) -> Iterator[str]:
    """Yield signatures that are altered, and first calls of the current turn that have none."""
    turns = list(read_turns(received.request))
    is_strict = not read_model(received).startswith("gemini-2")
    said = [n for n, (role, parts) in enumerate(turns) if role == "user" and _says_text(parts)]
    for index, (_, parts) in enumerate(turns):
        for part in parts:
            signature = part.get("thoughtSignature")
            # The Python SDK spells base64 as it is in URLs, which the provider takes, too.
            if signature is not None and signature.translate(_FROM_URL) != sign(part):
                yield "Thought signature is not valid."
        first = next(((n, part) for n, part in enumerate(parts, 1) if read_call(part)), None)
        is_current = is_strict and index > max(said, default=0)
        if is_current and first and "thoughtSignature" not in first[1]:
            name = (read_call(first[1]) or {}).get("name")
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly. Additional data, function call "
                f"`default_api:{name}`, position {first[0]}."
            )


def _says_text(parts: Sequence[JsonDict]) -> bool:
    return any("text" in part for part in parts)


def _read_response(part: JsonDict) -> JsonDict | None:
    response: JsonDict | None = part.get("functionResponse") or part.get("function_response")
    return response


def _name_unknown(value: JsonDict, known: frozenset[str], at: str) -> Iterator[str]:
    where = f" at '{at}'" if at else ""
    for name in value.keys() - known:
        yield f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'


_RULES: tuple[Callable[[Received], Iterator[str]], ...] = (
    _check_fields,
    _check_roles,
    _check_pairs,
    _check_signatures,
)
