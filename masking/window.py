"""Schéma 1: tool results older than a window of tool turns become placeholders."""

from collections import Counter
from dataclasses import dataclass
from typing import cast

from masking.errors import looks_like_error
from masking.model import (
    ChatMessage,
    Decision,
    KeepReason,
    Path,
    Replacement,
    ToolHistory,
    ToolResult,
    replacements_of,
)
from masking.placeholder import Template, parse_template
from masking.policy import MaskPolicy
from masking.splice import replace_strings
from masking.wire.chat import find_tool_results


def mask_old_tool_results(messages: list[ChatMessage], policy: MaskPolicy) -> list[ChatMessage]:
    """Return the messages with old tool results replaced by placeholders.

    Pure: no message is added, removed, moved or mutated. The very same list comes back where
    the policy is off or nothing is masked; otherwise a new list, which shares the unmasked
    messages. Source: Schéma 1, tech spec.
    """
    if not policy.masks:
        return messages
    replacements = replacements_of(decide(find_tool_results({"messages": messages}), policy))
    if not replacements:
        return messages
    masked = replace_strings({"messages": messages}, replacements)
    return cast(list[ChatMessage], masked["messages"])


def decide(history: ToolHistory, policy: MaskPolicy) -> tuple[Decision, ...]:
    """Decide every tool result of a request, in order; one decision per result."""
    if not policy.masks:
        return tuple(Decision(result, "off") for result in history.results)
    view = _View(
        policy=policy,
        template=parse_template(policy.placeholder_template),
        edge=max(0, history.turns - policy.window_turns),
        last_of_each_tool=_find_last_of_each_tool(history, policy.keep_last_k_per_tool or 0),
    )
    return tuple([_decide_one(result, view) for result in history.results])


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What the results of one request are judged by; turns from `edge` on are in the window."""

    policy: MaskPolicy
    template: Template
    edge: int
    last_of_each_tool: frozenset[Path]


def _find_last_of_each_tool(history: ToolHistory, k: int) -> frozenset[Path]:
    seen: Counter[str] = Counter()
    last: set[Path] = set()
    for result in reversed(history.results) if k > 0 else ():
        if result.tool is not None and seen[result.tool] < k:
            seen[result.tool] += 1
            last.add(result.path)
    return frozenset(last)


def _decide_one(result: ToolResult, view: _View) -> Decision:
    reason = _find_reason_to_keep(result, view)
    return _mask(result, view) if reason is None else Decision(result, reason)


def _find_reason_to_keep(result: ToolResult, view: _View) -> KeepReason | None:
    """Return the first reason that holds whatever the placeholder is, in the contract's order."""
    if result.call_id is None:
        return "bad_id"
    if result.turn is None:
        return "orphan"
    if result.turn >= view.edge:
        return "in_window"
    if result.path in view.last_of_each_tool:
        return "last_k"
    policy, kind = view.policy, result.kind
    is_maskable = kind == "string" or (kind == "text_parts" and policy.mask_text_parts)
    if policy.keep_errors and _is_error(result, policy, is_maskable):
        return "error"
    return None if is_maskable else "not_string"


def _is_error(result: ToolResult, policy: MaskPolicy, is_maskable: bool) -> bool:
    return result.is_error or (
        is_maskable and looks_like_error(result.text, policy.error_words_max_chars)
    )


def _mask(result: ToolResult, view: _View) -> Decision:
    call_id, tool, template = result.call_id or "", result.tool, view.template
    must_shrink = view.policy.skip_if_not_shorter or result.kind == "text_parts"
    replacements = []
    reason: KeepReason = "already_masked"
    for place, text in enumerate(result.texts):
        if template.could_have_rendered(text, call_id, tool):
            continue
        placeholder = template.render(call_id, tool, len(text))
        if must_shrink and len(placeholder) >= len(text):
            reason = "not_shorter"
        else:
            replacements.append(Replacement(result.path_of_text(place), text, placeholder))
    return Decision(result, "masked" if replacements else reason, tuple(replacements))
