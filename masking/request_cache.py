"""What a process remembers of requests: agents resend the same bytes, so each element is read once.

An agent's next request is its last one and a few elements more. So a body is compared with the list
that it goes on from, and only the rest is cut into elements; of these too each is known that any
list has. An element counts as known only after all of its bytes were compared, so a process that
remembers nothing reads the same. An odd body is decoded as a whole.
"""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import is_
from sys import getsizeof
from typing import Any, NamedTuple
from weakref import ref

import orjson

from masking.conversation import (
    Conversation,
    HeadFacts,
    ParsedElement,
    Request,
    index_request,
    put_list,
)
from masking.edit.json_list import STAND_IN, ListCut, cut_list
from masking.edit.json_text import decode
from masking.errors import WireError
from masking.history import UNSTABLE_TAIL, History
from masking.model import Path
from masking.wire.format import WireFormat, follow

__all__ = ["RequestCache", "decode_request"]

MAX_BYTES = 64 << 20
"""About how much memory all lists together take: some twenty conversations of 1 MB each, or two
hundred of 100 kB."""

_LEAST = 2
"""How many times its size a body takes at least: as bytes and decoded."""

_MOST_TRIED = 200
"""So many lists, the latest first, are looked at for the one that a request goes on from. Where a
gateway has more conversations at a time, each element of theirs is known all the same."""


def decode_request(body: bytes, wire: WireFormat, path: str = "") -> Request:
    """Decode a request. Raises WireError if it is no JSON object."""
    document = decode(body)
    if not isinstance(document, dict):
        raise WireError(f"expected object, got {type(document).__name__}")
    return Request(document, wire, path, body)


