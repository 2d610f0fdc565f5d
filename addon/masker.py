"""Decides what becomes of a request to a model, and replaces its body.

It owns what a decision needs: the ledgers of what was sent, the memory of conversations, prices,
and which conversations a provider has refused. Whatever goes wrong in here, the client's own bytes
go out.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from cachetools import LRUCache

from addon.accounts import RECOVERING, TRIED_HOST, Account, Accounts, Verdict
from addon.content import check_elements, check_values
from addon.held import AwaitedAnswer, Continued, HeldHistories
from addon.memory import Memories, MemoryFiles
from addon.recall import RecallWriter
from addon.request import one_line
from addon.stages import Answered, Group, LeftOut, Priced, Received, Resent, Rewritten
from addon.threads import Pool
from masking.accounting import Entry, Ledger, Sent
from masking.arrival import (
    ArrivalPolicy,
    Arrived,
    arrive,
    decide_arrivals,
    find_asked,
    shorten,
    shortens_bound_prefix,
    with_calls,
)
from masking.config import Settings
from masking.conversation import Conversation, Request, index_request
from masking.errors import WireError
from masking.memory import (
    ConversationContext,
    Past,
    PrefixState,
    ResultMemory,
    digest_opening,
    estimate_lifetime,
    find_opening,
    is_held_out,
)
from masking.model import Decision
from masking.prices import find_pricing, fits_window
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies, changes_bound_prefix, rewrite_request
from masking.tokens import estimate_tokens
from masking.window import lay_out, price_boundary
from masking.wire import HeldHistory, Marks, OnHistoryEdit

__all__ = [
    "AskedClearing",
    "BoundChange",
    "Carrier",
    "Clearings",
    "Ledgers",
    "LostResults",
    "Masker",
    "Outcome",
    "Pricer",
    "Refusals",
    "SecondRequest",
    "pass_through",
]


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

        Where it asks the provider to clear, the header says so, too.
        """


class SecondRequest(NamedTuple):
    """What may be sent once if the provider refuses a masked request; bodies are as on the wire.

    `conversation` tells its conversation apart. `refused` is the body that was sent, `body` the one
    to send in its place. `is_own` says whether that is the client's own. `betas` are the values
    of the header `anthropic-beta` to send it with; None if the header has not changed.
    """

    conversation: bytes
    refused: bytes | None
    body: bytes
    is_own: bool = True
    betas: tuple[str, ...] | None = None


class BoundChange(NamedTuple):
    """A masked request whose account may refuse it, as bound reasoning follows what has changed.

    is_try: whether it goes out to find that out; it is then remembered once it was taken.
    past: what is remembered then.
    fallback: the request with nothing new masked before reasoning, as it would else have gone out:
        not its own bytes where results were masked before there was any reasoning.
    """

    account: Account
    is_try: bool
    memories: Memories
    conversation: Conversation
    context: ConversationContext
    past: Past | None
    fallback: Rewrite


class LostResults(NamedTuple):
    """A request whose conversation is not remembered, though it may have gone out shortened before.

    Its reasoning is bound to its results, and goes out with them as the client wrote them. If that
    is refused, `arrived` is what was most likely sent before, and is remembered once it is taken.
    """

    memories: Memories
    known: ResultMemory
    arrived: Arrived


class AskedClearing(NamedTuple):
    """A request that asks its provider to clear: what is remembered of it once it was taken.

    opening: what its conversation is known by.
    past: None if nothing is to be remembered, as of a count of tokens.
    """

    opening: bytes
    memories: Memories
    conversation: Conversation
    context: ConversationContext
    past: Past | None


class Outcome(NamedTuple):
    """What becomes of a request. Without a `rewrite`, its own bytes go on.

    second: what may be sent once if the provider refuses the masked request with a 400; None if
        nothing may.
    bound: None unless bound reasoning follows what has changed.
    asked: None unless the request asks its provider to clear.
    lost: None unless it may have gone out shortened before, and nobody remembers.
    fallback: what the record says if the second request is taken, which comes without the changes
        of `bound`, or without asking to clear.
    awaited: what is known of its conversation, for a request that continues its answer; None where
        that shows all of it.
    """

    rewritten: Rewritten
    rewrite: Rewrite | None = None
    original: bytes = b""
    second: SecondRequest | None = None
    bound: BoundChange | None = None
    asked: AskedClearing | None = None
    lost: LostResults | None = None
    fallback: "Outcome | None" = None
    awaited: AwaitedAnswer | None = None


