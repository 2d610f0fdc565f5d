"""A request to a model, from its arrival to its record, whatever carries it.

    engine = Engine(Run("3f2a81c0"))            # one for a process
    engine.use(ConfigFile(path))                # its settings hold, and their changes
    exchange = engine.open(request, match)      # None if its host is not to be looked at
    await exchange.mask(carrier)                # the carrier's body is replaced, or stays
    exchange.finish(200, answer)                # its answer has ended: a record
    engine.close()

mitmproxy's flows and WebSockets (`addon/proxy`), Envoy and LiteLLM (`addon/gateways`) are adapters
over this. What a request has to say, and what an answer teaches, has its one place here.
"""

import asyncio
import functools
import logging
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from time import perf_counter

from addon.attempts import Outcome
from addon.config import Change, ConfigFile, ConfigWatch, render_change
from addon.content import read_answer
from addon.masker import Carrier, Masked, Masker, Substitute, pass_through
from addon.places import state_folder
from addon.quota import find_events
from addon.records.recorder import Measuring, Recorder
from addon.records.sessions import RunFile, Running
from addon.request import (
    Message,
    Request,
    client_of,
    digest_account,
    digest_credential,
    is_event_stream,
    is_intercepted,
    is_subscription,
    one_line,
    path_of,
    session_of,
)
from addon.stages import Answered, Interruption, Received, Rewritten, Run
from addon.threads import LoopLog, Pool
from masking.accounting import Entry
from masking.config import Settings
from masking.rewrite import Rewrite
from masking.roads import Untaken
from masking.tokens import TokenCounter
from masking.wire import Match, read_calls

logger = logging.getLogger("observation_masking")

_MAX_COPIED_BYTES = 16_000_000
"""Of a longer answer, no more is kept for its usage and its calls; it goes on all the same."""

_SMALL_BYTES = 100_000
"""A smaller request is kept until its answer has come, and measured then."""

_NO_VERDICT = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses below 500 that say nothing of what was asked."""

_MOST_QUOTA_EVENTS = 8
"""The last of an answer; each tells of one family of limits."""

_ITEM = re.compile(rb'"type"\s*:\s*"response\.output_item\.done"')


class Engine:
    """What the requests of a process share: settings, masker, records, threads.

    Its threads start with the first work. With `reports_changes`, a change of the configuration is
    a line in the log; without, whoever started this process reads the file, too, and says so.
    """

    def __init__(self, run: Run | None = None, *, reports_changes: bool = True) -> None:
        self.run = run or Run(secrets.token_hex(4))
        self.config: ConfigFile | None = None
        self.log = LoopLog()
        self.pool = Pool()
        self.masker = Masker(state_folder, self.pool)
        self.recorder = Recorder(self.log)
        self._reports_changes = reports_changes
        self._watch: ConfigWatch | None = None
        self._run_file: RunFile | None = None

    @property
    def settings(self) -> Settings:
        """The settings that hold now; before there are any, the defaults, which mask nothing."""
        return Settings() if self.config is None else self.config.settings

    def start(self) -> None:
        """Log in the thread of the event loop that runs here, and load what takes long to load."""
        self.log.start()
        self.recorder.start()

    def use(self, config: ConfigFile) -> None:
        """Let the settings of a configuration hold from now on."""
        self.config = config
        self.recorder.configure(config.settings.metrics, config.advice)
        if self._watch:
            self.watch()

    def watch(self) -> None:
        """Take up changes of the configuration's file from now on."""
        if self._watch:
            self._watch.close()
        if self.config is not None:
            self._watch = ConfigWatch(self.config, functools.partial(self._note, self.config))

    def announce(self, page: str | None = None) -> None:
        """Let others see that this process runs, and where its page is, until it is closed."""
        if self._run_file is not None:
            return
        name, tag = self.run
        began = datetime.now(UTC).isoformat(timespec="seconds")
        running = Running(name, began, self.recorder.sessions.writer, page, tag)
        try:
            self._run_file = RunFile(state_folder(), running)
        except (OSError, RuntimeError) as error:
            self.log.log(logging.WARNING, f"obsmask page will not find this proxy: {error}")

    def open(
        self, request: Request, match: Match, *, replay: bool = False, answers_masked: bool = True
    ) -> "Exchange | None":
        """Return the exchange of a request that arrives just now; None if its host is closed.

        replay: whether it comes from a recording.
        answers_masked: whether its answer is one to the masked prompt.
        """
        settings = self.settings
        if self.config is None or not is_intercepted(request.pretty_host, settings.hosts):
            return None
        headers = request.headers
        received = Received(
            time=datetime.now(UTC),
            run=self.run,
            host=one_line(request.pretty_host),
            path=one_line(path_of(request)),
            wire=match.wire,
            purpose=match.purpose,
            client=client_of(request),
            session=session_of(request),
            subscription=is_subscription(request),
            account=digest_account(request),
            credential=digest_credential(request),
            settings=settings,
            replay=replay,
            headers={name: headers[name] for name in settings.ruled_headers if name in headers},
            answers_masked=answers_masked,
        )
        return Exchange(self, received)

    def close(self) -> None:
        """Begin nothing more, and wait for records and memory to be written, though not for ever.

        What is still open is to be finished before.
        """
        if self._watch:
            self._watch.close()
        self.pool.close()
        self.recorder.close()  # what late answers teach comes from there
        self.masker.close()
        if self._run_file is not None:
            self._run_file.close()
            self._run_file = None

    def _note(self, config: ConfigFile, change: Change) -> None:
        self.recorder.configure(config.settings.metrics, config.advice)
        if self._reports_changes:
            level = logging.WARNING if change.problem else logging.INFO
            self.log.log(level, render_change(config, change))


