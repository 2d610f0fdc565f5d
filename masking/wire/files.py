"""Conversations in files, and the requests that they stand for.

A conversation is an object with the list of its format. What tells the formats of such files apart
is data; a sign of a format that is not read is an error, because its tool calls would not be found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from masking.conversation import find_answers
from masking.wire.formats import FORMATS
from masking.wire_format import WireFormat

_WIRES = {wire.name: wire for wire in FORMATS}


class FileForm(NamedTuple):
    """How a conversation of a format stands in a file.

    title: the format's name in messages.
    key: where its list is.
    head: what else of a file belongs to its requests, in their order; what is null is left out.
    path: the path of its requests, with the model in it where it belongs there.
    """

    title: str
    wire: WireFormat
    key: str
    head: tuple[str, ...]
    path: str = ""


CHAT = FileForm("messages of Chat Completions", _WIRES["chat"], "messages", ("tools",))
_MESSAGES = FileForm("messages of Anthropic", _WIRES["messages"], "messages", ("system", "tools"))
_RESPONSES = FileForm(
    "items of OpenAI Responses", _WIRES["responses"], "input", ("instructions", "tools")
)
_GEMINI = FileForm(
    "contents of Gemini",
    _WIRES["gemini"],
    "contents",
    ("systemInstruction", "tools"),
    "/v1beta/models/{model}:generateContent",
)
_OTHERS = {form.key: form for form in (_RESPONSES, _GEMINI)}

_LISTS = ("messages", *_OTHERS)


def find_form(document: Mapping[str, object], place: str) -> FileForm:
    """Return the form of a conversation. Raises ValueError with the place if there is none."""
    key = next((key for key in _LISTS if key in document), None)
    if key is None:
        found = next((name for key, name in _UNREAD_LISTS.items() if key in document), None)
        hint = "got one without" if found is None else f"got what looks like {found}"
        raise ValueError(f"{place}: expected object with messages, {hint}")
    if key != "messages":
        return _OTHERS[key]
    return _MESSAGES if _is_of_anthropic(document[key]) else CHAT


def are_messages(items: Sequence[object]) -> bool:
    """Whether a list has messages rather than conversations."""
    first = items[0] if items else None
    return isinstance(first, dict) and not first.keys() & _LISTS and bool(first.keys() & _SPEAKS)


def as_document(items: Sequence[object]) -> dict[str, object]:
    """Return a conversation of which only the list is known."""
    kinds = {key for item in items if isinstance(item, dict) for key in item}
    return {next((key for key, sign in _SIGNS.items() if sign in kinds), "messages"): items}


def parse_items(
    document: Mapping[str, object], form: FileForm, place: str
) -> tuple[dict[str, object], ...]:
    """Return a conversation's list. Raises ValueError with the place of a mistake."""
    items = document[form.key]
    if not isinstance(items, list):
        got = type(items).__name__
        raise ValueError(f"{place}: expected list, got {got} in '{form.key}'")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            got = type(item).__name__
            raise ValueError(f"{place}: expected object, got {got} in '{form.key}[{index}]'")
        if form.key == "messages" and (problem := _find_other_format(item)) is not None:
            raise ValueError(
                f"{place}: expected {form.title}, got {problem} in '{form.key}[{index}]'"
            )
    if items and form.key == "messages" and not any(_has_role(item) for item in items):
        raise ValueError(f"{place}: expected {form.title}, got none with a role")
    return tuple(items)


def write_requests(
    items: Sequence[Mapping[str, object]],
    form: FileForm,
    others: Mapping[str, object],
    write: Callable[[object], bytes],
) -> Iterator[bytes]:
    """Yield the body of the request that each answer of the assistant followed, oldest first.

    It has the elements before that answer, between `model` and what else is in `others`. An answer
    that opens the conversation answers nothing. `write` spells JSON.
    """
    frame = {"model": others.get("model"), form.key: [], **others}
    filled = {key: value for key, value in frame.items() if value is not None}
    before, slot, after = write(filled).partition(b'"%s":[' % form.key.encode())
    elements = [form.wire.read_element(item) for item in items]
    answers = {a.start for a in find_answers(elements, in_runs=form.wire.answers_in_runs)}
    body = bytearray(before + slot)
    for index, item in enumerate(items):
        if index in answers and index:
            yield b"".join((body, after))
        body += (b"," if index else b"") + write(item)


_UNREAD_LISTS = {
    "conversations": "ShareGPT (conversations)",
    "mapping": "an export of ChatGPT (mapping)",
}
"""Where formats have their messages that are not read."""

_SPEAKS = ("role", "type")
_SIGNS = {"contents": "parts", "input": "call_id"}
"""A key that elements of a format have and messages do not."""

_OF_ANTHROPIC = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
"""Types of content parts that Messages has and Chat Completions does not."""

_OTHER_PARTS = {
    **dict.fromkeys(("input_text", "output_text"), "a part of OpenAI Responses"),
    **dict.fromkeys(("tool-call", "tool-result"), "a part of the AI SDK"),
}
"""Types of content parts that neither has, and that carry what we count."""


def _is_of_anthropic(messages: object) -> bool:
    items = messages if isinstance(messages, list) else []
    return any(kind in _OF_ANTHROPIC for item in items for kind in _find_types(item))


def _find_types(message: object) -> list[object]:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else []
    return [kind for p in parts if isinstance(p, dict) and isinstance(kind := p.get("type"), str)]


def _has_role(message: Mapping[str, object]) -> bool:
    return isinstance(message.get("role"), str)


def _find_other_format(message: Mapping[str, object]) -> str | None:
    """Return the sign that a message is of another format, whose tool calls would not be found."""
    if "parts" in message and "content" not in message:
        return "one with parts in place of content"
    types = _find_types(message)
    return next((name for kind, name in _OTHER_PARTS.items() if kind in types), None)
