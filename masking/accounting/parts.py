"""The parts of a prompt: its tokens by who they belong to. They add up to the whole prompt."""

from collections.abc import Mapping
from typing import Literal

from masking.elements import Element, Speaker

Part = Literal["system", "tools", "user", "assistant", "results", "placeholders", "unknown"]

PARTS: Mapping[Part, str] = {
    "system": "system prompt",
    "tools": "tool schemas",
    "user": "user",
    "assistant": "assistant, with its calls",
    "results": "tool results",
    "placeholders": "placeholders",
    "unknown": "unknown elements",
}
"""What each part is, in the order in which people read them."""

Share = dict[Part, int]
"""Tokens by part; a part may have none."""

_OF_SPEAKERS: Mapping[Speaker, Part] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
    "unknown": "unknown",
}


def add_element(
    share: Share,
    element: Element,
    tokens: int,
    content: int,
    placeholders: int = 0,
    times: int = 1,
) -> None:
    """Add the tokens of an element to a share, by part, or take them away.

    `content` are those of its tool results, `placeholders` those of them that stand for others. A
    content may be spelled otherwise in its piece, so it has no more than there is.
    """
    if content:
        content = min(content, tokens)
        placeholders = min(placeholders, content)
        share["results"] = share.get("results", 0) + times * (content - placeholders)
        if placeholders:
            share["placeholders"] = share.get("placeholders", 0) + times * placeholders
    part = _find_part(element)
    share[part] = share.get(part, 0) + times * (tokens - content)


def add_share(share: Share, other: Share) -> None:
    """Add another share to one."""
    for part, tokens in other.items():
        share[part] = share.get(part, 0) + tokens


def _find_part(element: Element) -> Part:
    """Return whose an element is beside its results: what only carries results is theirs."""
    if element.results and not element.texts:
        return "results"
    return _OF_SPEAKERS[element.speaker]
