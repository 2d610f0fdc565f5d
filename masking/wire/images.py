"""Images in any format: what a part tells of its image, and the text that can take its place.

The one rule: the text is no longer than what it replaces, in characters and in tokens.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from masking.model import Image, Path, describe_image
from masking.tokens import UNKNOWN_TOKENS, Header, estimate_tokens, read_header

_DATA_URL = re.compile(r"data:(image/[\w.+-]*)[^,]{0,64}?;base64,", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"image/([\w.+-]{1,16})", re.IGNORECASE | re.ASCII)


class Picture(NamedTuple):
    """What a part tells of its image.

    chars: the length of its data, or of its address.
    kind: such as `png`; None if it is not known.
    header: None if the header cannot be read.
    """

    chars: int
    kind: str | None = None
    header: Header | None = None

    def count_tokens(self, count: Callable[[int, int], int]) -> int:
        """Return what it costs, given the tokens of a width and a height; else a guess."""
        return UNKNOWN_TOKENS if self.header is None else count(*self.header[1:])


def read_picture(data: object, media_type: object = None) -> Picture:
    """Read an image in base64, with its media type; if it is no text, nothing is known of it."""
    if not isinstance(data, str):
        return Picture(0)
    header = read_header(data)
    found = _MEDIA_TYPE.fullmatch(media_type) if isinstance(media_type, str) else None
    kind = header.kind if header else found and found[1].lower()
    return Picture(len(data), kind, header)


def read_address(url: object) -> Picture:
    """Read an image that is given by its address, which may hold it, or by an id."""
    if not isinstance(url, str):
        return Picture(0)
    found = _DATA_URL.match(url)
    if found is None:
        return Picture(len(url))
    return read_picture(url[found.end() :], found[1])


def offer(
    slot: Path, part: object, picture: Picture, tokens: int, say: Callable[[str], object]
) -> tuple[Image, ...]:
    """Return the image in a part, with what can take its place; nothing if that would be longer.

    `say` spells a part with a text.
    """
    size = picture.header and (picture.header.width, picture.header.height)
    placeholder = describe_image(picture.kind, size)
    if picture.chars < len(placeholder) or tokens <= estimate_tokens(placeholder):
        return ()
    return (Image(slot, part, tokens, placeholder, say(placeholder)),)
