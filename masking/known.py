"""What is known of one element of a request's list: facts that follow from the element alone.

An agent sends the same elements again at every turn. What is remembered of an element is the same
object in every request that holds the same bytes, so a fact is worked out once and then found.
"""

import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

from masking.elements import Element, ElementSize
from masking.frames import Frame
from masking.history import History
from masking.model import Path, Replacement


class CountedElement(NamedTuple):
    """An element as a provider's cache sees it; tokens are counted, not estimated.

    digest: of its content, the same whatever cache marks it carries.
    blocks: how many blocks of content it has.
    is_marked: whether it carries a cache mark.
    results: the tokens of each of its tool results.
    """

    digest: bytes
    tokens: int
    blocks: int
    is_marked: bool
    results: tuple[int, ...]


class CountedPlaceholders(NamedTuple):
    """What replacing texts of a tool result comes to in tokens.

    edits: the path within the element, the text, and the placeholder of each.
    digest_before, digest: of the element before them and after.
    replaced, placeholders: the tokens that they take away, and those that they bring.
    """

    edits: tuple[tuple[Path, str, str], ...]
    digest_before: bytes
    digest: bytes
    replaced: int
    placeholders: int


_NO_PLACEHOLDERS: Mapping[Path, CountedPlaceholders] = {}


class Known:
    """An element of a request's list as decoded, as it was read, and what else was found of it.

    Every fact is a pure function of the element and its format. It is None until somebody asks:
    whoever asks first works it out and assigns it. Threads share one without a lock, because to
    work out a fact twice does no harm. A new fact is a slot here that begins as None. It must not
    depend on the element's place in a list, nor on settings.

    item, element: as decoded, and as the format reads it.
    size: what `WireFormat.measure_element` returns.
    counted: what it comes to in tokens.
    result_digests: a digest of each tool result, as `memory.identity` makes it.
    placeholders: for each result, by the first slot of it that was replaced, what its latest
        placeholders come to; these depend on settings, and are kept with what they depend on. The
        mapping is replaced, never changed.
    """

    __slots__ = (
        "__weakref__",
        "counted",
        "element",
        "item",
        "placeholders",
        "result_digests",
        "size",
    )

    def __init__(self, item: object, element: Element) -> None:
        self.item = item
        self.element = element
        self.size: ElementSize | None = None
        self.counted: CountedElement | None = None
        self.result_digests: tuple[bytes, ...] | None = None
        self.placeholders: Mapping[Path, CountedPlaceholders] = _NO_PLACEHOLDERS


class Edited(NamedTuple):
    """An element after replacements, proven to decode to the element with exactly these.

    ascii_only: whether new texts are escaped to ASCII, as all of their body is.
    """

    replacements: tuple[Replacement, ...]
    ascii_only: bool
    data: bytes


class Remembered(Known):
    """An element that is known again by its bytes.

    weight: about how many bytes of memory it takes, with what is worked out from it.
    stands_out: as `WireFormat.stands_out` says.
    edited: the element as it was last edited.
    followers: what has followed it in a list, the latest first. Whoever remembers a list keeps its
        elements; none of them keeps another, so they refer to each other by `ref`.
    """

    __slots__ = ("data", "edited", "followers", "last_list", "ref", "stands_out", "weight")

    def __init__(
        self, data: bytes, item: dict[str, Any], element: Element, weight: int, *, stands_out: bool
    ) -> None:
        self.item: dict[str, Any] = item
        self.element = element
        self.size = self.counted = self.result_digests = None
        self.placeholders = _NO_PLACEHOLDERS
        self.data = data
        self.weight = weight
        self.stands_out = stands_out
        self.ref = weakref.ref(self)
        self.edited: Edited | None = None
        self.followers: list[weakref.ref[Remembered]] = []
        self.last_list: weakref.ref[RememberedList] | None = None


class RememberedList:
    """The list of a conversation as it was last sent, and what was worked out from it.

    weight: about how many bytes of memory it takes.
    """

    __slots__ = ("__weakref__", "frame", "history", "known", "weight")

    def __init__(self, history: History, frame: Frame, weight: int) -> None:
        self.known: list[Remembered] = []
        self.history = history
        self.frame = frame
        self.weight = weight + frame.weight

    def hold(self, known: list[Remembered], frame: Frame, settled: int) -> None:
        """Hold other elements and another frame; the first so many elements are the same."""
        self.weight += frame.weight - self.frame.weight
        self.weight += sum([each.weight for each in known[settled:]])
        self.weight -= sum([each.weight for each in self.known[settled:]])
        self.known, self.frame = known, frame
