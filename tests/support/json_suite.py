"""JSONTestSuite, each of its files in each place of a conversation, and what must become of that.

The suite is Nicolas Seriot's; it is in `tests/suites`, with its licence. A file's name begins with
`y` if a parser must accept it, with `n` if it must refuse it, and with `i` if it may do either.
"""

import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.builders import MASK_ALL, policy
from tests.support.made_up_format import MADE_UP
from tests.support.places import ROOT
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Spelled,
    Step,
    Tools,
    User,
    Writer,
    turn,
    turns,
)

ARCHIVE = ROOT / "tests" / "suites" / "JSONTestSuite.tar.gz"
FORMATS = tuple(writer for writer in WRITERS if writer.wire is not MADE_UP)
WINDOW = 2
TEMPLATE = "<{tool_name} {original_chars}>"
POLICY = policy(
    MASK_ALL, window_turns=WINDOW, placeholder_template=TEMPLATE, skip_if_not_shorter=False
)
"""Masks all that is before the window, so that it can be written down what must arrive."""

LENIENT = frozenset(f"n_number_{name}.json" for name in ("NaN", "infinity", "minus_infinity"))
"""What Python's `json` writes and reads, though it is no JSON: clients send it, and we read it."""

_BEFORE, _BESIDE, _AFTER = (f"what stood {where}\n" * 9 for where in ("before", "there", "after"))

_VALUE = "here the file is a value"
_TEXT = "here the file is in a string"
_RESULT = "here the file is the text of a result"


class File(NamedTuple):
    """A file of the suite."""

    name: str
    data: bytes

    @property
    def text(self) -> str | None:
        """It as a text; None if it is not UTF-8, so that no JSON string can hold it."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


class Case(NamedTuple):
    """A request with a file in it, and the bodies of which one must reach the provider."""

    name: str
    path: str
    body: bytes
    expected: tuple[bytes, ...]


def read_files(archive: Path = ARCHIVE) -> list[File]:
    """Return the files of the suite, by name. Raises OSError or tarfile.TarError."""
    with tarfile.open(archive) as tar:
        found = ((Path(each.name).name, tar.extractfile(each)) for each in tar)
        return sorted(File(name, data.read()) for name, data in found if data and name[1] == "_")


def build_cases(file: File, writer: Writer) -> Iterator[Case]:
    """Yield a file as a whole body, and in each place of a conversation."""
    yield Case("whole body", writer.path, file.data, (file.data,))
    for place, tell in _PLACES.items():
        template = json.dumps(tell(writer), indent=1).encode()
        yield Case(place, writer.path, _insert(template, file), tuple(_expect(template, file)))


def _expect(template: bytes, file: File) -> Iterator[bytes]:
    """Yield what may arrive: all that is old is masked if the body is JSON, and nothing else."""
    if _spell(_VALUE) in template:
        must_be = file.name[0] == "y" or file.name in LENIENT
        may_be = must_be or file.name[0] == "i"
    else:
        must_be = may_be = file.text is not None
    if may_be:
        masked = template
        old = {text: text for text in (_BEFORE, _BESIDE, _AFTER)}
        for marker, text in (old | {_RESULT: file.text or ""}).items():
            masked = masked.replace(_spell(marker), _spell(f"<shell {len(text)}>"))
        yield _insert(masked, file)
    if not must_be:
        yield _insert(template, file)


def _insert(template: bytes, file: File) -> bytes:
    """Put a file into a template, as it is or escaped as the text of a string."""
    text = file.data.decode("utf-8", "surrogateescape")
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    filled = template.replace(_spell(_VALUE), file.data)
    return filled.replace(_TEXT.encode(), escaped).replace(_RESULT.encode(), escaped)


def _spell(text: str) -> bytes:
    return json.dumps(text).encode()


def _tell(writer: Writer, items: Sequence[Any] = ()) -> Spelled:
    """Return a request with these elements between two old results, and a window after that."""
    first = writer.tell(User(), *turn("a", _BEFORE))
    last = writer.tell(*turn("c", _AFTER), *turns(WINDOW))
    return writer.wrap([*first.items, *items, *last.items])


def _tell_steps(*steps: Step) -> Callable[[Writer], Spelled]:
    return lambda writer: _tell(writer, writer.tell(*steps).items)


def _tell_arguments(writer: Writer) -> Spelled:
    """A format has the arguments of a call as a value, or as JSON in a string."""
    asked = {_VALUE: ""}
    items = writer.tell(Model((Ask("b", arguments=asked),)), Tools((Give("b", _BESIDE),))).items
    spelled = json.dumps(_tell(writer, items))
    as_text, as_value = json.dumps(json.dumps(asked)), json.dumps(asked)
    found: Spelled = json.loads(
        spelled.replace(as_text, json.dumps(_TEXT)).replace(as_value, json.dumps(_VALUE))
    )
    return found


_PLACES: dict[str, Callable[[Writer], Spelled]] = {
    "element of the list": lambda writer: _tell(writer, [_VALUE]),
    "content of a message": _tell_steps(User(_VALUE)),
    "text of a message": _tell_steps(User(_TEXT)),
    "text of a result": _tell_steps(*turn("b", _RESULT)),
    "arguments of a call": _tell_arguments,
    "before the list": lambda writer: {"before": _VALUE, **_tell(writer)},
    "after the list": lambda writer: {**_tell(writer), "after": _VALUE},
}
