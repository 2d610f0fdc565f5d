"""`obsmask proxy`: the proxy in the foreground, wherever the addon was installed from."""

import click

from addon.commands.options import (
    OBSERVE,
    PolicyCommand,
    observe_option,
    policy_options,
    read_proxy_arguments,
    whole_number,
)
from addon.proxy.announcement import Announcement
from addon.proxy.serve import serve


@click.command("proxy", cls=PolicyCommand)
@click.option(
    "--port",
    type=whole_number(0),
    default=8080,
    show_default=True,
    metavar="N",
    help="Where to listen, on 127.0.0.1; 0 for any free port.",
)
@click.option("--tag", default="", metavar="TEXT", help="Note it in the records of this proxy.")
@observe_option
@policy_options
@click.argument("options", nargs=-1, metavar="[-- MITMDUMP'S OPTIONS]")
def command(port: int, tag: str, observe: bool, options: tuple[str, ...], **given: object) -> None:
    """Start the proxy here, until Ctrl-C.

    It is mitmdump: what stands after -- is passed on to it, as in: obsmask proxy -- -w out.flow
    """
    chosen = read_proxy_arguments(given, tag, (OBSERVE,) if observe else ())
    serve(["--listen-port", str(port), *chosen, *options], Announcement())
