"""How commands print to a terminal, or to a file in its place."""

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from addon.commands.lines import fold
from masking.errors import printable

_FILE_WIDTH = 160
_UNBOUNDED = 10_000


def open_console() -> Console:
    """Return a console that prints complete tables even if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)


def print_text(console: Console, text: str) -> None:
    """Print a text without style; a terminal breaks it at its words, but no line of a command."""
    lines: list[str] = []
    for line in text.split("\n"):
        stays = line.startswith("obsmask ") or not console.is_terminal
        lines += [line] if stays else fold(line, console.width) or [""]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def make_table(columns: Sequence[str], *sections: Iterable[Sequence[str]], gap: int = 1) -> Table:
    """Return a table whose first column names the rows, and may be folded.

    gap: the blanks between two columns, beside the one that there always is.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False)
    table.add_column(columns[0], overflow="fold")
    for title in columns[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for rows in sections:
        for name, *cells in rows:
            table.add_row(Text(printable(name)), *cells)
        table.add_section()
    return table


def fits(
    table: Table,
    console: Console,
    options: ConsoleOptions,
    names: Sequence[str] = (),
    least_name: int = 0,
) -> bool:
    """Return whether a table fits a screen in one piece.

    The longest of the `names` in its first column may be folded to `least_name` characters.
    """
    unbounded = options.update(max_width=_UNBOUNDED)
    folded = max(0, max(map(cell_len, names), default=0) - least_name)
    return Measurement.get(console, unbounded, table).maximum - folded <= options.max_width
