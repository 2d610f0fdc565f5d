"""What was sent, and what that says of the next request: a ledger for each kind of request."""

from collections.abc import Sequence
from itertools import count

from addon.stages import Answered, Rewritten
from masking.accounting import Entry, Ledger, Sent
from masking.conversation import Conversation
from masking.rewrite import Step
from masking.roads import ROADS, OtherRoads, Untaken
from masking.tokens import TokenCounter


class Ledgers:
    """What was sent, and what that says of the next request.

    Replayed recordings have a ledger of their own, because what was sent then must not change what
    is sent now. So has what is only observed: nothing of it was saved.
    """

    def __init__(self) -> None:
        numbers = count(1)
        self._sent, self._observed = Ledger(numbers=numbers), Ledger(numbers=numbers)
        self._replayed = Ledger()
        self._roads = OtherRoads()

    def frozen_results(
        self, cache_scope: bytes, conversation: Conversation
    ) -> frozenset[int] | None:
        """Return the only results that may be masked while the prompt is cached; None for all."""
        return self._sent.frozen_results(cache_scope, conversation)

    def go_other_roads(
        self, step: Step, rewritten: Rewritten, counter: TokenCounter
    ) -> Sequence[Untaken]:
        """Return a request as it would go out by the roads that were not taken.

        Only where reasoning is in the way of the one that is on as shipped: elsewhere that is the
        best, and nobody asks what the others would save. Call this in the thread of `enter`, in the
        order in which requests were sent.
        """
        received = rewritten.received
        is_answered = received.purpose == "answer" and not received.replay
        is_bound = step.held is None and step.conversation.binding is not None
        if not (is_answered and is_bound and step.strategies.schema1.masks):
            return ()
        taken = [road.name for road in ROADS.values() if road.is_taken(received.settings)]
        takes = rewritten.account == "takes"
        return [*self._roads.go(step, taken, counter, account_accepts_edits=takes)]

    def enter(self, answered: Answered) -> Entry | None:
        """Enter a request; None if the provider did not take it.

        Call this in one thread, in the order in which requests were answered.
        """
        rewritten, measured = answered.rewritten, answered.measured
        priced, prompt = rewritten.priced, measured.prompt if measured else None
        is_answer = rewritten.received.purpose == "answer"
        if priced is None or prompt is None or not is_answer or not answered.was_taken:
            return None
        sent = Sent(
            cache_scope=priced.cache_scope,
            prompt=prompt,
            masked=rewritten.masked,
            left_unmasked=rewritten.left_unmasked,
            usage=answered.usage,
            when=rewritten.received.time,
            is_masked=rewritten.received.answers_masked and not rewritten.observed,
            removed=answered.cleared.tokens if answered.was_cleared and answered.cleared else None,
        )
        ledger = self._observed if rewritten.observed else self._sent
        if rewritten.received.replay:
            ledger = self._replayed
        entry = ledger.enter(sent, priced.pricing)
        untaken = measured.untaken if measured else ()
        return self._roads.enter(entry, untaken, sent, priced.pricing)
