"""The client's own body of a changed request, kept on its flow, which `mitmdump -w` stores.

It is content. It is kept because a user asked for a recording, and only in that recording.
"""

import zlib

from mitmproxy import http
from mitmproxy.options import Options

METADATA = "observation_masking_original"
METADATA_MESSAGES = "observation_masking_original_messages"

_LEVEL = 1
"""For zlib: 1 MB in some 10 ms. Higher levels take five times as long for a tenth less."""


def is_recording(options: Options) -> bool:
    """Whether mitmproxy writes all flows to a file as they arrive (`-w`)."""
    return bool(getattr(options, "save_stream_file", None))  # an addon's: it may not be there


def are_flows_kept(options: Options) -> bool:
    """Whether flows are seen again when they have passed: in a file, or where they are listed.

    mitmdump lists none. mitmproxy and mitmweb do, and have an option for the order.
    """
    is_exported = bool(getattr(options, "hardump", ""))
    return is_recording(options) or is_exported or hasattr(options, "view_order")


def keep_original(flow: http.HTTPFlow, body: bytes) -> None:
    """Keep a request's decoded body as the client wrote it; the first one given stays."""
    flow.metadata.setdefault(METADATA, zlib.compress(body, _LEVEL))


def drop_original(flow: http.HTTPFlow) -> None:
    """Drop what was kept of a request that went out as the client wrote it after all."""
    flow.metadata.pop(METADATA, None)


def keep_original_message(flow: http.HTTPFlow, place: int, body: bytes) -> None:
    """Keep the client's own body of the WebSocket message at a place of the flow's messages."""
    kept = flow.metadata.setdefault(METADATA_MESSAGES, {})
    kept.setdefault(str(place), zlib.compress(body, _LEVEL))


def find_original_message(flow: http.HTTPFlow, place: int) -> bytes | None:
    """Return the body that was kept of a WebSocket message, as `find_original` does."""
    kept = flow.metadata.get(METADATA_MESSAGES)
    return _decompress(kept.get(str(place))) if isinstance(kept, dict) else None


def has_original_messages(flow: http.HTTPFlow) -> bool:
    """Whether the body of any WebSocket message was kept."""
    return bool(flow.metadata.get(METADATA_MESSAGES))


def find_original(flow: http.HTTPFlow) -> bytes | None:
    """Return the body that was kept, decoded; None if there is none.

    Raises ValueError if it is damaged.
    """
    return _decompress(flow.metadata.get(METADATA))


def _decompress(kept: object) -> bytes | None:
    if not isinstance(kept, bytes):
        return None
    try:
        return zlib.decompress(kept)
    except zlib.error as error:
        raise ValueError(f"the client's own body is damaged: {error}") from None
