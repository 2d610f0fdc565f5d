"""What a request measures, before and after masking: counts, characters, tokens."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypedDict

from masking.accounting.prompt import Prompt, ResultSizes
from masking.accounting.reason_row import spell_reasons
from masking.model import Decision
from masking.reasons import Reason
from masking.reduction import InvariantStatus, ReductionStage
from masking.rewrite import Rewrite


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
) -> Sizes:
    """Measure a request, before and after; without its prompt, all but its tokens."""
    decisions, plan = rewrite.decisions, rewrite.plan
    row = [*map(_READ_REASON, decisions)]
    reasons: Counter[str] = Counter(row)
    counted: _Tokens = {} if prompt is None else _count(prompt)
    results = _count_texts(decisions) if prompt is None else prompt.results
    json_chars = count_chars(original)
    return Sizes(
        messages=len(rewrite.conversation.items),
        tool_turns=rewrite.conversation.turns,
        tool_results=len(decisions),
        masked=reasons.pop("masked", 0),
        masked_images=results.masked_images,
        redacted=reasons.pop("redacted", 0),
        reduced=reasons.pop("reduced", 0),
        dropped=reasons.pop("dropped", 0),
        kept=dict(reasons),
        result_reasons=spell_reasons(row),
        tool_chars_before=results.chars_before,
        tool_chars_after=results.chars_after,
        json_chars_before=json_chars,
        json_chars_after=json_chars if rewrite.body is original else count_chars(rewrite.body),
        **counted,
        redaction_scenarios=_count_scenarios(rewrite),
        reduction_stage=None if plan is None else plan.stage,
        reduction_status=None if plan is None or plan.stage is None else plan.invariant_status,
        dropped_messages=None if plan is None else len(plan.dropped),
    )


_READ_REASON: Callable[[Decision], Reason] = attrgetter("reason")
"""Of each of some hundred decisions, and so without a line of Python."""


class _Tokens(TypedDict, total=False):
    """Those of `Sizes` that are tokens."""

    tool_tokens_before: int
    tool_tokens_after: int
    request_tokens_before: int
    request_tokens_after: int
    composition: Mapping[str, int]


def _count(prompt: Prompt) -> _Tokens:
    return {
        "tool_tokens_before": prompt.results.tokens_before,
        "tool_tokens_after": prompt.results.tokens_after,
        "request_tokens_before": prompt.tokens_before,
        "request_tokens_after": prompt.tokens_after,
        "composition": prompt.parts,
    }


def _count_texts(decisions: Sequence[Decision]) -> ResultSizes:
    """Measure the tool results without counting their tokens."""
    return ResultSizes(
        chars_before=sum([each.chars_before for each in decisions]),
        chars_after=sum([each.chars_after for each in decisions]),
        masked_images=sum([each.images_masked for each in decisions]),
    )


def _count_scenarios(rewrite: Rewrite) -> tuple[int, ...] | None:
    redactions = rewrite.redactions
    return None if redactions is None else redactions.scenarios


def count_chars(body: bytes) -> int:
    """Return the code points of a body in UTF-8; what is not UTF-8 counts as U+FFFD."""
    return len(body) if body.isascii() else len(body.decode("utf-8", "replace"))
