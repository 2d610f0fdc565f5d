"""Where values stand in a JSON text: those at certain paths, and the elements of a list.

If a key occurs twice, the last one holds. Only what leads to a path is taken apart; the rest is
skipped value by value.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from masking.edit.json_strings import BOM, Number
from masking.model import Path

_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, strict=False
)
_BLANKS = re.compile(r"[ \t\r\n]*")


class Span(NamedTuple):
    """Where a value begins and ends in a text, in code points."""

    start: int
    end: int


@dataclass(slots=True)
class Spans:
    """The values that were asked for, by path, and the elements of the list, in order."""

    values: dict[Path, Span] = field(default_factory=dict)
    elements: list[Span] = field(default_factory=list)


def find_spans(text: str, paths: Iterable[Path], list_path: Path | None = None) -> Spans:
    """Find values in a JSON text, and the elements of the list at `list_path`, if it is given.

    The text must be valid JSON. Raises ValueError if it is nested too deeply, and LookupError for
    a path that leads nowhere.
    """
    wanted = {*paths}
    leading = {path[:length] for path in wanted for length in range(len(path))}
    if list_path is not None:
        leading |= {list_path[:length] for length in range(len(list_path) + 1)}
    finder = _Finder(text, wanted, leading, list_path)
    try:
        finder.find(_skip(text, len(BOM) if text.startswith(BOM) else 0), ())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if finder.spans.values.keys() != wanted:
        raise LookupError("no such value")
    return finder.spans


@dataclass(slots=True)
class _Finder:
    """Walks the text along the paths that are `leading` to what is `wanted`."""

    text: str
    wanted: set[Path]
    leading: set[Path]
    list_path: Path | None
    spans: Spans = field(default_factory=Spans)

    def find(self, start: int, path: Path) -> int:
        """Read the value that begins at `start`; return where it ends."""
        if path in self.leading and self.text[start] in "{[":
            end = self._walk(start, path)
        else:
            _, end = _DECODER.raw_decode(self.text, start)
        if path in self.wanted:
            self.spans.values[path] = Span(start, end)
        return end

    def _walk(self, start: int, path: Path) -> int:
        """Read the members of an object or a list; return where it ends."""
        text, is_object = self.text, self.text[start] == "{"
        members: dict[str | int, Span] = {}
        at = _skip(text, start + 1)
        while text[at] not in "]}":
            key: str | int = len(members)
            if is_object:
                key, at = _DECODER.raw_decode(text, at)
                at = _skip(text, _skip(text, at) + len(":"))
                if key in members:
                    self._forget((*path, key))
            members[key] = Span(at, self.find(at, (*path, key)))
            at = _skip(text, members[key].end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        if path == self.list_path:
            self.spans.elements = [*members.values()]
        return at + 1

    def _forget(self, path: Path) -> None:
        """Forget what was found under a key, because the key occurs again."""
        found = self.spans.values
        self.spans.values = {at: span for at, span in found.items() if at[: len(path)] != path}
        if self.list_path is not None and self.list_path[: len(path)] == path:
            self.spans.elements = []


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at
