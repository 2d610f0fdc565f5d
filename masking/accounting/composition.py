"""What a prompt is composed of: its tokens by who they belong to.

The parts are shares of the pieces that were counted already, so no text is counted for them, and
they add up to the whole prompt.
"""

from collections.abc import Mapping
from typing import Literal

from masking.accounting.prompt import Prompt
from masking.elements import Element, Speaker
from masking.rewrite import Rewrite

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

_OF_SPEAKERS: Mapping[Speaker, Part] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
    "unknown": "unknown",
}


def compose(rewrite: Rewrite, prompt: Prompt) -> dict[str, int]:
    """Return the tokens of each part of the prompt as it leaves; a part without any is left out."""
    elements = rewrite.conversation.elements
    contents, placeholders = [0] * len(elements), [0] * len(elements)
    for element, _, left, stand_ins in prompt.results:
        contents[element] += left
        placeholders[element] += stand_ins
    head, *pieces = prompt.after
    parts: dict[Part, int] = dict.fromkeys(PARTS, 0)
    parts["tools"], parts["system"] = prompt.tools, head.tokens - prompt.tools
    for at, piece in zip(rewrite.edits.order(len(elements)), pieces, strict=True):
        if at is None:  # a summary of what was dropped
            parts["user"] += piece.tokens
            continue
        # A content may be spelled otherwise in its piece, so it has no more than there is.
        content = min(contents[at], piece.tokens)
        stand_ins = min(placeholders[at], content)
        parts["placeholders"] += stand_ins
        parts["results"] += content - stand_ins
        parts[_find_part(elements[at])] += piece.tokens - content
    return {part: parts[part] for part in PARTS if parts[part]}


def _find_part(element: Element) -> Part:
    """Return whose an element is beside its results: what only carries results is theirs."""
    if element.results and not element.texts:
        return "results"
    return _OF_SPEAKERS[element.speaker]
