"""Schéma 1: tool results older than a window of tool turns become placeholders."""

from collections import Counter
from collections.abc import Callable
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
    view = _View(
        policy=policy,
        template=parse_template(policy.placeholder_template),
        edge=max(0, history.turns - policy.window_turns),
        last_of_each_tool=_find_last_of_each_tool(history, policy.keep_last_k_per_tool or 0),
    )
    return tuple(_decide_one(result, view) for result in history.results)


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
    for result in reversed(history.results):
        if result.tool is not None and seen[result.tool] < k:
            seen[result.tool] += 1
            last.add(result.path)
    return frozenset(last)


def _decide_one(result: ToolResult, view: _View) -> Decision:
    for reason, keeps in _KEEP_RULES:
        if keeps(result, view):
            return Decision(result, reason)
    return _mask(result, view)


def _is_in_window(result: ToolResult, view: _View) -> bool:
    return result.turn is not None and result.turn >= view.edge


def _is_last_of_its_tool(result: ToolResult, view: _View) -> bool:
    return result.path in view.last_of_each_tool


def _is_kept_error(result: ToolResult, view: _View) -> bool:
    if not view.policy.keep_errors or result.is_error:
        return view.policy.keep_errors
    limit = view.policy.error_words_max_chars
    return _is_maskable(result, view) and looks_like_error(result.text, limit)


def _is_maskable(result: ToolResult, view: _View) -> bool:
    return result.kind == "string" or (result.kind == "text_parts" and view.policy.mask_text_parts)


_KEEP_RULES: tuple[tuple[KeepReason, Callable[[ToolResult, _View], bool]], ...] = (
    ("off", lambda result, view: not view.policy.masks),
    ("bad_id", lambda result, view: result.call_id is None),
    ("orphan", lambda result, view: result.turn is None),
    ("in_window", _is_in_window),
    ("last_k", _is_last_of_its_tool),
    ("error", _is_kept_error),
    ("not_string", lambda result, view: not _is_maskable(result, view)),
)
"""The reasons to keep a result whatever its placeholder, in the order in which they hold."""


def _mask(result: ToolResult, view: _View) -> Decision:
    call_id = result.call_id or ""
    must_shrink = view.policy.skip_if_not_shorter or result.kind == "text_parts"
    replacements = []
    reason: KeepReason = "already_masked"
    for slot in result.slots:
        if view.template.could_have_rendered(slot.text, call_id, result.tool):
            continue
        placeholder = view.template.render(call_id, result.tool, len(slot.text))
        if must_shrink and len(placeholder) >= len(slot.text):
            reason = "not_shorter"
        else:
            replacements.append(Replacement(slot, placeholder))
    return Decision(result, "masked" if replacements else reason, tuple(replacements))
