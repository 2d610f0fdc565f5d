"""What a process remembers of requests: agents resend the same bytes, so each element is read once.

An agent's next request is its last one and a few elements more. So each element is first looked for
among those that followed the one before it in an earlier request: it is known if the body continues
with its very bytes, as a JSON object ends where its bytes do. What is left of the body is cut into
elements and decoded. An element counts as known only after all of its bytes were compared, so a
process that remembers nothing reads the same. An odd body is decoded as a whole.
"""

import re
import secrets
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from sys import getsizeof
from typing import Any, NamedTuple

import msgspec
import orjson

from masking.conversation import (
    Conversation,
    HeadFacts,
    ParsedElement,
    Request,
    ShortenedElement,
    index_request,
    inside_element,
    read_shortened,
)
from masking.edit.json_list import list_decoder
from masking.edit.json_text import decode
from masking.edit.splice import splice
from masking.errors import WireError
from masking.history import History
from masking.model import Edits, Element, Path, Replacement
from masking.wire.format import WireFormat

__all__ = ["RequestCache", "decode_request"]

MAX_BYTES = 64 << 20
"""About how much memory all lists together take: some twenty conversations of 1 MB each, or two
hundred of 100 kB."""

_MAX_ELEMENTS = 20_000
"""A list of more is odd: no model's window holds one."""

_LEAST = 2
"""How many times its size a body takes at least: as bytes and decoded."""

_MAX_FOLLOWERS = 256
"""Conversations that begin alike part after the same element."""

_RESPELLED = 2
"""How many of a list's last elements the next request of its conversation may write anew."""

_NEARBY = 8
"""How many of a list's last elements remember the list."""

