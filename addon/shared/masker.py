"""Masks requests, and owns what that needs: the ledger, and the memory of conversations.

Whatever goes wrong in here, the client's own bytes go out.
"""

import functools
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from addon.metrics.names import printable
from addon.metrics.stages import Answered, Group, Priced, Received, Rewritten
from addon.shared.carrier import Carrier, leave_untouched
from addon.shared.extent import check_elements, check_values
from addon.shared.going_whole import leave_whole, may_go_whole
from addon.shared.memories import Memories, MemoryFiles
from addon.shared.pool import Pool
from addon.shared.pricer import Pricer
from addon.shared.recall_writer import RecallWriter
from addon.shared.refusals import Refusals
from masking.accounting import Entry, Ledger, Sent
from masking.config import Settings
from masking.conversation import Conversation, index_request
from masking.errors import WireError
from masking.memory import ConversationContext, PrefixState, digest_opening, is_held_out
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies, rewrite_request
from masking.window import FREE
from masking.wire import OnHistoryEdit


class WholeRequest(NamedTuple):
    """A masked request as its client sent it; bodies are as on the wire.

    `conversation` tells its conversation apart. `masked` is the body that was sent.
    """

    conversation: bytes
    body: bytes
    masked: bytes | None = None


class Outcome(NamedTuple):
    """How a request goes on; without a `rewrite` it goes on as it came.

    `whole` is what is to be sent once if the provider refuses it with a 400; None for nothing.
    """

    rewritten: Rewritten
    rewrite: Rewrite | None = None
    original: bytes = b""
    whole: WholeRequest | None = None


class _Known:
    """What is known of a request so far: each step adds to it, so that no exception loses that."""

    def __init__(self, arrived: Received, size: int) -> None:
        self._arrived, self.size = arrived, size
        self.priced: Priced | None = None
        self.prefix: PrefixState | None = None
        self.binding: OnHistoryEdit | None = None
        self.group: Group | None = None
        self.choose_settings(None)

    def choose_settings(self, model: str | None) -> None:
        """Take the settings that hold for the request, given its model, if known."""
        self.received = self._arrived.choose_settings(model)
        self.observed = self.received.settings.mode == "observe"

    def leave(self, problem: str) -> Rewritten:
        """Return a request that goes on as it came."""
        return Rewritten(
            received=self.received,
            bytes_before=self.size,
            bytes_after=self.size,
            priced=self.priced,
            prefix=self.prefix,
            binding=self.binding,
            passed_through=problem,
            observed=self.observed,
            group=self.group,
        )

    def tell(self, rewrite: Rewrite, bytes_after: int) -> Rewritten:
        """Return a request as it goes on."""
        return Rewritten(
            received=self.received,
            bytes_before=self.size,
            bytes_after=bytes_after,
            priced=self.priced,
            prefix=self.prefix,
            binding=rewrite.binding,
            masked=rewrite.masked,
            left_whole=rewrite.left_whole,
            observed=self.observed,
            group=self.group,
        )


