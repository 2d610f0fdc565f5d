"""The studio: makes recordings of real clients at work on scratch projects.

`python -m tests.tools.studio CLIENT OUT.flow` records one against the scripted provider.
"""

import sys
from pathlib import Path

import click
from rich.console import Console

from addon.commands.options import check_writable
from tests.tools.studio.clients import MCP_FILES
from tests.tools.studio.mcp_recorder import record_mcp
from tests.tools.studio.recorder import record


@click.command()
@click.argument("client")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def command(client: str, out: Path) -> None:
    """Record CLIENT against the scripted provider, and write OUT, a .flow file.

    CLIENT is openai, qwen-code, ...; any other name lists them all. The client is installed first,
    which takes minutes if it is not in a package manager's cache.
    """
    working = f"{client}: recording; installing a client can take minutes"
    console = Console(stderr=True)
    if not console.is_terminal:
        print(working, file=sys.stderr)
    try:
        check_writable(out)
        with console.status(working):
            count = record_mcp(out) if client == MCP_FILES else record(client, out)
    except (OSError, ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from None
    print(f"{out}: {count} requests")


if __name__ == "__main__":
    command()
