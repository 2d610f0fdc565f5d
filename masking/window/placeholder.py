"""The text that takes a result's place: rendering it, recognizing it, and recalling what it hides.

A template is filled by plain substitution. There are no attributes, indices or format
specifications, so a template can reach nothing but these values.
"""

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from masking.errors import ConfigError, printable
from masking.model import IMAGE_PLACEHOLDER, Decision, ToolResult
from masking.tokens import estimate_tokens

SHIPPED_TEMPLATE = "[{tool_name}: {original_chars} chars masked]"
"""What `config.toml` has: about 10 tokens, because it is sent for every masked result."""

UNKNOWN_TOOL = "inconnu"

MAX_NAME_CHARS = 64
"""An id and a tool's name are clipped to this length, so that every placeholder is bounded."""

DEFAULT_ARGUMENTS_CHARS = 120
"""Of 2,125 calls of recorded agents, 3 of 4 that read a file fit into it, and most shell commands.
The others keep their beginning, where paths and programs stand."""

MAX_ARGUMENTS_CHARS = 1_000

RECALL_ID_CHARS = 16
"""The length of a recall id, in hexadecimal digits: with 64 bits, two of a million texts share one
in 1 of 37 million cases. Every placeholder pays for them."""


# Templates

_FIELD = re.compile(r"(\{ *[^{}\s\"']* *\})")
_CHARS, _TOKENS, _LEFT_OUT = "{original_chars}", "{original_tokens}", "{left_out_chars}"
_CALL_ID, _TOOL, _ARGUMENTS, _RECALL = "{tool_call_id}", "{tool_name}", "{arguments}", "{recall}"
_FIELDS = frozenset({_CALL_ID, _TOOL, _ARGUMENTS, _RECALL, _CHARS, _TOKENS})
_MARKER_FIELDS = frozenset({_LEFT_OUT, _CHARS, _ARGUMENTS, _RECALL})
_LONGEST_NUMBER = 20
"""In digits: no text has 10**20 characters."""

_LENGTHS = {
    **dict.fromkeys((_CHARS, _TOKENS, _LEFT_OUT), _LONGEST_NUMBER),
    **dict.fromkeys((_CALL_ID, _TOOL), MAX_NAME_CHARS),
    _RECALL: RECALL_ID_CHARS,
}
_NUMBER, _ID = f"0|[1-9][0-9]{{0,{_LONGEST_NUMBER - 1}}}", f"[0-9a-f]{{{RECALL_ID_CHARS}}}"
_ANY = {_CHARS: _NUMBER, _TOKENS: _NUMBER, _RECALL: _ID}
"""What matches a field of a placeholder whose value only the text tells that it hides."""

