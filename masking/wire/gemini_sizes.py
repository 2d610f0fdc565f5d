"""How large the parts of a Gemini request are, in estimated tokens.

The one rule: a size depends on what is measured alone, not on what stands beside it.
"""

from collections.abc import Mapping, Sequence

from masking.model import ElementSize
from masking.tokens import estimate_tokens
from masking.wire.chat_sizes import measure_tools
from masking.wire.gemini_parts import (
    Part,
    find_call,
    find_outputs,
    find_parts,
    find_response,
)
from masking.wire.json_values import spell
from masking.wire_format import HeadSize

CONTENT_TOKENS = 4
CALL_TOKENS = 8
"""What a content, and a call or its response, cost besides their texts: role, separators, id."""

_MEDIA_TOKENS = 1_120
"""What an image costs on Gemini 3 unless the request asks for less; older models take 258 a tile.

Source: https://ai.google.dev/gemini-api/docs/media-resolution
"""

_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")

_UNBILLED = frozenset({"text", "thought", "thoughtSignature", "thought_signature", *_MEDIA})
"""Keys that are measured otherwise, or are no text of the prompt."""


def measure_contents(content: Part, *, answers: bool) -> ElementSize:
    """Return the estimated tokens of a content; `answers` if its function responses are results."""
    size = CONTENT_TOKENS
    results: list[tuple[int, int]] = []
    for _, part in find_parts(content):
        found = find_response(part)
        if found is None:
            size += _measure_part(part)
            continue
        own, frame = _measure_response(found[1])
        if answers:
            results.append((size, own))
        size += own + frame
    return ElementSize(size, tuple(results))


def measure_head(tools: object, texts: Sequence[str]) -> HeadSize:
    """Return the estimated tokens of the tool schemas and the system instruction."""
    return HeadSize(measure_tools(tools) + sum(map(estimate_tokens, texts)))


def count_content(content: Part) -> tuple[Sequence[str], int]:
    """Return the texts of a content that are tokens of the prompt, and its other tokens.

    These are 4 for the content, 8 for each call and each response, and those of media.
    """
    texts: list[str] = []
    others = CONTENT_TOKENS
    for _, part in find_parts(content):
        text = part.get("text")
        if isinstance(text, str):
            texts.append(text)
        elif found := find_response(part):
            outputs = find_outputs(found[1])
            texts += [*outputs.values(), _spell_frame(found[1], outputs)]
            others += CALL_TOKENS + sum(measure_media(inner) for _, inner in find_parts(found[1]))
        elif call := find_call(part):
            texts.append(_spell_call(call))
            others += CALL_TOKENS
        else:
            texts.append(_spell_rest(part))
            others += measure_media(part)
    return [text for text in texts if text], others


def _measure_part(part: Part) -> int:
    text = part.get("text")
    if isinstance(text, str):
        return estimate_tokens(text)
    if call := find_call(part):
        return CALL_TOKENS + estimate_tokens(_spell_call(call))
    return measure_media(part) or estimate_tokens(_spell_rest(part))


def measure_media(part: Part) -> int:
    """Return the tokens of the media in a part; 0 if it has none."""
    return _MEDIA_TOKENS if any(key in part for key in _MEDIA) else 0


def _measure_response(response: Part) -> tuple[int, int]:
    """Return the size of the texts that a tool gave, and that of all else in the response."""
    outputs = find_outputs(response)
    own = sum(map(estimate_tokens, outputs.values()))
    nested = sum(_measure_part(part) for _, part in find_parts(response))
    return own, CALL_TOKENS + estimate_tokens(_spell_frame(response, outputs)) + nested


def _spell_call(call: Part) -> str:
    return _spell_name(call) + spell(call.get("args"))


def _spell_frame(response: Part, outputs: Mapping[str, str]) -> str:
    """Return a response without the texts that the tool gave, and without its nested parts."""
    values = response.get("response")
    others = values
    if isinstance(values, dict):
        others = {key: "" if key in outputs else value for key, value in values.items()}
    return _spell_name(response) + spell(others)


def _spell_name(call: Part) -> str:
    name = call.get("name")
    return name if isinstance(name, str) else ""


def _spell_rest(part: Part) -> str:
    """Return what is left of a part: code, its outcome, and whatever is not known here."""
    rest = {key: value for key, value in part.items() if key not in _UNBILLED}
    return spell(rest) if rest else ""
