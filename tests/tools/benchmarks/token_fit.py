"""How the costs of `masking/tokens/estimate.py` are fitted, and how near the shipped ones are.

`python -m tests.tools.benchmarks.token_fit [FILES]`, with the extra `lab`: FILES are gzipped JSON
lines with `messages`. It prints each row's shipped cost beside a fitted one, and the errors of
both on texts that were not fitted to.

The model is linear: a text costs the sum of its rows' matches, each times the row's cost. So the
costs are those of the least squares of the relative errors, against o200k_base's exact counts of
the made-up kinds, the pages and sources of this checkout, and FILES. Texts are cut to pieces of
1,024 characters, as long as what is measured whole. Odd pieces are fitted to, even ones are not.

The conversations to which the shipped costs were fitted are not part of this checkout, nor is the
weight that each kind of text had. So no run prints the shipped costs again: rows that occur
together, such as "a word" and "a letter", share their cost in more ways than one. What a run shows
is how much nearer other costs could be on these texts: with 52 and 22 published conversations as
FILES, the shipped costs are off by 5.5% a piece and 0.5% in all, and fitted ones by 4.4% and 0.6%.
Without FILES it is 4.4% and 0.6%, and 3.5% and 0.5%. Other costs would move every boundary by a
little, for a percent: the shipped ones stay until o200k is no longer what is estimated.
"""

import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import lsq_linear

from masking.tokens import TokenCounter
from masking.tokens.estimate import ROWS, UNIT, compute_cost
from tests.support.kinds import KINDS, make_text
from tests.support.places import ROOT
from tests.support.plain_cost import count_matches
from tests.tools.benchmarks.token_estimate import read_texts

PIECE = 1_024
CHARS_PER_KIND = 60_000

LEAST = -700
"""No match takes more than this off: a word that follows a sign costs less, but not nothing."""

BOUNDS: dict[str, tuple[int, int]] = {
    "a letter": (50, 2_000),
    "two tabs": (100, 2_000),
    "four signs of a rule": (100, 2_000),
    "sixteen signs of a rule": (200, 4_000),
    "a second sign": (100, 2_000),
    "a sign beyond ASCII": (50, 2_000),
    "a letter of Greek, Cyrillic, Hebrew or Arabic": (150, 2_000),
    "a letter of Devanagari or Thai": (350, 2_000),
    "a Hangul syllable": (450, 2_000),
}
"""What keeps a run of any class from costing nothing: the rows that match again and again in it."""

KNOWN = "digits, three at most"
"""The row that is not fitted: o200k makes one token of three digits, whatever they are."""

FEWEST = 30
"""A row that matches less often in all texts keeps the cost that it has."""


def collect_pieces(files: Iterable[Path]) -> list[str]:
    """Return the texts to fit to, in pieces: made-up ones, this checkout's, and those of files."""
    pages = (*ROOT.glob("docs/**/*.md"), *ROOT.glob("masking/**/*.py"), *ROOT.glob("addon/**/*.js"))
    texts = [make_text(kind, CHARS_PER_KIND) for kind in KINDS]
    texts += [page.read_text("utf-8") for page in sorted(pages)]
    texts += {text for file in files for talk in read_texts(file) for text in talk}
    cut = (text[at : at + PIECE] for text in texts for at in range(0, len(text), PIECE))
    return sorted({piece for piece in cut if piece.strip()})


def fit(matches: Sequence[Sequence[int]], exact: Sequence[float]) -> list[int]:
    """Return the cost of each row that fits best, in thousandths of a token."""
    found = np.array(matches, dtype=float)
    counts = np.array(exact, dtype=float)
    costs = np.array([row.cost for row in ROWS], dtype=float)
    is_free = (found.sum(axis=0) >= FEWEST) & np.array([row.what != KNOWN for row in ROWS])
    bounds = np.array([BOUNDS.get(row.what, (LEAST, 10_000)) for row in ROWS], dtype=float)[is_free]
    # Divided by its exact count, each piece has the same say, and a residual is a relative error.
    rest = UNIT - found[:, ~is_free] @ costs[~is_free] / counts
    fitted = lsq_linear(found[:, is_free] / counts[:, None], rest, bounds=bounds.T)
    costs[is_free] = fitted.x
    return [round(cost) for cost in costs]


def render_errors(name: str, costs: Sequence[int], exact: Sequence[int]) -> str:
    """Return how far costs are off: of each piece in the mean and at p95, and all together."""
    errors = sorted(abs(cost / UNIT / count - 1) for cost, count in zip(costs, exact, strict=True))
    p95 = errors[int(0.95 * (len(errors) - 1))]
    total = sum(costs) / UNIT / sum(exact) - 1
    return (
        f"{name}: {statistics.fmean(errors):.1%} in the mean, {p95:.1%} at p95, {total:+.1%} in all"
    )


def main() -> None:
    counter = TokenCounter()
    pieces = collect_pieces(map(Path, sys.argv[1:]))
    exact = [counter.count(piece) for piece in pieces]
    matches = [count_matches(piece) for piece in pieces]
    costs = fit(matches[1::2], exact[1::2])

    print("| row | matches | shipped | fitted |")
    print("|---|--:|--:|--:|")
    for row, cost, found in zip(ROWS, costs, zip(*matches, strict=True), strict=True):
        print(f"| {row.what} | {sum(found):,} | {row.cost} | {cost} |")

    fitted = [
        max(UNIT, sum(cost * n for cost, n in zip(costs, found, strict=True)))
        for found in matches[::2]
    ]
    print(f"{len(fitted):,} pieces that were not fitted to:")
    print(render_errors("shipped", [compute_cost(piece) for piece in pieces[::2]], exact[::2]))
    print(render_errors("fitted", fitted, exact[::2]))


if __name__ == "__main__":
    main()
