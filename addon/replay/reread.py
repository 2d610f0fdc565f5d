"""The re-read signal: calls that refer to what the model could no longer see when it made them.

A call refers to tool results in three ways. It repeats an earlier call, with the same tool and the
same arguments, whose results are all masked. Its arguments have a name that the request showed in
masked results alone. Or they have a whole line, of at least 16 characters, that it showed in
masked results alone. A name is a path, a file name or an identifier of at least eight characters.

Each may be a coincidence, and a recording made without masking has such calls, too, because the
model had seen the results. So this is a sign of what a policy may cost, not a count of what it
broke. A quote is the clearest sign: an agent cannot write a line that it no longer sees, and has to
read it again.

What was left out of a result at arrival is a place of its own, `left_out_of` the result: its head
and tail show what they show, and the rest is hidden from the first request on. What such a part
alone shows counts as left out, what is masked besides as masked. A call that repeats others counts
as masked if all of their results are.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import NamedTuple

from masking.accounting import Places
from masking.arrival import ArrivalPolicy, find_cut, shorten_result
from masking.conversation import Conversation
from masking.model import Call, Element, ToolResult
from masking.window import CallKey, call_key

NEVER = sys.maxsize
"""The number of a request that never comes."""

_LEAST_NAME_CHARS = 8
_RUN = re.compile(rf"[\w./-]{{{_LEAST_NAME_CHARS},}}")
_ENDS = "./-"


def left_out_of(place: int) -> int:
    """Return the place of what may be left out of the tool result at a place; and back again."""
    return ~place


class Reference(NamedTuple):
    """The tool results that a call refers to, by their places in the request, counted from 0.

    A name or line that only the middle of a long result shows, is at `left_out_of` its place.

    request: the number of the request that the call answers.
    repeats: the results of equal calls before it.
    names: for each name in its arguments, the results that alone show it.
    quotes: for each line in its arguments, the results that alone show it.
    """

    request: int
    repeats: Places
    names: tuple[Places, ...]
    quotes: tuple[Places, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereads:
    """How many calls there were, and how many of them repeated, named or quoted what was hidden.

    `either` counts calls that repeated or named, `affected` those that did any of the three.
    """

    calls: int = 0
    repeated: int = 0
    named: int = 0
    quoted: int = 0
    either: int = 0
    affected: int = 0

    def __add__(self, other: "Rereads") -> "Rereads":
        """Return the counts of two groups of calls together."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Rereads(**sums)


NO_REREADS = Rereads()


def find_references(
    conversation: Conversation, answers: Mapping[int, int], arrival: ArrivalPolicy | None = None
) -> tuple[Reference, ...]:
    """Return what each call that answers a request refers to, in order.

    `answers` has, by the position of an element that answered a request, the number of the request.
    `arrival` says what is left out of a result, if it is shortened; None if none is. Linear in the
    request, unless a call is made again and again.
    """
    elements, tools = conversation.elements, conversation.wire.find_tools(conversation.body)
    shown = _Shown([call for at in answers for call in map(_read_call, elements[at].calls)])
    shown.show([_compact(tools), *_leaves(tools)])
    results_of = defaultdict[int, list[int]](list)
    for place, result in enumerate(conversation.results):
        results_of[result.element].append(place)
    references = []
    for at, (element, item) in enumerate(zip(elements, conversation.items, strict=True)):
        if at in answers:
            references += [
                shown.find_reference(call, answers[at]) for call in map(_read_call, element.calls)
            ]
        for place in results_of[at]:
            shown.add_result(place, conversation.results[place], arrival)
        if not element.results:
            shown.add_message(element, item)
    return tuple(references)


def count_rereads(
    references: Iterable[Reference],
    first_masked: Sequence[int],
    shortened: Collection[int] = (),
) -> Rereads:
    """Count the calls that refer to what is masked.

    `first_masked` has for each tool result the request from which on it is masked; `shortened` are
    the places of those that are shortened.
    """

    def are_repeats_masked(places: Places, request: int) -> bool:
        return _are_masked(places, first_masked, request)

    def are_masked(places: Places, request: int) -> bool:
        if not shortened:
            return _are_masked(places, first_masked, request)
        hidden = _are_hidden(places, first_masked, request, shortened)
        return hidden and not _are_left_out(places, shortened)

    return _count(references, are_repeats_masked, are_masked)


