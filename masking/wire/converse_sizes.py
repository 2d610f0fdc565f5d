"""How large the parts of a Converse request are, in estimated tokens.

The one rule: a size depends on what is measured alone. A prompt is rendered in the order tools,
system, messages, whatever the order of the keys.
"""

from collections.abc import Mapping

from masking.conversation import follow
from masking.model import ElementSize
from masking.tokens import count_claude, estimate_tokens
from masking.wire.chat_sizes import PART_TOKENS, measure_tools
from masking.wire.images import Picture, read_address, read_picture
from masking.wire.json_values import spell
from masking.wire_format import HeadSize

POINT = "cachePoint"
"""The key of a block that marks what precedes it for the cache."""

MESSAGE_TOKENS = 4
BLOCK_TOKENS = 8
"""What a message, and a call or a result, cost besides their texts: role, id, separators."""


def measure_message(message: object) -> ElementSize:
    """Return the estimated tokens of a message, and those before and in each of its results."""
    if not isinstance(message, dict):
        return ElementSize(0)
    content, is_user = message.get("content"), message.get("role") == "user"
    size, results = MESSAGE_TOKENS, []
    for block in content if isinstance(content, list) else ():
        own = measure_block(block)
        if is_user and isinstance(block, dict) and isinstance(block.get("toolResult"), dict):
            results.append((size + BLOCK_TOKENS, own - BLOCK_TOKENS))
        size += own
    return ElementSize(size, tuple(results))


def measure_prompt_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of tools and system prompt, and of those up to the last mark."""
    tools, system = follow(body, ("toolConfig", "tools")), body.get("system")
    schemas = tools if isinstance(tools, list) else []
    texts = system if isinstance(system, list) else []
    size = _measure_schemas(schemas)
    total = size + measure_blocks(texts)
    if last := _find_last_point(texts):
        return HeadSize(total, size + measure_blocks(texts[:last]))
    return HeadSize(total, _measure_schemas(schemas[: _find_last_point(schemas)]))


def measure_blocks(blocks: list[object]) -> int:
    """Return the estimated tokens of a list of blocks."""
    return sum(map(measure_block, blocks))


def measure_block(block: object) -> int:
    """Return the estimated tokens of a content block."""
    if not isinstance(block, dict):
        return PART_TOKENS
    if POINT in block:
        return 0
    if (text := find_value(block)) is not None:
        return estimate_tokens(text)
    if isinstance(use := block.get("toolUse"), dict):
        return BLOCK_TOKENS + estimate_tokens(f"{use.get('name')}{spell(use.get('input'))}")
    if isinstance(result := block.get("toolResult"), dict):
        content = result.get("content")
        return BLOCK_TOKENS + (measure_blocks(content) if isinstance(content, list) else 0)
    return measure_image(block) if is_image(block) else PART_TOKENS


def is_image(block: Mapping[str, object]) -> bool:
    """Whether a block is an image."""
    return "image" in block


def find_picture(block: Mapping[str, object]) -> Picture:
    """Return what is known of the image in a block: its bytes, or where they are."""
    image = block.get("image")
    source = image.get("source") if isinstance(image, dict) else None
    if not isinstance(image, dict) or not isinstance(source, dict):
        return Picture(0)
    if "bytes" in source:
        return read_picture(source["bytes"], f"image/{image.get('format')}")
    return read_address(follow(source, ("s3Location", "uri")))


def measure_image(block: Mapping[str, object]) -> int:
    """Return the tokens of the image in a block."""
    return find_picture(block).count_tokens(count_claude)


def find_value(block: Mapping[str, object]) -> str | None:
    """Return the text of a block: said, thought, or that of a JSON value; None for all others."""
    if isinstance(text := block.get("text"), str):
        return text
    if "json" in block:
        return spell(block["json"])
    thought = follow(block, ("reasoningContent", "reasoningText", "text"))
    return thought if isinstance(thought, str) else None


def is_point(block: object) -> bool:
    """Whether a block, or an entry among the tools, is a cache point."""
    return isinstance(block, dict) and POINT in block


def _measure_schemas(tools: list[object]) -> int:
    schemas = [tool for tool in tools if not is_point(tool)]
    return measure_tools(schemas) if schemas else 0


def _find_last_point(blocks: list[object]) -> int:
    """Return how many of these blocks there are up to the last cache point; 0 without any."""
    return max((at for at, block in enumerate(blocks, 1) if is_point(block)), default=0)
