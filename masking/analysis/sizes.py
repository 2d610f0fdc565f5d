"""What a request measures, before and after masking: counts, characters, tokens."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from masking.analysis.prompt import Prompt
from masking.analysis.tokens import TokenCounter
from masking.model import Decision
from masking.rewrite import Rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What was measured of a request; tokens are None where they were not counted."""

    messages: int
    tool_turns: int
    tool_results: int
    masked: int
    kept: Mapping[str, int]
    tool_chars_before: int
    tool_chars_after: int
    json_chars_before: int
    json_chars_after: int
    tool_tokens_before: int | None = None
    tool_tokens_after: int | None = None
    request_tokens_before: int | None = None
    request_tokens_after: int | None = None


def measure(
    rewrite: Rewrite,
    original: bytes,
    prompt: Prompt | None = None,
    counter: TokenCounter | None = None,
) -> Sizes:
    """Measure a request, before and after; without a prompt and a counter, all but its tokens."""
    decisions = rewrite.decisions
    messages = rewrite.document["messages"]
    counted = {} if prompt is None or counter is None else _count(decisions, prompt, counter)
    return Sizes(
        messages=len(messages) if isinstance(messages, list) else 0,
        tool_turns=rewrite.history.turns,
        tool_results=len(decisions),
        masked=sum(d.reason == "masked" for d in decisions),
        kept=dict(Counter(d.reason for d in decisions if d.reason != "masked")),
        tool_chars_before=sum(d.chars_before for d in decisions),
        tool_chars_after=sum(d.chars_after for d in decisions),
        json_chars_before=_count_chars(original),
        json_chars_after=_count_chars(rewrite.body),
        **counted,
    )


def _count(
    decisions: tuple[Decision, ...], prompt: Prompt, counter: TokenCounter
) -> dict[str, int]:
    tool_tokens = sum(counter.count(text) for d in decisions for text in d.result.texts)
    saved = prompt.tokens_before - prompt.tokens_after
    return {
        "tool_tokens_before": tool_tokens,
        "tool_tokens_after": tool_tokens - saved,
        "request_tokens_before": prompt.tokens_before,
        "request_tokens_after": prompt.tokens_after,
    }


def _count_chars(body: bytes) -> int:
    return len(body.decode("utf-8", "replace"))
