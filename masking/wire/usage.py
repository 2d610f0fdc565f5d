"""Reading a provider's usage: the tokens of a request and its response, in any spelling.

How providers differ is data. What a provider does not say stays None.
"""

import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from masking.wire.sse import find_data

_Path = tuple[str | int, ...]
_Sum = tuple[_Path, ...]

_PLACES: tuple[_Path, ...] = (
    ("usage",),
    ("choices", 0, "usage"),  # Moonshot's streams
    ("x_groq", "usage"),  # Groq's streams
    ("message", "usage"),  # Anthropic's streams: message_start
    ("response", "usage"),  # OpenAI's Responses streams: response.completed
    ("usageMetadata",),  # Gemini
)
"""Where a usage object stands in a response or in a chunk of a stream."""

_PROMPT: tuple[_Sum, ...] = (
    (("prompt_tokens",),),
    # Anthropic counts cached and written tokens apart. OpenAI's Responses, whose input_tokens
    # holds them, have neither of the other two keys.
    (("input_tokens",), ("cache_read_input_tokens",), ("cache_creation_input_tokens",)),
    (("promptTokenCount",),),
)
_CACHED: tuple[_Sum, ...] = (
    (("prompt_tokens_details", "cached_tokens"),),
    (("input_tokens_details", "cached_tokens"),),
    (("prompt_cache_hit_tokens",),),
    (("cached_tokens",),),
    (("cache_read_input_tokens",),),
    (("cachedContentTokenCount",),),
)
_WRITTEN: tuple[_Sum, ...] = (
    (("prompt_tokens_details", "cache_write_tokens"),),
    (("prompt_tokens_details", "cache_creation_tokens"),),
    (("prompt_tokens_details", "cache_creation_input_tokens"),),
    (("input_tokens_details", "cache_write_tokens"),),
    (("cache_creation_input_tokens",),),
)
_COMPLETION: tuple[_Sum, ...] = (
    (("completion_tokens",),),
    (("output_tokens",),),
    (("candidatesTokenCount",), ("thoughtsTokenCount",)),
)
"""Spellings, the common ones first. A sum needs its first term; the others count if given.

- OpenAI, Azure, xAI, Groq: `prompt_tokens_details.cached_tokens`; Responses: `input_tokens`,
  `input_tokens_details` (platform.openai.com/docs/guides/prompt-caching,
  docs.x.ai/developers/advanced-api-usage/prompt-caching/usage-and-pricing)
- DeepSeek: `prompt_cache_hit_tokens` (api-docs.deepseek.com/guides/kv_cache)
- Moonshot: `cached_tokens` beside `prompt_tokens` (platform.moonshot.ai/docs/api/chat)
- OpenRouter: `cache_write_tokens` (openrouter.ai/docs/use-cases/usage-accounting)
- LiteLLM: `cache_creation_tokens`, `cache_creation_input_tokens`, with `prompt_tokens` as the
  whole prompt (docs.litellm.ai/docs/completion/prompt_caching)
- Qwen: `prompt_tokens_details.cache_creation_input_tokens`
  (alibabacloud.com/help/en/model-studio/context-cache)
- Anthropic: `input_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens`
  (docs.anthropic.com/en/docs/build-with-claude/prompt-caching)
- Gemini: `promptTokenCount` with the cached ones, `candidatesTokenCount` without the thoughts
  (ai.google.dev/api/generate-content#UsageMetadata)
"""

_MAX_TOKENS = 10**12
"""A count beyond this is a mistake."""

_MAY_HOLD_USAGE = re.compile(rb'"usage(?:Metadata)?"\s*:\s*\{')
"""`"usage": null`, which OpenAI puts in every chunk but the last, is not worth decoding. Text that
quotes the key does not match: inside a JSON string its quotes are escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of a request and its response; None where the provider did not say.

    `prompt` is the whole prompt: `cached` of its tokens were read from the provider's cache,
    `written` of them were written to it. `completion` includes reasoning.
    """

    prompt: int | None = None
    cached: int | None = None
    written: int | None = None
    completion: int | None = None

    def merge(self, later: "Usage") -> "Usage":
        """Return what two chunks of a response say together: the later wins, unless it says 0."""
        return Usage(
            prompt=_first((later.prompt, self.prompt)),
            cached=_first((later.cached, self.cached)),
            written=_first((later.written, self.written)),
            completion=_first((later.completion, self.completion)),
        )


def read_usage(body: bytes) -> Usage | None:
    """Return the usage in a response body, decompressed: a JSON document or an event stream.

    A stream may be cut off anywhere. Its last usage wins, and fields that only an earlier one had
    are kept. The body may be any bytes; None if no usage can be read.
    """
    content = body.removeprefix(b"\xef\xbb\xbf").lstrip()
    chunks = [content] if content.startswith((b"{", b"[")) else find_data(content)
    payloads = (_decode(chunk) for chunk in chunks if _MAY_HOLD_USAGE.search(chunk))
    return functools.reduce(_merge, map(find_usage, itertools.chain.from_iterable(payloads)), None)


def find_usage(payload: object) -> Usage | None:
    """Return the usage in a decoded JSON response, or in a chunk of a stream; None without one.

    Counts are whole numbers from 0 up; anything else is ignored.
    """
    places = (_at(payload, place) for place in _PLACES)
    blocks = [block for block in places if isinstance(block, dict)]
    usage = Usage(
        prompt=_first(_counts(blocks, _PROMPT)),
        cached=_first(_counts(blocks, _CACHED)),
        written=_first(_counts(blocks, _WRITTEN)),
        completion=_first(_counts(blocks, _COMPLETION)),
    )
    return usage if usage != Usage() else None


def _decode(chunk: bytes) -> list[object]:
    """Return the payloads in a chunk: one, none if it is not JSON, or those of Gemini's array."""
    try:
        document: object = json.loads(chunk.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    return document if isinstance(document, list) else [document]


def _merge(earlier: Usage | None, later: Usage | None) -> Usage | None:
    return earlier.merge(later) if earlier and later else later or earlier


def _counts(blocks: Iterable[object], spellings: Iterable[_Sum]) -> Iterator[int | None]:
    return (_add(block, spelling) for block in blocks for spelling in spellings)


def _add(block: object, spelling: _Sum) -> int | None:
    first, *others = (_whole_number(_at(block, path)) for path in spelling)
    return None if first is None else first + sum(other or 0 for other in others)


def _first(counts: Iterable[int | None]) -> int | None:
    """Return the first count that is not 0: gateways put 0 into fields that they do not know."""
    return max((count for count in counts if count is not None), key=bool, default=None)


def _whole_number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def _at(value: object, path: _Path) -> object:
    inner: Any = value
    try:
        for step in path:
            inner = inner[step]
    except (KeyError, IndexError, TypeError):
        return None
    return inner
