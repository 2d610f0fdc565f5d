"""Which call a result answers, and in which tool turn: the contract's section 1, read slowly."""

from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.spoken import Given, Spoken, Where, hear

_LISTS: dict[str, tuple[Where, ...]] = {
    "chat": (("messages",),),
    "ollama": (("messages",),),
    "messages": (("messages",),),
    "converse": (("messages",), ("input", "converse", "messages")),
    "responses": (("input",),),
    "gemini": (
        *(("contents",), ("request", "contents")),
        *(("generateContentRequest", "contents"), ("generate_content_request", "contents")),
    ),
}
_IN_RUNS = ("responses", "gemini")
"""Where consecutive elements of the model are one answer."""

_BY_ORDER = ("ollama", "gemini")
"""Where a result without an id answers the next open call of its tool."""


@dataclass(slots=True)
class Read:
    """A request: what its elements say, and its results.

    places: for each result, that of its element.
    starts: where each answer of the model begins: a request was sent before it.
    turns, counts: how many tool turns and results there are before each element, and in all.
    """

    at: Where
    spoken: list[Spoken] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=lambda: [0])
    counts: list[int] = field(default_factory=lambda: [0])


@dataclass(slots=True)
class _Call:
    call_id: str
    turn: int
    tool: str | None
    arguments: object
    is_open: bool = True


@dataclass(slots=True)
class _Id:
    """An id in the last turn that declared it: its calls there, and the results that it has."""

    calls: list[_Call] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)

    def answer(self) -> None:
        """The nth result answers the nth call, and further ones the last."""
        for number, given in enumerate(self.given):
            call = self.calls[min(number, len(self.calls) - 1)]
            call.is_open = False
            given.turn, given.tool, given.arguments = call.turn, call.tool, call.arguments


def read(name: str, document: Any) -> Read:  # noqa: ANN401 - JSON
    """Read a decoded request in the wire format of this name."""
    path, elements = find_list(name, document)
    found = Read(path)
    declared: dict[str, _Id] = {}
    last: list[_Call] = []
    waiting: list[Given] = []
    turns = 0
    in_answer = in_turn = False
    for place, element in enumerate(elements):
        spoken = hear(name, element, (*path, place))
        is_model = spoken.speaker == "model"
        if is_model and not (in_answer and name in _IN_RUNS):
            found.starts.append(place)
            in_turn = False
        in_answer = is_model
        calls = [call for call in spoken.calls if call.call_id is not None]
        if calls and not in_turn:
            turns += 1
            in_turn = True
            last.clear()
        for call in calls:
            last.append(_Call(call.call_id or "", turns - 1, call.tool, call.arguments))
            if not call.call_id:
                continue
            if call.call_id not in declared or declared[call.call_id].calls[0].turn != turns - 1:
                declared[call.call_id] = _Id()
            known = declared[call.call_id]
            known.calls.append(last[-1])
            for early in [each for each in waiting if each.call_id == call.call_id]:
                early.early = True
                known.given.append(early)
                waiting.remove(early)
            if len(known.given) >= len(known.calls):
                known.answer()
        for given in spoken.given:
            _bind(name, given, declared, last)
            if given.turn is None and given.call_id:
                waiting.append(given)
            found.given.append(given)
            found.places.append(place)
        found.spoken.append(spoken)
        found.turns.append(turns)
        found.counts.append(len(found.given))
    return found


def ends_within_answer(name: str, document: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a request ends with an answer of the model's that another element would go on."""
    spoken = read(name, document).spoken
    return name in _IN_RUNS and bool(spoken) and spoken[-1].speaker == "model"


def _bind(name: str, given: Given, declared: dict[str, _Id], last: list[_Call]) -> None:
    """Bind a result to the nearest earlier call of its id; where ids are left out, by order."""
    by_id = declared.get(given.call_id or "")
    tool, given.tool = given.tool, None
    is_by_order = name in _BY_ORDER and given.call_id is not None
    fits = [each for each in last if is_by_order and each.is_open]
    if by_id:
        by_id.given.append(given)
        call = by_id.calls[min(len(by_id.given), len(by_id.calls)) - 1]
        call = next((each for each in fits if each.call_id == given.call_id), call)
    else:
        fits = [each for each in fits if not (given.call_id and each.call_id)]
        fits = [each for each in fits if tool is None or each.tool == tool]
        if not fits:
            return
        call = fits[0]
    call.is_open = False
    given.turn, given.tool, given.arguments = call.turn, call.tool, call.arguments


def find_list(name: str, document: Any) -> tuple[Where, list[Any]]:  # noqa: ANN401 - JSON
    """Return where the list of a request is, and its elements."""
    for path in _LISTS[name]:
        found = document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return path, found if isinstance(found, list) else []
    return _LISTS[name][0], []