class _Decided(NamedTuple):
    """What becomes of a request; the names are those of `Outcome`.

    opening: what its conversation is known by; None if nothing is sent again after a refusal.
    fallback: what to send if a try, asking the provider to clear, or a request of a conversation
        that is not remembered is refused.
    """

    rewrite: Rewrite
    opening: bytes | None = None
    bound: BoundChange | None = None
    asked: AskedClearing | None = None
    fallback: Rewrite | None = None
    lost: LostResults | None = None


class Masker:
    """Masks the requests of a process, or observes them; `folder` is where it remembers them."""

    def __init__(self, folder: Callable[[], Path], pool: Pool) -> None:
        self.ledgers = Ledgers()
        self.refusals = Refusals()
        self.clearings = Clearings()
        self.accounts = Accounts(folder)
        self.held = HeldHistories()
        self._memory_files = MemoryFiles(folder)
        self._recall = RecallWriter()
        self._pool = pool
        self._cache = RequestCache()
        self._pricer = Pricer()

    async def mask(self, carrier: Carrier, received: Received) -> Outcome:
        """Mask a request in place, in a thread, or leave it alone where it is only observed."""
        settings, memories = received.settings, None
        if settings.memory.enabled and not received.replay:
            memories = await self._memory_files.open(observes=settings.observes)
        work = functools.partial(self._mask, carrier, received, memories)
        outcome = await self._pool.run(carrier.most_bytes, work)
        if outcome is None and memories is not None and memories.is_being_read:
            # A provider might refuse the request because of what was masked in it before, so this
            # one waits for as long as the file is tried for.
            memories = await self._memory_files.open(observes=settings.observes, patiently=True)
            memories = memories._replace(is_being_read=False)
            work = functools.partial(self._mask, carrier, received, memories)
            outcome = await self._pool.run(carrier.most_bytes, work)
        return outcome or Outcome(pass_through(carrier, received))  # the run has ended

    def close(self) -> None:
        """Write what is remembered to its file, and what is still to be kept for recall."""
        self._memory_files.close()
        self._recall.close()
        self.accounts.close()

    def _mask(
        self, carrier: Carrier, received: Received, memories: Memories | None
    ) -> Outcome | None:
        draft = _Draft(received, carrier.size)
        try:
            return self._change(carrier, draft, memories)
        except WireError as error:
            problem = error.problem if error.path == "body" else str(error)
        except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
            problem = f"internal error ({type(error).__name__})"
        if draft.trying is not None:
            self.accounts.end_try(draft.trying)
            draft.trying = None
        return Outcome(draft.pass_through(problem))

    def _change(
        self, carrier: Carrier, draft: "_Draft", memories: Memories | None
    ) -> Outcome | None:
        """Mask a request; None if a provider might refuse it without what is still being read."""
        # Read it, and find the settings and prices that hold for it.
        original = carrier.read()
        wire = draft.received.wire
        check_values(original)
        request = self._cache.decode(original, wire, draft.received.path)
        check_elements(request.document, wire)
        model = None if request.model is None else one_line(request.model)
        draft.choose_settings(model)
        draft.priced = self._pricer.price(draft.received, request, model)
        draft.binding = request.binding
        if (outcome := self._shorten_held(carrier, draft, request, memories)) is not None:
            return outcome
        client = index_request(request)
        if _is_held_out(draft.received.settings, client):
            draft.group, draft.observed = "holdout", True
        is_unread = memories is not None and memories.is_being_read
        if is_unread and draft.binding is not None and not draft.observed:
            return None

        can_resend = carrier.wire_body is not None
        arrived, known = _shorten(client, draft, memories)
        awaited = _await_answer(draft, arrived, known)
        rewrite, opening, bound, asked, fallback_rewrite, lost = self._decide(
            arrived, known, draft, draft.priced, memories, can_resend=can_resend
        )

        # Replace its body, unless it is only observed.
        is_changed = rewrite.body is not original
        if draft.observed:
            bytes_after = len(carrier.encode(rewrite.body)) if is_changed else carrier.size
            rewritten = draft.rewritten(rewrite, bytes_after)
            return Outcome(rewritten, rewrite, original, awaited=awaited)
        carrier.mark(rewrite.decisions)
        second, fallback = None, None
        if is_changed or lost is not None:
            received, own, betas = draft.received, carrier.wire_body, carrier.betas
            is_live_answer = received.purpose == "answer" and not received.replay
            instead = own
            if fallback_rewrite is not None:
                bytes_after = carrier.size
                if fallback_rewrite.body is not original:
                    instead = carrier.encode(fallback_rewrite.body)
                    bytes_after = len(instead)
                rewritten = draft.rewritten(fallback_rewrite, bytes_after)
                fallback = Outcome(rewritten, fallback_rewrite, original)
            if is_changed:
                carrier.replace(rewrite, received)
            if is_live_answer:
                self._recall.keep(
                    rewrite.decisions, len(original), received.settings.recall, rewrite.arrived
                )
            if opening is not None and instead is not None:
                window = draft.priced.pricing.window
                # Asking a provider to clear is always healed, and so are a try and a move at an
                # account that may have come to refuse what it took. Any other refusal is if its
                # user has asked for that, and then not at each request (`Refusals`).
                if asked is not None or lost is not None:
                    may_heal = True
                else:
                    may_heal = is_live_answer and (
                        bound is not None
                        or (
                            received.settings.schema1.resend_on_400
                            and may_go_unmasked(rewrite, window)
                        )
                    )
                if may_heal:
                    betas = None if asked is None else betas
                    second = SecondRequest(
                        opening, carrier.wire_body, instead, instead is own, betas
                    )
        rewritten = draft.rewritten(rewrite, carrier.size)
        return Outcome(
            rewritten, rewrite, original, second, bound, asked, lost, fallback, awaited=awaited
        )

    def _shorten_held(
        self, carrier: Carrier, draft: "_Draft", request: Request, memories: Memories | None
    ) -> Outcome | None:
        """Shorten what is new in a request whose provider holds the history; None if it is none.

        Nothing old is in it, so that is all that can be done. It passes through otherwise.
        """
        received, wire = draft.received, request.wire
        strategies = received.settings.strategies
        history = wire.find_held(request.envelope) if wire.find_held is not None else None
        if history is None or memories is None or wire.find_obstacle is None:
            return None
        if not (strategies.shortens and strategies.arrival.enabled):
            return None

        # What is known of the conversation, and the calls that its new results answer.
        continued = self.held.find(received.place, history)
        if continued is None:
            if history.answer is not None:
                return None  # it began before, and nobody knows how
            continued = Continued()
            if history.name is not None:  # it never comes whole
                named = blake2b(history.name.encode(), key=received.place, digest_size=16)
                continued = continued._replace(opening=named.digest())
        try:
            client = with_calls(index_request(request, is_held=True), continued.calls)
        except WireError:
            return None
        continued = _extend_beginning(continued, client)
        opening = continued.opening
        percent, salt = received.settings.holdout_percent, received.settings.holdout_salt
        if opening is not None and is_held_out(opening, percent, salt):
            draft.group, draft.observed = "holdout", True

        # Shorten them, and remember which were.
        known = memories.meet_results(client, observed=draft.observed, held=opening or b"")
        sent = known.sent._replace(asked=continued.asked)
        arrived = shorten(client, decide_arrivals(client, strategies.arrival, sent))
        is_answer = received.purpose == "answer"
        if is_answer and opening is not None:
            memories.keep_results(known, arrived, observed=draft.observed)
        obstacle = wire.find_obstacle(request.envelope)
        rewritten = draft.pass_through(obstacle)
        left_out = measure_left_out(arrived, continued.left_out)
        original, body = request.body, arrived.conversation.request.body
        if arrived.shortened:
            rewritten = replace(rewritten, left_out=left_out)
            if draft.observed:
                rewritten = replace(rewritten, bytes_after=len(carrier.encode(body)))
            else:
                rewrite = Rewrite(
                    body=body, conversation=arrived.conversation, decisions=(), arrived=arrived
                )
                carrier.replace(rewrite, received)
                rewritten = replace(rewritten, bytes_after=carrier.size)
                if is_answer and not received.replay:
                    settings = received.settings.recall
                    self._recall.keep((), len(original), settings, arrived)
        elif continued.left_out:
            rewritten = replace(rewritten, left_out=left_out)
        continued = continued._replace(
            asked={**continued.asked, **find_asked(arrived)},
            left_out=continued.left_out + left_out.tokens,
        )
        awaited = AwaitedAnswer(received.place, history, continued)
        return Outcome(rewritten, None, original, awaited=awaited)

    def _decide(
        self,
        arrived: Arrived,
        known: ResultMemory | None,
        draft: "_Draft",
        priced: Priced,
        memories: Memories | None,
        *,
        can_resend: bool,
    ) -> _Decided:
        """Return what becomes of a request after its arrival.

        known: what is remembered of its results; None if nothing is, or if none is shortened.
        can_resend: whether another request can take the place of a refused one.
        """
        received, observed = draft.received, draft.observed
        conversation, strategies = arrived.conversation, received.settings.strategies
        only = None
        if not (received.replay or observed):
            # No boundary is held because of what was not sent.
            only = self.ledgers.frozen_results(priced.seed, arrived.client)
        context = _find_context(draft, priced, conversation, strategies, memories)
        if context is None and memories is not None:
            memories.forget(conversation)
        draft.prefix = context and context.state
        account = self._find_account(draft, conversation) if memories is not None else None
        draft.account = account and self.accounts.find_verdict(account)
        rewrite_it = functools.partial(
            rewrite_request,
            arrived,
            strategies,
            prices=priced.prices,
            only=only,
            context=context,
        )
        is_live = not (received.replay or observed)
        is_live_answer = received.purpose == "answer" and is_live
        clears = received.settings.schema1.provider_clearing
        opening = None
        resends = received.settings.schema1.resend_on_400 and is_live
        if resends or clears or account is not None:
            opening = received.account + digest_opening(conversation)

        # A conversation that is not remembered may have gone out shortened before. Then its bound
        # reasoning is refused with the results as the client wrote them.
        lost, instead = None, None
        if memories is not None and known is not None and is_live_answer and can_resend:
            if not known.is_known and draft.account != "takes":
                instead = find_lost(arrived, strategies.arrival)
            if instead is not None:
                lost, account = LostResults(memories, known, instead), None
                opening = received.account + digest_opening(conversation)

        # What the provider clears instead of it is remembered apart.
        clearing_context = None
        may_clear = (
            draft.binding is not None and draft.account != "takes" and not received.replay
        ) and (can_resend and context is not None and lost is None)
        if (
            (may_clear and clears and opening is not None)
            and not self.clearings.has_ended(opening)
            and may_ask_to_clear(conversation)
        ):
            clearing_context = _find_context(
                draft, priced, conversation, strategies, memories, clears=True
            )
        rewrite = rewrite_it(
            takes_changes=draft.account == "takes", clearing_context=clearing_context
        )
        draft.can_clear = (
            (may_clear and not clears)
            and any(each.reason == "bound" for each in rewrite.decisions)
            and may_ask_to_clear(conversation)
        )
        if (
            (resends and opening is not None)
            and self.refusals.goes_unmasked(opening)
            and may_go_unmasked(rewrite, priced.pricing.window)
        ):
            rewrite, account, clearing_context = leave_unmasked(arrived.client), None, None
            if memories is not None:
                memories.forget_results(arrived.client)
                memories.forget(conversation)
            known = context = lost = instead = None
            draft.prefix = None
        if memories is None:
            return _Decided(rewrite, opening)
        if received.purpose == "answer":
            if context is not None:
                memories.keep(context, rewrite.past, observed=observed)
            if known is not None:
                memories.keep_results(known, arrived, observed=observed)
        if lost is not None and instead is not None:
            other = rewrite_request(
                instead, strategies, prices=priced.prices, only=only, context=context
            )
            return _Decided(rewrite, opening, None, None, other, lost)
        if context is None:
            return _Decided(rewrite, opening)
        if clearing_context is not None and opening is not None:
            kept = rewrite.cleared_past if received.purpose == "answer" else None
            if rewrite.clearing is not None and is_live:
                # Only what was taken is remembered as cleared. And nothing is remembered as masked,
                # so nothing is masked in what goes out after a refusal.
                asked = AskedClearing(opening, memories, conversation, clearing_context, kept)
                return _Decided(rewrite, opening, None, asked, rewrite_it(only=frozenset()))
            memories.keep(clearing_context, kept, observed=observed)

        # Where it is not known whether the account takes a changed text before bound reasoning, the
        # first request at which masking pays goes out to find out, alone. Until it is taken, the
        # conversation is remembered as one that went out with nothing changed there.
        bound = None
        if account is not None and is_live_answer and can_resend:
            remembered = memories, conversation, context
            if draft.account == "takes":
                # No more than was masked already may heal the refusal of a move: of the first one
                # that the account refuses, as a rule.
                if changes_bound_prefix(rewrite):
                    whole = rewrite_it(takes_changes=False)
                    if whole.body != rewrite.body:
                        bound = BoundChange(account, False, *remembered, rewrite.past, whole)
            elif draft.account is None and not clears:
                tried = rewrite_it(takes_changes=True)
                if changes_bound_prefix(tried) and self.accounts.begin_try(account):
                    draft.trying = account
                    bound = BoundChange(account, True, *remembered, tried.past, rewrite)
                    rewrite = tried
        return _Decided(rewrite, opening, bound, None, bound and bound.fallback)

    def _find_account(self, draft: "_Draft", conversation: Conversation) -> Account | None:
        """Return the account of a request, if what it takes is to be found out.

        None where that does not matter, and for clients that would not recover from a refusal.
        """
        received = draft.received
        is_asked = draft.binding == "may_refuse" and received.settings.schema1.bound_reasoning != (
            "keep"
        )
        is_reached = received.host == TRIED_HOST and received.client in RECOVERING
        if not (is_asked and is_reached):
            return None
        metadata = conversation.body.get("metadata")
        user = metadata.get("user_id") if isinstance(metadata, dict) else None
        return self.accounts.identify(
            received.host,
            conversation.model or "",
            received.credential,
            user if isinstance(user, str) else None,
        )

    def keep_cleared(self, asked: AskedClearing) -> None:
        """Remember what a request has its provider clear, as it was taken."""
        asked.memories.keep(asked.context, asked.past, observed=False)

    def end_clearing(self, asked: AskedClearing) -> None:
        """Stop asking in a conversation, because the provider has refused."""
        if asked.past is not None:
            self.clearings.end(asked.opening)
            asked.memories.forget(asked.conversation, clears=True)

    def note_clearing(self, asked: AskedClearing, tokens: int, *, is_cleared: bool) -> None:
        """Note what came of asking; `tokens` are those that it would have taken out."""
        self.clearings.note(asked.opening, tokens, is_cleared=is_cleared)
        if not is_cleared:
            asked.memories.forget(asked.conversation, clears=True)

    def keep_lost(self, lost: LostResults) -> None:
        """Remember what was shortened before, as that was taken."""
        lost.memories.keep_results(lost.known, lost.arrived, observed=False)

    def settle(self, bound: BoundChange, verdict: Verdict) -> None:
        """Remember what an answer told of an account, and what was masked in its conversation."""
        self.accounts.learn(bound.account, verdict)
        if bound.is_try and verdict == "takes":
            bound.memories.keep(bound.context, bound.past, observed=False)
        if not bound.is_try and verdict == "refuses":
            bound.memories.forget(bound.conversation)  # what it remembers was not taken
            bound.memories.keep(bound.context, bound.fallback.past, observed=False)


