"""Reading a provider's usage: the tokens of a request and its response, in any spelling.

How providers differ is data. What a provider does not say stays None.
"""

import binascii
import contextlib
import dataclasses
import functools
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import orjson

from masking.wire.format import objects

_PLACES = (
    ("usage",),
    ("choices", "0", "usage"),  # Moonshot's streams
    ("x_groq", "usage"),  # Groq's streams
    ("message", "usage"),  # Anthropic's streams: message_start
    ("response", "usage"),  # OpenAI's Responses streams: response.completed, incomplete, failed
    ("usageMetadata",),  # Gemini
    ("response", "usageMetadata"),  # Gemini Code Assist
)
"""Where a usage object stands in a response or in a chunk of a stream."""

_OLLAMA = "eval_count"
"""A response that has this key is itself the usage object."""

_SPELLINGS: Mapping[str, Sequence[str]] = {
    "prompt": (
        "prompt_tokens",
        # Anthropic counts cached and written tokens apart. OpenAI's Responses, whose input_tokens
        # holds them, have neither of the other two keys.
        "input_tokens + cache_read_input_tokens + cache_creation_input_tokens",
        "promptTokenCount",
        "inputTokens + cacheReadInputTokens + cacheWriteInputTokens",
        "prompt_eval_count",
    ),
    "cached": (
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "cache_read_input_tokens",
        "cachedContentTokenCount",
        "cacheReadInputTokens",
    ),
    "written": (
        "prompt_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cache_creation_tokens",
        "prompt_tokens_details.cache_creation_input_tokens",
        "input_tokens_details.cache_write_tokens",
        "cache_creation_input_tokens",
        "cacheWriteInputTokens",
        "cache_creation.ephemeral_5m_input_tokens + cache_creation.ephemeral_1h_input_tokens",
    ),
    "written_long": (
        "cache_creation.ephemeral_1h_input_tokens",
        "cacheDetails.ttl=1h.inputTokens",
    ),
    "completion": (
        "completion_tokens",
        "output_tokens",
        "candidatesTokenCount + thoughtsTokenCount",
        "thoughtsTokenCount",
        "outputTokens",
        "eval_count",
    ),
    "reasoning": (
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_tokens_details.thinking_tokens",
        "thoughtsTokenCount",
    ),
}
"""Spellings, by the field of `Usage`, the common ones first. A sum needs its first term; the others
count if given.

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
- Anthropic, written for an hour: `cache_creation.ephemeral_1h_input_tokens`; Bedrock's Converse:
  `cacheDetails`
- Bedrock's Converse: `inputTokens`, `cacheReadInputTokens`, `cacheWriteInputTokens`
  (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html)
- Ollama: `prompt_eval_count`, `eval_count`; nothing of its cache
  (github.com/ollama/ollama/blob/main/docs/api.md)
- Gemini: `promptTokenCount` with the cached ones and without `toolUsePromptTokenCount`,
  `candidatesTokenCount` without the thoughts
  (ai.google.dev/api/generate-content#UsageMetadata)
"""

_TOTALS = ("total_tokens", "totalTokenCount", "totalTokens")

_SUMS = {
    name: [[term.split(".") for term in each.split(" + ")] for each in spelled]
    for name, spelled in _SPELLINGS.items()
}
"""The same as the paths of each sum's terms."""

_MAX_TOKENS = 10**12

_MAY_HOLD_USAGE = re.compile(rb'"(?:usage(?:Metadata)?"\s*:\s*\{|eval_count"\s*:)')
"""`"usage": null`, which OpenAI puts in every chunk but the last, is not worth decoding. Text that
quotes the key does not match: inside a JSON string its quotes are escaped."""

_WORDS = (b'"usage', b'eval_count"')
"""One of these is in all that matches. Most events have neither, and are not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of a request and its response; None where the provider did not say.

    `prompt` is the whole prompt: `cached` of its tokens were read from the provider's cache,
    `written` of them were written to it, `written_long` of these to be kept for an hour.
    `completion` includes `reasoning`.
    """

    prompt: int | None = None
    cached: int | None = None
    written: int | None = None
    written_long: int | None = None
    completion: int | None = None
    reasoning: int | None = None

    def merge(self, later: "Usage") -> "Usage":
        """Return what two chunks of a response say together: the later wins, unless it says 0.

        A prompt does not shrink: Anthropic's second count may leave out what is cached.
        """
        pairs = {name: (getattr(later, name), getattr(self, name)) for name in _SPELLINGS}
        merged = {name: _first(pair) for name, pair in pairs.items()}
        prompts = (count for count in pairs["prompt"] if count is not None)
        return Usage(**merged | {"prompt": max(prompts, default=None)})

    def plausible_only(self) -> "Usage":
        """Return it without the counts that are a provider's mistake: those count as not told.

        No more can be read from a cache than the prompt has, nor be written than is left of it.
        """
        counts = {name: getattr(self, name) for name in _SPELLINGS}
        told = {name: each for name, each in counts.items() if is_plausible(each)}
        if (left := told.get("prompt")) is not None:
            for name in ("cached", "written"):
                if told.get(name, 0) > left:
                    del told[name]
                left -= told.get(name, 0)
        if told.get("written_long", 0) > told.get("written", 0):
            told.pop("written_long")
        return Usage(**told)

    def settle(self, total: int | None, tool_prompt: int = 0) -> "Usage":
        """Return it with what stands outside of its counts, as the `total` of all tokens proves.

        Some providers count reasoning outside of `completion` (xAI; Gemini's path for OpenAI's
        format, which does not even name it), what a cache has outside of `prompt`, or what their
        own tools add to a prompt (`tool_prompt`); others count it within. Without a total,
        `tool_prompt` stands outside.
        """
        prompt, completion = self.prompt, self.completion
        if not prompt:  # a total alone may be an estimate
            return self
        left = tool_prompt if total is None else total - prompt - (completion or 0)
        if left >= tool_prompt:
            prompt, left = prompt + tool_prompt, left - tool_prompt
        if left > 0 and completion is not None:
            cached, written = self.cached or 0, self.written or 0
            is_of_cache = left in (cached, written, cached + written)
            if left == self.reasoning or not (self.reasoning or is_of_cache):
                completion += left
            elif is_of_cache:
                prompt += left
        return dataclasses.replace(self, prompt=prompt, completion=completion)


