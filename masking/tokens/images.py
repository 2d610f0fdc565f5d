"""Images: the kind and the size from the header of a file in base64, and the tokens they cost.

Only the bytes of a header that are needed are decoded, whatever the size of the file. Sources: the
specifications of PNG (W3C, section 11.2.2), GIF89a (section 18), WebP (RFC 9649) and JPEG (ITU-T
T.81, annex B).

The tokens follow the formulas that vendors publish. A model is not known here; where a vendor's
models differ, the formula is that of the usual ones.
"""

import binascii
from collections.abc import Callable
from math import ceil
from typing import NamedTuple


class Header(NamedTuple):
    """The kind of an image, and its size in pixels."""

    kind: str
    width: int
    height: int


def read_header(data: str) -> Header | None:
    """Read the header of an image in base64; None if the kind or the size is not known."""
    try:
        start = _decode(data, 0, _START)
        read = next((read for sign, read in _READERS.items() if start.startswith(sign)), None)
        header = None if read is None else read(data, start)
    except ValueError:  # no base64
        return None
    return header if header is not None and header.width > 0 and header.height > 0 else None


_START = 30
"""In bytes: the longest of the simple headers is WebP's."""

_MOST_SEGMENTS = 64
"""How many segments of a JPEG are looked at; profiles and thumbnails take some of them."""


def _decode(data: str, at: int, count: int) -> bytes:
    """Return so many bytes of the file, or what there is. Raises ValueError."""
    first, last = at // 3, -(-(at + count) // 3)
    decoded = binascii.a2b_base64(data[4 * first : 4 * last])
    return decoded[at - 3 * first :][:count]


def _read_png(_: str, start: bytes) -> Header | None:
    if start[12:16] != b"IHDR":
        return None
    return Header("png", int.from_bytes(start[16:20]), int.from_bytes(start[20:24]))


def _read_gif(_: str, start: bytes) -> Header | None:
    return Header(
        "gif", int.from_bytes(start[6:8], "little"), int.from_bytes(start[8:10], "little")
    )


def _read_webp(_: str, start: bytes) -> Header | None:
    kind = start[8:16]
    if kind == b"WEBPVP8X":  # sizes less one
        width, height = (1 + int.from_bytes(start[at : at + 3], "little") for at in (24, 27))
    elif kind == b"WEBPVP8L":  # 14 bits each, less one, after a byte
        bits = int.from_bytes(start[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"WEBPVP8 ":  # 14 bits each, the other two are a scale
        width, height = (int.from_bytes(start[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    else:
        return None
    return Header("webp", width, height) if len(start) == _START else None


def _read_jpeg(data: str, _: bytes) -> Header | None:
    """Go from segment to segment, to the frame header, which has the size."""
    at = 2
    for _segment in range(_MOST_SEGMENTS):
        segment = _decode(data, at, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        if segment[1] == 0xFF:  # a fill byte
            at += 1
        elif segment[1] in _FRAMES:
            width, height = int.from_bytes(segment[7:9]), int.from_bytes(segment[5:7])
            return Header("jpeg", width, height)
        else:
            at += 2 + int.from_bytes(segment[2:4])
    return None


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of frame headers; the other three are tables, and an extension."""

_READERS: dict[bytes, Callable[[str, bytes], Header | None]] = {
    b"\x89PNG\r\n\x1a\n": _read_png,
    b"GIF87a": _read_gif,
    b"GIF89a": _read_gif,
    b"RIFF": _read_webp,
    b"\xff\xd8\xff": _read_jpeg,
}
"""By the first bytes of a file."""


UNKNOWN_TOKENS = 1_600
"""A guess at an image of unknown size: about the most that a screenshot costs.

If the guess is too low, a move that breaks the prompt before an image looks cheap. If it is too
high, the bill of sending everything looks higher, but with a `max_loss` of a tenth only a tenth of
that error counts.
"""

LOW_DETAIL_TOKENS = 85
"""What OpenAI charges for an image with `"detail": "low"`."""

_PATCH = 28
_MOST_PATCHES = 1_568
_LONGEST_EDGE = 1_568
"""In pixels. The newest models take larger images, and charge up to three times as much."""

_TILE = 512
_TILE_TOKENS = 170
_LARGEST_SQUARE = 2_048
_SHORT_EDGE = 768


def count_claude(width: int, height: int) -> int:
    """Return the tokens of an image in Claude: one for each patch of 28 x 28 pixels.

    An image that is too large is scaled down first.
    Source: https://platform.claude.com/docs/en/build-with-claude/vision
    """
    scale = min(1.0, _LONGEST_EDGE / max(width, height))
    return min(_MOST_PATCHES, ceil(width * scale / _PATCH) * ceil(height * scale / _PATCH))


def count_openai(width: int, height: int) -> int:
    """Return the tokens of an image in GPT-4o: 85, and 170 for each tile of 512 x 512 pixels.

    An image is first scaled down to fit a square of 2,048 pixels, then to 768 on its short edge.
    Models that count patches of 32 x 32 pixels charge about as much for a screenshot.
    Source: https://platform.openai.com/docs/guides/images-vision#calculating-costs
    """
    scale = min(1.0, _LARGEST_SQUARE / max(width, height))
    scale = min(scale, _SHORT_EDGE / min(width, height))
    tiles = ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
    return LOW_DETAIL_TOKENS + _TILE_TOKENS * tiles
