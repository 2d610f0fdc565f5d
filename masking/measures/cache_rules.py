"""What providers' prompt caches keep, and for how long."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """What a provider's cache keeps, in tokens and seconds since the last use.

    ttl: when a simulated cache forgets a prompt; None for never.
    lifetime: when a real cache has most likely forgotten it.
    at_marks: whether a real cache keeps nothing of a request without a mark.
    """

    minimum: int
    block: int
    ttl: float | None = None
    lifetime: float = 3_600.0
    at_marks: bool = False

    def round(self, tokens: float) -> int:
        """Return how many tokens of a common prefix of this size are read from the cache."""
        return int(tokens // self.block * self.block) if tokens >= self.minimum else 0


OPENAI = CacheRules(minimum=1_024, block=128, lifetime=1_800.0)
_ANTHROPIC = CacheRules(minimum=1_024, block=1, lifetime=300.0, at_marks=True)
_DEEPSEEK = CacheRules(minimum=64, block=64, lifetime=86_400.0)
_OTHERS = CacheRules(minimum=1_024, block=128)

_RULES = {"anthropic": _ANTHROPIC, "deepseek": _DEEPSEEK, "openai": OPENAI, "azure": OPENAI}
"""By the provider's name on the price list. All others are taken to match prefixes as OpenAI does,
and to keep them for an hour: in recordings of several providers 86% of the requests that came after
5 to 60 minutes found nothing cached, and so did all later ones.

- OpenAI: platform.openai.com/docs/guides/prompt-caching (5 to 10 minutes, up to an hour; from
  gpt-5.6 on 30 minutes at least)
- Anthropic: docs.anthropic.com/en/docs/build-with-claude/prompt-caching (the least is 1,024 to
  4,096 tokens, by model)
- DeepSeek: api-docs.deepseek.com/guides/kv_cache
"""


def find_rules(provider: str | None) -> CacheRules:
    """Return the rules of a provider, by its name on the price list."""
    return _RULES.get(provider or "", _OTHERS)