def pass_through(carrier: Carrier, received: Received) -> Rewritten:
    """Return a request whose own bytes go on, with what its arrival tells."""
    return _Draft(received, carrier.size).pass_through(None)


class _Draft:
    """What is known of a request so far: each step adds to it, so that no exception loses that."""

    def __init__(self, arrived: Received, size: int) -> None:
        self._arrived, self._size = arrived, size
        self.priced: Priced | None = None
        self.prefix: PrefixState | None = None
        self.binding: OnHistoryEdit | None = None
        self.group: Group | None = None
        self.account: Verdict | None = None
        self.trying: Account | None = None
        self.can_clear = False
        self.choose_settings(None)

    def choose_settings(self, model: str | None) -> None:
        """Take the settings that hold for the request, given its model, if known."""
        self.received = self._arrived.choose_settings(model)
        self.observed = self.received.settings.mode == "observe"

    def pass_through(self, problem: str | None) -> Rewritten:
        """Return the request as one whose own bytes go on, because of a problem."""
        return Rewritten(
            received=self.received,
            bytes_before=self._size,
            bytes_after=self._size,
            priced=self.priced,
            prefix=self.prefix,
            binding=self.binding,
            passed_through=problem,
            observed=self.observed,
            group=self.group,
            tried=self.trying is not None,
            account=self.account,
        )

    def rewritten(self, rewrite: Rewrite, bytes_after: int) -> Rewritten:
        """Return the request as the decisions on it leave it."""
        rewritten = replace(
            self.pass_through(None),
            bytes_after=bytes_after,
            binding=rewrite.binding,
            masked=rewrite.masked,
            left_whole=rewrite.left_whole,
            clearing="possible" if self.can_clear else None,
        )
        if rewrite.clearing is None or self.observed:
            return rewritten
        keep, _, tokens = rewrite.clearing
        return replace(rewritten, clearing="asked", clearing_keep=keep, clearing_tokens=tokens)


