"""Conversations in the form of a wire format, read from JSON or JSON lines, gzipped or not.

Tables say how to recognize the format of a file. The sign of a format that is not read is an error,
because its tool calls would not be found. Any mistake in a file raises a ValueError that names the
place and never repeats content.
"""

import codecs
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import orjson

from addon.replay.disk import bound, open_regular
from addon.replay.replay import RecordedRequest
from masking.conversation import find_answers
from masking.model import ChatMessage
from masking.wire import FORMATS, WireFormat

_GZIP = b"\x1f\x8b"
_NAMES_OF_LINES = frozenset({".jsonl", ".ndjson"})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedConversation:
    """One conversation of a file; a `Session`.

    place: `FILE`, `FILE:LINE`, or `FILE#n` for the n-th of a list.
    tools, model: None if the conversation has none.
    form: the format that it is in.
    head: what else its requests have beside the messages, such as a system prompt.
    when: the time at which it was read, because files have no times.
    size: about how many bytes of the file it takes, packed if they are.
    """

    name: str
    place: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[object, ...] | None = None
    model: str | None = None
    form: FileForm = CHAT
    head: Mapping[str, object] = field(default_factory=dict)
    when: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    size: int = field(default=0, compare=False)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield a request for each answer of the assistant: the messages before it.

        An answer that opens the conversation answers nothing, and what follows the last one was not
        answered; neither makes a request. So a conversation without an answer has none. Raises
        ValueError if a message is nested too deeply to be written. NaN and the infinities, which
        JSON does not have, may be written as null.
        """
        key, wire = self.form.key, self.form.wire
        frame = {"model": self.model, key: [], **self.head, "tools": self.tools}
        filled = {name: value for name, value in frame.items() if value is not None}
        before, slot, after = self._write(filled).partition(b'"%s":[' % key.encode())
        elements = [wire.read_element(message) for message in self.messages]
        answers = {a.start for a in find_answers(elements, in_runs=wire.answers_in_runs)}
        # Each body begins with the one before it, so it is written on where that ended.
        body = bytearray(before + slot)
        for index, message in enumerate(self.messages):
            if index in answers and index:
                yield RecordedRequest(
                    body=b"".join((body, after)),
                    when=self.when,
                    account=f"{self.place} {self.name}",
                    wire=wire,
                    path=self.form.path.format(model=self.model),
                )
            body += (b"," if index else b"") + self._write(message)

    def _write(self, value: object) -> bytes:
        try:
            return orjson.dumps(value)
        except orjson.JSONEncodeError:  # lone surrogates, numbers beyond 64 bits, 254 levels
            pass
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        except RecursionError:
            raise ValueError(f"{self.place}: nested too deeply") from None


def read_conversations(path: Path) -> Iterator[RecordedConversation]:
    """Yield the conversations of a file; those of JSON lines as they are read.

    A conversation is an object with the list of its format, such as `messages`; their parts show
    whether these are of Chat Completions or of Anthropic Messages. Its `tools` are ignored unless
    they are a list, its `model` and `name` unless they are strings. A JSON document is a
    conversation, a list of conversations, or a list of messages. An empty file has no conversation.

    A conversation without a name has the file's, with `#n` (from 1) if the file has several. A
    gzipped file is recognized by its first bytes. A file is read as JSON lines if its name says so,
    or if the first of several lines is JSON by itself.

    Raises OSError if the file cannot be read, or is too large, and ValueError, with file and line,
    for any other content.
    """
    with open_regular(path) as file:
        is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
        size = os.fstat(file.fileno()).st_size if is_packed else None
        unpacked = bound(gzip.GzipFile(fileobj=file) if is_packed else file, path, size)
        tell = file.tell if is_packed else unpacked.tell
        lines = _unpack(path, unpacked)
        head = _take_values(lines, 2)
        values = [line for line in head if line.strip()]
        if _are_lines(path, values):
            yield from _read_lines(path, chain(head, lines), tell)
        elif values:
            yield from _read_document(path, b"".join(chain(head, lines)), tell())


def _unpack(path: Path, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, without byte-order marks."""
    try:
        for line in lines:
            yield line.removeprefix(codecs.BOM_UTF8)
    except EOFError:
        raise ValueError(f"{path}: gzip ends early") from None
    except (gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: gzip is damaged") from None


def _take_values(lines: Iterator[bytes], count: int) -> list[bytes]:
    """Return the first lines, up to this many that are not blank."""
    taken: list[bytes] = []
    for line in lines:
        taken.append(line)
        count -= bool(line.strip())
        if not count:
            break
    return taken


def _are_lines(path: Path, values: list[bytes]) -> bool:
    if len(values) < 2:  # a document, which may be a list, too
        return False
    if _without_gz(path).suffix.lower() in _NAMES_OF_LINES:
        return True
    try:
        _decode(values[0], path)
    except ValueError:
        return False
    return True


def _read_lines(
    path: Path, lines: Iterable[bytes], tell: Callable[[], int]
) -> Iterator[RecordedConversation]:
    values = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    end = 0
    for count, (number, line) in enumerate(values, 1):
        begin, end = end, tell()
        document, place = _decode(line, path, number), f"{path}:{number}"
        yield _parse(document, place, f"{_stem(path)}#{count}", end - begin)


def _read_document(path: Path, data: bytes, size: int) -> Iterator[RecordedConversation]:
    document = _decode(data, path)
    if not isinstance(document, list):
        yield _parse(document, str(path), _stem(path), size)
    elif _are_messages(document):
        yield _parse(_as_document(document), str(path), _stem(path), size)
    else:
        for count, item in enumerate(document, 1):
            name = f"{_stem(path)}#{count}" if len(document) > 1 else _stem(path)
            yield _parse(item, f"{path}#{count}", name, size // len(document))


def _decode(data: bytes, path: Path, line: int = 1) -> object:
    """Decode the JSON that begins at a line of the file.

    orjson would read integers beyond 64 bits as floats, and refuse lone surrogates and NaN.
    """
    try:
        document: object = json.loads(data.rstrip().decode())
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        problem = "not UTF-8"
    except json.JSONDecodeError as error:
        line += error.lineno - 1
        problem = f"not JSON: {error.msg} (column {error.colno})"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError:
        problem = "a number has too many digits"
    else:
        return document
    raise ValueError(f"{path}:{line}: {problem}")


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _stem(path: Path) -> str:
    return _without_gz(path).stem


def _parse(document: object, place: str, name: str, size: int) -> RecordedConversation:
    if not isinstance(document, dict):
        got = type(document).__name__
        raise ValueError(f"{place}: expected object with messages, got {got}")
    tools, model, own_name = (document.get(key) for key in ("tools", "model", "name"))
    form = detect_form(document, place)
    return RecordedConversation(
        name=own_name if isinstance(own_name, str) and own_name else name,
        place=place,
        messages=_parse_items(document, form, place),
        tools=tuple(tools) if isinstance(tools, list) else None,
        model=model if isinstance(model, str) else None,
        form=form,
        head={key: document[key] for key in form.head if key in document and key != "tools"},
        size=size,
    )


# Which format a conversation is in

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


def detect_form(document: Mapping[str, object], place: str) -> FileForm:
    """Return the form of a conversation. Raises ValueError with the place if there is none."""
    key = next((key for key in _LISTS if key in document), None)
    if key is None:
        found = next((name for key, name in _UNREAD_LISTS.items() if key in document), None)
        hint = "got one without" if found is None else f"got what looks like {found}"
        raise ValueError(f"{place}: expected object with messages, {hint}")
    if key != "messages":
        return _OTHERS[key]
    return _MESSAGES if _is_of_anthropic(document[key]) else CHAT


def _are_messages(items: Sequence[object]) -> bool:
    """Whether a list has messages rather than conversations."""
    first = items[0] if items else None
    return isinstance(first, dict) and not first.keys() & _LISTS and bool(first.keys() & _SPEAKS)


def _as_document(items: Sequence[object]) -> dict[str, object]:
    """Return a conversation of which only the list is known."""
    kinds = {key for item in items if isinstance(item, dict) for key in item}
    return {next((key for key, sign in _SIGNS.items() if sign in kinds), "messages"): items}


def _is_of_anthropic(messages: object) -> bool:
    items = messages if isinstance(messages, list) else []
    return any(kind in _OF_ANTHROPIC for item in items for kind in _part_types(item))


def _part_types(message: object) -> list[object]:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else []
    return [kind for p in parts if isinstance(p, dict) and isinstance(kind := p.get("type"), str)]


def _other_format(message: Mapping[str, object]) -> str | None:
    """Return the sign that a message is of another format, whose tool calls would not be found."""
    if "parts" in message and "content" not in message:
        return "one with parts in place of content"
    types = _part_types(message)
    return next((name for kind, name in _OTHER_PARTS.items() if kind in types), None)


def _parse_items(
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
        if form.key == "messages" and (problem := _other_format(item)) is not None:
            raise ValueError(
                f"{place}: expected {form.title}, got {problem} in '{form.key}[{index}]'"
            )
    if (
        items
        and form.key == "messages"
        and not any(isinstance(item.get("role"), str) for item in items)
    ):
        raise ValueError(f"{place}: expected {form.title}, got none with a role")
    return tuple(items)
