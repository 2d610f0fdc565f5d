"""A read-only index of a request: its elements, the calls in them, and the results bound to them.

Every wire format's history is one list that grows at its end. A format reads one element of it at a
time, without its neighbours, so that what is read is a function of the element alone. What needs
more than one element is found here: which call a result answers, in which tool turn, and after how
many requests. Nothing is copied or converted: a text is kept with its path in the document.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import orjson

from masking.errors import WireError
from masking.model import ContentKind, Image, Path, Target, ToolResult, make

Speaker = Literal["system", "user", "assistant", "tool", "unknown"]
"""Who speaks in an element; `unknown` if it is no object, or names no known speaker."""


class Call(NamedTuple):
    """A tool call. The arguments are as in the request: a JSON text, or a decoded object."""

    call_id: str | None
    tool: str | None
    arguments: object


class Result(NamedTuple):
    """A tool result, as far as its element alone tells.

    call_id: None if the result names no call; "" if its format has no ids.
    slots: the paths of its `texts` within the element. If a slot holds an object, its text is that
        object's JSON, and `wrap` is the key under which a placeholder is put in its place.
    tails: what follows each text in the same string, and stays; empty if nothing follows any.
    tool: the name of the tool, where the result gives it.
    images: the images in it that a text can replace.
    """

    call_id: str | None
    kind: ContentKind
    texts: tuple[str, ...]
    slots: tuple[Path, ...]
    is_error: bool = False
    wrap: str | None = None
    tails: tuple[str, ...] = ()
    tool: str | None = None
    images: tuple[Image, ...] = ()


class Element(NamedTuple):
    """One element of a request's list; `texts` are the speaker's own, not those of results.

    is_bound: whether it holds reasoning that a provider may bind to all that precedes it.
    """

    speaker: Speaker
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    is_bound: bool = False

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The speaker's own texts, then those of the results."""
        return (*self.texts, *(text for result in self.results for text in result.texts))

    @property
    def is_turn(self) -> bool:
        """Whether it holds a call that a result can answer."""
        for call in self.calls:  # noqa: SIM110 - asked of every answer, and twice as fast
            if call.call_id is not None:
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


class HeadSize(NamedTuple):
    """The size of what stands before the list, in estimated tokens, and up to its last cache mark.

    `marked` is 0 if there is no mark. Both follow the order in which the provider renders a prompt.
    """

    total: int
    marked: int = 0


class Marks(NamedTuple):
    """The marks by which a request asks its provider for a cache.

    in_head, in_list: whether one stands before the list, and whether one stands in it.
    lifetimes: how long the prompt is to be kept, as spelled, in the order of the prompt.
    """

    in_head: bool = False
    in_list: bool = False
    lifetimes: tuple[str, ...] = ()

    @property
    def are_there(self) -> bool:
        """Whether there is any mark."""
        return self.in_head or self.in_list


Purpose = Literal["answer", "count", "compact"]
"""What a request asks for: an answer, the tokens that it would have, or its history in short."""

Binding = Literal["refuses", "drops"]
"""What a provider does with bound reasoning once a text before it has changed.

It refuses the request, or it drops the reasoning without a word.
"""


RoleOrder = Literal["any", "user first", "alternating"]
"""What a provider asks of the order in which user and assistant speak.

That the user opens the list, or also that the two alternate; results are on the user's side.
"""


