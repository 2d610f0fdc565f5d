"""Which call a result answers, and in which tool turn."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Self

import orjson

from masking.elements import Call, Element, Result
from masking.history import UNSTABLE_TAIL, Copyable, Fold, History
from masking.model import Path, ToolResult, make
from masking.wire_format import WireFormat


def bind(
    history: History, elements: Sequence[Element], wire: WireFormat, list_path: Path = ()
) -> tuple[int, tuple[ToolResult, ...]]:
    """Count the tool turns, and bind the results to them.

    Ids are reused in real traffic. So a result belongs to the nearest earlier turn that declared
    its id, or, if it comes before its call, to the first later turn that does. Where a format has
    no ids, or a client drops them, results answer the calls of the last turn by name and order.
    """
    binder = history.fold(_Binder, elements, wire, list_path, unstable_tail=UNSTABLE_TAIL)
    return binder.turns, tuple(binder.results)


class _Binder(Fold[Element]):
    """The elements so far: their turns, their results, and the calls that later ones may answer."""

    def __init__(self, wire: WireFormat, list_path: Path) -> None:
        self.turns = 0
        self.results: list[ToolResult] = []
        self._wire = wire
        self._list_path = list_path
        self._elements = 0
        self._declared: dict[str | None, _Declared] = {}
        self._waiting: dict[str, list[int]] = {}
        """By id, the results that came before their call."""
        self._open_calls = _OpenCalls()
        self._counts_on = False

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        other._waiting = {call_id: [*places] for call_id, places in self._waiting.items()}
        return other

    def take(self, element: Element) -> None:
        """Bind the results of the next element."""
        speaker, _, calls, found, _ = element
        if speaker != "assistant":
            self._counts_on = False
        elif ids := [call_id for call_id, _, _ in calls if call_id is not None]:
            self._declare(calls, ids)
        for result in found:
            self.results.append(self._bind(result))
        self._elements += 1

    def _declare(self, calls: Sequence[Call], ids: Sequence[str]) -> None:
        """Add the calls of an answer, or of the next part of one."""
        if not self._counts_on:
            self.turns += 1
            self._open_calls.clear()
        self._counts_on = self._wire.answers_in_runs
        for call in calls:
            if call.call_id is not None:
                declaration = (self.turns - 1, call.tool, call.arguments)
                if call.call_id:
                    self._declared[call.call_id] = declaration
                if self._wire.pairs_by_order:
                    self._open_calls.add(call.call_id, declaration)
        for answered in ids if self._waiting else ():
            for early in self._waiting.pop(answered, ()):
                self.results[early] = _bind_late(self.results[early], self._declared[answered])

    def _bind(self, result: Result) -> ToolResult:
        """Return a result of the current element, bound to its call."""
        call_id, kind, texts, slots, is_error, wrap, tails, _, images = result
        if self._wire.pairs_by_order:
            turn, tool, arguments = self._open_calls.answer(result, self._declared)
        else:
            turn, tool, arguments = self._declared.get(call_id, _UNDECLARED)
        if turn is None and call_id:
            self._waiting.setdefault(call_id, []).append(len(self.results))
        place, found = (*self._list_path, self._elements), (kind, texts, is_error)
        bound = (place, slots, call_id, tool, turn, *found, None, wrap, tails, images, arguments)
        return make(ToolResult, bound)


_Declared = tuple[int | None, str | None, object]
"""The last turn that declared an id, the tool it called there, and the arguments."""

_UNDECLARED: _Declared = (None, None, None)


def _bind_late(result: ToolResult, declared: _Declared) -> ToolResult:
    """Return a result that came before its call, bound to it."""
    turn, tool, arguments = declared
    return result._replace(turn=turn, tool=tool, arguments=arguments)


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
        number = self._number
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


def read_arguments(arguments: object) -> Mapping[str, object]:
    """Return a call's arguments by name; none if they are no JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return {}
    return arguments if isinstance(arguments, dict) else {}


def find_target(result: ToolResult, names: Sequence[str]) -> ToolResult:
    """Return a result with its target: the first of these arguments that is a non-empty string."""
    arguments = result.arguments
    if isinstance(arguments, str) and not any(f'"{name}"' in arguments for name in names):
        return result
    found = read_arguments(arguments)
    paths = (found.get(name) for name in names)
    path = next((path for path in paths if isinstance(path, str) and path), None)
    return result if path is None else result._replace(target=(result.tool, path))
