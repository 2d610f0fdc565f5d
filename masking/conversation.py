"""A read-only index of a request: its elements, the calls in them, and the results bound to them.

Every wire format's history is one list that grows at its end. A format reads one element of it at a
time, without its neighbors, so that what is read is a function of the element alone. What needs
more than one element is worked out here: which call a result answers, in which tool turn.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from operator import is_
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

from masking.edit.json_list import STAND_IN, ListCut, cut_list
from masking.edit.json_text import decode
from masking.edit.splice import add, apply, join_list, splice
from masking.errors import WireError
from masking.history import UNSTABLE_TAIL, Copyable, Fold, History
from masking.model import (
    Call,
    Decision,
    Edits,
    Element,
    ElementSize,
    Path,
    Replacement,
    Replacements,
    ToolResult,
    make,
    parse_arguments,
)
from masking.wire.format import (
    NO_NOTES,
    Added,
    HeadSize,
    Marks,
    Notes,
    OnHistoryEdit,
    ServerHistory,
    WireFormat,
    find_tier,
    follow,
)


class Piece(NamedTuple):
    """A part of a prompt: the digest of its content, and its size in tokens.

    digest: the same whatever cache marks it carries.
    blocks: how many blocks of content it has.
    is_marked: whether it ends with a cache mark.
    begins_answer: whether an earlier request ended before it.
    """

    digest: bytes
    tokens: int
    blocks: int = 1
    is_marked: bool = False
    begins_answer: bool = False


_Made = TypeVar("_Made")

Part = Literal["system", "tools", "user", "assistant", "results", "placeholders", "unknown"]
"""Whose the tokens of a prompt are."""


class CountedElement(NamedTuple):
    """An element as a provider's cache sees it; tokens are counted, not estimated.

    piece: where marks count, and no element before it belongs to the same answer.
    part: whose its tokens are, but for those of its results.
    results: the tokens of each of its tool results.
    placeholders: those of them that stand for others.
    reasoning: those of its bound reasoning.
    """

    piece: Piece
    part: Part
    results: tuple[int, ...]
    placeholders: int = 0
    reasoning: int = 0


class MaskedElement(NamedTuple):
    """An element with placeholders, and the decisions on its results that it depends on."""

    decisions: tuple[Decision, ...]
    counted: CountedElement


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class ParsedElement:
    """An element of a request's list as decoded, as its format reads it, and facts about it.

    Every fact is a pure function of the element and its format. It is None until somebody asks:
    whoever asks first works it out and assigns it. Threads share an element without a lock, because
    to work out a fact twice does no harm. A new fact is a field here that begins as None. It must
    not depend on the element's place in a list, nor on settings.

    item, element: as decoded, and as the format reads it.
    notes: what `WireFormat.read_notes` returns.
    size: what `WireFormat.measure_element` returns.
    reasoning_size: the part of it that is bound reasoning.
    digest: of its content, the same whatever cache marks it carries.
    counted: its counted tokens.
    result_digests: a digest of each tool result, by which it is recognized.
    masked: the element as it was last masked, with what that depends on.
    edited: the bytes that it last became by replacements.
    shortened: the element as it was last shortened at arrival, with its bytes; None if it would
        then read as something else.
    """

    item: Any
    element: Element
    notes: Notes | None = field(default=None, init=False)
    size: ElementSize | None = field(default=None, init=False)
    reasoning_size: int | None = field(default=None, init=False)
    digest: bytes | None = field(default=None, init=False)
    counted: CountedElement | None = field(default=None, init=False)
    result_digests: tuple[bytes, ...] | None = field(default=None, init=False)
    masked: MaskedElement | None = field(default=None, init=False)
    edited: "EditedElement[bytes] | None" = field(default=None, init=False)
    shortened: "EditedElement[tuple[ParsedElement, bytes] | None] | None" = field(
        default=None, init=False
    )


class EditedElement(NamedTuple, Generic[_Made]):
    """What an element became by replacements, and what that depends on.

    ascii_only: whether new texts are escaped to ASCII, as all of their body is.
    """

    replacements: tuple[Replacement, ...]
    ascii_only: bool
    made: _Made

    def is_of(self, replacements: tuple[Replacement, ...], ascii_only: bool) -> bool:
        """Whether it became this by these replacements."""
        return self.ascii_only is ascii_only and self.replacements == replacements


class CountedHead(NamedTuple):
    """What stands before the list: its digest, and the tokens of tool schemas and system texts."""

    digest: bytes
    tools: int
    texts: int


@dataclass(slots=True, eq=False, repr=False)
class HeadFacts:
    """Facts about what stands before a request's list, such as tools and system texts.

    Like the facts of an element each is None until somebody asks, works it out and assigns it.

    size: what `WireFormat.measure_head` returns.
    counted: its counted tokens.
    opening: the digest of the opening of a conversation that it begins, with the first elements of
        that, which decide it.
    """

    size: HeadSize | None = field(default=None, init=False)
    counted: CountedHead | None = field(default=None, init=False)
    opening: tuple[tuple[Element, ...], bytes] | None = field(default=None, init=False)


Listed = tuple[Path, Sequence[object], Sequence[ParsedElement]]
"""Where a request's list is, its elements as decoded, and each as it is read."""


