"""The data of server-sent events (WHATWG HTML, 9.2.5 and 9.2.6)."""

import re
from collections.abc import Iterable, Iterator

_BLANK_LINE = re.compile(rb"(?:\n|\r(?!\n))(?:\r\n?|\n)")
_VALUE = re.compile(rb"(?<![^\r\n])data(?::\x20?|(?=[\r\n]))([^\r\n]*)")


def find_data(stream: bytes, words: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of those events of a whole stream that have one of some words in them.

    The last event counts even without its blank line. A word is not empty, and has no line end.
    """
    hits = [found.start() for word in words for found in re.finditer(re.escape(word), stream)]
    end = 0
    for at in sorted(hits):
        if at < end:
            continue  # in an event that has been found
        begin = _find_begin(stream, end, at)
        blank = _BLANK_LINE.search(stream, at)
        end = len(stream) if blank is None else blank.end()
        if values := [found[1] for found in _VALUE.finditer(stream, begin, end)]:
            yield b"\n".join(values)


_BLANK_LINES = (b"\n\n", b"\n\r", b"\r\r")
"""How the end of a line and the blank line after it may begin."""


def _find_begin(stream: bytes, after: int, at: int) -> int:
    """Return where the event begins that `at` is in: behind a blank line, or at `after`."""
    last = max(stream.rfind(each, after, at) for each in _BLANK_LINES)
    return after if last < 0 else last + 2
