"""What goes out for a request, and what goes out in its place should the provider refuse it.

A masked request may be refused with a 400 that its client's own would not have met. So whoever
sends something that may be refused for a reason of ours proposes an `Attempt`: what goes out, what
goes out once after a 400, and what is learned from how that ends. The engine carries it out, and
knows none of the reasons.

    attempt = attempts.plan(step, received, window=200_000, can_resend=True)
    ...                                         # attempt.rewrite goes out
    rewritten = attempt.settle("taken", rewritten)

A new way to be refused is one function here, and its line in `PROPOSALS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from addon.accounts import TRIED_HOST, Account, Accounts, Verdict, find_user
from addon.agents import AGENTS
from addon.refusals import Clearings, Refusals
from addon.stages import Answered, Received, Rewritten
from addon.store import Store
from masking.arrival import shortens_bound_prefix
from masking.memory import PrefixState
from masking.prices import fits_window
from masking.rewrite import Rewrite, Step, changes_bound_prefix
from masking.window import lay_out

Outcome = Literal["taken", "healed", "refused", "unclear", "failed"]
"""How an attempt ends.

taken: the provider took it. healed: it was refused, and what went out in its place was taken.
refused: so was that. unclear: the answer to that says nothing. failed: nothing went out in its
place, for want of a refusal, or of an answer.
"""

_RECOVERING = frozenset(agent.client for agent in AGENTS if agent.recovers)
"""Who goes on by itself should a refusal reach it."""

_DROPPED = "thinking_dropped"
"""What a provider calls it that it left reasoning out because a text before it had changed."""


def _learn_nothing(_outcome: Outcome, rewritten: Rewritten) -> Rewritten:
    return rewritten


class Attempt(NamedTuple):
    """What goes out for a request, and what is learned from how that ends.

    rewrite: what goes out.
    instead: what goes out once if that is refused with a 400; None if the refusal is the client's.
    settle: is called once with how it ended, and with what the record says of what was taken, or
        of `rewrite` if nothing was; returns what the record says now.
    may_resend: is asked just before `instead` goes out.
    learn: is called with the answer to `rewrite`, once that is read.
    is_try: whether it goes out to find out whether it is taken.
    account, can_clear, prefix: as in `Rewritten`.
    """

    rewrite: Rewrite
    instead: Rewrite | None = None
    settle: Callable[[Outcome, Rewritten], Rewritten] = _learn_nothing
    may_resend: Callable[[], bool] = lambda: True
    learn: Callable[[Answered], object] = lambda _: None
    is_try: bool = False
    account: Verdict | None = None
    can_clear: bool = False
    prefix: PrefixState | None = None


class Attempts:
    """Plans attempts, and owns what they have learned; threads may share it.

    `store` is where accounts are remembered.
    """

    def __init__(self, store: Store) -> None:
        self.accounts = Accounts(store)
        self.clearings = Clearings()
        self.refusals = Refusals()

    def plan(
        self, step: Step, received: Received, *, window: int | None, can_resend: bool
    ) -> Attempt:
        """Return how a request goes out, and have it remembered, as far as that is settled.

        window: that of its model, in tokens, if it is known.
        can_resend: whether another request can take its place.

        Whoever gets an attempt settles it.
        """
        if step.held is not None:
            rewrite = step.rewrite()
            step.remember(rewrite)
            return Attempt(rewrite)
        case = Case(self, step, received, window, can_resend)
        if case.goes_unmasked:
            step.forget("all")
            return Attempt(step.leave_unmasked(), account=case.verdict, can_clear=case.can_clear)
        can_clear = case.can_clear  # nothing may fail once an attempt has begun
        proposed = (propose(case) for propose in PROPOSALS)
        attempt = next((each for each in proposed if each is not None), None)
        if attempt is None:
            attempt = Attempt(case.rewrite)
            step.remember(attempt.rewrite)
        prefix = None if step.context is None else step.context.state
        return attempt._replace(account=case.verdict, can_clear=can_clear, prefix=prefix)

    def close(self) -> None:
        """Write what was learned of accounts."""
        self.accounts.close()


@dataclass(frozen=True)
class Case:
    """A request for which somebody may propose an attempt; the fields are as in `Attempts.plan`."""

    attempts: Attempts
    step: Step
    received: Received
    window: int | None
    can_resend: bool

    @cached_property
    def rewrite(self) -> Rewrite:
        """The request as it goes out unless another way is proposed."""
        return self.step.rewrite(
            account_accepts_edits=self.verdict == "takes",
            clears=self.asks_to_clear,
            drops=self.asks_to_drop,
        )

    @property
    def is_live(self) -> bool:
        """Whether what is decided goes out."""
        return not (self.received.replay or self.step.observed)

    @property
    def is_healed(self) -> bool:
        """Whether it goes out for an answer, and another can take its place."""
        return self.is_live and self.can_resend and self.received.purpose == "answer"

    @cached_property
    def conversation(self) -> bytes:
        """What tells its conversation apart, for one credential."""
        return self.received.account + self.step.opening

    @cached_property
    def account(self) -> Account | None:
        """Its account, if what that accepts is to be found out.

        None where that does not matter, and for clients that would not recover from a refusal.
        """
        received, client = self.received, self.step.conversation
        keeps = received.settings.schema1.bound_reasoning == "keep"
        if client.binding != "may_refuse" or keeps or self.step.memories is None:
            return None
        if received.host != TRIED_HOST or received.client not in _RECOVERING:
            return None
        user = find_user(client.body)
        return self.attempts.accounts.identify(
            received.host, client.model or "", received.credential, user
        )

    @cached_property
    def verdict(self) -> Verdict | None:
        """What is known of its account."""
        return self.account and self.attempts.accounts.find_verdict(self.account)

    @cached_property
    def as_arrived(self) -> Rewrite | None:
        """The request as it may have gone out before, if its conversation is not remembered."""
        if not self.is_healed or self.verdict == "takes" or self.asks_to_drop:
            return None
        return self.step.rewrite_as_arrived()

    @cached_property
    def _is_clearable(self) -> bool:
        """Whether its provider can clear what must not be masked in it."""
        if self.verdict == "takes" or self.received.replay or not self.can_resend:
            return False
        return self.step.can_clear and self.as_arrived is None

    @cached_property
    def asks_to_clear(self) -> bool:
        """Whether it may ask its provider to clear."""
        return (
            self.received.settings.schema1.provider_clearing
            and self._is_clearable
            and not self.attempts.clearings.has_ended(self.conversation)
        )

    @cached_property
    def drop_account(self) -> Account | None:
        """Its account, if its provider may be asked to drop reasoning; else None.

        None, too, unless its user gives up the reasoning that is bound to what is masked.
        """
        received, client = self.received, self.step.conversation
        if received.settings.schema1.bound_reasoning != "drop" or received.replay:
            return None
        if not (self.can_resend and self.step.can_drop):
            return None
        user = find_user(client.body)
        return self.attempts.accounts.identify(
            received.host, client.model or "", received.credential, user
        )

    @cached_property
    def asks_to_drop(self) -> bool:
        """Whether it asks its provider to drop reasoning, should any be bound to what is masked.

        Not before it is known whether its account takes what is masked all the same. And what asks
        for no answer does not ask first.
        """
        if self.drop_account is None:
            return False
        if self.step.has_dropped:
            return True
        if self.received.purpose != "answer" or (self.account is not None and not self.verdict):
            return False
        return self.attempts.accounts.find_verdict(self.drop_account) not in (
            "takes",
            "refuses_drop",
        )

    @property
    def can_clear(self) -> bool:
        """Whether it could ask its provider to clear what stays, were that switched on."""
        return (
            not self.received.settings.schema1.provider_clearing
            and any(each.reason == "bound" for each in self.rewrite.decisions)
            and self._is_clearable
        )

    @property
    def may_go_unmasked(self) -> bool:
        """Whether its user wants it to go out unmasked after a refusal, and it can."""
        resends = self.received.settings.schema1.resend_on_400 and self.is_live
        return resends and may_go_unmasked(self.rewrite, self.window)

    @property
    def goes_unmasked(self) -> bool:
        """Whether requests of its conversation were taken only unmasked."""
        resends = self.received.settings.schema1.resend_on_400 and self.is_live
        known = resends and self.attempts.refusals.goes_unmasked(self.conversation)
        return known and self.may_go_unmasked


# After a refusal a request may go out as its client wrote it, where the reason for that is ours. An
# agent compacts by the usage of what was sent, so its whole history can be more than its model
# takes; and a model that binds its reasoning to what precedes it has seen the masked texts.


def may_go_unmasked(rewrite: Rewrite, window: int | None) -> bool:
    """Whether a request fits its model unmasked, and nothing bound follows what was changed in it.

    `window` is that of the model, in tokens; where it is not known, the request fits.
    """
    if not fits_window(lay_out(rewrite.arrived.client).requests[-1].size, window):
        return False
    is_bound = changes_bound_prefix(rewrite) or shortens_bound_prefix(rewrite.arrived)
    return not (is_bound or rewrite.drops)


# The ways to be refused for a reason of ours.


def send_what_is_not_remembered(case: Case) -> Attempt | None:
    """A conversation that is not remembered may have gone out shortened before.

    Its reasoning is bound to its results, and goes out with them as the client wrote them. If that
    is refused, what most likely was sent before goes out, and is remembered once it is taken.
    """
    step, instead = case.step, case.as_arrived
    if instead is None:
        return None

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "healed":
            step.remember(instead)
        return rewritten

    step.remember(case.rewrite)
    return Attempt(case.rewrite, instead, settle)


def ask_to_clear(case: Case) -> Attempt | None:
    """A provider may refuse to clear, or ignore that it was asked to.

    Only what was taken is remembered as cleared. Where asking is refused, neither is anything
    masked, and the conversation is not cleared any more.
    """
    step, rewrite, clearings = case.step, case.rewrite, case.attempts.clearings
    if rewrite.clearing is None or not case.is_live:
        return None
    instead = step.rewrite(masks_new=False)

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "taken":
            step.remember(rewrite)
        if outcome != "healed":  # else asking was what was refused
            return rewritten
        if step.purpose == "answer":
            clearings.end(case.conversation)
            step.remember(instead)
        return replace(rewritten, clearing="refused")

    def learn(answered: Answered) -> None:
        if answered.was_cleared is None:
            return
        tokens = answered.rewritten.clearing_tokens
        clearings.note(case.conversation, tokens, is_cleared=answered.was_cleared)
        if not answered.was_cleared:
            step.forget("cleared")

    return Attempt(rewrite, instead, settle, learn=learn)


def drop_reasoning(case: Case) -> Attempt | None:
    """A provider may refuse to drop reasoning that is bound to what is masked.

    The first request of a conversation that asks for it is remembered once it was taken. Later ones
    have nothing to fall back to, as older reasoning fits no longer.
    """
    step, rewrite, account = case.step, case.rewrite, case.drop_account
    if not (rewrite.drops and case.is_live):
        return None
    if step.has_dropped or account is None:
        step.remember(rewrite)
        return Attempt(rewrite)
    instead = step.rewrite(masks_new=False)

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "taken":
            step.remember(rewrite)
        if outcome != "healed":  # else asking was what was refused
            return rewritten
        case.attempts.accounts.learn(account, "refuses_drop")
        step.remember(instead)
        return replace(rewritten, dropping="refused")

    return Attempt(rewrite, instead, settle)


def move_where_accepted(case: Case) -> Attempt | None:
    """An account that has accepted a changed text before bound reasoning may start to refuse it.

    As a rule it then refuses a move. What was masked already goes out in its place; or all of it,
    with the reasoning dropped, where its user gives that up.
    """
    step, account, accounts = case.step, case.account, case.attempts.accounts
    if account is None or case.verdict != "takes" or not case.is_healed or step.context is None:
        return None
    if not changes_bound_prefix(case.rewrite):
        return None
    instead = step.rewrite(drops=case.drop_account is not None)
    if instead.body == case.rewrite.body:
        return None

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "healed":
            accounts.learn(account, "refuses")
            if not instead.drops:
                step.forget("masked")  # what is remembered was not taken
            step.remember(instead)
            return replace(rewritten, account="refuses")
        if outcome == "refused":
            # Both change texts before reasoning, so the account may refuse that by now. The
            # next move is a try, and a refused try is healed.
            accounts.learn(account, None)
            return replace(rewritten, account=None)
        return rewritten

    step.remember(case.rewrite)
    return Attempt(case.rewrite, instead, settle, learn=_note_dropped(case, account))


def try_account(case: Case) -> Attempt | None:
    """Nobody knows whether an account accepts a changed text before bound reasoning.

    The first request at which masking pays goes out to find out, alone. Until it is taken, the
    conversation is remembered as if nothing had changed there.
    """
    step, account, accounts = case.step, case.account, case.attempts.accounts
    if account is None or case.verdict is not None or not case.is_healed or step.context is None:
        return None
    if case.received.settings.schema1.provider_clearing:
        return None
    tried = step.rewrite(account_accepts_edits=True)
    if not changes_bound_prefix(tried):
        return None
    step.remember(case.rewrite)
    if not accounts.begin_try(account):
        return None

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "taken":
            accounts.learn(account, "takes")
            step.remember(tried)
            return replace(rewritten, account="takes")
        if outcome == "healed":
            accounts.learn(account, "refuses")
            return replace(rewritten, account="refuses")
        accounts.end_try(account, waits=outcome == "refused")
        return rewritten

    learn = _note_dropped(case, account)
    return Attempt(tried, case.rewrite, settle, learn=learn, is_try=True)


def _note_dropped(case: Case, account: Account) -> Callable[[Answered], None]:
    """Return what notes that an account took a changed text, and dropped thinking because of it."""

    def learn(answered: Answered) -> None:
        if answered.transformations.get(_DROPPED):
            case.attempts.accounts.learn(account, "refuses")

    return learn


def resend_unmasked(case: Case) -> Attempt | None:
    """A provider may refuse a masked request for a reason that nobody knows.

    Its user may ask for the client's own bytes to go out then, though not at each request of the
    conversation: `Refusals` says when.
    """
    step, refusals = case.step, case.attempts.refusals
    is_changed = case.rewrite.body is not step.client.request.body
    if not (is_changed and case.is_healed and case.may_go_unmasked):
        return None
    conversation = case.conversation

    def may_resend() -> bool:
        # A request beside the one that was tried first was masked before that was known.
        return refusals.begin(conversation) or refusals.goes_unmasked(conversation)

    def settle(outcome: Outcome, rewritten: Rewritten) -> Rewritten:
        if outcome == "taken":
            refusals.note_taken(conversation)
        elif outcome == "healed":
            refusals.settle(conversation, "accepted")
            step.forget("all")
            return replace(rewritten, prefix=None)
        elif outcome != "failed":
            refusals.settle(conversation, "refused" if outcome == "refused" else None)
        return rewritten

    step.remember(case.rewrite)
    return Attempt(case.rewrite, step.leave_unmasked(), settle, may_resend)


PROPOSALS: tuple[Callable[[Case], Attempt | None], ...] = (
    send_what_is_not_remembered,
    ask_to_clear,
    move_where_accepted,
    try_account,
    drop_reasoning,
    resend_unmasked,
)
"""Whoever may propose an attempt, in the order in which they are asked; the first one has it."""
