"""`obsmask proxy`: the proxy in the foreground."""

import contextlib
import errno
import os
import socket
import sys
import tempfile
from pathlib import Path

import click

from addon.commands.options import (
    MOST_PORTS,
    OBSERVE,
    PolicyCommand,
    observe_option,
    policy_options,
    read_proxy_arguments,
    whole_number,
)
from addon.places import describe_error
from addon.proxy.authorities import own_authority, upstream_bundle
from addon.proxy.server import HOST, Announcement, serve

_ELSEWHERE = ("--listen", "--mode", "-m", "-p")
"""The beginnings of mitmdump's own options for where it listens."""


@click.command("proxy", cls=PolicyCommand)
@click.option(
    "--port",
    type=whole_number(0, MOST_PORTS),
    default=8080,
    show_default=True,
    metavar="N",
    help="Port to listen on, at 127.0.0.1. 0 picks any free port.",
)
@click.option("--tag", default="", metavar="TEXT", help="Tag this proxy in the records.")
@observe_option
@policy_options
@click.argument("options", nargs=-1, metavar="[-- MITMDUMP'S OPTIONS]")
def command(port: int, tag: str, observe: bool, options: tuple[str, ...], **given: object) -> None:
    """Run the proxy in the foreground, until Ctrl-C.

    The proxy is mitmdump. It gets the options after --, for example: obsmask proxy -- -w out.flow
    """
    chosen = read_proxy_arguments(given, tag, (OBSERVE,) if observe else ())
    if not any(option.startswith(_ELSEWHERE) for option in options):
        _check_free(port)
    with contextlib.ExitStack() as undo:

        def find_spare(error: OSError) -> Path:
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="obsmask-"))
            place = f"Its certificates are in {folder} until the proxy ends"
            print(f"obsmask: {describe_error(error)}. {place}", file=sys.stderr)
            return Path(folder)

        if not any("confdir=" in option for option in options):
            own_authority()  # mitmproxy would leave half of one on a full disk
        bundle = upstream_bundle(find_spare=find_spare)
        serve(["--listen-port", str(port), *chosen, *options], bundle, Announcement())


def _check_free(port: int) -> None:
    """Raise RuntimeError, in our own words, if the proxy cannot listen on a port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = "is taken: --port 0 takes any free one"
        else:
            problem = os.strerror(error.errno) if error.errno else str(error)
        raise RuntimeError(f"port {port} of {HOST} {problem}") from None