_DIGITS = f"[0-9]{{1,{_LONGEST_NUMBER}}}+"
_FOUND = {_LEFT_OUT: _DIGITS, _CHARS: _DIGITS, _RECALL: _ID}
"""What matches a field of a marker in a text, without ever going back."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: of a placeholder, or of the marker in a shortened text.

    pieces: literal texts and fields, alternating; a literal comes first.
    arguments_chars: the arguments are shortened to this length, in code points.
    longest: how many code points it has at most, filled in.
    """

    pieces: tuple[str, ...]
    arguments_chars: int
    longest: int

    @property
    def blanks(self) -> str:
        """The white space at its end."""
        last = self.pieces[-1]
        return last[len(last.rstrip()) :]

    @property
    def names_recall(self) -> bool:
        """Whether it has the id under which the text can be recalled."""
        return _RECALL in self.pieces

    def render(
        self,
        call_id: str,
        tool: str | None,
        text: str,
        arguments: object = None,
        left_out: int = 0,
    ) -> str:
        """Return what stands for a text of this call and tool, or for what is left out of it."""
        values = self._describe_call(call_id, tool, arguments)
        values[_CHARS], values[_LEFT_OUT] = str(len(text)), str(left_out)
        if _RECALL in self.pieces:  # what takes work is only worked out where it is wanted
            values[_RECALL] = recall_id(text)
        if _TOKENS in self.pieces:
            values[_TOKENS] = str(estimate_tokens(text))
        return "".join([values.get(piece, piece) for piece in self.pieces])

    def could_have_rendered(
        self, text: str, call_id: str, tool: str | None, arguments: object = None
    ) -> bool:
        """Whether `text` is this result's placeholder, with any numbers and any recall id."""
        literals = self.pieces[::2]
        if len(text) > self.longest or not all(each in text for each in literals):  # as most texts
            return False
        values = self._describe_call(call_id, tool, arguments)
        known = [values.get(piece, piece) for piece in self.pieces]
        # An expression is made for each result, so only of what has all that it must have.
        if not all(value in text or value in _ANY for value in known):
            return False
        found = []
        for at, piece in enumerate(self.pieces):
            if piece not in _ANY:
                found.append(re.escape(known[at]))
            elif piece in self.pieces[:at]:  # a value is the same at all its places
                found.append(f"(?P={piece[1:-1]})")
            else:
                found.append(f"(?P<{piece[1:-1]}>{_ANY[piece]})")
        return re.fullmatch("".join(found), text) is not None

    def _describe_call(self, call_id: str, tool: str | None, arguments: object) -> dict[str, str]:
        """Return the values of the fields that a call has."""
        values = {
            _CALL_ID: call_id[:MAX_NAME_CHARS],
            _TOOL: (tool or UNKNOWN_TOOL)[:MAX_NAME_CHARS],
        }
        if _ARGUMENTS in self.pieces:
            values[_ARGUMENTS] = render_arguments(arguments, self.arguments_chars)
        return values

    def is_in(self, text: str, arguments: object) -> bool:
        """Whether a text has this call's marker in it, with any numbers and any recall id.

        Blanks around the marker are not asked for: without a tail, those at its end are left out.
        A number ends where its digits end, so a template with a digit or another field right behind
        a number makes markers that are not recognized.
        """
        literals, found = [], []
        for piece in _FIELD.split("".join(self.pieces).strip()):
            if piece in _FOUND:
                found.append(_FOUND[piece])
                continue
            if piece == _ARGUMENTS:
                piece = render_arguments(arguments, self.arguments_chars)
            literals.append(piece)
            found.append(re.escape(piece))
        # Most texts lack one of the literals, and finding that out is cheap at any length. What is
        # searched for then never goes back, so the search is linear, too.
        has_all = all(literal in text for literal in literals)
        return has_all and re.search("".join(found), text) is not None


@functools.lru_cache(64)
def parse_template(template: str, arguments_chars: int = DEFAULT_ARGUMENTS_CHARS) -> Template:
    """Parse a template. Raises ConfigError for an unknown field or a blank template.

    A blank placeholder would leave an empty message, which some providers refuse.
    """
    return _parse(template, arguments_chars, _FIELDS, "placeholder_template")


@functools.lru_cache(64)
def parse_marker(template: str, arguments_chars: int = DEFAULT_ARGUMENTS_CHARS) -> Template:
    """Parse the template of a marker. Raises ConfigError as `parse_template` does."""
    return _parse(template, arguments_chars, _MARKER_FIELDS, "marker_template")


def _parse(template: str, arguments_chars: int, fields: Collection[str], path: str) -> Template:
    if not template.strip():
        raise ConfigError("must not be blank", path)
    pieces = tuple(_FIELD.split(template))
    unknown = next((field for field in pieces[1::2] if field not in fields), None)
    if unknown is not None:
        known = ", ".join(sorted(fields))
        raise ConfigError(f"unknown field {unknown} (known: {known})", path)
    lengths = {**_LENGTHS, _ARGUMENTS: max(arguments_chars, len(_NO_ARGUMENTS))}
    return Template(pieces, arguments_chars, sum(lengths.get(each, len(each)) for each in pieces))


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
    arguments_chars: int = DEFAULT_ARGUMENTS_CHARS
    min_chars: int = 0

    @property
    def parsed(self) -> Template:
        """Its template, parsed."""
        return parse_template(self.template, self.arguments_chars)


