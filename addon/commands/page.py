"""`obsmask page`: the live page of a proxy that is running."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import click

from addon.commands.diagnosis.proxies import DEFAULT, find_addresses
from addon.proxy.health_check import Address, check_health, read_address
from addon.shared.config_places import advise


@click.command("page")
@click.option(
    "--proxy",
    metavar="ADDRESS",
    help="The proxy; default: the one that this terminal's environment names, else 127.0.0.1:8080.",
)
@click.option("--print", "is_printed", is_flag=True, help="Print the address, and open nothing.")
def command(proxy: str | None, is_printed: bool) -> None:
    """Open the live page of a running proxy in your browser, and print its address.

    It shows what is masked and what that saves, while agents work.
    """
    url = find_page(_find_address(proxy, os.environ))
    print(url)
    if not is_printed and not open_page(url, os.environ):
        print("obsmask: no browser to open it with was found", file=sys.stderr)


def find_page(address: Address) -> str:
    """Return where the page of a proxy is. Raises RuntimeError if there is none."""
    try:
        health = check_health(address)
    except OSError:
        health = None
    if health is None:
        raise RuntimeError(
            f"no proxy with the addon answers at {address.url}: obsmask page --proxy ADDRESS"
        )
    if health.page is None:
        raise RuntimeError(explain_no_page(address, Path(health.config)))
    return health.page


def explain_no_page(address: Address, config: Path) -> str:
    """Return why a proxy under this configuration may have no page, and what to do."""
    return (
        f"the proxy at {address.url} has no page: its log says why. If it is switched off: "
        f"{advise(config).set({'page.enabled': True})}"
    )


def open_page(url: str, environment: Mapping[str, str]) -> bool:
    """Open an address in the user's browser, if there is a screen; no browser of the terminal."""
    has_screen = sys.platform in ("darwin", "win32") or any(
        environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return has_screen and webbrowser.open(url)


def _find_address(given: str | None, environment: Mapping[str, str]) -> Address:
    if given is None:
        return next(iter(find_addresses(environment)), DEFAULT)
    try:
        return read_address(given)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--proxy") from None
