"""Prove that a request may leave: by the client's bytes and the contract alone.

If you trust nothing else in this house, read this file. It knows neither why a result was chosen
nor how bytes are edited: it imports JSON, what reads formats and pairs, and `written`, which says
anew what templates write. A request leaves only if it is the client's own but for this:

1. Around the elements of the list, each byte is the client's. A road that a user has switched on
   adds one field, in one piece.
2. The elements are the client's, in their order. A reduction leaves out whole pairs of a call and
   its results and nothing of the system's, and puts one message of the user's in place of all.
3. In an element each byte is the client's, but for the texts and images of tool results.
4. What stands in place of a text is what a template in use writes for that text and a call which
   its result may answer; or the text's own head, a marker, and its own tail; or a reduction's line.
5. Behind the model's last words only what is shortened at arrival changes, and each result stays.

On any other difference it does not leave like this.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, takewhile
from operator import attrgetter, eq
from typing import Any, NamedTuple

from cachetools import LRUCache

from masking.conversation import bind, find_answers
from masking.edit.json_difference import Swap, differ_in, is_added, put_back, spell
from masking.edit.json_list import STAND_IN, ListCut, cut_list
from masking.edit.json_text import decode, decode_utf8
from masking.errors import ProofError
from masking.history import History
from masking.model import Call, Element, ToolResult
from masking.wire import Added, WireFormat
from masking.written import Lines, Wording, is_line, is_shortened, write


class Terms(NamedTuple):
    """What may differ between the client's request and the one that leaves.

    placeholders, markers: the templates in use.
    line_chars: the longest line that a reduction writes in place of a text; None without one.
    order: the client's place of each element that leaves, and None for one that is inserted; by
        default all of them. It says only where to look: that these are the elements is proven.
    added: what a road adds beside the list.
    cut: how the client's body may be cut; its bytes are compared, which saves parsing them.
    """

    placeholders: tuple[Wording, ...] = ()
    markers: tuple[Wording, ...] = ()
    line_chars: int | None = None
    order: Sequence[int | None] | None = None
    added: Added | None = None
    cut: ListCut | None = None


class _Request(NamedTuple):
    """A request that was proven, by the client's elements and what leaves.

    proven: by its place and what leaves in its place, each element that differs, and whether the
        model must have read what does.
    """

    before: list[bytes]
    after: ListCut
    proven: dict[tuple[int, bytes], bool]
    weight: int


MAX_BYTES = 32 << 20
"""How many bytes of bodies are remembered."""


class Prover:
    """Proves requests, and remembers the last one of each conversation.

    That saves work and changes no outcome, as an element is known by all of its bytes, by those of
    all before it, and by the terms. Threads may share one.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._known: LRUCache[object, _Request] = LRUCache(max_bytes, attrgetter("weight"))
        self._lock = threading.Lock()

    def prove(
        self, client: bytes, sent: bytes, wire: WireFormat, terms: Terms, conversation: bytes = b""
    ) -> None:
        """Prove that `sent` may leave in place of `client`. Raises ProofError on any doubt.

        `conversation` says whose elements may be known.
        """
        key = conversation, wire, terms[:3]
        with self._lock:
            known = self._known.get(key, _NOTHING)
        proven = _prove(client, sent, wire, terms, known)
        with self._lock, suppress(ValueError):  # it is larger than all that may be remembered
            self._known[key] = proven


_NOTHING = _Request([], ListCut(b"", [], [], b""), {}, 0)


def _prove(client: bytes, sent: bytes, wire: WireFormat, terms: Terms, known: _Request) -> _Request:
    """Prove a request; `known` is one that was proven, and that it may go on from."""
    # Around the elements. Where the same bytes stand elsewhere, one way to cut them fits.
    ways = (
        (before, after)
        for before in cut_list(client, wire.list_paths, terms.cut)
        for after in cut_list(sent, wire.list_paths, known.after)
        if _fit(before, after, terms.added)
    )
    fitting = next(ways, None)
    if fitting is None:
        raise ProofError("something else changes")
    before, after = fitting

    # Which elements there are.
    request, order = _Elements(before.elements, wire), terms.order
    if order is None:
        order = range(len(before.elements))
    else:
        _insist(terms.line_chars is not None, "there is no reduction")
        request.prove_order(order)
    _insist(len(order) == len(after.elements), "there are not as many elements")
    is_same = before.gaps == after.gaps or (terms.order and {*after.gaps} <= {*before.gaps})
    _insist(bool(is_same), "something between elements changes")

    # Each of them.
    proven: dict[tuple[int, bytes], bool] = {}
    shared = sum(takewhile(bool, map(eq, before.elements, known.before)))
    for place, new in zip(order, after.elements, strict=True):
        if place is None:
            said = "".join(wire.read_element(inserted := decode(new)).texts)
            is_said = inserted == wire.user_message(said) and new in spell(inserted)
            _insist(is_said, "what is inserted is no message of the user's")
        elif before.elements[place] != new:
            masks = known.proven.get((place, new)) if place < shared else None
            if masks is None:
                masks = request.prove_element(place, new, terms)
            _insist(not masks or place < request.last_answer, "a result is masked unread")
            if place not in request.far:
                proven[place, new] = masks
    return _Request(before.elements, after, proven, len(client) + len(sent))


def _insist(is_so: bool, doubt: str) -> None:
    if not is_so:
        raise ProofError(doubt)


def _fit(before: ListCut, after: ListCut, added: Added | None) -> bool:
    """Whether the same bytes stand around the elements, but for what a road adds."""
    if added is None:
        return (before.head, before.tail) == (after.head, after.tail)
    old, new = (decode_utf8(STAND_IN.join((cut.head, cut.tail))) for cut in (before, after))
    return is_added(old, new, added.path, added.value, in_list=added.in_list)


