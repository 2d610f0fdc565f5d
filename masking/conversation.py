"""A read-only index of a request: its elements, the calls in them, and the results bound to them.

Every wire format's history is one list that grows at its end. A format reads one element of it at a
time, without its neighbours, so that what is read is a function of the element alone. What needs
more than one element is found here and in `pairing`: which call a result answers, in which tool
turn, and after how many requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, cast

from masking.decoded import Cut, Decoded
from masking.elements import Element
from masking.errors import WireError
from masking.frames import HeadFacts
from masking.history import History
from masking.known import Known
from masking.model import Path, ToolResult
from masking.pairing import bind, find_target
from masking.wire_format import Binding, Marks, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request, read once: its elements in order, its tool turns, its tool results in order.

    `document` is the decoded request, `path` that of its URL, `list_path` where its list is, and
    `items` are the elements of that list as decoded. `known` has, for each of them, what is known
    of it: the same object as in an earlier request, where that is remembered. `head` is the same
    for what stands before the list, and `history` has what was worked out from the list. `turns`
    counts turns whether they are answered or not. `outline` and `cut` are as in `Decoded`.
    """

    wire: WireFormat
    document: Mapping[str, object]
    path: str
    list_path: Path
    items: Sequence[object]
    elements: tuple[Element, ...]
    turns: int
    results: tuple[ToolResult, ...]
    known: Sequence[Known] = field(compare=False)
    outline: Mapping[str, object] = field(compare=False)
    cut: Cut | None = field(default=None, compare=False)
    head: HeadFacts = field(default_factory=HeadFacts, compare=False)
    history: History = field(default_factory=History, compare=False)

    @property
    def body(self) -> Mapping[str, object]:
        """The object that holds the list, and what stands before it."""
        return cast(Mapping[str, object], follow(self.document, self.list_path[:-1]))

    @property
    def model(self) -> str | None:
        """The model that the request names."""
        return self.wire.find_model(self.outline, self.path)

    @property
    def marks(self) -> Marks:
        """The marks by which the request asks its provider for a cache."""
        return self.wire.find_marks(self.outline)

    @property
    def binding(self) -> Binding | None:
        """What the provider does with bound reasoning once a text before it has changed."""
        return self.wire.find_binding(self.outline, self.model)


def read_conversation(
    document: Mapping[str, object], wire: WireFormat, path: str = ""
) -> Conversation:
    """Read a decoded request; `path` is that of its URL, without the query.

    Raises WireError if the list is missing or is no list, or if the request must go out whole.
    Elements that are no objects, and fields of unexpected types, are ignored.
    """
    return read_decoded(Decoded(document, document), wire, path)


def read_decoded(decoded: Decoded, wire: WireFormat, path: str = "") -> Conversation:
    """Read a request as `read_conversation` does; go on from what is remembered of it."""
    if obstacle := wire.find_obstacle(decoded.outline):
        raise WireError(obstacle)
    document, cut = decoded.document, decoded.cut
    list_path = _find_list_path(document, wire.list_paths)
    items = _find_list(document, list_path)
    known: Sequence[Known]
    known = cut.known if cut else [*map(Known, items, map(wire.read_element, items))]
    elements = tuple([each.element for each in known])
    history = cut.history if cut else History()
    turns, results = bind(history, elements, wire, list_path)
    return Conversation(
        wire=wire,
        document=document,
        path=path,
        list_path=list_path,
        items=items,
        elements=elements,
        turns=turns,
        results=results,
        known=known,
        outline=decoded.outline,
        cut=cut,
        head=cut.frame.facts if cut else HeadFacts(),
        history=history,
    )


def read_again(
    before: Conversation, document: Mapping[str, object], changed: Iterable[int]
) -> Conversation:
    """Read a request again in which only the elements `changed` differ from `before`."""
    items = _find_list(document, before.list_path)
    elements, known = [*before.elements], [*before.known]
    for at in changed:
        elements[at] = before.wire.read_element(items[at])
        known[at] = Known(items[at], elements[at])
    history = History()
    turns, results = bind(history, elements, before.wire, before.list_path)
    return replace(
        before,
        document=document,
        items=items,
        elements=tuple(elements),
        turns=turns,
        results=results,
        known=known,
        outline=document,
        cut=None,
        head=HeadFacts(),
        history=history,
    )


def with_targets(conversation: Conversation, arguments: Sequence[str]) -> Conversation:
    """Return the request with the targets of its results, if any arguments are given.

    A call's target is the first of these arguments that is a non-empty string.
    """
    if not arguments:
        return conversation
    results = conversation.history.map_each(
        find_target, conversation.results, tuple(arguments), is_same=is_
    )
    return replace(conversation, results=tuple(results))


def find_answers(elements: Sequence[Element], *, in_runs: bool) -> Iterator[range]:
    """Yield the positions of each answer of the assistant, oldest first.

    An answer is one element, or, `in_runs`, all consecutive elements of the assistant.
    """
    start: int | None = None
    for at, element in enumerate(elements):
        if start is not None and (element.speaker != "assistant" or not in_runs):
            yield range(start, at)
            start = None
        if start is None and element.speaker == "assistant":
            start = at
    if start is not None:
        yield range(start, len(elements))


def find_opening(conversation: Conversation) -> list[str]:
    """Return the texts of a request up to and with the first that the user says.

    If a tool turn comes first, only those before that turn; if there is neither, those before the
    first answer of the assistant. So a conversation with masked results keeps its opening.
    """
    head = conversation.wire.find_head_texts(conversation.body)
    opening = conversation.elements[: _find_end(conversation.elements)]
    return [*head, *(text for element in opening for text in element.all_texts)]


def _find_end(elements: Sequence[Element]) -> int:
    answered = len(elements)
    for at, element in enumerate(elements):
        if element.speaker == "user":
            return at + 1
        if element.speaker == "assistant":
            answered = min(answered, at)
            if element.is_turn:
                return at
    return answered


def follow(value: object, path: Path) -> object:
    """Return what a path leads to in a decoded document; None if it leads nowhere."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def _find_list_path(document: Mapping[str, object], paths: Sequence[Path]) -> Path:
    """Return the first path that leads anywhere; if none does, the first, which says what lacks."""
    return next((path for path in paths if follow(document, path) is not None), paths[0])


def _find_list(document: Mapping[str, object], path: Path) -> list[object]:
    value: Any = document
    place = "body"
    for key in path:
        if not isinstance(value, dict) or key not in value:
            raise WireError(f"no {key}", place)
        value, place = value[key], f"{place}.{key}"
    if not isinstance(value, list):
        raise WireError(f"expected list, got {type(value).__name__}", place)
    return value
