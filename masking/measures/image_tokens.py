"""The tokens of an image of known size, by the formulas that vendors publish.

A model is not known here. Where a vendor's models differ, the formula is that of the usual ones.
"""

from math import ceil

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
    Models that count patches of 32 x 32 pixels come to about as much for a screenshot.
    Source: https://platform.openai.com/docs/guides/images-vision#calculating-costs
    """
    scale = min(1.0, _LARGEST_SQUARE / max(width, height))
    scale = min(scale, _SHORT_EDGE / min(width, height))
    tiles = ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
    return LOW_DETAIL_TOKENS + _TILE_TOKENS * tiles
