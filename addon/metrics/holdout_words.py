"""The hold-out in words: the same on the page as in `obsmask status`."""

from collections.abc import Iterator
from typing import NamedTuple

from addon.metrics.holdout import LEAST, Difference, Holdout


class ComparedMeasure(NamedTuple):
    """A measure of a conversation, on average; `verdict` is empty where there are too few."""

    name: str
    masked: str
    held_out: str
    verdict: str

    def __str__(self) -> str:
        verdict = f" ({self.verdict})" if self.verdict else ""
        return f"{self.name} in each: {self.masked} masked, {self.held_out} held out{verdict}"


class Comparison(NamedTuple):
    """Both groups: how many conversations they have, and each measure of them."""

    counts: str
    measures: tuple[ComparedMeasure, ...]


NOTE = "agents repeat calls without masking, too: what is held out shows how often"


def describe_groups(holdout: Holdout) -> Comparison | None:
    """Return both groups in words; None if one of them is empty."""
    compared = holdout.compare()
    if not compared:
        return None
    counted = compared["requests"]
    held_out, masked = counted.held_out.conversations, counted.masked.conversations
    few = "" if counted.is_told else f", too few to tell: {LEAST} of each are the least"
    return Comparison(
        f"{held_out:,} of {held_out + masked:,} conversations{few}",
        tuple(_compare(name, difference) for name, difference in compared.items()),
    )


def list_lines(holdout: Holdout) -> Iterator[str]:
    """Yield the same, line by line."""
    if (told := describe_groups(holdout)) is not None:
        yield told.counts
        yield from map(str, told.measures)
        yield NOTE


_FORMS = {"dollars": "${:,.4f}", "failures": "{:,.2f}", "re-reads": "{:,.2f}"}


def _compare(name: str, difference: Difference) -> ComparedMeasure:
    form = _FORMS.get(name, "{:,.1f}")
    masked, held_out = (form.format(mean.mean) for mean in difference)
    chance = "more than chance" if difference.is_telling else "may be chance"
    return ComparedMeasure(name, masked, held_out, chance if difference.is_told else "")
