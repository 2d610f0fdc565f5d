"""Encodes a body as mitmproxy does, so that each engine sends the same bytes."""

import gzip
import zlib
from collections.abc import Callable, Mapping

import brotli
import zstandard


def encode_body(body: bytes, coding: str) -> bytes:
    """Return a body in a content coding. Raises ValueError for one that is not known."""
    encode = _ENCODERS.get(coding.lower())
    if encode is None:
        raise ValueError("unknown content encoding")
    return encode(body)


def _encode_gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # the same bytes at any time


def _encode_brotli(body: bytes) -> bytes:
    encoded: bytes = brotli.compress(body)
    return encoded


def _encode_zstandard(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


def _keep(body: bytes) -> bytes:
    return body


_ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    **dict.fromkeys(("", "none", "identity"), _keep),
    "gzip": _encode_gzip,
    **dict.fromkeys(("deflate", "deflateraw"), zlib.compress),
    "br": _encode_brotli,
    "zstd": _encode_zstandard,
}