_Calls = dict[str | None, list[Call]]


def _by_id(calls: Iterable[Call]) -> _Calls:
    found: _Calls = {}
    for call in calls:
        found.setdefault(call.call_id, []).append(call)
    return found


class _Elements:
    """The client's elements, which are read only where that matters."""

    def __init__(self, elements: list[bytes], wire: WireFormat) -> None:
        self._elements, self._wire = elements, wire
        self._read: dict[int, tuple[Any, Element]] = {}
        self._calls_at: dict[int, _Calls] = {}
        self._lines: Lines = {}
        self._tries = 0
        self.far: set[int] = set()
        """Where results are whose calls were sought in the whole list, also behind them."""

    def read(self, place: int) -> Element:
        """Return what the format reads in an element."""
        found = self._read.get(place)
        if found is None:
            item = decode(self._elements[place])
            found = self._read[place] = item, self._wire.read_element(item)
        return found[1]

    @cached_property
    def last_answer(self) -> int:
        """The place of the model's last words, or of what may be that; -1 without any."""
        places = reversed(range(len(self._elements)))
        return next((at for at in places if self.read(at).speaker in _ANSWERS), -1)

    @cached_property
    def _calls(self) -> _Calls:
        """All calls, by id."""
        return _by_id(chain.from_iterable(self.read(at).calls for at in range(len(self._elements))))

    def prove_element(self, place: int, new: bytes, terms: Terms) -> bool:
        """Prove an element, and return whether the model must have read what changes in it."""
        results, item, changed = self.read(place).results, self._read[place][0], decode(new)
        masks, swaps = False, list[Swap]()
        try:
            # Each new value is looked at, and the old one put back: nothing may differ then.
            for result in results:
                tails = result.tails or ("",) * len(result.texts)
                for slot, text, tail in zip(result.slots, result.texts, tails, strict=True):
                    if swap := put_back(item, changed, slot):
                        swaps.append(swap)
                        value = swap.new
                        if result.wrap is not None:
                            value = value[result.wrap] if len(value) == 1 else None
                        if not isinstance(value, str):
                            raise ProofError("a text is none any more")
                        _insist(value.endswith(tail), "what follows a text changes")
                        written = value[: len(value) - len(tail)]
                        masks |= self._prove_text(result, place, text, written, terms)
                for image in result.images:
                    if swap := put_back(item, changed, image.slot):
                        swaps.append(swap)
                        _insist(swap.new == image.text_part, "an image is not described")
                        masks = True
        except (LookupError, TypeError):
            raise ProofError("an element changes its form") from None
        _insist(item == changed, "more of an element changes")
        _insist(differ_in(self._elements[place], new, swaps), "spelling changes")
        return masks

    def _prove_text(
        self, result: ToolResult, place: int, text: str, new: str, terms: Terms
    ) -> bool:
        """Prove what stands in place of a text; return whether the model must have read that."""
        if terms.line_chars is not None and is_line(text, new, terms.line_chars):
            return True
        for call in self._find_calls(result, place):
            self._tries += 1 + len(text) // _CHARS_IN_A_TRY
            _insist(self._tries <= _MOST_TRIES, "there are too many calls")
            for each in terms.placeholders:
                if new == write(each, text, result, call, self._lines):
                    return True
            for each in terms.markers:
                if is_shortened(each, text, new, result, call, self._lines):
                    return False
        raise ProofError("a text is no template's")

    def _find_calls(self, result: ToolResult, place: int) -> Iterator[Call]:
        """Yield the calls that a result may answer, the likely ones first.

        Those are the calls of its id; where there are none, or results go by order, any, or none.
        """
        for at in range(place, max(-1, place - _NEARBY), -1):
            if calls := self.read(at).calls:
                if at not in self._calls_at:
                    self._calls_at[at] = _by_id(calls)
                yield from self._calls_at[at].get(result.call_id, ())
        self.far.add(place)
        own = self._calls.get(result.call_id, ())
        yield from own
        if not own or self._wire.pairs_by_order:
            for others in self._calls.values():
                yield from others
            yield Call(None, None, None)

    def prove_order(self, order: Sequence[int | None]) -> None:
        """Prove what a reduction leaves out and puts in place of it; whole pairs stay or go."""
        places = {*range(len(self._elements))}
        kept = places.intersection(order)
        is_same = sorted(kept) == [place for place in order if place is not None]
        _insist(is_same and len(kept) + 1 >= len(order), "the order changes")
        elements = [self.read(at) for at in range(len(self._elements))]
        answers = find_answers(elements, in_runs=self._wire.answers_in_runs)
        turns = [[at for at in each if elements[at].is_turn] for each in answers]
        turns = [*filter(None, turns)]
        for result in bind(History(), elements, self._wire)[1]:
            pair = [result.element, *(() if result.turn is None else turns[result.turn])]
            _insist(len({at in kept for at in pair}) == 1, "a pair is parted")
        for at in places - kept:
            is_unread = at > self.last_answer and self.read(at).results
            must_stay = is_unread or self.read(at).speaker == "system"
            _insist(not must_stay, "what must stay is left out")
        if None in order:
            before = [self.read(at).speaker for at in order[: order.index(None)] if at is not None]
            _insist(kept < places and {*before} <= {"system"}, "what is inserted replaces nothing")


_ANSWERS = ("assistant", "unknown")
_NEARBY = 64
"""So many elements back a call is looked for before all are gone through."""

_MOST_TRIES = 100_000
"""So many calls are tried for the results of a request, so that no body takes forever."""

_CHARS_IN_A_TRY = 4_096
"""A longer text counts as more tries: all of it may be read for each."""
