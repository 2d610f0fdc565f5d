"""What a text costs by the definition alone: the slow twin of `masking/tokens/estimate.py`."""

from masking.tokens.estimate import CLASSES, CONTINUATIONS, EDGE, FOLDED, ROWS, UNIT


def count_matches(text: str) -> list[int]:
    """Return how often the patterns of each row are found in a text, each counted by itself."""
    letters = EDGE + text.encode("utf-8", "surrogatepass").translate(CLASSES, CONTINUATIONS)
    for run, letter in FOLDED:
        letters = letters.replace(run, letter)
    layers = {row.layer: letters.translate(row.layer) for row in ROWS}
    return [sum(map(layers[row.layer].count, row.patterns)) for row in ROWS]


def compute_cost_plainly(text: str) -> int:
    """Return what a text costs in thousandths of a token: 0 for "", else one token or more."""
    total = sum(row.cost * found for row, found in zip(ROWS, count_matches(text), strict=True))
    return max(UNIT, total) if text else 0
