"""Measures and records requests, in a thread of its own, after each has left.

A record goes to a list of sinks: the totals, the file, the log, the warnings, the page. Nothing
here decides what becomes of a request.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from addon.accounts import find_user
from addon.config_commands import Advice
from addon.content import read_answer
from addon.places import state_folder
from addon.quota import QuotaWindow, find_events, read_quota
from addon.records.advice import DroppedRecords, QuotaWarnings, RedactionTrace, Warnings
from addon.records.build import describe_software, make_record
from addon.records.file import RecordFile
from addon.records.record import McpRecord, RequestRecord
from addon.records.sessions import SessionLog, find_folder
from addon.records.tally import Totals
from addon.records.words import render_last_line, render_line
from addon.request import HeaderFields, Message
from addon.stages import Answered, Measured, Run
from addon.threads import (
    LARGE_BYTES,
    LoopLog,
    OverdueError,
    Worker,
    check_turn,
    large_work,
)
from masking.accounting import NO_BILL, Entry, count_quotes, find_repeated, measure, read_prompt
from masking.config import MetricsSettings, Settings
from masking.memory import digest_opening
from masking.prices import PriceSettings, find_pricing
from masking.rewrite import Rewrite
from masking.roads import Untaken
from masking.tokens import TokenCounter, load_o200k_base
from masking.wire import count_transformations, read_cleared, read_usage

logger = logging.getLogger("observation_masking")

Sink = Callable[[RequestRecord], object]
"""Called with each record, in one thread; what it raises is a warning."""

Measuring = Future[Measured | None]

_NOT_MEASURED: Measuring = Future()
_NOT_MEASURED.set_result(None)

_PROBLEM = "could not record a request"

_MAX_COUNTED_BYTES = 16_000_000
"""The most bytes of bodies that may wait to be measured; beyond this, tokens are not counted."""

_MAX_COUNTED_ELEMENTS = 20_000
"""The tokens of a request with more are not counted: no more are remembered of a list, so each of
its requests would be counted as a whole."""

_MAX_PENDING_BYTES = 64_000_000
"""Beyond this, requests are not measured, and answers not read for their usage."""

_MAX_PENDING = 10_000
"""The most requests that may wait to be recorded; beyond this, they leave no record."""

_GATHER_SECONDS = 0.25
"""How long what was found of a request waits for others, to become records with them. Each by
itself took 0.6 ms more of the 8 that the addon takes for a request of 45 kB, in three threads
(`tests.tools.benchmarks.request_cost`)."""

_STOP_SECONDS = 10.0
"""How long the stop waits for records."""


class Recorder:
    """Takes requests from any thread; measures and records them in its own."""

    def __init__(self, log: LoopLog) -> None:
        self.totals = Totals()
        self.advice = Advice()
        self.left_out = DroppedRecords(log.log)
        self._log = log
        self._settings = MetricsSettings()
        self._file, self._lost = RecordFile(self._settings, log.log), 0
        self._trace = RedactionTrace(log.log)
        warnings, quota = Warnings(), QuotaWarnings()
        self.sinks: list[Sink] = [
            self.totals.add,
            lambda record: log.warn(warnings.find(record, self.advice)),
            lambda record: log.warn(quota.find(record) if self._settings.quota_warning else ()),
        ]
        self.sessions = SessionLog(state_folder, log.log, self.find_path)
        self.sinks.append(self.sessions.add)
        self._counter = TokenCounter(check=check_turn)
        self._worker = Worker("records", problem=_PROBLEM)
        self._found: deque[tuple[Answered, Entry | None]] = deque()
        self._pending = self._pending_bytes = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Load what the first request would wait for.

        The vocabulary is not among it: it is loaded once the first request has left.
        """
        self._worker.submit(lambda: find_pricing(PriceSettings(), "localhost", "none"))

    def configure(self, settings: MetricsSettings, advice: Advice) -> None:
        """Write the next record where these settings say. `advice` changes their configuration."""
        self.advice, self._settings = advice, settings

        def job() -> None:
            self._hand_out()
            self._file.close()
            self._lost += self._file.lost
            self._file = RecordFile(settings, self._log.log)

        self._worker.submit(job)

    def measure(
        self,
        rewrite: Rewrite,
        size: int,
        go_other_roads: Callable[[TokenCounter], Sequence[Untaken]] = lambda _: (),
        *,
        observed: bool = False,
    ) -> Measuring:
        """Measure a request of so many bytes, also as it would go out by other roads.

        When too many wait, leave its tokens uncounted, or all of it. Its tokens stay uncounted,
        too, if another request has waited for that for long enough.
        """
        if self._pending_bytes >= _MAX_PENDING_BYTES:
            self.left_out.add("sizes")
            return _NOT_MEASURED
        is_long = len(rewrite.conversation.items) > _MAX_COUNTED_ELEMENTS
        is_counted = self._pending_bytes < _MAX_COUNTED_BYTES and not is_long
        counter = self._counter if is_counted else None

        def job() -> Measured:
            if counter is not None:
                load_o200k_base()  # for the first one, while no other request waits for the turn
            with large_work(size) if size >= LARGE_BYTES else nullcontext():
                measured = _measure(rewrite, counter)
                if counter is not None and measured.prompt is not None:
                    measured = replace(measured, untaken=self._go(go_other_roads, counter))
            if measured.prompt is None:
                self.left_out.add("tokens")
            if rewrite.redactions is not None:
                self._trace.log(rewrite.redactions, observed=observed)
            return measured

        release = self._hold(size)
        # It is done although who waits for it is cancelled: the record asks for it as well.
        measuring = self._worker.submit(job, can_be_cancelled=False)
        measuring.add_done_callback(release)
        return measuring

    def _go(
        self, go_other_roads: Callable[[TokenCounter], Sequence[Untaken]], counter: TokenCounter
    ) -> Sequence[Untaken]:
        try:
            return go_other_roads(counter)
        except OverdueError:  # another request has waited for long enough
            return ()
        except Exception as error:  # noqa: BLE001 - the request is recorded without them
            logger.warning(
                f"could not tell what another setting would save ({type(error).__name__})"
            )
            return ()

    def finish(
        self,
        answered: Answered,
        measuring: Measuring | None = None,
        history: Measuring | None = None,
        answer: Message | None = None,
        learn: Callable[[Answered], Entry | None] = lambda _: None,
        *,
        events: Sequence[bytes] = (),
        name_account: Callable[[str | None], str] = lambda _: "",
    ) -> None:
        """Record a request that has ended, unless too many wait for that.

        answered: without what is measured, and without the usage.
        history: of the request that holds the history of the conversation, if it is another.
        answer: is decoded, and read for its usage and for what it says of the request.
        learn: is called with the request, complete; returns its entry in a ledger, if it has one.
        events: what came with the answer, outside of its body, and tells of a plan's quota.
        name_account: is called with what the request says of its user, if the answer tells of a
            quota; returns a tag of the account whose it is.
        """
        if self._waiting >= _MAX_PENDING:
            self.left_out.add("records")
            return
        size = len(answer.raw_content or b"") if answer else 0
        if size and self._pending_bytes >= _MAX_PENDING_BYTES:
            self.left_out.add("answers")
            answer, size = None, 0

        def job() -> None:
            measured = measuring.result() if measuring else None
            whole = history.result() if history else measured
            usage, transformations, cleared, told = None, {}, None, [*events]
            try:
                if answer and (body := read_answer(answer)):
                    told += find_events(body)
                    usage, transformations = read_usage(body), count_transformations(body)
                    if answered.rewritten.clearing == "asked":
                        cleared = read_cleared(body)
            except ValueError:  # it is too large once decompressed
                self.left_out.add("answers")
            received = answered.rewritten.received
            # What a plan's request used counts, too, where its answer tells of no quota.
            on_plan = (
                received.subscription
                and received.settings.metrics.quota_saving
                and not received.replay
            )
            headers = answer.headers if answer else HeaderFields(())
            quota: tuple[QuotaWindow, ...] = ()
            if not received.replay:  # a recording tells of a quota long gone
                quota = read_quota(headers, told, datetime.now(UTC))
            complete = answered.complete(
                measured,
                whole.conversation_id if whole else None,
                usage,
                transformations,
                cleared,
                quota,
                name_account(measured.user if measured else None) if quota or on_plan else None,
            )
            self._found.append((complete, learn(complete)))
            if received.replay:
                self._hand_out()  # as fast as they come
            elif len(self._found) == 1:
                timer = threading.Timer(_GATHER_SECONDS, self._worker.submit, (self._hand_out,))
                timer.daemon = True
                timer.start()

        release = self._hold(size, records=1)
        self._worker.submit(job).add_done_callback(release)

    def _hand_out(self) -> None:
        """Make records of what was found, and hand each to all sinks, and to the file."""
        dumped = []
        while self._found:
            try:
                record = self._record(*self._found[0])
                dumped.append(record.dump())
            except Exception as error:  # noqa: BLE001 - the next record must not fail with it
                logger.warning(f"{_PROBLEM} ({type(error).__name__})")
            finally:
                self._found.popleft()
        self._file.write(*dumped)

    def _record(self, answered: Answered, entry: Entry | None) -> RequestRecord:
        record = make_record(answered, entry)
        so_far = entry.so_far if entry else NO_BILL

        def log(record: RequestRecord) -> None:
            self._log.log(logging.INFO, render_line(record, so_far))

        for sink in (log, *self.sinks):
            try:
                sink(record)
            except Exception as error:  # noqa: BLE001 - the other sinks get it all the same
                logger.warning(f"{_PROBLEM} ({type(error).__name__})")
        return record

    def note(self, fields: Mapping[str, object], settings: Settings, run: Run) -> None:
        """Write the record of an MCP response, under the settings in force."""

        def job() -> None:
            made_by = {**describe_software(settings), "run": run.name, "tag": run.tag}
            self._file.write(McpRecord.model_validate({**made_by, **fields}).dump())

        if self._waiting >= _MAX_PENDING:
            self.left_out.add("records")
        else:
            release = self._hold(0, records=1)
            self._worker.submit(job).add_done_callback(release)

    def find_path(self) -> Path:
        """Return where the records go. Raises RuntimeError if the user has no home."""
        return self._file.path

    @property
    def path(self) -> str | None:
        """Where the records go; None if the user has no home."""
        try:
            return str(self._file.path)
        except RuntimeError:
            return None

    def settle(self) -> Future[str | None]:
        """Return the run's summary, in a line, once all that came before is recorded.

        None if the run has ended.
        """

        def job() -> str:
            self._hand_out()
            return render_last_line(self.totals.sent.tally)

        return self._worker.submit(job)

    @property
    def lost(self) -> int:
        """How many records of the run are nowhere."""
        return self._lost + self._file.lost + self.left_out.count("records")

    def close(self) -> None:
        """Wait for all pending jobs, though not for ever, and log what is left to say."""
        self._worker.submit(self._hand_out)
        if not self._worker.close(_STOP_SECONDS):
            count = self._waiting
            requests = "1 request is" if count == 1 else f"{count:,} requests are"
            self._log.log(
                logging.WARNING, f"{requests} not recorded: that took too long at the end"
            )
        self.sessions.close()
        self._file.close()
        self._log.flush()

    @property
    def _waiting(self) -> int:
        """How many requests wait to be recorded."""
        return self._pending + len(self._found)

    def _hold(self, size: int, *, records: int = 0) -> Callable[[Future[Any]], None]:
        """Count what a job holds until it is done; return what to call then."""
        self._add_pending(records, size)
        return lambda _: self._add_pending(-records, -size)

    def _add_pending(self, records: int, size: int) -> None:
        with self._lock:
            self._pending += records
            self._pending_bytes += size


def _measure(rewrite: Rewrite, counter: TokenCounter | None) -> Measured:
    prompt = None
    with suppress(OverdueError):
        prompt = read_prompt(rewrite, counter) if counter else None
    shortened = rewrite.arrived.shortened
    return Measured(
        sizes=measure(rewrite, prompt),
        conversation_id=digest_opening(rewrite.conversation).hex(),
        prompt=prompt,
        repeated=find_repeated(rewrite.conversation),
        shortened=frozenset(each.place for each in shortened),
        quotes=count_quotes(rewrite.arrived) if shortened else 0,
        folder=find_folder(rewrite.conversation),
        user=find_user(rewrite.conversation.body),
    )
