"""Where the cache marks of a request stand, element by element, in every format that has them."""

from masking.wire.cache_marks import CACHE_MARK
from masking.wire.json_values import objects

_MARKS = (CACHE_MARK, "cachePoint")
"""Beside what is marked; Bedrock's Converse has a block of its own for it."""


_LEVELS = 3
"""An element, the parts of its content, and the parts of a result."""


def is_marked(value: object) -> bool:
    """Whether an element, a tool, or a list of these has a cache mark, in its content or beside."""
    if isinstance(value, dict) and not isinstance(value.get("content"), list):
        return any(value.get(key) is not None for key in _MARKS)  # as nearly all elements are
    level = objects([value] if isinstance(value, dict) else value)
    for _ in range(_LEVELS):
        if any(item.get(key) is not None for item in level for key in _MARKS):
            return True
        level = [inner for item in level for inner in objects(item.get("content"))]
    return False


def count_blocks(element: object) -> int:
    """Return the blocks of an element as a cache counts them: parts of its content, and calls."""
    if not isinstance(element, dict):
        return 1
    content, calls = element.get("content"), element.get("tool_calls")
    own = len(content) if isinstance(content, list) else bool(content)
    return max(1, own + (len(calls) if isinstance(calls, list) else 0))
