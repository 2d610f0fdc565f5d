"""How large the parts of a Chat Completions request are, in estimated tokens.

The one rule: a size depends on what is measured alone, not on what stands beside it.
"""

import json
from collections.abc import Mapping

import orjson

from masking.tokens import LOW_DETAIL_TOKENS, UNKNOWN_TOKENS, count_openai, estimate_tokens
from masking.wire.images import Picture, read_address

_MESSAGE_TOKENS = 4
_CALL_TOKENS = 8
"""What a message and a call cost besides their texts: role, separators, call id."""

PART_TOKENS = UNKNOWN_TOKENS
"""A guess at a part that has no text and is no image."""


def measure_content(content: object) -> int:
    """Return the estimated tokens of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return estimate_tokens(content)
    return sum(map(_measure_part, content)) if isinstance(content, list) else 0


def find_picture(part: Mapping[str, object]) -> Picture:
    """Return what is known of the image in an `image_url` part."""
    image = part.get("image_url")
    return read_address(image.get("url") if isinstance(image, dict) else image)


def measure_image(part: Mapping[str, object]) -> int:
    """Return the tokens of the image in an `image_url` part."""
    image = part.get("image_url")
    is_low = isinstance(image, dict) and image.get("detail") == "low"
    return LOW_DETAIL_TOKENS if is_low else find_picture(part).count_tokens(count_openai)


def measure_frame(message: Mapping[str, object]) -> int:
    """Return the estimated tokens of a message without its content: its calls, and its frame."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return _MESSAGE_TOKENS
    return _MESSAGE_TOKENS + sum(map(_measure_call, calls))


def measure_tools(tools: object) -> int:
    """Return the estimated tokens of a request's tool schemas, as compact JSON."""
    if tools is None:
        return 0
    try:
        return estimate_tokens(orjson.dumps(tools).decode())
    except orjson.JSONEncodeError:  # lone surrogates, long numbers, too deep
        return _measure_odd_json(tools)


def _measure_odd_json(value: object) -> int:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:  # too little is on the safe side of the promise
        return 0
    return estimate_tokens(text)


def _measure_part(part: object) -> int:
    if not isinstance(part, dict):
        return PART_TOKENS
    text = part.get("text", part.get("refusal"))
    if isinstance(text, str):
        return estimate_tokens(text)
    return measure_image(part) if "image_url" in part else PART_TOKENS


def _measure_call(call: object) -> int:
    function = call.get("function") if isinstance(call, dict) else None
    texts = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else ()
    return _CALL_TOKENS + estimate_tokens("".join([t for t in texts if isinstance(t, str)]))
