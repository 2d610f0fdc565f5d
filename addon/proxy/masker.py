"""Masks requests, and owns what that needs: the ledger, and the memory of conversations.

Whatever goes wrong in here, the client's own bytes go out.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from addon.metrics.names import printable
from addon.metrics.stages import Answered, Priced, Received, Rewritten
from addon.proxy.carriers import Carrier, leave_untouched
from addon.proxy.memory_file import MemoryFile
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.conversation import Conversation, read_conversation
from masking.errors import WireError
from masking.measures.pricing import find_pricing
from masking.memory.boundary_memory import BoundaryMemory, Occasion
from masking.memory.lifetime import find_lifetime
from masking.rewrite import Rewrite, change_request, decode_request
from masking.strategies.order import Strategies
from masking.strategies.policy import apply_pricing


class Outcome(NamedTuple):
    """How a request goes on; without a `rewrite` it goes on as it came."""

    rewritten: Rewritten
    rewrite: Rewrite | None = None
    original: bytes = b""


class Masker:
    """Masks the requests of a run.

    Replayed recordings have a ledger of their own and no memory, because what was sent then must
    not change what is sent now.
    """

    def __init__(self, memory_file: MemoryFile) -> None:
        self._sent, self._replayed = Ledger(), Ledger()
        self._memory_file = memory_file
        self._memory: BoundaryMemory | None = None

    async def mask(self, carrier: Carrier, received: Received) -> Outcome:
        """Mask a request in place, in a thread."""
        is_remembered = received.settings.memory.enabled and not received.replay
        memory = await self._open_memory() if is_remembered else None
        return await asyncio.to_thread(self._mask, carrier, received, memory)

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
            usage=answered.usage,
            when=rewritten.received.time,
            is_masked=rewritten.received.answers_masked,
        )
        ledger = self._replayed if rewritten.received.replay else self._sent
        return ledger.enter(sent, priced.pricing)

    def close(self) -> None:
        """Write what is remembered to its file."""
        self._memory_file.close()

    def _mask(self, carrier: Carrier, received: Received, memory: BoundaryMemory | None) -> Outcome:
        # Each step adds to what is known, so that an exception does not lose what was known before.
        rewritten = leave_untouched(carrier, received)
        try:
            original = carrier.read()
            document = decode_request(original)
            priced, strategies = _price(received, document)
            binding = received.wire.find_binding(document, priced.model)
            rewritten = replace(rewritten, priced=priced, binding=binding)
            conversation = read_conversation(document, received.wire, received.path)
            only = None if received.replay else self._sent.find_hold(priced.seed, conversation)
            occasion = _find_occasion(received, priced, conversation, strategies, memory)
            rewritten = replace(rewritten, prefix=occasion and occasion.state)
            rewrite = change_request(original, conversation, strategies, only, occasion)
            if memory is not None and occasion is not None and received.purpose == "answer":
                memory.keep(occasion, rewrite.past)
            carrier.mark(rewrite.decisions)
            if rewrite.body is not original:
                carrier.replace(rewrite.body, received)
        except WireError as error:
            problem = error.problem if error.path == "body" else str(error)
            return Outcome(replace(rewritten, passed_through=problem))
        except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
            problem = f"internal error ({type(error).__name__})"
            return Outcome(replace(rewritten, passed_through=problem))
        rewritten = replace(
            rewritten,
            masked=rewrite.masked,
            binding=rewrite.binding,
            bytes_after=carrier.size,
        )
        return Outcome(rewritten, rewrite, original)

    async def _open_memory(self) -> BoundaryMemory:
        """Return the memory, which is read from its file when it is first needed."""
        if self._memory is None:
            memory = BoundaryMemory(self._memory_file.write)
            memory.load(await asyncio.to_thread(self._memory_file.read))
            self._memory = self._memory or memory
        return self._memory


def _price(received: Received, document: Mapping[str, object]) -> tuple[Priced, Strategies]:
    """Return the prices of a request, and the strategies under these prices."""
    settings, wire = received.settings, received.wire
    name = wire.find_model(document, received.path)
    model = None if name is None else printable(name)
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


def _find_occasion(
    received: Received,
    priced: Priced,
    conversation: Conversation,
    strategies: Strategies,
    memory: BoundaryMemory | None,
) -> Occasion | None:
    """Return what is remembered of a request's conversation; forget it if all is sent whole."""
    if memory is None:
        return None
    if not strategies.schema1.masks:
        memory.forget(conversation)
        return None
    return memory.meet(conversation, received.time.timestamp(), priced.lifetime)
