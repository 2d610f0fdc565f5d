"""What takes the place of an observation; that is the reduction's word for a tool's output.

The one rule: the result of a dispatch, between its two markers, survives verbatim.
Source: history-reducer-design.md.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from masking.strategies.texts import clip

BEGIN = "BEGIN_DISPATCH_RESULT"
END = "END_DISPATCH_RESULT"


def mask_observation(text: str, max_chars: int) -> str:
    """Return a placeholder, followed by the blocks of dispatch results in the text.

    The placeholder is clipped to `max_chars` code points but never to nothing, because some
    providers refuse an empty result. Blocks are not clipped. The very same text comes back if the
    outcome would not be shorter, or if the text is already such an outcome, with any number.
    """
    blocks = find_blocks(text)
    outside = len(text) - sum(map(len, blocks))
    masked = _render(str(outside), blocks, max_chars)
    if len(masked) >= len(text) or _could_have_rendered(text, blocks, max_chars):
        return text
    return masked


def find_blocks(text: str) -> list[str]:
    """Return the dispatch results of a text, markers included, in order.

    A block runs from a BEGIN marker to an END marker with no other marker between them. So of two
    BEGINs the inner one counts, and a BEGIN without an END is prose.
    """
    marks = list(_MARKER.finditer(text)) if END in text else ()  # nearly none has one
    return [
        text[begin.start() : end.end()]
        for begin, end in pairwise(marks)
        if (begin[0], end[0]) == (BEGIN, END)
    ]


_MARKER = re.compile(f"{BEGIN}|{END}")

_COUNT = re.compile(r"\[(?:observation|dispatch output) masked — ([0-9]{1,20})")

_BEGINNINGS = ("[", "...")
"""A placeholder begins like this, however short it was clipped."""

_ANY_COUNT = "0" * 20
"""Digits to continue with if a placeholder was clipped before the end of its number."""


def _render(outside: str, blocks: Sequence[str], max_chars: int) -> str:
    kind = "dispatch output" if blocks else "observation"
    placeholder = clip(f"[{kind} masked — {outside} chars]", max(1, max_chars))
    return "\n".join((placeholder, *blocks))


def _could_have_rendered(text: str, blocks: Sequence[str], max_chars: int) -> bool:
    if not text.startswith(_BEGINNINGS):
        return False
    count = _COUNT.match(text)
    digits = count[1] if count else ""
    counts = (digits, digits + _ANY_COUNT)
    return any(_render(outside, blocks, max_chars) == text for outside in counts)
