"""`obsmask proxy`: the proxy in the foreground, wherever the addon was installed from."""

import click

from addon.commands.options import PolicyCommand, override_options, read_overrides, whole_number
from addon.proxy.announcement import Announcement
from addon.proxy.config_file import ConfigFile, find_config
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
@override_options
@click.argument("options", nargs=-1, metavar="[-- MITMDUMP'S OPTIONS]")
def command(port: int, tag: str, config: str, options: tuple[str, ...], **given: object) -> None:
    """Start the proxy here, until Ctrl-C.

    It is mitmdump: what stands after -- is passed on to it, as in: obsmask proxy -- -w out.flow
    """
    path, overrides = find_config(config), read_overrides(given)
    ConfigFile(path, overrides)  # a mistake is said before anything starts
    settings = [("mask_config", path), ("mask_tag", tag), *(("mask_set", o) for o in overrides)]
    chosen = (part for name, value in settings for part in ("--set", f"{name}={value}"))
    serve(["--listen-port", str(port), *chosen, *options], Announcement())