def _is_held_out(settings: Settings, conversation: Conversation) -> bool:
    """Whether a conversation is of the group that is only observed while others are masked."""
    percent, salt = settings.holdout_percent, settings.holdout_salt
    if not settings.changes or percent <= 0:
        return False
    return is_held_out(digest_opening(conversation), percent, salt)


def _shorten(
    client: Conversation, draft: _Draft, memories: Memories | None
) -> tuple[Arrived, ResultMemory | None]:
    """Shorten the long results of a request, and return what is remembered of its results.

    That is None where nothing may be shortened, or where nothing is remembered.
    """
    strategies = draft.received.settings.strategies
    if not strategies.shortens:
        if memories is not None:
            memories.forget_results(client)
        return Arrived(client, client), None
    if memories is None:
        return arrive(client, strategies.arrival), None
    known = memories.meet_results(client, observed=draft.observed)
    return arrive(client, strategies.arrival, known.sent), known


def _await_answer(
    draft: _Draft, arrived: Arrived, known: ResultMemory | None
) -> AwaitedAnswer | None:
    """Return what is known of a conversation that shows all of itself, for one that does not."""
    received, client = draft.received, arrived.client
    may_be_continued = client.wire.may_be_continued(client.request.envelope)
    if known is None or not (may_be_continued and received.settings.arrival.enabled):
        return None
    continued = _extend_beginning(Continued(), client)._replace(
        asked=find_asked(arrived), left_out=measure_left_out(arrived).tokens
    )
    return AwaitedAnswer(received.place, HeldHistory(), continued)


