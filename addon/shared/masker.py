"""Masks requests, and owns what that needs: the ledger, and the memory of conversations.

Whatever goes wrong in here, the client's own bytes go out.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
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
from addon.shared.recall_writer import RecallWriter
from addon.shared.refusals import Refusals
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.config import Settings
from masking.conversation import Conversation, read_decoded
from masking.errors import WireError
from masking.known_table import KnownTable
from masking.measures.pricing import find_pricing
from masking.memory.boundary_memory import Occasion
from masking.memory.holdout import is_held_out
from masking.memory.identity import digest_opening
from masking.memory.lifetime import find_lifetime
from masking.rewrite import Rewrite, change_request, decode_known
from masking.strategies.order import Strategies
from masking.strategies.policy import apply_pricing


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
        self._table = KnownTable()
        self.refusals = Refusals()

    async def mask(self, carrier: Carrier, received: Received) -> Outcome:
        """Mask a request in place, in a thread, or leave it as it is where it is only observed."""
        settings, memories = received.settings, None
        if settings.memory.enabled and not received.replay:
            memories = await self._memory_files.open(observes=settings.observes)
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

    def _mask(self, carrier: Carrier, received: Received, memories: Memories | None) -> Outcome:
        # Each step adds to what is known, so that an exception does not lose what was known before.
        known = _Known(leave_untouched(carrier, received.choose_settings(None)))
        try:
            return self._change(carrier, received, known, memories)
        except WireError as error:
            problem = error.problem if error.path == "body" else str(error)
        except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
            problem = f"internal error ({type(error).__name__})"
        return Outcome(replace(known.rewritten, passed_through=problem))

    def _change(
        self, carrier: Carrier, received: Received, known: "_Known", memories: Memories | None
    ) -> Outcome:
        original = carrier.read()
        conversation, strategies = self._read(original, carrier, received, known)
        rewrite, opening = self._decide(original, conversation, strategies, known, memories)
        rewritten = known.rewritten
        is_changed = rewrite.body is not original
        bytes_after, whole = carrier.size, None
        if rewritten.observed:
            bytes_after = carrier.measure(rewrite.body) if is_changed else bytes_after
        else:
            carrier.mark(rewrite.decisions)
            if is_changed:
                whole = self._offer_whole(opening, carrier, rewritten, rewrite)
                self._replace(carrier, rewritten.received, rewrite, len(original))
                whole = whole and whole._replace(masked=carrier.wire_body)
                bytes_after = carrier.size
        rewritten = replace(
            rewritten,
            masked=rewrite.masked,
            left_whole=rewrite.left_whole,
            binding=rewrite.binding,
            bytes_after=bytes_after,
        )
        return Outcome(rewritten, rewrite, original, whole)

    def _read(
        self, original: bytes, carrier: Carrier, received: Received, known: "_Known"
    ) -> tuple[Conversation, Strategies]:
        """Read a request, and find its settings and its prices."""
        check_values(original)
        decoded = decode_known(original, received.wire, self._table)
        check_elements(decoded.document, received.wire)
        document = decoded.outline  # all that a function of a document asks for
        model = _find_model(received, document)
        received = received.choose_settings(model)
        known.rewritten = leave_untouched(carrier, received)
        priced, strategies = _price(received, document, model)
        binding = received.wire.find_binding(document, priced.model)
        known.rewritten = replace(known.rewritten, priced=priced, binding=binding)
        conversation = read_decoded(decoded, received.wire, received.path)
        group = _find_group(received.settings, conversation)
        observed = known.rewritten.observed or group == "holdout"
        known.rewritten = replace(known.rewritten, group=group, observed=observed)
        return conversation, strategies

    def _decide(
        self,
        original: bytes,
        conversation: Conversation,
        strategies: Strategies,
        known: "_Known",
        memories: Memories | None,
    ) -> tuple[Rewrite, bytes | None]:
        """Return what becomes of a request, and what tells a conversation apart that goes whole."""
        rewritten = known.rewritten
        received, observed = rewritten.received, rewritten.observed
        only = None
        if rewritten.priced and not (received.replay or observed):
            # No boundary is held because of what was not sent.
            only = self._sent.find_hold(rewritten.priced.seed, conversation)
        occasion = _find_occasion(rewritten, conversation, strategies, memories)
        known.rewritten = replace(rewritten, prefix=occasion and occasion.state)
        rewrite = change_request(original, conversation, strategies, only, occasion)
        opening = _find_resendable(rewritten, conversation)
        if self._goes_whole(opening, rewritten, rewrite):
            rewrite = leave_whole(original, conversation)
            occasion = _find_occasion(rewritten, conversation, Strategies(), memories)
            known.rewritten = replace(rewritten, prefix=None)
        if memories is not None and occasion is not None and received.purpose == "answer":
            memories.keep(occasion, rewrite.past, observed=observed)
        return rewrite, opening

    def _replace(self, carrier: Carrier, received: Received, rewrite: Rewrite, size: int) -> None:
        """Send the masked request in place of the client's, and keep what it leaves out."""
        carrier.replace(rewrite.body, received)
        if received.purpose == "answer" and not received.replay:
            self._recall.keep(rewrite.decisions, size, received.settings.recall)

    def _goes_whole(self, opening: bytes | None, rewritten: Rewritten, rewrite: Rewrite) -> bool:
        """Whether a conversation goes out whole since its provider refused it masked."""
        is_accepted = opening is not None and self.refusals.goes_whole(opening)
        return is_accepted and may_go_whole(rewrite, _find_window(rewritten))

    def _offer_whole(
        self, opening: bytes | None, carrier: Carrier, rewritten: Rewritten, rewrite: Rewrite
    ) -> WholeRequest | None:
        """Return what may be sent once if the provider refuses a request with a 400."""
        body = carrier.wire_body
        is_answer = rewritten.received.purpose == "answer"
        if opening is None or body is None or not is_answer or self.refusals.is_tried(opening):
            return None
        may_go = may_go_whole(rewrite, _find_window(rewritten))
        return WholeRequest(opening, body) if may_go else None


