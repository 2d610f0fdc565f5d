"""Decoding in pieces: as mitmproxy does it, up to a bound."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.net import encoding
from mitmproxy.test import tutils

from addon.proxy.mcp_answer import Answer, mask_whole
from addon.shared.decoding import TooLargeError, decode_body
from addon.shared.requests import read_body
from masking.errors import WireError
from masking.mcp import UNKNOWN, McpSettings

CODINGS = ("gzip", "deflate", "deflateraw", "br", "zstd", "identity", "none", "Gzip", "x-own")

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda body: body,
    "its end is missing": lambda body: body[:-3],
    "half of it is missing": lambda body: body[: len(body) // 2],
    "something follows": lambda body: body + b"x",
    "zeros follow": lambda body: body + b"\0\0",
    "it stands there twice": lambda body: body + body,
    "something stands before it": lambda body: b"junk" + body,
    "it has no header": lambda body: body[2:-4],
}


def _decode(decode: Callable[[bytes, str], object], body: bytes, coding: str) -> object:
    try:
        return decode(body, coding)
    except ValueError:
        return ValueError


def _gunzip(body: bytes, _: str) -> bytes:
    """Return what mitmproxy 11 does; 12 takes what is cut off for whole, and the first for all."""
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        raise ValueError from None


def _decode_frames(body: bytes, _: str) -> bytes:
    """Return what mitmproxy 12.3 does; earlier versions take what is cut off for whole."""
    plain = b""
    while body:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        try:
            plain += decoder.decompress(body)
        except zstandard.ZstdError:
            raise ValueError from None
        if not decoder.eof:
            raise ValueError
        body = decoder.unused_data
    return plain


_AS_IN_ALL_VERSIONS = {"gzip": _gunzip, "zstd": _decode_frames}


@given(
    st.one_of(st.binary(max_size=500), st.builds(bytes.__mul__, st.binary(), st.just(3_000))),
    st.sampled_from(CODINGS[:-1]),
    st.sampled_from([*DAMAGES]),
)
@example(b"\0" * 3_000_000, "zstd", "its end is missing")
@example(b"\0" * 3_000_000, "deflate", "its end is missing")
@example(b"some text " * 200_000, "br", "none")
def test_a_body_is_decoded_as_mitmproxy_does_it(plain: bytes, coding: str, damage: str) -> None:
    body = DAMAGES[damage](encoding.encode(plain, coding))
    decode = _AS_IN_ALL_VERSIONS.get(coding.lower(), encoding.decode)
    assert _decode(decode, body, coding) == _decode(decode_body, body, coding)


def test_a_coding_that_nobody_knows_is_an_error() -> None:
    assert ValueError is _decode(decode_body, b"{}", "x-own")


MEGABYTES = b"\0" * 66_000_000

BOMBS = {
    "gzip": gzip.compress(MEGABYTES[:1_000_000]) * 66,  # members, one after the other
    "deflate": zlib.compress(MEGABYTES, 1),
    "br": brotli.compress(MEGABYTES, quality=1),
    "zstd": zstandard.ZstdCompressor(level=1).compress(MEGABYTES),
}


@pytest.mark.parametrize("coding", [*BOMBS])
def test_a_bomb_is_not_decoded_to_its_end(coding: str) -> None:
    with pytest.raises(TooLargeError, match="larger than 64,000,000 bytes once decompressed"):
        decode_body(BOMBS[coding], coding)


def test_what_is_large_compressed_may_be_larger_still() -> None:
    """Images, say: a bomb is known by how it grows."""
    body = gzip.compress(MEGABYTES, 0)
    assert len(MEGABYTES) == len(decode_body(body, "gzip"))


def test_a_request_that_is_a_bomb_goes_on_untouched() -> None:
    request = tutils.treq(content=BOMBS["gzip"], headers=http.Headers(content_encoding="gzip"))
    with pytest.raises(WireError, match="larger than 64,000,000 bytes once decompressed"):
        read_body(request)


def test_an_answer_of_an_mcp_server_that_is_a_bomb_goes_on_untouched() -> None:
    response = tutils.tresp(content=BOMBS["br"], headers=http.Headers(content_encoding="br"))
    answer = Answer(McpSettings(enabled=True), UNKNOWN)
    mask_whole(response, answer)
    assert {"larger than 64,000,000 bytes once decompressed": 1} == dict(answer.failures)
    assert BOMBS["br"] == response.raw_content
