"""The mark by which a request asks its provider for a cache."""

CACHE_MARK = "cache_control"

_SPELLED = f'"{CACHE_MARK}"'.encode()
"""Within a text of a JSON document its quotes would be escaped."""


def has_cache_mark(body: bytes) -> bool:
    """Whether there is a cache mark anywhere in a request."""
    return _SPELLED in body
