"""The parts of a page, as JSON: texts, tables, charts, the masking map, the moves of a boundary.

All words, counts and amounts are worked out here, so the scripts of every page only draw. Requests
and results count from 0 in what Python hands over, and from 1 in words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Literal, NamedTuple

from addon.counts import pluralize
from addon.records.words import Currency, find_currency, list_cost, list_saved
from masking.accounting import Bill, Move
from masking.model import REASONS, Reason

Part = Mapping[str, Any]
"""What `elements.js` draws by its `part`."""

Cell = str | Part
"""What a cell of a table says: a text, or what `cell` returns."""


def text(words: str, kind: Literal["", "note", "warning"] = "") -> Part:
    """Return a paragraph."""
    return {"part": "text", "text": words, "class": kind}


def title(words: str) -> Part:
    """Return a heading."""
    return {"part": "title", "text": words}


def legend(marks: Iterable[tuple[str, str]]) -> Part:
    """Return what each mark means; a mark is a colour of the style sheet, after its shape."""
    return {"part": "legend", "marks": [list(each) for each in marks]}


# Tables


class Column(NamedTuple):
    """A column: its heading, and its class.

    kind: `wide` or `roomy` if a narrow screen or a very narrow one leaves it out; `text` if it
        holds prose, `name` if the first one holds names of settings.
    """

    title: str
    kind: str = ""


def cell(words: str, *below: Cell, is_loss: bool = False, **drawn: object) -> Part:
    """Return what a cell says, and in small what there is to know of that.

    drawn: what `elements.js` draws there besides: where its link leads (`href`), a `mark`, a
        `pill`, a `bar` (a colour and a part of 1), a `spark` (numbers), or the moment of which it
        tells (`time`, or `times` for a line below), by the reader's clock.
    """
    return {"text": words, "below": below, "is_loss": is_loss, **drawn}


def cells_of(bill: Bill, amount: float, *, is_observed: bool) -> tuple[Cell, Cell]:
    """Return what requests cost, and what was saved, each with what there is to know of that.

    amount: of what the bill shows, masked or not. is_observed: as for `list_saved`.
    """
    money = bill.shown
    saved = list_saved(money, find_currency(bill), is_observed=is_observed) or ("",)
    is_loss = money.is_certain and money.saved < 0
    return cell(*(list_cost(bill, amount) or ("",))), cell(*saved, is_loss=is_loss)


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    foot: Sequence[Cell] = (),
) -> Part:
    """Return a table; the first cell of a row names it."""
    return {
        "part": "table",
        "caption": caption,
        "columns": [list(each) for each in columns],
        "rows": [list(each) for each in rows],
        "foot": list(foot),
    }


def more(summary: str, *parts: Part) -> Part:
    """Return parts that are drawn only for a reader who opens them."""
    return {"part": "more", "summary": summary, "parts": parts}


def figures(summary: str, caption: str) -> Part:
    """Return a table that is drawn when opened: what all charts say, request by request."""
    return {"part": "figures", "summary": summary, "caption": caption}


# Charts


class Series(NamedTuple):
    """What a chart draws of each request, and says of it.

    values: how high it is drawn. Bars are drawn over each other: first all, then a part of it.
    texts: what is said of it; empty where that is nothing.
    """

    name: str
    mark: str
    values: Sequence[float]
    texts: Sequence[str]
    kind: Literal["line", "bars", "days"] = "line"
    width: float = 2
    dash: tuple[int, ...] = ()


def chart(
    name: str,
    note: str,
    series: Sequence[Series],
    *,
    unit: str,
    render: Callable[[float], str],
    moves: Iterable[int] = (),
    days: Sequence[str] = (),
) -> Part:
    """Return a chart with a point or a bar for each request, or else for each of some days.

    unit, render: of the vertical axis, and how its values are written. moves: the requests at which
    the boundary moved. What a chart says of a request is found with the arrow keys, too.
    """
    values = [value for each in series for value in each.values]
    low, high = min(0.0, *values), max(0.0, *values)
    said = ", ".join(f"{each.name} {each.texts[-1]}".strip() for each in series if each.texts[-1])
    label = f"{note} At the last: {said}." if days else f"{name}. At the last request: {said}."
    return {
        "title": name,
        "note": note,
        "label": label,
        "unit": unit,
        "range": [low * 1.04, high * 1.04 or -low * 0.05 or 1],
        "ticks": [[value, render(value)] for value in _list_ticks(low, high)],
        "moves": list(moves),
        "days": list(days),
        "series": [each._asdict() for each in series],
    }


def charts(*drawn: Part, is_pair: bool = True) -> Part:
    """Return charts beside each other."""
    return {"part": "charts", "charts": drawn, "class": "row pair" if is_pair else "row"}


_TICKS = 5
_STEPS = (1, 2, 5, 10)


def _list_ticks(low: float, high: float) -> list[float]:
    """Return the round values between two, about as many as an axis has room for."""
    if not low < high:
        return [0.0]
    rough = (high - low) / _TICKS
    unit = 10.0 ** floor(log10(rough))
    step = next((each * unit for each in _STEPS if each * unit >= rough), 10 * unit)
    return [at * step for at in range(ceil(low / step), floor(high / step) + 1)]


def render_compact(count: float) -> str:
    """Return a count beside an axis: `20K`, `1.5M`."""
    for least, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(count) >= least:
            return f"{count / least:.3g}{letter}"
    return f"{count:.3g}"


def render_on_axis(currency: Currency) -> Callable[[float], str]:
    """Return how amounts of money are written beside an axis."""
    return currency.render_bare if currency.is_dollars else render_compact


# The masking map

Row = Sequence[tuple[int, Reason | str]]
"""What became of the tool results of a request, in run lengths."""


def masking_map(rows: Sequence[Row]) -> list[Part]:
    """Return what became of every tool result: a row for each request, a column for each result."""
    heading = title("What became of every tool result")
    columns = max((sum(count for count, _ in row) for row in rows), default=0)
    if not columns:
        return [heading, text("No request has a tool result.")]
    found = {reason for row in rows for _, reason in row}
    reasons = {
        name: f"{name.replace('_', ' ')}: {info.sentence}"
        for name, info in REASONS.items()
        if name in found
    }
    last = {name: sum(count for count, reason in rows[-1] if reason == name) for name in reasons}
    tally = ", ".join(
        f"{count:,} {reasons[name].partition(':')[0]}" for name, count in last.items() if count
    )
    size = (
        f"{pluralize(len(rows), 'request')}, a row each, the first at the top; "
        f"{pluralize(columns, 'tool result')}, a column each, the oldest at the left."
    )
    return [
        heading,
        legend(reasons.items()),
        {
            "part": "map",
            "rows": rows,
            "columns": columns,
            "reasons": reasons,
            "size": size,
            "tally": f"In the last request: {tally}.",
        },
    ]


# The moves of a boundary


_MOVES = (
    Column("At request"),
    Column("Results newly masked", "wide"),
    Column("Tokens taken out", "wide"),
    Column("Price"),
    Column("Paid off at request", "roomy"),
    Column("Saved since", "roomy"),
    Column("Net"),
)


def moves_of(moves: Sequence[Move], count: int, currency: Currency) -> list[Part]:
    """Return what the moves of a conversation of `count` requests cost and saved."""
    heading = title("Moves of the boundary")
    if not moves:
        return [heading, text("The boundary has not moved.")]
    unit = currency.name
    note = (
        "A move masks more results, so what follows them is written to the cache anew: that is its "
        f"price. Price, saved since and net are in {unit}, up to the last of "
        f"{pluralize(count, 'request')}."
    )
    total = Move(
        request=0,
        results=sum(move.results for move in moves),
        removed=sum(move.removed for move in moves),
        price=sum(move.price for move in moves),
        saved=sum(move.saved for move in moves),
    )
    rows = [(f"{move.request + 1:,}", *_tell(move, _say_when(move), currency)) for move in moves]
    foot = ("All", *_tell(total, "", currency))
    caption = "Moves of the boundary, and what they cost and saved"
    return [heading, text(note, "note"), table(caption, _MOVES, rows, foot)]


def _tell(move: Move, repaid: str, currency: Currency) -> tuple[Cell, ...]:
    return (
        f"{move.results:,}",
        f"{move.removed:,.0f}",
        currency.render_bare(move.price),
        repaid,
        amount(move.saved, currency),
        amount(move.net, currency),
    )


def _say_when(move: Move) -> str:
    if move.repaid_at is None or move.net < 0:
        return "not yet"
    return "at once" if move.repaid_at == move.request else f"{move.repaid_at + 1:,}"


def amount(value: float, currency: Currency) -> Cell:
    """Return an amount of money for a cell, marked where it is a loss."""
    words = currency.render_bare(value)
    return cell(words, is_loss=True) if words.startswith("-") else words
