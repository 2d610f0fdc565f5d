"""A row of the masking map: the reason of each tool result of a request, as a letter."""

import re
from collections.abc import Iterable, Mapping

from masking.reasons import REASONS, Reason

_LETTERS: Mapping[Reason, str] = {reason: info.letter for reason, info in REASONS.items()}
_RUN = re.compile(r"(.)\1+")


def spell_reasons(reasons: Iterable[Reason]) -> str:
    """Return a letter for each result, in order; runs of a letter as `12m`."""
    letters = "".join(map(_LETTERS.__getitem__, reasons))
    return _RUN.sub(lambda run: f"{len(run[0])}{run[1]}", letters)


def label_reasons() -> Mapping[str, tuple[Reason, str]]:
    """Return each reason by its letter, with its words: `in window: in one of the last ...`."""
    return {
        info.letter: (reason, f"{reason.replace('_', ' ')}: {info.sentence}")
        for reason, info in REASONS.items()
    }
