"""What providers' prompt caches keep, where they can be read from, and for how long."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

ReadsAt = Literal["any prefix", "marks", "request ends"]
"""Where a prompt can be read from a cache.

any prefix: up to wherever it is the same as an earlier prompt.
marks: where an earlier request had a cache mark, if a mark of this one is near enough behind it.
request ends: where an earlier request ended.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """What a provider's cache keeps, in tokens and seconds since the last use.

    ttl: when a simulated cache forgets a prompt; None for never.
    lifetime: when a real cache has most likely forgotten it.
    lookback: how many blocks before a mark, or how many of the latest request ends, are looked at;
        None for all of them.
    needs_marks: whether a real cache keeps nothing of a request without a mark.
    long_write: what a token costs that is written for an hour, relative to a plain one; None if
        that makes no difference.
    """

    minimum: int
    block: int
    ttl: float | None = None
    lifetime: float = 3_600.0
    reads_at: ReadsAt = "any prefix"
    lookback: int | None = None
    needs_marks: bool = False
    long_write: float | None = None

    def round(self, tokens: float) -> int:
        """Return how many tokens of a common prefix of this size are read from the cache."""
        return int(tokens // self.block * self.block) if tokens >= self.minimum else 0


LATEST_ENDS = 80
"""How many of the latest ends of requests are looked at, where a prompt is read from there."""

OPENAI = CacheRules(minimum=1_024, block=128, lifetime=1_800.0)
_OPENAI_BREAKPOINTS = CacheRules(
    minimum=1_024, block=1, lifetime=1_800.0, reads_at="request ends", lookback=LATEST_ENDS
)
_ANTHROPIC = CacheRules(
    minimum=1_024, block=1, lifetime=300.0, reads_at="marks", lookback=20, long_write=2.0
)
UNKNOWN_MARKS = replace(_ANTHROPIC, reads_at="any prefix", lookback=None, long_write=None)
"""Where marks may be set behind a gateway, and nobody knows where."""

_DEEPSEEK = CacheRules(minimum=64, block=64, lifetime=86_400.0)
_OTHERS = CacheRules(minimum=1_024, block=128)

_BY_MODEL: Mapping[str, CacheRules] = {
    r"(?:opus|haiku)-4-5|opus-4-6|4-5-(?:opus|haiku)|4-6-opus": replace(_ANTHROPIC, minimum=4_096),
    r"opus-4-7|4-7-opus|3(?:-5)?-haiku|haiku-3|mythos-preview": replace(_ANTHROPIC, minimum=2_048),
    r"(?:opus|fable|mythos)-5|5-(?:opus|fable|mythos)|(?:sonnet|haiku)-5-[5-9]": replace(
        _ANTHROPIC, minimum=512
    ),
    r"claude": _ANTHROPIC,
    r"gpt-5-(?:[6-9]|\d\d)(?!\d)|gpt-[6-9](?!\d)": _OPENAI_BREAKPOINTS,
    r"gemini-2-5": replace(_OTHERS, minimum=2_048),
    r"gemini-[3-9]": replace(_OTHERS, minimum=4_096),
}
"""By what is in a model's name, in lower case and with hyphens for dots; the first counts, whoever
sells the model.

- Anthropic: platform.claude.com/docs/en/build-with-claude/prompt-caching
- OpenAI from gpt-5.6 on: one breakpoint at the end of each request, and up to three that the
  request sets; the latest 80 are looked at; for 30 minutes at least
  (developers.openai.com/api/docs/guides/prompt-caching)
- Gemini: ai.google.dev/gemini-api/docs/caching (not promised)
"""

_BY_PROVIDER = {"deepseek": _DEEPSEEK, "openai": OPENAI, "azure": OPENAI}
"""By the provider's name on the price list. All others are taken to match prefixes as OpenAI did
before gpt-5.6, and to keep them for an hour: in recordings of several providers 86% of the requests
that came after 5 to 60 minutes found nothing cached, and so did all later ones.

- OpenAI: platform.openai.com/docs/guides/prompt-caching (5 to 10 minutes, up to an hour)
- DeepSeek: api-docs.deepseek.com/guides/kv_cache
"""

_NEED_MARKS = frozenset({"anthropic", "aws", "azure", "google", "openrouter"})
"""Who sells models of Anthropic and sets no marks unasked. Others may."""


def find_cache_rules(provider: str | None, model: str | None = None) -> CacheRules:
    """Return the rules for a model at a provider, by the provider's name on the price list."""
    name = (model or "").lower().replace(".", "-")
    rules = next((each for pattern, each in _BY_MODEL.items() if re.search(pattern, name)), None)
    if rules is None:
        rules = _ANTHROPIC if provider == "anthropic" else _BY_PROVIDER.get(provider or "", _OTHERS)
    needs_marks = rules.reads_at == "marks" and provider in _NEED_MARKS
    return replace(rules, needs_marks=needs_marks)
