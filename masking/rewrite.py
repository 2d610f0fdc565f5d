"""Bytes in, bytes and decisions out: the one road through the core."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from masking.model import Decision, ToolHistory, WireError, replacements_of
from masking.policy import MaskPolicy
from masking.splice import decode, splice
from masking.window import decide
from masking.wire.chat import find_tool_results, lay_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A request as it is to leave: its body, and what was decided about its tool results.

    `body` is the very object that came in where nothing was masked. `document` is the decoded
    request as it came in.
    """

    body: bytes
    document: Mapping[str, object]
    history: ToolHistory
    decisions: tuple[Decision, ...]


def rewrite(body: bytes, policy: MaskPolicy) -> Rewrite:
    """Mask the old tool results of a Chat Completions request.

    Every byte outside the replaced strings stays the client's. Pure; raises WireError where
    the body is no JSON object with a list of messages, and then it is to be sent as it came.
    """
    return mask_request(body, read_request(body), policy)


def read_request(body: bytes) -> Mapping[str, object]:
    """Decode a request. Raises WireError where it is no JSON object."""
    document = decode(body)
    if not isinstance(document, dict):
        raise WireError(f"expected object, got {type(document).__name__}")
    return document


def mask_request(
    body: bytes,
    document: Mapping[str, object],
    policy: MaskPolicy,
    only: Container[int] | None = None,
) -> Rewrite:
    """Do as `rewrite` does, to a body that has been decoded.

    Where the boundary is held, `only` are the places of the tool results that may be masked,
    counted from 0.
    """
    history = find_tool_results(document)
    layout = lay_out(document) if policy.masks and not policy.slides else None
    decisions = decide(history, policy, layout)
    if only is not None:
        decisions = _hold(decisions, only)
    replacements = replacements_of(decisions)
    return Rewrite(
        body=splice(body, document, replacements) if replacements else body,
        document=document,
        history=history,
        decisions=decisions,
    )


def _hold(decisions: Sequence[Decision], only: Container[int]) -> tuple[Decision, ...]:
    return tuple(
        Decision(decision.result, "held")
        if decision.reason == "masked" and place not in only
        else decision
        for place, decision in enumerate(decisions)
    )