def _extend_beginning(continued: Continued, client: Conversation) -> Continued:
    """Return what is known of a conversation with the elements that a request has."""
    if continued.opening is not None:
        return continued
    elements = (*continued.beginning, *client.elements)
    opening, decided = find_opening(client.wire, client.body, elements)
    if decided is None:
        return continued._replace(beginning=elements)
    return continued._replace(opening=opening, beginning=())


def measure_left_out(arrived: Arrived, before: int = 0) -> LeftOut:
    """Return what is left out of a request, and how much of its history was before."""
    cuts = [each for long in arrived.shortened for each in long.replacements]
    return LeftOut(
        results=len(arrived.shortened),
        chars=sum(len(each.text) - len(each.placeholder) for each in cuts),
        tokens=sum(each.saves(estimate_tokens) for each in cuts),
        before=before,
    )


def find_lost(arrived: Arrived, policy: ArrivalPolicy) -> Arrived | None:
    """Return a request as it would have been sent had all of it arrived here; None if as it is.

    Only reasoning that is bound to its results tells what was really sent.
    """
    client = arrived.client
    is_bound = client.binding in ("refuses", "may_refuse") and any(
        element.is_bound for element in client.elements
    )
    if not (policy.enabled and is_bound):
        return None
    other = shorten(client, decide_arrivals(client, policy))
    places = {each.place for each in arrived.shortened}
    return None if places == {each.place for each in other.shortened} else other