def count_left_out(
    references: Iterable[Reference], first_masked: Sequence[int], shortened: Collection[int]
) -> Rereads:
    """Count the calls that refer to what was left out at arrival, and not to what is masked."""

    def are_repeats_shortened(places: Places, request: int) -> bool:
        hidden = all(at in shortened or first_masked[at] <= request for at in places)
        return hidden and bool(places) and not _are_masked(places, first_masked, request)

    def are_left_out(places: Places, _: int) -> bool:
        return _are_left_out(places, shortened)

    return _count(references, are_repeats_shortened, are_left_out)


_IsHidden = Callable[[Places, int], bool]


def _count(
    references: Iterable[Reference], are_repeats_hidden: _IsHidden, are_hidden: _IsHidden
) -> Rereads:
    calls = repeated = named = quoted = either = affected = 0
    for request, repeats, names, quotes in references:
        is_repeated = are_repeats_hidden(repeats, request)
        is_named = any(are_hidden(places, request) for places in names)
        is_quoted = any(are_hidden(places, request) for places in quotes)
        calls += 1
        repeated += is_repeated
        named += is_named
        quoted += is_quoted
        either += is_repeated or is_named
        affected += is_repeated or is_named or is_quoted
    return Rereads(
        calls=calls,
        repeated=repeated,
        named=named,
        quoted=quoted,
        either=either,
        affected=affected,
    )


def _are_masked(places: Places, first_masked: Sequence[int], request: int) -> bool:
    """Whether all of them are masked; checks the latest first, which most often is not."""
    return bool(places) and all(
        first_masked[place if place >= 0 else left_out_of(place)] <= request
        for place in reversed(places)
    )


def _are_hidden(
    places: Places, first_masked: Sequence[int], request: int, shortened: Collection[int]
) -> bool:
    """Whether all of them are masked or left out."""
    return bool(places) and all(
        (place < 0 and left_out_of(place) in shortened)
        or first_masked[place if place >= 0 else left_out_of(place)] <= request
        for place in reversed(places)
    )


def _are_left_out(places: Places, shortened: Collection[int]) -> bool:
    """Whether all of them are left out, so that the agent has seen none."""
    return bool(places) and all(
        place < 0 and left_out_of(place) in shortened for place in reversed(places)
    )


class _Call(NamedTuple):
    """A call: its id, if it has one, and a key that is the same for equal calls.

    `names` and `lines` are those in its arguments.
    """

    call_id: str | None
    key: CallKey
    names: frozenset[str]
    lines: frozenset[str]


class ShownTexts:
    """Where a conversation has shown certain names or lines so far.

    What a tool result shows can be masked; what other messages show cannot. So places are kept for
    tool results only. What is not `wanted` is ignored and takes no memory.
    """

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._shown: set[str] = set()
        self._results_with: defaultdict[str, list[int]] = defaultdict(list)

    def show(self, found: Iterable[str]) -> None:
        """Add what is shown by a message that is never masked."""
        self._shown |= self._wanted.intersection(found)

    def show_result(self, place: int, found: Iterable[str]) -> None:
        """Add what the tool result at this place shows."""
        for each in self._wanted.intersection(found):
            self._results_with[each].append(place)

    def find_results(self, found: frozenset[str]) -> tuple[Places, ...]:
        """Return the places of the results that showed each of these, without duplicates.

        What another message showed, and what nothing showed, is left out.
        """
        holders = {tuple(self._results_with.get(each, ())) for each in found - self._shown}
        return tuple(sorted(holders - {()}))


