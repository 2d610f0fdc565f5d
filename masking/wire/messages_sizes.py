"""How large the parts of a Messages request are, in estimated tokens.

The one rule: a size depends on what is measured alone. A prompt is rendered in the order tools,
system, messages, whatever the order of the keys.
"""

from collections.abc import Mapping

from masking.model import ElementSize
from masking.tokens import count_claude, estimate_tokens
from masking.wire.cache_marks import find_last_mark
from masking.wire.chat_sizes import PART_TOKENS, measure_tools
from masking.wire.images import Picture, read_address, read_picture
from masking.wire.json_values import spell
from masking.wire_format import HeadSize

_MESSAGE_TOKENS = 4
_BLOCK_TOKENS = 8
"""What a message, and a call or a result, cost besides their texts: role, id, separators."""


def measure_message(message: object) -> ElementSize:
    """Return the estimated tokens of a message, and those before and in each of its results."""
    if not isinstance(message, dict):
        return ElementSize(0)
    content, is_user = message.get("content"), message.get("role") == "user"
    if isinstance(content, str):
        return ElementSize(_MESSAGE_TOKENS + estimate_tokens(content))
    size, results = _MESSAGE_TOKENS, []
    for block in content if isinstance(content, list) else ():
        own = measure_block(block)
        if is_user and isinstance(block, dict) and block.get("type") == "tool_result":
            results.append((size + _BLOCK_TOKENS, own - _BLOCK_TOKENS))
        size += own
    return ElementSize(size, tuple(results))


def measure_prompt_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of tools and system prompt, and of those up to the last mark."""
    tools, system = body.get("tools"), body.get("system")
    schemas = tools if isinstance(tools, list) else []
    texts = system if isinstance(system, list) else []
    size = measure_tools(tools)
    total = size + (estimate_tokens(system) if isinstance(system, str) else measure_blocks(texts))
    if last := find_last_mark(texts):
        return HeadSize(total, size + measure_blocks(texts[:last]))
    if last := find_last_mark(schemas):
        return HeadSize(total, size if last == len(schemas) else measure_tools(schemas[:last]))
    return HeadSize(total)


def measure_blocks(blocks: list[object]) -> int:
    """Return the estimated tokens of a list of blocks."""
    return sum(map(measure_block, blocks))


def measure_block(block: object) -> int:
    """Return the estimated tokens of a content block."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return PART_TOKENS
    text = block.get(_TEXT_KEYS.get(kind, ""))
    if isinstance(text, str):
        return estimate_tokens(text)
    if kind == "tool_use":
        spelled = f"{block.get('name')}{spell(block.get('input'))}"
        return _BLOCK_TOKENS + estimate_tokens(spelled)
    if kind == "tool_result":
        content = block.get("content")
        inner = measure_blocks(content) if isinstance(content, list) else 0
        return _BLOCK_TOKENS + (estimate_tokens(content) if isinstance(content, str) else inner)
    return measure_image(block) if kind == "image" else PART_TOKENS


def find_picture(block: Mapping[str, object]) -> Picture:
    """Return what is known of the image in an `image` block: base64, a URL, or a file's id."""
    source = block.get("source")
    if not isinstance(source, dict):
        return Picture(0)
    if "data" in source:
        return read_picture(source["data"], source.get("media_type"))
    return read_address(source.get("url", source.get("file_id")))


def measure_image(block: Mapping[str, object]) -> int:
    """Return the tokens of the image in an `image` block."""
    return find_picture(block).count_tokens(count_claude)


_TEXT_KEYS = {"text": "text", "thinking": "thinking"}
"""By the type of a block, the key of its text."""
