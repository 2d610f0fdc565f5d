"""One record per request, and a list of sinks that each record goes to.

All of it happens in a thread of its own, after the request has left. Nothing here decides what
becomes of a request.
"""

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import TypeVar

from addon.metrics.advice import Advice
from addon.metrics.deferred import Deferred
from addon.metrics.hold_warnings import HoldWarnings
from addon.metrics.large_work import LARGE_BYTES, OverdueError, check_turn, large_work
from addon.metrics.left_out import LeftOut
from addon.metrics.log_line import render_line
from addon.metrics.loop_log import LoopLog
from addon.metrics.make_record import make_record
from addon.metrics.mcp_record import McpRecord
from addon.metrics.price_warnings import PriceWarnings
from addon.metrics.record import RequestRecord
from addon.metrics.record_file import RecordFile
from addon.metrics.redaction_trace import RedactionTrace
from addon.metrics.resend_warnings import ResendWarnings
from addon.metrics.software import describe_software
from addon.metrics.stages import Answered, Interruption, Measured, Rewritten, Run
from addon.metrics.tally_line import render_tally
from addon.metrics.totals import Totals
from addon.metrics.untouched_warnings import UntouchedWarnings
from addon.metrics.window_warnings import WindowWarnings
from addon.metrics.worker import Worker, guard
from masking.accounting import Entry, find_repeated, measure, read_prompt
from masking.config import MetricsSettings, Settings
from masking.memory import digest_opening
from masking.prices import PriceSettings, find_pricing
from masking.rewrite import Rewrite
from masking.tokens import TokenCounter, load_o200k_base
from masking.wire import Usage, read_usage

Sink = Callable[[RequestRecord], object]
"""Called with each record, in one thread; what it raises is a warning."""

Measuring = Future[Measured | None]

_NOT_MEASURED: Measuring = Future()
_NOT_MEASURED.set_result(None)

_Result = TypeVar("_Result")

_MAX_COUNTED_BYTES = 16_000_000
"""The most bytes of bodies that may wait to be measured; beyond this, tokens are not counted."""

_MAX_COUNTED_ELEMENTS = 20_000
"""The tokens of a request with more are not counted: no more are remembered of a list, so each of
its requests would be counted as a whole."""

_MAX_PENDING_BYTES = 64_000_000
"""Beyond this, requests are not measured, and answers not read for their usage."""

_MAX_DEFERRED_BYTES = 4_000_000
"""The most bytes of requests that may wait for their answers to be measured with these."""

_MAX_PENDING = 10_000
"""The most requests that may wait to be recorded; beyond this, they leave no record."""

_STOP_SECONDS = 10.0
"""How long the stop waits for records."""


