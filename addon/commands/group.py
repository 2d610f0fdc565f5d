"""The commands of `obsmask`, each loaded when it is used."""

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from addon.commands.lines import say
from addon.places import describe_error
from addon.proxy.host import print_any_character
from addon.proxy.process import ProxyProcess, RunFolder
from addon.version import VERSION

_COMMANDS = {
    "run": "Run an agent behind its own proxy, and print what masking saved.",
    "demo": "Play a recorded session of an agent through the proxy, offline.",
    "env": "Print the variables that lead a client to a running proxy.",
    "doctor": "Check the setup and suggest fixes.",
    "config": "Show, create, change, or check the configuration.",
    "proxy": "Run the proxy in the foreground, until Ctrl-C.",
    "ext-proc": "Run as an Envoy external processor, until Ctrl-C.",
    "page": "Open the live page, or the history of all sessions.",
    "replay": "Show what past sessions cost, and would have cost with masking.",
    "tune": "Find better settings for your sessions.",
    "status": "Show what masking saved: requests, tokens, money, and failures.",
    "recall": "Print a masked tool result, by the ID in its placeholder.",
    "mcp": "Serve masked tool results to an agent over MCP (stdio).",
    "prices": "Show a model's prices and their source.",
    "scrub": "Anonymize a recording: replace all prose and secrets.",
}
"""The commands in the order of the reference, each with the first line of its own help. Each is
`command` in the module of its name."""

_GROUPS = {
    "Every day": ("run", "status", "page", "replay", "doctor"),
    "Set up": ("demo", "config", "tune", "prices"),
    "Serve": ("proxy", "env", "ext-proc", "mcp"),
    "Look closer": ("recall", "scrub"),
}
"""The commands in the order of the help, by heading."""


class _Commands(click.Group):
    """Imports a command only when it is used: most of them take long to load."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # What is loaded stays. The collector would look for garbage in it, several times.
        gc.disable()
        found: click.Command = import_module(f"addon.commands.{cmd_name.replace('-', '_')}").command
        gc.enable()
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "run" and not ctx.resilient_parsing:
            ctx.obj = ctx.with_resource(_load_proxy(args[1:]))
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))  # the same column under every heading
        for heading, names in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), _COMMANDS[name]) for name in names])


@contextlib.contextmanager
def _load_proxy(words: Sequence[str]) -> Iterator[ProxyProcess | None]:
    """Let the proxy of `run` load, while this process loads `run` itself and reads the words.

    None if the words look as if they asked for something else than a proxy, or for one in a network
    of its own, or if it cannot be started: `run` then starts it, or says why not.
    """
    options = words[: words.index("--")] if "--" in words else words
    is_needed = words and not any(
        word in ("-h", "--help", "--transparent") or word.startswith("--proxy") for word in options
    )
    proxy = None
    if is_needed and os.name == "posix":
        with contextlib.suppress(OSError, RuntimeError):
            proxy = ProxyProcess(RunFolder())
            proxy.load()
    try:
        yield proxy
    finally:
        if proxy is not None:
            proxy.close()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="%(version)s")
def obsmask() -> None:
    """Cut the input cost of coding agents: old tool results become placeholders.

    For example: obsmask run -- claude

    Documentation: README.md and the docs folder of the source.
    """


LINE_IS_ENDED = "the line of ^C is ended"


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as `main` does.

    Raises KeyboardInterrupt, with `LINE_IS_ENDED` if what follows ^C begins on a line of its own.
    """
    print_any_character()
    try:
        code = obsmask.main(arguments, "obsmask", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt(LINE_IS_ENDED) from None
    except (OSError, ValueError, RuntimeError) as error:
        say(describe_error(error))
        return 1
    return int(code or 0)
