"""`obsmask mcp`: an MCP server over standard input and output, with the one tool `recall`."""

from pathlib import Path

import click

from addon.commands.options import config_options
from addon.commands.recall import folder_option, open_folder


@click.command("mcp")
@folder_option
@config_options
def command(folder: Path | None, config: str, changes: tuple[str, ...]) -> None:
    """Serve masked tool results to an agent over MCP (stdio).

    There is one tool, `recall`. The agent starts this itself, from its own configuration.

    Requires: pip install 'observation-masking[mcp]'
    """
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        raise RuntimeError(
            "obsmask mcp needs the package mcp: pip install 'observation-masking[mcp]'"
        ) from None
    kept = open_folder(folder, config, changes)
    server = FastMCP("observation-masking", log_level="WARNING")

    def recall(id: str) -> str:  # noqa: A002 - what the model is to call it
        """Return a tool result that was masked, by the id in the text that took its place."""
        return kept.read(id).decode("utf-8", "replace")

    server.tool()(recall)
    server.run()
