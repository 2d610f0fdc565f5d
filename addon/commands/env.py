"""`obsmask env`: the variables that lead a client through the proxy."""

import os
import shlex
from urllib.parse import urlsplit

import click

from addon.proxy.authorities import user_bundle
from addon.proxy.environment import client_environment


def _read_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_proxy = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:  # the port is no number, or too large
        is_proxy = None
    if not is_proxy:
        raise click.BadParameter(f"expected a URL with a port, as http://127.0.0.1:8080: {text}")
    return text


@click.command("env")
@click.option(
    "--proxy",
    type=_read_url,
    default="http://127.0.0.1:8080",
    show_default=True,
    metavar="URL",
    help="Where the proxy listens.",
)
def command(proxy: str) -> None:
    """Print the variables by which a client finds the proxy and trusts it.

    In the terminal where the client is to run: eval "$(obsmask env)".
    """
    for name, value in client_environment(proxy, user_bundle()).items():
        # As bytes: a shell reads them, whatever encoding a screen has.
        click.echo(os.fsencode(f"export {name}={shlex.quote(value)}"))
