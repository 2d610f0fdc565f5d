"""`obsmask status`: a row and a bar for each day, model, host, client, label or tag."""

from collections.abc import Iterable, Iterator
from datetime import date

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from addon.commands.status_groups import Groups
from addon.metrics.sums import BillSum
from addon.metrics.tally import Tally
from addon.metrics.tally_line import count_requests, find_form
from addon.request import one_line

MARKS = ("\N{FULL BLOCK}", "\N{LIGHT SHADE}")
ASCII_MARKS = ("#", "-")
"""What the two parts of a bar are made of."""

MIXED = "*"
"""Marks what is saved where the sum is not of all requests, or not of masked ones alone."""

_LEAST_WIDTH, _MOST_WIDTH = 12, 40
_GAP = 2
_HEADINGS = ("\nrequests", "\nfailed", "tokens\nsent", "not\nsent", "\nsaved")


def render_groups(groups: Groups, width: int, marks: tuple[str, str] = MARKS) -> Table:
    """Return a row for each group.

    A bar is as long as the tokens before masking, and its first part is what was sent. The bars
    take what is left of `width`, in characters; there are none where that is too little.
    """
    tallies = groups.sort()
    rows = [(_name(groups.by, key), *_describe(tally)) for key, tally in tallies]
    headings = (f"\n{groups.by}", *_HEADINGS)
    table = Table(box=SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
    table.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    columns = zip(headings, *rows, strict=True)
    left = min(_MOST_WIDTH, width - sum(_GAP + _measure(column) for column in columns) - _GAP)
    if has_bars := left >= _LEAST_WIDTH:
        sent, not_sent = marks
        table.add_column(f"\n{sent} sent {not_sent} not", no_wrap=True)
    longest = max((_find_size(tally) for _, tally in tallies), default=0)
    for (name, *cells), (_, tally) in zip(rows, tallies, strict=True):
        bars = [_render_bar(tally, left / max(1, longest), marks)] if has_bars else []
        table.add_row(Text(name), *cells, *bars)
    return table


def _measure(column: Iterable[str]) -> int:
    return max(cell_len(line) for cell in column for line in cell.split("\n"))


def _find_size(tally: Tally) -> int:
    return max(tally.tokens_before, tally.tokens_after)


def _render_bar(tally: Tally, scale: float, marks: tuple[str, str]) -> str:
    """Return a bar with `scale` characters for a token; one at least, if there are any tokens."""
    sent, size = (
        max(1, round(count * scale)) if count else 0
        for count in (tally.tokens_after, _find_size(tally))
    )
    return marks[0] * sent + marks[1] * (size - sent)


def _name(by: str, key: str | None) -> str:
    if key is None:
        return "no label" if by == "label" else "not known"
    return f"{date.fromisoformat(key):%a %d %b}" if by == "day" else one_line(key)


def _describe(tally: Tally) -> tuple[str, ...]:
    before, after = tally.tokens_before, tally.tokens_after
    return (
        f"{tally.count:,}",
        f"{tally.failed:,}",
        f"{after:,}",
        f"{1 - after / before:.0%}" if before else "",
        _render_saved(tally),
    )


def _render_saved(tally: Tally) -> str:
    """Return what was saved: in dollars, or as a share alone where no price is known."""
    is_priced = tally.dollars.requests > 0
    bill = tally.dollars if is_priced else tally.tokens
    if not bill.requests:
        return ""
    if not bill.is_telling:
        return "0" if bill.before == bill.after else "about 0"
    share = f"{bill.saved_share or 0:+.0%}"
    mark = "" if explain_mixed(tally) is None else MIXED
    return f"{_render_dollars(bill)} {share}{mark}" if is_priced else f"{share}{mark}"


def list_mixed(groups: Groups) -> Iterator[str]:
    """Yield what the marked amounts of the table are of, row by row."""
    for key, tally in groups.sort():
        if why := explain_mixed(tally):
            yield f"{MIXED} {_name(groups.by, key)}: {why}"


def explain_mixed(tally: Tally) -> str | None:
    """Return of which requests a row's amount is; None if that of all is one sum of masked ones."""
    said = []
    if tally.dollars.requests and tally.unpriced.requests:
        said.append(
            f"the amount is of {tally.dollars.requests:,} of {count_requests(tally.count)}; "
            "no price is known for the others"
        )
    observed = tally.requests["observed"]
    if 0 < observed < tally.count:
        all_ = count_requests(tally.count)
        said.append(f"{observed:,} of {all_} were only observed, and saved nothing")
    return "; ".join(said) or None


def _render_dollars(bill: BillSum) -> str:
    form = find_form(bill.before)
    return form.format(bill.saved) if bill.saved >= 0 else f"-{form.format(-bill.saved)}"