class _Known:
    """What is known of a request so far, as each step leaves it."""

    def __init__(self, rewritten: Rewritten) -> None:
        self.rewritten = rewritten


def _find_model(received: Received, document: Mapping[str, object]) -> str | None:
    name = received.wire.find_model(document, received.path)
    return None if name is None else printable(name)


def _price(
    received: Received, document: Mapping[str, object], model: str | None
) -> tuple[Priced, Strategies]:
    """Return the prices of a request, and the strategies under these prices."""
    settings, wire = received.settings, received.wire
    prices, marks = settings.price_settings, wire.find_marks(document)
    pricing = find_pricing(
        prices,
        received.host,
        model,
        is_marked=marks.are_there,
        lifetime=marks.last_lifetime,
    )
    policy = apply_pricing(settings.schema1, pricing, slides=prices.slides, marks=marks)
    seed = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    priced = Priced(
        model=model,
        stream=wire.streams(document, received.path),
        seed=seed.digest(),
        pricing=pricing,
        cache_read_ratio=policy.cache_read_ratio,
        cache_write_ratio=policy.cache_write_ratio,
        lifetime=find_lifetime(marks, pricing.cache.lifetime),
    )
    return priced, replace(settings.strategies, schema1=policy)


def _find_resendable(rewritten: Rewritten, conversation: Conversation) -> bytes | None:
    """Return what tells a conversation apart that goes out whole after a 400; None if none does."""
    received = rewritten.received
    if not received.settings.resend_on_400 or received.replay or rewritten.observed:
        return None
    return received.account + digest_opening(conversation)


def _find_window(rewritten: Rewritten) -> int | None:
    return rewritten.priced.pricing.window if rewritten.priced else None


def _find_group(settings: Settings, conversation: Conversation) -> Group | None:
    """Return the group of a conversation; None if none is held out while others are masked."""
    percent, salt = settings.holdout_percent, settings.holdout_salt
    if not settings.changes or percent <= 0:
        return None
    return "holdout" if is_held_out(digest_opening(conversation), percent, salt) else None


def _find_occasion(
    rewritten: Rewritten,
    conversation: Conversation,
    strategies: Strategies,
    memories: Memories | None,
) -> Occasion | None:
    """Return what is remembered of a request's conversation; forget it if all is sent whole."""
    if memories is None or rewritten.priced is None:
        return None
    if not strategies.schema1.masks:
        memories.forget(conversation)
        return None
    now = rewritten.received.time.timestamp()
    return memories.meet(conversation, now, rewritten.priced.lifetime, observed=rewritten.observed)
