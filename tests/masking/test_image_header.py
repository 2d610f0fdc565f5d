"""What the header of an image tells, and that any other bytes tell nothing."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.tokens import Header, read_header
from tests.support.images import encode, frame, gif, jpeg, png, segment, webp
from tests.support.marks import as_one_test

VP8 = bytes(6) + (1280).to_bytes(2, "little") + (800 | 0x4000).to_bytes(2, "little")
LOSSLESS = b"\x2f" + (1279 | 799 << 14).to_bytes(4, "little") + bytes(8)
EXTENDED = bytes(4) + (1279).to_bytes(3, "little") + (799).to_bytes(3, "little")
THUMBNAIL = segment(0xE1, jpeg(frame(160, 100)) + bytes(60_000))


@as_one_test
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(png(1280, 800), Header("png", 1280, 800), id="PNG"),
        pytest.param(encode(gif(640, 480)), Header("gif", 640, 480), id="GIF"),
        pytest.param(encode(gif(64, 48, b"87a")), Header("gif", 64, 48), id="old GIF"),
        pytest.param(encode(webp(b"VP8 ", VP8)), Header("webp", 1280, 800), id="WebP"),
        pytest.param(
            encode(webp(b"VP8L", LOSSLESS)), Header("webp", 1280, 800), id="lossless WebP"
        ),
        pytest.param(
            encode(webp(b"VP8X", EXTENDED)), Header("webp", 1280, 800), id="extended WebP"
        ),
        pytest.param(encode(jpeg(frame(1280, 800))), Header("jpeg", 1280, 800), id="JPEG"),
        pytest.param(
            encode(jpeg(THUMBNAIL, segment(0xC4, bytes(40)), b"\xff", frame(1280, 800, 0xC2))),
            Header("jpeg", 1280, 800),
            id="progressive JPEG after a thumbnail, a table and a fill byte",
        ),
        pytest.param(
            encode(jpeg(*[segment(0xE2)] * 64, frame(9, 9))), None, id="too many segments"
        ),
        pytest.param(encode(b"\xff\xd8\xff\xe0"), None, id="JPEG cut off"),
        pytest.param(encode(jpeg(segment(0xE0), b"odd, and more of it")), None, id="odd JPEG"),
        pytest.param(encode(jpeg(frame(0, 800))), None, id="no width"),
        pytest.param(png(0, 0), None, id="no size"),
        pytest.param(encode(b"\x89PNG\r\n\x1a\n" + bytes(40)), None, id="PNG without its header"),
        pytest.param(encode(webp(b"VP8?", bytes(20))), None, id="WebP of another kind"),
        pytest.param(encode(webp(b"VP8X", b"")), None, id="WebP cut off"),
        pytest.param(encode(b"%PDF-1.7"), None, id="PDF"),
        pytest.param("", None, id="nothing"),
        pytest.param("iVBORw0KGgo", None, id="no base64: padding lacks"),
        pytest.param("é" * 80, None, id="no base64: another letter"),
    ],
)
def test_what_a_header_tells(data: str, expected: Header | None) -> None:
    assert expected == read_header(data)


STARTS = (b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF", b"RIFF....WEBPVP8X", b"\xff\xd8\xff", b"")


@given(st.sampled_from(STARTS), st.binary(max_size=200), st.integers(0, 3))
def test_any_bytes_tell_a_size_or_nothing(start: bytes, rest: bytes, cut: int) -> None:
    data = base64.b64encode(start + rest).decode()
    found = read_header(data[: len(data) - cut])
    assert found is None or min(found.width, found.height) > 0


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert read_header(text) is None or text.isascii()
