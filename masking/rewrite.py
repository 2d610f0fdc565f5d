"""Bytes in, bytes and decisions out: the one road through the core."""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from masking.conversation import Conversation, read_again, read_decoded, with_targets
from masking.decoded import Decoded
from masking.edit.element_splice import splice_elements
from masking.edit.json_text import decode
from masking.edit.splice import apply, splice
from masking.errors import WireError
from masking.known_table import KnownTable
from masking.layout import lay_out
from masking.memory.boundary_memory import Occasion, Past
from masking.memory.remembered import continue_past, name_bound
from masking.model import Decision, Edits, places_masked, replacements_of
from masking.redaction import Redactions, decide_redactions
from masking.reduction import ReductionPlan, leaves_system_alone, plan_reduction, set_aside
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.window import (
    decide,
    find_maskable,
    in_order,
    judge,
    leave_whole,
    may_be_whole,
)
from masking.window.signs import is_summary_request
from masking.wire.chat import CHAT
from masking.wire_format import Binding, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A request as it is to leave: its body, and what was decided about its tool results.

    body: the very object that came in, if nothing was changed.
    conversation: the request as it came in.
    decisions: one for each result, that of the strategy which settled it.
    masked: the places of the results that the window masks, whichever strategy settled them.
    redactions, plan: None if redaction or reduction is off.
    left_whole: whether the window masks nothing, because an agent asks for a summary.
    binding: what becomes of the model's reasoning if a text before it has changed.
    past: what is to be remembered of the conversation; None if nothing is.
    """

    body: bytes
    conversation: Conversation
    decisions: tuple[Decision, ...]
    edits: Edits = field(default_factory=Edits)
    masked: frozenset[int] = frozenset()
    redactions: Redactions | None = None
    plan: ReductionPlan | None = None
    past: Past | None = None
    binding: Binding | None = None
    left_whole: bool = False


def rewrite_request(
    body: bytes, policy: MaskPolicy, wire: WireFormat = CHAT, path: str = ""
) -> Rewrite:
    """Mask the old tool results of a request.

    `path` is that of the URL, which some formats need. No byte outside the replaced strings
    changes. Pure. Raises WireError if the body is no JSON object with the format's list, or must go
    out whole; it is then to be sent as it came.
    """
    return change_request(body, read_request(body, wire, path), Strategies(schema1=policy))


def read_request(
    body: bytes, wire: WireFormat = CHAT, path: str = "", table: KnownTable | None = None
) -> Conversation:
    """Decode and read a request. Raises WireError as `read_conversation` does.

    With a `table`, what is in it from earlier requests is not read again; the outcome is the same.
    """
    return read_decoded(decode_known(body, wire, table), wire, path)


def decode_known(body: bytes, wire: WireFormat, table: KnownTable | None) -> Decoded:
    """Decode a request, but for what a `table` knows. Raises WireError as `decode_request` does."""
    decoded = None if table is None else table.decode(body, wire)
    if decoded is None:
        document = decode_request(body)
        decoded = Decoded(document, document)
    return decoded


def decode_request(body: bytes) -> Mapping[str, object]:
    """Decode a request. Raises WireError if it is no JSON object."""
    document = decode(body)
    if not isinstance(document, dict):
        raise WireError(f"expected object, got {type(document).__name__}")
    return document


def change_request(
    body: bytes,
    conversation: Conversation,
    strategies: Strategies,
    only: Container[int] | None = None,
    occasion: Occasion | None = None,
) -> Rewrite:
    """Apply the strategies to a request: redaction, Schéma 1, reduction.

    No byte changes outside the replaced strings, and outside the elements that a reduction removes
    and the one it inserts. If the boundary is held, `only` has the places of the tool results that
    the window may mask. With an `occasion` the conversation's past decides what stays masked;
    without it the request alone does, and nothing is masked if reasoning is bound to what precedes
    it. Raises WireError if the edits cannot be made and proven.
    """
    conversation = with_targets(conversation, strategies.schema1.wanted_arguments)
    binding = conversation.binding
    binds = keeps_reasoning(binding, strategies.schema1)
    if binds:  # whatever they changed would stand before reasoning, now or at the next request
        strategies = Strategies(schema1=strategies.schema1)
    # The window decides as if nothing were redacted: a redaction must not move the boundary back.
    # A result has one decision, that of the first strategy which settles it.
    redactions = (
        decide_redactions(conversation, strategies.redaction)
        if strategies.redaction.redacts
        else None
    )
    windowed, past = _mask(conversation, strategies.schema1, only, occasion, binds=binds)
    decisions = windowed if redactions is None else _settle(windowed, redactions)
    edits = Edits(replacements_of(decisions))
    plan = None
    if strategies.reduction.reduces:
        plan = _plan(conversation, decisions, strategies)
        if plan.changes:
            decisions = tuple(_carry_out(decisions, plan))
            edits = plan.edits._replace(replacements=replacements_of(decisions))
    is_changed = bool(edits.replacements) or edits.moves
    return Rewrite(
        body=_splice(body, conversation, edits) if is_changed else body,
        conversation=conversation,
        decisions=decisions,
        edits=edits,
        masked=places_masked(windowed),
        redactions=redactions,
        plan=plan,
        past=past,
        binding=binding,
        left_whole=any(decision.reason == "summary" for decision in windowed),
    )


def _mask(
    conversation: Conversation,
    policy: MaskPolicy,
    only: Container[int] | None,
    occasion: Occasion | None,
    *,
    binds: bool,
) -> tuple[tuple[Decision, ...], Past | None]:
    asks_summary = policy.masks and is_summary_request(conversation)
    if occasion is not None and policy.masks:
        continued = continue_past(
            conversation,
            policy,
            lay_out(conversation),
            occasion,
            held=only is not None,
            binds=binds,
            asks_summary=asks_summary,
        )
        return continued.decisions, continued.past
    if asks_summary and not binds:
        layout = lay_out(conversation)
        maskable = find_maskable(judge(conversation, policy), layout, conversation.history)
        if may_be_whole(layout, maskable, policy):
            return leave_whole(conversation), None
    decisions = decide(conversation, policy)
    if binds:  # nobody knows how the requests were sent to which reasoning may be bound
        only = frozenset()
    held_back = decisions if only is None else _hold(decisions, only)
    return name_bound(held_back, len(conversation.elements)) if binds else held_back, None


def keeps_reasoning(binding: Binding | None, policy: MaskPolicy) -> bool:
    """Whether reasoning is bound to what precedes it, and is not to be given up."""
    return binding == "refuses" or (binding == "drops" and policy.bound_reasoning == "keep")


def _hold(decisions: Sequence[Decision], only: Container[int]) -> tuple[Decision, ...]:
    return tuple(
        Decision(decision.result, "held")
        if decision.reason == "masked" and place not in only
        else decision
        for place, decision in enumerate(decisions)
    )


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


def _splice(body: bytes, conversation: Conversation, edits: Edits) -> bytes:
    cut = conversation.cut
    if cut is not None and not edits.moves:
        with suppress(WireError):  # what cannot be done to an element may be done to the whole
            return splice_elements(body, cut, edits.replacements, len(conversation.list_path))
    return splice(body, conversation.document, edits, conversation.list_path)
