"""What a process remembers of the requests it has read: their elements, by their bytes.

An agent's next request is its last one and a few elements more. So each element is tried for by
what followed the one before it at an earlier request: it is there if the body goes on with its very
bytes, as an object ends where its bytes do. What is left of the body is cut and decoded. Nothing is
taken for known but by comparing all of its bytes, so a process that remembers nothing reads the
same. A body that cannot be read so is odd, and is decoded as a whole.
"""

import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from sys import getsizeof

from masking.decoded import Cut, Decoded
from masking.elements import Element
from masking.frames import (
    Frame,
    cut_elements,
    decode_element,
    fill,
    find_heads,
    find_next,
    make_frame,
)
from masking.history import History
from masking.known import Remembered, RememberedList
from masking.wire_format import WireFormat

MAX_BYTES = 64 << 20
"""About how much memory all lists together take: some twenty conversations of 1 MB each, or two
hundred of 100 kB."""

_MAX_ELEMENTS = 20_000
"""A list of more is odd: no model's window holds one."""

_ELEMENT_BYTES = 1_500
"""What an element takes beside its bytes and its values: what was worked out from it."""

_LIST_BYTES = 4_000
"""What a list takes beside its elements and what stands around it."""

_LEAST = 2
"""How many times its size a body takes at least: as bytes and decoded."""

_MAX_FOLLOWERS = 256
"""Conversations that begin alike part after the same element."""

_RESPELLED = 2
"""How many of a list's last elements the next request of its conversation may spell otherwise."""

_NEARBY = 8
"""How many of a list's last elements tell of the list."""

_FEW_SAMPLES = 10_000

_Refs = list[weakref.ref[Remembered]]


class _Walk:
    """A way through the elements of a body.

    at: where the next element begins; None if there is none.
    end: where the list goes on after the last one.
    """

    __slots__ = ("at", "body", "end", "known", "starts")

    def __init__(self, body: bytes, head: int) -> None:
        self.body = body
        self.known: list[Remembered] = []
        self.starts: list[int] = []
        self.end = head
        self.at = None if body[head] == _LIST_END else head

    def follow(self, followers: _Refs) -> None:
        """Go on as long as a known element stands there; `followers` may be the first."""
        body, at, end = self.body, self.at, self.end
        known, starts = self.known, self.starts
        starts_with, size = body.startswith, len(body) - 2
        while at is not None:
            for ref in followers:
                found = ref()
                if found is not None and starts_with(found.data, at):
                    break
            else:
                break
            known.append(found)
            starts.append(at)
            end = at + len(found.data)
            followers = found.followers
            if end < size and body[end] == _COMMA and body[end + 1] == _OBJECT:
                at = end + 1
            else:
                at = find_next(body, end)
        self.at, self.end = at, end

    def add(self, known: Remembered) -> None:
        """Add the next element."""
        if self.at is None or not self.body.startswith(known.data, self.at):
            raise ValueError("not there")
        self.known.append(known)
        self.starts.append(self.at)
        self.end = self.at + len(known.data)
        self.at = find_next(self.body, self.end)


_COMMA, _OBJECT, _LIST_END = b",{]"


