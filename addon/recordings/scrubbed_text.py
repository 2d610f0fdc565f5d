"""What becomes of a body's text: every string that is not known to be harmless becomes filler.

Filler has the length of what it replaces. What stays are the names, roles and ids that make up a
conversation's structure, and what is known to be our own (`OwnRecording`). Every other byte of the
text stays as well: object keys, numbers, blanks.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from masking.edit.json_strings import edit_strings
from masking.model import Path as JsonPath

FILLER = "these words stand where other words stood and they say nothing at all; "

_KINDS = ("role", "type", "object", "event", "name", "model", "tool_choice", "service_tier")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "previous_response_id")
_ENDS = ("finish_reason", "finishReason", "stop_reason", "status", "code", "system_fingerprint")
_FORMS = ("required", "$schema", "reasoning_effort", "media_type", "mimeType")
STRUCTURE = frozenset((*_KINDS, *_IDS, *_ENDS, *_FORMS))
"""Keys whose strings stay, as long as they look like identifiers."""

FREE = frozenset(("arguments", "args", "metadata", "response"))
"""Keys below which the names are the user's own, so that none of them is structure. The same holds
for `input`, a call's arguments, except at the root, where it is a conversation."""

LONGEST_IDENTIFIER = 200

_IDENTIFIER = re.compile(r"[\w.:/@#+$-]*", re.ASCII)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")

Spellings = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecording:
    """What may stay in a recording that was made here.

    Tool results and the arguments of calls stay, because they come from our own projects, and so do
    answers, because they come from our own provider.

    server: the host of our own MCP server. All that goes to it and comes from it stays.
    texts: they stay wherever they stand.
    spellings: patterns, and what to write in their place everywhere in the bodies, in this order:
        folders of this machine, numbers that differ from run to run.
    """

    server: str | None = None
    texts: frozenset[str] = frozenset()
    spellings: Spellings = ()


def scrub_request(text: str, own: OwnRecording | None = None) -> str:
    """Return the text of a request's body with what may be published of it."""
    edited = _edit_strings(text, _Rule(_roles(text), own).edit)
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


def _roles(text: str) -> tuple[object, ...]:
    """Return the roles of a request's messages, as far as it has any."""
    try:
        messages = json.loads(text)["messages"]
        return tuple(each.get("role") if isinstance(each, dict) else None for each in messages)
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of each string of a body."""

    roles: tuple[object, ...] = ()
    own: OwnRecording | None = None

    def edit(self, path: JsonPath, value: str) -> str:
        if self._is_structure(path, value) or (self.own and self._is_own(path)):
            return value
        if path[-1:] == ("arguments",) and value.lstrip()[:1] == "{":
            return _edit_strings(value, lambda _, inner: fill(inner))
        texts = self.own.texts if self.own else ()
        kept = next((text for text in texts if text in value), None)
        return fill(value) if kept is None else kept.join(map(fill, value.split(kept)))

    def _is_structure(self, path: JsonPath, value: str) -> bool:
        keys = [step for step in path if isinstance(step, str)]
        if not keys or keys[-1] not in STRUCTURE or not FREE.isdisjoint(keys[:-1]):
            return False
        match path:
            case ("messages", int(index), "name") if self._role(index) not in ("tool", "function"):
                return False  # a person's, not a tool's
        return "input" not in keys[1:-1] and _is_identifier(value)

    def _is_own(self, path: JsonPath) -> bool:
        match path:
            case ("messages", int(index), "content", *_):
                return self._role(index) == "tool"
            case ("messages", int(), "tool_calls", int(), "function", "arguments"):
                return True
        return False

    def _role(self, index: int) -> object:
        return self.roles[index] if index < len(self.roles) else None


def _is_identifier(value: str) -> bool:
    return len(value) <= LONGEST_IDENTIFIER and bool(_IDENTIFIER.fullmatch(value))
