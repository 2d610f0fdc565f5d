"""Which messages are too large to be collected before they go on."""

from mitmproxy import http

_BULK_BYTES = 1_000_000
_MAX_DIGITS = 15


def is_bulk(message: http.Message) -> bool:
    """Whether a body is large, or of unknown size, and so must not be collected first."""
    size: str = message.headers.get("content-length", "")
    if size.isdecimal():
        return len(size) > _MAX_DIGITS or int(size) > _BULK_BYTES
    return isinstance(message, http.Response) or "transfer-encoding" in message.headers
