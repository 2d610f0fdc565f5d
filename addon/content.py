"""The body of a message: decoded and encoded as mitmproxy does it, and bounded.

A gzip of half a megabyte can hold 500 MB, and a body of 200 MB can become gigabytes of objects.
Nobody but us looks into it, so nobody else pays for it: a body is decoded piece by piece, and is
left alone once it grows beyond the bounds here. What a request holds decides that, never how busy
the proxy is.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO

import brotli
import zstandard

from addon.request import Message, Request, is_signed
from masking.errors import WireError
from masking.wire import WireFormat

MAX_BYTES = 512_000_000
"""A body that is longer, decoded, is not looked into. No provider is known to take a fifth of it,
and the text of the largest window, ten million tokens, is a tenth."""

_FREE_BYTES = 64_000_000
_MAX_GROWTH = 20
"""A compressed body may become so many bytes, or so many times as long: text is a third to a
twentieth of itself when compressed, and only images make a request longer than the former."""

_LIKELY_GROWTH = 8
"""How many times as long as its compressed form text is at most, as a rule."""

_PIECE = 1 << 20
_BROTLI_PIECE = 32
"""A few bytes of brotli can hold 16 MB, and version 1.1 returns all that it makes of its input."""

_ZSTANDARD_PIECE = 1 << 10
"""Four bytes of Zstandard can hold a block of 128 kB, and all blocks in a piece are returned."""

MAX_ELEMENTS = 1_000_000
"""Of a request's list. With ten tokens each they would fill a window of ten million."""

MAX_VALUES = 16_000_000
"""Of objects, lists and commas in a body. One with a tenth of these fills such a window, even if it
is source code."""

_VALUE_SIGNS = (b"{", b"[", b",")


class TooLargeError(ValueError):
    """A body is longer, or becomes longer, than what is looked into."""


def read_body(request: Request) -> bytes:
    """Return a request's decoded body. Raises WireError if it must not or cannot be read."""
    if is_signed(request):
        raise WireError("signed")
    try:
        body = decode_message(request)
    except TooLargeError as error:
        raise WireError(str(error)) from None
    except ValueError:
        raise WireError("unknown or broken content encoding") from None
    if body is None:
        raise WireError("streamed past the addon")
    return body


def read_answer(response: Message) -> bytes | None:
    """Return the body of an answer, decoded if it can be; None if it was not kept.

    Raises TooLargeError for one that grows beyond the bounds.
    """
    try:
        return decode_message(response)
    except TooLargeError:
        raise
    except ValueError:
        return response.raw_content  # a header that is wrong, maybe


def decode_message(message: Message) -> bytes | None:
    """Return a message's body as `decode_body` does; None if it was not kept."""
    body = message.raw_content
    if body is None:
        return None
    return decode_body(body, message.headers.get("content-encoding", ""))


def estimate_bytes(message: Message) -> int:
    """Return about how long a message's body is at most, decoded, without decoding it."""
    size = len(message.raw_content or b"")
    is_plain = message.headers.get("content-encoding", "").lower() in _PLAIN
    return size if is_plain else _LIKELY_GROWTH * size


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
    pieces, size = [], 0
    try:
        for piece in decode(body):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLargeError(f"larger than {limit:,} bytes once decompressed")
    except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError):
        raise ValueError("broken content encoding") from None
    return b"".join(pieces)


def encode_body(body: bytes, coding: str) -> bytes:
    """Return a body in a content coding, with the bytes that mitmproxy 11 would send.

    Raises ValueError for a coding that is not known.
    """
    coding = coding.lower()
    if coding in _PLAIN:
        return body
    encode = _ENCODERS.get(coding)
    if encode is None:
        raise ValueError("unknown content encoding")
    return encode(body)


def check_values(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise WireError if a body has more values, so that it could take gigabytes once parsed."""
    if len(body) <= most:
        return
    found = 0
    for start in range(0, len(body), _PIECE):
        found += sum(body.count(sign, start, start + _PIECE) for sign in _VALUE_SIGNS)
        if found > most:
            raise WireError(f"more than {most:,} values")


def check_elements(document: Mapping[str, object], wire: WireFormat) -> None:
    """Raise WireError if a list that the format may read is too long."""
    for path in wire.list_paths:
        found: object = document
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, list) and len(found) > MAX_ELEMENTS:
            raise WireError(f"more than {MAX_ELEMENTS:,} elements")


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


def _compress_gzip(body: bytes) -> bytes:
    compressed = BytesIO()
    # `gzip.compress` names the system in the header, or does not, by the version of Python.
    with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=0) as file:
        file.write(body)
    return compressed.getvalue()


def _compress_brotli(body: bytes) -> bytes:
    compressed: bytes = brotli.compress(body)
    return compressed


_PLAIN = ("", "none", "identity")
_DECODERS: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _decode_gzip,
    "deflate": _decode_deflate,
    "deflateraw": _decode_deflate,
    "br": _decode_brotli,
    "zstd": _decode_zstandard,
}
_ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": _compress_gzip,
    "deflate": zlib.compress,
    "deflateraw": zlib.compress,
    "br": _compress_brotli,
    "zstd": lambda body: zstandard.ZstdCompressor().compress(body),
}
"""By the coding, those that mitmproxy knows."""
