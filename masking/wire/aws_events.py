"""Reads `application/vnd.amazon.eventstream`, in which Bedrock streams its answers.

An event is its length, that of its headers, a checksum of these two, the headers, a payload, and a
checksum of it all (docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html).
"""

import binascii
import struct
import zlib
from collections.abc import Iterator

import orjson

_PRELUDE = struct.Struct(">III")
_CHECKSUM = 4
_LEAST = _PRELUDE.size + _CHECKSUM


def is_event_stream(data: bytes) -> bool:
    """Whether these bytes begin as such a stream does."""
    return len(data) >= _PRELUDE.size and _read_lengths(data, 0) is not None


def find_payloads(stream: bytes) -> Iterator[bytes]:
    """Yield the payload of each whole event, up to the first that is damaged.

    `invoke-with-response-stream` wraps a model's own events: `{"bytes": "<base64>"}`. Then these
    are yielded.
    """
    at = 0
    while at + _LEAST <= len(stream) and (lengths := _read_lengths(stream, at)) is not None:
        total, headers = lengths
        if total < _LEAST or at + total > len(stream):
            return
        yield _unwrap(stream[at + _PRELUDE.size + headers : at + total - _CHECKSUM])
        at += total


def _read_lengths(stream: bytes, at: int) -> tuple[int, int] | None:
    """Return the lengths of an event and of its headers; None if their checksum is wrong."""
    total, headers, checksum = _PRELUDE.unpack_from(stream, at)
    is_right = zlib.crc32(stream[at : at + _PRELUDE.size - _CHECKSUM]) == checksum
    return (total, headers) if is_right else None


def _unwrap(payload: bytes) -> bytes:
    try:
        document = orjson.loads(payload)
        wrapped = document.get("bytes") if isinstance(document, dict) else None
        return binascii.a2b_base64(wrapped) if isinstance(wrapped, str) else payload
    except ValueError:
        return payload
