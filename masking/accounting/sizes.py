"""What a request measures, before and after masking: counts, characters, tokens."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from masking.accounting.composition import ResultTokens, compose
from masking.accounting.prompt import Prompt
from masking.accounting.reason_row import spell_reasons
from masking.measures.tokens import TokenCounter
from masking.model import Decision, ToolResult
from masking.rewrite import Rewrite
from masking.strategies.redaction import count_redactions
from masking.strategies.reduction_plan import InvariantStatus, ReductionStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What was measured of a request; tokens are None where they were not counted."""

    messages: int
    tool_turns: int
    tool_results: int
    masked: int
    masked_images: int = 0
    redacted: int = 0
    reduced: int = 0
    dropped: int = 0
    kept: Mapping[str, int]
    result_reasons: str
    tool_chars_before: int
    tool_chars_after: int
    json_chars_before: int
    json_chars_after: int
    tool_tokens_before: int | None = None
    tool_tokens_after: int | None = None
    request_tokens_before: int | None = None
    request_tokens_after: int | None = None
    composition: Mapping[str, int] | None = None
    redaction_scenarios: tuple[int, ...] | None = None
    reduction_stage: ReductionStage | None = None
    reduction_status: InvariantStatus | None = None
    dropped_messages: int | None = None


def measure(
    rewrite: Rewrite,
    original: bytes,
    prompt: Prompt | None = None,
    counter: TokenCounter | None = None,
) -> Sizes:
    """Measure a request, before and after; without a prompt and a counter, all but its tokens."""
    decisions, plan = rewrite.decisions, rewrite.plan
    reasons: Counter[str] = Counter(decision.reason for decision in decisions)
    counted: _Tokens = {} if prompt is None or counter is None else _count(rewrite, prompt, counter)
    return Sizes(
        messages=len(rewrite.conversation.items),
        tool_turns=rewrite.conversation.turns,
        tool_results=len(decisions),
        masked=reasons.pop("masked", 0),
        masked_images=sum(decision.images_masked for decision in decisions),
        redacted=reasons.pop("redacted", 0),
        reduced=reasons.pop("reduced", 0),
        dropped=reasons.pop("dropped", 0),
        kept=dict(reasons),
        result_reasons=spell_reasons(decision.reason for decision in decisions),
        tool_chars_before=sum(d.chars_before for d in decisions),
        tool_chars_after=sum(d.chars_after for d in decisions),
        json_chars_before=_count_chars(original),
        json_chars_after=_count_chars(rewrite.body),
        **counted,
        redaction_scenarios=_count_scenarios(rewrite),
        reduction_stage=None if plan is None else plan.stage,
        reduction_status=None if plan is None or plan.stage is None else plan.invariant_status,
        dropped_messages=None if plan is None else len(plan.dropped),
    )


class _Tokens(TypedDict, total=False):
    """Those of `Sizes` that are tokens."""

    tool_tokens_before: int
    tool_tokens_after: int
    request_tokens_before: int
    request_tokens_after: int
    composition: Mapping[str, int]


def _count(rewrite: Rewrite, prompt: Prompt, counter: TokenCounter) -> _Tokens:
    before = [_count_content(decision.result, counter) for decision in rewrite.decisions]
    after = [_count_left(d, n, counter) for d, n in zip(rewrite.decisions, before, strict=True)]
    return {
        "tool_tokens_before": sum(before),
        "tool_tokens_after": sum(result.left for result in after),
        "request_tokens_before": prompt.tokens_before,
        "request_tokens_after": prompt.tokens_after,
        "composition": compose(rewrite, prompt, after),
    }


def _count_content(result: ToolResult, counter: TokenCounter) -> int:
    """Return the tokens of a result's texts and images."""
    images = sum(image.tokens for image in result.images)
    return sum(map(counter.count, result.texts)) + images


def _count_left(decision: Decision, tokens: int, counter: TokenCounter) -> ResultTokens:
    at = decision.result.element
    if decision.reason == "dropped":
        return ResultTokens(at, 0, 0)
    if decision.reason == "already_masked":
        return ResultTokens(at, tokens, tokens)
    placeholders = sum(counter.count(r.placeholder) for r in decision.replacements)
    replaced = sum(r.count_replaced(counter.count) for r in decision.replacements)
    left = tokens - replaced + placeholders
    return ResultTokens(at, left, min(left, placeholders))


def _count_scenarios(rewrite: Rewrite) -> tuple[int, ...] | None:
    redactions = rewrite.redactions
    return None if redactions is None else count_redactions(redactions.decisions).scenarios


def _count_chars(body: bytes) -> int:
    return len(body.decode("utf-8", "replace"))
