"""What is remembered of a conversation: which of its results were masked or shortened, and when.

Three things cannot be read from a request: what was masked in its conversation before, under which
settings, and when the conversation was last sent. Remembering them changes the bytes that are sent,
so it has a setting of its own; without it the boundary is a function of the request alone. No
content is remembered, only places, numbers and digests.

What is remembered is a result, not a place: conversations may have the same answers and other
results, where calls have no ids or a task is run again. So a conversation is told from others by
its answers, and by the results that the model had read before them.
"""

import math
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, NamedTuple

from cachetools import LRUCache

from masking.arrival import Arrived, SentResults, ShortenedWords
from masking.conversation import Conversation, ParsedElement
from masking.history import UNSTABLE_TAIL, Fold
from masking.model import Element, ToolResult
from masking.window.decide import (
    Anchor,
    ConversationContext,
    Move,
    Past,
    PrefixState,
    ResultId,
)
from masking.window.placeholder import Rendering
from masking.wire.format import Marks, WireFormat, render_json
from masking.wire.messages import BILLING_HEADER

__all__ = [
    "MAX_CONVERSATIONS",
    "Anchor",
    "BoundaryMemory",
    "Branches",
    "ConversationContext",
    "Forgotten",
    "Memories",
    "Move",
    "Past",
    "PrefixState",
    "Recalled",
    "Remembered",
    "ResultId",
    "ResultIds",
    "Shortened",
    "ShortenedWords",
    "digest_answers",
    "digest_opening",
    "estimate_lifetime",
    "find_opening",
    "is_held_out",
]

MAX_CONVERSATIONS = 2_000
_MAX_RESULTS = 200_000
"""Results and moves of all conversations together; each takes some 150 bytes here, 30 in a file."""

_MAX_BRANCHES = 32
"""Conversations with the same opening: agents given one task several times, or in parallel."""

Branches = tuple[Past, ...]
"""Conversations with the same opening, the latest first."""

Shortened = Mapping[bytes, ShortenedWords]
"""How results were sent shortened, by `ResultIds.keys`. Never changed."""

Forgotten = Literal["all", "masked", "cleared"]
"""How much of a conversation to forget: everything, because it goes out unmasked from now on; only
what was masked or cleared in it; or only what its provider cleared."""

_MAX_WHOLE = 20_000


