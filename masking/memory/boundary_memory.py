"""What is remembered of a conversation: which of its results were masked, and at which requests.

Three things cannot be read from a request: what was masked in its conversation before, under which
settings, and when the conversation was last sent. Remembering them changes the bytes that are sent,
so it has a setting of its own; without it the boundary is a function of the request alone. No
content is remembered, only places, numbers and digests.

What is remembered is a result, not a place: conversations may have the same answers and other
results, where calls have no ids or a task is run again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from masking.conversation import Conversation
from masking.memory.identity import Answers, ResultId, ResultIds, digest_opening
from masking.strategies.boundary_fold import Boundary
from masking.window.placeholder import Rendering

MAX_CONVERSATIONS = 2_000
_MAX_RESULTS = 200_000
"""Results and moves of all conversations together; each takes some 150 bytes here, 30 in a file."""

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


Fields = Mapping[str, object]
"""Fields of a record, by name, as JSON has them."""

_NO_FIELDS: Fields = MappingProxyType({})


class Move(NamedTuple):
    """A move of the boundary: the request that made it, what it masked, and how.

    results: those that it masked first.
    unknown: what a later version has written of it, carried along.
    """

    anchor: Anchor
    boundary: Boundary
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

    def is_part_of(self, later: "Past", answers: Digests) -> bool:
        """Whether `later`, a request with these answers, covers all that this one masked, and how.

        It does not if the user went back, more was masked there, and the old end then went on.
        """
        if not self.last.is_on(answers):
            return False
        if later.moves[: len(self.moves)] == self.moves:  # as a rule, and quickly found
            return True
        return self._find_words(self.last) <= later._find_words(self.last)

    def _find_words(self, until: Anchor) -> set[tuple[ResultId, Rendering]]:
        known = (move for move in self.moves if move.anchor.answers <= until.answers)
        return {
            (result, move.rendering)
            for move in known
            for result in move.results
            if result.digest is not None
        }

    def follow(self, answers: Digests) -> "Past | None":
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


Branches = tuple[Past, ...]
"""Conversations with the same opening, the latest first."""


PrefixState = Literal["first met", "warm", "cold"]
"""Whether a provider's cache most likely holds a conversation, by what is remembered of it."""


class Occasion(NamedTuple):
    """What is known of a request besides its messages: its conversation, and the past of that.

    `past` is None if the conversation is first met. Of what it masked it has this request's own
    `results`, and those of which a file says no more than the place. `now` and `lifetime` are in
    seconds; after a longer time without a request the provider has most likely forgotten the
    prefix. `continued` is what was remembered of a conversation that the request goes on with at
    its very end; None where it is a fork, or another one with the same answers.
    """

    opening: bytes
    answers: Digests
    results: ResultIds
    past: Past | None
    now: float
    lifetime: float
    continued: Past | None = None

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
        max_results: int = _MAX_RESULTS,
    ) -> None:
        self._on_change = on_change
        self._max_conversations = max_conversations
        self._max_results = max_results
        self._results = 0
        self._branches: OrderedDict[bytes, Branches] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, conversations: Iterable[tuple[bytes, Branches]]) -> None:
        """Add what was remembered before, the latest last; what was met since comes after it."""
        with self._lock:
            since, self._branches = self._branches, OrderedDict()
            self._results = 0
            for opening, branches in conversations:
                self._take_in(opening, branches)
            for opening, branches in since.items():
                before = self._branches.get(opening, ())
                self._take_in(opening, (*branches, *before))
                if before:
                    self._on_change(opening, self._branches[opening])
            self._forget_oldest()

    def meet(self, conversation: Conversation, now: float, lifetime: float) -> Occasion:
        """Return what is known of the conversation that a request continues."""
        opening, answers = digest_opening(conversation), Answers(conversation)
        results = ResultIds(conversation)
        with self._lock:
            branches = self._branches.get(opening, ())
        best: _Rank | None = None
        past = continued = None
        for branch in branches:
            if followed := branch.follow(answers):
                own = followed.without_others(results)
                rank = _rank(followed, own, answers)
                if best is None or rank > best:
                    goes_on = rank.has_nearly_all and branch.last.is_on(answers)
                    best, past, continued = rank, own, branch if goes_on else None
        return Occasion(opening, answers, results, past, now, lifetime, continued)

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
                if other is not occasion.continued and not other.is_part_of(past, answers)
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
        self._results += _count_results(branches)
        self._results -= _count_results(self._branches.pop(opening, ()))
        if branches:
            self._branches[opening] = branches

    def _forget_oldest(self) -> None:
        while len(self._branches) > self._max_conversations or self._results > self._max_results:
            opening, branches = self._branches.popitem(last=False)
            self._results -= _count_results(branches)
            self._on_change(opening, ())


def _count_results(branches: Branches) -> int:
    return sum(1 + len(move.results) for past in branches for move in past.moves)


class _Rank(NamedTuple):
    """How well a request fits a conversation that has the same answers; the highest is taken.

    likeness: 2 if the request has all that was masked in it; also if it has most of that and goes
        on from the conversation's end, since an agent may edit results of its own. 1 if it has most
        of it. 0 if not: then that is another conversation, such as a task that is run again.
    before: how many answers they share before the request's own place, where any run may have been.
    has_all, has_nearly_all: whether the request has all that was masked, or three quarters of it.
    shared, moves, results, sent: how far they are the same, and when that was sent.
    """

    likeness: int
    before: int
    has_all: bool
    shared: int
    moves: int
    results: int
    sent: float
    has_nearly_all: bool


def _rank(followed: Past, own: Past, answers: Digests) -> _Rank:
    """Rank a conversation by what it has masked so far, and by what of that the request has."""
    is_at_end, has_all = own.last.is_on(answers), own is followed
    same, masked = (sum(len(move.results) for move in each.moves) for each in (own, followed))
    has_most = 2 * same >= masked
    shared = [own.met, *(move.anchor for move in own.moves), *([own.last] if is_at_end else [])]
    last = shared[-1].answers
    return _Rank(
        likeness=2 if has_all or (has_most and is_at_end) else int(has_most),
        before=min(last, len(answers) - 1),
        has_all=has_all,
        shared=last,
        moves=len(shared),
        results=same,
        sent=own.sent,
        has_nearly_all=4 * same >= 3 * masked,
    )