_FEW_SAMPLES = 10_000


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
        self._lists: OrderedDict[CachedList, None] = OrderedDict()
        self._first: defaultdict[str, _Refs] = defaultdict(list)
        """By the name of a format, the elements that lists began with."""
        self._by_sample: dict[tuple[object, ...], weakref.ref[CachedElement]] = {}
        self._most_samples = _FEW_SAMPLES
        self._lock = threading.Lock()

    def read(self, body: bytes, wire: WireFormat, path: str = "") -> Conversation:
        """Decode and read a request. Raises WireError as `decode` and `index_request` do."""
        return index_request(self.decode(body, wire, path))

    def decode(self, body: bytes, wire: WireFormat, path: str = "") -> Request:
        """Decode a request, but for what is known of it; the outcome is as of `decode_request`.

        Raises WireError if it is no JSON object.
        """
        if _LEAST * len(body) <= self._max_bytes:
            # The first element may begin, or an empty list end, behind each name of the list.
            name = b'"%s"' % str(wire.list_paths[0][-1]).encode()
            at = body.find(name)
            for _ in range(_MOST_HEADS):
                if at < 0:
                    break
                if found := _OPENS.match(body, at + len(name)):
                    with suppress(ValueError, IndexError, RecursionError):
                        return self._decode(body, found.end(), wire, path)
                at = body.find(name, at + 1)
        return decode_request(body, wire, path)

    def _decode(self, body: bytes, head: int, wire: WireFormat, path: str) -> Request:
        """Decode a request whose list begins at `head`; raise ValueError if it is odd."""
        # 1. Elements that are known by what followed what. `end` is where the list goes on after
        # the last one, and `at` where the next one begins; None if there is none.
        elements: list[CachedElement] = []
        starts: list[int] = []
        at, end = (None, head) if body[head] == _LIST_END else (head, head)
        followers = self._first[wire.name]
        starts_with, size = body.startswith, len(body) - 2
        while at is not None:
            for ref in followers:
                found = ref()
                if found is not None and starts_with(found.data, at):
                    break
            else:
                break
            elements.append(found)
            starts.append(at)
            end = at + len(found.data)
            followers = found.followers
            if end < size and body[end] == _NEXT and body[end + 1] == _OBJECT:
                at = end + 1
            else:
                at = _next_start(body, end)
        met = len(elements)
        last = _last_list(elements)

        # 2. All others are cut out and decoded, unless they are known from elsewhere.
        if at is not None:
            tail = last.frame.tail if last is not None else None
            pieces = cut_elements(body, head, at, wire.list_paths, tail)
            if len(pieces) > _MAX_ELEMENTS:
                raise ValueError("too many")
            if not all(data[0] == _OBJECT for data in pieces):  # before any is decoded
                raise ValueError("no object")
            for data in pieces:
                if at is None or not body.startswith(data, at):
                    raise ValueError("not there")
                elements.append(self._find(data, wire))
                starts.append(at)
                end = at + len(data)
                at = _next_start(body, end)
        if at is not None or len(elements) > _MAX_ELEMENTS:
            raise ValueError("not all of it")

        # 3. What stands around them is proven to hold them as its list.
        frame = None if last is None else last.frame
        if frame is None or frame.head != body[:head] or frame.tail != body[end:]:
            frame = make_frame(body[:head], body[end:], wire.list_paths, frame)

        # 4. The next request is to find what follows what, and the list.
        if met == 0 and elements:
            _put_first(self._first[wire.name], elements[0])
        for before, after in pairwise(elements[max(0, met - 1) :]):
            _put_first(before.followers, after)
        remembered = self._remember(elements, last, frame)
        return CachedRequest(body, wire, path, elements, starts, frame, remembered.history)

    def _find(self, data: bytes, wire: WireFormat) -> "CachedElement":
        """Return an element by its bytes, wherever it stood before; a new one if it did not."""
        sample = wire.name, len(data), data[:96], data[-64:]
        ref = self._by_sample.get(sample)
        found = None if ref is None else ref()
        if found is None or found.data != data:
            item, weight = _decode_element(data)
            element = wire.read_element(item)
            weight += _ELEMENT_BYTES + _weigh_texts(element) + _weigh_edited(data, element)
            weight += _weigh_shortened(data, element)
            found = CachedElement(item, element, data, weight)
            self._by_sample[sample] = found.ref
        return found

    def _remember(
        self, elements: list["CachedElement"], last: "CachedList | None", frame: "Frame"
    ) -> "CachedList":
        """Remember a list in place of the one that it continues."""
        with self._lock:
            if last is not None and _continues(elements, last.elements):
                found = last
            else:
                history = History() if last is None else last.history.fork()
                found = CachedList(history, frame)
            if found in self._lists:
                self._bytes -= found.weight
            found.hold(elements, frame, max(0, len(found.elements) - _RESPELLED))
            self._bytes += found.weight
            self._lists[found] = None
            self._lists.move_to_end(found)
            while self._bytes > self._max_bytes:
                oldest, _ = self._lists.popitem(last=False)
                self._bytes -= oldest.weight
        # The samples of elements that are forgotten are dropped once there may be many.
        if len(self._by_sample) > self._most_samples:
            samples = {**self._by_sample}
            self._by_sample = {key: ref for key, ref in samples.items() if ref() is not None}
            self._most_samples = max(_FEW_SAMPLES, 2 * len(self._by_sample))
        ref = weakref.ref(found)
        for each in elements[-_NEARBY:]:
            each.last_list = ref
        return found


@dataclass(slots=True, eq=False, repr=False)
class CachedElement(ParsedElement):
    """An element that is recognized by its bytes.

    weight: about how many bytes of memory it takes, with what is worked out from it.
    edited: the element as it was last edited.
    followers: what has followed it in a list, the latest first. Whoever remembers a list keeps its
        elements; none of them keeps another, so they refer to each other by `ref`.
    """

    data: bytes
    weight: int
    ref: "weakref.ref[CachedElement]" = field(init=False)
    edited: "_Edited | None" = field(default=None, init=False)
    followers: "_Refs" = field(default_factory=list, init=False)
    last_list: "weakref.ref[CachedList] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.ref = weakref.ref(self)


