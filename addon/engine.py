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
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from time import perf_counter

from addon.config import Change, ConfigFile, ConfigWatch, render_change
from addon.content import read_answer
from addon.held import AwaitedAnswer
from addon.masker import (
    AskedClearing,
    BoundChange,
    Carrier,
    LostResults,
    Masker,
    Outcome,
    SecondRequest,
    pass_through,
)
from addon.places import state_folder
from addon.records.recorder import Measuring, Recorder
from addon.records.sessions import RunFile, Running
from addon.request import (
    Message,
    Request,
    client_of,
    digest_account,
    digest_credential,
    is_event_stream,
    is_opened,
    is_subscription,
    one_line,
    path_of,
    session_of,
)
from addon.stages import Answered, Interruption, Received, Resent, Rewritten, Run
from addon.threads import LoopLog, Pool
from masking.config import Settings
from masking.rewrite import Rewrite
from masking.wire import Match, read_told

logger = logging.getLogger("observation_masking")

_MAX_COPIED_BYTES = 16_000_000
"""Of a longer answer, no more is kept for its usage and its calls; it goes on all the same."""

_SMALL_BYTES = 100_000
"""A smaller request is kept until its answer has come, and measured then."""

_NO_VERDICT = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses below 500 that say nothing of what was asked."""


_DROPPED = "thinking_dropped"

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
        self.recorder = Recorder(self.masker.ledgers, self.log)
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
        if self.config is None or not is_opened(request.pretty_host, settings.hosts):
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
        self.masker.close()
        self.recorder.close()
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
        self._unmeasured: tuple[Rewrite, bytes] | None = None
        self._measuring: Measuring | None = None
        self._history: Exchange | None = None
        self._second: SecondRequest | None = None
        self._fallback: Outcome | None = None
        self._bound: BoundChange | None = None
        self._asked: AskedClearing | None = None
        self._lost: LostResults | None = None
        self._awaited: AwaitedAnswer | None = None
        self._events: list[bytes] = []
        self._events_room = _MAX_COPIED_BYTES
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
        outcome = await self._mask(carrier)
        if outcome is None or self._is_finished:  # the latter as the process ends
            return
        hook_us = int((perf_counter() - self._started) * 1_000_000)
        self._rewritten = replace(outcome.rewritten, hook_us=hook_us)
        self._second = outcome.second
        self._bound, self._fallback = outcome.bound, outcome.fallback
        self._asked, self._lost, self._awaited = outcome.asked, outcome.lost, outcome.awaited
        self._measure(outcome.rewrite, outcome.original)
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

        It may tell whether the account takes a changed text before bound reasoning, and that a
        request was taken that asks its provider to clear.
        """
        is_taken = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
        if self._asked is not None and is_taken:
            self._engine.masker.keep_cleared(self._asked)
        if self._second is not None and is_taken:
            self._engine.masker.refusals.note_taken(self._second.conversation)
        bound = self._bound
        if bound is None or not bound.is_try or self._rewritten is None:
            return
        if is_taken:
            self._engine.masker.settle(bound, "takes")
            self._rewritten = replace(self._rewritten, account="takes")
        elif status != HTTPStatus.BAD_REQUEST:
            self._engine.masker.accounts.end_try(bound.account)
        else:
            return  # the second request tells
        self._bound = bound._replace(is_try=False)

    def note_event(self, event: bytes) -> None:
        """Take note of a message of the answer that is no part of its body, as on a WebSocket.

        What there is no room for is not kept. The result of a call in it then stays whole.
        """
        is_kept = self._awaited is not None and len(event) <= self._events_room
        if is_kept and _ITEM.search(event):
            self._events.append(event)
            self._events_room -= len(event)

    def may_stream(self, answer: Message) -> bool:
        """Whether an answer may be a stream: of events, or an array, or lines of JSON.

        A request that could not be read may ask for one, too.
        """
        priced = self._rewritten.priced if self._rewritten else None
        return priced is None or priced.stream or is_event_stream(answer)

    # A second request, whose answer takes the place of a refusal.

    def may_resend(self, status: int, sent: bytes | None) -> bool:
        """Whether an answer with this status may be replaced by the answer to a second request.

        sent: the body that the provider got. Nothing is sent again if somebody has changed that
            since: what others take out of it must not come back.
        """
        second = self._second
        is_refusal = status == HTTPStatus.BAD_REQUEST
        return second is not None and is_refusal and sent is second.refused

    def begin_second(self) -> SecondRequest | None:
        """Return what to send in place of the refused request; None if nothing is to be tried.

        Whoever sends it calls `end_second`.
        """
        refusals, second = self._engine.masker.refusals, self._second
        is_bound = self._bound is not None
        if second is None or is_bound or self._asked is not None or self._lost is not None:
            return second
        # A request beside the one that was tried first was masked before that was known.
        known = second.conversation
        return second if refusals.begin(known) or refusals.goes_unmasked(known) else None

    async def end_second(self, status: int | None, carrier: Carrier) -> None:
        """Take note of the second answer's status, None if none came.

        If the provider took the request, `carrier` has it as it was taken: so it is recorded.
        Raises no Exception.
        """
        if self._second is None or self._rewritten is None:
            return
        is_success = status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
        verdict: Resent | None = "accepted" if is_success else "refused"
        if status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _NO_VERDICT:
            verdict = None  # it says nothing of the request
        masker, bound, fallback = self._engine.masker, self._bound, self._fallback
        conversation, self._second, self._bound = self._second.conversation, None, None
        before = self._rewritten
        asked, self._asked = self._asked, None
        lost, self._lost = self._lost, None
        if lost is not None:
            self._rewritten = replace(before, resent="refused")
            if is_success and fallback is not None:
                masker.keep_lost(lost)
                rewritten = fallback.rewritten
                self._rewritten = replace(rewritten, resent="accepted", hook_us=before.hook_us)
                self._take_fallback(fallback, carrier)
            return
        if asked is not None:
            # Only if the other one is taken, asking is what was refused.
            self._rewritten = replace(before, resent="refused")
            if is_success and fallback is not None:
                masker.end_clearing(asked)
                self._rewritten = replace(
                    fallback.rewritten,
                    resent="accepted",
                    clearing="refused",
                    hook_us=before.hook_us,
                )
                self._take_fallback(fallback, carrier)
            return

        if not is_success:
            self._rewritten = replace(before, resent="refused")
            if bound is None:
                masker.refusals.settle(conversation, verdict)
            elif bound.is_try:
                masker.accounts.end_try(bound.account, waits=verdict == "refused")
            elif verdict == "refused":
                # The account may have come to refuse: texts that it took changed are before
                # reasoning in both. The next move is a try, which is healed.
                masker.accounts.learn(bound.account, None)
                self._rewritten = replace(self._rewritten, account=None)
            return

        # It was refused for what had changed before reasoning, so the account refuses that. What
        # was taken is known.
        if bound is not None and fallback is not None:
            masker.settle(bound, "refuses")
            self._rewritten = replace(
                fallback.rewritten,
                resent="accepted",
                hook_us=before.hook_us,
                tried=before.tried,
                account="refuses",
            )
            self._take_fallback(fallback, carrier)
            return

        masker.refusals.settle(conversation, verdict)
        outcome = await self._mask(carrier)
        if outcome is not None and not self._is_finished:
            self._rewritten = replace(outcome.rewritten, resent="accepted", hook_us=before.hook_us)
            self._measure(outcome.rewrite, outcome.original)

    def _take_fallback(self, fallback: Outcome, carrier: Carrier) -> None:
        """Have the record be of the request that was taken in place of the refused one."""
        if fallback.rewrite is not None:
            carrier.mark(fallback.rewrite.decisions)
            self._measure(fallback.rewrite, fallback.original)

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
        engine, bound = self._engine, self._bound
        if bound is not None and bound.is_try:
            engine.masker.accounts.end_try(bound.account)
        answered = Answered(
            rewritten=self._rewritten,
            status=status,
            error=interrupted,
            first_chunk_seconds=self.copy.first_chunk_seconds,
        )
        recorder, history = engine.recorder, self._history
        if self._unmeasured:
            rewrite, original = self._unmeasured
            observed = self._rewritten.observed
            self._measuring = recorder.measure(rewrite, original, observed=observed)
            self._unmeasured = None
        measured_history = history._measuring if history else None

        asked = self._asked
        if self._awaited is not None and answered.was_taken and answer is not None:
            # The next message may continue it at once, so this waits for no other thread.
            with suppress(ValueError):  # it is too large once decompressed
                told = read_told([*self._events, read_answer(answer) or b""])
                engine.masker.held.keep(self._awaited, told)

        def learn(complete: Answered) -> None:
            """Learn what the answer tells: whether anything was cleared, or dropped.

            An account that takes a changed text drops no thinking because of it.
            """
            if asked is not None and complete.was_cleared is not None:
                tokens = complete.rewritten.clearing_tokens
                engine.masker.note_clearing(asked, tokens, is_cleared=complete.was_cleared)
            if bound is not None and complete.transformations.get(_DROPPED):
                engine.masker.accounts.learn(bound.account, "refuses")

        recorder.finish(answered, self._measuring, measured_history, answer, learn)

    async def _mask(self, carrier: Carrier) -> Outcome | None:
        """Return what becomes of the carrier's request; None if that failed, which is noted."""
        try:
            return await self._engine.masker.mask(carrier, self.received)
        except Exception as error:  # noqa: BLE001 - the client's bytes go on, whatever happened
            logger.warning(f"a request was not masked ({type(error).__name__})")
            self.pass_through(carrier, f"internal error ({type(error).__name__})")
            return None

    def _measure(self, rewrite: Rewrite | None, original: bytes) -> None:
        """Have the request measured: at once, or with its record if it is small.

        The latter spares the recorder's thread a turn, 0.2 of the 4 ms that the addon takes for a
        request of 45 kB (`tests.tools.benchmarks.request_cost`). What is redacted is logged at
        once.
        """
        if rewrite is None or self._rewritten is None:
            return
        is_small = len(original) < _SMALL_BYTES and rewrite.redactions is None
        if is_small and not self.received.replay:
            self._unmeasured = rewrite, original
            return
        observed = self._rewritten.observed
        self._measuring = self._engine.recorder.measure(rewrite, original, observed=observed)


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