def is_placeholder(result: ToolResult, place: int, template: Template) -> bool:
    """Whether a text of a result is its placeholder, or that of an image in it."""
    found, call_id = result.texts[place], result.call_id or ""
    text = found
    if result.tails and result.tails[place].startswith(template.blanks):
        text += template.blanks  # what follows a text takes the blanks before it with it
    is_own = template.could_have_rendered(text, call_id, result.tool, result.arguments)
    return is_own or IMAGE_PLACEHOLDER.fullmatch(found) is not None


# Arguments

_SEEN = 4
"""How many times `max_chars` of a text are looked at, as breaks and indents shrink to a space."""

_DEEPEST = 20
_DOTS = "..."
_NO_ARGUMENTS = "{}"
_BLANKS = re.compile(r"\s+")


def render_arguments(arguments: object, max_chars: int) -> str:
    """Return a call's arguments on one line of at most `max_chars` code points.

    They are a JSON text, or any other text, or a decoded object, which is rendered as JSON. If they
    are cut, three dots end the line. White space becomes one space, and a character that cannot be
    printed U+FFFD. If there are none, `{}`. The work is bounded by `max_chars` alone, as results
    without number may answer one call.
    """
    if isinstance(arguments, str):
        text = arguments
    else:
        # An object is rendered no further than it takes to see that it is too long, however much
        # its white space shrinks.
        pieces, length, shown = [], 0, 0
        for piece in _render_json(arguments, max_chars, 0) if arguments is not None else ():
            pieces.append(piece)
            length += len(piece)
            shown += len(_BLANKS.sub(" ", piece))
            if length > _SEEN * max_chars or shown > max_chars + 1:  # it may end in a blank
                break
        text = "".join(pieces)
    seen = text[: _SEEN * max_chars]
    line = " ".join(seen.split())
    if len(seen) < len(text):
        line += _DOTS
    return printable(clip(line, max_chars)) or _NO_ARGUMENTS


def _render_json(value: object, max_chars: int, depth: int) -> Iterator[str]:
    """Yield a value's JSON in pieces; of each text no more than is needed to see that it is cut."""
    if isinstance(value, str):
        yield json.dumps(value[: _SEEN * max_chars + 1], ensure_ascii=False)
    elif value is None or isinstance(value, (int, float)):
        yield json.dumps(value)
    elif depth == _DEEPEST or not isinstance(value, (dict, list)):
        yield _DOTS
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ", " if place else "["
            yield from _render_json(item, max_chars, depth + 1)
        yield "]" if value else "[]"
    else:
        for place, (key, item) in enumerate(value.items()):
            yield ", " if place else "{"
            yield from _render_json(key, max_chars, depth + 1)
            yield ": "
            yield from _render_json(item, max_chars, depth + 1)
        yield "}" if value else "{}"


def clip(text: str, max_chars: int) -> str:
    """Return at most `max_chars` code points of a text; if it is cut, three dots end it.

    If there is no room for the dots, the text's first code points; below 1, nothing.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_DOTS)
    return text[:room] + _DOTS if room >= 0 else text[: max(0, max_chars)]


# Recall


def recall_id(text: str) -> str:
    """Return the id under which a masked text can be recalled: a digest, the same everywhere."""
    return recall_id_of(encode_text(text))


def recall_id_of(data: bytes) -> str:
    """Return the recall id of a text that `encode_text` has encoded."""
    return blake2b(data, digest_size=RECALL_ID_CHARS // 2).hexdigest()


def encode_text(text: str) -> bytes:
    """Return a text as UTF-8; half of a surrogate pair, which JSON can hold, as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def is_recall_id(text: str) -> bool:
    """Whether a text is one that `recall_id` may return."""
    return re.fullmatch(_ID, text) is not None


def masked_texts(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield each text that the window has replaced, without what follows it and stays.

    Neither images nor what is redacted, reduced or dropped: its placeholder has no id. Nor what is
    of a tool whose results are redacted later, as it has redaction's words.
    """
    for decision in decisions:
        if decision.reason == "masked" and decision.scenario is None:
            yield from decision.result.texts_replaced(decision.replacements)
