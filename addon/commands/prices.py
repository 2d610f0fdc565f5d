"""`obsmask prices`: the prices of a host and a model, and a newer list of them."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from addon.commands.doctor.proxies import KNOWN_HOSTS
from addon.commands.options import config_options, open_config
from addon.commands.terminal import open_console, print_text
from addon.config import ConfigFile
from addon.config_commands import Advice
from addon.network import is_this_machine
from addon.proxy.base_urls import read_host
from addon.records.advice import read_uncached, render_uncached
from addon.stored_prices import remove_stored, store_prices
from masking.config import Settings
from masking.errors import printable
from masking.patterns import check_host, normalize_host
from masking.prices import OwnPrice, Pricing, find_pricing, open_list
from masking.wire import CACHE_MARK

_LIKE_A_HOST = re.compile(r"localhost|.*[:*].*|[\d.]+|.*\.[^\W\d_-]+\.?", re.IGNORECASE)
"""What has a port, or ends as an address or the name of a domain does."""

_WHEN_IN_USE = "A running proxy uses it after a restart."


@click.command("prices")
@click.argument("host", required=False)
@click.argument("model", required=False)
@config_options
@click.option(
    "--update",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use a newer price list: ours, or that of genai-prices.",
)
@click.option("--reset", is_flag=True, help="Go back to the built-in list.")
def command(
    host: str | None,
    model: str | None,
    config: str,
    changes: tuple[str, ...],
    update: Path | None,
    reset: bool,
) -> None:
    """Show a model's prices and their source.

    Without a HOST and a MODEL, shows the price list. HOST is a host name or a base URL; MODEL is
    the model's name as in a request. A model alone has the prices of its maker.
    """
    if update and reset:
        raise click.UsageError("--update and --reset exclude each other")
    if host and (update or reset):
        raise ValueError("--update and --reset take no host")
    if update:
        prices = store_prices(update)
        print(f"Stored: {prices.models:,} prices of {prices.date}. {_WHEN_IN_USE}")
    elif not reset:
        _show(host, model, open_config(config, changes))
    elif remove_stored():
        print(f"Removed. {_WHEN_IN_USE}")
    else:
        print("Nothing to remove: the built-in list is in use.")


def _show(host: str | None, model: str | None, config: ConfigFile) -> None:
    settings = config.settings
    uncached = read_uncached(settings.metrics)
    if host is None:
        print_text(open_console(), "\n".join(render_list(settings, uncached, config.advice)))
        return
    at: str | None = read_host(host) or host if "://" in host else host
    if model is None and at == host:
        if _is_model(settings, host):
            at, model = None, host
        elif not _LIKE_A_HOST.fullmatch(host):
            raise ValueError(
                f"no model in the price list is called {printable(host)}; for a host with a name "
                "like that, name the model, too"
            )
    lines = render_host(settings, at, model, uncached, config.advice)
    print_text(open_console(), "\n".join(lines))


def _is_model(settings: Settings, name: str) -> bool:
    """Whether a name is that of a known model, and of no known host."""
    as_host = find_pricing(settings.price_settings, name, None)
    as_model = find_pricing(settings.price_settings, None, name)
    return as_host.source == "assumed" and as_model.entry is not None


def render_list(settings: Settings, uncached: Sequence[str], advice: Advice) -> Iterator[str]:
    """Yield the price list, the user's own prices and what is assumed, line by line.

    `uncached` are hosts that seem to sell no cached tokens.
    """
    price_settings = settings.price_settings
    prices = open_list(price_settings.price_list)
    origin = (
        f"is {price_settings.price_list}" if price_settings.price_list else "came with the package"
    )
    yield (
        f"The price list is of {prices.date}, from {prices.source}: {prices.models:,} models of "
        f"{len(prices.providers)} providers. It {origin}."
    )
    yield f"cache_pricing = {json.dumps(price_settings.cache_pricing)}"
    yield from map(_render_own, price_settings.own)
    if price_settings.uncached:
        yield f"No cached tokens: {', '.join(price_settings.uncached)}"
    yield f"Where nothing is known, assumed: {_render_ratios(*price_settings.assumed)}"
    yield from (render_uncached(host, advice) for host in uncached)


def _render_own(price: OwnPrice) -> str:
    dollars = price.dollars_per_million
    given = "" if dollars is None else f", ${dollars:g} for a million plain tokens"
    ratios = _render_ratios(price.read, price.write)
    return f"Your own price of {price.model} at {price.host}: {ratios}{given}"


def render_host(
    settings: Settings,
    host: str | None,
    model: str | None,
    uncached: Sequence[str],
    advice: Advice,
) -> Iterator[str]:
    """Yield the prices of a host and a model, and where they come from, line by line.

    Without a host they are those of the model's maker. Raises ConfigError for what cannot be a
    host.
    """
    if host is not None:
        check_host(host, "HOST")
    pricing = find_pricing(settings.price_settings, host, model)
    at = "its maker" if host is None else host
    yield f"{model or 'A model of no known name'} at {at}: {_render_ratios(*pricing.ratios)}"
    yield _render_reason(pricing, open_list(settings.price_settings.price_list).date)
    if (plain := pricing.dollars_per_million) is not None:
        read, write = (ratio * plain for ratio in pricing.ratios)
        at = f", by {pricing.borrowed_from}'s price" if pricing.borrowed_from else ""
        yield f"A million tokens{at}: ${plain:.4g}, cached ${read:.4g}, written ${write:.4g}"
    for above, factor in pricing.steps:
        yield f"In a prompt of more than {above:,} tokens, every token costs {factor:g} times that"
    if (answers := pricing.answer_dollars_per_million) is not None:
        yield f"A million tokens of answers: ${answers:.4g}"
    for above, factor in pricing.answer_steps:
        yield f"After a prompt of more than {above:,} tokens, answers cost {factor:g} times that"
    rules = pricing.cache
    blocks = f", in blocks of {rules.block:,}" if rules.block > 1 else ""
    yield f"Assumed to be cached: prefixes of {rules.minimum:,} tokens or more{blocks}"
    if place := _READ_UP_TO.get(rules.reads_at):
        yield f"They are read up to {place.format(lookback=rules.lookback)}"
    if rules.long_write is not None and pricing.source != "config":
        yield f"A token that is written for an hour costs {rules.long_write:g}"
    if rules.needs_marks and pricing.source == "price list":
        yield f"Only if a request asks for it: without {CACHE_MARK} every token is a plain one"
    if settings.price_settings.slides:
        yield 'The window slides at every turn nevertheless: cache_pricing = "none"'
    if host is not None and pricing.read < 1 and normalize_host(host) in uncached:
        yield render_uncached(normalize_host(host), advice)
    if pricing.window is not None:
        yield f"Context window: {pricing.window:,} tokens, prompt and answer"
    if host is None:
        yield f"At another host: obsmask prices HOST {shlex.quote(model or 'MODEL')}"
    elif pricing.source == "assumed":
        if "." not in host and ":" not in host and not is_this_machine(host):
            # What may be a part of a known host's name.
            full = next((each for each in KNOWN_HOSTS if host.lower() in each), KNOWN_HOSTS[0])
            yield f"Is {host} in your own network? Other hosts have full names, as {full}"
        own = {"host": host, **({} if model is None else {"model": model})}
        prices = {"read": pricing.read, "write": pricing.write}
        none = "No dollars are known here. " if pricing.dollars_per_million is None else ""
        yield (
            f"{none}To set your own prices, with other numbers, and with dollars_per_million for "
            "plain input tokens:"
        )
        yield advice.add("prices", {**own, **prices})


_READ_UP_TO = {
    "marks": "a mark of an earlier request, {lookback} blocks before one of this request at most",
    "request ends": "the end of an earlier request, one of the latest {lookback}",
}
"""Where a prompt can be read from the cache, unless it is anywhere."""


def _render_reason(pricing: Pricing, date: str) -> str:
    entry = pricing.entry
    if pricing.source == "config":
        return "By the configuration" + ("" if entry is None else f"; on the list it is {entry}")
    if pricing.source == "price list":
        return f"By the price list of {date}: {entry}"
    reason = f"the list of {date} has no price for cached tokens of this model at this host"
    return f"Assumed: {reason}" if entry is None else f"Assumed, as for {entry}: {reason}"


def _render_ratios(read: float, write: float) -> str:
    return f"a cached token at {read:g} of a plain one, a written one at {write:g}"
