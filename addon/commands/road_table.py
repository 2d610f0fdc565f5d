"""The table at the end of a replay: what other roads would have cost, a row for each model."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from addon.commands.terminal import make_table, print_text
from addon.records.words import ROADS_PAGE, Currency, find_currency, render_error
from masking.accounting import Bill
from masking.roads import OPTIONAL_ROADS, Road


def print_roads(console: Console, rows: Sequence[tuple[str, Bill]]) -> None:
    """Print what other roads would have cost, with what each gives up; nothing if none is open.

    rows: what some requests cost with the settings at hand, by their name.
    """
    rows = [(name, bill) for name, bill in rows if bill.roads]
    roads = [road for road in OPTIONAL_ROADS if any(road.name in bill.roads for _, bill in rows)]
    if not roads:
        return
    print_text(console, "\nWhere the model binds its reasoning, other ways to save:")
    columns = ("model", "as set", *(road.name for road in roads))
    console.print(make_table(columns, [(name, *_list_cells(bill, roads)) for name, bill in rows]))
    for road in roads:
        gives_up = f"{road.gives_up[0].lower()}{road.gives_up[1:]}"
        line = f"{road.name}: {road.option}. Gives up: {gives_up}"
        console.print(line, highlight=False, markup=False)
    print_text(console, f"What each changes, and for whom it is: {ROADS_PAGE}")


def _list_cells(bill: Bill, roads: Sequence[Road]) -> Iterator[str]:
    """Yield what was paid, then what each road would have cost: `$1.02 (-22% ±1)`."""
    currency = find_currency(bill)
    paid = bill.shown.after
    yield currency.render_short(paid)
    for road in roads:
        beside = bill.roads.get(road.name)
        yield "" if beside is None else _render_cell(beside, paid, currency)


def _render_cell(beside: Bill, paid: float, currency: Currency) -> str:
    money = currency.choose(beside)
    if not money.is_certain:
        return "about the same" if money.saved else "the same"
    error = render_error(money.error / paid, "{:.0f}")
    return f"{currency.render_bare(paid - money.saved)} ({-money.saved / paid:+.0%}{error})"
