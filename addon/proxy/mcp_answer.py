"""One response of an MCP server: masked whole or as a stream, and counted.

Whatever goes wrong in here, the server's own bytes go on.
"""

from collections import Counter

from mitmproxy import http

from addon.content import MAX_VALUES, TooLargeError, check_values, decode_message
from addon.engine import ResponseCopy
from addon.proxy.event_stream import EventStream
from addon.request import is_event_stream
from masking.errors import WireError
from masking.mcp import Methods, PayloadPolicy, mask_payload_bytes


class Answer:
    """Masks the JSON texts of a server's answer.

    strings: the number of strings cut so far.
    chars_before, chars_after: their code points.
    failures: why something was not looked at.
    observed: whether it is only counted what would be cut.
    most_values: a text with more objects, lists and commas is not looked into.
    """

    def __init__(
        self,
        policy: PayloadPolicy,
        methods: Methods,
        *,
        observed: bool = False,
        most_values: int = MAX_VALUES,
    ) -> None:
        self.observed = observed
        self.max_chars = policy.max_chars
        self.strings = self.chars_before = self.chars_after = 0
        self.failures: Counter[str] = Counter()
        self._policy = policy
        self._methods = methods
        self._most_values = most_values

    def mask(self, payload: bytes) -> bytes:
        """Return a JSON text with its long strings cut, or any other text as it is, counted."""
        try:
            check_values(payload, self._most_values)
            masked = mask_payload_bytes(payload, self._policy, self._methods)
        except WireError as error:
            self.failures[error.problem] += 1
            return payload
        self.strings += len(masked.cuts)
        self.chars_before += sum(len(cut.text) for cut in masked.cuts)
        self.chars_after += sum(len(cut.placeholder) for cut in masked.cuts)
        return payload if self.observed else masked.body


class AnswerStream:
    """A `flow.response.stream` callable for an answer; gets chunks, and `b""` at the end."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        # What is no longer in bytes than a string may be in characters holds none that is cut.
        self._events = EventStream(answer.mask, min_bytes=answer.max_chars)
        self._sent = ResponseCopy()

    def __call__(self, chunk: bytes) -> list[bytes]:
        edited = self._events.feed(chunk) if chunk else self._events.end()
        sent = chunk if self.answer.observed else edited  # nothing is held back to be looked at
        self._sent(sent)
        return [sent] if sent else []  # mitmproxy would end a chunked body with an empty chunk

    @property
    def body(self) -> bytes | None:
        """All that the client got; None if it was too long to keep."""
        return self._sent.body

    def note_failures(self) -> None:
        """Count what passed without being looked at."""
        if self._events.too_large:
            self.answer.failures["event too large"] += self._events.too_large
        if self._events.failure is not None:
            self.answer.failures[f"internal error ({self._events.failure})"] += 1


def mask_whole(response: http.Response, answer: Answer) -> None:
    """Mask a complete response, in its own content encoding."""
    try:
        original = decode_message(response) or b""
    except TooLargeError as error:
        answer.failures[str(error)] += 1
        return
    except ValueError:
        answer.failures["unknown or broken content encoding"] += 1
        return
    try:
        mask = _mask_events if is_event_stream(response) else Answer.mask
        masked = mask(answer, original)
        if masked != original:
            response.content = masked
    except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
        answer.failures[f"internal error ({type(error).__name__})"] += 1


def _mask_events(answer: Answer, body: bytes) -> bytes:
    stream = AnswerStream(answer)
    sent = b"".join((*stream(body), *stream(b"")))
    stream.note_failures()
    return sent
