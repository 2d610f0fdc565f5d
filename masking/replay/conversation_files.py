"""Conversations in the form of a wire format, read from JSON or JSON lines, gzipped or not.

Any mistake in a file is a ValueError that names the place and never repeats content.
"""

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedReader
from itertools import chain
from pathlib import Path

import orjson

from masking.model import ChatMessage
from masking.replay.replay import RecordedRequest
from masking.wire.files import (
    CHAT,
    FileForm,
    are_messages,
    as_document,
    find_form,
    parse_items,
    write_requests,
)

_GZIP = b"\x1f\x8b"
_NAMES_OF_LINES = frozenset({".jsonl", ".ndjson"})


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
        answered; neither makes a request. So a conversation without an answer
        has none. Raises ValueError if a message is nested too deeply to be written. NaN and the
        infinities, which JSON does not have, may be written as null.
        """
        others = {"model": self.model, **self.head, "tools": self.tools}
        for body in write_requests(self.messages, self.form, others, self._write):
            yield RecordedRequest(
                body=body,
                when=self.when,
                account=f"{self.place} {self.name}",
                wire=self.form.wire,
                path=self.form.path.format(model=self.model),
            )

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

    A conversation is an object with the list of its format, such as `messages`; whether these are
    of Chat Completions or of Anthropic Messages is told by their parts. Its `tools` are ignored
    unless they are a list, its `model` and `name` unless they are strings. A JSON document is a
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
            yield from _read_lines(path, chain(head, lines), file.tell)
        elif values:
            yield from _read_document(path, b"".join(chain(head, lines)), file.tell())


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
    elif are_messages(document):
        yield _parse(as_document(document), str(path), _stem(path), size)
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


def _parse(document: object, place: str, name: str, size: int) -> RecordedConversation:
    if not isinstance(document, dict):
        got = type(document).__name__
        raise ValueError(f"{place}: expected object with messages, got {got}")
    tools, model, own_name = (document.get(key) for key in ("tools", "model", "name"))
    form = find_form(document, place)
    return RecordedConversation(
        name=own_name if isinstance(own_name, str) and own_name else name,
        place=place,
        messages=parse_items(document, form, place),
        tools=tuple(tools) if isinstance(tools, list) else None,
        model=model if isinstance(model, str) else None,
        form=form,
        head={key: document[key] for key in form.head if key in document and key != "tools"},
        size=size,
    )


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _stem(path: Path) -> str:
    return _without_gz(path).stem
