"""How large the items of a Responses request are, in estimated tokens.

The one rule: a size depends on what is measured alone, not on what stands beside it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from masking.model import ElementSize
from masking.tokens import LOW_DETAIL_TOKENS, count_openai, estimate_tokens
from masking.wire.chat_sizes import PART_TOKENS, measure_tools
from masking.wire.images import Picture, read_address
from masking.wire.json_values import non_empty, objects, spell
from masking.wire_format import HeadSize

_MESSAGE_TOKENS = 4
_ITEM_TOKENS = 8
"""What a message, and any other item, costs besides its texts: role, ids, separators."""

_ENCRYPTED_CHARS_PER_TOKEN = 6
"""Base64 takes four characters for three, and a token of English has some four and a half. How much
reasoning an encrypted text holds is a guess."""

_FRAME = frozenset(
    (
        *("id", "type", "status", "call_id", "caller", "fingerprint", "encrypted_content"),
        *("result", "summary", "internal_chat_message_metadata_passthrough"),
    )
)
"""Keys whose values are no text of the prompt."""

_TEXTS = ("text", "refusal", "stdout", "stderr")

OUTPUT = "_output"
"""How the types of results end."""

PAIRED_BY: Mapping[str, str] = {
    **dict.fromkeys(("program", "program_output", "tool_search_output"), "call_id"),
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
}
"""Where items that are neither calls nor results of a client's tools name what they belong to."""

_ANSWERS = ("program_output", "tool_search_output", "mcp_approval_response")


def holds_result(item: Mapping[str, Any]) -> bool:
    """Whether an item answers a call."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind in PAIRED_BY:
        return kind in _ANSWERS and non_empty(item.get(PAIRED_BY[kind])) is not None
    return kind.endswith(OUTPUT)


def measure_item(item: object) -> ElementSize:
    """Return the estimated tokens of an item, and those of a result's content."""
    if not isinstance(item, dict):
        return ElementSize(0)
    if item.get("type", "message") == "message":
        return ElementSize(_MESSAGE_TOKENS + _measure_content(item.get("content")), ())
    if holds_result(item):
        content = _measure_content(item.get("output"))
        return ElementSize(_ITEM_TOKENS + content, ((_ITEM_TOKENS, content),))
    size = _ITEM_TOKENS + sum(map(estimate_tokens, find_item_texts(item)))
    encrypted = item.get("encrypted_content")
    if isinstance(encrypted, str):
        size += len(encrypted) // _ENCRYPTED_CHARS_PER_TOKEN
    return ElementSize(size, ())


def measure_prompt_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of tool schemas and instructions, which have no breakpoints."""
    instructions = body.get("instructions")
    size = estimate_tokens(instructions) if isinstance(instructions, str) else 0
    return HeadSize(size + measure_tools(body.get("tools")))


def find_item_texts(item: Mapping[str, Any]) -> list[str]:
    """Return the texts of an item that are tokens of the prompt; arguments as compact JSON."""
    if item.get("type", "message") == "message":
        return [*_find_texts(item.get("content"))]
    if holds_result(item):
        return [*_find_texts(item.get("output"))]
    return [
        value if isinstance(value, str) else spell(value)
        for key, value in item.items()
        if key not in _FRAME and value is not None
    ]


def _find_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in objects(content):
        yield from (text for key in _TEXTS if isinstance(text := part.get(key), str))


def _measure_content(content: object) -> int:
    """Return the estimated tokens of a text, of a list of parts, or of a screenshot."""
    if isinstance(content, str):
        return estimate_tokens(content)
    if isinstance(content, list):
        return sum(map(_measure_part, content))
    return _measure_part(content) if isinstance(content, dict) else 0


def _measure_part(part: object) -> int:
    if not isinstance(part, dict):
        return PART_TOKENS
    texts = [text for key in _TEXTS if isinstance(text := part.get(key), str)]
    if texts:
        return sum(map(estimate_tokens, texts))
    return measure_image(part) if is_image(part) else PART_TOKENS


def find_picture(part: Mapping[str, object]) -> Picture:
    """Return what is known of the image in an `input_image`, or of a screenshot."""
    return read_address(part.get("image_url") or part.get("file_id"))


def measure_image(part: Mapping[str, object]) -> int:
    """Return the tokens of the image in an `input_image`, or of a screenshot."""
    if part.get("detail") == "low":
        return LOW_DETAIL_TOKENS
    return find_picture(part).count_tokens(count_openai)


def count_image_tokens(item: Mapping[str, Any]) -> int:
    """Return the tokens of all images in an item."""
    content = item.get("content"), item.get("output")
    parts = (
        part for each in content for part in objects([each] if isinstance(each, dict) else each)
    )
    return sum(map(measure_image, filter(is_image, parts)))


def is_image(part: Mapping[str, object]) -> bool:
    """Whether a part is an image: one of a content, or the screenshot of a computer."""
    return part.get("type") in _IMAGES


_IMAGES = ("input_image", "computer_screenshot")