_Refs = list[weakref.ref[CachedElement]]


class _Edited(NamedTuple):
    """An element after replacements, proven to decode to the element with exactly these.

    ascii_only: whether new texts are escaped to ASCII, as all of their body is.
    """

    replacements: tuple[Replacement, ...]
    ascii_only: bool
    data: bytes


class CachedList:
    """The list of a conversation as it was last sent, and what was worked out from it.

    weight: about how many bytes of memory it takes.
    """

    __slots__ = ("__weakref__", "elements", "frame", "history", "weight")

    def __init__(self, history: History, frame: "Frame") -> None:
        self.elements: list[CachedElement] = []
        self.history = history
        self.frame = frame
        self.weight = _LIST_BYTES + frame.weight

    def hold(self, elements: list[CachedElement], frame: "Frame", settled: int) -> None:
        """Hold other elements and another frame; the first `settled` elements are the same."""
        self.weight += frame.weight - self.frame.weight
        self.weight += sum([each.weight for each in elements[settled:]])
        self.weight -= sum([each.weight for each in self.elements[settled:]])
        self.elements, self.frame = elements, frame


class CachedRequest(Request):
    """A request whose elements are known by their bytes, and where each begins in its body."""

    def __init__(
        self,
        body: bytes,
        wire: WireFormat,
        path: str,
        elements: list[CachedElement],
        starts: list[int],
        frame: "Frame",
        history: History,
    ) -> None:
        items = [each.item for each in elements]
        listed = frame.list_path, items, elements
        super().__init__(frame.fill(items), wire, path, body, frame.facts, history, listed)
        self._elements, self._starts, self._frame = elements, starts, frame

    @cached_property
    def _is_ascii(self) -> bool:
        """Whether the body is ASCII, so that new texts in it are escaped to that."""
        return self.body.isascii()

    def replace_texts(self, replacements: tuple[Replacement, ...], list_path: Path) -> bytes:
        """Return the body after replacements. Raises WireError if it cannot be done or proven.

        What becomes of an element under the same replacements is the same in every request, so it
        is made and proven once. The body needs no proof of its own: it was proven to be a list of
        these elements in their frame, and an element that was edited is proven to decode to what it
        should. It stands where the old one stood, so the body decodes to the document with exactly
        these replacements, and nothing else in it has changed.
        """
        with suppress(WireError):  # what cannot be done to an element may be done to the whole
            return self.splice_elements(replacements, len(list_path))
        return super().replace_texts(replacements, list_path)

    def shorten(self, replacements: Sequence[Replacement], list_path: Path) -> Request:
        """Return the request after results were shortened, as in `Request`.

        What becomes of an element is made and proven once, as in `replace_texts`.
        """
        depth, body, ascii_only = len(list_path), self.body, self._is_ascii
        elements, starts = [*self._elements], [*self._starts]
        pieces: list[bytes] = []
        done = moved = 0  # the bytes that are copied, and how much longer they have become
        placed = 0  # the elements that are known to be where they are
        for at, group in groupby(replacements, lambda each: each.path[depth]):
            known, start, wanted = self._elements[int(at)], self._starts[int(at)], tuple(group)
            found = known.shortened
            if found is None or found.ascii_only is not ascii_only or found.replacements != wanted:
                element = self._shorten_element(known, wanted, depth, ascii_only)
                known.shortened = found = ShortenedElement(wanted, ascii_only, element)
            if isinstance(found.parsed, CachedElement):
                elements[int(at)] = found.parsed
                pieces += body[done:start], found.parsed.data
                done = start + len(known.data)
                starts[placed : int(at) + 1] = [
                    each + moved for each in starts[placed : int(at) + 1]
                ]
                placed, moved = int(at) + 1, moved + len(found.parsed.data) - len(known.data)
        if not pieces:
            return self
        starts[placed:] = [each + moved for each in starts[placed:]]
        shortened = CachedRequest(
            b"".join((*pieces, body[done:])),
            self.wire,
            self.path,
            elements,
            starts,
            self._frame,
            self.history.part("shortened"),
        )
        shortened._is_ascii = ascii_only  # what is edited in it is spelled as in the client's own
        shortened.name_model(self.model)
        return shortened

    def _shorten_element(
        self, known: CachedElement, wanted: Sequence[Replacement], depth: int, ascii_only: bool
    ) -> CachedElement | None:
        """Return an element after results were shortened; None if it would read otherwise."""
        inside = inside_element(wanted, depth)
        try:
            data = splice(known.data, known.item, Edits(inside), ascii_only=ascii_only)
            item, weight = _decode_element(data)
        except ValueError:  # a WireError is one
            return None
        element = read_shortened(self.wire, item, known.element)
        if element is None:
            return None
        return CachedElement(item, element, data, weight)

    def splice_elements(self, replacements: Sequence[Replacement], depth: int) -> bytes:
        body, ascii_only = self.body, self._is_ascii
        pieces: list[bytes] = []
        done = 0
        for at, group in groupby(replacements, lambda replacement: replacement.path[depth]):
            known, start, wanted = self._elements[int(at)], self._starts[int(at)], tuple(group)
            if start < done:
                raise WireError("not in order")
            edited = known.edited
            if (
                edited is None
                or edited.ascii_only is not ascii_only
                or edited.replacements != wanted
            ):
                inside = inside_element(wanted, depth)
                data = splice(known.data, known.item, Edits(inside), ascii_only=ascii_only)
                known.edited = edited = _Edited(wanted, ascii_only, data)
            pieces += body[done:start], edited.data
            done = start + len(known.data)
        return b"".join((*pieces, body[done:]))


