"""`obsmask prices`: which prices hold for a host and a model, and a newer list of them."""

from pathlib import Path

import click

from addon.commands.options import config_options, open_config
from addon.commands.showing_prices import render_host, render_list
from addon.config import ConfigFile
from addon.metrics.uncached import read_uncached
from addon.proxy.base_urls import read_host
from addon.stored_prices import remove_stored, store_prices

_WHEN_IN_USE = "A proxy that is running has to be restarted to notice."


@click.command("prices")
@click.argument("host", required=False)
@click.argument("model", required=False)
@config_options
@click.option(
    "--update",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take a newer list: ours, or genai-prices' own.",
)
@click.option("--reset", is_flag=True, help="Go back to the shipped list.")
def command(
    host: str | None,
    model: str | None,
    config: str,
    changes: tuple[str, ...],
    update: Path | None,
    reset: bool,
) -> None:
    """Show which prices hold, and why: in general, or for a HOST and a MODEL.

    HOST is the name of a host, or a base URL, MODEL as in a request.
    """
    if update and reset:
        raise click.UsageError("--update and --reset exclude each other")
    if host and (update or reset):
        raise ValueError("--update and --reset take no host")
    if update:
        _store(update)
    elif reset:
        _reset()
    else:
        _show(host, model, open_config(config, changes))


def _store(file: Path) -> None:
    prices = store_prices(file)
    print(f"Stored: {prices.models:,} prices of {prices.date}. {_WHEN_IN_USE}")


def _reset() -> None:
    if remove_stored():
        print(f"Removed. {_WHEN_IN_USE}")
    else:
        print("Nothing to remove: the shipped list is in use.")


def _show(host: str | None, model: str | None, config: ConfigFile) -> None:
    settings = config.settings
    uncached = read_uncached(settings.metrics)
    if host is None:
        print(*render_list(settings, uncached, config.advice), sep="\n")
    else:
        if "://" in host:
            host = read_host(host) or host
        print(*render_host(settings, host, model, uncached, config.advice), sep="\n")