def _find_context(
    draft: _Draft,
    priced: Priced,
    conversation: Conversation,
    strategies: Strategies,
    memories: Memories | None,
    *,
    clears: bool = False,
) -> ConversationContext | None:
    """Return what is remembered of a request's conversation; None if nothing masks it."""
    if memories is None or not strategies.schema1.masks:
        return None
    now = draft.received.time.timestamp()
    return memories.meet(conversation, now, priced.lifetime, observed=draft.observed, clears=clears)


# After a refusal a request may go out as its client wrote it, where the reason for that is ours. An
# agent compacts by the usage of what was sent, so its whole history can be more than its model
# takes; and a model that binds its reasoning to what precedes it has seen the masked texts.


def may_go_unmasked(rewrite: Rewrite, window: int | None) -> bool:
    """Whether a request fits its model unmasked, and nothing bound follows what was changed in it.

    `window` is that of the model, in tokens; where it is not known, the request fits.
    """
    arrived = rewrite.arrived
    whole = arrived.client if arrived else rewrite.conversation
    if not fits_window(lay_out(whole).requests[-1].size, window):
        return False
    return not (changes_bound_prefix(rewrite) or (arrived and shortens_bound_prefix(arrived)))


def leave_unmasked(conversation: Conversation) -> Rewrite:
    """Return a request that goes out as the client wrote it, since it was refused masked."""
    rewrite = rewrite_request(conversation, Strategies())
    decisions = (Decision(decision.result, "refused") for decision in rewrite.decisions)
    return replace(rewrite, decisions=tuple(decisions))