def _last_list(elements: Sequence[CachedElement]) -> CachedList | None:
    """Return the list that the last of these elements were in."""
    for each in elements[: -_NEARBY - 1 : -1]:
        if each.last_list is not None and (found := each.last_list()) is not None:
            return found
    return None


def _continues(elements: Sequence[CachedElement], earlier: Sequence[CachedElement]) -> bool:
    """Whether a list is an earlier one and more, but for the bytes of its last elements."""
    shared = len(earlier) - _RESPELLED
    return len(elements) >= len(earlier) and elements[:shared] == earlier[:shared]


def _put_first(refs: _Refs, element: CachedElement) -> None:
    if element.ref in refs:
        return
    if len(refs) >= _MAX_FOLLOWERS:
        refs[:] = [ref for ref in refs if ref() is not None][: _MAX_FOLLOWERS - 1]
    refs.insert(0, element.ref)


# A body taken apart. An element is cut out so that it can be recognized by its bytes. What is left
# with a sentinel in place of the elements is the frame. If the frame decodes, and the sentinel is
# all that its list holds, then the elements between its parts, separated by commas, are that list:
# JSON is read from left to right, and where one value may stand, any other may.

_OPENS = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*")
_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_OBJECT, _LIST_END, _NEXT = b"{],"

_SENTINEL = secrets.token_hex(16)
"""No client can know it, so it stands nowhere but where it was put."""

_MOST_HEADS = 8
"""How often the name of the list may occur before it with a list of its own."""


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

    def fill(self, items: Sequence[object]) -> dict[str, Any]:
        """Return the request with these items in its list; all else is shared."""
        document = holder = {**self.document}
        *parents, last = self.list_path
        for key in parents:
            holder[str(key)] = holder = {**holder[str(key)]}
        holder[str(last)] = items
        return document


