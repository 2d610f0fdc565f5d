"""`obsmask record`: a real agent, recorded against a provider that answers from a script."""

import sys
from pathlib import Path

import click
from rich.console import Console

from addon.commands.options import check_writable


@click.command("record")
@click.argument("agent")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def command(agent: str, out: Path) -> None:
    """Record AGENT against a scripted provider, and write OUT, a .flow file.

    AGENT is openai, qwen-code, ...; any other name lists them all. The agent is installed first,
    which takes minutes if it is not in a package manager's cache.
    """
    check_writable(out)
    working = f"{agent}: recording; to install a client can take minutes"
    console = Console(stderr=True)
    if not console.is_terminal:
        print(working, file=sys.stderr)
    with console.status(working):
        count = _record_agent(agent, out)
    print(f"{out}: {count} requests")


def _record_agent(agent: str, out: Path) -> int:
    """Return how many requests were recorded. The studio lies in the checkout, and in no wheel."""
    try:
        from addon.recordings.studio import clients, mcp_recorder, recorder
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("addon.recordings.studio"):
            raise
        raise RuntimeError(
            "record needs a checkout of the repository: an installed package has neither the "
            "clients nor the projects that they work on"
        ) from None
    if agent == clients.MCP_FILES:
        return mcp_recorder.record_mcp(out)
    return recorder.record(agent, out)
