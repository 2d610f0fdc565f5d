"""`obsmask page`: the live page of a proxy that is running, and the history of all sessions."""

import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import click

from addon.commands.doctor.proxies import find_addresses
from addon.commands.options import as_value
from addon.config import advise, locate_config
from addon.network import DEFAULT_ADDRESS, Address, read_address
from addon.page.history import History
from addon.page.server import PageServer
from addon.places import state_folder
from addon.proxy.health import find_health
from addon.records.file import RecordFile
from addon.records.sessions import list_running
from masking.config import PageSettings, Settings
from masking.errors import ConfigError, printable

_PATIENCE = 2.0
"""The seconds in which a proxy has to answer."""


@click.command("page")
@click.option(
    "--proxy",
    type=as_value(read_address),
    metavar="ADDRESS",
    help="Show the live page of this proxy. Default: the one that is running.",
)
@click.option("--print", "is_printed", is_flag=True, help="Only print the URL.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="If no proxy is running, serve the history on this port. Default: any free port.",
)
def command(proxy: Address | None, is_printed: bool, port: int) -> None:
    """Open the live page, or the history of all sessions.

    Opens it in your browser, and prints its URL. It shows what is masked and what that saves while
    agents work, and all earlier sessions. If a proxy is running, this is its page. If not, this
    command serves the history itself, until Ctrl-C.
    """
    url = find_page(proxy) if proxy else _find_running_page(os.environ)
    if url is not None:
        _show(url, is_printed=is_printed)
        return
    with serve_history(port) as url:
        _show(url, is_printed=is_printed)
        print(
            "obsmask: no running proxy shows its page; this is the history. Ctrl-C ends it",
            file=sys.stderr,
        )
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def _show(url: str, *, is_printed: bool) -> None:
    print(url, flush=True)
    if not is_printed and not open_page(url, os.environ):
        print("obsmask: found no browser to open it", file=sys.stderr)


@contextlib.contextmanager
def serve_history(port: int = 0) -> Iterator[str]:
    """Serve the page of the history alone, on loopback; give its address. Raises OSError."""
    history = History(state_folder, _find_records)

    def log(level: int, line: str) -> None:
        print(f"obsmask: {line}", file=sys.stderr)

    server = PageServer(PageSettings(port=port), None, log, history)
    try:
        yield server.url
    finally:
        server.close()


def _find_records() -> Path:
    """Return where the configuration has records go. Raises RuntimeError without a home."""
    try:
        settings = locate_config("").open().settings
    except ConfigError:  # the history is there all the same
        settings = Settings()
    return RecordFile(settings.metrics).path


def find_page(address: Address) -> str:
    """Return where the page of a proxy is. Raises RuntimeError if there is none."""
    health = find_health(address)
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


def _find_running_page(environment: Mapping[str, str]) -> str | None:
    """Return the page of a proxy that runs; None if none does, or none that does has a page.

    It is the one that the environment names, or that runs at the usual address; else the latest to
    start, whose page leads to the others, which are printed.
    """
    named = next(iter(find_addresses(environment)), None)
    for address in filter(None, (named, DEFAULT_ADDRESS)):
        if find_health(address, _PATIENCE) is not None:
            try:
                return find_page(address)
            except RuntimeError as error:
                print(f"obsmask: {error}", file=sys.stderr)
    running = {each.page: each for each in reversed(list_running(state_folder())) if each.page}
    pages = [*reversed(running.values())]  # the processes behind an Envoy have one page together
    if len(pages) > 1:
        print(f"obsmask: {len(pages)} proxies are running, the latest first:", file=sys.stderr)
        for each in pages:
            began = datetime.fromisoformat(each.began).astimezone()
            tag = f", {printable(each.tag)}" if each.tag else ""
            print(f"  since {began:%H:%M}: {each.page}  (run {each.run}{tag})", file=sys.stderr)
    return pages[0].page if pages else None
