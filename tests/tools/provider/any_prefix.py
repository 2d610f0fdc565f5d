"""A prompt cache that finds any prefix again which it has seen, in whole messages.

Gemini caches so by itself, and so does a model server with the prompt in its memory. Four
characters count as a token. Nothing is ever forgotten: the provider has no clock.
"""

import hashlib
from collections.abc import Iterable

from tests.tools.provider.script import Reply, Spell

CHARS_PER_TOKEN = 4


class AnyPrefix:
    """The prompts that were seen; `spell` is applied to each piece before it is counted."""

    def __init__(self, spell: Spell) -> None:
        self._seen: set[bytes] = set()
        self._spell = spell

    def count(self, pieces: Iterable[str]) -> tuple[int, int]:
        """Return the tokens of a prompt, and how many of them were seen before; remember it."""
        digest = hashlib.sha256()
        chars = cached = 0
        for piece in pieces:
            text = self._spell(piece)
            digest.update(f"{len(text)}:{text}".encode())
            chars += len(text)
            if digest.digest() in self._seen:
                cached = chars // CHARS_PER_TOKEN
            self._seen.add(digest.digest())
        return chars // CHARS_PER_TOKEN, cached


def count_said(reply: Reply) -> int:
    """Return the tokens of an answer, without those that the model thinks."""
    calls = "".join(each.tool + each.arguments for each in reply.calls)
    return max(1, len((reply.content or "") + calls) // CHARS_PER_TOKEN)