class _Shown:
    """Which of the names and lines of its calls a conversation has shown so far."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._names = ShownTexts(frozenset(name for call in calls for name in call.names))
        self._lines = ShownTexts(frozenset(line for call in calls for line in call.lines))
        self._key_of: dict[str | None, CallKey] = {}
        self._results_of: defaultdict[CallKey, list[int]] = defaultdict(list)

    def find_reference(self, call: _Call, request: int) -> Reference:
        return Reference(
            request,
            tuple(self._results_of.get(call.key, ())),
            self._names.find_results(call.names),
            self._lines.find_results(call.lines),
        )

    def add_result(self, place: int, result: ToolResult, arrival: ArrivalPolicy | None) -> None:
        for shown, find in ((self._names, _find_all_names), (self._lines, find_shown_lines)):
            kept = None if arrival is None else _find_kept(result, arrival)
            if kept is None:
                shown.show_result(place, find(result.texts))
            else:
                visible = {*find(kept)}
                shown.show_result(place, visible)
                shown.show_result(left_out_of(place), {*find(result.texts)} - visible)
        if result.call_id in self._key_of:
            self._results_of[self._key_of[result.call_id]].append(place)

    def add_message(self, element: Element, item: object) -> None:
        self.show(_leaves(item))
        for call in map(_read_call, element.calls):
            self._names.show(call.names)
            self._lines.show(call.lines)
            if call.call_id is not None:
                self._key_of[call.call_id] = call.key

    def show(self, texts: Iterable[str]) -> None:
        shown = [*texts]
        self._names.show(_find_all_names(shown))
        self._lines.show(find_shown_lines(shown))


def _find_kept(result: ToolResult, arrival: ArrivalPolicy) -> list[str] | None:
    """Return the texts of a result as they are if it is shortened; None if it cannot be."""
    if not any(len(text) > arrival.max_chars for text in result.texts):
        return None
    if not shorten_result(result, arrival.words):
        return None
    kept: list[str] = []
    for text in result.texts:
        if len(text) > arrival.max_chars:
            end, start = find_cut(text, arrival.head_chars, arrival.tail_chars)
            kept += text[:end], text[start:]
        else:
            kept.append(text)
    return kept


def _find_all_names(texts: Iterable[str]) -> Iterator[str]:
    return (name for text in texts for name in _find_names(text))


def _find_names(text: str) -> Iterator[str]:
    for run in _RUN.findall(text):
        parts = run.split("/")
        for name in (run, *parts) if len(parts) > 1 else parts:
            stripped = name.strip(_ENDS)
            if len(stripped) < _LEAST_NAME_CHARS:
                continue
            # A name is more than a word, which is all letters, in lower case after the first.
            if not stripped.isalpha() or stripped[1:] != stripped[1:].lower():
                yield stripped


def _read_call(call: Call) -> _Call:
    value = call.arguments
    if isinstance(value, str):  # JSON, unless the model made a mistake
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    texts = [*_leaves(value)]
    return _Call(
        call.call_id,
        call_key(call.tool, call.arguments),
        frozenset(_find_all_names(texts)),
        frozenset(find_quoted_lines(texts)),
    )


def _compact(value: object) -> str:
    """Return a value as JSON, equal for equal values; empty if it cannot be written."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def _leaves(value: object) -> Iterator[str]:
    """Yield the strings and the numbers in a JSON value, without its keys."""
    left = [value]
    while left:
        match left.pop():
            case dict() as members:
                left += members.values()
            case list() as items:
                left += items
            case str() as text:
                yield text
            case int() | float() as number:
                yield str(number)


# Quotes: lines that a call copies, such as the text that an edit replaces

LEAST_QUOTED_CHARS = 16
"""A shorter line, without the blanks around it, is equal to another by chance. In 52 recorded
conversations, of the lines in arguments that some result of the same project had shown, results of
unrelated projects had shown 23% of those with 4 to 7 characters (`return;`), 4% of those with 12 to
15, and 0.1% of those with 16 or more."""

_LINE_NUMBER = re.compile(r"\s*\d+(?:→|[:\t|-])")
"""A line's number, as tools write it that read or search files; an edit quotes the line without."""

_DIFF_SIGNS = ("-", "+")


def find_shown_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines that texts show; a numbered line also without its number."""
    for text in texts:
        for line in text.splitlines():
            yield from _keep_long(line)
            if numbered := _LINE_NUMBER.match(line):
                yield from _keep_long(line[numbered.end() :])


def find_quoted_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines in the arguments of a call; a line of a patch also without its sign."""
    for text in texts:
        for line in text.splitlines():
            yield from _keep_long(line)
            if line.startswith(_DIFF_SIGNS):
                yield from _keep_long(line[1:])


def _keep_long(line: str) -> Iterator[str]:
    stripped = line.strip()
    if len(stripped) >= LEAST_QUOTED_CHARS:
        yield stripped