class Exchange:
    """A request to a model and its answer; made by `Engine.open` when the request arrives.

    `mask` or `pass_through` comes first, `finish` at the end; what comes after that does nothing.
    `copy` takes a streamed answer as it passes. An exchange holds no carrier, so that whoever keeps
    exchanges by their flows keeps no flow alive.
    """

    def __init__(self, engine: Engine, received: Received) -> None:
        self.received = received
        self.copy = ResponseCopy()
        self._engine = engine
        self._started = perf_counter()
        self._rewritten: Rewritten | None = None
        self._masked: Masked | None = None
        self._is_settled = False
        self._unmeasured: tuple[Rewrite, int] | None = None
        self._measuring: Measuring | None = None
        self._history: Exchange | None = None
        self._events: list[bytes] = []
        self._events_room = _MAX_COPIED_BYTES
        self._quota_events: list[bytes] = []
        self._is_finished = False

    @property
    def rewritten(self) -> Rewritten | None:
        """The request as it goes on; None before that is known."""
        return self._rewritten

    @property
    def is_measured(self) -> bool:
        """Whether the request could be read, so that it is measured."""
        return self._measuring is not None or self._unmeasured is not None

    async def mask(self, carrier: Carrier) -> None:
        """Mask the request, or leave it alone, and have it measured. Raises no Exception."""
        self._rewritten = pass_through(carrier, self.received)
        try:
            masked = await self._engine.masker.mask(carrier, self.received)
        except Exception as error:  # noqa: BLE001 - the client's bytes go on, whatever happened
            logger.warning(f"a request was not masked ({type(error).__name__})")
            self.pass_through(carrier, f"internal error ({type(error).__name__})")
            return
        if self._is_finished:  # its client has left meanwhile, or the process ends
            if masked.attempt is not None:
                masked.attempt.settle("failed", masked.rewritten)
            return
        hook_us = int((perf_counter() - self._started) * 1_000_000)
        self._masked, self._rewritten = masked, replace(masked.rewritten, hook_us=hook_us)
        if masked.attempt is not None:
            self._measure(masked.attempt.rewrite)
        if self.received.replay and self._measuring:
            # Nobody waits for it. So a replay does not outrun its records, and none is left out.
            await asyncio.wrap_future(self._measuring)

    def pass_through(self, carrier: Carrier, reason: str) -> None:
        """Note that the request's own bytes go on, for a reason."""
        rewritten = self._rewritten or pass_through(carrier, self.received)
        self._rewritten = replace(rewritten, passed_through=reason)

    def continues(self, other: "Exchange") -> None:
        """Note that another request holds the history of this one's conversation."""
        self._history = other

    # Its answer.

    def begin_answer(self, status: int) -> None:
        """Take note of the status of the answer, as soon as this begins.

        A refusal is not the end: something may go out in place of the request.
        """
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._settle("taken")
        elif status != HTTPStatus.BAD_REQUEST:
            self._settle("failed")

    def note_event(self, event: bytes) -> None:
        """Take note of a message of the answer that is no part of its body, as on a WebSocket.

        What there is no room for is not kept. The result of a call in it then stays whole.
        """
        self._quota_events += find_events(event)
        del self._quota_events[:-_MOST_QUOTA_EVENTS]
        is_awaited = self._masked is not None and self._masked.awaited is not None
        is_kept = is_awaited and len(event) <= self._events_room
        if is_kept and _ITEM.search(event):
            self._events.append(event)
            self._events_room -= len(event)

    def may_stream(self, answer: Message) -> bool:
        """Whether an answer may be a stream: of events, or an array, or lines of JSON.

        A request that could not be read may ask for one, too.
        """
        priced = self._rewritten.priced if self._rewritten else None
        return priced is None or priced.stream or is_event_stream(answer)

    # Another request, whose answer takes the place of a refusal.

    def may_resend(self, status: int, sent: bytes | None) -> bool:
        """Whether an answer with this status may be replaced by the answer to another request.

        sent: the body that the provider got. Nothing is sent again if somebody has changed that
            since: what others take out of it must not come back.
        """
        substitute = self._masked and self._masked.substitute
        is_refusal = status == HTTPStatus.BAD_REQUEST
        return substitute is not None and is_refusal and sent is substitute.refused

    def begin_second(self) -> Substitute | None:
        """Return what to send in place of the refused request; None if nothing is to be tried.

        Whoever sends it calls `end_second`.
        """
        masked = self._masked
        if masked is None or masked.attempt is None or not masked.attempt.may_resend():
            return None
        return masked.substitute

    def end_second(self, status: int | None, carrier: Carrier) -> None:
        """Take note of the second answer's status, None if none came.

        If the provider took the request, `carrier` has it as it was taken: so it is recorded.
        """
        masked = self._masked
        if masked is None or masked.substitute is None or self._rewritten is None:
            return
        first, self._masked = self._rewritten, masked._replace(substitute=None, awaited=None)
        if status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _NO_VERDICT:
            outcome: Outcome = "unclear"  # it says nothing of the request
        else:
            is_taken = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
            outcome = "healed" if is_taken else "refused"
        self._rewritten = replace(first, resent="refused")
        if outcome == "healed":
            self._rewritten = replace(
                masked.substitute.rewritten,
                resent="accepted",
                hook_us=first.hook_us,
                tried=first.tried,
            )
        self._settle(outcome)
        instead = masked.attempt and masked.attempt.instead
        if outcome == "healed" and instead is not None:
            carrier.mark(instead.decisions)
            self._measure(instead)

    # Its end.

    def finish(
        self,
        status: int | None = None,
        answer: Message | None = None,
        *,
        interrupted: Interruption | None = None,
    ) -> None:
        """Record the request, which has ended, with an answer or without one; once.

        status, answer: None if none came. The body of the answer is read soon, in another thread.
        interrupted: by whom the answer was, or the wait for it.
        """
        if self._is_finished or self._rewritten is None:
            return
        self._is_finished = True
        engine, masked = self._engine, self._masked
        was_resent = self._rewritten.resent is not None
        self._settle("failed")
        answered = Answered(
            rewritten=self._rewritten,
            status=status,
            error=interrupted,
            first_chunk_seconds=self.copy.first_chunk_seconds,
        )
        recorder, history = engine.recorder, self._history
        if self._unmeasured:
            rewrite, size = self._unmeasured
            self._have_measured(rewrite, size)
            self._unmeasured = None
        measured_history = history._measuring if history else None

        awaited = masked and masked.awaited
        if awaited is not None and answered.was_taken and answer is not None:
            # The next message may continue it at once, so this waits for no other thread.
            with suppress(ValueError):  # it is too large once decompressed
                calls = read_calls([*self._events, read_answer(answer) or b""])
                engine.masker.held.keep(awaited, calls)

        def learn(complete: Answered) -> Entry | None:
            """Learn what the answer tells, and enter the request in its ledger."""
            if masked is not None and masked.attempt is not None and not was_resent:
                masked.attempt.learn(complete)
            return engine.masker.ledgers.enter(complete)

        recorder.finish(
            answered,
            self._measuring,
            measured_history,
            answer,
            learn,
            events=self._quota_events,
            name_account=lambda user: engine.masker.attempts.accounts.tag(
                self.received.host, self.received.credential, user
            ),
        )

    def _settle(self, outcome: Outcome) -> None:
        """Note how the attempt has ended; only the first time counts."""
        if self._is_settled or self._rewritten is None or self._masked is None:
            return
        self._is_settled = True
        if self._masked.attempt is not None:
            self._rewritten = self._masked.attempt.settle(outcome, self._rewritten)

    def _measure(self, rewrite: Rewrite) -> None:
        """Have the request measured: at once, or with its record if it is small.

        The latter spares the recorder's thread a turn, 0.2 of the 4 ms that the addon takes for a
        request of 45 kB (`tests.tools.benchmarks.request_cost`). What is redacted is logged at
        once.
        """
        if rewrite.obstacle is not None or self._masked is None or self._rewritten is None:
            return
        size = self._masked.size
        is_small = size < _SMALL_BYTES and rewrite.redactions is None
        if is_small and not self.received.replay:
            self._unmeasured = rewrite, size
            return
        self._have_measured(rewrite, size)

    def _have_measured(self, rewrite: Rewrite, size: int) -> None:
        masked, rewritten, engine = self._masked, self._rewritten, self._engine

        def go_other_roads(counter: TokenCounter) -> Sequence[Untaken]:
            if masked is None or masked.step is None or rewritten is None:
                return ()
            return engine.masker.ledgers.go_other_roads(masked.step, rewritten, counter)

        observed = rewritten is not None and rewritten.observed
        self._measuring = engine.recorder.measure(rewrite, size, go_other_roads, observed=observed)


class ResponseCopy:
    """Keeps a copy of a stream; can be called with each raw chunk, which it returns to be sent.

    It is made when the request arrives. `first_chunk_seconds` is the time from there to the first
    chunk; None if there has been none.
    """

    def __init__(self) -> None:
        self._started = perf_counter()
        self.first_chunk_seconds: float | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    def __call__(self, chunk: bytes) -> bytes:
        if chunk:
            self.note_first_chunk()
        self._size += len(chunk)
        if self._size <= _MAX_COPIED_BYTES:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()
        return chunk

    def note_first_chunk(self) -> None:
        """Note that the answer has begun."""
        if self.first_chunk_seconds is None:
            self.first_chunk_seconds = perf_counter() - self._started

    @property
    def body(self) -> bytes | None:
        """The stream so far; None if it was too long to keep."""
        return b"".join(self._chunks) if self._size <= _MAX_COPIED_BYTES else None
