"""Bytes in, bytes and decisions out: the one road through the core."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from masking.arrival import ArrivalPolicy, Arrived, arrive
from masking.conversation import Conversation, index_request, read_again, with_targets
from masking.edit.splice import append, apply
from masking.memory import ConversationContext, Past
from masking.model import Decision, Edits, places_masked, replacements_of
from masking.redaction import RedactionPolicy, Redactions, decide_redactions
from masking.reduction import (
    ReductionOptions,
    ReductionPlan,
    leaves_system_alone,
    plan_reduction,
    set_aside,
)
from masking.request_cache import decode_request
from masking.window import (
    FREE,
    BoundaryPrices,
    Limits,
    MaskPolicy,
    decide,
    in_order,
)
from masking.window.clearing import Clearing, ClearingDecisions, decide_clearing
from masking.window.signs import is_summary_request
from masking.wire import CHAT, OnHistoryEdit, WireFormat


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
    conversation: the request as it came in, but for what was shortened at arrival.
    decisions: one for each result, that of the strategy which settled it.
    masked: the places of the results that the window masks, whichever strategy settled them.
    redactions, plan: None if redaction or reduction is off.
    left_whole: whether the window masks nothing, because an agent asks for a summary.
    binding: what becomes of the model's reasoning if a text before it has changed.
    past: what is to be remembered of the conversation; None if nothing is.
    clearing: what the provider is asked to clear; None if it is not asked. What it clears is
        decided as `cleared`, and is no edit of ours.
    cleared_past: what is to be remembered of the conversation as one that the provider clears.
    arrived: what became of its long results at arrival; None if nobody looked.
    """

    body: bytes
    conversation: Conversation
    decisions: tuple[Decision, ...]
    edits: Edits = field(default_factory=Edits)
    masked: frozenset[int] = frozenset()
    redactions: Redactions | None = None
    plan: ReductionPlan | None = None
    past: Past | None = None
    binding: OnHistoryEdit | None = None
    left_whole: bool = False
    clearing: Clearing | None = None
    cleared_past: Past | None = None
    arrived: Arrived | None = None


def read_request(body: bytes, wire: WireFormat = CHAT, path: str = "") -> Conversation:
    """Decode and read a request; `path` is that of its URL, without the query.

    A process that sees more than one request reads them by one `RequestCache`. Raises WireError if
    the body is no JSON object with the format's list, or must go out whole.
    """
    return index_request(decode_request(body, wire, path))


def rewrite_request(
    request: bytes | Conversation | Arrived,
    strategies: MaskPolicy | Strategies,
    wire: WireFormat = CHAT,
    path: str = "",
    prices: BoundaryPrices = FREE,
    *,
    only: Container[int] | None = None,
    context: ConversationContext | None = None,
    takes_changes: bool = False,
    clearing_context: ConversationContext | None = None,
) -> Rewrite:
    """Mask a request's old tool results; shorten, redact, and reduce as the strategies say.

    request: as read by `RequestCache.read`; or a body, which is read as by `read_request`; or as
        it is after arrival, where what was sent before decides that.
    strategies: all of them; or the policy of the window alone.
    prices: by which the window's boundary moves. By default masking never has a price, and the
        window slides.
    only: the places of the tool results that the window may mask, if its boundary must not move;
        None if it may.
    context: the conversation's past, which then decides what stays masked. Without it the request
        alone does, and nothing is masked if reasoning is bound to what precedes it.
    takes_changes: whether the account is one whose provider takes the request though a text before
        bound reasoning has changed. It matters where some accounts are refused that, and
        `bound_reasoning` is not "keep".
    clearing_context: the past of the conversation as one that the provider clears, if it may be
        asked to clear what must not be masked because reasoning is bound to it; else None.

    No byte changes outside the replaced strings, outside the elements that a reduction removes and
    the one it inserts, and outside the edit that asks a provider to clear. Pure. Raises WireError
    as `read_request` does, and if the edits cannot be made and proven; the request is then to be
    sent unchanged.
    """
    if isinstance(strategies, MaskPolicy):
        strategies = Strategies(schema1=strategies)
    if isinstance(request, bytes):
        request = read_request(request, wire, path)
    if isinstance(request, Arrived):
        arrived = request
    elif strategies.shortens:
        arrived = arrive(request, strategies.arrival)
    else:
        arrived = Arrived(request, request)
    conversation, policy = arrived.conversation, strategies.schema1
    if policy.wanted_arguments:
        conversation = with_targets(conversation, policy.wanted_arguments)
    binding = conversation.binding
    binds = keeps_reasoning(binding, policy, takes_changes=takes_changes)
    if binds:  # whatever they changed would stand before reasoning, now or at the next request
        strategies = Strategies(schema1=policy)
    # The window decides as if nothing were redacted: a redaction must not move the boundary back.
    # A result has one decision, that of the first strategy which settles it.
    redactions = (
        decide_redactions(conversation, strategies.redaction)
        if strategies.redaction.redacts
        else None
    )
    limits = Limits(only, binds, policy.masks and is_summary_request(conversation))
    # Where the provider clears, the window masks nothing anew: each has a bill of its own, and one
    # break of the cache is enough. A conversation that was masked is not cleared besides.
    was_masked = context is not None and context.past is not None and context.past.moves
    clears = ClearingDecisions()
    if binds and clearing_context is not None and not was_masked:
        clears = decide_clearing(conversation, policy, prices, clearing_context, limits)
        limits = limits._replace(only=(), asks_summary=limits.asks_summary and not clears.clearing)
    windowed, past, left_whole = decide(conversation, policy, prices, context, limits)
    if clears.past is not None:
        windowed = tuple(_settle_cleared(windowed, clears.settled))
    decisions = windowed if redactions is None else _settle(windowed, redactions)
    sent = [each for each in decisions if each.reason != "cleared"]
    edits, masked = Edits(replacements_of(sent)), places_masked(windowed)
    plan = None
    if strategies.reduction.reduces:
        plan = _plan(conversation, decisions, strategies)
        if plan.changes:
            decisions = tuple(_carry_out(decisions, plan))
            edits = plan.edits._replace(replacements=replacements_of(decisions))
    body = conversation.request.body
    if edits.moves:
        body = conversation.request.splice(edits, conversation.list_path)
    elif edits.replacements:
        body = conversation.request.replace_texts(edits.replacements, conversation.list_path)
    wanted = conversation.wire.clearing
    if clears.clearing is not None and wanted is not None:
        edit = wanted.write_edit(clears.clearing.keep, clears.clearing.excluded)
        body = append(body, conversation.document, wanted.edits_path, edit)
    return Rewrite(
        body=body,
        conversation=conversation,
        decisions=decisions,
        edits=edits,
        masked=masked,
        redactions=redactions,
        plan=plan,
        past=past,
        binding=binding,
        left_whole=left_whole,
        clearing=clears.clearing,
        cleared_past=clears.past,
        arrived=arrived,
    )


