"""`obsmask env`: the environment variables that lead a client through the proxy."""

import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from addon.agents import AGENTS
from addon.commands.claude_code import find_places, plan_shell
from addon.commands.options import PolicyCommand
from addon.network import DEFAULT_URL, Address, read_address
from addon.proxy.authorities import user_bundle
from addon.proxy.base_urls import behind, read_server
from addon.proxy.environment import REPLACED, client_environment, take_back, values_before
from addon.proxy.health import Health, check_health

_PATIENCE = 2.0
"""In seconds, for a proxy to report its health."""


class Shell(NamedTuple):
    """The syntax in which a shell exports a variable, and unsets one."""

    export: Callable[[str, str], str]
    unset: Callable[[str], str]


def _quote_in_fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _quote_in_powershell(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


SHELLS: Mapping[str, Shell] = {
    "posix": Shell(
        lambda name, value: f"export {name}={shlex.quote(value)}", lambda name: f"unset {name}"
    ),
    "fish": Shell(
        lambda name, value: f"set -gx {name} {_quote_in_fish(value)};",
        lambda name: f"set -e {name};",
    ),
    "powershell": Shell(
        lambda name, value: f"$env:{name} = {_quote_in_powershell(value)}",
        lambda name: f"Remove-Item Env:{name} -ErrorAction SilentlyContinue",
    ),
}


def _read_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_proxy = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:  # the port is no number, or too large
        is_proxy = None
    if not is_proxy:
        raise click.BadParameter(f"expected a URL with a port, as http://127.0.0.1:8080: {text}")
    return text


@click.command("env", cls=PolicyCommand)
@click.option(
    "--proxy",
    type=_read_url,
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help="Where the proxy listens.",
)
@click.option(
    "--no-agent-setup",
    is_flag=True,
    help="For Claude Code, don't set ANTHROPIC_BASE_URL and ENABLE_TOOL_SEARCH.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Print the variables even if no proxy answers there.",
)
@click.option("--unset", is_flag=True, help="Print the commands that undo this.")
@click.option(
    "--shell",
    type=click.Choice([*SHELLS]),
    default="posix",
    show_default=True,
    help="Shell syntax to print.",
)
def command(proxy: str, no_agent_setup: bool, force: bool, unset: bool, shell: str) -> None:
    """Print the variables that lead a client to a running proxy.

    If no proxy answers there, print nothing and exit with 1: with these variables, every program
    would fail to connect.

    In the client's terminal: eval "$(obsmask env)"

    To undo that: eval "$(obsmask env --unset)"

    Variables that this replaces are listed on standard error.
    """
    syntax = SHELLS[shell]
    if unset:
        for name, before in take_back(os.environ).items():
            _print(syntax.unset(name) if before is None else syntax.export(name, before))
        return
    health, problem = _ask(proxy)
    if problem and not force:
        raise RuntimeError(
            f"{problem}: start one with obsmask proxy, or name another one with --proxy; --force "
            "prints the variables all the same"
        )
    if problem:
        print(f"obsmask: {problem}", file=sys.stderr)
    changes = {} if no_agent_setup else _plan(proxy, health)
    variables = client_environment(proxy, user_bundle(), os.environ, changes)
    _name_replaced(variables)
    for name, value in variables.items():
        _print(syntax.export(name, value))
    if sys.stdout.isatty():  # somebody reads it
        _name_options(read_address(proxy))


def _name_options(address: Address) -> None:
    """Say what leads agents to the proxy that read no variable with a base URL."""
    for agent in AGENTS:
        if agent.url_option:
            arguments, host, path = agent.url_option
            url = behind(address, read_server(host + path))
            arguments = tuple(each.format(url=url) for each in arguments)
            line = shlex.join([agent.program, *arguments])
            print(f"obsmask: with an API key and without the certificate: {line}", file=sys.stderr)


def _ask(proxy: str) -> tuple[Health | None, str | None]:
    """Return the health of a proxy, or else what is wrong there.

    A proxy that is reached over TLS says nothing of its health here: it is enough that it listens.
    """
    address = read_address(proxy)
    try:
        if urlsplit(proxy).scheme == "https":
            socket.create_connection(address, _PATIENCE).close()
            return None, None
        health = check_health(address, _PATIENCE)
    except OSError:
        return None, f"no proxy answers at {proxy}"
    return health, None if health else f"what answers at {proxy} is no proxy with the addon"


def _plan(proxy: str, health: Health | None) -> Mapping[str, str]:
    """Return the variables for claude-code; if there are none, print why."""
    address = read_address(proxy)
    plan = plan_shell(os.environ, find_places(os.environ), address, health)
    if not plan.variables:
        print(f"obsmask: {plan.line}", file=sys.stderr)
    return plan.variables


def _print(line: str) -> None:
    """Print a line as bytes: a shell reads it, whatever encoding a screen has."""
    click.echo(os.fsencode(line))


def _name_replaced(variables: Mapping[str, str]) -> None:
    """Name what was set before; nothing the second time, as it is ours then."""
    found = values_before(variables, os.environ)
    changed = [name for name, value in found.items() if value != variables[name]]
    if changed and REPLACED not in os.environ:
        print(f"obsmask: replaced, until env --unset: {', '.join(changed)}", file=sys.stderr)
