"""The client's own body of a request that was changed, kept on its flow: `mitmdump -w` stores it.

It is content. It is there because a user asked for a recording, and nowhere but in that recording.
"""

import zlib

from mitmproxy import http
from mitmproxy.options import Options

METADATA = "observation_masking_original"

_LEVEL = 1
"""Of zlib: 1 MB in some 10 ms. Higher levels take five times as long for a tenth less."""


def is_recording(options: Options) -> bool:
    """Whether mitmproxy writes all flows to a file as they come (`-w`)."""
    return bool(getattr(options, "save_stream_file", None))  # an addon's: it may not be there


def keep_original(flow: http.HTTPFlow, body: bytes) -> None:
    """Keep a request's body, decoded, as the client wrote it; the first one that is given stays."""
    flow.metadata.setdefault(METADATA, zlib.compress(body, _LEVEL))


def find_original(flow: http.HTTPFlow) -> bytes | None:
    """Return the body that was kept, decoded; None where there is none.

    Raises ValueError for one that is damaged.
    """
    kept = flow.metadata.get(METADATA)
    if not isinstance(kept, bytes):
        return None
    try:
        return zlib.decompress(kept)
    except zlib.error as error:
        raise ValueError(f"the client's own body is damaged: {error}") from None