class Request:
    """A decoded request, before anybody looks into its list.

    body: the bytes that it was decoded from; none if there are none.
    document: as decoded.
    path: that of the URL, without the query.
    head, history: facts about what stands before the list, and what was worked out from the list.
    """

    def __init__(
        self,
        document: Mapping[str, object],
        wire: WireFormat,
        path: str = "",
        body: bytes = b"",
        head: HeadFacts | None = None,
        history: History | None = None,
        listed: Listed | None = None,
    ) -> None:
        self.body = body
        self.document = document
        self.wire = wire
        self.path = path
        self.head = HeadFacts() if head is None else head
        self.history = History() if history is None else history
        self._listed = listed

    @cached_property
    def notes(self) -> Sequence[Notes]:
        """The notes of its elements that have any, in their order; none if there is no list."""
        try:
            _, _, parsed = self.read_list()
        except WireError:
            return ()
        found = []
        for known in parsed:
            notes = known.notes
            if notes is None:
                notes = self.wire.read_notes(known.item)
                known.notes = notes = NO_NOTES if notes == NO_NOTES else notes
            if notes is not NO_NOTES:
                found.append(notes)
        return found

    @cached_property
    def model(self) -> str | None:
        """The model that the request names."""
        return self.wire.find_model(self.document, self.path)

    @cached_property
    def marks(self) -> Marks:
        """The marks by which the request asks its provider for a cache."""
        return self.wire.find_marks(self.document, self.notes)

    @cached_property
    def tier(self) -> str | None:
        """The tier of service that the request asks for; None for the standard one."""
        return find_tier(self.document)

    @cached_property
    def binding(self) -> OnHistoryEdit | None:
        """What the provider does with bound reasoning once a text before it has changed."""
        return self.wire.on_history_edit(self.document, self.model, self.notes)

    @cached_property
    def obstacle(self) -> str | None:
        """Why the request must pass unchanged; None if it need not."""
        told = (each.obstacle for each in self.notes)
        return self.wire.find_obstacle(self.document) or next(filter(None, told), None)

    @property
    def held(self) -> ServerHistory | None:
        """The history that the provider holds; None if there is another obstacle, or none."""
        is_obstructed = any(each.obstacle for each in self.notes)
        return None if is_obstructed else self.wire.find_server_history(self.document)

    def name_model(self, model: str | None) -> None:
        """Take the request to be for this model, whichever it names."""
        self.model = model
        self.__dict__.pop("binding", None)

    def read_list(self) -> Listed:
        """Return the list, as far as it is known. Raises WireError if it is missing or no list."""
        if self._listed is not None:
            return self._listed
        # The first path that leads anywhere; if none does, the first is reported as missing.
        paths = self.wire.list_paths
        path = next((path for path in paths if follow(self.document, path) is not None), paths[0])
        items = _find_list(self.document, path)
        parsed = [*map(ParsedElement, items, map(self.wire.read_element, items))]
        self._listed = path, items, parsed
        return self._listed

    @cached_property
    def cut(self) -> ListCut:
        """Its body, cut into the elements of the list and what stands around them.

        What stands around them is proven to hold what is put there as its list (`request_cache`
        says how); an element is proven to be the one as decoded when it is edited. Raises WireError
        if there is no such cut.
        """
        path, items, _ = self.read_list()
        for cut in cut_list(self.body, (path,)):
            with suppress(WireError):  # the same bytes stand elsewhere, too
                frame: Any = decode(STAND_IN.join((cut.head, cut.tail)))
                is_list = follow(frame, path) == [decode(STAND_IN)]
                if is_list and len(cut.elements) == len(items):
                    return cut
        raise WireError("cannot find the elements of the list")

    @cached_property
    def is_ascii(self) -> bool:
        """Whether the client's body is ASCII, so that new texts in it are escaped to that."""
        return self.body.isascii()

    def shorten(self, replacements: Replacements) -> Self:
        """Return the request after results in its list were shortened, as read from its new body.

        An element that would not read as before, but for these texts, stays as it is. Raises
        WireError if the body cannot be edited and proven.
        """
        path, _, before = self.read_list()
        parsed, data = [*before], [*self.cut.elements] if self.body else [b""] * len(before)
        for at, wanted in replacements.items():
            known = before[at]
            found = known.shortened
            if found is None or not found.is_of(wanted, self.is_ascii):
                # Once for all requests that have the element.
                short = self._shorten_element(known, data[at], wanted)
                known.shortened = found = EditedElement(wanted, self.is_ascii, short)
            if found.made is not None:
                parsed[at], data[at] = found.made
        if all(map(is_, parsed, before)):
            return self
        # All else of the request reads as before.
        items = [each.item for each in parsed]
        request = copy(self)
        request.document = put_list(self.document, path, items)
        request.history = self.history.part("shortened")
        request._listed = path, items, parsed
        if self.body:
            request.cut = self.cut._replace(elements=data)
            request.body = join_list(request.cut, Edits(), ascii_only=self.is_ascii)
        return request

    def _shorten_element(
        self, known: ParsedElement, data: bytes, replacements: tuple[Replacement, ...]
    ) -> tuple[ParsedElement, bytes] | None:
        """Return an element after results were shortened, and its bytes; none without a body.

        None if it would read otherwise, or cannot be edited.
        """
        if data:
            try:
                data = splice(data, known.item, replacements, ascii_only=self.is_ascii)
            except WireError:
                return None
        item = apply(known.item, replacements)
        element = read_shortened(self.wire, item, known.element)
        return None if element is None else (ParsedElement(item, element), data)

    def edit(self, edits: Edits) -> bytes:
        """Return the body after the edits of its list, every other byte as it was.

        What becomes of an element under the same replacements is the same in every request, so it
        is made and proven once. The body needs no proof of its own: it was proven to be a list of
        these elements in what stands around them, where any others may stand as well. Raises
        WireError if it cannot be done or proven.
        """
        _, _, parsed = self.read_list()
        data = [*self.cut.elements]
        for at, wanted in edits.replacements.items():
            known = parsed[at]
            edited = known.edited
            if edited is None or not edited.is_of(wanted, self.is_ascii):
                made = splice(data[at], known.item, wanted, ascii_only=self.is_ascii)
                known.edited = edited = EditedElement(wanted, self.is_ascii, made)
            data[at] = edited.made
        return join_list(self.cut._replace(elements=data), edits, ascii_only=self.is_ascii)

    def add(self, body: bytes, added: Added) -> bytes:
        """Return a body of this request, edited or not, with a value added outside of the list.

        Raises WireError as `splice.add` does.
        """
        path, value, in_list = added
        return add(body, self.document, path, value, in_list=in_list)


