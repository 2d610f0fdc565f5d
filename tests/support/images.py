"""Headers of image files, in base64, and as much data behind them as a test wants."""

import base64
import struct
from random import Random

_NOISE = Random(11).randbytes(600)


def png(width: int = 1280, height: int = 800, mark: str = "") -> str:
    """Return the beginning of a PNG; `mark` tells it from others of its size."""
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(
        ">I4sII5B", 13, b"IHDR", width, height, *(8, 6, 0, 0, 0)
    )
    return encode(header + mark.encode() + _NOISE)


def gif(width: int, height: int, version: bytes = b"89a") -> bytes:
    return b"GIF" + version + struct.pack("<HH", width, height) + _NOISE


def webp(kind: bytes, payload: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 900) + b"WEBP" + kind + struct.pack("<I", 800) + payload


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments) + _NOISE


def segment(marker: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def frame(width: int, height: int, marker: int = 0xC0) -> bytes:
    return segment(marker, struct.pack(">BHHB", 8, height, width, 3) + bytes(9))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
