"""A request as a prefix cache sees it: tool schemas, then the elements, piece by piece."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from masking.accounting.counted import (
    count_element,
    count_elements,
    count_placeholders,
    digest_of,
)
from masking.accounting.prefix_cache import Piece
from masking.conversation import Conversation, find_answers
from masking.known import CountedElement, CountedPlaceholders, Known
from masking.measures.tokens import TokenCounter, count_tools
from masking.model import Decision, make
from masking.rewrite import Rewrite
from masking.wire.mark_places import is_marked


class ResultTokens(NamedTuple):
    """The tokens of a tool result's content.

    element: the position of its element in the request's list.
    whole, left: before masking and after.
    placeholders: those of them that are left and are placeholders.
    """

    element: int
    whole: int
    left: int
    placeholders: int


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The pieces of a request before and after masking, in estimated tokens; the tools first.

    `tools` are the tokens of the tool schemas, which are a part of the first piece; `results` those
    of each tool result.
    """

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    tools: int = 0
    results: tuple[ResultTokens, ...] = ()

    @cached_property
    def tokens_before(self) -> int:
        """Estimated tokens of the whole prompt as the client wrote it."""
        return sum([piece.tokens for piece in self.before])

    @cached_property
    def tokens_after(self) -> int:
        """The same, masked."""
        return sum([piece.tokens for piece in self.after])

    @cached_property
    def altered(self) -> int:
        """How many pieces there are up to the last one that is masked."""
        if len(self.before) != len(self.after):
            return max(len(self.before), len(self.after))
        pairs = enumerate(zip(self.before, self.after, strict=True), 1)
        return max((count for count, (before, after) in pairs if before != after), default=0)


def read_prompt(rewrite: Rewrite, counter: TokenCounter) -> Prompt:
    """Return the prompt of a request, as it came and as it left. A wrong type has no tokens."""
    conversation, decisions = rewrite.conversation, rewrite.decisions
    head_tokens = _count_head(conversation, counter)
    elements = count_elements(conversation, counter)
    before = _read_pieces(conversation, sum(head_tokens), elements)
    masked = mask_pieces(before, decisions, conversation.known, counter)
    after = masked.pieces
    if rewrite.edits.moves:
        head, *kept = after
        order = rewrite.edits.order(len(kept))
        inserted = _read_inserted(rewrite, counter)
        after = [head, *(inserted if at is None else kept[at] for at in order)]
    return Prompt(
        before=before,
        after=tuple(after),
        tools=head_tokens.tools,
        results=tuple(_count_results(decisions, elements, masked.placeholders)),
    )


def read_pieces(conversation: Conversation, counter: TokenCounter) -> tuple[Piece, ...]:
    """Return the pieces of a request as it came; the first is what stands before its list."""
    head_tokens = sum(_count_head(conversation, counter))
    return _read_pieces(conversation, head_tokens, count_elements(conversation, counter))


class _HeadTokens(NamedTuple):
    """The tokens of what stands before a request's list: tool schemas, and the system's texts."""

    tools: int
    texts: int


def _count_head(conversation: Conversation, counter: TokenCounter) -> _HeadTokens:
    wire, body = conversation.wire, conversation.body
    texts = sum(map(counter.count, wire.find_head_texts(body)))
    return _HeadTokens(count_tools(counter, wire.find_tools(body)), texts)


def _read_pieces(
    conversation: Conversation, head_tokens: int, elements: Sequence[CountedElement]
) -> tuple[Piece, ...]:
    in_runs = conversation.wire.answers_in_runs
    answers = {answer.start for answer in find_answers(conversation.elements, in_runs=in_runs)}
    marked = frozenset(_find_marked(conversation, (element.is_marked for element in elements)))
    pieces = [Piece(digest_head(conversation), head_tokens, is_marked=0 in marked)]
    for at, (digest, tokens, blocks, _, _) in enumerate(elements):
        piece = (digest, tokens, blocks, at + 1 in marked, at in answers)
        pieces.append(make(Piece, piece))
    return tuple(pieces)


def _read_inserted(rewrite: Rewrite, counter: TokenCounter) -> Piece:
    """Return the element that a reduction inserts, if it does."""
    wire, item = rewrite.conversation.wire, rewrite.edits.inserted
    element = count_element(wire, Known(item, wire.read_element(item)), counter)
    return Piece(element.digest, element.tokens, element.blocks)


def _count_results(
    decisions: Sequence[Decision],
    elements: Iterable[CountedElement],
    placeholders: Sequence[CountedPlaceholders | None],
) -> Iterator[ResultTokens]:
    """Yield what is left of each tool result that was decided on: of all, in order, or of none."""
    contents = (tokens for element in elements for tokens in element.results)
    for decision, whole, found in zip(decisions, contents, placeholders, strict=False):
        at, reason = decision.result.element, decision.reason
        if reason == "dropped":
            yield ResultTokens(at, whole, 0, 0)
        elif reason == "already_masked":
            yield ResultTokens(at, whole, whole, whole)
        elif found:
            left = whole - found.replaced + found.placeholders
            yield ResultTokens(at, whole, left, min(left, found.placeholders))
        else:
            yield make(ResultTokens, (at, whole, whole, 0))


def find_marked(conversation: Conversation) -> Iterator[int]:
    """Yield the places of the pieces of a request that end with a cache mark.

    If the list has a mark that stands on none of its elements, the last one is marked.
    """
    return _find_marked(conversation, map(is_marked, conversation.items))


def _find_marked(conversation: Conversation, are_marked: Iterable[bool]) -> Iterator[int]:
    marks = conversation.marks
    if marks.in_head:
        yield 0
    if marks.in_list:
        found = [at for at, element_is_marked in enumerate(are_marked, 1) if element_is_marked]
        yield from found or [len(conversation.items)]


def digest_head(conversation: Conversation) -> bytes:
    """Return the digest of what stands before a request's list."""
    wire, body = conversation.wire, conversation.body
    return digest_of([wire.find_tools(body), *wire.find_head_texts(body)])


class MaskedPieces(NamedTuple):
    """The pieces of a masked prompt, and for each decision what its placeholders come to."""

    pieces: list[Piece]
    placeholders: list[CountedPlaceholders | None]


def mask_pieces(
    pieces: Sequence[Piece],
    decisions: Iterable[Decision],
    known: Sequence[Known],
    counter: TokenCounter,
) -> MaskedPieces:
    """Mask all in a prompt that the decisions replace; `known` is what is known of its elements.

    The first of the pieces is what stands before the list.
    """
    masked, counts = [*pieces], list[CountedPlaceholders | None]()
    for decision in decisions:
        if not decision.replacements:
            counts.append(None)
            continue
        at = decision.result.element
        digest, tokens, *others = masked[at + 1]
        found = count_placeholders(known[at], decision, digest, counter)
        tokens += found.placeholders - found.replaced
        masked[at + 1] = make(Piece, (found.digest, tokens, *others))
        counts.append(found)
    return MaskedPieces(masked, counts)