def put_list(
    document: Mapping[str, object], list_path: Path, items: Sequence[object]
) -> dict[str, object]:
    """Return a document with these items in its list; all else is shared."""
    copied: dict[str, Any] = {**document}
    holder = copied
    *parents, last = list_path
    for key in parents:
        holder[str(key)] = holder = {**holder[str(key)]}
    holder[str(last)] = items
    return copied


def read_shortened(wire: WireFormat, item: object, before: Element) -> Element | None:
    """Read an element whose results were shortened; they keep the client's texts beside theirs.

    None if anything but texts of results has changed in what is read.
    """
    element = wire.read_element(item)
    if len(element.results) != len(before.results):
        return None
    pairs = [*zip(element.results, before.results, strict=True)]
    restored = tuple([now._replace(texts=was.texts) for now, was in pairs])
    if element._replace(results=restored) != before:
        return None
    results = [
        now if now.texts == was.texts else now._replace(client_texts=was.texts)
        for now, was in pairs
    ]
    return element._replace(results=tuple(results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A parsed request: its elements, tool turns, and tool results, in order.

    list_path: where the list is.
    parsed: its elements with the facts of each; the same objects as in an earlier request, where
        that is remembered.
    turns: how many there are, answered or not.
    """

    request: Request = field(compare=False)
    list_path: Path
    parsed: Sequence[ParsedElement] = field(compare=False)
    elements: tuple[Element, ...]
    turns: int
    results: tuple[ToolResult, ...]

    @property
    def items(self) -> Sequence[object]:
        """The elements as decoded."""
        return self.request.read_list()[1]

    @property
    def body(self) -> Mapping[str, object]:
        """The object that holds the list, and what stands before it."""
        return cast(Mapping[str, object], follow(self.document, self.list_path[:-1]))

    # As of its request.

    @property
    def wire(self) -> WireFormat:
        return self.request.wire

    @property
    def document(self) -> Mapping[str, object]:
        return self.request.document

    @property
    def path(self) -> str:
        return self.request.path

    @property
    def head(self) -> HeadFacts:
        return self.request.head

    @property
    def history(self) -> History:
        return self.request.history

    @property
    def model(self) -> str | None:
        return self.request.model

    @property
    def marks(self) -> Marks:
        return self.request.marks

    @property
    def binding(self) -> OnHistoryEdit | None:
        return self.request.binding

    @property
    def last_answer(self) -> int:
        """The position of the assistant's last element; the model has not read what follows it.

        It is -1 if there is none.
        """
        elements = self.elements
        last = len(elements) - 1
        while last >= 0 and elements[last].speaker != "assistant":
            last -= 1
        return last

    @property
    def answers(self) -> list[range]:
        """The positions of each answer of the assistant, oldest first."""
        return [*find_answers(self.elements, in_runs=self.wire.answers_in_runs)]

    @property
    def last_bound(self) -> int:
        """The position of the last element with reasoning that may be bound; -1 without any."""
        elements = self.elements
        last = len(elements) - 1
        while last >= 0 and not elements[last].is_bound:
            last -= 1
        return last

    def is_bound_from(self, answer: int) -> bool:
        """Whether there is such reasoning from an answer on, which is counted from 0."""
        answers = self.answers
        return answer < len(answers) and self.last_bound >= answers[answer].start


def read_conversation(
    document: Mapping[str, object], wire: WireFormat, path: str = ""
) -> Conversation:
    """Read a decoded request; `path` is that of its URL, without the query.

    Raises WireError as `index_request` does.
    """
    return index_request(Request(document, wire, path))


def index_request(request: Request, *, is_held: bool = False) -> Conversation:
    """Read the list of a request, going on from what is remembered of it.

    is_held: whether it is read though its provider holds the history, and only what is new is in
        the list.

    Raises WireError if the list is missing or is no list, or if the request must go out whole.
    Elements that are no objects, and fields of unexpected types, are ignored.
    """
    if not is_held and request.obstacle is not None:
        raise WireError(request.obstacle)
    return _bind_all(request)


def take_apart(conversation: Conversation, name: str) -> Conversation:
    """Return a conversation to be decided under other settings, beside those of the original.

    It shares what was read, and keeps what is worked out from that by `name`.
    """
    request = copy(conversation.request)
    request.history = conversation.history.part(name)
    return replace(conversation, request=request)


def read_again(
    before: Conversation, items: Sequence[object], changed: Iterable[int]
) -> Conversation:
    """Read a request again with these items, of which only those `changed` differ from `before`."""
    parsed = [*before.parsed]
    for at in changed:
        element, was = before.wire.read_element(items[at]), before.elements[at]
        if any(result.client_texts for result in was.results):  # what is still shortened stays so
            results = [
                now._replace(client_texts=one.client_texts) if now.texts == one.texts else now
                for now, one in zip(element.results, was.results, strict=False)
            ]
            element = element._replace(results=tuple(results))
        parsed[at] = ParsedElement(items[at], element)
    document = put_list(before.document, before.list_path, items)
    listed = before.list_path, items, parsed
    return _bind_all(Request(document, before.wire, before.path, listed=listed))


def _bind_all(request: Request) -> Conversation:
    list_path, _, parsed = request.read_list()
    elements = tuple([each.element for each in parsed])
    turns, results = bind(request.history, elements, request.wire)
    return Conversation(
        request=request,
        list_path=list_path,
        parsed=parsed,
        elements=elements,
        turns=turns,
        results=results,
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


def find_target(result: ToolResult, names: Sequence[str]) -> ToolResult:
    """Return a result with its target: the first of these arguments that is a non-empty string."""
    arguments = result.arguments
    if isinstance(arguments, str) and not any(f'"{name}"' in arguments for name in names):
        return result
    found = parse_arguments(arguments)
    paths = (found.get(name) for name in names)
    path = next((path for path in paths if isinstance(path, str) and path), None)
    return result if path is None else result._replace(target=(result.tool, path))


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


def bind(
    history: History, elements: Sequence[Element], wire: WireFormat
) -> tuple[int, tuple[ToolResult, ...]]:
    """Count the tool turns, and bind the results to them.

    Ids are reused in real traffic. So a result belongs to the nearest earlier turn that declared
    its id, or, if it comes before its call, to the first later turn that does. Of a turn that
    declares an id twice, the nth result of the id answers the nth call, and further ones the last.
    Where a format has no ids, or a client drops them, results answer the calls of the last turn by
    name and order.
    """
    binder = history.fold(_Binder, elements, wire, unstable_tail=UNSTABLE_TAIL)
    binder.close()
    return binder.turns, tuple(binder.results)


_Declared = tuple[int | None, str | None, object]
"""A call as its results see it: its turn, its tool, and its arguments."""

_UNDECLARED: _Declared = (None, None, None)

_Id = tuple[int | None, int, int]
"""An id: the last turn that declared it, how many calls of it that has, and how many results of it
came since; of an id that none has declared yet, how many came."""

_NO_ID: _Id = (None, 0, 0)


class _Binder(Fold[Element]):
    """The elements so far: their turns, their results, and the calls that later ones may answer."""

    def __init__(self, wire: WireFormat) -> None:
        self.turns = 0
        self.results: list[ToolResult] = []
        self._wire = wire
        self._elements = 0
        self._ids: dict[str, _Id] = {}
        self._calls: dict[tuple[str, int], _Declared] = {}
        self._places: dict[tuple[str, int], int] = {}
        """The calls and the results that are counted of an id, by it and their number."""
        self._early: set[str] = set()
        """The ids in the answer so far of which results came before their calls."""
        self._open_calls = _OpenCalls() if wire.pairs_by_order else None
        self._in_answer = False
        """Whether the next element of the assistant continues the answer of the last one."""

    def take(self, element: Element) -> None:
        """Bind the results of the next element."""
        speaker, _, calls, found, _ = element
        if speaker != "assistant":
            self.close()
        elif element.is_turn:
            self._declare(calls)
        for result in found:
            self._bind(result)
        self._elements += 1

    def close(self) -> None:
        """End an answer: the last call of an id has all further results that came before it."""
        self._in_answer = False
        for call_id in self._early:
            _, calls, results = self._ids[call_id]
            for number in range(calls, results):
                self._bind_early(call_id, number, self._calls[call_id, calls - 1])
        self._early.clear()

    def _declare(self, calls: Sequence[Call]) -> None:
        """Add the calls of an answer, or of the next part of one."""
        if not self._in_answer:
            self.close()
            self.turns += 1
            if self._open_calls is not None:
                self._open_calls.clear()
        self._in_answer = self._wire.answers_in_runs
        for call in calls:
            if call.call_id is not None:
                declared = (self.turns - 1, call.tool, call.arguments)
                if self._open_calls is not None:
                    self._open_calls.add(call.call_id, declared)
                if call.call_id:
                    self._declare_id(call.call_id, declared)

    def _declare_id(self, call_id: str, declared: _Declared) -> None:
        """Add a call by its id; it gets the result of the same number, if that came before it."""
        last, calls, results = self._ids.get(call_id, _NO_ID)
        if calls and last != declared[0]:  # the id is used again, in a later turn
            calls = results = 0
        self._ids[call_id] = declared[0], calls + 1, results
        self._calls[call_id, calls] = declared
        if results > calls:
            self._bind_early(call_id, calls, declared)
            self._early.add(call_id)
            if self._open_calls is not None:
                self._open_calls.take(call_id)

    def _bind_early(self, call_id: str, number: int, declared: _Declared) -> None:
        place, (turn, tool, arguments) = self._places[call_id, number], declared
        self.results[place] = self.results[place]._replace(
            turn=turn, tool=tool, arguments=arguments
        )

    def _bind(self, result: ToolResult) -> None:
        """Add a result of the current element, bound to its call."""
        call_id = result.call_id or ""
        declared = _UNDECLARED
        last, calls, results = self._ids.get(call_id, _NO_ID)
        if calls:
            declared = self._calls[call_id, min(results, calls - 1)]
            if self._open_calls is not None:
                declared = self._open_calls.take(call_id) or declared
        elif self._open_calls is not None:
            declared = self._open_calls.answer(result)
        turn, tool, arguments = declared
        if call_id and (calls or turn is None):
            self._ids[call_id] = last, calls, results + 1
            self._places[call_id, results] = len(self.results)
        before_tool, images = result[:7], result.images
        bound = (tool, images, self._elements, turn, None, arguments)
        self.results.append(make(ToolResult, (*before_tool, *bound, result.client_texts)))


class _OpenCalls(Copyable):
    """The calls of the last turn that no result has answered yet, by id and by tool.

    A call stands in several queues. Once it is taken from one, the others pass it over; so the work
    is linear in the calls, whatever the order of their results.
    """

    def __init__(self) -> None:
        self._number = 0
        self._open: dict[int, _Declared] = {}
        self._queues: defaultdict[tuple[str, str | None], deque[int]] = defaultdict(deque)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        queues = {key: deque(queue) for key, queue in self._queues.items()}
        other._queues = defaultdict(deque, queues)
        return other

    def clear(self) -> None:
        """Forget all calls: a new turn begins."""
        self._open.clear()
        self._queues.clear()

    def add(self, call_id: str, declaration: _Declared) -> None:
        """Add a call of the last turn; its id may be empty."""
        self._number += 1
        self._open[self._number] = declaration
        kinds = ("any",) if call_id else ("any", "without id")
        for key in (("id", call_id), *product(kinds, {None, declaration[1]})):
            self._queues[key].append(self._number)

    def take(self, call_id: str) -> _Declared | None:
        """Take the first open call with an id; None if there is none."""
        return self._take("id", call_id)

    def answer(self, result: ToolResult) -> _Declared:
        """Take the call that a result answers whose id no call has: the next one of its tool.

        A result that names no tool answers the next call. What has two different ids is no pair.
        """
        if result.call_id is None:
            return _UNDECLARED
        kind = "without id" if result.call_id else "any"
        return self._take(kind, result.tool) or _UNDECLARED

    def _take(self, kind: str, name: str | None) -> _Declared | None:
        queue = self._queues.get((kind, name))
        while queue:
            if found := self._open.pop(queue.popleft(), None):
                return found
        return None


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
