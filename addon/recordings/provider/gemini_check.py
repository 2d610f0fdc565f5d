"""Why Google would refuse a Gemini request.

The rules are those of the reference and of its pages on function calling and thought signatures;
the words are close to the real ones, because clients look for some of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from addon.recordings.provider.gemini import (
    read_body,
    read_call,
    read_model,
    read_turns,
    sign,
)
from addon.recordings.provider.received import JsonDict, Received

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
