"""How a conversation was sent so far, and how it is recognized when it is sent again.

A conversation is recognized by its opening and by the assistant's answers, a result by its id, its
text and its images; all of them by digests. A cache breakpoint that moves changes nothing, nor does
a text that is a string in one request and a list of parts in the next.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, NamedTuple

import orjson

from masking.conversation import Conversation, find_opening
from masking.history import UNSTABLE_TAIL, Fold
from masking.model import Element, ToolResult
from masking.window.boundary import BoundaryPosition
from masking.window.placeholder import Rendering
from masking.wire.format import WireFormat

_BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""

_RESULT_DIGEST_BYTES = 8
"""Enough to tell the results at one place apart."""


def digest_opening(conversation: Conversation) -> bytes:
    """Return the digest of a conversation: of its texts up to the first of the user's, included."""
    opening = find_opening(conversation)
    return _digest(text for text in opening if not text.startswith(_BILLING_HEADER))


def digest_answers(conversation: Conversation) -> Sequence[bytes]:
    """Return a digest for each answer of the assistant, together with all before it; oldest first.

    Alone an answer tells little: what is asked twice is often answered alike, and some providers
    number the calls of every turn anew.
    """
    chain = conversation.history.fold(
        _AnswerChain, conversation.elements, conversation.wire, unstable_tail=UNSTABLE_TAIL
    )
    chain.close()
    return chain.digests


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
        self._known = conversation.parsed

    def __getitem__(self, place: int) -> ResultId:
        return ResultId(place, self._results[place].turn, self._digest_at(place))

    def has(self, result: ResultId) -> bool:
        """Whether the very same result stands at its place; as far as was written down."""
        place, turn, digest = result
        if place >= len(self._results):
            return False
        if digest is None:
            return True
        is_same = self._results[place].turn == turn and self._digest_at(place) == digest
        return is_same and digest != _UNKNOWN

    def _digest_at(self, place: int) -> bytes:
        element = self._results[place].element
        known = self._known[element]
        digests = known.result_digests
        if digests is None:
            digests = known.result_digests = (*map(_digest_result, known.element.results),)
        if len(digests) == 1:
            return digests[0]
        first = bisect_left(self._results, element, key=lambda result: result.element)
        return digests[place - first]


class Anchor(NamedTuple):
    """A place in a conversation: the number of messages of the assistant, and their digest.

    What follows the last of them decides nothing. So a request that was cancelled and is sent with
    another end stands at the same place.
    """

    answers: int
    digest: bytes

    def is_on(self, answers: Sequence[bytes]) -> bool:
        """Whether a request with these messages of the assistant passes through this place."""
        if self.answers > len(answers):
            return False
        return not self.answers or self.digest == answers[self.answers - 1]


Fields = Mapping[str, object]
"""Fields of a record, by name, as JSON has them."""

_NO_FIELDS: Fields = MappingProxyType({})


class Move(NamedTuple):
    """A move of the boundary: the request that made it, what it masked, and how.

    results: those that it masked first.
    unknown: what a later version has written of it, carried along.
    """

    anchor: Anchor
    boundary: BoundaryPosition
    results: tuple[ResultId, ...]
    rendering: Rendering
    unknown: Fields = _NO_FIELDS

    @property
    def names_results(self) -> bool:
        """Whether it says which results it masked, not only where; files once did no more."""
        return not self.results or self.results[0].digest is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A conversation as it was sent: where it was first met, its moves, and its last request.

    `sent` is when that request left, in seconds of any clock that does not go back. `unknown` is
    what a later version has written of it, carried along.
    """

    met: Anchor
    moves: tuple[Move, ...] = ()
    last: Anchor
    sent: float
    unknown: Fields = field(default_factory=dict)

    @property
    def position(self) -> BoundaryPosition:
        """Where the boundary stands since the last move."""
        return self.moves[-1].boundary if self.moves else BoundaryPosition(0, 0)

    def is_part_of(self, later: "Past", answers: Sequence[bytes]) -> bool:
        """Whether `later`, a request with these answers, covers all that this one masked, and how.

        It does not if the user went back, more was masked there, and the old end then went on.
        """
        if not self.last.is_on(answers):
            return False
        if later.moves[: len(self.moves)] == self.moves:  # as a rule, and quickly found
            return True
        return self._masked_words(self.last) <= later._masked_words(self.last)

    def _masked_words(self, until: Anchor) -> set[tuple[ResultId, Rendering]]:
        known = (move for move in self.moves if move.anchor.answers <= until.answers)
        return {
            (result, move.rendering)
            for move in known
            for result in move.results
            if result.digest is not None
        }

    def follow(self, answers: Sequence[bytes]) -> "Past | None":
        """Return the part of it that a request shares; None if there is none.

        If the user has gone back in the conversation, the moves after that place are gone, too.
        """
        if not self.met.is_on(answers):
            return None
        moves = tuple(move for move in self.moves if move.anchor.is_on(answers))
        return replace(self, moves=moves)

    def without_others(self, results: ResultIds) -> "Past":
        """Return what it masked of these very results; the same object if that is everything."""
        if all(results.has(result) for move in self.moves for result in move.results):
            return self
        left = (
            move._replace(results=tuple(filter(results.has, move.results))) for move in self.moves
        )
        return replace(self, moves=tuple(move for move in left if move.results))


PrefixState = Literal["first met", "warm", "cold"]
"""Whether a provider's cache most likely holds a conversation, by what is remembered of it."""


class ConversationContext(NamedTuple):
    """What is known of a request besides its messages: its conversation, and the past of that.

    opening, answers, results: by what the conversation and its parts are recognized.
    past: None if the conversation is seen for the first time. Of what it masked it has this
        request's own results, and those of which a file says no more than the place.
    now, lifetime: in seconds; after a longer time without a request the provider has most likely
        forgotten the prefix.
    continued: what was remembered of a conversation that the request continues at its very end;
        None where it is a fork, or another one with the same answers.
    """

    opening: bytes
    answers: Sequence[bytes]
    results: ResultIds
    past: Past | None
    now: float
    lifetime: float
    continued: Past | None = None

    @property
    def anchor(self) -> Anchor:
        """The request's place in its conversation."""
        return Anchor(len(self.answers), self.answers[-1] if self.answers else b"")

    @property
    def state(self) -> PrefixState:
        """Whether the provider has most likely forgotten the prefix."""
        if self.past is None:
            return "first met"
        return "cold" if self.now - self.past.sent > self.lifetime else "warm"


_UNKNOWN = b""
"""The digest of a result with an image that cannot be written as JSON: it is never the same."""


def _digest_result(result: ToolResult) -> bytes:
    images = [_spell(image.part) for image in result.images]
    if "" in images:
        return _UNKNOWN
    # The texts are joined, as a client may send a string at one time and a list at another.
    texts = (result.call_id or "", "".join(result.texts), *images)
    return _digest(texts)[:_RESULT_DIGEST_BYTES]


class _AnswerChain(Fold[Element]):
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
            self.digests.append(_digest(_texts_of(self._answer), before))
            self._answer = []


def _texts_of(answer: Iterable[Element]) -> list[str]:
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
