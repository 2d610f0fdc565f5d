"""How commands print to a terminal, or to a file in its place."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table

_FILE_WIDTH = 160
_UNBOUNDED = 10_000


def open_console() -> Console:
    """Return a console that prints complete tables even if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)


def print_text(console: Console, text: str) -> None:
    """Print a text without style; the terminal breaks its lines, so that they can be copied."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


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
