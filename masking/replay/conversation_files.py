"""Conversations in the Chat Completions form, read from JSON or JSON lines, gzipped or not.

Any mistake in a file is a ValueError that names the place and never repeats content.
"""

import codecs
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedReader
from itertools import chain
from pathlib import Path

import orjson

from masking.model import ChatMessage
from masking.replay.replay import RecordedRequest

_GZIP = b"\x1f\x8b"
_NAMES_OF_LINES = frozenset({".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedConversation:
    """One conversation of a file; a `Session`.

    place: `FILE`, `FILE:LINE`, or `FILE#n` for the n-th of a list.
    tools, model: None if the conversation has none.
    when: the time at which it was read, because files have no times.
    """

    name: str
    place: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[object, ...] | None = None
    model: str | None = None
    when: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield a request for each message of the assistant: the messages before it.

        A message of the assistant that opens the conversation answers nothing, and what follows
        the last one was not answered; neither makes a request. So a conversation without an answer
        has none. Raises ValueError if a message is nested too deeply to be written. NaN and the
        infinities, which JSON does not have, may be written as null.
        """
        frame: dict[str, object] = {"model": self.model, "messages": [], "tools": self.tools}
        before, slot, after = self._write(
            {key: value for key, value in frame.items() if value is not None}
        ).partition(b'"messages":[')
        body = bytearray(before + slot)
        for index, message in enumerate(self.messages):
            if index and message.get("role") == "assistant":
                yield RecordedRequest(
                    body=b"".join((body, after)),
                    when=self.when,
                    account=f"{self.place} {self.name}",
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

    A conversation is an object with `messages`, a list of objects. Its `tools` are ignored unless
    they are a list, its `model` and `name` unless they are strings. A JSON document is a
    conversation, a list of conversations, or a list of messages. An empty file has no conversation.

    A conversation without a name has the file's, with `#n` (from 1) if the file has several. A
    gzipped file is recognised by its first bytes. A file is read as JSON lines if its name says so,
    or if the first of several lines is JSON by itself.

    Raises OSError if the file cannot be read, and ValueError, with file and line, for any other
    content.
    """
    with path.open("rb") as file:
        lines = _unpack(path, file)
        head = _take_values(lines, 2)
        values = [line for line in head if line.strip()]
        if _are_lines(path, values):
            yield from _read_lines(path, chain(head, lines))
        elif values:
            yield from _read_document(path, b"".join(chain(head, lines)))


def _unpack(path: Path, file: BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a file, without byte-order marks."""
    is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
    lines: Iterable[bytes] = gzip.GzipFile(fileobj=file) if is_packed else file
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


def _read_lines(path: Path, lines: Iterable[bytes]) -> Iterator[RecordedConversation]:
    values = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for count, (number, line) in enumerate(values, 1):
        yield _parse(_decode(line, path, number), f"{path}:{number}", f"{_stem(path)}#{count}")


def _read_document(path: Path, data: bytes) -> Iterator[RecordedConversation]:
    document = _decode(data, path)
    if not isinstance(document, list):
        yield _parse(document, str(path), _stem(path))
    elif _are_messages(document):
        yield _parse({"messages": document}, str(path), _stem(path))
    else:
        for count, item in enumerate(document, 1):
            name = f"{_stem(path)}#{count}" if len(document) > 1 else _stem(path)
            yield _parse(item, f"{path}#{count}", name)


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


def _parse(document: object, place: str, name: str) -> RecordedConversation:
    if not isinstance(document, dict):
        got = type(document).__name__
        raise ValueError(f"{place}: expected object with messages, got {got}")
    if "messages" not in document:
        found = next((name for key, name in _OTHER_LISTS.items() if key in document), None)
        hint = "got one without" if found is None else f"got what looks like {found}"
        raise ValueError(f"{place}: expected object with messages, {hint}")
    tools, model, own_name = (document.get(key) for key in ("tools", "model", "name"))
    return RecordedConversation(
        name=own_name if isinstance(own_name, str) and own_name else name,
        place=place,
        messages=_parse_messages(document["messages"], place),
        tools=tuple(tools) if isinstance(tools, list) else None,
        model=model if isinstance(model, str) else None,
    )


def _parse_messages(messages: object, place: str) -> tuple[ChatMessage, ...]:
    if not isinstance(messages, list):
        got = type(messages).__name__
        raise ValueError(f"{place}: expected list, got {got} in 'messages'")
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            got = type(message).__name__
            raise ValueError(f"{place}: expected object, got {got} in 'messages[{index}]'")
        if (problem := _find_other_format(message)) is not None:
            raise ValueError(
                f"{place}: expected messages of Chat Completions, got {problem} in "
                f"'messages[{index}]'"
            )
    if messages and not any(isinstance(message.get("role"), str) for message in messages):
        raise ValueError(f"{place}: expected messages of Chat Completions, got none with a role")
    return tuple(messages)


_OTHER_LISTS = {
    "input": "a request of OpenAI Responses (input)",
    "contents": "a request of Gemini (contents)",
    "conversations": "ShareGPT (conversations)",
    "mapping": "an export of ChatGPT (mapping)",
}
"""Where other formats have their messages."""

_OTHER_PARTS = {
    **dict.fromkeys(("tool_use", "tool_result"), "a part of Anthropic Messages"),
    **dict.fromkeys(("input_text", "output_text"), "a part of OpenAI Responses"),
    **dict.fromkeys(("tool-call", "tool-result"), "a part of the AI SDK"),
}
"""Types of content parts that Chat Completions does not have, and that carry what we count."""


def _find_other_format(message: Mapping[str, object]) -> str | None:
    """Return what shows that a message is of another format: its tool calls would not be found."""
    if "parts" in message and "content" not in message:
        return "one with parts in place of content"
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    types = [part.get("type") for part in parts if isinstance(part, dict)]
    return next((name for kind, name in _OTHER_PARTS.items() if kind in types), None)


def _are_messages(items: list[object]) -> bool:
    first = items[0] if items else None
    return isinstance(first, dict) and "role" in first and "messages" not in first


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _stem(path: Path) -> str:
    return _without_gz(path).stem
