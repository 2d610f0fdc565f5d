"""What becomes of a body's text: every string that is not known to be harmless becomes filler.

Filler has the length of what it replaces. What stays are the names, roles and ids that make up a
conversation's structure, and what is known to be our own (`OwnRecording`). Every other byte of the
text stays as well: object keys, numbers, blanks. What a wire format adds to this is a row in
`OWN_PLACES`, and its words in `STRUCTURE`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from masking.edit import edit_strings
from masking.model import Path as JsonPath

FILLER = "these words stand where other words stood and they say nothing at all; "

_KINDS = ("role", "type", "object", "event", "name", "model", "tool_choice", "service_tier")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "previous_response_id")
_ENDS = ("finish_reason", "finishReason", "stop_reason", "status", "code", "system_fingerprint")
_FORMS = ("required", "$schema", "reasoning_effort", "media_type", "mimeType")
_MESSAGES = ("ttl", "scope", "keep", "effort", "display", "prefix_mismatch_behavior")
_GOOGLE = ("mode", "thinkingLevel", "tool_name")
STRUCTURE = frozenset((*_KINDS, *_IDS, *_ENDS, *_FORMS, *_MESSAGES, *_GOOGLE))
"""Keys whose strings stay, as long as they look like identifiers."""

FREE = frozenset(("arguments", "args", "metadata", "response"))
"""Keys below which the names are the user's own, so that none of them is structure. The same holds
for `input`, a call's arguments, except at the root, where it is a conversation."""

_EVENTS = "response"
"""At the root, the whole answer: in events of Responses, and of Code Assist."""

LONGEST_IDENTIFIER = 200

ANY = "*"
"""Stands for any index in a path."""


class OwnPlace(NamedTuple):
    """Where a request repeats what the agent's own tools were asked, or what they gave back.

    path: of the text, or of what holds it.
    having: a key that the object with the path's last key must have, and its value.
    """

    path: JsonPath
    having: tuple[str, str] | None = None


_BLOCK = ("messages", ANY, "content", ANY)
_PART = ("contents", ANY, "parts", ANY)

OWN_PLACES = (
    # Chat Completions
    OwnPlace(("messages", ANY, "content"), ("role", "tool")),
    OwnPlace(("messages", ANY, "tool_calls", ANY, "function", "arguments")),
    # Messages
    OwnPlace((*_BLOCK, "content"), ("type", "tool_result")),
    OwnPlace((*_BLOCK, "input"), ("type", "tool_use")),
    # Responses
    *(
        OwnPlace(("input", ANY, key))
        for key in ("output", "arguments", "input", "action", "operation")
    ),
    # Gemini, and Code Assist, which has it one level deeper
    OwnPlace((*_PART, "functionResponse", "response")),
    OwnPlace((*_PART, "functionCall", "args")),
    OwnPlace(("request", *_PART, "functionResponse", "response")),
    OwnPlace(("request", *_PART, "functionCall", "args")),
)
"""In a recording that was made here, what stands there is our own."""

_IDENTIFIER = re.compile(r"[\w.:/@#+$-]*", re.ASCII)
_EMAIL = re.compile(r"@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}", re.ASCII)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")

Spellings = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecording:
    """What may stay in a recording that was made here.

    Tool results and the arguments of calls stay, because they come from our own projects, and so do
    answers, because they come from our own provider.

    server: the host of our own MCP server. All that goes to it and comes from it stays.
    texts: they stay wherever they stand.
    foreign: patterns of what clients put into their tools' results in their own words; the words,
        which are the pattern's last group, become filler.
    spellings: patterns, and what to write in their place everywhere in the bodies, in this order:
        folders of this machine, numbers that differ from run to run.
    """

    server: str | None = None
    texts: frozenset[str] = frozenset()
    foreign: tuple[re.Pattern[str], ...] = ()
    spellings: Spellings = ()


def scrub_request(text: str, own: OwnRecording | None = None) -> str:
    """Return the text of a request's body with what may be published of it."""
    edited = _edit_strings(text, _Rule(_read(text), own).edit)
    return edited if own is None else respell(edited, own.spellings)


