"""One request and what became of it, as far as a record may tell: no content, ever."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from masking.analysis.tokens import TokenCounter, request_tokens
from masking.analysis.vocabulary import ENCODING_NAME, is_exact_for
from masking.model import Decision
from masking.rewrite import Rewrite
from masking.usage import Usage

Blame = Literal["client left", "provider failed", "proxy ended"]
"""Why an exchange came to no end."""

_MAX_NAME = 200
"""Characters of a model's name, host or path that a record keeps."""


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


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request on its way, filled in as it goes; its names are `printable`."""

    host: str
    path: str
    masking: Literal["on", "off"]
    replay: bool
    cache_read_ratio: float = 1.0
    cache_write_ratio: float = 1.0
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    model: str | None = None
    stream: bool | None = None
    passed_through: str | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    hook_us: int | None = None
    sizes: Sizes | None = None
    status: int | None = None
    error: Blame | None = None
    usage: Usage | None = None

    @property
    def failed(self) -> bool:
        """Whether the provider failed, by its answer or by the lack of one."""
        return self.error == "provider failed" or (self.status or 0) >= 400

    def as_record(self) -> dict[str, object]:
        """Return the exchange as one flat JSON object; null is what is not known."""
        sizes = self.sizes
        counted = sizes is not None and sizes.request_tokens_before is not None
        return {
            "time": self.time.isoformat(timespec="milliseconds"),
            "host": self.host,
            "path": self.path,
            "model": self.model,
            "stream": self.stream,
            "masking": self.masking,
            "passed_through": self.passed_through,
            "replay": self.replay,
            "cache_read_ratio": self.cache_read_ratio,
            "cache_write_ratio": self.cache_write_ratio,
            "status": self.status,
            "error": self.error,
            **{name: getattr(sizes, name, None) for name in _SIZE_FIELDS},
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "hook_us": self.hook_us,
            "tokenizer": ENCODING_NAME if counted else None,
            "tokenizer_exact": is_exact_for(self.model) if counted else None,
            **{f"{name}_tokens": getattr(self.usage, name, None) for name in _USAGE_FIELDS},
        }


_SIZE_FIELDS = tuple(Sizes.__dataclass_fields__)
_USAGE_FIELDS = ("prompt", "cached", "written", "completion")


def measure(rewrite: Rewrite, original: bytes, counter: TokenCounter | None) -> Sizes:
    """Measure a request, before and after; without a counter, everything but its tokens."""
    decisions = rewrite.decisions
    messages = rewrite.document["messages"]
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
        **({} if counter is None else _count_tokens(rewrite, counter)),
    )


def _count_tokens(rewrite: Rewrite, counter: TokenCounter) -> dict[str, int]:
    tool_before = sum(counter.count(text) for d in rewrite.decisions for text in d.result.texts)
    saved = sum(_saved_tokens(d, counter) for d in rewrite.decisions)
    request_before = request_tokens(counter, rewrite.document)
    return {
        "tool_tokens_before": tool_before,
        "tool_tokens_after": tool_before - saved,
        "request_tokens_before": request_before,
        "request_tokens_after": request_before - saved,
    }


def _saved_tokens(decision: Decision, counter: TokenCounter) -> int:
    return sum(counter.count(r.text) - counter.count(r.placeholder) for r in decision.replacements)


def _count_chars(body: bytes) -> int:
    return len(body.decode("utf-8", "replace"))


def printable(text: str) -> str:
    """Return a name from the wire as it may stand in a log: short, and on one line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_MAX_NAME])
