"""Decodes a body as mitmproxy does, piece by piece, and stops where it grows beyond all measure.

A gzip of half a megabyte can hold 500 MB. Nobody but us looks into it, so nobody else pays for it.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO

import brotli
import zstandard

from addon.shared.http_message import Message

MAX_BYTES = 512_000_000
"""A body that is longer, decoded, is not looked into. No provider is known to take a fifth of it,
and the text of the largest window, ten million tokens, is a tenth."""

_FREE_BYTES = 64_000_000
_MAX_GROWTH = 20
"""A compressed body may become so many bytes, or so many times as long: text is a third to a
twentieth of itself when compressed, and only images make a request longer than the former."""

_LIKELY_GROWTH = 8
"""Of text, at most."""

_PIECE = 1 << 20
_BROTLI_PIECE = 32
"""A few bytes of brotli can hold 16 MB, and version 1.1 returns all that it makes of its input."""

_ZSTANDARD_PIECE = 1 << 10
"""Four bytes of Zstandard can hold a block of 128 kB, and all blocks in a piece are returned."""


class TooLargeError(ValueError):
    """A body is longer, or becomes longer, than what is looked into."""


def decode_message(message: Message) -> bytes | None:
    """Return a message's body as `decode_body` does; None if it was not kept."""
    body = message.raw_content
    if body is None:
        return None
    return decode_body(body, message.headers.get("content-encoding", ""))


def decode_body(body: bytes, coding: str) -> bytes:
    """Return a body without its content coding.

    Raises TooLargeError, and ValueError for an unknown coding or broken bytes.
    """
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"larger than {MAX_BYTES:,} bytes")
    coding = coding.lower()
    if coding in _PLAIN:
        return body
    decode = _DECODERS.get(coding)
    if decode is None:
        raise ValueError("unknown content encoding")
    if not body:
        return b""
    limit = min(MAX_BYTES, max(_FREE_BYTES, _MAX_GROWTH * len(body)))
    try:
        return _join(decode(body), limit)
    except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError):
        raise ValueError("broken content encoding") from None


def estimate_bytes(message: Message) -> int:
    """Return about how long a message's body is at most, decoded, without decoding it."""
    size = len(message.raw_content or b"")
    is_plain = message.headers.get("content-encoding", "").lower() in _PLAIN
    return size if is_plain else _LIKELY_GROWTH * size


def _join(pieces: Iterator[bytes], limit: int) -> bytes:
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLargeError(f"larger than {limit:,} bytes once decompressed")
    return b"".join(kept)


def _decode_gzip(body: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=BytesIO(body)) as file:
        yield from iter(lambda: file.read(_PIECE), b"")


def _decode_deflate(body: bytes) -> Iterator[bytes]:
    """Decode it with or without zlib's header, as servers differ."""
    try:
        zlib.decompressobj().decompress(body[:_PIECE], 1)
    except zlib.error:
        return _inflate(body, -zlib.MAX_WBITS)
    return _inflate(body, zlib.MAX_WBITS)


def _inflate(body: bytes, window_bits: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(window_bits)
    for start in range(0, len(body), _PIECE):
        rest = body[start : start + _PIECE]
        while rest and not decoder.eof:
            yield decoder.decompress(rest, _PIECE)
            rest = decoder.unconsumed_tail
    while not decoder.eof and (piece := decoder.decompress(b"", _PIECE)):
        yield piece
    if not decoder.eof:
        raise zlib.error("incomplete")


def _decode_brotli(body: bytes) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    for start in range(0, len(body), _BROTLI_PIECE):
        yield decoder.process(body[start : start + _BROTLI_PIECE])
    if not decoder.is_finished():
        raise brotli.error("incomplete")


def _decode_zstandard(body: bytes) -> Iterator[bytes]:
    """Decode all frames; what is cut off is broken, as with mitmproxy from 12.3 on."""
    decoder = None
    for start in range(0, len(body), _ZSTANDARD_PIECE):
        rest = body[start : start + _ZSTANDARD_PIECE]
        while rest:
            if decoder is None or decoder.eof:
                decoder = zstandard.ZstdDecompressor().decompressobj()
            yield decoder.decompress(rest)
            rest = decoder.unused_data if decoder.eof else b""
    if decoder is None or not decoder.eof:
        raise zstandard.ZstdError("incomplete")


_PLAIN = ("", "none", "identity")
_DECODERS: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _decode_gzip,
    "deflate": _decode_deflate,
    "deflateraw": _decode_deflate,
    "br": _decode_brotli,
    "zstd": _decode_zstandard,
}
"""By the coding, those that mitmproxy knows."""
