"""A request as a prefix cache sees it: tool schemas, then the elements, piece by piece."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from masking.accounting.composition import compose
from masking.accounting.counted import count_element, count_placeholders
from masking.accounting.pieces import (
    CountedElements,
    make_head_piece,
    read_elements,
    read_head,
)
from masking.accounting.prefix_cache import Piece
from masking.accounting.replaced import Replaced, replace_results
from masking.known import Known
from masking.measures.tokens import TokenCounter
from masking.model import Decision, make
from masking.rewrite import Rewrite


class Comparison(NamedTuple):
    """A prompt before and after masking, in estimated tokens.

    altered: how many pieces there are up to the last one that differs.
    left, squares: of the pieces that differ, the tokens after masking, and the squares of what each
        of them lost, summed up.
    """

    tokens_before: int
    tokens_after: int
    altered: int = 0
    left: int = 0
    squares: int = 0


class ResultSizes(NamedTuple):
    """All tool results that were decided on: their tokens, their code points, and their images."""

    tokens_before: int = 0
    tokens_after: int = 0
    chars_before: int = 0
    chars_after: int = 0
    masked_images: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The pieces of a request before and after masking, in estimated tokens; the tools first.

    Both are the same object if nothing is masked. `parts` are the tokens by part, after masking.
    """

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    compared: Comparison
    results: ResultSizes
    parts: Mapping[str, int]

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the whole prompt as the client wrote it."""
        return self.compared.tokens_before

    @property
    def tokens_after(self) -> int:
        """The same, masked."""
        return self.compared.tokens_after

    @property
    def altered(self) -> int:
        """How many pieces there are up to the last one that is masked."""
        return self.compared.altered


def make_prompt(before: Sequence[Piece], after: Sequence[Piece]) -> Prompt:
    """Return a prompt of which nothing but its pieces is known."""
    compared = compare(before, after)
    return Prompt(
        before=tuple(before),
        after=tuple(after),
        compared=compared,
        results=ResultSizes(),
        parts={},
    )


def read_prompt(rewrite: Rewrite, counter: TokenCounter) -> Prompt:
    """Return the prompt of a request, as it came and as it left. A wrong type has no tokens.

    What is remembered of the request before is not looked at again.
    """
    conversation, edits = rewrite.conversation, rewrite.edits
    head = read_head(conversation, counter)
    counted = read_elements(conversation, counter)
    replaced = replace_results(
        counted, rewrite.decisions, conversation.known, counter, conversation.history
    )
    first = make_head_piece(conversation, head)
    before = after = (first, *counted.pieces)
    if replaced.pieces:
        masked = [*counted.pieces]
        for at, piece in replaced.pieces.items():
            masked[at] = piece
        after = (first, *masked)
    inserted = None
    if edits.moves:
        order = edits.order(len(counted.pieces))
        inserted = _read_inserted(rewrite, counter) if None in order else None
        moved = [inserted if at is None else after[at + 1] for at in order]
        after = (first, *(piece for piece in moved if piece is not None))
        compared = compare(before, after)
    else:
        whole = first.tokens + counted.tokens
        altered = max(replaced.pieces, default=-2) + 2  # the first piece, and those up to it
        compared = Comparison(
            whole, whole + replaced.tokens, altered, replaced.left, replaced.squares
        )
    return Prompt(
        before=before,
        after=after,
        compared=compared,
        results=_measure_results(rewrite.decisions, counted, replaced),
        parts=compose(rewrite, head, counted, replaced, inserted),
    )


def compare(before: Sequence[Piece], after: Sequence[Piece]) -> Comparison:
    """Compare two prompts piece by piece."""
    pairs = [*enumerate(zip(before, after, strict=False), 1)]
    changed = [(at, pair) for at, pair in pairs if pair[0] != pair[1]]
    altered = max((at for at, _ in changed), default=0)
    if len(before) != len(after):
        altered = max(len(before), len(after))
    return Comparison(
        tokens_before=sum([piece.tokens for piece in before]),
        tokens_after=sum([piece.tokens for piece in after]),
        altered=altered,
        left=sum(masked.tokens for _, (_, masked) in changed),
        squares=sum((whole.tokens - masked.tokens) ** 2 for _, (whole, masked) in changed),
    )


def _read_inserted(rewrite: Rewrite, counter: TokenCounter) -> Piece:
    """Return the element that a reduction inserts."""
    wire, item = rewrite.conversation.wire, rewrite.edits.inserted
    element = count_element(wire, Known(item, wire.read_element(item)), counter)
    return Piece(element.digest, element.tokens, element.blocks)


def _measure_results(
    decisions: Sequence[Decision], counted: CountedElements, replaced: Replaced
) -> ResultSizes:
    """Measure the tool results that were decided on: all, in order, or none."""
    count = len(decisions)
    tokens, chars = sum(counted.contents[:count]), sum(counted.chars[:count])
    dropped = [n for n, decision in enumerate(decisions) if decision[1] == "dropped"]
    return ResultSizes(
        tokens_before=tokens,
        tokens_after=tokens + replaced.contents - sum(counted.contents[n] for n in dropped),
        chars_before=chars,
        chars_after=chars + replaced.chars - sum(counted.chars[n] for n in dropped),
        masked_images=replaced.images,
    )


def mask_pieces(
    pieces: Sequence[Piece],
    decisions: Iterable[Decision],
    known: Sequence[Known],
    counter: TokenCounter,
) -> list[Piece]:
    """Mask all in a prompt that the decisions replace; `known` is what is known of its elements.

    The first of the pieces is what stands before the list.
    """
    masked = [*pieces]
    for decision in decisions:
        if decision.replacements:
            at = decision.result.element
            digest, tokens, *others = masked[at + 1]
            found = count_placeholders(known[at], decision, digest, counter)
            tokens += found.placeholders - found.replaced
            masked[at + 1] = make(Piece, (found.digest, tokens, *others))
    return masked
