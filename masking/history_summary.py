"""A summary of the messages that leave a conversation, made without a model.

It only quotes these messages, one line for each item. Tool outcomes come last. They are left out
when a summary is itself summarized, so that a tool's output never becomes the user's words.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest

from masking.model import Element, Speaker, ToolResult
from masking.window.placeholder import clip

BEGIN = "BEGIN_DISPATCH_RESULT"
END = "END_DISPATCH_RESULT"

LABEL = "Summary of earlier history (messages left out: "
"""Every summary begins like this."""

OUTCOMES = "Tool outcomes (quoted output, no instructions):"


def render_summary(
    elements: Sequence[Element], results: Sequence[ToolResult], max_chars: int
) -> str:
    """Summarize the messages in at most `max_chars` code points.

    objective: the first message of the user's that has text.
    constraints: sentences of the user's with one of a few words (must, never, at most, ...).
    open tasks: `- [ ] ...` and `TODO: ...` lines of the user's and the assistant's, except those
        that a later line checks off.
    tool outcomes: how each of the `results` begins; for a dispatch result, its blocks.

    The last three take turns, each with its newest item first, as long as there is room.
    """
    objective = _objective(elements)
    head = f"{LABEL}{len(elements)})" + (f"\n{_OBJECTIVE}{objective}" if objective else "")
    constraints = [line for line in _constraints(elements) if line not in objective]
    sections: dict[str, Iterable[str]] = {
        "Constraints:": reversed(constraints),
        "Open tasks:": reversed(_open_tasks(elements)),
        OUTCOMES: _outcomes(reversed(results)),
    }
    lines = [head]
    for heading, items in _choose(sections, max_chars - len(head)).items():
        if items:
            lines += [heading, *(f"{_BULLET}{item}" for item in reversed(items))]
    return clip("\n".join(lines), max_chars)


_OBJECTIVE = "Objective: "
_BULLET = "- "
_OBJECTIVE_CHARS = 220
_ITEM_CHARS = 120

_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|[\r\n]+")

_CONSTRAINT = re.compile(
    r"\b(?:must|never|always|avoid|at most|at least|(?:do|should) not|(?:do|should)n['’]t|"  # noqa: RUF001 - as people type it
    r"jamais|toujours|doit|doivent)\b",
    re.IGNORECASE,
)

_SIGN = re.compile(r"(?:[-*+]|\d+[.)])[ \t]+")
"""What may precede an item of a list."""

_TASK = re.compile(r"(?:\[(?P<mark>[ xX])\]|TODO\b:?)[ \t]+(?P<task>\S.*)")


def _objective(elements: Iterable[Element]) -> str:
    for text in _words_of(elements, "user"):
        if text.startswith(LABEL):
            _, _, text = text.partition(f"\n{_OBJECTIVE}")
            text = text.partition("\n")[0]
        if line := _to_line(text, _OBJECTIVE_CHARS):
            return line
    return ""


def _constraints(elements: Iterable[Element]) -> list[str]:
    sentences = (
        _strip_sign(sentence).removeprefix(_OBJECTIVE)
        for text in _words_of(elements, "user")
        for sentence in _SENTENCE_ENDS.split(text)
    )
    return [_to_line(s, _ITEM_CHARS) for s in sentences if _CONSTRAINT.search(s)]


def _open_tasks(elements: Iterable[Element]) -> list[str]:
    is_open: dict[str, bool] = {}
    for text in _words_of(elements, "user", "assistant"):
        lines = map(_strip_sign, text.splitlines())
        for found in filter(None, map(_TASK.match, lines)):
            is_open[_to_line(found["task"], _ITEM_CHARS)] = found["mark"] in (None, " ")
    return [f"[ ] {task}" for task, still in is_open.items() if still]


def _outcomes(results: Iterable[ToolResult]) -> Iterator[str]:
    for result in results:
        blocks = find_blocks(result.text)
        text = " ".join(block[len(BEGIN) : -len(END)] for block in blocks) or result.text
        if line := _to_line(text, _ITEM_CHARS):
            yield f"{_to_line(result.tool, _ITEM_CHARS)}: {line}" if result.tool else line


def _words_of(elements: Iterable[Element], *speakers: Speaker) -> Iterator[str]:
    """Yield these speakers' texts, element by element; earlier summaries without their quotes."""
    for element in elements:
        if element.speaker in speakers:
            text = "\n".join(element.texts)
            yield text.partition(f"\n{OUTCOMES}")[0] if text.startswith(LABEL) else text


def _strip_sign(line: str) -> str:
    line = line.strip()
    sign = _SIGN.match(line)
    return line[sign.end() :] if sign else line


def _to_line(text: str, max_chars: int) -> str:
    """Return the beginning of the text on one line, clipped."""
    words = text.split(maxsplit=max_chars)[:max_chars]
    return clip(" ".join(words), max_chars)


def _choose(sections: Mapping[str, Iterable[str]], room: int) -> dict[str, list[str]]:
    """Choose the first item of each section, then the second, and so on while there is room."""
    chosen: dict[str, list[str]] = {heading: [] for heading in sections}
    for row in zip_longest(*sections.values()):
        for heading, item in zip(chosen, row, strict=True):
            if item is None or item in chosen[heading]:
                continue
            room -= len(f"{_BULLET}{item}\n") + (0 if chosen[heading] else len(f"{heading}\n"))
            if room < 0:
                return chosen
            chosen[heading].append(item)
    return chosen


# Dispatch results, which a reduction keeps verbatim.

_MARKER = re.compile(f"{BEGIN}|{END}")


def find_blocks(text: str) -> list[str]:
    """Return the dispatch results of a text, markers included, in order.

    A block runs from a BEGIN marker to an END marker with no other marker between them. So of two
    BEGINs the inner one counts, and a BEGIN without an END is prose.
    """
    marks = list(_MARKER.finditer(text)) if END in text else ()  # few texts have one
    return [
        text[begin.start() : end.end()]
        for begin, end in pairwise(marks)
        if (begin[0], end[0]) == (BEGIN, END)
    ]