def is_plausible(count: int | None) -> TypeGuard[int]:
    """Whether a provider told a number of tokens that can be true."""
    return count is not None and 0 <= count <= _MAX_TOKENS


def read_usage(body: bytes) -> Usage | None:
    """Return the usage in a response body, decompressed: a JSON document or a stream.

    A stream, of server-sent events, of JSON lines or as Bedrock sends it, may be cut off anywhere.
    Its last usage wins, and fields that only an earlier one had are kept. The body may be any
    bytes; None if no usage can be read.
    """
    payloads = read_payloads(body, _WORDS, _MAY_HOLD_USAGE)
    return functools.reduce(_merge, map(find_usage, payloads), None)


_TRANSFORMATIONS = "input_transformations"


def count_transformations(body: bytes) -> dict[str, int]:
    """Return what a provider says that it changed about a request, counted by its kind.

    Such as `thinking_dropped`, of Anthropic's answers (`build-with-claude/preserved-thinking`). The
    body is as that of `read_usage`.
    """
    word = _TRANSFORMATIONS.encode()
    if word not in body:
        return {}
    counted: Counter[str] = Counter()
    for payload in read_payloads(body, (word,), re.compile(word)):
        for path in ((_TRANSFORMATIONS,), ("message", _TRANSFORMATIONS)):
            kinds = (each.get("type") for each in objects(_at(payload, path)))
            # The start and the end of a stream may list the same.
            counted |= Counter(kind for kind in kinds if isinstance(kind, str))
    return dict(counted)


class Cleared(NamedTuple):
    """What a provider says that it cleared: the results of so many tool uses, so many tokens."""

    tool_uses: int
    tokens: int


_APPLIED = "applied_edits"
_SAYS_CLEARED = (_APPLIED.encode(), b"message_stop")


def read_cleared(body: bytes) -> Cleared | None:
    """Return what a provider says that it cleared of a request that asked for it.

    An answer that is whole and names nothing says that nothing was cleared; None if it is not whole
    and says nothing. The body is as that of `read_usage`; in a stream, the last word holds
    (Anthropic's documentation, `build-with-claude/context-editing`).
    """
    found, is_whole = None, False
    for payload in read_payloads(body, _SAYS_CLEARED, _MAY_SAY_CLEARED):
        if not isinstance(payload, dict):
            continue
        is_whole |= payload.get("type") == "message_stop" or bool(payload.get("stop_reason"))
        edits = _at(payload, ("context_management", _APPLIED))
        if isinstance(edits, list):
            cleared = [
                edit
                for edit in objects(edits)
                if str(edit.get("type")).startswith("clear_tool_uses")
            ]
            counts = (
                sum(_whole_number(edit.get(name)) or 0 for edit in cleared)
                for name in ("cleared_tool_uses", "cleared_input_tokens")
            )
            found = Cleared(*counts)
    return found or (Cleared(0, 0) if is_whole else None)


_MAY_SAY_CLEARED = re.compile(rb"applied_edits|message_stop|stop_reason")


def find_usage(payload: object) -> Usage | None:
    """Return the usage in a decoded JSON response, or in a chunk of a stream; None without one.

    Counts are whole numbers from 0 up; anything else is ignored.
    """
    if not isinstance(payload, dict):
        return None
    places = (_at(payload, place) for place in _PLACES if place[0] in payload)
    blocks = [block for block in places if isinstance(block, dict)]
    if _OLLAMA in payload:
        blocks.append(payload)
    # The first block wins, unless it says 0.
    return functools.reduce(_merge, map(_read_block, reversed(blocks)), None)


