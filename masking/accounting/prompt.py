"""A request as a provider's prefix cache sees it: tool schemas, then messages, piece by piece."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from masking.accounting.prefix_cache import Piece
from masking.measures.tokens import TokenCounter, count_message, count_tools
from masking.model import Replacement
from masking.strategies.reduction_plan import ReductionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The pieces of a request before and after masking, tokens estimated; the tools come first."""

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the whole prompt as the client wrote it."""
        return sum(piece.tokens for piece in self.before)

    @property
    def tokens_after(self) -> int:
        """The same, masked."""
        return sum(piece.tokens for piece in self.after)

    @property
    def altered(self) -> int:
        """How many pieces there are up to the last one that is masked."""
        if len(self.before) != len(self.after):
            return max(len(self.before), len(self.after))
        pairs = enumerate(zip(self.before, self.after, strict=True), 1)
        return max((count for count, (before, after) in pairs if before != after), default=0)


def read_prompt(
    document: Mapping[str, object],
    replacements: Sequence[Replacement],
    counter: TokenCounter,
    plan: ReductionPlan | None = None,
) -> Prompt:
    """Read the prompt of a Chat Completions request, with what a plan drops and inserts.

    Never raises; what has a wrong type is 0.
    """
    tools, messages = document.get("tools"), document.get("messages")
    before = [Piece(digest_of(tools), count_tools(counter, tools))]
    for message in messages if isinstance(messages, list) else ():
        tokens = count_message(counter, message) if isinstance(message, dict) else 0
        before.append(Piece(digest_of_message(message), tokens))
    after = _mask(before, replacements, counter)
    return Prompt(before=tuple(before), after=_rearrange(after, plan, counter))


def _rearrange(
    pieces: tuple[Piece, ...], plan: ReductionPlan | None, counter: TokenCounter
) -> tuple[Piece, ...]:
    if plan is None or not plan.dropped:
        return pieces
    tools, *messages = pieces
    summary = {"role": "user", "content": plan.summary}
    inserted = Piece(digest_of_message(summary), count_message(counter, summary))
    kept = plan.order(len(messages))
    return (tools, *(inserted if at is None else messages[at] for at in kept))


def digest_of(value: object) -> bytes:
    """Return a digest of a decoded JSON value: the same for the same text of it."""
    return blake2b(_spell(value), digest_size=16).digest()


def digest_of_message(message: object) -> bytes:
    """Return a digest of a message: the same whether it carries a cache marker or not.

    Agents move Anthropic's `cache_control` on to the last message of every request, for which
    they write its string content as a list of one part. It is no part of the prompt.
    """
    return digest_of(_unmark(message))


def _unmark(message: object) -> object:
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": _unmark_parts(content)}
    return _without_marker(message)


def _unmark_parts(parts: list[object]) -> object:
    unmarked = [_without_marker(part) if isinstance(part, dict) else part for part in parts]
    match unmarked:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text
    return unmarked


def _without_marker(value: Mapping[str, object]) -> Mapping[str, object]:
    return {key: item for key, item in value.items() if key != "cache_control"}


def _spell(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return repr(value).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):  # numbers of thousands of digits, too deep
        return b""


def _mask(
    before: Sequence[Piece], replacements: Sequence[Replacement], counter: TokenCounter
) -> tuple[Piece, ...]:
    by_message: defaultdict[object, list[Replacement]] = defaultdict(list)
    for replacement in replacements:
        by_message[replacement.path[1]].append(replacement)
    after = list(before)
    for place, found in by_message.items():
        if isinstance(place, int):
            digest, tokens = before[place + 1]
            saved = sum(counter.count(r.text) - counter.count(r.placeholder) for r in found)
            masked = digest + digest_of([[list(r.path), r.placeholder] for r in found])
            after[place + 1] = Piece(blake2b(masked, digest_size=16).digest(), tokens - saved)
    return tuple(after)
