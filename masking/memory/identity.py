"""What tells one conversation from another: digests of its opening and of the assistant's answers.

They cover texts alone. A cache mark that moves on changes nothing, nor does a text that is a string
in one request and a list of parts in the next.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Self

import orjson

from masking.conversation import Conversation, find_opening
from masking.elements import Element
from masking.folds import MARKED_ELEMENTS, duplicate, fold

_BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""


def digest_opening(conversation: Conversation) -> bytes:
    """Return the digest of a conversation: of its texts up to the first of the user's, included."""
    opening = find_opening(conversation)
    return _digest(text for text in opening if not text.startswith(_BILLING_HEADER))


class Answers:
    """The digests of a request's answers of the assistant, each with all those before it.

    Alone an answer tells little: what is asked twice is often answered alike, and some providers
    number the calls of every turn anew.
    """

    def __init__(self, conversation: Conversation) -> None:
        chain = fold(
            lambda: _Chain(in_runs=conversation.wire.answers_in_runs),
            conversation.elements,
            conversation.progress,
            "answers",
            MARKED_ELEMENTS,
        )
        chain.close()
        self._digests = chain.digests

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, at: int) -> bytes:
        return self._digests[at]


class _Chain:
    """The digests of the answers so far, and the elements of one that may go on."""

    def __init__(self, *, in_runs: bool) -> None:
        self.digests: list[bytes] = []
        self._answer: list[Element] = []
        self._in_runs = in_runs

    def copy(self) -> Self:
        """Return another one that goes on by itself."""
        other = duplicate(self)
        other.digests, other._answer = [*self.digests], [*self._answer]
        return other

    def take(self, element: Element) -> None:
        """Add the next element."""
        if element.speaker != "assistant" or not self._in_runs:
            self.close()
        if element.speaker == "assistant":
            self._answer.append(element)

    def close(self) -> None:
        """Digest the answer that has come to its end."""
        if self._answer:
            before = self.digests[-1] if self.digests else b""
            self.digests.append(_digest(_find_texts(self._answer), before))
            self._answer = []


def _find_texts(answer: Iterable[Element]) -> list[str]:
    """Return what tells an answer from others: texts, and of calls ids, names and arguments."""
    texts: list[str] = []
    for element in answer:
        texts += element.texts
        for call in element.calls:
            texts += [each for each in call if isinstance(each, str)]
            if isinstance(call.arguments, dict):
                texts.append(_spell(call.arguments))
    return texts


def _spell(arguments: object) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
        return ""


def _digest(texts: Iterable[str], before: bytes = b"") -> bytes:
    """Return one digest of all texts; their lengths are in it, so that none runs into the next."""
    pieces = [before]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        pieces += len(data).to_bytes(8, "big"), data
    return blake2b(b"".join(pieces), digest_size=16).digest()
