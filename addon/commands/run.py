"""`obsmask run -- COMMAND`: an agent behind a proxy of its own, and what that came to."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from addon.commands.foreground import NOT_FOUND, NOT_RUNNABLE, run_foreground
from addon.commands.options import (
    OBSERVE,
    PolicyCommand,
    observe_option,
    policy_options,
    read_overrides,
    read_proxy_arguments,
)
from addon.commands.page import open_page
from addon.commands.run_session import OwnProxy, RunningProxy, Wishes
from addon.network import read_address
from addon.proxy.base_urls import read_server

_Value = TypeVar("_Value")

_CLIENT_CHANGES = 'websocket.mode="http"'
_AS_IT_IS = 'websocket.mode="pass"'


def _reading(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return what reads an option's value so that click tells its mistake in our words."""

    def convert(text: str) -> _Value:
        try:
            return read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return convert


@click.command("run", cls=PolicyCommand, context_settings={"allow_interspersed_args": False})
@click.option("-q", "--quiet", is_flag=True, help="Print nothing, at the start or at the end.")
@click.option("--tag", default="", metavar="TEXT", help="Note it in the records of this run.")
@click.option(
    "--client-changes",
    is_flag=True,
    help="Send every client of a WebSocket to HTTP, known or not, so that it is masked. One that "
    "speaks nothing else then fails.",
)
@click.option(
    "--as-it-is",
    is_flag=True,
    help="Change nothing about the client: claude-code gets no base URL, and no client of a "
    "WebSocket is sent to HTTP. What they send then mostly passes unmasked.",
)
@click.option(
    "--page",
    "shows_page",
    is_flag=True,
    help="Print where the live page of the proxy is, and open it in your browser.",
)
@click.option(
    "--reverse",
    type=_reading(read_server),
    metavar="URL",
    help="Also stand in front of this server by the clients' base URLs: for a local server, or for "
    "a client that takes no proxy.",
)
@click.option(
    "--proxy",
    "address",
    type=_reading(read_address),
    metavar="ADDRESS",
    help="Use this proxy, which is running, instead of one of its own.",
)
@observe_option
@policy_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def command(command: tuple[str, ...], quiet: bool, shows_page: bool, **given: object) -> int:
    """Run COMMAND, an agent, behind a proxy of its own; at the end say what was saved.

    claude-code is given a base URL of the proxy's; a line says so before it starts. COMMAND keeps
    the terminal, gets all signals, and its exit code is returned. Several may run at once. What is
    kept lies in the user's state directory.
    """
    if os.name != "posix":
        raise click.ClickException(
            "run needs Linux or macOS; elsewhere: obsmask proxy, obsmask env"
        )
    if shutil.which(command[0]) is None and not os.path.exists(command[0]):  # noqa: PTH110
        return _fail(command[0], "no such command", NOT_FOUND)
    with _open_session(command, given) as session:
        if session.plan and not quiet:
            print(f"obsmask: {session.plan.line}", file=sys.stderr)
        if shows_page:
            _show_page(session.page)
        try:
            code = run_foreground(session.command, session.environment, session.notice_end)
        except OSError as error:
            return _fail(command[0], error.strerror or str(error), NOT_RUNNABLE)
        line = session.finish()
    if not quiet:
        print(f"obsmask: {line}", file=sys.stderr)
    return code


def _open_session(command: tuple[str, ...], given: Mapping[str, Any]) -> OwnProxy | RunningProxy:
    changes, as_it_is = given["client_changes"], given["as_it_is"]
    if changes and as_it_is:
        raise click.UsageError("--as-it-is and --client-changes exclude each other")
    if given["address"] is None:
        overrides = (_CLIENT_CHANGES, changes), (_AS_IT_IS, as_it_is), (OBSERVE, given["observe"])
        more = [override for override, is_wanted in overrides if is_wanted]
        return OwnProxy(
            Wishes(
                command=command,
                arguments=read_proxy_arguments(given, given["tag"], more),
                reverse=given["reverse"],
                changes_client=changes,
                as_it_is=as_it_is,
            )
        )
    if (
        changes
        or read_overrides(given)
        or any(given[name] for name in ("config", "tag", "reverse", "observe"))
    ):
        raise click.UsageError(
            "--proxy takes no settings, tag or server: those are the proxy's own"
        )
    return RunningProxy(given["address"], command, as_it_is=as_it_is)


def _show_page(url: str | None) -> None:
    """Open the page before the command has the terminal."""
    if url is None:
        print("obsmask: the proxy has no page; its log says why", file=sys.stderr)
        return
    print(f"obsmask: page: {url}", file=sys.stderr)
    open_page(url, os.environ)


def _fail(command: str, problem: str, code: int) -> int:
    print(f"obsmask: {command}: {problem}", file=sys.stderr)
    return code
