"""Where the cache marks of a request stand, element by element, in every format that has them."""

from collections.abc import Mapping, Sequence

from masking.wire.cache_marks import CACHE_MARK

_MARKS = (CACHE_MARK, "cachePoint")
"""Beside what is marked; Bedrock's Converse has a block of its own for it."""


_LEVELS = 3
"""An element, the parts of its content, and the parts of a result."""


def is_marked(value: object) -> bool:
    """Whether an element, a tool, or a list of these has a cache mark, in its content or beside."""
    level = _find_objects([value] if isinstance(value, dict) else value)
    for _ in range(_LEVELS):
        if any(item.get(key) is not None for item in level for key in _MARKS):
            return True
        level = [inner for item in level for inner in _find_objects(item.get("content"))]
    return False


def count_blocks(element: object) -> int:
    """Return the blocks of an element as a cache counts them: parts of its content, and calls."""
    if not isinstance(element, Mapping):
        return 1
    content, calls = element.get("content"), element.get("tool_calls")
    own = len(content) if isinstance(content, list) else bool(content)
    return max(1, own + (len(calls) if isinstance(calls, list) else 0))


def _find_objects(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()