def scrub_response(text: str, own: OwnRecording | None = None) -> str:
    """Return the text of a response's body, a document or an event stream, in the same way."""
    if own is not None:
        return respell(text, own.spellings)
    if text.lstrip()[:1] in ("{", "["):
        return _edit_strings(text, _Rule().edit)
    return "".join(map(_edit_line, _LINES.findall(text)))


def fill(text: str) -> str:
    """Return filler of the same length; the line breaks stay where they are."""
    words = FILLER * (len(text) // len(FILLER) + 1)
    return "".join(old if old in "\r\n" else new for old, new in zip(text, words, strict=False))


def respell(text: str, spellings: Spellings) -> str:
    """Return the text with each pattern replaced by what stands beside it, in order."""
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def _edit_line(line: str) -> str:
    """Edit a line of an event stream: `event: NAME`, `data: JSON` or `data: [DONE]`."""
    field, colon, value = line.partition(":")
    if field == "data":
        done = value.strip() == "[DONE]"
        return line if done else field + colon + _edit_strings(value, _Rule().edit)
    return line if field == "event" and _is_identifier(value.strip()) else fill(line)


def _edit_strings(text: str, edit: Callable[[JsonPath, str], str]) -> str:
    """Edit the strings of a JSON text; a text that is not JSON becomes filler as a whole."""
    try:
        return edit_strings(text, edit)
    except ValueError:
        return fill(text)


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of each string of a body; of a request, `document` is all of it."""

    document: object = None
    own: OwnRecording | None = None

    def edit(self, path: JsonPath, value: str) -> str:
        if self._is_structure(path, value):
            return value
        if self.own and self._is_own(path):
            return fill_foreign(value, self.own.foreign)
        if path[-1:] == ("arguments",) and value.lstrip()[:1] == "{":
            return _edit_strings(value, lambda _, inner: fill(inner))
        texts = self.own.texts if self.own else ()
        kept = next((text for text in texts if text in value), None)
        return fill(value) if kept is None else kept.join(map(fill, value.split(kept)))

    def _is_structure(self, path: JsonPath, value: str) -> bool:
        keys = [step for step in path if isinstance(step, str)]
        if keys[:1] == [_EVENTS]:
            keys = keys[1:]
        if not keys or keys[-1] not in STRUCTURE or not FREE.isdisjoint(keys[:-1]):
            return False
        match path:
            case ("messages", int(), "name") if not self._is_tools(path[:-1]):
                return False  # a person's, not a tool's
        return "input" not in keys[1:-1] and _is_identifier(value)

    def _is_tools(self, message: JsonPath) -> bool:
        return any(self._has(message, "role", role) for role in ("tool", "function"))

    def _is_own(self, path: JsonPath) -> bool:
        return any(self._stands_at(path, place) for place in OWN_PLACES)

    def _stands_at(self, path: JsonPath, place: OwnPlace) -> bool:
        start = path[: len(place.path)]
        if len(start) < len(place.path) or not all(map(_is_step, start, place.path)):
            return False
        return place.having is None or self._has(start[:-1], *place.having)

    def _has(self, path: JsonPath, key: str, value: str) -> bool:
        """Whether the object at a path has this value at a key."""
        found: Any = self.document
        try:
            for step in path:
                found = found[step]
        except (LookupError, TypeError):  # of keys that stand twice, only the last are there
            return False
        return isinstance(found, dict) and found.get(key) == value


def fill_foreign(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    """Return the text with filler for the last group of each pattern."""
    for pattern in patterns:
        text = pattern.sub(_fill_last_group, text)
    return text


def _fill_last_group(found: re.Match[str]) -> str:
    start, end = (place - found.start() for place in found.span(found.re.groups))
    return found[0][:start] + fill(found[0][start:end]) + found[0][end:]


def _is_step(step: str | int, expected: str | int) -> bool:
    return isinstance(step, int) if expected == ANY else step == expected


def _is_identifier(value: str) -> bool:
    if len(value) > LONGEST_IDENTIFIER or _EMAIL.search(value):
        return False
    return bool(_IDENTIFIER.fullmatch(value))
