"""What is remembered of a conversation: which of its results were masked, and at which requests.

Three things cannot be read from a request: what was masked in its conversation before, under which
settings, and when the conversation was last sent. Remembering them changes the bytes that are sent,
so it has a setting of its own; without it the boundary is a function of the request alone. No
content is remembered, only places, numbers and digests.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from masking.conversation import Conversation
from masking.memory.identity import Answers, digest_opening
from masking.strategies.boundary_fold import Boundary
from masking.strategies.placeholder import Rendering

MAX_CONVERSATIONS = 2_000
_MAX_PLACES = 500_000
"""Places and moves of all conversations together; each takes some 40 bytes here, 8 in a file."""

_MAX_BRANCHES = 32
"""Conversations with the same opening: agents given one task several times, or in parallel."""


class Digests(Protocol):
    """A digest for each message of the assistant, together with all before it; oldest first."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, at: int, /) -> bytes:
        """Return one of them."""


class Anchor(NamedTuple):
    """A place in a conversation: the number of messages of the assistant, and their digest.

    What follows the last of them decides nothing. So a request that was cancelled and is sent with
    another end stands at the same place.
    """

    answers: int
    digest: bytes

    def is_on(self, answers: Digests) -> bool:
        """Whether a request with these messages of the assistant passes through this place."""
        if self.answers > len(answers):
            return False
        return not self.answers or self.digest == answers[self.answers - 1]


class Move(NamedTuple):
    """A move of the boundary: the request that made it, what it masked, and how.

    `places` are the positions of the tool results that it masked first, counted from 0.
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
        """Whether `later`, a request with these answers, covers all that this one masked, and how.

        It does not if the user went back, more was masked there, and the old end then went on.
        """
        if not self.last.is_on(answers):
            return False
        return self._find_words(self.last) <= later._find_words(self.last)

    def _find_words(self, until: Anchor) -> set[tuple[int, Rendering]]:
        known = (move for move in self.moves if move.anchor.answers <= until.answers)
        return {(place, move.rendering) for move in known for place in move.places}

    def follow(self, answers: Digests) -> "Past | None":
        """Return the part of it that a request shares; None if there is none.

        If the user has gone back in the conversation, the moves after that place are gone, too.
        """
        if not self.met.is_on(answers):
            return None
        moves = tuple(move for move in self.moves if move.anchor.is_on(answers))
        return replace(self, moves=moves)


Branches = tuple[Past, ...]
"""Conversations with the same opening, the latest first."""


PrefixState = Literal["first met", "warm", "cold"]
"""Whether a provider's cache most likely holds a conversation, by what is remembered of it."""


class Occasion(NamedTuple):
    """What is known of a request besides its messages: its conversation, and the past of that.

    `past` is None if the conversation is first met. `now` and `lifetime` are in seconds; after a
    longer time without a request the provider has most likely forgotten the prefix.
    """

    opening: bytes
    answers: Digests
    past: Past | None
    now: float
    lifetime: float

    @property
    def place(self) -> Anchor:
        """The request's place in its conversation."""
        return Anchor(len(self.answers), self.answers[-1] if len(self.answers) else b"")

    @property
    def state(self) -> PrefixState:
        """Whether the provider has most likely forgotten the prefix."""
        if self.past is None:
            return "first met"
        return "cold" if self.now - self.past.sent > self.lifetime else "warm"


class BoundaryMemory:
    """What is remembered, by the digest of a conversation's opening; forgets the longest unused.

    `on_change` is called with each opening that changes and the branches now known for it; with
    none if it is forgotten. Threads may share one.
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
        """Add what was remembered before, the latest last."""
        with self._lock:
            for opening, branches in conversations:
                self._take_in(opening, branches)
            self._forget_oldest()

    def meet(self, conversation: Conversation, now: float, lifetime: float) -> Occasion:
        """Return what is known of the conversation that a request continues."""
        opening, answers = digest_opening(conversation), Answers(conversation)
        with self._lock:
            branches = self._branches.get(opening, ())
        known = [past for branch in branches if (past := branch.follow(answers))]
        past = max(known, key=lambda past: _count_shared(past, answers), default=None)
        return Occasion(opening, answers, past, now, lifetime)

    def keep(self, occasion: Occasion, past: Past | None) -> None:
        """Remember a conversation in place of the one it continues; None changes nothing.

        If the user went back, the longer conversation stays known: it may be sent again.
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

    def forget(self, conversation: Conversation) -> None:
        """Forget the conversation that a request continues, because it is sent whole."""
        if not self._branches:
            return
        opening, answers = digest_opening(conversation), Answers(conversation)
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
    """Return the rank of a branch: how far a request shares it, then when it was sent."""
    shared = [past.met, *(move.anchor for move in past.moves)]
    shared += [past.last] if past.last.is_on(answers) else []
    return shared[-1].answers, len(shared), past.sent
