"""The body of a message: decoded in pieces and encoded as mitmproxy does it, up to bounds."""

import gzip
import json
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
from mitmproxy.version import VERSION

from addon.content import (
    MAX_ELEMENTS,
    MAX_VALUES,
    TooLargeError,
    check_elements,
    check_values,
    decode_body,
    encode_body,
    estimate_bytes,
    read_answer,
    read_body,
)
from addon.proxy.mcp import Answer
from masking.errors import WireError
from masking.mcp import UNKNOWN, McpSettings
from masking.wire import FORMATS
from masking.wire.chat import CHAT
from masking.wire.gemini import GEMINI
from tests.support.marks import as_one_test

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


@as_one_test
@pytest.mark.parametrize("coding", ["", *CODINGS[:-1]])
def test_a_body_that_is_encoded_is_the_same_once_decoded(coding: str) -> None:
    plain = b"some text " * 1_000
    assert plain == decode_body(encode_body(plain, coding), coding)


@pytest.mark.skipif(not VERSION.startswith("11."), reason="mitmproxy 12 has other compressors")
@pytest.mark.parametrize("coding", ["", *CODINGS])
def test_a_body_is_encoded_as_mitmproxy_11_does_it(coding: str) -> None:
    plain = b"some text " * 1_000
    assert _decode(encode_plain, plain, coding) == _decode(encode_body, plain, coding)


def encode_plain(body: bytes, coding: str) -> object:
    """Encode as mitmproxy does; it takes no coding at all for an unknown one."""
    return encoding.encode(body, coding) if coding else body


def test_an_answer_with_a_wrong_header_is_read_as_it_stands() -> None:
    response = tutils.tresp(headers=http.Headers(content_encoding="gzip"), content=b"")
    response.raw_content = b"plain"
    assert b"plain" == read_answer(response)
    response.raw_content = None
    assert read_answer(response) is None


def test_how_long_a_body_may_become_is_estimated_without_decoding_it() -> None:
    request = tutils.treq(content=b"x" * 100, headers=http.Headers())
    assert 100 == estimate_bytes(request)
    request.headers["content-encoding"] = "gzip"
    assert len(request.raw_content or b"") * 8 == estimate_bytes(request)


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
    answer.mask_whole(response)
    assert {"larger than 64,000,000 bytes once decompressed": 1} == dict(answer.failures)
    assert BOMBS["br"] == response.raw_content


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"," * MAX_VALUES, id="as many values as there may be"),
        pytest.param(b"a" * (MAX_VALUES + 10), id="a long text"),
        pytest.param(b'{"a": [1, 2]}', id="a short body"),
    ],
)
def test_a_body_of_so_many_values_is_looked_into(body: bytes) -> None:
    check_values(body)


@pytest.mark.parametrize("value", [b"{", b"[", b"1,"], ids=["objects", "lists", "numbers"])
def test_a_body_of_more_values_is_not_looked_into(value: bytes) -> None:
    with pytest.raises(WireError, match="more than 16,000,000 values"):
        check_values(value * (MAX_VALUES + 1))


def test_a_list_of_more_elements_is_not_looked_into() -> None:
    items = [""] * MAX_ELEMENTS
    check_elements({"messages": items}, CHAT)
    with pytest.raises(WireError, match="more than 1,000,000 elements"):
        check_elements({"messages": [*items, ""]}, CHAT)


def test_a_list_is_found_wherever_the_format_has_it() -> None:
    items = [""] * (MAX_ELEMENTS + 1)
    with pytest.raises(WireError):
        check_elements({"request": {"contents": items}}, GEMINI)


@pytest.mark.parametrize("odd", ["7", '{"messages": 7}', '{"request": [], "contents": {}}'])
def test_odd_documents_have_no_elements(odd: str) -> None:
    document = json.loads(odd)
    for wire in FORMATS:
        check_elements(document if isinstance(document, dict) else {}, wire)
