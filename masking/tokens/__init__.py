"""Tokens: estimated on a request's path, counted behind it, and those of images."""

from masking.tokens.count import (
    TokenCounter,
    load_o200k_base,
)
from masking.tokens.estimate import TokenEstimator, estimate_tokens
from masking.tokens.images import (
    LOW_DETAIL_TOKENS,
    UNKNOWN_TOKENS,
    Header,
    count_claude,
    count_openai,
    read_header,
)

__all__ = [
    "LOW_DETAIL_TOKENS",
    "UNKNOWN_TOKENS",
    "Header",
    "TokenCounter",
    "TokenEstimator",
    "count_claude",
    "count_openai",
    "estimate_tokens",
    "load_o200k_base",
    "read_header",
]
