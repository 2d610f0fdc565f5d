"""Decides what becomes of a request to a model, and replaces its body.

It owns what a decision needs: the ledgers of what was sent, the memory of conversations, prices,
and what attempts have learned. Whatever goes wrong in here, the client's own bytes go out.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol

from addon.attempts import Attempt, Attempts
from addon.content import check_elements, check_values
from addon.ledgers import Ledgers
from addon.memory import MemoryRows, open_memory
from addon.recall import RecallWriter
from addon.request import name_betas, one_line
from addon.stages import Group, Priced, Received, Rewritten
from addon.threads import Pool
from masking.config import Settings
from masking.conversation import Conversation, Request, index_request
from masking.errors import WireError
from masking.memory import Memories, digest_opening, estimate_lifetime, is_held_out
from masking.model import Decision
from masking.proof import Prover
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Step
from masking.server_history import PendingAnswer, ServerHeldRequest, ServerHistories
from masking.window import price_boundary, price_request
from masking.wire import OnHistoryEdit


class Carrier(Protocol):
    """A request on its way, which can be read, and replaced by another: each engine has its own.

    `size` is in bytes as on the wire, but for the compression of a WebSocket. `wire_body` is the
    body as on the wire, where another request with it can be sent, and `betas` are the values of
    the header `anthropic-beta`; None where none can be.
    """

    @property
    def size(self) -> int: ...

    @property
    def most_bytes(self) -> int:
        """About how long the body is at most, decoded."""

    @property
    def wire_body(self) -> bytes | None: ...

    @property
    def betas(self) -> tuple[str, ...] | None: ...

    def read(self) -> bytes:
        """Return the decoded body. Raises WireError if it must not or cannot be read."""

    def encode(self, body: bytes) -> bytes:
        """Return another body as it would be on the wire; its length is a `size`."""

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Write down what was decided, where the engine has a place for it."""

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        """Send the body of a rewrite in place of the client's, which a recording keeps.

        Where it asks the provider to clear or to drop, the header says so, too.
        """


class Substitute(NamedTuple):
    """What goes out in place of a refused request; bodies are as on the wire.

    refused: the body that was sent.
    body: the one to send in its place; `is_own` says whether that is the client's own.
    betas: the values of the header `anthropic-beta` to send with it; None for those of the request.
    rewritten: what the record says if it is taken.
    """

    refused: bytes | None
    body: bytes
    is_own: bool
    betas: tuple[str, ...] | None
    rewritten: Rewritten


class Masked(NamedTuple):
    """What becomes of a request. Without an `attempt`, its own bytes go on.

    rewritten: what its record says.
    size: the bytes of its own body, decoded.
    substitute: what goes out if the attempt is refused; None if nothing does.
    step: the request in its conversation; None where it could not be read.
    awaited: what is known of its conversation, for a request that continues its answer; None where
        that shows all of it.
    """

    rewritten: Rewritten
    attempt: Attempt | None = None
    size: int = 0
    substitute: Substitute | None = None
    step: Step | None = None
    awaited: PendingAnswer | None = None


class Masker:
    """Masks the requests of a process, or observes them; `folder` is where it remembers them."""

    def __init__(self, folder: Callable[[], Path], pool: Pool) -> None:
        self.ledgers = Ledgers()
        self._store = open_memory(folder)
        self.attempts = Attempts(self._store)
        self.held = ServerHistories()
        self._memory = MemoryRows(self._store)
        self._recall = RecallWriter()
        self._pool = pool
        self._cache = RequestCache()
        self._prover = Prover()

    async def mask(self, carrier: Carrier, received: Received) -> Masked:
        """Mask a request in place, in a thread, or leave it alone where it is only observed."""
        settings, memories = received.settings, None
        if settings.memory.enabled and not received.replay:
            memories = await self._memory.open(observes=settings.observes)
        work = functools.partial(self._mask, carrier, received, memories)
        masked = await self._pool.run(carrier.most_bytes, work)
        if masked is None and memories is not None and memories.is_being_read:
            # A provider might refuse the request because of what was masked in it before, so this
            # one waits for as long as the file is tried for.
            memories = await self._memory.open(observes=settings.observes, patiently=True)
            memories = memories._replace(is_being_read=False)
            work = functools.partial(self._mask, carrier, received, memories)
            masked = await self._pool.run(carrier.most_bytes, work)
        return masked or Masked(pass_through(carrier, received))  # the run has ended

    def close(self) -> None:
        """Write what is remembered, and what is still to be kept for recall."""
        self._memory.close()
        self._recall.close()
        self.attempts.close()
        self._store.close()

    def _mask(
        self, carrier: Carrier, received: Received, memories: Memories | None
    ) -> Masked | None:
        draft = _Draft(received, carrier.size)
        try:
            return self._change(carrier, draft, memories)
        except WireError as error:
            problem = error.problem if error.path == "body" else str(error)
        except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
            problem = f"internal error ({type(error).__name__})"
        rewritten = draft.pass_through(problem)
        if draft.attempt is not None:
            rewritten = draft.attempt.settle("failed", replace(rewritten, tried=False))
        return Masked(rewritten)

    def _change(
        self, carrier: Carrier, draft: "_Draft", memories: Memories | None
    ) -> Masked | None:
        """Mask a request; None if a provider might refuse it without what is still being read."""
        # Read it, and find the settings and prices that hold for it.
        original = carrier.read()
        wire = draft.received.wire
        check_values(original)
        request = self._cache.decode(original, wire, draft.received.path)
        check_elements(request.document, wire)
        model = None if request.model is None else one_line(request.model)
        draft.choose_settings(model)
        received = draft.received
        draft.priced = priced = price(received, request, model)
        draft.binding = request.binding

        # Find what is known of its conversation.
        settings, strategies, held = received.settings, received.settings.strategies, None
        if memories is not None and strategies.shortens and strategies.arrival.enabled:
            held = self.held.read(received.place, request)
        client = index_request(request) if held is None else held.client
        if _is_held_out(settings, client, held):
            draft.group, draft.observed = "holdout", True
        is_unread = memories is not None and memories.is_being_read and held is None
        if is_unread and draft.binding is not None and not draft.observed:
            return None
        only = None
        if not (received.replay or draft.observed):
            # No boundary is held because of what was not sent.
            only = self.ledgers.frozen_results(priced.cache_scope, client)
        step = Step(
            client,
            strategies,
            priced.prices,
            memories,
            held=held,
            only=only,
            observed=draft.observed,
            purpose=received.purpose,
            now=received.time.timestamp(),
            lifetime=priced.lifetime,
            prover=self._prover,
        )

        # Decide what goes out, and what does if that is refused.
        can_resend = carrier.wire_body is not None
        window = priced.pricing.window
        attempt = self.attempts.plan(step, received, window=window, can_resend=can_resend)
        draft.attempt = attempt
        rewrite, instead = attempt.rewrite, attempt.instead
        awaited = step.await_answer(received.place)
        is_changed = rewrite.body is not original
        if draft.observed:
            bytes_after = len(carrier.encode(rewrite.body)) if is_changed else carrier.size
            rewritten = draft.describe(rewrite, bytes_after)
            return Masked(rewritten, attempt, len(original), step=step, awaited=awaited)

        # Replace its body.
        carrier.mark(rewrite.decisions)
        own, betas = carrier.wire_body, carrier.betas
        body = own if instead is None or instead.body is original else carrier.encode(instead.body)
        if is_changed:
            carrier.replace(rewrite, received)
            if received.purpose == "answer" and not received.replay:
                arrived, size = rewrite.arrived, len(original)
                self._recall.keep(rewrite.decisions, size, settings.recall, arrived)
        rewritten, substitute = draft.describe(rewrite, carrier.size), None
        changes_header = instead is not None and instead.betas != rewrite.betas
        if instead is not None and body is not None:
            substitute = Substitute(
                refused=carrier.wire_body,
                body=body,
                is_own=body is own,
                betas=name_betas(betas or (), instead.betas) if changes_header else None,
                rewritten=draft.describe(instead, len(body)),
            )
        return Masked(rewritten, attempt, len(original), substitute, step, awaited)


