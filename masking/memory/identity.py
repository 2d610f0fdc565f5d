"""What tells one conversation from another, and one tool result from another, by digests.

A conversation is known by its opening and by the assistant's answers, a result by its id, its text
and its images. A cache mark that moves on changes nothing, nor does a text that is a string in one
request and a list of parts in the next.
"""

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import orjson

from masking.conversation import Conversation, find_opening
from masking.elements import Element, Result
from masking.history import UNSTABLE_TAIL, Fold
from masking.wire_format import WireFormat

_BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""

_RESULT_DIGEST_BYTES = 8
"""Enough to tell the results at one place apart."""


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
        chain = conversation.history.fold(
            _Chain, conversation.elements, conversation.wire, unstable_tail=UNSTABLE_TAIL
        )
        chain.close()
        self._digests = chain.digests

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, at: int) -> bytes:
        return self._digests[at]


class ResultId(NamedTuple):
    """What tells a tool result from every other one of the conversations with its answers.

    place: its position among the request's results, counted from 0.
    turn, digest: the tool turn that it belongs to, and the digest of its id, text and images; both
        are None where they were not written down.
    """

    place: int
    turn: int | None
    digest: bytes | None


class ResultIds:
    """The ids of a request's tool results, by their places; worked out when they are asked for."""

    def __init__(self, conversation: Conversation) -> None:
        self._results = conversation.results
        self._known = conversation.known

    def __getitem__(self, place: int) -> ResultId:
        return ResultId(place, self._results[place].turn, self._find_digest(place))

    def has(self, result: ResultId) -> bool:
        """Whether the very same result stands at its place; as far as was written down."""
        place, turn, digest = result
        if place >= len(self._results):
            return False
        if digest is None:
            return True
        is_same = self._results[place].turn == turn and self._find_digest(place) == digest
        return is_same and digest != _UNKNOWN

    def _find_digest(self, place: int) -> bytes:
        element = self._results[place].element
        known = self._known[element]
        digests = known.result_digests
        if digests is None:
            digests = known.result_digests = (*map(_digest_result, known.element.results),)
        if len(digests) == 1:
            return digests[0]
        first = bisect_left(self._results, element, key=lambda result: result.element)
        return digests[place - first]


_UNKNOWN = b""
"""The digest of a result with an image that cannot be written as JSON: it is never the same."""


def _digest_result(result: Result) -> bytes:
    images = [_spell(image.part) for image in result.images]
    if "" in images:
        return _UNKNOWN
    # The texts are joined, as a client may send a string at one time and a list at another.
    texts = (result.call_id or "", "".join(result.texts), *images)
    return _digest(texts)[:_RESULT_DIGEST_BYTES]


class _Chain(Fold[Element]):
    """The digests of the answers so far, and the elements of one that may go on."""

    def __init__(self, wire: WireFormat) -> None:
        self.digests: list[bytes] = []
        self._answer: list[Element] = []
        self._in_runs = wire.answers_in_runs

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