def may_ask_to_clear(conversation: Conversation) -> bool:
    """Whether a request can ask its provider to clear old results."""
    wanted = conversation.wire.clearing
    return (
        wanted is not None
        and wanted.find_obstacle(conversation.document, conversation.path) is None
    )


class Clearings:
    """The conversations in which the provider ignores or refuses clearing; threads may share it.

    A conversation is known as in `Refusals`. A restart forgets it.
    """

    def __init__(self, max_conversations: int = 2_000) -> None:
        self._in_vain: LRUCache[bytes, int] = LRUCache(max_conversations)
        self._lock = threading.Lock()

    def has_ended(self, conversation: bytes) -> bool:
        """Whether a conversation has stopped asking."""
        with self._lock:
            return self._in_vain.get(conversation, 0) >= _MOST_IN_VAIN

    def end(self, conversation: bytes) -> None:
        """Stop asking in a conversation, because the provider has refused."""
        with self._lock:
            self._in_vain[conversation] = _MOST_IN_VAIN

    def note(self, conversation: bytes, tokens: int, *, is_cleared: bool) -> None:
        """Note whether the provider cleared anything when it was asked to.

        tokens: how many we expected it to clear. If it ignores a small number, that says nothing
            about a larger one.
        """
        with self._lock:
            count = self._in_vain.get(conversation, 0)
            if is_cleared:
                self._in_vain.pop(conversation, None)
            elif tokens >= _LEAST_CLEARED and count < _MOST_IN_VAIN:
                self._in_vain[conversation] = count + 1


_MOST_IN_VAIN = 2
"""How many requests in a row may ask the provider to clear without any effect."""

_LEAST_CLEARED = 1_000
"""The tokens from which on a request without effect counts."""


