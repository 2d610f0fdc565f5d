"""What was left out so that records cost no more than they may: counted, and each said once."""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from addon.metrics.record_file import Log

Kind = Literal["records", "sizes", "tokens", "answers"]
"""Requests without a record; records without sizes, tokens and cost; those without tokens and cost;
those without usage."""

_LINES: Mapping[Kind, str] = {
    "records": "requests come faster than they can be recorded: some leave no record",
    "sizes": "requests come faster than they can be measured: some records lack sizes and costs",
    "tokens": "counting the tokens of a request takes too long: some records lack tokens and costs",
    "answers": "an answer is too large, or too many wait, to be read for its usage",
}
_WORDS: Mapping[Kind, str] = {
    "records": "not recorded",
    "sizes": "not measured",
    "tokens": "whose tokens are not counted",
    "answers": "with an answer that is not read",
}


class LeftOut:
    """Counts what was left out, from any thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._counts: Counter[Kind] = Counter()
        self._lock = threading.Lock()

    def note(self, kind: Kind) -> None:
        """Count one; the first of its kind is a warning."""
        with self._lock:
            self._counts[kind] += 1
            is_first = self._counts[kind] == 1
        if is_first:
            self._log(logging.WARNING, _LINES[kind])

    def count(self, kind: Kind) -> int:
        """Return how many there were of a kind."""
        return self._counts[kind]

    def __str__(self) -> str:
        """What the totals of a run say about it; nothing if nothing was left out."""
        told = [f"{n} {_WORDS[kind]}" for kind, n in self._counts.most_common()]
        return f"; to bound their cost: {', '.join(told)}" if told else ""