def make_frame(
    head: bytes, tail: bytes, list_paths: Sequence[Path], earlier: Frame | None = None
) -> Frame:
    """Prove that a list stands between `head` and `tail`.

    A client may change a word in it at every request, as claude-code does, so what is nearly an
    `earlier` frame is not weighed anew. Raises ValueError if there is no list, or if what stands
    around it is so deep that it is odd.
    """
    data = b'%b"%b"%b' % (head, _SENTINEL.encode(), tail)
    document: Any = orjson.loads(data)
    for path in list_paths:
        *parents, last = path
        holder = document
        for key in parents:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and holder.get(last) is not None:
            if holder[last] != [_SENTINEL]:
                break
            holder[last] = []
            weight = None if earlier is None else _weigh_like(head, tail, earlier)
            if weight is None:
                weight = _weigh(data, document)
            return Frame(head, tail, document, path, weight, HeadFacts())
    raise ValueError("no list there")


def _next_start(body: bytes, end: int) -> int | None:
    """Return where the element after that which ends at `end` begins; None if it is the last.

    Raises ValueError if neither can be.
    """
    if body[end] == _NEXT and body[end + 1] == _OBJECT:
        return end + 1
    found = _COMMA.match(body, end)
    if found is None:
        return None
    if body[found.end()] != _OBJECT:
        raise ValueError("no object")
    return found.end()


def cut_elements(
    body: bytes, head: int, at: int, list_paths: Sequence[Path], tail: bytes | None
) -> list[bytes]:
    """Return the bytes of the elements from `at` on, in a list that begins at `head`.

    `tail` is what may stand behind the list. Raises ValueError if an element is no object.
    """
    if tail is not None and body.endswith(tail):
        try:
            return [*map(bytes, _ITEMS.decode(b"[%b]" % body[at : len(body) - len(tail)]))]
        except ValueError:  # it stands in the last element as well
            pass
    rest = body if at == head else body[:head] + body[at:]
    for path in list_paths:
        try:
            holder = list_decoder(path).decode(rest)
        except ValueError:
            continue
        for key in path:
            holder = getattr(holder, str(key), None)
        if holder is not None:
            return [*map(bytes, holder)]
    raise ValueError("no list")


_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


def _decode_element(data: bytes) -> tuple[dict[str, Any], int]:
    """Decode an object; return also about how many bytes of memory both of its forms take.

    Raises ValueError if it is so deep that it is odd.
    """
    item = orjson.loads(data)
    return item, _weigh(data, item)


# How much memory it all takes, about.

_ELEMENT_BYTES = 1_500
"""The memory for what is computed from an element, besides its bytes and values."""

_LIST_BYTES = 4_000
"""The memory for a list itself, besides its elements and its frame."""

_SHALLOW = 200
"""How deep an element may be, and a frame. orjson stops at 1,024 levels of both together, and
Python's comparison of what was decoded somewhat earlier."""

_VALUE_BYTES = 100
"""What a value takes at most as a rule, beside the characters of a text."""

_LONG_CHARS = 4_000
_SHORTENED_BYTES = 16_000
"""What a longer text is shortened to, as a rule; it is kept as bytes and decoded."""

_FEW_BYTES = 400
"""So much of a frame may change without its being weighed anew."""


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
    return 2 * (len(data) if data.isascii() else 2 * len(data)) + _VALUE_BYTES * signs


def _weigh_like(head: bytes, tail: bytes, earlier: Frame) -> int | None:
    """Return about what a frame weighs if it is an earlier one but for a few bytes, else None."""
    weight = earlier.weight
    for new, old in ((head, earlier.head), (tail, earlier.tail)):
        if new == old:
            continue
        start = _count_shared(new, old)
        end = _count_shared(new[start:][::-1], old[start:][::-1])
        changed, was = new[start : len(new) - end], old[start : len(old) - end]
        if max(len(changed), len(was)) > _FEW_BYTES:
            return None
        weight += _weigh_signs(changed) - _weigh_signs(was)
    return weight


def _count_shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


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


def _weigh_shortened(data: bytes, element: Element) -> int:
    """Return about how many bytes an element takes once more, when its results are shortened."""
    is_long = any(len(text) > _LONG_CHARS for result in element.results for text in result.texts)
    return 2 * min(len(data), _SHORTENED_BYTES) if is_long else 0
