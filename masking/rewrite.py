"""Bytes in, bytes and decisions out: the one road through the core."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from masking.edit.splice import decode, replace_strings, splice
from masking.edit.splice_messages import splice_messages
from masking.errors import WireError
from masking.memory.boundary_memory import Occasion, Past
from masking.memory.remembered import continue_past
from masking.model import (
    ChatMessage,
    Decision,
    Replacement,
    ToolHistory,
    places_masked,
    replacements_of,
)
from masking.strategies.order import Strategies
from masking.strategies.pairs import find_position
from masking.strategies.policy import MaskPolicy
from masking.strategies.redaction import Redactions, decide_redactions
from masking.strategies.reduction import is_system, plan_reduction, set_aside
from masking.strategies.reduction_plan import ReductionPlan
from masking.strategies.window import decide
from masking.wire.chat import find_tool_results, lay_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A request as it is to leave: its body, and what was decided about its tool results.

    `body` is the very object that came in where nothing was changed. `document` is the decoded
    request as it came in. Of each result there is one decision, that of the strategy which
    settled it. `masked` are the places of the results that the window masks, counted from 0,
    whoever settled them. `redactions` and `plan` are None where redaction, and reduction, is off,
    `past` is what is to be remembered of the conversation, None where nothing is.
    """

    body: bytes
    document: Mapping[str, object]
    history: ToolHistory
    decisions: tuple[Decision, ...]
    masked: frozenset[int] = frozenset()
    redactions: Redactions | None = None
    plan: ReductionPlan | None = None
    past: Past | None = None


def rewrite_request(body: bytes, policy: MaskPolicy) -> Rewrite:
    """Mask the old tool results of a Chat Completions request.

    Every byte outside the replaced strings stays the client's. Pure; raises WireError where
    the body is no JSON object with a list of messages, and then it is to be sent as it came.
    """
    return change_request(body, read_request(body), Strategies(schema1=policy))


def read_request(body: bytes) -> Mapping[str, object]:
    """Decode a request. Raises WireError where it is no JSON object."""
    document = decode(body)
    if not isinstance(document, dict):
        raise WireError(f"expected object, got {type(document).__name__}")
    return document


def change_request(
    body: bytes,
    document: Mapping[str, object],
    strategies: Strategies,
    only: Container[int] | None = None,
    occasion: Occasion | None = None,
) -> Rewrite:
    """Apply the strategies to a request: redaction, Schéma 1, reduction.

    Every byte outside the replaced strings stays the client's, and outside the messages that a
    reduction removes and the one it inserts. Where the boundary is held, `only` are the places of
    the tool results that the window may mask, counted from 0. With an `occasion` the conversation's
    past decides what stays masked; without it the request alone. Raises as `rewrite_request` does.
    """
    history = find_tool_results(document, strategies.schema1.wanted_arguments)
    redactions = _redact(history, document, strategies)
    windowed, past = _mask(history, document, strategies.schema1, only, occasion)
    decisions = windowed if redactions is None else _settle(windowed, redactions)
    replacements = replacements_of(decisions)
    changed = Rewrite(
        body=splice(body, document, replacements) if replacements else body,
        document=document,
        history=history,
        decisions=decisions,
        masked=places_masked(windowed),
        redactions=redactions,
        past=past,
    )
    return _reduce(changed, strategies) if strategies.reduction.reduces else changed


def _redact(
    history: ToolHistory, document: Mapping[str, object], strategies: Strategies
) -> Redactions | None:
    if not strategies.redaction.redacts:
        return None
    messages = cast(Sequence[object], document["messages"])
    return decide_redactions(history, messages, strategies.redaction)


def _mask(
    history: ToolHistory,
    document: Mapping[str, object],
    policy: MaskPolicy,
    only: Container[int] | None,
    occasion: Occasion | None,
) -> tuple[tuple[Decision, ...], Past | None]:
    """Decide as though nothing were redacted: a redaction must not move the boundary back."""
    if occasion is not None and policy.masks:
        layout = lay_out(document)
        held = only is not None
        continued = continue_past(history, policy, layout, occasion, held=held)
        return continued.decisions, continued.past
    layout_if_priced = lay_out(document) if policy.masks and not policy.slides else None
    decisions = decide(history, policy, layout_if_priced)
    return decisions if only is None else _hold(decisions, only), None


def _hold(decisions: Sequence[Decision], only: Container[int]) -> tuple[Decision, ...]:
    return tuple(
        Decision(decision.result, "held")
        if decision.reason == "masked" and place not in only
        else decision
        for place, decision in enumerate(decisions)
    )


def _settle(decisions: Sequence[Decision], redactions: Redactions) -> tuple[Decision, ...]:
    """Return the decisions, those being redaction's that it has settled or nobody else made."""
    settled = redactions.settled
    return tuple(
        Decision(redaction.result, redaction.reason, redaction.replacements)
        if place in settled or decision.reason == "off"
        else decision
        for place, (decision, redaction) in enumerate(
            zip(decisions, redactions.decisions, strict=True)
        )
    )


def _reduce(changed: Rewrite, strategies: Strategies) -> Rewrite:
    document = replace_strings(changed.document, replacements_of(changed.decisions))
    redacted = [decision for decision in changed.decisions if decision.reason == "redacted"]
    sources = replace_strings(changed.document, replacements_of(redacted))
    plan = plan_reduction(
        cast(list[ChatMessage], document["messages"]),
        strategies.reduction,
        frozenset(n for n, d in enumerate(changed.decisions) if d.reason in _PLACEHOLDERS),
        cast(list[ChatMessage], sources["messages"]),
    )
    if not plan.changes:
        return replace(changed, plan=plan)
    if _leaves_nobody(cast(list[object], document["messages"]), plan):
        return replace(changed, plan=set_aside(plan))
    return replace(
        changed,
        body=splice_messages(changed.body, document, plan),
        decisions=tuple(_carry_out(changed.decisions, plan)),
        plan=plan,
    )


_PLACEHOLDERS = ("masked", "redacted", "already_masked")


def _leaves_nobody(messages: Sequence[object], plan: ReductionPlan) -> bool:
    """Whether nobody but the system would still speak: providers refuse such a request."""
    left = (message for at, message in enumerate(messages) if at not in plan.dropped)
    return plan.summary is None and all(is_system(message) for message in left)


def _carry_out(decisions: Sequence[Decision], plan: ReductionPlan) -> Iterator[Decision]:
    """Yield the decisions, those about what the plan replaces or drops being the reduction's."""
    replaced: defaultdict[object, list[Replacement]] = defaultdict(list)
    for replacement in plan.replacements:
        replaced[replacement.path[1]].append(replacement)
    for decision in decisions:
        position = find_position(decision.result)
        if position in plan.dropped:
            yield Decision(decision.result, "dropped")
        elif position in replaced:
            yield Decision(decision.result, "reduced", tuple(replaced[position]))
        else:
            yield decision
