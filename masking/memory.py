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
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from masking.conversation import Conversation
from masking.window.past import (
    Anchor,
    ConversationContext,
    Move,
    Past,
    PrefixState,
    ResultId,
    ResultIds,
    digest_answers,
    digest_opening,
)
from masking.wire.format import Marks

__all__ = [
    "MAX_CONVERSATIONS",
    "Anchor",
    "BoundaryMemory",
    "Branches",
    "ConversationContext",
    "Move",
    "Past",
    "PrefixState",
    "ResultId",
    "ResultIds",
    "digest_answers",
    "digest_opening",
    "estimate_lifetime",
    "is_held_out",
]

MAX_CONVERSATIONS = 2_000
_MAX_RESULTS = 200_000
"""Results and moves of all conversations together; each takes some 150 bytes here, 30 in a file."""

_MAX_BRANCHES = 32
"""Conversations with the same opening: agents given one task several times, or in parallel."""

Branches = tuple[Past, ...]
"""Conversations with the same opening, the latest first."""


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

    def lookup(
        self, conversation: Conversation, now: float, lifetime: float
    ) -> ConversationContext:
        """Return what is known of the conversation that a request continues."""
        opening, answers = digest_opening(conversation), digest_answers(conversation)
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
        return ConversationContext(opening, answers, results, past, now, lifetime, continued)

    def store(self, context: ConversationContext, past: Past | None) -> None:
        """Remember a conversation in place of the one it continues; None changes nothing.

        If the user went back, the longer conversation stays known: it may be sent again.
        """
        if past is None:
            return
        opening, answers = context.opening, context.answers
        with self._lock:
            others = (
                other
                for other in self._branches.get(opening, ())
                if other is not context.continued and not other.is_part_of(past, answers)
            )
            self._put(opening, (past, *others))

    def forget(self, conversation: Conversation) -> None:
        """Forget the conversation that a request continues, because it is sent whole."""
        if not self._branches:
            return
        opening, answers = digest_opening(conversation), digest_answers(conversation)
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


def _rank(followed: Past, own: Past, answers: Sequence[bytes]) -> _Rank:
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


_SECONDS = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
"""As requests spell it. `in_memory` and all other spellings ask for nothing longer."""

_DOUBT = 1.2
"""How many times the provider's time a pause must last: that a prefix is cold is only a guess."""


def estimate_lifetime(marks: Marks, usual: float) -> float:
    """Return the seconds after which a request's prompt has most likely been forgotten.

    `usual` is the provider's own time. What the request's marks ask for holds if it is longer.
    """
    asked = (_SECONDS.get(spelling, 0.0) for spelling in marks.lifetimes)
    return _DOUBT * max([usual, *asked])


_RANGE = 1 << 64


def is_held_out(opening: bytes, percent: float, salt: str) -> bool:
    """Whether a conversation belongs to the share of `percent`, by what `digest_opening` returns.

    A larger percentage only adds conversations. Another salt chooses anew.
    """
    if percent <= 0:
        return False
    digest = blake2b(opening + salt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < percent / 100 * _RANGE
