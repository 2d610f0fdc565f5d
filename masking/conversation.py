"""A read-only index of a request: its elements, the calls in them, and the results bound to them.

Every wire format's history is one list that grows at its end. A format reads one element of it at a
time, without its neighbours, so that what is read is a function of the element alone. What needs
more than one element is found here: which call a result answers, in which tool turn, and after how
many requests. Nothing is copied or converted: a text is kept with its path in the document.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import orjson

from masking.errors import WireError
from masking.model import ContentKind, Path, Target, ToolResult, make

Speaker = Literal["system", "user", "assistant", "tool", "unknown"]
"""Who speaks in an element; `unknown` if it is no object, or names no known speaker."""


class Call(NamedTuple):
    """A tool call. The arguments are as in the request: a JSON text, or a decoded object."""

    call_id: str | None
    tool: str | None
    arguments: object


class Result(NamedTuple):
    """A tool result, as far as its element alone tells.

    `slots` are the paths of its `texts` within the element. If a slot holds an object, its text is
    that object's JSON, and `wrap` is the key under which a placeholder is put in its place.
    """

    call_id: str | None
    kind: ContentKind
    texts: tuple[str, ...]
    slots: tuple[Path, ...]
    is_error: bool = False
    wrap: str | None = None


class Element(NamedTuple):
    """One element of a request's list; `texts` are the speaker's own, not those of results."""

    speaker: Speaker
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The speaker's own texts, then those of the results."""
        return (*self.texts, *(text for result in self.results for text in result.texts))

    @property
    def is_turn(self) -> bool:
        """Whether it holds a call that a result can answer."""
        for call in self.calls:  # noqa: SIM110 - asked of every answer, and twice as fast
            if call.call_id:
                return True
        return False


UNKNOWN = Element("unknown")


class ElementSize(NamedTuple):
    """The size of an element in estimated tokens.

    `results` has two sizes for each result: of what stands before it in the element, and of its
    content.
    """

    total: int
    results: tuple[tuple[int, int], ...] = ()


