"""Where tables are printed."""

from rich.console import Console

_FILE_WIDTH = 160


def open_console() -> Console:
    """Return a console whose tables are complete, too, where nobody watches."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)
