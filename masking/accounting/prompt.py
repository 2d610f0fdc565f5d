"""A request as a prefix cache sees it: tool schemas, then the elements, piece by piece."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import orjson

from masking.accounting.prefix_cache import Piece
from masking.conversation import Conversation, find_answers
from masking.measures.tokens import TokenCounter, count_tools
from masking.model import Decision
from masking.rewrite import Rewrite
from masking.wire.mark_places import count_blocks, is_marked
from masking.wire_format import WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The pieces of a request before and after masking, in estimated tokens; the tools first.

    `tools` are the tokens of the tool schemas, which are a part of the first piece.
    """

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    tools: int = 0

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


def read_prompt(rewrite: Rewrite, counter: TokenCounter) -> Prompt:
    """Return the prompt of a request, as it came and as it left. A wrong type has no tokens."""
    head_tokens = _count_head(rewrite.conversation, counter)
    before = _read_pieces(rewrite.conversation, sum(head_tokens), counter)
    after: Sequence[Piece] = mask_pieces(before, rewrite.decisions, counter)
    if rewrite.edits.moves:
        head, *kept = after
        order = rewrite.edits.order(len(kept))
        inserted = _read_piece(rewrite.conversation.wire, rewrite.edits.inserted, counter)
        after = [head, *(inserted if at is None else kept[at] for at in order)]
    return Prompt(before=before, after=tuple(after), tools=head_tokens.tools)


def read_pieces(conversation: Conversation, counter: TokenCounter) -> tuple[Piece, ...]:
    """Return the pieces of a request as it came; the first is what stands before its list."""
    return _read_pieces(conversation, sum(_count_head(conversation, counter)), counter)


class _HeadTokens(NamedTuple):
    """The tokens of what stands before a request's list: tool schemas, and the system's texts."""

    tools: int
    texts: int


def _count_head(conversation: Conversation, counter: TokenCounter) -> _HeadTokens:
    wire, body = conversation.wire, conversation.body
    texts = sum(map(counter.count, wire.find_head_texts(body)))
    return _HeadTokens(count_tools(counter, wire.find_tools(body)), texts)


def _read_pieces(
    conversation: Conversation, head_tokens: int, counter: TokenCounter
) -> tuple[Piece, ...]:
    wire, items = conversation.wire, conversation.items
    answers = {a.start for a in find_answers(conversation.elements, in_runs=wire.answers_in_runs)}
    marked = frozenset(find_marked(conversation))
    pieces = (
        Piece(digest_head(conversation), head_tokens),
        *(_read_piece(wire, item, counter) for item in items),
    )
    return tuple(
        piece._replace(is_marked=at in marked, begins_answer=at - 1 in answers)
        for at, piece in enumerate(pieces)
    )


def find_marked(conversation: Conversation) -> Iterator[int]:
    """Yield the places of the pieces of a request that end with a cache mark.

    If the list has a mark that stands on none of its elements, the last one is marked.
    """
    marks = conversation.marks
    if marks.in_head:
        yield 0
    if marks.in_list:
        found = [at for at, item in enumerate(conversation.items, 1) if is_marked(item)]
        yield from found or [len(conversation.items)]


def digest_head(conversation: Conversation) -> bytes:
    """Return the digest of what stands before a request's list."""
    wire, body = conversation.wire, conversation.body
    return digest_of([wire.find_tools(body), *wire.find_head_texts(body)])


def _read_piece(wire: WireFormat, item: object, counter: TokenCounter) -> Piece:
    """Return an element as a cache sees it: the same whether it carries a cache mark or not."""
    texts, others = wire.count_parts(item)
    tokens = others + sum(map(counter.count, texts))
    return Piece(digest_element(wire, item), tokens, count_blocks(item))


def mask_pieces(
    pieces: Sequence[Piece], decisions: Iterable[Decision], counter: TokenCounter
) -> list[Piece]:
    """Return the pieces of a prompt with everything masked that the decisions replace.

    The first of the pieces is what stands before the list.
    """
    masked = [*pieces]
    for decision in decisions:
        if found := decision.replacements:
            at = decision.result.element + 1
            saved = sum(r.saves(counter.count) for r in found)
            mark = digest_of([[list(r.path), r.placeholder] for r in found])
            digest = blake2b(masked[at].digest + mark, digest_size=16).digest()
            tokens = masked[at].tokens - saved
            masked[at] = masked[at]._replace(digest=digest, tokens=tokens)
    return masked


def digest_element(wire: WireFormat, item: object) -> bytes:
    """Return the digest of an element, whatever cache marks it carries."""
    return digest_of(wire.unmark(item))


def digest_of(value: object) -> bytes:
    """Return a digest of a decoded JSON value."""
    return blake2b(_spell(value), digest_size=16).digest()


def _spell(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return repr(value).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):  # numbers of thousands of digits, too deep
        return b""
