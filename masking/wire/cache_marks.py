"""The mark by which a request asks its provider for a cache, as Anthropic spells it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

CACHE_MARK = "cache_control"

_USUAL = "5m"
"""How long a marked prompt is kept if the mark does not say."""


def find_lifetimes(marked: Iterable[Mapping[str, object]], key: str = CACHE_MARK) -> Iterator[str]:
    """Yield the lifetime that each mark on one of these objects asks for, as spelled."""
    for mark in (item.get(key) for item in marked):
        if isinstance(mark, dict):
            lifetime = mark.get("ttl")
            yield lifetime if isinstance(lifetime, str) else _USUAL


def find_last_mark(items: Sequence[object]) -> int:
    """Return how many of these items there are up to the last one with a mark; 0 without any."""
    marked = (at for at, item in enumerate(items, 1) if _is_marked(item))
    return max(marked, default=0)


def without_mark(value: Mapping[str, object]) -> Mapping[str, object]:
    """Return an object without its mark; the very object if it has none."""
    if CACHE_MARK not in value:
        return value
    return {key: item for key, item in value.items() if key != CACHE_MARK}


def unmark_parts(parts: Sequence[object]) -> object:
    """Return a content without marks; a content of one text part becomes a string.

    Agents move the mark to the end of every request, and for that write a string as a list of one
    part. The mark is not part of the prompt.
    """
    unmarked = [without_mark(part) if isinstance(part, dict) else part for part in parts]
    match unmarked:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text
    return unmarked


def _is_marked(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get(CACHE_MARK), dict)