def keeps_reasoning(
    binding: OnHistoryEdit | None, policy: MaskPolicy, *, takes_changes: bool = False
) -> bool:
    """Whether reasoning is bound to what precedes it, and is not to be given up."""
    if binding == "may_refuse":
        return policy.bound_reasoning == "keep" or not takes_changes
    return binding == "refuses" or (binding == "drops" and policy.bound_reasoning != "drop")


def changes_bound_prefix(rewrite: Rewrite) -> bool:
    """Whether a rewrite changes a text that reasoning in the request is bound to."""
    if rewrite.binding is None:
        return False
    elements = rewrite.conversation.elements
    changed = (
        each.result.element
        for each in rewrite.decisions
        if each.replacements and each.reason != "cleared"
    )
    first = min((*rewrite.edits.dropped, *changed), default=len(elements))
    return any(element.is_bound for element in elements[first:])


def _settle_cleared(
    decisions: Sequence[Decision], settled: Mapping[int, Decision]
) -> Iterator[Decision]:
    """Yield the decisions; where the provider clears, nothing stays because reasoning is bound."""
    for place, decision in enumerate(decisions):
        if place in settled:
            yield settled[place]
        else:
            yield decision._replace(reason="held") if decision.reason == "bound" else decision


def _settle(decisions: Sequence[Decision], redactions: Redactions) -> tuple[Decision, ...]:
    """Return the decisions: redaction's where it settled a result or the window is off.

    Redaction replaces texts alone, so the images that the window masks are masked all the same.
    """
    settled = redactions.settled
    return tuple(
        _join(decision, redaction) if place in settled or decision.reason == "off" else decision
        for place, (decision, redaction) in enumerate(
            zip(decisions, redactions.decisions, strict=True)
        )
    )


def _join(decision: Decision, redaction: Decision) -> Decision:
    images = [replacement for replacement in decision.replacements if replacement.image]
    if not images:
        return redaction
    joined = in_order((*redaction.replacements, *images))
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


_PLACEHOLDERS = ("masked", "redacted", "already_masked")


def _edit(conversation: Conversation, decisions: Sequence[Decision]) -> Conversation:
    """Return the request after these decisions; only what they change is read again."""
    if not decisions:
        return conversation
    document = apply(conversation.document, Edits(replacements_of(decisions)))
    return read_again(conversation, document, {d.result.element for d in decisions})


def _carry_out(decisions: Sequence[Decision], plan: ReductionPlan) -> Iterator[Decision]:
    """Yield the decisions: the reduction's for what its plan replaces or drops."""
    for place, decision in enumerate(decisions):
        if decision.result.element in plan.dropped:
            yield Decision(decision.result, "dropped")
        elif place in plan.replaced:
            yield Decision(decision.result, "reduced", plan.replaced[place])
        else:
            yield decision