class KnownTable:
    """The lists that were read last, within about `max_bytes`; forgets the longest unused.

    Threads may share one. What it holds is in this process alone.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lists: OrderedDict[RememberedList, None] = OrderedDict()
        self._first: defaultdict[str, _Refs] = defaultdict(list)
        self._by_sample: dict[tuple[object, ...], weakref.ref[Remembered]] = {}
        self._most_samples = _FEW_SAMPLES
        self._lock = threading.Lock()

    def decode(self, body: bytes, wire: WireFormat) -> Decoded | None:
        """Decode a request; None if its body is odd, or too large to be remembered."""
        if _LEAST * len(body) > self._max_bytes:
            return None
        for head in find_heads(body, wire.list_paths):
            try:
                return self._decode(body, head, wire)
            except (ValueError, IndexError, RecursionError):
                continue
        return None

    def _decode(self, body: bytes, head: int, wire: WireFormat) -> Decoded:
        walk = _Walk(body, head)
        walk.follow(self._first[wire.name])
        met = len(walk.known)
        last = _find_list(walk.known)
        if walk.at is not None:
            tail = last.frame.tail if last is not None else None
            pieces = cut_elements(body, head, walk.at, wire.list_paths, tail)
            if len(pieces) > _MAX_ELEMENTS:
                raise ValueError("too many")
            if not all(data[0] == _OBJECT for data in pieces):  # before any is decoded
                raise ValueError("no object")
            for data in pieces:
                walk.add(self._find(data, wire))
        if walk.at is not None or len(walk.known) > _MAX_ELEMENTS:
            raise ValueError("not all of it")
        frame = None if last is None else last.frame
        if frame is None or frame.head != body[:head] or frame.tail != body[walk.end :]:
            frame = make_frame(body[:head], body[walk.end :], wire.list_paths, frame)
        self._link(walk.known, met, wire)
        remembered = self._remember(walk.known, last, frame)
        known = walk.known
        items = [each.item for each in known]
        standing_out = [each.item for each in known if each.stands_out]
        return Decoded(
            fill(frame, items),
            fill(frame, standing_out) if standing_out else frame.document,
            Cut(known=known, starts=walk.starts, frame=frame, history=remembered.history),
        )

    def _find(self, data: bytes, wire: WireFormat) -> Remembered:
        """Return an element by its bytes, wherever it stood before; a new one if it did not."""
        sample = wire.name, len(data), data[:96], data[-64:]
        ref = self._by_sample.get(sample)
        found = None if ref is None else ref()
        if found is None or found.data != data:
            item, weight = decode_element(data)
            element = wire.read_element(item)
            weight += _ELEMENT_BYTES + _weigh_texts(element) + _weigh_edited(data, element)
            found = Remembered(data, item, element, weight, stands_out=wire.stands_out(item))
            self._by_sample[sample] = found.ref
        return found

    def _forget_samples(self) -> None:
        """Drop the samples of elements that are forgotten, once there may be many."""
        if len(self._by_sample) > self._most_samples:
            samples = {**self._by_sample}
            self._by_sample = {key: ref for key, ref in samples.items() if ref() is not None}
            self._most_samples = max(_FEW_SAMPLES, 2 * len(self._by_sample))

    def _link(self, known: Sequence[Remembered], met: int, wire: WireFormat) -> None:
        """Remember what followed what, from the first element on that was not met so."""
        if met == 0 and known:
            _put_first(self._first[wire.name], known[0])
        for before, after in pairwise(known[max(0, met - 1) :]):
            _put_first(before.followers, after)

    def _remember(
        self,
        known: list[Remembered],
        last: RememberedList | None,
        frame: Frame,
    ) -> RememberedList:
        """Remember a list in place of the one that it continues."""
        with self._lock:
            if last is not None and _continues(known, last.known):
                found = last
            else:
                history = History() if last is None else last.history.fork()
                found = RememberedList(history, frame, _LIST_BYTES)
            if found in self._lists:
                self._bytes -= found.weight
            found.hold(known, frame, max(0, len(found.known) - _RESPELLED))
            self._bytes += found.weight
            self._lists[found] = None
            self._lists.move_to_end(found)
            while self._bytes > self._max_bytes:
                oldest, _ = self._lists.popitem(last=False)
                self._bytes -= oldest.weight
        self._forget_samples()
        ref = weakref.ref(found)
        for each in known[-_NEARBY:]:
            each.last_list = ref
        return found


def _weigh_texts(element: Element) -> int:
    """Return how many bytes those texts take that are not in the element as decoded.

    The text of an object is its JSON; one that something follows in its string is a part of that.
    """
    return sum(
        getsizeof(text)
        for result in element.results
        if result.wrap is not None or result.tails
        for text in result.texts
    )


def _weigh_edited(data: bytes, element: Element) -> int:
    """Return about how many bytes an element takes once more, when its results are masked."""
    if not element.results:
        return 0
    masked = sum(len(text) for result in element.results for text in result.texts)
    return max(0, len(data) - masked)


def _find_list(known: Sequence[Remembered]) -> RememberedList | None:
    """Return the list that the last of these elements were in."""
    for each in known[: -_NEARBY - 1 : -1]:
        if each.last_list is not None and (found := each.last_list()) is not None:
            return found
    return None


def _continues(known: Sequence[Remembered], earlier: Sequence[Remembered]) -> bool:
    """Whether a list is an earlier one and more, but for the spelling of its last elements."""
    shared = len(earlier) - _RESPELLED
    return len(known) >= len(earlier) and known[:shared] == earlier[:shared]


def _put_first(refs: _Refs, known: Remembered) -> None:
    if known.ref in refs:
        return
    if len(refs) >= _MAX_FOLLOWERS:
        refs[:] = [ref for ref in refs if ref() is not None][: _MAX_FOLLOWERS - 1]
    refs.insert(0, known.ref)
