"""Conversations of which the provider holds the history, as far as arrival needs them.

A request of such a conversation has only what is new, and names the answer that it continues: in a
message on a WebSocket, or over HTTP. What its results answer is known from that answer, which has
passed here. A restart forgets all of this; what is not known stays whole.
"""

import threading
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from cachetools import LRUCache

from masking.arrival import NOTHING_ASKED, Arrived, find_asked, measure_left_out, with_calls
from masking.conversation import Conversation, Request, index_request
from masking.memory import find_opening
from masking.model import Call, Element
from masking.window import CallKey
from masking.wire.answer import AnsweredCalls
from masking.wire.format import ServerHistory

_MOST_ANSWERS = 4_000
_MOST_CHARS = 128_000_000
"""What is kept of all answers together. A patch has thousands, and a call can have millions."""

_LEAST_WEIGHT = _MOST_CHARS // _MOST_ANSWERS
"""An answer counts for so many characters at least, so there are never more than the most."""

_MOST_CALLS = 256
_MOST_CALL_CHARS = 256_000
"""How many calls of a conversation are kept: of the latest answers, which await their results. A
call that does not fit is forgotten, and its result stays whole."""

_MOST_BEGINNING_CHARS = 4_000_000
"""A longer beginning without a user's message is not kept, and so neither is its conversation."""


class KnownConversation(NamedTuple):
    """What is known of a conversation after one of its answers.

    opening: by what it is recognized when all of it is sent at once; None if that is not decided.
    beginning: all elements so far, while it is not.
    calls: the latest, by their ids.
    asked: by call, whether the latest long result was shortened.
    left_out: how many tokens are left out of it so far, by estimate.
    """

    opening: bytes | None = None
    beginning: tuple[Element, ...] = ()
    calls: Mapping[str, Call] = {}
    asked: Mapping[CallKey, bool] = NOTHING_ASKED
    left_out: int = 0

    def extend(self, client: Conversation) -> "KnownConversation":
        """Return what is known of the conversation with the elements that a request adds."""
        if self.opening is not None:
            return self
        elements = (*self.beginning, *client.elements)
        opening, decided = find_opening(client.wire, client.body, elements)
        if decided is None:
            return self._replace(beginning=elements)
        return self._replace(opening=opening, beginning=())

    def add(self, arrived: Arrived) -> "KnownConversation":
        """Return what is known of the conversation once a request has gone out."""
        return self._replace(
            asked={**self.asked, **find_asked(arrived)},
            left_out=self.left_out + measure_left_out(arrived).tokens,
        )


class ServerHeldRequest(NamedTuple):
    """A request whose provider holds the history, so that it has only what is new.

    client: as its client wrote it, with the calls of the answer that it continues.
    history, continued: the history that it continues, and what is known of that.
    obstacle: why nothing old can be masked in it.
    """

    client: Conversation
    history: ServerHistory
    continued: KnownConversation
    obstacle: str


class PendingAnswer(NamedTuple):
    """A request whose answer another request may continue.

    place: tells its host and its account apart.
    history: which history it continues.
    continued: what is known of its conversation, but for its answer.
    """

    place: bytes
    history: ServerHistory
    continued: KnownConversation


class ServerHistories:
    """The latest answers that a request may continue; threads may share it."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[bytes, str], KnownConversation] = LRUCache(_MOST_CHARS, _weigh)
        self._lock = threading.Lock()

    def read(self, place: bytes, request: Request) -> ServerHeldRequest | None:
        """Read a request whose provider holds the history; None if that is not known, or not so.

        place: tells its host and its account apart, at most 64 bytes.

        Raises WireError as `index_request` does.
        """
        history, obstacle = request.held, request.obstacle
        if history is None or obstacle is None:
            return None
        continued = self.find(place, history)
        if continued is None:
            if history.answer is not None:
                return None  # it began before, and nobody knows how
            continued = KnownConversation()
            if history.name is not None:  # it never comes whole
                named = blake2b(history.name.encode(), key=place, digest_size=16)
                continued = continued._replace(opening=named.digest())
        client = with_calls(index_request(request, is_held=True), continued.calls)
        return ServerHeldRequest(client, history, continued.extend(client), obstacle)

    def find(self, place: bytes, history: ServerHistory) -> KnownConversation | None:
        """Return what is known of the conversation that a request continues."""
        with self._lock:
            for name in (history.answer, history.name):
                if name is not None and (found := self._known.get((place, name))) is not None:
                    return found
        return None

    def keep(self, awaited: PendingAnswer, answered: AnsweredCalls) -> None:
        """Keep the calls of an answer for the request that continues it."""
        place, history, continued = awaited
        if sum(map(_weigh_element, continued.beginning)) > _MOST_BEGINNING_CHARS:
            return
        latest: dict[str, Call] = {}
        room = _MOST_CALL_CHARS
        for call_id, call in reversed({**continued.calls, **answered.calls}.items()):
            weight = _weigh_call(call)
            if weight <= room and len(latest) < _MOST_CALLS:
                latest[call_id] = call
                room -= weight
        continued = continued._replace(calls=dict(reversed(latest.items())))
        with self._lock:
            for name in (answered.answer_id, history.name):
                if name is not None:
                    self._known[place, name] = continued


def _weigh(continued: KnownConversation) -> int:
    beginning = sum(map(_weigh_element, continued.beginning))
    return _LEAST_WEIGHT + beginning + sum(map(_weigh_call, continued.calls.values()))


def _weigh_element(element: Element) -> int:
    return sum(map(len, element.all_texts)) + sum(map(_weigh_call, element.calls))


def _weigh_call(call: Call) -> int:
    """Return about how many characters a call takes; its arguments may be a decoded object."""
    arguments = call.arguments
    size = len(arguments if isinstance(arguments, str) else repr(arguments))
    return size + len(call.tool or "") + len(call.call_id or "")
