"""`obsmask`: the command line."""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from addon.places import state_folder
from addon.proxy.host import print_any_character
from addon.proxy.process import ProxyProcess, open_log

_COMMANDS = {
    "run": "Run an agent behind a proxy of its own.",
    "demo": "Play a recorded session through the proxy, offline.",
    "env": 'Print a client\'s environment variables: eval "$(obsmask env)".',
    "doctor": "Check the setup and suggest fixes.",
    "config": "Show, create, edit or check the configuration.",
    "proxy": "Run the proxy in the foreground.",
    "ext-proc": "Run as the external processor of an Envoy.",
    "page": "Open the live page of a running proxy.",
    "replay": "Say what your sessions cost, and would have cost with masking.",
    "tune": "Find the best settings for your sessions.",
    "status": "Show what masking saved.",
    "recall": "Print a tool result that was masked.",
    "mcp": "Serve masked tool results to an agent over MCP.",
    "prices": "Show the prices of a model, and where they come from.",
    "scrub": "Replace all prose and secrets in a recording.",
}
"""The commands in the order of the help. Each is `command` in the module of its name."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


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
            state = state_folder()
            proxy = ProxyProcess(state, open_log(state))
            proxy.load()
    try:
        yield proxy
    finally:
        if proxy is not None:
            proxy.close()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="observation-masking", message="%(version)s")
def obsmask() -> None:
    """Observation masking for coding agents: run it, and see what it saves."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    0; 1 with one line on standard error; 2 if the call cannot be read; 130 after Ctrl-C.
    """
    print_any_character()
    try:
        code = obsmask.main(arguments, "obsmask", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        print("obsmask: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (OSError, ValueError, RuntimeError) as error:
        print(f"obsmask: {_describe(error)}", file=sys.stderr)
        return 1
    return int(code or 0)


def _describe(error: Exception) -> str:
    """Return an error as one line; the system's message follows the name of the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
