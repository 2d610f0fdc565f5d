"""Bytes in, bytes and decisions out: the one road through the core.

A request is a `Step` of its conversation. `Step.rewrite` says how it goes out, and `Step.remember`
keeps what was sent. `rewrite_request` is the same for the body of a request whose conversation
nobody remembers.
"""

import math
from collections.abc import Container, Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace

from masking.arrival import (
    ArrivalPolicy,
    Arrived,
    Truncated,
    arrive,
    find_lost,
    measure_left_out,
)
from masking.conversation import (
    Conversation,
    index_request,
    read_again,
    with_targets,
)
from masking.edit.splice import apply_to_list
from masking.errors import ProofError
from masking.memory import ConversationContext, Forgotten, Memories, Past, Recalled, digest_opening
from masking.model import Decision, Edits, places_masked, replacements_of
from masking.proof import Prover, Terms
from masking.redaction import RedactionPolicy, Redactions, decide_redactions
from masking.reduction import (
    ReductionOptions,
    ReductionPlan,
    leaves_system_alone,
    plan_reduction,
    set_aside,
)
from masking.request_cache import decode_request
from masking.server_history import KnownConversation, PendingAnswer, ServerHeldRequest
from masking.window import FREE, BoundaryPrices, MaskPolicy, decide
from masking.window.clearing import decide_clearing
from masking.window.decide import (
    Clearing,
    Limits,
    find_dropped_reasoning,
    sort_by_position,
    was_passed_by,
)
from masking.window.signs import is_summary_request
from masking.wire import (
    CHAT,
    Added,
    OnHistoryEdit,
    ProviderEdit,
    Purpose,
    ServerHistory,
    WireFormat,
)
from masking.written import Wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """All that may be done to a request: at arrival, redaction, the window, reduction, in order.

    Only the last removes messages.
    """

    arrival: ArrivalPolicy = field(default_factory=ArrivalPolicy)
    redaction: RedactionPolicy = field(default_factory=RedactionPolicy)
    schema1: MaskPolicy = field(default_factory=MaskPolicy)
    reduction: ReductionOptions = field(default_factory=ReductionOptions)

    @property
    def can_change(self) -> bool:
        """Whether any of them can change a request at all."""
        return (
            (self.arrival.enabled and self.shortens)
            or self.redaction.redacts
            or self.schema1.masks
            or self.reduction.reduces
        )

    @property
    def shortens(self) -> bool:
        """Whether a result may go out shortened, if only because it was sent so before."""
        return self.schema1.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The rewritten request: its body, and the decision for each tool result.

    body: the very object that came in, if nothing was changed.
    arrived: what became of its long results at arrival.
    conversation: the request, with its long results shortened.
    decisions: one for each result, that of the strategy which settled it.
    masked: the places of the results that the window masks, whichever strategy settled them.
    redactions, plan: None if redaction or reduction is off.
    left_unmasked: whether the window masks nothing, because an agent asks for a summary.
    past: what is to be remembered of the conversation; None if nothing is.
    clearing: what the provider is asked to clear; None if it is not asked. What it clears is
        decided as `cleared`, and is no edit of ours.
    drops: whether the provider is asked to drop reasoning that no longer fits what precedes it.
    dropped: the elements whose reasoning it drops then, as far as that is known.
    betas: what the header `anthropic-beta` must name for all that.
    obstacle: why nothing old was looked at, where the provider holds the history; else None.
    left_out: what is left out of it, and of that history; None if nothing is, or it holds none.
    """

    body: bytes
    arrived: Arrived
    conversation: Conversation
    decisions: tuple[Decision, ...]
    edits: Edits = field(default_factory=Edits)
    masked: frozenset[int] = frozenset()
    redactions: Redactions | None = None
    plan: ReductionPlan | None = None
    past: Past | None = None
    left_unmasked: bool = False
    clearing: Clearing | None = None
    drops: bool = False
    dropped: frozenset[int] = frozenset()
    betas: tuple[str, ...] = ()
    obstacle: str | None = None
    left_out: Truncated | None = None


def read_request(body: bytes, wire: WireFormat = CHAT, path: str = "") -> Conversation:
    """Decode and read a request; `path` is that of its URL, without the query.

    A process that sees more than one request reads them by one `RequestCache`. Raises WireError if
    the body is no JSON object with the format's list, or must go out whole.
    """
    return index_request(decode_request(body, wire, path))


def rewrite_request(
    body: bytes,
    strategies: MaskPolicy | Strategies,
    wire: WireFormat = CHAT,
    path: str = "",
    prices: BoundaryPrices = FREE,
) -> Rewrite:
    """Mask a request's old tool results; shorten, redact, and reduce as the strategies say.

    body: as the client sends it; it is read as by `read_request`.
    strategies: all of them; or the policy of the window alone.
    prices: by which the window's boundary moves. By default masking never has a price, and the
        window slides.

    Nothing is remembered, so the request alone decides, and nothing is masked if reasoning is bound
    to what precedes it. No byte changes outside the replaced strings, and outside the elements that
    a reduction removes and the one it inserts. Pure. Raises WireError as `read_request` does, and
    if the edits cannot be made and proven; the request is then to be sent unchanged.
    """
    if isinstance(strategies, MaskPolicy):
        strategies = Strategies(schema1=strategies)
    return Step(read_request(body, wire, path), strategies, prices, prover=Prover()).rewrite()


@dataclass(eq=False)
class Step:
    """A request as a step of its conversation, with what is remembered of those before it.

        step = Step(client, strategies, prices, memories)
        rewrite = step.rewrite()                # as often as there are ways to send it
        step.remember(rewrite)                  # the one that was taken

    client: the request as its client wrote it.
    held: what is known of its history, where the provider holds that; `client` is then its own.
    only: the places of the tool results that the window may mask, if its boundary must not move;
        None if it may.
    observed: whether the request goes out unchanged, and only its figures are wanted.
    purpose: what it asks for; only what gets an answer is remembered.
    now, lifetime: when it leaves, and after how long its provider forgets a prompt, in seconds.
    prover: proves what leaves; None where nothing does, as in a replay.
    arrived: the request, with its long results shortened.
    recalled: what is remembered of its conversation; None if nothing is.
    context: the past of that, which decides what stays masked; None if it is not remembered.

    Whatever will be sent as its client wrote it, because a strategy is off, is forgotten. Raises
    WireError if results that were shortened before cannot be.
    """

    client: Conversation
    strategies: Strategies
    prices: BoundaryPrices = FREE
    memories: Memories | None = None
    _: KW_ONLY
    held: ServerHeldRequest | None = None
    only: Container[int] | None = None
    observed: bool = False
    purpose: Purpose = "answer"
    now: float = 0.0
    lifetime: float = math.inf
    prover: Prover | None = None
    arrived: Arrived = field(init=False)
    recalled: Recalled | None = field(init=False, default=None)
    context: ConversationContext | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        client, held, sent = self.client, self.held, None
        masks, shortens = self.strategies.schema1.masks, self.strategies.shortens
        if self.memories is not None:
            if held is None and not masks:
                self.memories.forget(client, "masked" if shortens else "all")
            opening = None if held is None else held.continued.opening or b""
            self.recalled = recalled = self.memories.meet(
                client, self.now, self.lifetime, observed=self.observed, held=opening
            )
            sent = recalled.sent
            if held is not None:
                sent = sent._replace(asked=held.continued.asked)
            if recalled.context is not None and (masks or recalled.context.drops_reasoning):
                self.context = recalled.context
        # At arrival: what was sent short stays so.
        self.arrived = Arrived(client, client)
        if shortens:
            self.arrived = arrive(client, self.strategies.arrival, sent)

    @property
    def conversation(self) -> Conversation:
        """The request as it arrives at the window."""
        return self.arrived.conversation

    @property
    def opening(self) -> bytes:
        """What its conversation is recognized by."""
        return digest_opening(self.conversation)

    # The ways to send it.

    def rewrite(
        self,
        *,
        account_accepts_edits: bool = False,
        clears: bool = False,
        drops: bool = False,
        masks_new: bool = True,
    ) -> Rewrite:
        """Return the request as it goes out.

        account_accepts_edits: whether the account's provider takes the request though a text before
            bound reasoning has changed. It matters where some accounts are refused that, and
            `bound_reasoning` is not "keep".
        clears: whether the provider may be asked to clear what must not be masked because reasoning
            is bound to it.
        drops: whether it may be asked to drop reasoning instead that is bound to what is masked.
            Once it was, each request of the conversation asks, whatever is said here.
        masks_new: off, the window masks nothing that it has not masked before.

        No byte changes outside what `rewrite_request` says, and the edits that ask a provider to
        clear or to drop. Raises WireError if the edits cannot be made, and ProofError if what
        leaves cannot be proven; where reasoning is bound to what was sent before, that is tried
        first.
        """
        arrived, policy, held = self.arrived, self.strategies.schema1, self.held
        conversation, strategies = arrived.conversation, self.strategies
        if held is not None:  # it has nothing old
            before = held.continued.left_out
            self._prove(conversation.request.body, Edits(), None, None)
            return Rewrite(
                body=conversation.request.body,
                arrived=arrived,
                conversation=conversation,
                decisions=(),
                obstacle=held.obstacle,
                left_out=measure_left_out(arrived, before) if arrived.shortened or before else None,
            )
        conversation = with_targets(conversation, policy.wanted_arguments)
        binding = conversation.binding
        can_drop, context = self.can_drop, self.context
        drops = drops and can_drop and not clears  # which costs no reasoning
        binds = (
            keeps_reasoning(binding, policy, account_accepts_edits=account_accepts_edits)
            and not drops
        )
        if binds:  # whatever they changed would stand before reasoning, now or at the next request
            strategies = Strategies(schema1=policy)
        # The window decides as if nothing were redacted: a redaction must not move the boundary
        # back. A result has one decision, that of the first strategy which settles it. What will be
        # redacted is masked in redaction's words, so that no text changes twice.
        redactions = None
        if strategies.redaction.redacts:
            redactions = decide_redactions(conversation, strategies.redaction)
        asks_summary = policy.masks and is_summary_request(conversation)
        has_dropped = can_drop and self.has_dropped
        limits = Limits(self.only if masks_new else (), binds, drops or has_dropped, asks_summary)
        # Where the provider clears, nothing is masked: each has a bill of its own, and one break of
        # the cache is enough. A conversation that was masked is not cleared besides.
        prices, past = self.prices, context and context.past
        was_masked = past is not None and (past.moves and not past.cleared)
        if clears and binds and context is not None and not (was_masked or has_dropped):
            window = decide_clearing(conversation, policy, prices, context, limits)
        else:
            templates = strategies.redaction.templates
            window = decide(conversation, policy, prices, context, limits, templates)
        windowed, past, left_unmasked, clearing = window
        decisions = windowed if redactions is None else _settle(windowed, redactions)
        plan, edits = None, Edits()
        if strategies.reduction.reduces:
            plan = _plan(conversation, decisions, strategies)
            decisions, edits = tuple(_carry_out(decisions, plan)), plan.edits
        # One edit carries it all out, but for what the provider clears.
        sent = [each for each in decisions if each.reason != "cleared"]
        edits = edits._replace(replacements=replacements_of(sent))
        body = conversation.request.body
        if edits.moves or edits.replacements:
            body = conversation.request.edit(edits)
        # Beside its list at most one thing is asked of the provider.
        added: Added | None = None
        beta = ""
        wanted = conversation.wire.clearing
        if clearing is not None and wanted is not None:
            added, beta = wanted.write(clearing.keep, clearing.excluded), wanted.beta
        # Where a text before reasoning has changed, or may have, the provider drops the reasoning.
        dropping, dropped = conversation.wire.dropping, frozenset[int]()
        is_changed = drops and (
            (context is not None and was_passed_by(conversation, context))
            or changes_before_reasoning(conversation, edits)
        )
        if (has_dropped or is_changed) and dropping is not None:
            added, beta = dropping.write(conversation.document), dropping.beta
            if past is not None:
                past = replace(past, drops_reasoning=True)
                dropped = find_dropped_reasoning(conversation, past)
        if added is not None:
            body = conversation.request.add(body, added)
        try:
            self._prove(body, edits, added, past)
        except ProofError:
            # Reasoning since then is bound to what was sent before, so that is sent again.
            if not (masks_new and was_masked and binding is not None):
                raise
            return self.rewrite(
                account_accepts_edits=account_accepts_edits, drops=drops, masks_new=False
            )
        return Rewrite(
            body=body,
            arrived=arrived,
            conversation=conversation,
            decisions=decisions,
            edits=edits,
            masked=places_masked(windowed),
            redactions=redactions,
            plan=plan,
            past=past,
            left_unmasked=left_unmasked,
            clearing=clearing,
            drops=has_dropped or is_changed,
            dropped=dropped,
            betas=(beta,) if beta else (),
        )

    def _prove(self, body: bytes, edits: Edits, added: Added | None, past: Past | None) -> None:
        """Prove that a body may leave. Raises ProofError on any doubt."""
        client, strategies = self.client.request, self.strategies
        if self.prover is None or body is client.body:
            return
        # In use are the templates of the settings, and those in which something was sent before.
        redaction, reduction = strategies.redaction, strategies.reduction
        renderings = [strategies.schema1.rendering]
        renderings += [move.rendering for move in (() if past is None else past.moves)]
        placeholders = [Wording(each.template, each.arguments_chars) for each in renderings]
        if redaction.redacts:
            arguments_chars = redaction.placeholder_arguments_chars
            placeholders.append(Wording(redaction.placeholder_template, arguments_chars))
        cuts = [each.words for each in self.arrived.shortened if each.words is not None]
        markers = [Wording(each.marker_template, each.arguments_chars) for each in cuts]
        terms = Terms(
            placeholders=tuple(dict.fromkeys(placeholders)),
            markers=tuple(dict.fromkeys(markers)),
            line_chars=reduction.max_observation_chars if reduction.reduces else None,
            order=edits.order(len(self.client.elements)) if edits.moves else None,
            added=added,
            cut=client.cut,
        )
        self.prover.prove(client.body, body, client.wire, terms, self.opening)

    @property
    def has_dropped(self) -> bool:
        """Whether its provider was asked to drop reasoning at an earlier request."""
        return self.context is not None and self.context.drops_reasoning

    @property
    def can_clear(self) -> bool:
        """Whether its provider can be asked to clear results that stay for bound reasoning."""
        client = self.conversation
        return client.binding is not None and self._can_ask(client.wire.clearing)

    @property
    def can_drop(self) -> bool:
        """Whether its provider can be asked to drop bound reasoning that no longer fits."""
        client = self.conversation
        is_bound = client.binding in ("refuses", "may_refuse")
        return is_bound and self._can_ask(client.wire.dropping)

    def _can_ask(self, edit: ProviderEdit | None) -> bool:
        if edit is None or self.context is None:
            return False
        client = self.conversation
        return edit.is_possible(client.document, client.path, client.model)

    def rewrite_as_arrived(self) -> Rewrite | None:
        """Return a request that is not remembered as it would have gone out had all of it been.

        None if that is how it goes out, or if the conversation is remembered.
        """
        if self.recalled is None or self.recalled.is_known or not self.strategies.shortens:
            return None
        arrived = find_lost(self.arrived, self.strategies.arrival)
        if arrived is None:
            return None
        step = copy(self)
        step.arrived = arrived
        return step.rewrite()

    def leave_unmasked(self) -> Rewrite:
        """Return the request as its client wrote it, since it was refused masked."""
        client = self.client
        return Rewrite(
            body=client.request.body,
            arrived=Arrived(client, client),
            conversation=client,
            decisions=tuple(Decision(result, "refused") for result in client.results),
        )

    # What is remembered of it.

    def remember(self, rewrite: Rewrite) -> None:
        """Remember that the request goes out like this."""
        if self.memories is None or self.recalled is None or self.purpose != "answer":
            return
        is_placed = self.held is None or self.held.continued.opening is not None
        self.memories.keep(
            self.recalled,
            rewrite.past,
            rewrite.arrived if self.strategies.shortens and is_placed else None,
            observed=self.observed,
        )

    def forget(self, what: Forgotten) -> None:
        """Forget what is remembered of its conversation, as what was sent was not taken."""
        if self.memories is not None:
            self.memories.forget(self.client, what)

    def await_answer(self, place: bytes) -> PendingAnswer | None:
        """Return what is known of its conversation, for a request that continues its answer.

        None where such a request shows all of it. `place` tells its host and its account apart.
        """
        if self.held is not None:
            continued = self.held.continued.add(self.arrived)
            return PendingAnswer(place, self.held.history, continued)
        may_be_continued = self.client.wire.may_be_continued(self.client.document)
        is_wanted = self.strategies.shortens and self.strategies.arrival.enabled
        if self.recalled is None or not (may_be_continued and is_wanted):
            return None
        continued = KnownConversation().extend(self.client).add(self.arrived)
        return PendingAnswer(place, ServerHistory(), continued)


def keeps_reasoning(
    binding: OnHistoryEdit | None, policy: MaskPolicy, *, account_accepts_edits: bool = False
) -> bool:
    """Whether reasoning is bound to what precedes it, and is not to be given up."""
    if binding == "may_refuse":
        return policy.bound_reasoning == "keep" or not account_accepts_edits
    return binding == "refuses" or (binding == "drops" and policy.bound_reasoning != "drop")


def changes_bound_prefix(rewrite: Rewrite) -> bool:
    """Whether a rewrite changes a text that reasoning in the request is bound to."""
    is_bound = rewrite.conversation.binding is not None
    return is_bound and changes_before_reasoning(rewrite.conversation, rewrite.edits)


def changes_before_reasoning(conversation: Conversation, edits: Edits) -> bool:
    """Whether edits change a text that reasoning in a request may be bound to."""
    changed = (*edits.dropped, *edits.replacements)
    first = min(changed, default=len(conversation.elements))
    return first <= conversation.last_bound


_PLACEHOLDERS = ("masked", "redacted", "already_masked")
"""The reasons of results that are placeholders now, and are not to be masked again."""


def _settle(decisions: Sequence[Decision], redactions: Redactions) -> tuple[Decision, ...]:
    """Return the decisions: redaction's where it settled a result or the window is off.

    Redaction replaces texts alone, so the images that the window masks are masked all the same.
    """
    return tuple(
        _join(decision, redaction)
        if redaction.reason in _PLACEHOLDERS or decision.reason == "off"
        else decision._replace(scenario=redaction.scenario)
        for decision, redaction in zip(decisions, redactions.decisions, strict=True)
    )


def _join(decision: Decision, redaction: Decision) -> Decision:
    images = [replacement for replacement in decision.replacements if replacement.image]
    if not images:
        return redaction
    joined = sort_by_position((*redaction.replacements, *images))
    kept = redaction if redaction.replacements else decision
    return kept._replace(replacements=joined)


def _plan(
    conversation: Conversation, decisions: Sequence[Decision], strategies: Strategies
) -> ReductionPlan:
    """Plan a reduction of the request as the other strategies have left it.

    A summary may quote what the window has masked, because the agent still has it, but nothing
    that was redacted.
    """
    changed = [decision for decision in decisions if decision.replacements]
    redacted = [decision for decision in changed if decision.reason == "redacted"]
    edited = _edit(conversation, changed)
    settled = frozenset(n for n, d in enumerate(decisions) if d.reason in _PLACEHOLDERS)
    sources = _edit(conversation, redacted)
    plan = plan_reduction(edited, strategies.reduction, settled, sources)
    is_last = plan.changes and leaves_system_alone(edited, plan)
    return set_aside(plan) if is_last else plan


def _edit(conversation: Conversation, decisions: Sequence[Decision]) -> Conversation:
    """Return the request after these decisions; only what they change is read again."""
    if not decisions:
        return conversation
    replacements = replacements_of(decisions)
    items = apply_to_list(conversation.items, Edits(replacements))
    return read_again(conversation, items, replacements)


def _carry_out(decisions: Sequence[Decision], plan: ReductionPlan) -> Iterator[Decision]:
    """Yield the decisions: the reduction's for what its plan replaces or drops."""
    for place, decision in enumerate(decisions):
        if decision.result.element in plan.dropped:
            yield Decision(decision.result, "dropped")
        elif place in plan.replaced:
            yield Decision(decision.result, "reduced", plan.replaced[place].replacements)
        else:
            yield decision