class WireFormat(NamedTuple):
    """How a wire format is read: data, and functions of one element. All strategies use the same.

    A `document` is a decoded request, a `body` the object in it that holds the list, and a `path`
    that of the URL, without the query.

    name: as in records and messages.
    paths: for each kind of its requests, a pattern that the path's end matches, and the purpose.
    list_paths: where its list can be in a document; the first place that exists holds.
    read_element: reads one element, without its neighbours; never raises.
    measure_element: returns the size of one element, in estimated tokens.
    find_model: returns the model that a request names, by its document and its path.
    streams: whether the answer is streamed, by the document and the path.
    find_obstacle: returns why a request must go out whole, by its document; None if it need not.
    find_binding: returns what becomes of bound reasoning, by the document and the model; None if
        nothing does.
    find_tools: returns the tool schemas of a body.
    find_head_texts: returns the texts beside the list, such as those of a system prompt.
    measure_head: returns the size of the tool schemas and of these texts.
    find_marks: returns the cache marks of a document.
    unmark: returns an element as a prompt cache sees it: plainly spelled, without cache marks.
    count_parts: returns the texts of an element that are tokens, and its other tokens, as a number.
    user_message: returns an element in which the user says a text.
    answers_in_runs: whether consecutive elements of the assistant are one answer.
    pairs_by_order: whether results without an id answer the calls of the last turn in their order.
    role_order: what the provider asks of the order of the elements.
    """

    name: str
    paths: tuple[tuple[str, Purpose], ...]
    list_paths: tuple[Path, ...]
    read_element: Callable[[object], Element]
    measure_element: Callable[[object], ElementSize]
    find_model: Callable[[Mapping[str, object], str], str | None]
    streams: Callable[[Mapping[str, object], str], bool]
    find_obstacle: Callable[[Mapping[str, object]], str | None]
    find_binding: Callable[[Mapping[str, object], str | None], Binding | None]
    find_tools: Callable[[Mapping[str, object]], object]
    find_head_texts: Callable[[Mapping[str, object]], Sequence[str]]
    measure_head: Callable[[Mapping[str, object]], HeadSize]
    find_marks: Callable[[Mapping[str, object]], Marks]
    unmark: Callable[[object], object]
    count_parts: Callable[[object], tuple[Sequence[str], int]]
    user_message: Callable[[str], object]
    answers_in_runs: bool = False
    pairs_by_order: bool = False
    role_order: RoleOrder = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request, read once: its elements in order, its tool turns, its tool results in order.

    `document` is the decoded request, `path` that of its URL, `list_path` where its list is, and
    `items` are the elements of that list as decoded. `turns` counts turns whether they are answered
    or not.
    """

    wire: WireFormat
    document: Mapping[str, object]
    path: str
    list_path: Path
    items: Sequence[object]
    elements: tuple[Element, ...]
    turns: int
    results: tuple[ToolResult, ...]

    @property
    def body(self) -> Mapping[str, object]:
        """The object that holds the list, and what stands before it."""
        return cast(Mapping[str, object], follow(self.document, self.list_path[:-1]))

    @property
    def model(self) -> str | None:
        """The model that the request names."""
        return self.wire.find_model(self.document, self.path)

    @property
    def marks(self) -> Marks:
        """The marks by which the request asks its provider for a cache."""
        return self.wire.find_marks(self.document)

    @property
    def binding(self) -> Binding | None:
        """What the provider does with bound reasoning once a text before it has changed."""
        return self.wire.find_binding(self.document, self.model)


def read_conversation(
    document: Mapping[str, object], wire: WireFormat, path: str = ""
) -> Conversation:
    """Read a decoded request; `path` is that of its URL, without the query.

    Raises WireError if the list is missing or is no list, or if the request must go out whole.
    Elements that are no objects, and fields of unexpected types, are ignored.
    """
    if obstacle := wire.find_obstacle(document):
        raise WireError(obstacle)
    list_path = _find_list_path(document, wire.list_paths)
    items = _find_list(document, list_path)
    elements = tuple(map(wire.read_element, items))
    turns, results = bind(elements, wire, list_path)
    return Conversation(
        wire=wire,
        document=document,
        path=path,
        list_path=list_path,
        items=items,
        elements=elements,
        turns=turns,
        results=results,
    )


def read_again(
    before: Conversation, document: Mapping[str, object], changed: Iterable[int]
) -> Conversation:
    """Read a request again in which only the elements `changed` differ from `before`."""
    items = _find_list(document, before.list_path)
    elements = [*before.elements]
    for at in changed:
        elements[at] = before.wire.read_element(items[at])
    turns, results = bind(elements, before.wire, before.list_path)
    return replace(
        before,
        document=document,
        items=items,
        elements=tuple(elements),
        turns=turns,
        results=results,
    )


def with_targets(conversation: Conversation, arguments: Sequence[str]) -> Conversation:
    """Return the request with the targets of its results, if any arguments are given.

    A call's target is the first of these arguments that is a non-empty string.
    """
    if not arguments:
        return conversation
    wire, list_path = conversation.wire, conversation.list_path
    _, results = bind(conversation.elements, wire, list_path, arguments)
    return replace(conversation, results=results)


def bind(
    elements: Sequence[Element],
    wire: WireFormat,
    list_path: Path = (),
    target_arguments: Sequence[str] = (),
) -> tuple[int, tuple[ToolResult, ...]]:
    """Count the tool turns, and bind the results to them.

    Ids are reused in real traffic. So a result belongs to the nearest earlier turn that declared
    its id, or, if it comes before its call, to the first later turn that does. Where a format has
    no ids, or a client drops them, results answer the calls of the last turn by name and order.
    """
    turns = 0
    declared: dict[str | None, _Declared] = {}
    waiting: dict[str, list[int]] = {}
    open_calls, numbered = _OpenCalls(), 0
    results: list[ToolResult] = []
    counts_on = False
    for at, (speaker, _, calls, found, _) in enumerate(elements):
        if speaker != "assistant":
            counts_on = False
        elif ids := [call_id for call_id, _, _ in calls if call_id is not None]:
            if not counts_on:
                turns += 1
                open_calls.clear()
            counts_on = wire.answers_in_runs
            for call in calls:
                if call.call_id is not None:
                    target = _find_target(call, target_arguments) if target_arguments else None
                    declaration = (turns - 1, call.tool, target)
                    if call.call_id:
                        declared[call.call_id] = declaration
                    if wire.pairs_by_order:
                        numbered += 1
                        open_calls.add(numbered, call.call_id, declaration)
            for answered in ids if waiting else ():
                for early in waiting.pop(answered, ()):
                    turn, tool, target = declared[answered]
                    results[early] = results[early]._replace(turn=turn, tool=tool, target=target)
        for result in found:
            call_id, kind, texts, slots, is_error, wrap, tails, _, images = result
            if wire.pairs_by_order:
                turn, tool, target = open_calls.answer(result, declared)
            else:
                turn, tool, target = declared.get(call_id, _UNDECLARED)
            if turn is None and call_id:
                waiting.setdefault(call_id, []).append(len(results))
            place = (*list_path, at)
            found_at = (place, slots, call_id, tool, turn, kind, texts, is_error, target)
            results.append(make(ToolResult, (*found_at, wrap, tails, images)))
    return turns, tuple(results)


_Declared = tuple[int | None, str | None, Target | None]
"""The last turn that declared an id, the tool it called there, and about what."""

_UNDECLARED: _Declared = (None, None, None)


class _OpenCalls:
    """The calls of the last turn that no result has answered yet, by id and by tool.

    A call stands in several queues. Once it is taken from one, the others pass it over; so the work
    is linear in the calls, whatever the order of their results.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Declared] = {}
        self._queues: defaultdict[tuple[str, str | None], deque[int]] = defaultdict(deque)

    def clear(self) -> None:
        """Forget all calls: a new turn begins."""
        self._open.clear()
        self._queues.clear()

    def add(self, number: int, call_id: str, declaration: _Declared) -> None:
        """Add a call of the last turn, by a number of its own; its id may be empty."""
        self._open[number] = declaration
        tool = declaration[1]
        self._queues["id", call_id].append(number)
        for kind in ("any",) if call_id else ("any", "without id"):
            self._queues[kind, None].append(number)
            if tool is not None:
                self._queues[kind, tool].append(number)

    def answer(self, result: Result, declared: Mapping[str | None, _Declared]) -> _Declared:
        """Take the call that a result answers: that with its id, else the next one of its tool.

        A result that names no tool answers the next call. What has two different ids is no pair.
        """
        wanted = result.call_id
        if (by_id := declared.get(wanted)) is not None:
            return self._take("id", wanted) or by_id
        if wanted is None:
            return _UNDECLARED
        return self._take("without id" if wanted else "any", result.tool) or _UNDECLARED

    def _take(self, kind: str, name: str | None) -> _Declared | None:
        queue = self._queues.get((kind, name))
        while queue:
            if found := self._open.pop(queue.popleft(), None):
                return found
        return None


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
