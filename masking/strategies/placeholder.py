"""The text that takes a result's place: rendering it and recognising it.

A template is filled by plain substitution. There are no attributes, indices or format
specifications, so a template can reach nothing but these values.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from masking.errors import ConfigError
from masking.measures.token_estimate import estimate_tokens
from masking.model import ToolResult, describes_image
from masking.strategies.arguments import DEFAULT_CHARS, spell_arguments
from masking.strategies.recall import ID_CHARS, is_recall_id, recall_id

UNKNOWN_TOOL = "inconnu"

MAX_NAME_CHARS = 64
"""An id and a tool's name are clipped to this length, so that every placeholder is bounded."""

_FIELD = re.compile(r"(\{ *[^{}\s\"']* *\})")
_NUMBERS = ("{original_chars}", "{original_tokens}")
_ARGUMENTS, _RECALL = "{arguments}", "{recall}"
_COSTLY = (_ARGUMENTS, _RECALL, _NUMBERS[1])
_FIELDS = frozenset({"{tool_call_id}", "{tool_name}", _ARGUMENTS, _RECALL, *_NUMBERS})
_LONGEST_NUMBER = 20
"""In digits: no text has 10**20 characters."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal texts and fields, alternating; a literal comes first."""

    pieces: tuple[str, ...]
    pattern: str
    """The template in `%` notation, which renders three times as fast as a join."""
    arguments_chars: int = DEFAULT_CHARS
    """The arguments are shortened to this length, in code points."""
    costly: tuple[str, ...] = ()
    """The fields in it whose values take work."""

    @property
    def blanks(self) -> str:
        """The white space at its end."""
        last = self.pieces[-1]
        return last[len(last.rstrip()) :]

    @property
    def names_recall(self) -> bool:
        """Whether the placeholder tells under which id its text can be had back."""
        return _RECALL in self.pieces

    def render(self, call_id: str, tool: str | None, text: str, arguments: object = None) -> str:
        """Return the placeholder for a text of this call and tool."""
        values: dict[str, object] = {
            "tool_call_id": call_id[:MAX_NAME_CHARS],
            "tool_name": (tool or UNKNOWN_TOOL)[:MAX_NAME_CHARS],
            "original_chars": len(text),
        }
        for field in self.costly:
            values[field[1:-1]] = self._find_value(field, text, arguments)
        return self.pattern % values

    def _find_value(self, field: str, text: str, arguments: object) -> object:
        if field == _ARGUMENTS:
            return self._spell_arguments(arguments)
        return recall_id(text) if field == _RECALL else estimate_tokens(text)

    def could_have_rendered(
        self, text: str, call_id: str, tool: str | None, arguments: object = None
    ) -> bool:
        """Whether `text` is this result's placeholder, with any numbers and any recall id."""
        if not text.startswith(self.pieces[0]):
            return False
        values = {
            "{tool_call_id}": call_id[:MAX_NAME_CHARS],
            "{tool_name}": (tool or UNKNOWN_TOOL)[:MAX_NAME_CHARS],
            _ARGUMENTS: self._spell_arguments(arguments),
        }
        return _spell(self.pieces, values, text, 0)

    def _spell_arguments(self, arguments: object) -> str:
        if _ARGUMENTS not in self.pieces:
            return ""
        return spell_arguments(arguments, self.arguments_chars)


def _spell(pieces: Sequence[str], values: Mapping[str, str], text: str, at: int) -> bool:
    """Whether the pieces can spell the rest of the text.

    A number is the same at every place, and so is a recall id.
    """
    for place, piece in enumerate(pieces):
        if piece in _NUMBERS and piece not in values:
            return any(
                _spell(pieces[place:], {**values, piece: number}, text, at)
                for number in _find_numbers(text, at)
            )
        if piece == _RECALL and piece not in values:
            found = text[at : at + ID_CHARS]
            if not is_recall_id(found):
                return False
            values = {**values, piece: found}
        spelled = values.get(piece, piece)
        if not text.startswith(spelled, at):
            return False
        at += len(spelled)
    return at == len(text)


def _find_numbers(text: str, at: int) -> Iterator[str]:
    """Yield the numbers, without leading zeros, that the text may have at this place."""
    for end in range(at + 1, min(at + _LONGEST_NUMBER, len(text)) + 1):
        if text[end - 1] not in "0123456789":
            return
        yield text[at:end]
        if text[at] == "0":
            return


class Rendering(NamedTuple):
    """How placeholders were written: a setting that is changed must not change the old ones.

    in_lists, images: whether the texts of lists were masked, and images.
    arguments_chars: to what length the calls' arguments were shortened.
    min_chars: the length below which texts stayed, which those beside a masked image do.
    """

    template: str
    must_shrink: bool
    in_lists: bool = True
    images: bool = False
    arguments_chars: int = DEFAULT_CHARS
    min_chars: int = 0


def is_placeholder(result: ToolResult, place: int, template: Template) -> bool:
    """Whether a text of a result is its placeholder, or that of an image in it."""
    found, call_id = result.texts[place], result.call_id or ""
    text = found
    if result.tails and result.tails[place].startswith(template.blanks):
        text += template.blanks  # what follows a text takes the blanks before it with it
    is_own = template.could_have_rendered(text, call_id, result.tool, result.arguments)
    return is_own or describes_image(found)


@functools.lru_cache(64)
def parse_template(template: str, arguments_chars: int = DEFAULT_CHARS) -> Template:
    """Parse a template. Raises ConfigError for an unknown field or a blank template.

    A blank placeholder would leave an empty message, which some providers refuse.
    """
    if not template.strip():
        raise ConfigError("must not be blank", "placeholder_template")
    pieces = tuple(_FIELD.split(template))
    unknown = next((field for field in pieces[1::2] if field not in _FIELDS), None)
    if unknown is not None:
        known = ", ".join(sorted(_FIELDS))
        raise ConfigError(f"unknown field {unknown} (known: {known})", "placeholder_template")
    fields = {field: f"%({field[1:-1]})s" for field in _FIELDS}
    pattern = "".join(fields.get(piece, piece.replace("%", "%%")) for piece in pieces)
    costly = tuple(field for field in _COSTLY if field in pieces)
    return Template(pieces, pattern, arguments_chars, costly)