class Metrics:
    """Takes requests from any thread; measures and records them in its own.

    `enter` enters an answered request in the ledger, and returns its entry. It is called there.
    """

    def __init__(self, enter: Callable[[Answered], Entry | None]) -> None:
        self.totals = Totals()
        self._enter = enter
        self._log = LoopLog()
        self._file, self._lost = RecordFile(MetricsSettings(), self._log.log), 0
        self.advice = Advice()
        self._trace = RedactionTrace(self._log.log)
        price_warnings, hold_warnings = PriceWarnings(), HoldWarnings()
        untouched_warnings, window_warnings = UntouchedWarnings(), WindowWarnings()
        resend_warnings = ResendWarnings()
        self.sinks: list[Sink] = [
            self.totals.add,
            lambda record: self._file.write(vars(record)),
            lambda record: self._log.log(logging.INFO, render_line(record)),
            lambda record: self._log.warn(price_warnings.find(record, self.advice)),
            lambda record: self._log.warn(hold_warnings.find(record, self.advice)),
            lambda record: self._log.warn(untouched_warnings.find(record, self.advice)),
            lambda record: self._log.warn(window_warnings.find(record)),
            lambda record: self._log.warn(resend_warnings.find(record)),
        ]
        self._counter = TokenCounter(check=check_turn)
        self._worker = Worker("metrics")
        self.left_out = LeftOut(self._log.log)
        self._pending = self._pending_bytes = self._deferred_bytes = 0
        self._let_go: deque[int] = deque()
        """Bytes that are no longer held, by whichever thread: a collector may hold the lock."""
        self._lock = threading.Lock()

    def start(self) -> None:
        """Load what the first request would wait for. To be called in the log's thread.

        The vocabulary is not among it: it is loaded once the first request has left.
        """
        self._log.start()
        self._worker.submit(lambda: find_pricing(PriceSettings(), "localhost", "none"))

    def configure(self, settings: MetricsSettings, advice: Advice | None = None) -> None:
        """Write the next record where these settings say.

        `advice` changes the configuration that they are from.
        """
        self.advice = advice or self.advice
        self._worker.submit(lambda: self._reopen(settings))

    def measure(self, rewrite: Rewrite, original: bytes, *, observed: bool = False) -> Measuring:
        """Measure a request; when too many wait, leave its tokens uncounted, or all of it.

        That is done once it has come to its end, unless what waits for that is large. Its tokens
        stay uncounted, too, if a request has waited for that for long enough.
        """
        if self._pending_bytes >= _MAX_PENDING_BYTES:
            self.left_out.note("sizes")
            return _NOT_MEASURED
        is_long = len(rewrite.conversation.items) > _MAX_COUNTED_ELEMENTS
        is_counted = self._pending_bytes < _MAX_COUNTED_BYTES and not is_long
        counter = self._counter if is_counted else None

        size, redactions, held = len(original), rewrite.redactions, [rewrite]

        def job() -> Measured:
            if counter is not None:
                load_o200k_base()  # for the first one, while no other request waits for the turn
            with large_work(size) if size >= LARGE_BYTES else nullcontext():
                measured = _measure(held.pop(), original, counter)  # it is let go of at once
            if measured.prompt is None:
                self.left_out.note("tokens")
            if redactions is not None:
                self._trace.log(redactions, observed=observed)
            return measured

        if redactions is not None or not self._may_defer(size):
            return self._submit(job, size)
        return Deferred(job, self._worker.submit, lambda: self._let_go.append(size))

    def finish(
        self,
        rewritten: Rewritten,
        measuring: Measuring | None = None,
        *,
        history: Measuring | None = None,
        status: int | None = None,
        error: Interruption | None = None,
        first_chunk_seconds: float | None = None,
        read_body: Callable[[], bytes | None] = lambda: None,
        size: int = 0,
    ) -> None:
        """Record a request that has come to its end, unless too many wait for that.

        `read_body` decodes the answer, which holds so many bytes until then; it raises ValueError
        for one that is too large. `history` is of the request that holds the history of the
        conversation, if it is another.
        """
        if self._pending >= _MAX_PENDING:
            self.left_out.note("records")
            return
        if size and self._pending_bytes >= _MAX_PENDING_BYTES:
            self.left_out.note("answers")
            read_body, size = _read_nothing, 0

        def job() -> None:
            measured = measuring.result() if measuring else None
            whole = history.result() if history else measured
            answered = Answered(
                rewritten=rewritten,
                measured=measured,
                conversation_id=whole.conversation_id if whole else None,
                status=status,
                error=error,
                usage=self._read_usage(read_body),
                first_chunk_seconds=first_chunk_seconds,
            )
            record = make_record(answered, self._enter(answered))
            for sink in self.sinks:
                guard(functools.partial(sink, record))

        self._submit(job, size, records=1)

    def note(self, fields: Mapping[str, object], settings: Settings, run: Run) -> None:
        """Write the record of an MCP response, under the settings in force."""

        def job() -> None:
            made_by = {**describe_software(settings), "run": run.name, "tag": run.tag}
            self._file.write(vars(McpRecord.model_validate({**made_by, **fields})))

        if self._pending >= _MAX_PENDING:
            self.left_out.note("records")
        else:
            self._submit(job, records=1)

    @property
    def path(self) -> str | None:
        """Where the records go; None if the user has no home."""
        try:
            return str(self._file.path)
        except RuntimeError:
            return None

    def settle(self) -> Future[str | None]:
        """Return what the run came to, in a line, once all that came before is recorded.

        None if it has ended.
        """
        return self._worker.submit(lambda: render_tally(self.totals.live))

    @property
    def lost(self) -> int:
        """How many records of the run are nowhere."""
        return self._lost + self._file.lost + self.left_out.count("records")

    def close(self) -> None:
        """Wait for all pending jobs, though not for ever, and log what is left to say."""
        if not self._worker.close(_STOP_SECONDS):
            self._log.log(logging.WARNING, _render_unfinished(self._pending))
        self._file.close()
        self._log.flush()

    def _submit(
        self, job: Callable[[], _Result], size: int = 0, *, records: int = 0
    ) -> "Future[_Result | None]":
        """Do a job soon, which holds so many bytes until it is done.

        It is done although who waits for it is cancelled: the record asks for it as well.
        """

        def counted() -> _Result:
            try:
                return job()
            finally:
                self._add_pending(-records, -size)

        self._add_pending(records, size)
        return self._worker.submit(counted, can_be_cancelled=False)

    def _add_pending(self, records: int, size: int) -> None:
        with self._lock:
            self._pending += records
            self._pending_bytes += size

    def _may_defer(self, size: int) -> bool:
        """Whether so many bytes may be held until their answer has come; they are counted."""
        with self._lock:
            while self._let_go:
                self._deferred_bytes -= self._let_go.popleft()
            is_small = self._deferred_bytes + size <= _MAX_DEFERRED_BYTES
            self._deferred_bytes += size if is_small else 0
        return is_small

    def _read_usage(self, read_body: Callable[[], bytes | None]) -> Usage | None:
        try:
            return read_usage(read_body() or b"")
        except ValueError:
            self.left_out.note("answers")
            return None

    def _reopen(self, settings: MetricsSettings) -> None:
        self._file.close()
        self._lost += self._file.lost
        self._file = RecordFile(settings, self._log.log)


def _read_nothing() -> None:
    return None


def _render_unfinished(records: int) -> str:
    requests = "1 request is" if records == 1 else f"{records:,} requests are"
    return f"{requests} not recorded: that took too long at the end"


def _measure(rewrite: Rewrite, original: bytes, counter: TokenCounter | None) -> Measured:
    prompt = None
    with suppress(OverdueError):
        prompt = read_prompt(rewrite, counter) if counter else None
    return Measured(
        sizes=measure(rewrite, original, prompt),
        conversation_id=digest_opening(rewrite.conversation).hex(),
        prompt=prompt,
        repeated=find_repeated(rewrite.conversation),
    )
