"""The client's own body of a changed request, kept on its flow, which `mitmdump -w` stores.

It is content. It is kept because a user asked for a recording, and only in that recording.
"""

import zlib

from mitmproxy import http
from mitmproxy.options import Options

METADATA = "observation_masking_original"

_LEVEL = 1
"""For zlib: 1 MB in some 10 ms. Higher levels take five times as long for a tenth less."""


def is_recording(options: Options) -> bool:
    """Whether mitmproxy writes all flows to a file as they arrive (`-w`)."""
    return bool(getattr(options, "save_stream_file", None))  # an addon's: it may not be there


def keep_original(flow: http.HTTPFlow, body: bytes) -> None:
    """Keep a request's decoded body as the client wrote it; the first one given stays."""
    flow.metadata.setdefault(METADATA, zlib.compress(body, _LEVEL))


def find_original(flow: http.HTTPFlow) -> bytes | None:
    """Return the body that was kept, decoded; None if there is none.

    Raises ValueError if it is damaged.
    """
    kept = flow.metadata.get(METADATA)
    if not isinstance(kept, bytes):
        return None
    try:
        return zlib.decompress(kept)
    except zlib.error as error:
        raise ValueError(f"the client's own body is damaged: {error}") from None
