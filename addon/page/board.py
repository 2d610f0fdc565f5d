"""What the page knows: the sums of the run, and its latest conversations and requests.

It is bounded. The conversation that was idle for longest is forgotten first, and loses its requests
first. The sums of the run, and of a conversation, forget nothing.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from addon.records.holdout import Holdout
from addon.records.record import RequestRecord
from addon.records.tally import Tally, read_bill
from addon.request import one_line
from masking.accounting import PARTS, Money

Described = Mapping[str, Any]
"""What the page gets, as JSON."""

MAX_CONVERSATIONS = 200
MAX_REQUESTS = 6_000
"""Of all conversations together: some 5 MB, and 25 if they all have the longest masking maps."""

MAX_COMPARED = 4_000
"""The first conversations, of which those held out are compared with the others."""

_MOST_RUNS = 500
"""A row of the masking map with more is not kept, so that no request can take much memory."""

Run = tuple[int, str]
Row = tuple[Run, ...]


class ShownRequest(NamedTuple):
    """A request as the page shows it; None is what is not known.

    observed: whether it left as the agent wrote it, and the rest says what masking would have done.
    failed: the status or the interruption, if it failed.
    why: why it went on untouched.
    resent: what came of sending it once more as the agent wrote it, if it was.
    clearing: whether the provider was asked to clear older results, as in a record.
    sent, spared: the tokens that were sent, and those that masking took out.
    prompt, cached: the tokens that the provider reported.
    in_tokens, in_dollars: what it cost; nothing where that is not known.
    parts: what `sent` is composed of, in the order of `PARTS`.
    moved: whether the boundary moved.
    move_price: what that cost, in input tokens.
    row: its row of the masking map, as in a record.
    shortened: the results that were sent shortened, masked since or not.
    left_out: the tokens that were left out of them, a part of `spared`.
    quota: what its answer told of a plan's quota, in percent by the name of the window.
    """

    time: str
    observed: bool
    failed: str | None
    why: str | None
    resent: str | None
    clearing: str | None
    results: int
    masked: int
    sent: int | None
    spared: int | None
    parts: tuple[int, ...] | None
    prompt: int | None
    cached: int | None
    in_tokens: Money
    in_dollars: Money
    moved: bool
    move_price: float | None
    row: Row | None
    shortened: int = 0
    left_out: int = 0
    quota: tuple[tuple[str, float], ...] = ()


def show(record: RequestRecord) -> ShownRequest:
    """Return what the page keeps of a record."""
    row, bill = record.result_reasons, read_bill(record)
    before, after = record.request_tokens_before, record.request_tokens_after
    return ShownRequest(
        time=record.time,
        observed=record.masking == "observed",
        failed=str(record.error or record.status) if record.failed else None,
        why=record.passed_through and one_line(record.passed_through),
        resent=record.resent,
        clearing=record.clearing,
        results=record.tool_results or 0,
        masked=record.replaced,
        sent=after,
        spared=None if before is None or after is None else before - after,
        parts=None if (parts := record.composition) is None else _list_parts(parts),
        prompt=record.prompt_tokens,
        cached=record.cached_tokens,
        in_tokens=bill.tokens,
        in_dollars=bill.dollars,
        moved=record.boundary_moved,
        move_price=record.move_price_tokens,
        row=None if row is None or len(row) > _MOST_RUNS else tuple(map(_share, row)),
        shortened=record.shortened,
        left_out=record.left_out_tokens,
        quota=tuple((window.label, 100 * window.used) for window in record.quota or ()),
    )


@lru_cache(10_000)
def _share(run: Run) -> Run:
    """Return one object for equal runs, so that a row takes eight bytes for each."""
    return run


def _list_parts(parts: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(parts.get(part, 0) for part in PARTS)


LATEST = 20
"""In so many of its latest requests, repeated calls are a sign of what a conversation lacks now."""


@dataclass(slots=True)
class Conversation:
    """A conversation: its sums, and its latest requests.

    key: names it in an address: its digest, or the host where requests could not be read.
    number: counts conversations from 1, in the order in which they were met.
    began: when its first request arrived.
    names: who speaks with what: client, model, host.
    folder: the last part of the name of the folder that the agent works in, if a request shows it.
    label: that of the rule whose settings held for its last request.
    unfit: the tokens that its model takes, if its last request was masked, and would else not fit.
    changed: the version of the board at its last change.
    forgotten: how many of its oldest requests are not kept any more.
    rereads: how many calls each of its latest masked requests repeats whose results were masked.
    """

    key: str
    number: int
    began: str
    names: tuple[str, ...] = ()
    folder: str | None = None
    label: str | None = None
    unfit: int | None = None
    changed: int = 0
    forgotten: int = 0
    tally: Tally = field(default_factory=Tally)
    requests: deque[ShownRequest] = field(default_factory=deque)
    rereads: deque[int] = field(default_factory=lambda: deque(maxlen=LATEST))


class View(NamedTuple):
    """The board at a moment: its version, and the conversations that were asked for.

    is_whole: whether these are all that there are.
    holdout: the first conversations of the run.
    kept: how many conversations the board has.
    """

    version: int
    is_whole: bool
    total: Tally
    holdout: Holdout
    conversations: tuple[Conversation, ...]
    kept: int


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

    def add(self, record: RequestRecord) -> None:
        """Take in a request that has ended; not those of a recording."""
        if record.replay:
            return
        with self.lock:
            self.version += 1
            self._total.add(record)
            self._holdout.add(record)
            conversation = self._meet(record)
            conversation.changed = self.version
            conversation.tally.add(record)
            conversation.requests.append(show(record))
            if record.masking == "on":
                conversation.rereads.append(record.rereads)
            self._count += 1
            self._forget()

    def look(self, since: int = 0) -> View:
        """Return what has changed since a version; all there is after one that forgot something.

        To be called, and its outcome to be read, under `lock`.
        """
        is_whole = since < self._forgot or since == 0 or since > self.version
        found = self._conversations.values()
        changed = (each for each in found if is_whole or each.changed > since)
        return View(self.version, is_whole, self._total, self._holdout, tuple(changed), len(found))

    def find(self, key: str) -> Conversation | None:
        """Return a conversation, unless it is unknown or forgotten. The same holds as of `look`."""
        return self._conversations.get(key)

    def _meet(self, record: RequestRecord) -> Conversation:
        key = record.conversation_id or f"at-{record.host}"
        found = self._conversations.get(key)
        if found is None:
            self._met += 1
            found = self._conversations[key] = Conversation(key, self._met, record.time)
        self._conversations.move_to_end(key)
        found.names, found.label = tuple(_name(record)), record.label
        found.folder = record.folder or found.folder
        if record.fits_unmasked is not None:
            is_unfit = record.masking == "on" and not record.fits_unmasked
            found.unfit = record.model_window_tokens if is_unfit else None
        return found

    def _forget(self) -> None:
        while len(self._conversations) > self._max_conversations:
            _, gone = self._conversations.popitem(last=False)
            self._count -= len(gone.requests)
            self._forgot = self.version
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