class RequestCache:
    """The lists of the requests that were read last, within about `max_bytes` of memory.

    It forgets the list that was unused for longest. Threads may share one. What it holds is in this
    process alone.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lists: OrderedDict[CachedList, int] = OrderedDict()
        """By their use, the latest last, and what each weighs."""
        self._known: defaultdict[str, dict[bytes, ref[CachedElement]]] = defaultdict(dict)
        """By the name of a format and their bytes, the elements of all these lists."""
        self._lock = threading.Lock()

    def read(self, body: bytes, wire: WireFormat, path: str = "") -> Conversation:
        """Decode and read a request. Raises WireError as `decode` and `index_request` do."""
        return index_request(self.decode(body, wire, path))

    def decode(self, body: bytes, wire: WireFormat, path: str = "") -> Request:
        """Decode a request, but for what is known of it; the outcome is as of `decode_request`.

        Raises WireError if it is no JSON object.
        """
        if _LEAST * len(body) <= self._max_bytes:
            with suppress(ValueError):  # a WireError is one
                return self._decode(body, wire, path)
        return decode_request(body, wire, path)

    def _decode(self, body: bytes, wire: WireFormat, path: str) -> Request:
        """Decode a request; raise ValueError if it is odd."""
        last = self._find_list(body, wire)
        earlier = None if last is None else last.cut
        for cut in cut_list(body, wire.list_paths, earlier):
            # What stands around the elements is proven to hold them as its list.
            frame = None if last is None else last.frame
            if frame is None or frame.head != cut.head or frame.tail != cut.tail:
                frame = make_frame(cut.head, cut.tail, wire.list_paths)
            if frame is not None:
                break
        else:
            raise ValueError("no list there")
        shared = 0 if earlier is None else sum(map(is_, cut.elements, earlier.elements))
        elements = [] if last is None else last.elements[:shared]
        if not all(data.startswith(b"{") for data in cut.elements[shared:]):
            raise ValueError("no object")  # before any is decoded
        elements += [self._find(data, wire) for data in cut.elements[shared:]]
        cut = cut._replace(elements=[each.data for each in elements])  # each is kept once
        # It is remembered in place of the list that it goes on from, or beside one that it leaves.
        history = History() if last is None else last.history.fork()
        found = CachedList(elements, cut, frame, history, wire)
        with self._lock:
            if last is not None and last.leads_to(shared):
                found.history = last.history
                self._bytes -= self._lists.pop(last, 0)
            self._lists[found] = found.weight
            self._bytes += found.weight
            while self._bytes > self._max_bytes:
                _, weight = self._lists.popitem(last=False)
                self._bytes -= weight
        items = [each.item for each in elements]
        document = put_list(frame.document, frame.list_path, items)
        listed = frame.list_path, items, elements
        request = Request(document, wire, path, body, frame.facts, found.history, listed)
        request.cut = cut
        return request

    def _find_list(self, body: bytes, wire: WireFormat) -> "CachedList | None":
        """Return the list that a body is likely to go on from, by one of its last elements."""
        with self._lock:
            for found in islice(reversed(self._lists), _MOST_TRIED):
                if found.wire is wire and body.startswith(found.late, found.late_start):
                    return found
        return None

    def _find(self, data: bytes, wire: WireFormat) -> "CachedElement":
        """Return an element by its bytes, wherever it stood before; a new one if it did not."""
        known = self._known[wire.name]
        holder = known.get(data)
        found = None if holder is None else holder()
        if found is None:
            item = orjson.loads(data)
            element = wire.read_element(item)
            # One with results is kept once more as it is sent, masked or shortened.
            weight = _ELEMENT_BYTES + _weigh(data, item) + len(data) * bool(element.results)
            found = CachedElement(item, element, data, weight)
            # As in a WeakValueDictionary, in a quarter of its time. That another thread's element
            # of these bytes goes with this one at worst has them read once more.
            known[data] = ref(found, partial(known.pop, data))
        return found


@dataclass(slots=True, eq=False, repr=False)
class CachedElement(ParsedElement):
    """An element that is recognized by its bytes.

    weight: about how many bytes of memory it takes, with what is worked out from it.
    """

    data: bytes
    weight: int


class CachedList:
    """The list of a conversation as it was last sent, and what was worked out from it.

    late, late_start: an element near its end that the next request is likely to have unchanged,
        and where that begins in the body. An agent's conversations often share the first one.
    weight: about how many bytes of memory it takes.
    """

    __slots__ = ("cut", "elements", "frame", "history", "late", "late_start", "weight", "wire")

    def __init__(
        self,
        elements: list[CachedElement],
        cut: ListCut,
        frame: "Frame",
        history: History,
        wire: WireFormat,
    ) -> None:
        self.elements, self.cut, self.frame = elements, cut, frame
        self.history, self.wire = history, wire
        late = max(min(1, len(elements) - 1), len(elements) - 1 - UNSTABLE_TAIL)
        before = chain(cut.elements[:late], cut.gaps[:late])
        self.late, self.late_start = cut.elements[late], sum(map(len, before), len(cut.head))
        self.weight = _LIST_BYTES + frame.weight + sum([each.weight for each in elements])

    def leads_to(self, shared: int) -> bool:
        """Whether one that begins with so many of its elements goes on from it, and not aside."""
        count = len(self.elements)
        return shared == count or shared > max(UNSTABLE_TAIL, count - 1 - UNSTABLE_TAIL)


# What is left of a body with a text that stands nowhere else in place of the elements is the frame.
# If it decodes, and that text is all that its list holds, then the elements between its parts,
# separated by commas, are that list: JSON is read from left to right, and where one value may
# stand, any other may.


class Frame(NamedTuple):
    """A request without the elements of its list.

    head, tail: the bytes before the first element, and those behind the last one.
    document: as decoded, with an empty list at `list_path`.
    weight: about how many bytes of memory all of it takes.
    facts: about what stands before the list.
    """

    head: bytes
    tail: bytes
    document: dict[str, Any]
    list_path: Path
    weight: int
    facts: HeadFacts


def make_frame(head: bytes, tail: bytes, list_paths: Sequence[Path]) -> Frame | None:
    """Return what stands around a list, proven to hold it; None if it does not.

    Raises ValueError if it is no JSON.
    """
    data = head + STAND_IN + tail
    document: Any = orjson.loads(data)
    path = next((path for path in list_paths if follow(document, path) is not None), list_paths[0])
    *parents, last = path
    holder = follow(document, parents)
    if not isinstance(holder, dict) or holder.get(last) != [orjson.loads(STAND_IN)]:
        return None
    holder[last] = []
    return Frame(head, tail, document, path, _weigh_signs(data), HeadFacts())


# How much memory it all takes, about.

_ELEMENT_BYTES = 1_500
"""The memory for what is computed from an element, besides its bytes and values."""

_LIST_BYTES = 4_000
"""The memory for a list itself, besides its elements and its frame."""

_SHALLOW = 200
"""How deep an element may be. orjson stops at 1,024 levels of all it stands in, and Python's
comparison of what was decoded somewhat earlier."""

_VALUE_BYTES = 100
"""What a value takes at most as a rule, beside the characters of a text."""


def _weigh(data: bytes, value: dict[str, Any]) -> int:
    """Return about how many bytes of memory JSON takes with what it was decoded to.

    Values are counted: an empty object is two bytes of JSON and 72 of memory. Raises ValueError if
    it is deep.
    """
    # Python keeps the UTF-8 of a text that is not ASCII once it was asked for.
    weight = len(data) if data.isascii() else 2 * len(data)
    if len(data) > 2 * _SHALLOW:
        return weight + _weigh_values(value, _SHALLOW)
    # Too short to be deep, and each value weighed: its signs tell enough, in a third of the time.
    return _weigh_signs(data)


def _weigh_values(holder: dict[str, Any] | list[Any], levels: int) -> int:
    """Weigh all values in an object or list; raise ValueError if there are more levels of them."""
    if levels < 0:
        raise ValueError("deep")
    weight, values = 0, iter(holder)
    if isinstance(holder, dict):
        weight, values = sum(map(getsizeof, holder)), iter(holder.values())
    for value in values:
        weight += getsizeof(value)
        kind = value.__class__
        if (kind is dict or kind is list) and value:
            weight += _weigh_values(value, levels - 1)
    return weight


def _weigh_signs(data: bytes) -> int:
    """Return about how many bytes of memory JSON and its values take at most, by its signs."""
    signs = data.count(b"{") + data.count(b"[") + data.count(b",")
    # Where one character is an emoji, Python has four bytes for each, and keeps the UTF-8 besides.
    is_ascii = data.isascii() and b"\\u" not in data
    return (2 if is_ascii else 6) * len(data) + _VALUE_BYTES * signs
