"""What is remembered of a conversation: which of its results were masked, and at which requests.

Three things cannot be read from a request: what was masked of it before, under which settings, and
when it was last sent. Remembering them changes bytes, so it is a setting of its own; without it
the boundary is a function of the request alone. Nothing here has content: places, numbers, digests.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from masking.memory.identity import Answers, digest_opening
from masking.strategies.boundary import Boundary

MAX_CONVERSATIONS = 2_000
_MAX_PLACES = 500_000
"""Places and moves of all conversations, some 40 bytes each here and 8 in a file."""

_MAX_BRANCHES = 32
"""Conversations with the same opening: agents that are given one task again, or in parallel."""


class Digests(Protocol):
    """Of each message of the assistant a digest, with all those before it; oldest first."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, at: int, /) -> bytes:
        """Return one of them."""


class Anchor(NamedTuple):
    """A place in a conversation: after so many messages of the assistant, with their digest.

    What follows that message has no part in a decision, so a request that is cancelled and takes
    another end still stands at the same place.
    """

    answers: int
    digest: bytes

    def is_on(self, answers: Digests) -> bool:
        """Whether a request with these messages of the assistant leads through this place."""
        if self.answers > len(answers):
            return False
        return not self.answers or self.digest == answers[self.answers - 1]


class Rendering(NamedTuple):
    """How placeholders were written: a setting that is changed must not change the old ones."""

    template: str
    must_shrink: bool


class Move(NamedTuple):
    """A move of the boundary: the request that made it, and what it masked by which rendering.

    `places` are those of the tool results that were first masked there, counted from 0.
    """

    anchor: Anchor
    boundary: Boundary
    places: tuple[int, ...]
    rendering: Rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A conversation as it was sent: where it was first met, its moves, and its last request.

    `sent` is when that request left, in seconds of any clock that does not go back.
    """

    met: Anchor
    moves: tuple[Move, ...] = ()
    last: Anchor
    sent: float

    def is_part_of(self, later: "Past", answers: Digests) -> bool:
        """Whether a later request of these answers tells all of it: what was masked, in its words.

        It does not where a user went back, that was masked more, and the old end then went on.
        """
        if not self.last.is_on(answers):
            return False
        return self._find_words(self.last) <= later._find_words(self.last)

    def _find_words(self, until: Anchor) -> set[tuple[int, Rendering]]:
        known = (move for move in self.moves if move.anchor.answers <= until.answers)
        return {(place, move.rendering) for move in known for place in move.places}

    def follow(self, answers: Digests) -> "Past | None":
        """Return as much of it as a request shares; None where that is nothing.

        Where a user has gone back in the conversation, the moves from there on are gone, too.
        """
        if not self.met.is_on(answers):
            return None
        moves = tuple(move for move in self.moves if move.anchor.is_on(answers))
        return replace(self, moves=moves)


Branches = tuple[Past, ...]
"""Conversations with the same opening, the latest first."""


PrefixState = Literal["first met", "warm", "cold"]
"""What a provider's cache most likely has of a conversation, by what is remembered of it."""


class Occasion(NamedTuple):
    """What is known of a request beside its messages: whose it is, and what became of it before.

    `past` is None where the conversation is first met. `now` and `lifetime` are seconds: after a
    longer time without a request the provider has most likely forgotten the prefix.
    """

    opening: bytes
    answers: Digests
    past: Past | None
    now: float
    lifetime: float

    @property
    def place(self) -> Anchor:
        """Where in its conversation the request stands."""
        return Anchor(len(self.answers), self.answers[-1] if len(self.answers) else b"")

    @property
    def state(self) -> PrefixState:
        """Whether the provider has most likely forgotten the prefix."""
        if self.past is None:
            return "first met"
        return "cold" if self.now - self.past.sent > self.lifetime else "warm"


class BoundaryMemory:
    """What is remembered, by the digest of a conversation's opening; the longest unused goes first.

    `on_change` is called with every opening and the branches that are known of it now, none where
    it is forgotten. For any thread.
    """

    def __init__(
        self,
        on_change: Callable[[bytes, Branches], object] = lambda _opening, _branches: None,
        max_conversations: int = MAX_CONVERSATIONS,
        max_places: int = _MAX_PLACES,
    ) -> None:
        self._on_change = on_change
        self._max_conversations = max_conversations
        self._max_places = max_places
        self._places = 0
        self._branches: OrderedDict[bytes, Branches] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, conversations: Iterable[tuple[bytes, Branches]]) -> None:
        """Take in what was remembered before, the latest last."""
        with self._lock:
            for opening, branches in conversations:
                self._take_in(opening, branches)
            self._forget_oldest()

    def meet(self, body: Mapping[str, object], now: float, lifetime: float) -> Occasion:
        """Return what is known of the conversation that a request continues, as far as it does."""
        opening, answers = digest_opening(body), Answers(body)
        with self._lock:
            branches = self._branches.get(opening, ())
        known = [past for branch in branches if (past := branch.follow(answers))]
        past = max(known, key=lambda past: _count_shared(past, answers), default=None)
        return Occasion(opening, answers, past, now, lifetime)

    def keep(self, occasion: Occasion, past: Past | None) -> None:
        """Remember a conversation in place of what it continues; None leaves all as it is.

        What was masked where a user went back to stays known, for that may be sent once more.
        """
        if past is None:
            return
        opening, answers = occasion.opening, occasion.answers
        with self._lock:
            others = (
                other
                for other in self._branches.get(opening, ())
                if not other.is_part_of(past, answers)
            )
            self._put(opening, (past, *others))

    def forget(self, body: Mapping[str, object]) -> None:
        """Forget what a request continues, for it is sent whole."""
        if not self._branches:
            return
        opening, answers = digest_opening(body), Answers(body)
        with self._lock:
            branches = self._branches.get(opening, ())
            left = tuple(past for past in branches if past.follow(answers) is None)
            if left != branches:
                self._put(opening, left)

    def _put(self, opening: bytes, branches: Branches) -> None:
        self._take_in(opening, branches)
        self._on_change(opening, self._branches.get(opening, ()))
        self._forget_oldest()

    def _take_in(self, opening: bytes, branches: Branches) -> None:
        branches = branches[:_MAX_BRANCHES]
        self._places += _count_places(branches)
        self._places -= _count_places(self._branches.pop(opening, ()))
        if branches:
            self._branches[opening] = branches

    def _forget_oldest(self) -> None:
        while len(self._branches) > self._max_conversations or self._places > self._max_places:
            opening, branches = self._branches.popitem(last=False)
            self._places -= _count_places(branches)
            self._on_change(opening, ())


def _count_places(branches: Branches) -> int:
    return sum(1 + len(move.places) for past in branches for move in past.moves)


def _count_shared(past: Past, answers: Digests) -> tuple[int, int, float]:
    """Order branches by how far a request shares them, and by the time they were sent."""
    shared = [past.met, *(move.anchor for move in past.moves)]
    shared += [past.last] if past.last.is_on(answers) else []
    return shared[-1].answers, len(shared), past.sent
