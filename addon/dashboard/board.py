"""What the page knows: the sums of the run, and the conversations and requests that were last met.

The one rule: it is bounded. The conversation that was idle for longest is forgotten first, and
loses its requests first. The sums of the run, and of a conversation, forget nothing.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from addon.dashboard.shown_request import ShownRequest, show
from addon.metrics.holdout import Holdout
from addon.metrics.record import RequestRecord
from addon.metrics.tally import Tally

Described = Mapping[str, Any]
"""What the page is told, as JSON."""

MAX_CONVERSATIONS = 200
MAX_REQUESTS = 6_000
"""Of all conversations together: some 5 MB, and 25 if they all have the longest masking maps."""

MOST_WAITING = 50
"""Records that nobody has looked at wait for others: at once they take a third of the time."""

MAX_COMPARED = 4_000
"""The first conversations, of which those held out are compared with the others."""


@dataclass(slots=True)
class Conversation:
    """A conversation: its sums, and its latest requests.

    key: names it in an address: its digest, or the host where requests could not be read.
    number: counts conversations from 1, in the order in which they were met.
    names: who speaks with what: client, model, host.
    label: that of the rule whose settings held for its last request.
    unfit: the tokens that its model takes, if its last request was masked, and would else not fit.
    changed: the version of the board at its last change.
    forgotten: how many of its oldest requests are not kept any more.
    """

    key: str
    number: int
    names: tuple[str, ...] = ()
    label: str | None = None
    unfit: int | None = None
    changed: int = 0
    forgotten: int = 0
    tally: Tally = field(default_factory=Tally)
    requests: deque[ShownRequest] = field(default_factory=deque)


class View(NamedTuple):
    """The board at a moment: its version, and the conversations that were asked for.

    is_whole: whether these are all that there are.
    holdout: the first conversations of the run.
    """

    version: int
    is_whole: bool
    total: Tally
    holdout: Holdout
    conversations: tuple[Conversation, ...]


class Board:
    """Takes records in one thread, and is read in another, which holds `lock` meanwhile."""

    def __init__(
        self, max_conversations: int = MAX_CONVERSATIONS, max_requests: int = MAX_REQUESTS
    ) -> None:
        self.lock = threading.Lock()
        self.version = 0
        self._max_conversations, self._max_requests = max_conversations, max_requests
        self._total, self._holdout = Tally(), Holdout(MAX_COMPARED)
        self._met = 0
        self._forgot = 0
        self._count = 0
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()
        self._waiting: list[RequestRecord] = []

    def add(self, record: RequestRecord) -> None:
        """Take in a request that has come to its end; not those of a recording."""
        if record.replay:
            return
        with self.lock:
            self.version += 1
            self._waiting.append(record)
            if len(self._waiting) >= MOST_WAITING:
                self._take_waiting()

    def look(self, since: int = 0) -> View:
        """Return what has changed since a version; all there is after one that forgot something.

        To be called, and its outcome to be read, under `lock`.
        """
        self._take_waiting()
        is_whole = since < self._forgot or since == 0 or since > self.version
        found = self._conversations.values()
        changed = (each for each in found if is_whole or each.changed > since)
        return View(self.version, is_whole, self._total, self._holdout, tuple(changed))

    def find(self, key: str) -> Conversation | None:
        """Return a conversation, unless it is unknown or forgotten. The same holds as of `look`."""
        self._take_waiting()
        return self._conversations.get(key)

    def _take_waiting(self) -> None:
        first = self.version - len(self._waiting) + 1
        for version, record in enumerate(self._waiting, first):
            self._total.add(record)
            self._holdout.add(record)
            conversation = self._meet(record)
            conversation.changed = version
            conversation.tally.add(record)
            conversation.requests.append(show(record))
            self._count += 1
            self._forget(version)
        self._waiting.clear()

    def _meet(self, record: RequestRecord) -> Conversation:
        key = record.conversation_id or f"at-{record.host}"
        found = self._conversations.get(key)
        if found is None:
            self._met += 1
            found = self._conversations[key] = Conversation(key, self._met)
        self._conversations.move_to_end(key)
        found.names, found.label = tuple(_name(record)), record.label
        if record.fits_unmasked is not None:
            is_unfit = record.masking == "on" and not record.fits_unmasked
            found.unfit = record.model_window_tokens if is_unfit else None
        return found

    def _forget(self, version: int) -> None:
        while len(self._conversations) > self._max_conversations:
            _, gone = self._conversations.popitem(last=False)
            self._count -= len(gone.requests)
            self._forgot = version
        while self._count > self._max_requests:
            # The conversation that was idle for longest loses its requests first; its sums stay.
            oldest = next(each for each in self._conversations.values() if each.requests)
            oldest.requests.popleft()
            oldest.forgotten += 1
            self._count -= 1


def _name(record: RequestRecord) -> Iterator[str]:
    if record.client:
        yield record.client
    if record.model:
        yield record.model
    yield record.host
