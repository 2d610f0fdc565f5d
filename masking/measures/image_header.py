"""The kind and the size of an image, from the header of its file, in base64.

Only the bytes that tell are decoded, whatever the size of the file. Sources: the specifications of
PNG (W3C, section 11.2.2), GIF89a (section 18), WebP (RFC 9649) and JPEG (ITU-T T.81, annex B).
"""

import binascii
from collections.abc import Callable
from typing import NamedTuple


class Header(NamedTuple):
    """What a header tells; the size is in pixels."""

    kind: str
    width: int
    height: int


def read_header(data: str) -> Header | None:
    """Read the header of an image in base64; None if it is of no known kind, or tells no size."""
    try:
        start = _decode(data, 0, _START)
        read = next((read for sign, read in _READERS.items() if start.startswith(sign)), None)
        header = None if read is None else read(data, start)
    except ValueError:  # no base64
        return None
    return header if header is not None and header.width > 0 and header.height > 0 else None


_START = 30
"""As many bytes as the longest of the simple headers, that of WebP."""

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