class Masker:
    """Masks the requests of a run, or observes them; what is remembered lies in `folder`.

    Replayed recordings have a ledger of their own and no memory, because what was sent then must
    not change what is sent now. What is observed has its own, too: nothing of it was saved.
    `refusals` has the conversations that a provider refused masked.
    """

    def __init__(self, folder: Callable[[], Path], pool: Pool) -> None:
        numbers = count(1)
        self._sent, self._observed = Ledger(numbers=numbers), Ledger(numbers=numbers)
        self._replayed = Ledger()
        self._memory_files = MemoryFiles(folder)
        self._recall = RecallWriter()
        self._pool = pool
        self._cache = RequestCache()
        self._pricer = Pricer()
        self.refusals = Refusals()

    async def mask(self, carrier: Carrier, received: Received) -> Outcome:
        """Mask a request in place, in a thread, or leave it as it is where it is only observed."""
        settings, memories = received.settings, None
        if settings.memory.enabled and not received.replay:
            memories = await self._memory_files.open(observes=settings.observes)
        work = functools.partial(self._mask, carrier, received, memories)
        outcome = await self._pool.run(carrier.most_bytes, work)
        if outcome is None and memories is not None and memories.is_being_read:
            memories = await self._memory_files.open(observes=settings.observes, patiently=True)
            memories = memories._replace(is_being_read=False)
            work = functools.partial(self._mask, carrier, received, memories)
            outcome = await self._pool.run(carrier.most_bytes, work)
        return outcome or Outcome(leave_untouched(carrier, received))  # the run has ended

    def enter(self, answered: Answered) -> Entry | None:
        """Enter a request in the ledger; None if the provider did not take it.

        Call this in one thread, in the order in which requests were answered.
        """
        rewritten, measured = answered.rewritten, answered.measured
        priced, prompt = rewritten.priced, measured.prompt if measured else None
        is_answer = rewritten.received.purpose == "answer"
        if priced is None or prompt is None or not is_answer or not answered.was_taken:
            return None
        sent = Sent(
            seed=priced.seed,
            prompt=prompt,
            masked=rewritten.masked,
            left_whole=rewritten.left_whole,
            usage=answered.usage,
            when=rewritten.received.time,
            is_masked=rewritten.received.answers_masked and not rewritten.observed,
        )
        if rewritten.received.replay:
            return self._replayed.enter(sent, priced.pricing)
        ledger = self._observed if rewritten.observed else self._sent
        return ledger.enter(sent, priced.pricing)

    def close(self) -> None:
        """Write what is remembered to its file, and what is still to be kept for recall."""
        self._memory_files.close()
        self._recall.close()

    def _mask(
        self, carrier: Carrier, received: Received, memories: Memories | None
    ) -> Outcome | None:
        known = _Known(received, carrier.size)
        try:
            return self._change(carrier, known, memories)
        except WireError as error:
            problem = error.problem if error.path == "body" else str(error)
        except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
            problem = f"internal error ({type(error).__name__})"
        return Outcome(known.leave(problem))

    def _change(self, carrier: Carrier, known: _Known, memories: Memories | None) -> Outcome | None:
        """Mask a request; None if a provider might refuse it without what is still being read."""
        original = carrier.read()
        conversation = self._read(original, known)
        is_unread = memories is not None and memories.is_being_read
        if is_unread and known.binding is not None and not known.observed:
            return None
        rewrite, opening = self._decide(conversation, known, memories)
        is_changed = rewrite.body is not original
        bytes_after, whole = known.size, None
        if known.observed:
            bytes_after = carrier.measure(rewrite.body) if is_changed else bytes_after
        else:
            carrier.mark(rewrite.decisions)
            if is_changed:
                whole = self._offer_whole(opening, carrier, known, rewrite)
                self._replace(carrier, known.received, rewrite, len(original))
                whole = whole and whole._replace(masked=carrier.wire_body)
                bytes_after = carrier.size
        return Outcome(known.tell(rewrite, bytes_after), rewrite, original, whole)

    def _read(self, original: bytes, known: _Known) -> Conversation:
        """Read a request, and find its settings and its prices."""
        wire = known.received.wire
        check_values(original)
        request = self._cache.decode(original, wire, known.received.path)
        check_elements(request.document, wire)
        model = None if request.model is None else printable(request.model)
        known.choose_settings(model)
        known.priced = self._pricer.price(known.received, request, model)
        known.binding = request.binding
        conversation = index_request(request)
        known.group = _find_group(known.received.settings, conversation)
        known.observed = known.observed or known.group == "holdout"
        return conversation

    def _decide(
        self,
        conversation: Conversation,
        known: _Known,
        memories: Memories | None,
    ) -> tuple[Rewrite, bytes | None]:
        """Return what becomes of a request, and what tells a conversation apart that goes whole."""
        received, observed = known.received, known.observed
        strategies = received.settings.strategies
        only, prices = None, known.priced.prices if known.priced else FREE
        if known.priced and not (received.replay or observed):
            # No boundary is held because of what was not sent.
            only = self._sent.frozen_results(known.priced.seed, conversation)
        context = _find_context(known, conversation, strategies, memories)
        known.prefix = context and context.state
        rewrite = rewrite_request(
            conversation, strategies, prices=prices, only=only, context=context
        )
        opening = _find_resendable(known, conversation)
        if self._goes_whole(opening, known, rewrite):
            rewrite = leave_whole(conversation)
            context = _find_context(known, conversation, Strategies(), memories)
            known.prefix = None
        if memories is not None and context is not None and received.purpose == "answer":
            memories.keep(context, rewrite.past, observed=observed)
        return rewrite, opening

    def _replace(self, carrier: Carrier, received: Received, rewrite: Rewrite, size: int) -> None:
        """Send the masked request in place of the client's, and keep what it leaves out."""
        carrier.replace(rewrite.body, received)
        if received.purpose == "answer" and not received.replay:
            self._recall.keep(rewrite.decisions, size, received.settings.recall)

    def _goes_whole(self, opening: bytes | None, known: _Known, rewrite: Rewrite) -> bool:
        """Whether a conversation goes out whole since its provider refused it masked."""
        is_accepted = opening is not None and self.refusals.goes_whole(opening)
        return is_accepted and may_go_whole(rewrite, _find_window(known))

    def _offer_whole(
        self, opening: bytes | None, carrier: Carrier, known: _Known, rewrite: Rewrite
    ) -> WholeRequest | None:
        """Return what may be sent once if the provider refuses a request with a 400."""
        body = carrier.wire_body
        is_answer = known.received.purpose == "answer"
        if opening is None or body is None or not is_answer or self.refusals.is_tried(opening):
            return None
        may_go = may_go_whole(rewrite, _find_window(known))
        return WholeRequest(opening, body) if may_go else None


def _find_resendable(known: _Known, conversation: Conversation) -> bytes | None:
    """Return what tells a conversation apart that goes out whole after a 400; None if none does."""
    received = known.received
    if not received.settings.schema1.resend_on_400 or received.replay or known.observed:
        return None
    return received.account + digest_opening(conversation)


def _find_window(known: _Known) -> int | None:
    return known.priced.pricing.window if known.priced else None


def _find_group(settings: Settings, conversation: Conversation) -> Group | None:
    """Return the group of a conversation; None if none is held out while others are masked."""
    percent, salt = settings.holdout_percent, settings.holdout_salt
    if not settings.changes or percent <= 0:
        return None
    return "holdout" if is_held_out(digest_opening(conversation), percent, salt) else None


def _find_context(
    known: _Known,
    conversation: Conversation,
    strategies: Strategies,
    memories: Memories | None,
) -> ConversationContext | None:
    """Return what is remembered of a request's conversation; forget it if all is sent whole."""
    if memories is None or known.priced is None:
        return None
    if not strategies.schema1.masks:
        memories.forget(conversation)
        return None
    now = known.received.time.timestamp()
    return memories.meet(conversation, now, known.priced.lifetime, observed=known.observed)