def pass_through(carrier: Carrier, received: Received) -> Rewritten:
    """Return a request whose own bytes go on, with what its arrival tells."""
    return _Draft(received, carrier.size).pass_through(None)


class _Draft:
    """What is known of a request so far: each step adds to it, so that no exception loses that."""

    def __init__(self, arrived: Received, size: int) -> None:
        self._arrived, self._size = arrived, size
        self.priced: Priced | None = None
        self.binding: OnHistoryEdit | None = None
        self.group: Group | None = None
        self.attempt: Attempt | None = None
        self.choose_settings(None)

    def choose_settings(self, model: str | None) -> None:
        """Take the settings that hold for the request, given its model, if known."""
        self.received = self._arrived.choose_settings(model)
        self.observed = self.received.settings.mode == "observe"

    def pass_through(self, problem: str | None) -> Rewritten:
        """Return the request as one whose own bytes go on, because of a problem."""
        attempt = self.attempt
        return Rewritten(
            received=self.received,
            bytes_before=self._size,
            bytes_after=self._size,
            priced=self.priced,
            prefix=attempt and attempt.prefix,
            binding=self.binding,
            passed_through=problem,
            observed=self.observed,
            group=self.group,
            tried=attempt is not None and attempt.is_try,
            account=attempt and attempt.account,
        )

    def describe(self, rewrite: Rewrite, bytes_after: int) -> Rewritten:
        """Return the request as it goes out, or would if it were not only observed."""
        rewritten = replace(self.pass_through(rewrite.obstacle), bytes_after=bytes_after)
        if rewrite.obstacle is not None:
            return replace(rewritten, left_out=rewrite.left_out)
        rewritten = replace(
            rewritten,
            masked=rewrite.masked,
            left_unmasked=rewrite.left_unmasked,
            dropping="asked" if rewrite.drops and not self.observed else None,
        )
        if rewrite.clearing is None or self.observed:
            can_clear = self.attempt is not None and self.attempt.can_clear
            return replace(rewritten, clearing="possible") if can_clear else rewritten
        return replace(rewritten, clearing="asked", clearing_tokens=rewrite.clearing.tokens)


def price(received: Received, request: Request, model: str | None) -> Priced:
    """Price a request; `model` is the one that it names.

    Raises ConfigError for a price list that cannot be used, OSError for one that cannot be read.
    """
    marks, prices = request.marks, received.settings.price_settings
    pricing = price_request(prices, received.host, model, request)
    scope = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    return Priced(
        model=model,
        stream=received.wire.streams(request.document, received.path),
        cache_scope=scope.digest(),
        pricing=pricing,
        prices=price_boundary(pricing, slides=prices.slides, marks=marks),
        lifetime=estimate_lifetime(marks, pricing.cache.lifetime),
    )


def _is_held_out(settings: Settings, client: Conversation, held: ServerHeldRequest | None) -> bool:
    """Whether a conversation is of the group that is only observed while others are masked."""
    percent, salt = settings.holdout_percent, settings.holdout_salt
    if not settings.changes or percent <= 0:
        return False
    opening = digest_opening(client) if held is None else held.continued.opening
    return opening is not None and is_held_out(opening, percent, salt)
