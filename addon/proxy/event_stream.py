"""Edits the data of server-sent events while they stream by: bytes in, bytes out, no I/O.

Only an event whose data has begun and is not complete is held back. Every other byte goes on as
soon as it arrives (WHATWG HTML, 9.2.5 and 9.2.6). Compressed streams are not handled here.
"""

import re
from collections.abc import Callable
from typing import Literal

MAX_EVENT_BYTES = 16_000_000

_DATA_LINE = re.compile(rb"(?:(?<![^\r\n])|(?<=\A\xef\xbb\xbf))data")
"""A line begins after the end of another, or with the stream, after a byte-order mark if any."""

_BEGINNING = re.compile(rb"(?:(?<![^\r\n])d(?:at?)?|\A\xef(?:\xbb(?:\xbf(?:d(?:at?)?)?)?)?)\Z")
"""Bytes that may turn out to be the beginning of such a line when more arrive."""

_LONGEST_BEGINNING = len(b"\xef\xbb\xbfdat")
_BLANK_LINE = re.compile(rb"(?:\n|\r(?!\n))(?P<blank>\r\n?|\n)")
_VALUE = re.compile(rb"(?<![^\r\n])data(?::\x20?|(?=[\r\n]))([^\r\n]*)")

_Mode = Literal["between", "within", "past"]
"""Before an event's data; in it; in an event that is too large and passes as it is."""

_Step = tuple[bytes, int]
"""The bytes that may go on, and the position up to which the window is done."""


class EventStream:
    """Passes an event stream on, with the data of its events as `edit` returns it.

    `edit` gets an event's data, its lines joined by line feeds, and returns the same data for no
    change. It must not add or remove a line. Once it raises, everything passes unchanged, and
    `failure` is the name of the exception. An event of more than `max_bytes` from its first data
    line to its blank line passes unchanged, and is counted in `too_large`. One of up to `min_bytes`
    passes unchanged, too; a run of those costs next to nothing.
    """

    def __init__(
        self,
        edit: Callable[[bytes], bytes],
        *,
        min_bytes: int = 0,
        max_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self.failure: str | None = None
        self.too_large = 0
        self._edit = edit
        self._min_bytes, self._max_bytes = min_bytes, max_bytes
        self._mode: _Mode = "between"
        self._held = bytearray()
        self._before = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may go on now that this chunk has arrived."""
        if self.failure is not None:
            return self.end() + chunk
        if self._mode == "between":  # it holds no more than a few bytes, to be looked at again
            chunk = bytes(self._held) + chunk
            self._held.clear()
        window, at = self._before + chunk, len(self._before)
        pieces = []
        while at < len(window):
            piece, at = _STEPS[self._mode](self, window, at)
            pieces.append(piece)
        self._remember(window[: len(window) - self._kept()])
        return b"".join(pieces)

    def end(self) -> bytes:
        """Return what is held back, unchanged: an event without its blank line is not an event.

        More bytes may still follow. The event then passes with them, unedited.
        """
        held = bytes(self._held)
        if self._mode == "between":
            self._remember(held)
        elif self._mode == "within":
            self._mode = "past"
        self._held.clear()
        return held

    def _kept(self) -> int:
        """The number of bytes at the end that will be looked at again."""
        return len(self._held) if self._mode == "between" else 0

    def _remember(self, seen: bytes) -> None:
        """Remember whether the last byte ended a line.

        A colon stands for any other byte, because a byte of a byte-order mark could mislead.
        """
        if seen:
            self._before = seen[-1:] if seen.endswith((b"\r", b"\n")) else b":"

    def _step_between(self, window: bytes, at: int) -> _Step:
        if self._min_bytes and (end := _find_last_end(window, at, self._min_bytes)) > at:
            return window[at:end], end
        if found := _DATA_LINE.search(window, at):
            self._mode = "within"
            return window[at : found.start()], found.start()
        beginning = _BEGINNING.search(window, max(at, len(window) - _LONGEST_BEGINNING))
        end = beginning.start() if beginning else len(window)
        self._held += window[end:]
        return window[at:end], len(window)

    def _step_within(self, window: bytes, at: int) -> _Step:
        found = _find_blank_line(window, at)
        if found is None:
            self._held += window[at:]
            return self._release_if_too_large(), len(window)
        event = bytes(self._held) + window[at : found.end()]
        self._held.clear()
        self._mode = "between"
        if len(event) - len(found["blank"]) <= self._max_bytes:
            return self._edit_event(event), found.end()
        self.too_large += 1
        return event, found.end()

    def _step_past(self, window: bytes, at: int) -> _Step:
        found = _find_blank_line(window, at)
        if found is None:
            return window[at:], len(window)
        self._mode = "between"
        return window[at : found.end()], found.end()

    def _release_if_too_large(self) -> bytes:
        if len(self._held) <= self._max_bytes:
            return b""
        self.too_large += 1
        return self.end()

    def _edit_event(self, event: bytes) -> bytes:
        if self.failure is None and len(event) > self._min_bytes:
            try:
                return _edit_data(event, self._edit)
            except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
                self.failure = type(error).__name__
        return event


_STEPS: dict[_Mode, Callable[[EventStream, bytes, int], _Step]] = {
    "between": EventStream._step_between,
    "within": EventStream._step_within,
    "past": EventStream._step_past,
}


def _find_blank_line(window: bytes, at: int) -> re.Match[bytes] | None:
    """Find a line end and the blank line after it; the first may stand right before `at`."""
    return _BLANK_LINE.search(window, max(0, at - 1))


def _find_last_end(window: bytes, at: int, size: int) -> int:
    """Return where the last of the events ends that lie within so many bytes; `at` if none does.

    It is enough to know two ways to end one: others are read event by event.
    """
    return max(
        (
            found + len(end)
            for end in (b"\n\n", b"\r\n\r\n")
            if (found := window.rfind(end, at, at + size)) >= 0
        ),
        default=at,
    )


def _edit_data(event: bytes, edit: Callable[[bytes], bytes]) -> bytes:
    spans = [found.span(1) for found in _VALUE.finditer(event)]
    data = b"\n".join(event[start:end] for start, end in spans)
    edited = edit(data)
    if edited == data:
        return event
    pieces: list[bytes] = []
    done = 0
    for (start, end), line in zip(spans, re.split(rb"[\r\n]", edited), strict=True):
        pieces += (event[done:start], line)
        done = end
    return b"".join((*pieces, event[done:]))