class Refusals:
    """Which conversations were tried unmasked after a refusal, the latest; threads may share it.

    One that was refused unmasked, too, is not tried again before a masked request of it was taken:
    until then the cause is most likely something else. A conversation is known by its opening, and
    by the credential that it is sent with. A restart forgets it.
    """

    def __init__(self, max_conversations: int = 2_000) -> None:
        self._found: LRUCache[bytes, Resent | None] = LRUCache(max_conversations)
        self._lock = threading.Lock()

    def begin(self, conversation: bytes) -> bool:
        """Whether a conversation is to be tried unmasked: the first to ask may, no other."""
        with self._lock:
            is_new = conversation not in self._found
            self._found.setdefault(conversation, None)
            return is_new

    def settle(self, conversation: bytes, verdict: Resent | None) -> None:
        """Remember the result of a try; None if it says nothing, so that there may be another."""
        with self._lock:
            if verdict is None:
                self._found.pop(conversation, None)
            else:
                self._found[conversation] = verdict

    def note_taken(self, conversation: bytes) -> None:
        """Note that a masked request of a conversation was taken: it may be tried again."""
        with self._lock:
            if self._found.get(conversation) == "refused":
                del self._found[conversation]

    def goes_unmasked(self, conversation: bytes) -> bool:
        """Whether a conversation goes out unmasked from now on."""
        with self._lock:
            return self._found.get(conversation) == "accepted"


class Ledgers:
    """What was sent, and what that says of the next request.

    Replayed recordings have a ledger of their own, because what was sent then must not change what
    is sent now. So has what is only observed: nothing of it was saved.
    """

    def __init__(self) -> None:
        numbers = count(1)
        self._sent, self._observed = Ledger(numbers=numbers), Ledger(numbers=numbers)
        self._replayed = Ledger()

    def frozen_results(self, seed: bytes, conversation: Conversation) -> frozenset[int] | None:
        """Return the only results that may be masked while the prompt is cached; None for all."""
        return self._sent.frozen_results(seed, conversation)

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
            seed=priced.seed,
            prompt=prompt,
            masked=rewritten.masked,
            left_whole=rewritten.left_whole,
            usage=answered.usage,
            when=rewritten.received.time,
            is_masked=rewritten.received.answers_masked and not rewritten.observed,
            removed=answered.cleared.tokens if answered.was_cleared and answered.cleared else None,
        )
        ledger = self._observed if rewritten.observed else self._sent
        if rewritten.received.replay:
            ledger = self._replayed
        return ledger.enter(sent, priced.pricing)


_MOST_MARKS = 8
_LONGEST_MARK = 32
"""What a request says beyond that is not remembered: nobody bounds it."""


class Pricer:
    """What a request's tokens cost; threads may share it.

    That depends on its settings, host, model, cache marks and credential alone, which are the same
    at each request of a session. So it is computed once, and the latest prices are remembered.
    """

    def __init__(self, most: int = 64) -> None:
        self._known: LRUCache[tuple[object, ...], tuple[Settings, Priced]] = LRUCache(most)
        self._lock = threading.Lock()

    def price(self, received: Received, request: Request, model: str | None) -> Priced:
        """Price a request; `model` is the one that it names.

        Raises ConfigError for a price list that cannot be used, OSError for one that cannot be
        read.
        """
        marks = request.marks
        streams = received.wire.streams(request.envelope, received.path)
        # Settings are told apart as objects: to compare what is in them takes longer than to price.
        # They are kept beside the prices, so that no other object can get their id.
        settings = received.settings
        key = (id(settings), received.host, model, received.account, marks, streams, request.tier)
        with self._lock:
            found = self._known.get(key)
        if found is not None:
            return found[1]
        priced = _price(received, marks, model, request.tier, streams=streams)
        lifetimes = marks.lifetimes
        if len(lifetimes) <= _MOST_MARKS and all(len(one) <= _LONGEST_MARK for one in lifetimes):
            with self._lock:
                self._known[key] = settings, priced
        return priced


def _price(
    received: Received, marks: Marks, model: str | None, tier: str | None, *, streams: bool
) -> Priced:
    prices = received.settings.price_settings
    pricing = find_pricing(
        prices,
        received.host,
        model,
        is_marked=marks.are_there,
        lifetime=marks.last_lifetime,
        tier=tier,
    )
    seed = blake2b(f"{received.host}\n{model}".encode(), key=received.account, digest_size=16)
    return Priced(
        model=model,
        stream=streams,
        seed=seed.digest(),
        pricing=pricing,
        prices=price_boundary(pricing, slides=prices.slides, marks=marks),
        lifetime=estimate_lifetime(marks, pricing.cache.lifetime),
    )
