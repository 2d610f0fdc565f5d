"""Where tables are printed."""

from rich.console import Console

_FILE_WIDTH = 160


def open_console() -> Console:
    """Return a console that prints complete tables even if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)
