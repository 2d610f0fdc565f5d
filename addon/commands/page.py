"""`obsmask page`: the live page of a proxy that is running."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import click

from addon.commands.doctor.proxies import find_addresses
from addon.config import advise
from addon.network import DEFAULT_ADDRESS, Address, read_address
from addon.places import state_folder
from addon.proxy.health import check_health
from addon.proxy.process import find_ports

_PATIENCE = 2.0
"""The seconds in which a proxy has to answer."""


@click.command("page")
@click.option(
    "--proxy",
    metavar="ADDRESS",
    help="The proxy; default: the one that this terminal's environment names, else 127.0.0.1:8080, "
    "else the one of a running obsmask run.",
)
@click.option("--print", "is_printed", is_flag=True, help="Only print the address.")
def command(proxy: str | None, is_printed: bool) -> None:
    """Open the live page of a running proxy in your browser, and print its address.

    The page shows what is masked, and what that saves, while agents work.
    """
    url = find_page(_read_address(proxy)) if proxy else _find_any_page(os.environ)
    print(url)
    if not is_printed and not open_page(url, os.environ):
        print("obsmask: found no browser to open it", file=sys.stderr)


def find_page(address: Address) -> str:
    """Return where the page of a proxy is. Raises RuntimeError if there is none."""
    try:
        health = check_health(address)
    except OSError:
        health = None
    if health is None:
        raise RuntimeError(
            f"no proxy with the addon answers at {address.url}. For another one: obsmask page "
            "--proxy ADDRESS, which its log names"
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


def _find_any_page(environment: Mapping[str, str]) -> str:
    """Return the page of the proxy that the environment names, or that runs at the usual address.

    Without one it is the page of an `obsmask run`. Raises RuntimeError if there is none, or if it
    is not clear which is meant.
    """
    named = next(iter(find_addresses(environment)), None)
    if named or _is_ours(DEFAULT_ADDRESS):
        return find_page(named or DEFAULT_ADDRESS)
    ports = dict.fromkeys(find_ports(state_folder()))
    running = [each for port in ports if _is_ours(each := Address(DEFAULT_ADDRESS.host, port))]
    if len(running) > 1:
        choice = ", ".join(f"{host}:{port}" for host, port in running)
        raise RuntimeError(
            f"several proxies are running, the latest first: {choice}. For the page of one: "
            "obsmask page --proxy ADDRESS"
        )
    return find_page(running[0] if running else DEFAULT_ADDRESS)


def _is_ours(address: Address) -> bool:
    try:
        return check_health(address, _PATIENCE) is not None
    except OSError:
        return False


def _read_address(given: str) -> Address:
    try:
        return read_address(given)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--proxy") from None
