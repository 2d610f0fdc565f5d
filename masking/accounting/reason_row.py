"""A row of the masking map: the reason of each tool result of a request, as a letter."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from masking.model import REASONS, Reason


def spell_reasons(reasons: Iterable[Reason]) -> str:
    """Return a letter for each result, in order; runs of a letter as `12m`."""
    letters = (REASONS[reason].letter for reason in reasons)
    runs = ((letter, len([*run])) for letter, run in groupby(letters))
    return "".join(f"{length if length > 1 else ''}{letter}" for letter, length in runs)


def label_reasons() -> Mapping[str, tuple[Reason, str]]:
    """Return each reason by its letter, with its words: `in window: in one of the last ...`."""
    return {
        info.letter: (reason, f"{reason.replace('_', ' ')}: {info.sentence}")
        for reason, info in REASONS.items()
    }