def _read_block(block: Mapping[str, object]) -> Usage | None:
    # It does not even have the first key of most spellings.
    found = {
        name: _first([_add(block, each) for each in sums if each[0][0] in block])
        for name, sums in _SUMS.items()
    }
    if all(count is None for count in found.values()):
        return None
    total = next((_whole_number(block[key]) for key in _TOTALS if key in block), None)
    tool_prompt = _whole_number(block.get("toolUsePromptTokenCount")) or 0
    return Usage(**found).settle(total, tool_prompt).plausible_only()


def read_payloads(
    body: bytes, words: Iterable[bytes], pattern: re.Pattern[bytes]
) -> Iterator[object]:
    """Yield what an answer says, decoded: its documents, or the data of its events.

    Those that the pattern is not in are left out; each event that it is in has one of the words.
    """
    content = body.removeprefix(b"\xef\xbb\xbf").lstrip()
    chunks: Iterable[bytes]
    if is_event_stream(body):
        chunks = _find_payloads(body)
    elif content.startswith((b"{", b"[")):
        chunks = [content]
    else:
        chunks = _find_data(content, words)
    for chunk in chunks:
        if pattern.search(chunk):
            yield from _decode_payloads(chunk)


def _decode_payloads(chunk: bytes) -> Iterator[object]:
    """Yield the payloads in a chunk: one, those of Gemini's array, or those of Ollama's lines."""
    try:
        document: object = json.loads(chunk.decode("utf-8", "replace"))
    except json.JSONDecodeError:
        for line in filter(_MAY_HOLD_USAGE.search, chunk.splitlines()):
            with contextlib.suppress(ValueError, RecursionError):
                yield json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    else:
        yield from document if isinstance(document, list) else [document]


def _merge(earlier: Usage | None, later: Usage | None) -> Usage | None:
    return earlier.merge(later) if earlier and later else later or earlier


def _add(block: object, terms: Sequence[Sequence[str]]) -> int | None:
    first, *others = (_whole_number(_at(block, path)) for path in terms)
    total = None if first is None else first + sum(other or 0 for other in others)
    return total if is_plausible(total) else None


def _first(counts: Iterable[int | None]) -> int | None:
    """Return the first count that is not 0: gateways put 0 into fields that they do not know."""
    return max((count for count in counts if count is not None), key=bool, default=None)


def _whole_number(value: object) -> int | None:
    return value if type(value) is int and is_plausible(value) else None


def _at(value: object, path: Sequence[str]) -> object:
    """Return what stands at a path; None if nothing does.

    In a list, `0` is the first item, and `ttl=1h` the first object with this value.
    """
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and value:
            key, _, wanted = step.partition("=")
            having = (each for each in objects(value) if wanted and each.get(key) == wanted)
            value = value[0] if step == "0" else next(having, None)
        else:
            return None
    return value


def _find_data(stream: bytes, words: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of those events of a whole stream that have one of some words in them.

    The last event counts even without its blank line. A word is not empty, and has no line end.
    """
    stream = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    hits = [found.start() for word in words for found in re.finditer(re.escape(word), stream)]
    end = 0
    for at in sorted(hits):
        if at < end:
            continue  # in an event that has been found
        blank = stream.rfind(b"\n\n", end, at)
        begin = end if blank < 0 else blank + 2
        blank = stream.find(b"\n\n", at)
        end = len(stream) if blank < 0 else blank + 2
        lines = stream[begin:end].splitlines()
        if values := [each[5:] for each in lines if each.startswith(b"data:") or each == b"data"]:
            yield b"\n".join([value.removeprefix(b" ") for value in values])


_PRELUDE = struct.Struct(">III")
_CHECKSUM = 4
_LEAST = _PRELUDE.size + _CHECKSUM


def is_event_stream(data: bytes) -> bool:
    """Whether these bytes begin as a stream of Bedrock's does.

    It is `application/vnd.amazon.eventstream`. An event is its length, that of its headers, a
    checksum of these two, the headers, a payload, and a checksum of it all
    (docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html).
    """
    return len(data) >= _PRELUDE.size and _read_lengths(data, 0) is not None


def _find_payloads(stream: bytes) -> Iterator[bytes]:
    """Yield the payload of each whole event, up to the first that is damaged.

    `invoke-with-response-stream` wraps a model's own events: `{"bytes": "<base64>"}`. Then these
    are yielded.
    """
    at = 0
    while at + _LEAST <= len(stream) and (lengths := _read_lengths(stream, at)) is not None:
        total, headers = lengths
        if total < _LEAST or at + total > len(stream):
            return
        yield _unwrap(stream[at + _PRELUDE.size + headers : at + total - _CHECKSUM])
        at += total


def _read_lengths(stream: bytes, at: int) -> tuple[int, int] | None:
    """Return the lengths of an event and of its headers; None if their checksum is wrong."""
    total, headers, checksum = _PRELUDE.unpack_from(stream, at)
    is_right = zlib.crc32(stream[at : at + _PRELUDE.size - _CHECKSUM]) == checksum
    return (total, headers) if is_right else None


def _unwrap(payload: bytes) -> bytes:
    try:
        document = orjson.loads(payload)
        wrapped = document.get("bytes") if isinstance(document, dict) else None
        return binascii.a2b_base64(wrapped) if isinstance(wrapped, str) else payload
    except ValueError:
        return payload