class Remembered(NamedTuple):
    """What is remembered of the conversations with one opening.

    requests: the latest ones that the window remembers nothing of, where reasoning may be bound.
    """

    branches: Branches = ()
    shortened: Shortened = MappingProxyType({})
    requests: tuple[Anchor, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is remembered."""
        return not (self.branches or self.shortened or self.requests)

    @property
    def size(self) -> int:
        """How many results and moves there are."""
        moves = (move for past in self.branches for move in past.moves)
        own = len(self.shortened) + len(self.requests)
        return own + sum(1 + len(move.results) for move in moves)


_NOTHING = Remembered()


class BoundaryMemory:
    """What is remembered, by the digest of a conversation's opening; forgets the longest unused.

    `on_change` is called with each opening that changes and what is now remembered of it; with
    nothing if it is forgotten. Threads may share one.
    """

    def __init__(
        self,
        on_change: Callable[[bytes, Remembered], object] = lambda _opening, _remembered: None,
        max_conversations: int = MAX_CONVERSATIONS,
        max_results: int = _MAX_RESULTS,
    ) -> None:
        self._on_change = on_change
        self._max_conversations = max_conversations
        self._max_results = max_results
        self._results = 0
        self._known: OrderedDict[bytes, Remembered] = OrderedDict()
        self._whole: LRUCache[bytes, None] = LRUCache(_MAX_WHOLE)
        """The results that the latest requests have sent whole for the first time."""
        self._lock = threading.Lock()

    def load(self, conversations: Iterable[tuple[bytes, Remembered]]) -> None:
        """Add what was remembered before, the latest last; what was met since comes after it."""
        with self._lock:
            since, self._known = self._known, OrderedDict()
            self._results = 0
            for opening, remembered in conversations:
                self._take_in(opening, remembered)
            for opening, (branches, shortened, requests) in since.items():
                before = self._known.get(opening, _NOTHING)
                both = Remembered(
                    (*branches, *before.branches),
                    {**before.shortened, **shortened},
                    (*requests, *before.requests),
                )
                self._take_in(opening, both)
                if not before.is_nothing:
                    self._on_change(opening, self._known[opening])
            self._forget_oldest()

    def lookup(
        self, conversation: Conversation, now: float, lifetime: float, held: bytes | None = None
    ) -> "Recalled":
        """Return what is known of the conversation that a request continues.

        conversation: the request as its client wrote it: what is done to it changes no identity.
        lifetime: after more seconds than these without a request the provider has most likely
            forgotten the prefix.
        held: by what the conversation is recognized, where its provider holds the history, and the
            request has only what is new.
        """
        if held is not None:
            with self._lock:
                shortened = self._known.get(held, _NOTHING).shortened
            none, ids, was_whole = Chain((), ()), ResultIds(conversation), self._was_whole
            return Recalled(held, none, conversation, ids, shortened, was_whole, is_known=True)
        opening, chain = digest_opening(conversation), digest_answers(conversation)
        answers, read = chain
        ids = ResultIds(conversation, answers)
        with self._lock:
            branches, shortened, requests = self._known.get(opening, _NOTHING)

        # The window: a request continues the branch with which it shares the most answers that came
        # after the very same results; not its latest answer, which another run may have had, too.
        # Of several, as once its agent has edited results, it is the one of whose masked results it
        # has the most where others differ; then the latest.
        before = _count_before_latest(conversation, len(answers))
        shared = [each for each in (_share(past, chain, ids) for past in branches) if each]
        most = max((min(each.answers, before) for each in shared), default=0)
        longest = [each for each in shared if min(each.answers, before) == most]
        best = max(longest, key=lambda each: each.left, default=None)
        past = best and best.past
        state: PrefixState = "first met"
        if past is not None:
            state = "cold" if now - past.sent > lifetime else "warm"
        context = ConversationContext(
            ids.__getitem__,
            Anchor(len(answers), answers[-1] if answers else b"", read[-1] if read else b""),
            now,
            state,
            past,
            best is not None and best.goes_on,
            any(branch.drops_reasoning for branch in branches),
        )

        # Arrival: reasoning that was made at requests which did not come through here has seen
        # whole results.
        ends = [*requests, *(branch.last for branch in branches)]
        passed = [end.answers for end in ends if _is_on(end, answers)]
        if passed and conversation.binding and conversation.is_bound_from(max(passed) + 1):
            shortened = {}
        return Recalled(
            opening,
            chain,
            conversation,
            ids,
            shortened,
            self._was_whole,
            is_known=bool(passed),
            context=context,
            continued=best.branch if best is not None and best.is_continued else None,
        )

    def store(
        self, recalled: "Recalled", past: Past | None, arrived: Arrived | None = None
    ) -> None:
        """Remember a request in its conversation: what its window masks, and what is shortened.

        past: it takes the place of the one that the request continues. None changes nothing there.
            If the user went back, the longer conversation stays known: it may be sent again.
        arrived: says which results are sent shortened, and which are not; None if nobody looked.
        """
        with self._lock:
            before = after = self._known.get(recalled.opening, _NOTHING)
            if past is not None:
                others = (
                    other
                    for other in before.branches
                    if other is not recalled.continued and not _covers(past, recalled.chain, other)
                )
                after = after._replace(branches=(past, *others))
            if arrived is not None:
                after = self._store_results(recalled, arrived, after)
            if after is not before:
                self._put(recalled.opening, after)

    def _store_results(
        self, recalled: "Recalled", arrived: Arrived, remembered: Remembered
    ) -> Remembered:
        keys, results = recalled.ids.keys, recalled.conversation.results
        sent = {each.place: each.words for each in arrived.shortened}
        shortened = {keys(place)[0]: words for place, words in sent.items() if words is not None}
        last = recalled.conversation.last_answer  # what follows it was in no request before
        first_new = bisect_right(results, last, key=lambda result: result.element)
        for place in range(first_new, len(results)):
            if place not in sent:
                self._whole[recalled.opening + keys(place)[0]] = None
        # One that was sent shortened once and is whole now, stays whole.
        left = dict(remembered.shortened)
        if left.keys() - shortened.keys():
            least = _find_least(left)
            for place, result in enumerate(results):
                if place not in sent and any(len(text) > least for text in result.texts):
                    left.pop(keys(place)[0], None)
        left |= shortened
        if left != remembered.shortened:
            remembered = remembered._replace(shortened=left)
        if arrived.client.binding is not None and recalled.context is not None:
            remembered = _with_request(remembered, recalled.context.anchor, recalled.chain.answers)
        return remembered

    def forget(self, conversation: Conversation, what: Forgotten) -> None:
        """Forget of the conversation that a request continues what is not sent so any more.

        Others stay that have its opening, and its answers but other results.
        """
        if not self._known:
            return
        opening, chain = digest_opening(conversation), digest_answers(conversation)
        ids = ResultIds(conversation, chain.answers)
        with self._lock:
            known, left = self._known.get(opening, _NOTHING), list[Past]()
            for past in known.branches:
                shared = _share(past, chain, ids)
                is_own = shared is not None and shared.is_same
                if not is_own or (what == "cleared" and not past.cleared):
                    left.append(past)
                elif what == "cleared":
                    met = past.last._replace(read=None)
                    left.append(replace(past, met=met, moves=(), cleared=False))
                elif past.drops_reasoning:  # what was dropped before no longer fits
                    left.append(replace(past, moves=()))
            shortened = known.shortened
            if what == "all" and shortened:
                own = {key for n in range(len(conversation.results)) for key in ids.keys(n)}
                shortened = {key: words for key, words in shortened.items() if key not in own}
            if ((*left,), len(shortened)) != (known.branches, len(known.shortened)):
                self._put(opening, known._replace(branches=(*left,), shortened=shortened))

    def _was_whole(self, key: bytes) -> bool:
        with self._lock:
            return key in self._whole

    # Its bounds.

    def _put(self, opening: bytes, remembered: Remembered) -> None:
        self._take_in(opening, remembered)
        self._on_change(opening, self._known.get(opening, _NOTHING))
        self._forget_oldest()

    def _take_in(self, opening: bytes, remembered: Remembered) -> None:
        remembered = remembered._replace(
            branches=remembered.branches[:_MAX_BRANCHES],
            requests=remembered.requests[:_MAX_BRANCHES],
        )
        self._results += remembered.size
        self._results -= self._known.pop(opening, _NOTHING).size
        if not remembered.is_nothing:
            self._known[opening] = remembered

    def _forget_oldest(self) -> None:
        while len(self._known) > self._max_conversations or self._results > self._max_results:
            opening, remembered = self._known.popitem(last=False)
            self._results -= remembered.size
            self._on_change(opening, _NOTHING)


@dataclass(frozen=True)
class Recalled:
    """What is remembered of the conversation that a request continues.

    opening, chain: by what it is recognized; the chain is empty where its provider holds it.
    shortened: what was sent shortened in conversations with that opening.
    is_known: whether an earlier request of the conversation was sent through here.
    context: its past; None where its provider holds the history.
    continued: what was remembered of a conversation that the request continues at its very end;
        None where it is a fork, or another run with the same answers.
    """

    opening: bytes
    chain: "Chain"
    conversation: Conversation
    ids: "ResultIds"
    shortened: Shortened
    was_whole: Callable[[bytes], bool]
    is_known: bool
    context: ConversationContext | None = None
    continued: Past | None = None

    @property
    def last_met(self) -> float:
        """When the conversation was last met, in seconds; before all times if it never was."""
        past = self.context and self.context.past
        return -math.inf if past is None else past.sent

    @property
    def sent(self) -> SentResults:
        """What was sent, as `decide_arrivals` asks for it."""
        least = _find_least(self.shortened) if self.shortened else None
        return SentResults(self._find_words, self._was_sent_whole, least)

    def _find_words(self, place: int) -> ShortenedWords | None:
        if not self.shortened or self.ids.digest_at(place) == _UNKNOWN:
            return None
        found = map(self.shortened.get, self.ids.keys(place))
        return next((words for words in found if words is not None), None)

    def _was_sent_whole(self, place: int) -> bool:
        return any(self.was_whole(self.opening + key) for key in self.ids.keys(place))


class Memories(NamedTuple):
    """The memory of what was sent, and the one of what was only observed, if anything is.

    The latter goes on as if it had been sent, so that its figures are those of masking. But nothing
    of it was sent: once such a conversation is masked, it is one that is met for the first time.

    is_being_read: whether what was sent before may still be added.
    """

    sent: BoundaryMemory
    observed: BoundaryMemory | None = None
    is_being_read: bool = False

    def meet(
        self,
        conversation: Conversation,
        now: float,
        lifetime: float,
        *,
        observed: bool,
        held: bytes | None = None,
    ) -> Recalled:
        """Return what is known of the conversation that a request continues, as `lookup` does.

        A conversation that was masked until now is observed from there, and no longer known as one
        that was masked.
        """
        was_sent = self.sent.lookup(conversation, now, lifetime, held)
        if not observed or self.observed is None:
            return was_sent
        self.sent.forget(conversation, "all")
        was_observed = self.observed.lookup(conversation, now, lifetime, held)
        return max(was_observed, was_sent, key=lambda each: (each.last_met, each.is_known))

    def keep(
        self, recalled: Recalled, past: Past | None, arrived: Arrived | None, *, observed: bool
    ) -> None:
        """Remember a request in its conversation, as `store` does."""
        memory = self.observed if observed else self.sent
        if memory is not None:
            memory.store(recalled, past, arrived)

    def forget(self, conversation: Conversation, what: Forgotten) -> None:
        """Forget of the conversation that a request continues what is not sent so any more."""
        for memory in (self.sent, self.observed):
            if memory is not None:
                memory.forget(conversation, what)


def _find_least(shortened: Shortened) -> int:
    """Return the length that every text exceeds which is among those shortened."""
    return min((words.max_chars for words in shortened.values()), default=0)


def _with_request(remembered: Remembered, anchor: Anchor, answers: Sequence[bytes]) -> Remembered:
    """Return what is remembered with a request, in place of the earlier ones of its conversation.

    The very object comes back if nothing is to be changed, as where the window remembers it.
    """
    end = anchor._replace(read=None)
    left = tuple([each for each in remembered.requests if not _is_on(each, answers)])
    if not any(past.last[:2] == end[:2] for past in remembered.branches):
        left = (end, *left)
    return remembered if left == remembered.requests else remembered._replace(requests=left)


# How a conversation and its results are recognized when they are sent again: a conversation by its
# opening and the assistant's answers, a result by its id, its text and its images; all of them by
# digests. A cache breakpoint that moves changes nothing, nor does a text that is a string in one
# request and a list of parts in the next.

_RESULT_DIGEST_BYTES = 8
"""Enough to tell the results at one place apart."""


def digest_opening(conversation: Conversation) -> bytes:
    """Return the digest of a conversation: of its texts up to the first of the user's, included.

    If a tool turn comes first, only of those before that turn; if there is neither, of those before
    the first answer of the assistant. So a conversation with masked results keeps its opening.
    """
    elements, head = conversation.elements, conversation.head
    if head.opening is not None:
        known, digest = head.opening
        if elements[: len(known)] == known:
            return digest
    digest, decided = find_opening(conversation.wire, conversation.body, elements)
    if decided is not None:
        head.opening = elements[:decided], digest
    return digest


def find_opening(
    wire: WireFormat, body: Mapping[str, object], elements: Sequence[Element]
) -> tuple[bytes, int | None]:
    """Return the digest of an opening, as `digest_opening` does, and how many elements decide it.

    None if what follows them may.
    """
    end = answered = len(elements)
    decided = None  # how many elements settle where it ends, whatever follows them
    for at, element in enumerate(elements):
        if element.speaker == "user":
            end = decided = at + 1
            break
        if element.speaker == "assistant":
            answered = min(answered, at)
            if element.is_turn:
                end, decided = at, at + 1
                break
    else:
        end = answered
    texts = [*wire.find_head_texts(body)]
    for element in elements[:end]:
        texts += element.all_texts
    return _digest(text for text in texts if not text.startswith(BILLING_HEADER)), decided


class Chain(NamedTuple):
    """The digests of a request's answers, and of the results before each; oldest first.

    Each is of all before it, too. Alone an answer tells little: what is asked twice is often
    answered alike, and some providers number the calls of every turn anew.
    """

    answers: Sequence[bytes]
    read: Sequence[bytes]


def digest_answers(conversation: Conversation) -> Chain:
    """Return the digests of the answers of the assistant, and of the results before each."""
    chain = conversation.history.fold(
        _AnswerChain, conversation.parsed, conversation.wire, unstable_tail=UNSTABLE_TAIL
    )
    chain.close()
    return Chain(chain.answers, chain.read)


class ResultIds:
    """What tells a request's tool results from others, by their places; found when asked for.

    answers: the digests of its answers; None if it does not show them, because the provider holds
        the history. The ids of its calls are the provider's own then, and are not used again.
    """

    def __init__(self, conversation: Conversation, answers: Sequence[bytes] | None = None) -> None:
        self._conversation, self._answers = conversation, answers
        self._results = conversation.results
        self._known = conversation.parsed

    def __getitem__(self, place: int) -> ResultId:
        return ResultId(place, self._results[place].turn, self.digest_at(place))

    def has(self, result: ResultId) -> bool:
        """Whether the very same result stands at its place."""
        place, turn, digest = result
        if place >= len(self._results):
            return False
        is_same = self._results[place].turn == turn and self.digest_at(place) == digest
        return is_same and digest != _UNKNOWN

    def digest_at(self, place: int) -> bytes:
        """Return the digest of the id, the texts and the images of a result."""
        element = self._results[place].element
        digests = _digest_results(self._known[element])
        if len(digests) == 1:
            return digests[0]
        first = bisect_left(self._results, element, key=lambda result: result.element)
        return digests[place - first]

    def keys(self, place: int) -> tuple[bytes, ...]:
        """Return by what a result is remembered that was shortened: itself and all answers before.

        Then by itself alone: it may have gone out so, before a client that lost its connection
        sends everything.
        """
        digest = self.digest_at(place)
        alone = blake2b(digest, person=b"held", digest_size=_RESULT_DIGEST_BYTES).digest()
        if self._answers is None:
            return (alone,)
        before = bisect_right(self._starts, self._results[place].element)
        answers = self._answers[before - 1] if before else b""
        return blake2b(answers + digest, digest_size=_RESULT_DIGEST_BYTES).digest(), alone

    @cached_property
    def _starts(self) -> Sequence[int]:
        return [answer.start for answer in self._conversation.answers]


_UNKNOWN = b""
"""The digest of a result with an image that cannot be written as JSON: it is never the same."""


def _digest_results(known: ParsedElement) -> Sequence[bytes]:
    """Return the digest of each result of an element."""
    if known.result_digests is None:
        known.result_digests = (*map(_digest_result, known.element.results),)
    return known.result_digests


def _digest_result(result: ToolResult) -> bytes:
    images = [render_json(image.part) for image in result.images]
    if "" in images:
        return _UNKNOWN
    # The texts are joined, as a client may send a string at one time and a list at another.
    texts = (result.call_id or "", "".join(result.texts), *images)
    return _digest(texts)[:_RESULT_DIGEST_BYTES]


class _AnswerChain(Fold[ParsedElement]):
    """The digests of the answers so far, of the results before each, and what comes after those."""

    def __init__(self, wire: WireFormat) -> None:
        self.answers: list[bytes] = []
        self.read: list[bytes] = []
        self._answer: list[Element] = []
        self._results: list[bytes] = []
        self._in_runs = wire.answers_in_runs

    def take(self, known: ParsedElement) -> None:
        """Add the next element."""
        element = known.element
        if element.speaker != "assistant" or not self._in_runs:
            self.close()
        if element.speaker == "assistant":
            self._answer.append(element)
        if element.results:
            self._results += _digest_results(known)

    def close(self) -> None:
        """End the current answer, if there is one, and add its digests."""
        if self._answer:
            before = self.answers[-1] if self.answers else b""
            self.answers.append(_digest(_texts_of(self._answer), before))
            read = self.read[-1] if self.read else b""
            if self._results:
                read = blake2b(
                    b"".join((read, *self._results)), digest_size=_RESULT_DIGEST_BYTES
                ).digest()
            self.read.append(read)
            self._answer, self._results = [], []


def _texts_of(answer: Iterable[Element]) -> list[str]:
    """Return what tells an answer from others: texts, and of calls ids, names and arguments."""
    texts: list[str] = []
    for element in answer:
        texts += element.texts
        for call in element.calls:
            texts += [each for each in call if isinstance(each, str)]
            if isinstance(call.arguments, dict):
                texts.append(render_json(call.arguments))
    return texts


def _digest(texts: Iterable[str], before: bytes = b"") -> bytes:
    """Return one digest of all texts; their lengths are in it, so that none runs into the next."""
    pieces = [before]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        pieces += len(data).to_bytes(8, "big"), data
    return blake2b(b"".join(pieces), digest_size=16).digest()


# What a conversation that is remembered shares with a request.


def _is_on(anchor: Anchor, answers: Sequence[bytes]) -> bool:
    """Whether a request with these messages of the assistant passes through this place."""
    count, digest, _ = anchor
    return not count or (count <= len(answers) and digest == answers[count - 1])


def _has_read(anchor: Anchor, read: Sequence[bytes]) -> bool:
    """Whether a request that passes through a place has the results that were before it."""
    return not anchor.answers or anchor.read == read[anchor.answers - 1]


class _Shared(NamedTuple):
    """What a request shares with a branch.

    passed: the branch's moves, as far as the request has its answers.
    results: those of the request.
    answers: how many answers they share that came after the very same results, as far as the
        branch's moves and its end tell.
    goes_on: whether the branch ends within the request.
    is_same: whether the results are the same, too, before the last place that they share.
    is_continued: whether the request goes on from the branch's end, and so takes its place.
    """

    branch: Past
    passed: Sequence[Move]
    results: ResultIds
    answers: int
    goes_on: bool
    is_same: bool
    is_continued: bool

    @property
    def past(self) -> Past:
        """The branch with those moves, and the masked results of them that the request has."""
        has = self.results.has
        found = (move._replace(results=tuple(filter(has, move.results))) for move in self.passed)
        return replace(self.branch, moves=tuple(move for move in found if move.results))

    @property
    def left(self) -> int:
        """Of how many masked results the request has the very same, if others differ; else 0."""
        return 0 if self.is_same else sum(len(move.results) for move in self.past.moves)


def _share(branch: Past, chain: Chain, results: ResultIds) -> _Shared | None:
    """Return what a request shares with a branch; None if that was first met with other answers."""
    answers, read = chain
    if not _is_on(branch.met, answers):
        return None
    goes_on = _is_on(branch.last, answers)
    passed = [move for move in branch.moves if _is_on(move.anchor, answers)]
    places = [move.anchor for move in passed] + ([branch.last] if goes_on else [])
    alike = [place.answers for place in places if _has_read(place, read)]
    is_same = bool(places) and _has_read(places[-1], read)
    # At the request's own place other results are those of another run. At an earlier one they may
    # be its own, which its agent has edited since.
    is_edited = branch.last.answers < len(answers)
    return _Shared(
        branch,
        passed,
        results,
        answers=max(alike, default=0),
        goes_on=goes_on,
        is_same=is_same,
        is_continued=goes_on and (is_same or is_edited),
    )


def _count_before_latest(conversation: Conversation, answers: int) -> int:
    """Return how many answers there are before the latest ones, which nothing stands between.

    A client may write what it was answered at once as several messages.
    """
    at, elements = conversation.last_answer, conversation.elements
    if conversation.wire.answers_in_runs:
        return max(0, answers - 1)
    while at >= 0 and elements[at].speaker == "assistant":
        at, answers = at - 1, answers - 1
    return answers


def _covers(later: Past, chain: Chain, past: Past) -> bool:
    """Whether `later`, the past of a request, covers all that an earlier one masked, and how.

    It does not if the user went back, more was masked there, and the old end then went on; nor if
    the other is another run of the task, which goes on by itself.
    """
    if not (_is_on(past.last, chain.answers) and _has_read(past.last, chain.read)):
        return False
    return _masked_words(past, past.last) <= _masked_words(later, past.last)


def _masked_words(past: Past, until: Anchor) -> set[tuple[ResultId, Rendering]]:
    known = (move for move in past.moves if move.anchor.answers <= until.answers)
    return {(result, move.rendering) for move in known for result in move.results}


# What else is known of a conversation by its marks and its opening.

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
