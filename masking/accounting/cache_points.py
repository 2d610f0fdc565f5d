"""Where a prompt can be read from a provider's cache, and up to where it is written to it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from masking.accounting.prefix_cache import CachePoints, Piece
from masking.measures.cache_rules import CacheRules


def find_points(
    pieces: Sequence[Piece], rules: CacheRules, marked: Iterable[int] | None = None
) -> CachePoints | None:
    """Return where a prompt of these pieces is read and written; None if anywhere.

    `marked` are the places of the marked pieces, if these are others than the pieces tell.
    """
    if rules.reads_at == "any prefix":
        return None
    if rules.reads_at == "request ends":
        return _find_ends(pieces, rules.lookback)
    if marked is None:
        marked = (at for at, piece in enumerate(pieces) if piece.is_marked)
    return _find_marks(pieces, tuple(at + 1 for at in marked), rules.lookback)


def find_writable(
    sizes: Sequence[int], points: CachePoints | None, rules: CacheRules
) -> int | None:
    """Return how many tokens of a prompt are read or written; None if all of them are.

    `sizes` are the tokens of its prefixes of 0, 1, 2, ... pieces.
    """
    if points is None:
        return None
    size = sizes[points.writes[-1]] if points.writes else 0
    return size if size >= rules.minimum else 0


def _find_ends(pieces: Sequence[Piece], lookback: int | None) -> CachePoints:
    """Return the ends of the latest requests, of which the last is the prompt's own."""
    ends = (*(at for at, piece in enumerate(pieces) if piece.begins_answer), len(pieces))
    return CachePoints(ends[-(lookback or 0) :], (len(pieces),))


def _find_marks(pieces: Sequence[Piece], marks: Sequence[int], lookback: int | None) -> CachePoints:
    """Return the marks, and what is within reach of one of them.

    A mark looks at so many blocks, its own the first of them.
    """
    blocks = [*accumulate((piece.blocks for piece in pieces), initial=0)]
    reads = {near for mark in marks for near in _find_near(blocks, mark, lookback)}
    return CachePoints(tuple(sorted(reads)), marks)


def _find_near(blocks: Sequence[int], mark: int, lookback: int | None) -> Iterator[int]:
    for at in range(mark, 0, -1):
        if lookback is not None and blocks[mark] - blocks[at] >= lookback:
            return
        yield at