class WireFormat(NamedTuple):
    """How a wire format is read: data, and functions of one element. All strategies use the same.

    name: as in records and messages.
    path_ending: the end of its requests' path, without the query.
    list_path: where its list is in a request.
    read_element: reads one element, without its neighbours; never raises.
    measure_element: returns the size of one element, in estimated tokens.
    find_model: returns the model that a request names in its body.
    find_tools: returns the tool schemas of a request.
    find_head_texts: returns the texts beside the list, such as those of a system prompt.
    measure_head: returns the size of the tool schemas and of these texts.
    find_cache_lifetimes: returns how long a request asks its prompt to be kept, as spelled.
    unmark: returns an element as a prompt cache sees it: plainly spelled, without cache marks.
    count_parts: returns the texts of an element that are tokens, and its other tokens, as a number.
    user_message: returns an element in which the user says a text.
    answers_in_runs: whether consecutive elements of the assistant are one answer.
    """

    name: str
    path_ending: str
    list_path: Path
    read_element: Callable[[object], Element]
    measure_element: Callable[[object], ElementSize]
    find_model: Callable[[Mapping[str, object]], str | None]
    find_tools: Callable[[Mapping[str, object]], object]
    find_head_texts: Callable[[Mapping[str, object]], Sequence[str]]
    measure_head: Callable[[Mapping[str, object]], int]
    find_cache_lifetimes: Callable[[Mapping[str, object]], Iterator[str]]
    unmark: Callable[[object], object]
    count_parts: Callable[[object], tuple[Sequence[str], int]]
    user_message: Callable[[str], object]
    answers_in_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request, read once: its elements in order, its tool turns, its tool results in order.

    `document` is the decoded request, `items` are the elements of its list as decoded. `turns`
    counts turns whether they are answered or not.
    """

    wire: WireFormat
    document: Mapping[str, object]
    items: Sequence[object]
    elements: tuple[Element, ...]
    turns: int
    results: tuple[ToolResult, ...]

    @property
    def model(self) -> str | None:
        """The model that the request names in its body."""
        return self.wire.find_model(self.document)


def read_conversation(document: Mapping[str, object], wire: WireFormat) -> Conversation:
    """Read a decoded request.

    Raises WireError if the list is missing or is no list. Elements that are no objects, and fields
    of unexpected types, are ignored.
    """
    items = _find_list(document, wire.list_path)
    return _index(wire, document, items, tuple(map(wire.read_element, items)))


def read_again(
    before: Conversation, document: Mapping[str, object], changed: Iterable[int]
) -> Conversation:
    """Read a request again in which only the elements `changed` differ from `before`."""
    items = _find_list(document, before.wire.list_path)
    elements = [*before.elements]
    for at in changed:
        elements[at] = before.wire.read_element(items[at])
    return _index(before.wire, document, items, tuple(elements))


def with_targets(conversation: Conversation, arguments: Sequence[str]) -> Conversation:
    """Return the request with the targets of its results, if any arguments are given.

    A call's target is the first of these arguments that is a non-empty string.
    """
    if not arguments:
        return conversation
    _, results = bind(conversation.elements, conversation.wire, arguments)
    return replace(conversation, results=results)


def _index(
    wire: WireFormat,
    document: Mapping[str, object],
    items: Sequence[object],
    elements: tuple[Element, ...],
) -> Conversation:
    turns, results = bind(elements, wire)
    return Conversation(
        wire=wire,
        document=document,
        items=items,
        elements=elements,
        turns=turns,
        results=results,
    )


def bind(
    elements: Sequence[Element], wire: WireFormat, target_arguments: Sequence[str] = ()
) -> tuple[int, tuple[ToolResult, ...]]:
    """Count the tool turns, and bind the results to them.

    Ids are reused in real traffic. So a result belongs to the nearest earlier turn that declared
    its id, or, if it comes before its call, to the first later turn that does.
    """
    turns = 0
    declared: dict[str | None, _Declared] = {}
    waiting: dict[str, list[int]] = {}
    results: list[ToolResult] = []
    counts_on = False
    for at, (speaker, _, calls, found) in enumerate(elements):
        if speaker != "assistant":
            counts_on = False
        elif ids := [call_id for call_id, _, _ in calls if call_id]:
            turns += not counts_on
            counts_on = wire.answers_in_runs
            for call in calls:
                if call.call_id:
                    target = _find_target(call, target_arguments) if target_arguments else None
                    declared[call.call_id] = (turns - 1, call.tool, target)
            for answered in ids if waiting else ():
                for early in waiting.pop(answered, ()):
                    turn, tool, target = declared[answered]
                    results[early] = results[early]._replace(turn=turn, tool=tool, target=target)
        for call_id, kind, texts, slots, is_error, wrap in found:
            turn, tool, target = declared.get(call_id, _UNDECLARED)
            if turn is None and call_id is not None:
                waiting.setdefault(call_id, []).append(len(results))
            place = (*wire.list_path, at)
            fields = (place, slots, call_id, tool, turn, kind, texts, is_error, target, wrap)
            results.append(make(ToolResult, fields))
    return turns, tuple(results)


_Declared = tuple[int | None, str | None, Target | None]
"""The last turn that declared an id, the tool it called there, and about what."""

_UNDECLARED: _Declared = (None, None, None)


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
    head = conversation.wire.find_head_texts(conversation.document)
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


def _find_target(call: Call, names: Sequence[str]) -> Target | None:
    """Return what a call is about: the first of these arguments that is a non-empty string."""
    arguments = call.arguments
    if isinstance(arguments, str) and any(f'"{name}"' in arguments for name in names):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(arguments, dict):
        return None
    paths = (arguments.get(name) for name in names)
    path = next((path for path in paths if isinstance(path, str) and path), None)
    return None if path is None else (call.tool, path)
